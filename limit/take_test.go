package limit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// takes is a history of what is taken at once, and what has to come of it.
var takes = []struct {
	at, n, requests, left int
	wait                  time.Duration
}{
	{0, 5, 3, 2, 0},
	{0, 5, 3, 2, 10 * time.Second}, // refused whole: nothing was taken
	{1, 5, 2, 0, 0},
	{1, 5, 1, 0, 9 * time.Second},
	{1, 5, 3, 0, 9 * time.Second}, // all three go at once
	{1, 5, 4, 0, 10 * time.Second},
	{1, 5, 6, 0, 10 * time.Second}, // never
	{10, 5, 4, 3, time.Second},
	{10, 5, 3, 0, 0},
	{10, 2, 1, 0, 10 * time.Second}, // fewer than were taken
	{20, 5, 5, 0, 0},
}

func wantTakes(t *testing.T, w *Names) {
	t.Helper()
	for _, c := range takes {
		left, wait := w.Take("nordlys", c.n, c.requests, after(c.at))
		if left != c.left || wait != c.wait {
			t.Errorf("%d of %d at +%ds: %d left, wait %s; want %d, %s", c.requests, c.n, c.at, left, wait, c.left, c.wait)
		}
	}
}

// Many requests are let through all or none, and the wait is until there is room
// for all of them.
func TestTakeMany(t *testing.T) {
	wantTakes(t, NewNames(Limit{N: 5, Window: 10 * time.Second}))
	wantTakes(t, newNames(Limit{N: 5, Window: 10 * time.Second}, 0)) // counted with neighbours
}

func TestTakeManyShared(t *testing.T) {
	wantTakes(t, sharedWindows(t).names(Limit{N: 5, Window: 10 * time.Second}))
}

// To take many at once is to take one after the other, where there is room.
func TestTakeManyIsTakingEach(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	l := Limit{N: 20, Window: 30 * time.Second}
	at := 0
	one, many := NewNames(l), NewNames(l)
	for range 2000 {
		at += random.IntN(8)
		requests := 1 + random.IntN(20)
		room := one.Remaining("nordlys", l.N, after(at))
		left, wait := many.Take("nordlys", l.N, requests, after(at))
		if fits := requests <= room; fits != (wait == 0) {
			t.Fatalf("%d of %d at +%ds: wait %s", requests, room, at, wait)
		} else if !fits {
			if left != room {
				t.Fatalf("%d left, want %d", left, room)
			}
			if _, again := many.Take("nordlys", l.N, requests, after(at+int(wait/time.Second)-1)); wait > time.Second && again == 0 {
				t.Fatalf("%d of %d at +%ds: the wait of %s is too long", requests, room, at, wait)
			}
			at += int(wait/time.Second) - 1
			continue
		}
		for range requests {
			if ok, _ := one.AllowUpTo("nordlys", l.N, after(at)); !ok {
				t.Fatal("one after the other is refused")
			}
		}
	}
}
