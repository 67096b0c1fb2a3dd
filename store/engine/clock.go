package engine

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Clock never goes back (decision T12): it gives the highest time that it has
// seen, and the database remembers that across restarts.
type Clock struct {
	Machine func() time.Time
	highest atomic.Int64 // Unix nanoseconds
	Saved   atomic.Int64 // Unix seconds, as it stands in the database

	// steady is a clock that nobody sets; nil where time is what a test says.
	Steady func() time.Duration
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

// Now is the highest time that was seen.
func (c *Clock) Now() time.Time {
	t := c.Machine().UnixNano()
	for {
		h := c.highest.Load()
		if t <= h {
			if c.Steady != nil && h-t > int64(clockBehind) {
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
func (c *Clock) goOn() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	steady, h := c.Steady(), c.highest.Load()
	t := c.from.highest + int64(steady-c.from.steady)
	if c.from == (leap{}) || t < h { // the machine's clock was ahead since
		c.from, t = leap{h, steady}, h
	}
	for t > h && !c.highest.CompareAndSwap(h, t) {
		h = c.highest.Load()
	}
	return max(t, h)
}

// GoOnFrom takes the time that a database has seen, in Unix seconds.
func (c *Clock) GoOnFrom(seen string) error {
	seconds, err := strconv.ParseInt(seen, 10, 64)
	if err != nil {
		return err
	}
	c.highest.Store(seconds * int64(time.Second))
	c.Saved.Store(seconds)
	return nil
}
