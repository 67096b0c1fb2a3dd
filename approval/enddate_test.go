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

// A code whose approval ends before it expires is refused from then on, and one that
// expires first was never connected.
func TestEndDateOfACode(t *testing.T) {
	const issued = 1_800_000_000
	expires := int64(issued + CodeLifetime/time.Second)
	for _, tt := range []struct {
		ends, now int64
		want      Reason
		at        int64
	}{
		{issued + 60, issued + 59, "", 0}, {issued + 60, issued + 60, EndedOnDate, issued + 60}, {issued + 60, expires + 9, EndedOnDate, issued + 60},
		{expires, expires, NeverConnected, expires}, {expires + 1, expires + 9, NeverConnected, expires}, {0, expires, NeverConnected, expires},
	} {
		a := Approval{Client: "c1", IssuedAt: issued, EndsAt: tt.ends, Challenge: challenge, State: State{Phase: CodeIssued}}
		now := time.Unix(tt.now, 0)
		if got := a.At(Standing{}, now); got.Reason != tt.want || got.EndedAt != tt.at {
			t.Errorf("%+v: %+v", tt, got)
		}
		next, v := Exchange("c1", "", "", verifier, issued, 1, now)(a, Standing{})
		switch {
		case tt.want == EndedOnDate && (v != Over || next.Reason != EndedOnDate || next.EndedAt != tt.at),
			tt.want == NeverConnected && v != Expired, tt.want == "" && v != OK:
			t.Errorf("%+v: exchanged: %v %+v", tt, v, next)
		}
	}
}

func TestMayEndAt(t *testing.T) {
	now := time.Unix(100, 0)
	for _, tt := range []struct {
		has, date int64
		want      bool
	}{
		{0, 0, true}, {200, 200, true}, {50, 50, true}, {0, 101, true}, {200, 101, true}, {200, 199, true},
		{0, 100, false}, {200, 100, false}, {200, 201, false}, {200, 0, false}, {0, -1, false},
	} {
		if got := (Approval{EndsAt: tt.has}).MayEndAt(tt.date, now); got != tt.want {
			t.Errorf("from %d to %d: %v", tt.has, tt.date, got)
		}
	}
}
