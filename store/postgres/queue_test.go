package postgres

import (
	"fmt"
	"testing"
	"time"
)

// While reads are slow a group is a share of what waits.
func TestShares(t *testing.T) {
	var l queue[int]
	l.init()
	for n := range 20 {
		l.Join(n, 0)
	}
	var sizes []int
	for range 4 {
		sizes = append(sizes, len(l.take(nil, 512, 8)))
	}
	if got := fmt.Sprint(sizes, len(l.take(nil, 5, 1)), len(l.take(nil, 512, 1))); got != "[3 3 2 2] 5 5" {
		t.Error(got)
	}
}

// One group that was held up does not make reads slow, many do; and they are
// quick again when shares are read quickly.
func TestPace(t *testing.T) {
	var c pace
	for _, step := range []struct {
		took  time.Duration
		times int
		slow  bool
	}{
		{time.Millisecond, 100, false},
		{time.Second, 1, false},
		{time.Millisecond, 100, false},
		{10 * time.Millisecond, 20, true},
		{2 * time.Millisecond, 100, true}, // a share, from the disk
		{quickRead / 2, 30, false},
		{2 * time.Millisecond, 100, false},
	} {
		for range step.times {
			c.took(step.took)
		}
		if c.Slow.Load() != step.slow {
			t.Errorf("after %d of %v: slow is %v", step.times, step.took, !step.slow)
		}
	}
}
