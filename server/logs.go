package server

import (
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// flushEvery is how long a log line may wait for others.
const flushEvery = 200 * time.Millisecond

// linesMany are written without waiting for flushEvery; at linesFull whoever
// logs waits for the disk, so that memory stays bounded. Bytes.
const (
	linesMany = 64 << 10
	linesFull = 4 << 20
)

// How long somebody waits for a disk, and the end of the program for the last
// lines, until whoever should take the log is believed to have stopped: a pipe
// that is full and that nobody reads. From then on lines are left out, and
// counted, until it goes on.
const (
	linesWait = time.Second
	linesLast = 5 * time.Second
)

// Lines gather log lines and write them together: a system call for each
// would cost more than the request that it tells about.
type Lines struct {
	mu      sync.Mutex
	waiting []byte
	stuck   bool          // somebody has waited for linesWait, and nothing was written since
	left    int           // out, since then
	written chan struct{} // is closed when what is being written, is
	started bool
	telling bool // Missed is being told, by flush: it must not wait for itself

	// Missed, unless nil, is told how many lines were left out, to log it.
	Missed func(lines int)

	w     io.Writer // of flush alone, as is spare
	spare []byte

	wake chan struct{}
	stop chan struct{}
	done chan struct{}
}

// NewLines gives lines that are written to w from Start on.
func NewLines(w io.Writer) *Lines {
	return &Lines{
		w: w, waiting: make([]byte, 0, 2*linesMany), spare: make([]byte, 0, 2*linesMany),
		wake: make(chan struct{}, 1), written: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// Write takes one line.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	if l.stuck && len(l.waiting) >= linesFull {
		l.left++
		l.mu.Unlock()
		return len(p), nil
	}
	l.waiting = append(l.waiting, p...)
	n, written, waits := len(l.waiting), l.written, l.started && !l.telling
	l.mu.Unlock()
	if n < linesMany {
		return len(p), nil
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
	if n >= linesFull && waits {
		l.waitFor(written)
	}
	return len(p), nil
}

// waitFor waits until there is room again, but not for whoever has stopped.
func (l *Lines) waitFor(written <-chan struct{}) {
	t := time.NewTimer(linesWait)
	defer t.Stop()
	select {
	case <-written:
	case <-t.C:
		l.mu.Lock()
		l.stuck = l.written == written
		l.mu.Unlock()
	}
}

// Start writes what waits, every now and then. Before, lines wait for what
// must be printed first.
func (l *Lines) Start() {
	l.mu.Lock()
	l.started = true
	l.mu.Unlock()
	go func() {
		defer close(l.done)
		t := time.NewTicker(flushEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				l.flush()
			case <-l.wake:
				l.flush()
			case <-l.stop:
				l.flush()
				return
			}
		}
	}()
}

// flush writes what waits. Whoever logs meanwhile goes on: a slow disk holds up
// nobody before much has gathered. A log that cannot be written stops nobody.
func (l *Lines) flush() {
	l.mu.Lock()
	out := l.waiting
	l.waiting = l.spare[:0]
	l.mu.Unlock()
	if len(out) == 0 {
		l.spare = out
		return
	}
	_, _ = l.w.Write(out)
	l.spare = out
	l.mu.Lock()
	left := l.left
	l.stuck, l.left, l.telling = false, 0, left > 0
	close(l.written)
	l.written = make(chan struct{})
	l.mu.Unlock()
	if left == 0 {
		return
	}
	if l.Missed != nil {
		l.Missed(left)
	}
	l.mu.Lock()
	l.telling = false
	l.mu.Unlock()
}

// Close writes what waits and ends what Start began. It waits for linesLast at
// most.
func (l *Lines) Close() {
	l.mu.Lock()
	started := l.started
	l.mu.Unlock()
	if !started {
		l.flush()
		return
	}
	close(l.stop)
	select {
	case <-l.done:
	case <-time.After(linesLast):
	}
}

// NewLogger logs to w. format is auto, text or json; auto is text on a
// terminal. requests is for the gate: w where lines about requests can be
// written as JSON at once, nil where the logger has to be asked.
func NewLogger(w io.Writer, level *slog.LevelVar, format string, terminal bool) (log *slog.Logger, requests io.Writer) {
	o := &slog.HandlerOptions{Level: level}
	if format == "text" || format == "auto" && terminal {
		return slog.New(slog.NewTextHandler(w, o)), nil
	}
	return slog.New(slog.NewJSONHandler(w, o)), w
}

// HTTPLog is the output of a log.Logger that net/http writes to.
func HTTPLog(log *slog.Logger) io.Writer { return &serverLog{log: log} }

// serverLog takes what net/http says. Of strangers' connections that is seldom
// worth a line; that none can be accepted any more is.
type serverLog struct {
	log *slog.Logger

	mu     sync.Mutex
	warned time.Time
}

func (l *serverLog) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	if !strings.HasPrefix(text, "http: Accept error: ") {
		text, _, _ = strings.Cut(text, " starting with ") // what a service sent that nobody asked for
		l.log.Debug(text)
		return len(p), nil
	}
	l.mu.Lock()
	due := time.Since(l.warned) >= time.Minute
	if due {
		l.warned = time.Now()
	}
	l.mu.Unlock()
	if due {
		text, _, _ = strings.Cut(strings.TrimPrefix(text, "http: Accept error: "), "; retrying")
		l.log.Error("connections cannot be accepted", "err", text, "setting", "LimitNOFILE, ulimit -n")
	}
	return len(p), nil
}
