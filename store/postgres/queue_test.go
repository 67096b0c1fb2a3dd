package postgres

import (
	"fmt"
	"testing"
	"testing/synctest"
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

// A queue takes as many as it is to have, and none when it is closed; what is in it then is
// taken still, and after it nothing.
func TestQueueThatCloses(t *testing.T) {
	var q queue[int]
	q.init()
	var joined []bool
	for n := range 3 {
		joined = append(joined, q.Join(n, 2))
	}
	joined = append(joined, q.Join(3, 0))
	q.close()
	joined = append(joined, q.Join(4, 0), q.Join(5, 9))
	if got := fmt.Sprint(joined, q.take([]int{9}, 512, 1), q.take(nil, 512, 1)); got != "[true true false true false false] [9 0 1 3] []" {
		t.Error(got)
	}
}

// Who waits is woken: one for each that comes, one more where some are left, and all at the end.
func TestQueueWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue[int]
		q.init()
		taken, ended := make(chan []int, 9), make(chan bool, 9)
		for range 3 {
			go func() {
				for {
					out := q.take(nil, 2, 1)
					if len(out) == 0 {
						ended <- true
						return
					}
					taken <- out
				}
			}()
		}
		synctest.Wait()
		q.Join(1, 0)
		synctest.Wait()
		q.Mu.Lock() // four come at once, and one is woken
		q.Items = append(q.Items, 2, 3, 4, 5)
		q.Mu.Unlock()
		q.wake.Signal()
		synctest.Wait()
		if len(taken) != 3 {
			t.Errorf("%d groups were taken, want three", len(taken))
		}
		q.close()
		synctest.Wait()
		if len(ended) != 3 {
			t.Errorf("%d of three know that it is closed", len(ended))
		}
	})
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
