package devserver

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/operator"
)

// devClock is the machine's clock under dev: it can be moved, and stopped.
type devClock struct {
	mu      sync.Mutex // of those who move it
	reading atomic.Pointer[devReading]
}

type devReading struct {
	ahead   time.Duration // of the machine's clock
	stopped time.Time     // when it was stopped, by the machine's clock; zero while it goes
}

func newDevClock() *devClock {
	c := &devClock{}
	c.reading.Store(&devReading{})
	return c
}

func (c *devClock) now() time.Time {
	r := c.reading.Load()
	if !r.stopped.IsZero() {
		return r.stopped.Add(r.ahead)
	}
	return time.Now().Add(r.ahead)
}

// move is not ok, and moves nothing, where it would lead too far.
func (c *devClock) move(m operator.ClockMove) (state operator.ClockState, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := *c.reading.Load()
	ahead := r.ahead + m.By
	if ahead > operator.MaxAhead || ahead < -operator.MaxAhead {
		return operator.ClockState{}, false
	}
	r.ahead = ahead
	if m.Stop != nil {
		switch now := time.Now(); {
		case *m.Stop && r.stopped.IsZero():
			r.stopped = now
		case !*m.Stop && !r.stopped.IsZero(): // it goes on from where it stood
			r.ahead -= now.Sub(r.stopped)
			r.stopped = time.Time{}
		}
	}
	c.reading.Store(&r)
	return operator.ClockState{Ahead: r.ahead, Stopped: !r.stopped.IsZero()}, true
}
