package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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

func (s *Store) loadClock(ctx context.Context) error {
	v, err := newTx(ctx, s.env, s.writer.conn, s.writer).meta(metaTime)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // an empty database has seen nothing
	} else if err != nil {
		return fmt.Errorf("database: time: %w", err)
	}
	seconds, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return fmt.Errorf("database: time: %w", err)
	}
	s.env.clock.highest.Store(seconds * int64(time.Second))
	s.env.clock.saved.Store(seconds)
	return nil
}

// tick saves the time once a minute, so that an idle server that restarts
// with its clock set back revives nothing that it has called expired.
func (s *Store) tick() {
	defer s.stopped.Done()
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			s.env.warnBehind()
			if err := s.Ready(context.Background()); err != nil {
				s.log.Warn("the time cannot be saved", "err", err)
			}
		}
	}
}
