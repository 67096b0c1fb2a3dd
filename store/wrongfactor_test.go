package store

import (
	"testing"
	"time"
)

// What was wrong since the last right second factor is counted, each person's
// apart, and the latest of it has a time.
func TestWrongFactors(t *testing.T) {
	h := furnished(t)
	want := func(when string, number int, at int64) {
		t.Helper()
		if n, last, err := h.WrongFactors(t.Context(), "ada"); n != number || last != at || err != nil {
			t.Errorf("%s: %d, %d, %v; want %d, %d", when, n, last, err, number, at)
		}
	}
	wrong := func(person, reason string) (at int64) {
		t.Helper()
		if _, err := h.TryFactor(t.Context(), person); err != nil {
			t.Fatal(err)
		}
		h.Record(Event{Kind: "signin_failed", Person: person, Reason: reason})
		if err := h.Ready(t.Context()); err != nil { // behind what was recorded
			t.Fatal(err)
		}
		h.clock.add(time.Minute)
		return h.Now().Unix() - 60
	}
	want("before", 0, 0)
	first := wrong("ada", "second_factor")
	want("one", 1, first)
	second := wrong("ada", "second_factor_repeated")
	wrong("tor", "second_factor")
	h.Record(Event{Kind: "signin_failed", Person: "ada", Reason: "password"})
	want("two", 2, second)
	if _, err := h.TryFactor(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	if err := h.UntryFactor(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	want("one more that was none", 2, second)
	if _, err := h.ResetSignIn(t.Context(), "ada", Act{}); err != nil {
		t.Fatal(err)
	}
	want("begun anew", 0, 0)
}
