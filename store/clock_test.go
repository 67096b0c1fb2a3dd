package store

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A clock that was set ahead for a moment, and back: time goes on from the highest
// that was seen, so that what was to expire expires, and limits let go.
func TestClockThatWasAheadForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, set := time.Now(), time.Duration(0)
		c := clock{
			machine: func() time.Time { return time.Now().Add(set).Round(0) },
			steady:  func() time.Duration { return time.Since(start) },
		}
		passes := func(when string, d time.Duration) {
			t.Helper()
			before := c.now()
			time.Sleep(d)
			if got := c.now().Sub(before); got != d {
				t.Errorf("%s: in %v %v have passed", when, d, got)
			}
		}
		passes("at first", time.Minute)
		set = 24 * time.Hour
		passes("a day ahead", time.Minute)
		seen := c.now()
		set = 0
		if now := c.now(); !now.Equal(seen) {
			t.Errorf("set back: %v, want %v", now, seen)
		}
		passes("set back", 30*time.Minute)
		set = 48 * time.Hour
		passes("two days ahead", time.Minute)
		seen = c.now()
		set = -time.Hour
		if now := c.now(); !now.Equal(seen) {
			t.Errorf("set back again: %v, want %v", now, seen)
		}
		passes("set back again", 30*time.Minute)
		time.Sleep(72 * time.Hour)
		set = 0
		passes("in the end", time.Minute)
	})
}

// The server has such a clock, also for a time that an earlier one has seen.
func TestTimeGoesOnAfterARestart(t *testing.T) {
	if !embedded() {
		return // the time is the database's
	}
	path := filepath.Join(t.TempDir(), "grantkeeper.db")
	ahead := open(t, path, &machine{now: time.Now().Add(24 * time.Hour)})
	if err := ahead.Ready(context.Background()); err != nil {
		t.Fatal(err)
	}
	seen := ahead.Now()
	if err := ahead.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(context.Background(), Options{Path: path, Ring: ring(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first := s.Now()
	if first.Unix() < seen.Unix() {
		t.Errorf("the time went back, from %v to %v", seen, first)
	}
	time.Sleep(time.Millisecond)
	if !s.Now().After(first) {
		t.Error("time stands still")
	}
}
