package main

import (
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// flushEvery is how long a log line may wait for others.
const flushEvery = 200 * time.Millisecond

// linesMany are written without waiting for flushEvery; at linesFull whoever
// logs waits for the disk, so that memory stays bounded. Bytes.
const (
	linesMany = 64 << 10
	linesFull = 4 << 20
)

// lines gathers log lines and writes them together: a system call for each
// would cost more than the request that it tells about.
type lines struct {
	mu      sync.Mutex // of waiting
	waiting []byte

	writing sync.Mutex // of spare and w, so that lines keep their order
	spare   []byte
	w       io.Writer

	wake chan struct{}
	stop chan struct{} // nil before Start
	done chan struct{}
}

func newLines(w io.Writer) *lines {
	return &lines{
		w: w, waiting: make([]byte, 0, 2*linesMany), spare: make([]byte, 0, 2*linesMany), wake: make(chan struct{}, 1),
	}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	l.waiting = append(l.waiting, p...)
	n := len(l.waiting)
	l.mu.Unlock()
	switch {
	case n >= linesFull:
		l.Flush()
	case n >= linesMany:
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return len(p), nil
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
			case <-l.wake:
				l.Flush()
			case <-l.stop:
				return
			}
		}
	}()
}

// Flush writes what waits. Whoever logs meanwhile goes on: a slow disk holds up
// nobody before much has gathered. A log that cannot be written stops nobody.
func (l *lines) Flush() {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	out := l.waiting
	l.waiting = l.spare[:0]
	l.mu.Unlock()
	_, _ = l.w.Write(out)
	l.spare = out
}

// Close writes what waits and ends what Start began.
func (l *lines) Close() {
	if l.stop != nil {
		close(l.stop)
		<-l.done
	}
	l.Flush()
}

// logTo lets the house log to w, whose lines end up in stderr.
func (h *house) logTo(w, stderr io.Writer) {
	f, isFile := stderr.(*os.File)
	h.level = levelVar(h.Level)
	h.log, h.requests = newLogger(w, h.level, h.Log.Format, isFile && isTerminal(f))
}

// newLogger logs to w. format is auto, text or json; auto is text on a
// terminal. requests is for the gate: w where lines about requests can be
// written as JSON at once, nil where the logger has to be asked.
func newLogger(w io.Writer, level *slog.LevelVar, format string, terminal bool) (log *slog.Logger, requests io.Writer) {
	o := &slog.HandlerOptions{Level: level}
	if format == "text" || format == "auto" && terminal {
		return slog.New(slog.NewTextHandler(w, o)), nil
	}
	return slog.New(slog.NewJSONHandler(w, o)), w
}

// isTerminal reports whether somebody sits at a file: /dev/null is none.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
