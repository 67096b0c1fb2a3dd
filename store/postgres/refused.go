package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// RefusedFor is how long it is told that the database refused something, once it
// takes such things again.
const RefusedFor = time.Minute

// asks are the causes that a read meets too: nobody has to write before it is
// known that they are over.
var asks = map[string]bool{engine.NoRight: true, engine.NoTable: true, engine.Slow: true}

// causeOf says what is the matter with a database that gives such an error, or "".
func causeOf(err error) string {
	switch Code(err) {
	case "53100":
		return engine.FullDisk
	case "XX000": // a connection is the first since the server's start, or since a change of tables
		if strings.Contains(err.Error(), "could not write init file") {
			return engine.FullDisk
		}
	case "53200":
		return "it is out of memory"
	case "53300":
		return engine.NoConnection
	case "25006":
		return engine.ReadOnly
	case "42501":
		return engine.NoRight
	case "42P01", "3F000":
		return engine.NoTable
	case "55P03", "57014": // a lock was waited for, or the statement took too long
		return engine.Slow
	}
	if errors.Is(err, errNoFacts) {
		return engine.NoTable
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return engine.Slow
	}
	return ""
}

// refusals keeps the last one.
type refusals struct {
	mu   sync.Mutex
	last engine.Refused
}

// note keeps an error that has such a cause.
func (r *refusals) note(err error, now time.Time) {
	if cause := causeOf(err); cause != "" {
		r.mu.Lock()
		if cause != engine.Slow || r.last.Over || r.last.Cause == "" { // that may follow from what was said before
			r.last = engine.Refused{Cause: cause}
		}
		r.last.At = now
		r.mu.Unlock()
	}
}

// wrote says that something was written that takes room.
func (r *refusals) wrote() {
	r.mu.Lock()
	r.last.Over = true
	r.mu.Unlock()
}

// Refused is what was kept.
func (p *Engine) Refused() engine.Refused {
	r := &p.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	if (r.last.Over || asks[r.last.Cause]) && p.Options.Now().Sub(r.last.At) >= RefusedFor {
		return engine.Refused{}
	}
	return r.last
}

// WhyNot goes by the error, then by what was kept.
func (p *Engine) WhyNot(err error) string {
	cause := causeOf(err)
	if cause != "" && cause != engine.Slow || err == nil {
		return cause
	}
	if r := p.Refused(); r.Cause != "" && !r.Over {
		return r.Cause
	}
	return cause
}
