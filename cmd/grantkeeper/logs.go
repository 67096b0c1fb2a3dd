package main

import (
	"bufio"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// flushEvery is how long a log line may wait for others.
const flushEvery = 200 * time.Millisecond

// lines gathers log lines and writes them together: a system call for each
// would cost more than the request that it tells about.
type lines struct {
	mu     sync.Mutex
	buffer *bufio.Writer
	stop   chan struct{} // nil before Start
	done   chan struct{}
}

func newLines(w io.Writer) *lines {
	return &lines{buffer: bufio.NewWriterSize(w, 64<<10)}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

// Start writes what waits, every now and then. Before, lines wait for what
// must be printed first.
func (l *lines) Start() {
	l.stop, l.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(l.done)
		t := time.NewTicker(flushEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				l.Flush()
			case <-l.stop:
				return
			}
		}
	}()
}

// Flush writes what waits. A log that cannot be written stops nobody.
func (l *lines) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.buffer.Flush()
}

// Close writes what waits and ends what Start began.
func (l *lines) Close() {
	if l.stop != nil {
		close(l.stop)
		<-l.done
	}
	l.Flush()
}

// newLogger logs to w. format is auto, text or json; auto is text on a
// terminal. requests is for the gate: w where lines about requests can be
// written as JSON at once, nil where the logger has to be asked.
func newLogger(w io.Writer, level slog.Level, format string, terminal bool) (log *slog.Logger, requests io.Writer) {
	o := &slog.HandlerOptions{Level: level}
	if format == "text" || format == "auto" && terminal {
		return slog.New(slog.NewTextHandler(w, o)), nil
	}
	if level <= slog.LevelInfo {
		requests = w
	}
	return slog.New(slog.NewJSONHandler(w, o)), requests
}

// isTerminal reports whether a file is a character device, which for stderr
// is as good as a terminal.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
