package store

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// clock never goes back (decision T12): it gives the highest time that it has
// seen, and the database remembers that across restarts.
type clock struct {
	machine func() time.Time
	highest atomic.Int64 // Unix nanoseconds
	saved   atomic.Int64 // Unix seconds, as it stands in the database

	// steady is a clock that nobody sets; nil where time is what a test says.
	steady func() time.Duration
	mu     sync.Mutex
	from   leap
}

// A leap is when the machine's clock was found behind the highest time.
type leap struct {
	highest int64 // Unix nanoseconds
	steady  time.Duration
}

// clockBehind is how far the machine's clock has to be behind to be left alone.
const clockBehind = time.Second

func (c *clock) now() time.Time {
	t := c.machine().UnixNano()
	for {
		h := c.highest.Load()
		if t <= h {
			if c.steady != nil && h-t > int64(clockBehind) {
				h = c.goOn()
			}
			return time.Unix(0, h)
		}
		if c.highest.CompareAndSwap(h, t) {
			return time.Unix(0, t)
		}
	}
}

// goOn lets time pass while the machine's clock is behind, as after it was set
// ahead for a moment: codes and tokens would live on, and limits would let nobody
// through, until it has caught up.
func (c *clock) goOn() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	steady, h := c.steady(), c.highest.Load()
	t := c.from.highest + int64(steady-c.from.steady)
	if c.from == (leap{}) || t < h { // the machine's clock was ahead since
		c.from, t = leap{h, steady}, h
	}
	for t > h && !c.highest.CompareAndSwap(h, t) {
		h = c.highest.Load()
	}
	return max(t, h)
}

// Now is the time of every decision. It never goes back (decision T12).
func (s *Store) Now() time.Time { return s.env.Now() }

func (s *Store) timed(query string, start time.Time) { s.env.timed(query, start) }

// goOnFrom takes the time that a database has seen, in Unix seconds.
func (c *clock) goOnFrom(seen string) error {
	seconds, err := strconv.ParseInt(seen, 10, 64)
	if err != nil {
		return err
	}
	c.highest.Store(seconds * int64(time.Second))
	c.saved.Store(seconds)
	return nil
}
