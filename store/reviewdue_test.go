package store

import (
	"sync"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/oversight"
)

// That connections are due for review is said once in each period, by whichever node
// sweeps, also where two think that it is theirs; where nothing is due, nothing is
// reviewed, or AI integration is off, it is not said (decision P23).
func TestReviewIsToldOnceAPeriod(t *testing.T) {
	h := furnished(t)
	all := []house{h, h}
	if !embedded() {
		all[1] = h.second(t)
	}
	told := func() int {
		t.Helper()
		for _, node := range all {
			if _, err := node.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
		}
		return len(h.events(t, journal.ReviewDue))
	}
	step := func(when string, want int) {
		t.Helper()
		if got := told(); got != want {
			t.Fatalf("%s: told %d times, want %d", when, got, want)
		}
	}
	id := h.live(t, h.answer(1))
	h.live(t, h.answer(2))
	h.rules(t, policy.Policy{Unknown: policy.Ask})
	h.clock.add(100 * day)
	step("nobody reviews", 0)
	h.rules(t, policy.Policy{ReviewDays: 365})
	h.clock.add(2 * oversight.ReviewEvery)
	step("not due", 0)
	h.clock.add(oversight.ReviewEvery - 1)
	h.rules(t, policy.Policy{ReviewDays: 90})
	step("it was asked less than an hour ago", 0)
	h.clock.add(oversight.ReviewEvery)
	step("due", 1)
	if e := h.events(t, journal.ReviewDue)[0]; e.Organization != "nordlys" || e.Detail != "2 connections" || e.Person != "" {
		t.Errorf("%+v", e)
	}
	h.clock.add(89 * day)
	step("in the same period, reviewed by nobody", 1)
	var wg sync.WaitGroup
	h.clock.add(day)
	for i := range 8 {
		wg.Go(func() {
			if err := all[i%2].changeFacts(func(tx *Tx) error { return oversight.TellReview(tx.Tx, "nordlys", 90, i) }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	step("by several at once, in the next", 2)
	if n, err := h.MarkReviewed(ctx, "nordlys", "", []approval.ID{id}, Act{Actor: "operator"}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	h.clock.add(90 * day)
	step("one of two was reviewed, and it is due again", 3)
	if e := h.events(t, journal.ReviewDue)[0]; e.Detail != "2 connections" {
		t.Errorf("%+v", e)
	}
	if err := h.SetIntegration(ctx, "nordlys", false, Act{}); err != nil {
		t.Fatal(err)
	}
	h.clock.add(90 * day)
	step("switched off", 3)
}
