package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// A clock that was set ahead for a moment, and back: time goes on from the highest
// that was seen, so that what was to expire expires, and limits let go.
func TestClockThatWasAheadForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, set := time.Now(), time.Duration(0)
		c := Clock{
			Machine: func() time.Time { return time.Now().Add(set).Round(0) },
			Steady:  func() time.Duration { return time.Since(start) },
		}
		passes := func(when string, d time.Duration) {
			t.Helper()
			before := c.Now()
			time.Sleep(d)
			if got := c.Now().Sub(before); got != d {
				t.Errorf("%s: in %v %v have passed", when, d, got)
			}
		}
		passes("at first", time.Minute)
		set = 24 * time.Hour
		passes("a day ahead", time.Minute)
		seen := c.Now()
		set = 0
		if now := c.Now(); !now.Equal(seen) {
			t.Errorf("set back: %v, want %v", now, seen)
		}
		passes("set back", 30*time.Minute)
		set = 48 * time.Hour
		passes("two days ahead", time.Minute)
		seen = c.Now()
		set = -time.Hour
		if now := c.Now(); !now.Equal(seen) {
			t.Errorf("set back again: %v, want %v", now, seen)
		}
		passes("set back again", 30*time.Minute)
		time.Sleep(72 * time.Hour)
		set = 0
		passes("in the end", time.Minute)
	})
}

// A clock that is a second behind or less is left alone: time waits for it.
func TestClockThatIsALittleBehind(t *testing.T) {
	for behind, goesOn := range map[time.Duration]bool{time.Millisecond: false, time.Second: false, time.Second + 1: true} {
		machine, steady := time.Unix(5000, 0), time.Duration(0)
		c := Clock{Machine: func() time.Time { return machine }, Steady: func() time.Duration { return steady }}
		first := c.Now()
		machine = machine.Add(-behind)
		c.Now()
		steady += time.Hour
		if got := c.Now().Sub(first); (got == time.Hour) != goesOn || (got == 0) == goesOn {
			t.Errorf("%v behind, in an hour %v have passed", behind, got)
		}
	}
}
