package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// clock never goes back (decision T12): it gives the highest time that it has
// seen, and the database remembers that across restarts.
type clock struct {
	machine func() time.Time
	highest atomic.Int64 // Unix nanoseconds
	saved   atomic.Int64 // Unix seconds, as it stands in the database
}

func (c *clock) now() time.Time {
	t := c.machine().UnixNano()
	for {
		h := c.highest.Load()
		if t <= h {
			return time.Unix(0, h)
		}
		if c.highest.CompareAndSwap(h, t) {
			return time.Unix(0, t)
		}
	}
}

// Now is the time of every decision. It never goes back (decision T12).
func (s *Store) Now() time.Time { return s.clock.now() }

func (s *Store) loadClock() error {
	v, err := s.writer.meta(metaTime)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // an empty database has seen nothing
	} else if err != nil {
		return fmt.Errorf("database: time: %w", err)
	}
	seconds, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return fmt.Errorf("database: time: %w", err)
	}
	s.clock.highest.Store(seconds * int64(time.Second))
	s.clock.saved.Store(seconds)
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
			if err := s.Ready(context.Background()); err != nil {
				s.log.Warn("the time cannot be saved", "err", err)
			}
		}
	}
}
