package api

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// ErrSlowBody is a client that stopped sending in the middle of its body.
var ErrSlowBody = &Fault{Status: 408, Code: "request_timeout", Description: "The body came too slowly."}

// Lasting is an answer and a request that may take any time in all, while each
// piece of them has its time. Without it the server's own timeouts, which
// are meant for short answers, would cut a stream off.
type Lasting struct {
	http.ResponseWriter
	control *http.ResponseController
	piece   time.Duration

	mu      sync.Mutex
	writing bool
	ended   bool // the connection is another request's now
}

// NewLasting gives each piece so much time, for the client to take or send it. It
// takes the place of w, and of the request's body. Call End in the end.
func NewLasting(w http.ResponseWriter, r *http.Request, piece time.Duration) *Lasting {
	l := &Lasting{ResponseWriter: w, control: http.NewResponseController(w), piece: piece}
	l.bound(l.control.SetWriteDeadline, 0)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &lastingBody{ReadCloser: r.Body, l: l, shared: r.ProtoMajor >= 2}
	}
	return l
}

// bound gives the next piece its time; 0 takes the bound away. Where there is
// no connection to bound, as in a recorder, nothing needs to be.
func (l *Lasting) bound(deadline func(time.Time) error, d time.Duration) {
	at := time.Time{}
	if d != 0 {
		at = time.Now().Add(d)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		_ = deadline(at)
	}
}

func (l *Lasting) Write(p []byte) (int, error) {
	defer l.piecemeal()()
	return l.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController, and for the log, which is told the code of a refusal.
func (l *Lasting) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// FlushError is for http.ResponseController.
func (l *Lasting) FlushError() error {
	defer l.piecemeal()()
	return l.control.Flush()
}

// piecemeal gives what is written now its time, until it is called again.
func (l *Lasting) piecemeal() (done func()) {
	l.begins(true)
	l.bound(l.control.SetWriteDeadline, l.piece)
	return func() {
		l.bound(l.control.SetWriteDeadline, 0)
		l.begins(false)
	}
}

func (l *Lasting) begins(writing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = writing
}

// End bounds what net/http still writes after the handler. A transport may
// read the body even after that.
func (l *Lasting) End() {
	l.bound(l.control.SetWriteDeadline, l.piece)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// Cut breaks a piece off that is being written, and leaves an answer alone that is
// silent.
func (l *Lasting) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing && !l.ended {
		l.ended = true
		_ = l.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// lastingBody is read by the transport to the service. That asks once more
// after the end, when the answer may have begun and net/http have closed the
// body: to be told so would look like a broken one, and cut the answer off.
type lastingBody struct {
	io.ReadCloser
	l      *Lasting
	shared bool // the connection, by streams: a deadline then goes off also while nobody reads, as when the service pauses
	ended  bool
}

func (b *lastingBody) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	b.l.bound(b.l.control.SetReadDeadline, b.l.piece)
	n, err := b.ReadCloser.Read(p)
	if b.shared && err == nil {
		b.l.bound(b.l.control.SetReadDeadline, 0)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, ErrSlowBody
	}
	b.ended = err == io.EOF
	return n, err
}
