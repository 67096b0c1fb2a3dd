package gateway

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/identity"
)

// maxHeld is how much of a body is read, and signed, before the service is asked,
// in bytes: as much as every other body has at most (decision L5). Of a longer one
// the last byte is held back.
const maxHeld = 64 << 10

// askedAgain is for how long an answer goes on before the right is asked again.
const askedAgain = time.Second

// over carries, out of net/http, what the client is told instead of the
// service's answer.
type over struct{ error }

func (o over) Unwrap() error { return o.error }

// told is what the service was told of a request, and when the right to it was
// asked last.
type told struct {
	u       *Upstream
	request *http.Request
	rights  api.Rights
	asked   atomic.Pointer[time.Time]
	call    identity.Call // what is signed of it, but its target
	deed    *api.Deed     // for the record of what the client did
}

// stands asks whether the right still stands (decision B7), and is what the
// service was told.
func (t *told) stands() error { return t.still(t.rights, true) }

// answers is stands for the answer. What has changed something is not undone by
// hiding that, and may have changed the right itself: it has to stand alone.
func (t *told) answers() error { return t.still(t.given(), t.reads()) }

// given are the rights that the answer needs. Of a change that began in time the access token
// may have expired: a client that is told so would send it again.
func (t *told) given() api.Rights {
	if t.reads() {
		return t.rights
	}
	return t.rights.Outlasting()
}

// again is answers where the right was asked so long ago.
func (t *told) again(each time.Duration) error {
	if time.Since(*t.asked.Load()) < each {
		return nil
	}
	return t.answers()
}

func (t *told) reads() bool {
	return t.request.Method == http.MethodGet || t.request.Method == http.MethodHead
}

func (t *told) still(rights api.Rights, same bool) error {
	if err := t.u.API.Still(t.request.Context(), rights, same); err != nil {
		return over{api.Ended(err, !same)}
	}
	t.askedNow()
	return nil
}

// askedNow may be called while the request is still sent and is answered already.
func (t *told) askedNow() {
	now := time.Now()
	t.asked.Store(&now)
}

// upload is a body of which the service gets the end when the right to send it
// still stands.
type upload struct {
	*bufio.Reader
	io.Closer
	stands func() error
	whole  bool
	err    error
}

// hold reads a body to its end, or as much of it as is held.
func hold(body io.ReadCloser) (*upload, error) {
	b := &upload{Reader: bufio.NewReaderSize(body, maxHeld+1), Closer: body}
	_, err := b.Peek(maxHeld + 1)
	if b.whole = err == io.EOF; b.whole {
		err = nil
	}
	return b, err
}

// all gives the body where all of it is held.
func (b *upload) all() (text []byte, more bool) {
	if !b.whole {
		return nil, true
	}
	text, _ = b.Peek(b.Buffered())
	return text, false
}

func (b *upload) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if !b.whole {
		_, b.err = b.Peek(2)
		switch b.err {
		case nil:
			return b.Reader.Read(p[:min(len(p), b.Buffered()-1)])
		case io.EOF:
			if b.err = b.stands(); b.err == nil {
				b.whole = true
			}
		}
		if b.err != nil {
			return 0, b.err
		}
	}
	return b.Reader.Read(p)
}

// lengthy is an answer that goes on as long as the right to it stands.
type lengthy struct {
	io.ReadCloser
	told *told
	of   *http.Response
	each time.Duration
}

func (b *lengthy) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		if err := b.told.again(b.each); err != nil {
			return 0, err
		}
	}
	if err == io.EOF {
		onlyPassedBack(b.of.Trailer)
	}
	return n, err
}

// broken answers a body that did not come.
func (u *Upstream) broken(w http.ResponseWriter, err error) {
	if errors.Is(err, api.ErrSlowBody) {
		u.API.Answer(w, api.ErrSlowBody)
		return
	}
	u.API.Answer(w, &api.Fault{Status: 400, Code: "invalid_request", Description: "The body cannot be read."})
}
