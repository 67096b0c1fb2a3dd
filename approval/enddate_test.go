package approval

import (
	"testing"
	"time"
)

// From its end date on an approval has ended at that second, whatever is asked of
// it and whatever has happened since; the second before, nothing differs
// (decision P17).
func TestEndDate(t *testing.T) {
	const ends = 1_800_000_000
	live := Approval{Client: "c1", EndsAt: ends, State: State{Phase: Live, Generation: 2, Key: 3, Network: 4}}
	ended := State{Phase: Ended, Generation: 2, Key: 3, Network: 4, Reason: EndedOnDate, EndedAt: ends}
	lost := Standing{Person: 1}
	before, later := time.Unix(ends-1, 0), time.Unix(ends+7, 0)
	moves := func(now time.Time) map[string]Move {
		return map[string]Move{
			"refresh": Refresh("c1", 2, 9, now), "an old refresh token": Refresh("c1", 1, 9, now), "one of the future": Refresh("c1", 3, 9, now),
			"revocation": Revoke("c1", now), "an end": End(AppBlocked, now),
		}
	}
	for _, now := range []time.Time{time.Unix(ends, 0), later} {
		for _, s := range []Standing{{}, lost} {
			if got := live.At(s, now); got != ended {
				t.Errorf("at %d: %+v, want %+v", now.Unix(), got, ended)
			}
			if live.Accepts(s, 2, ends+100, now) {
				t.Errorf("at %d: an access token works", now.Unix())
			}
			for name, m := range moves(now) {
				if got, v := m(live, s); got != ended || v != Over {
					t.Errorf("%s at %d: %v %+v, want over %+v", name, now.Unix(), v, got, ended)
				}
			}
		}
	}
	never := live
	never.EndsAt = 0
	for name, m := range moves(before) {
		got, v := m(live, Standing{})
		if want, w := m(never, Standing{}); got != want || v != w {
			t.Errorf("%s before the end date: %v %+v, and without one %v %+v", name, v, got, w, want)
		}
	}
	if live.At(Standing{}, before) != live.State || !live.Accepts(Standing{}, 2, ends+100, before) || !never.Accepts(Standing{}, 2, ends+100, later) {
		t.Error("ended before its date, or without one")
	}
	if got := live.At(lost, before); got.Reason != PersonDeactivated {
		t.Errorf("a fact that was lost before: %+v", got)
	}
	moved := live
	moved.State = State{Phase: Ended, Reason: Replaced, EndedAt: 5}
	if got := moved.At(Standing{}, later); got != moved.State {
		t.Errorf("ended before: %+v", got)
	}
}
