package store

import (
	"errors"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/oversight"
)

// until gives an approval that lives and ends after so long.
func (h house) until(t testing.TB, n byte, d time.Duration) approval.ID {
	t.Helper()
	a := h.answer(n)
	a.EndsAt = h.Now().Add(d).Unix()
	return h.live(t, a)
}

// On its date an approval has ended, to the second, before any row says so: for checks,
// refreshes, lists and edits, on each node and after a restart. The sweep writes it, with
// an entry.
func TestEndsOnItsDate(t *testing.T) {
	h := furnished(t)
	id, other, later := h.until(t, 1, day), h.until(t, 2, day), h.until(t, 3, 2*day)
	ends := h.Now().Add(day).Unix()
	if a, err := h.Check(ctx, id); err != nil || a.Approval.EndsAt != ends {
		t.Fatalf("%+v, %v", a.Approval, err)
	}
	h.clock.add(day - time.Second)
	if v, err := h.refresh(id, 1); v != approval.OK || err != nil || !h.accepts(t, id) {
		t.Fatalf("a second before: %v, %v", v, err)
	}
	h.clock.add(time.Second)
	all := []house{h}
	if !embedded() {
		all = append(all, h.second(t))
	}
	for _, node := range all {
		if node.accepts(t, id) || !node.accepts(t, later) {
			t.Error("accepted after it")
		}
		row, err := node.Approval(ctx, id)
		if err != nil || row.Phase != approval.Ended || row.Reason != approval.EndedOnDate || row.EndedAt != ends {
			t.Errorf("%+v, %v", row.State, err)
		}
		for state, want := range map[string]int{"live": 1, "ended": 2} {
			if rows, _, err := node.Approvals(ctx, ApprovalFilter{State: state}); err != nil || len(rows) != want {
				t.Errorf("%s: %d, %v", state, len(rows), err)
			}
		}
		if c, _, err := node.Connections(ctx, ConnectionFilter{Organization: "nordlys"}); err != nil || len(c) != 1 || c[0].ID != later {
			t.Errorf("connections: %d, %v", len(c), err)
		}
		if n, err := node.ConnectionCounts(ctx, "nordlys"); err != nil || n.Connections != 1 {
			t.Errorf("%+v, %v", n, err)
		}
	}
	if err := h.EditGrant(ctx, id, "ada", h.answer(1).Grant, grantset.Set{Kind: grantset.Everything}, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("edited: %v", err)
	}
	if v, err := h.refresh(id, 2); v != approval.Over || err != nil {
		t.Errorf("refreshed: %v, %v", v, err)
	}
	h.clock.add(time.Minute)
	h = h.reopen(t)
	if h.accepts(t, other) {
		t.Error("accepted after a restart")
	}
	due, err := h.Due(ctx)
	if swept, e := h.Sweep(ctx); err != nil || e != nil || due.Ended != 1 || swept.Ended != 1 { // the refresh has written the other
		t.Errorf("due %+v, swept %+v, %v, %v", due, swept, err, e)
	}
	if again, err := h.Sweep(ctx); err != nil || again.Ended != 0 {
		t.Errorf("swept again: %+v, %v", again, err)
	}
	entries := h.events(t, journal.ApprovalEnded)
	for _, e := range entries {
		if e.Reason != string(approval.EndedOnDate) {
			t.Errorf("%+v", e)
		}
	}
	if row, err := h.Approval(ctx, other); len(entries) != 2 || err != nil || row.EndedAt != ends {
		t.Errorf("%d entries; %+v, %v", len(entries), row.State, err)
	}
	h.same(t, "after the sweep")
}

// The earlier of two ends is the one that counts.
func TestUnusedBeforeItsDate(t *testing.T) {
	h := furnished(t).ending(t, 10*day)
	id, soon := h.until(t, 1, 20*day), h.until(t, 2, 5*day)
	h.clock.add(30 * day)
	for want, id := range map[approval.Reason]approval.ID{approval.Unused: id, approval.EndedOnDate: soon} {
		if row, err := h.Approval(ctx, id); err != nil || row.Reason != want {
			t.Errorf("%v, %v; want %v", row.Reason, err, want)
		}
		if v, err := h.refresh(id, 1); v != approval.Over || err != nil {
			t.Errorf("%v, %v", v, err)
		}
		if row, err := h.Approval(ctx, id); err != nil || row.Reason != want {
			t.Errorf("written: %v, %v; want %v", row.Reason, err, want)
		}
	}
}

// A bound in days brings the end of what would end later or never, in that organization,
// and of nothing else; it never puts an end off.
func TestBoundInDays(t *testing.T) {
	h := furnished(t)
	never, late, soon := h.live(t, h.answer(1)), h.until(t, 2, 30*day), h.until(t, 3, 2*day)
	handle, _, err := h.Approve(ctx, h.answer(4), Act{})
	if err != nil {
		t.Fatal(err)
	}
	other := h.answer(5)
	other.Organization, other.Grant = "fjell", grantset.Set{Kind: grantset.Everything}
	fjell := h.live(t, other)
	at := oversight.EndOf(h.Now(), 14)
	_, effects := h.rules(t, policy.Policy{MaxDays: 14})
	if len(effects) != 1 || effects[0] != (policy.Effect{EndsAt: at, Connections: 3}) {
		t.Errorf("effects %+v", effects)
	}
	want := map[approval.ID]int64{never: at, late: at, soon: h.Now().Add(2 * day).Unix(), approval.ID(handle.ID()): at, fjell: 0}
	check := func(when string) {
		t.Helper()
		h.same(t, when)
		for id, ends := range want {
			row, err := h.Approval(ctx, id)
			a, checkErr := h.Check(ctx, id)
			if err != nil || checkErr != nil || row.EndsAt != ends || a.Approval.EndsAt != ends {
				t.Errorf("%s: %s ends at %d, for a check %d, want %d, %v, %v", when, id, row.EndsAt, a.Approval.EndsAt, ends, err, checkErr)
			}
		}
	}
	check("saved")
	h.clock.add(day)
	if _, effects := h.rules(t, policy.Policy{MaxDays: 60}); len(effects) != 0 {
		t.Errorf("a longer one: %+v", effects)
	}
	check("a longer one")
	if _, effects := h.rules(t, policy.Policy{}); len(effects) != 0 {
		t.Errorf("lifted: %+v", effects)
	}
	check("lifted")
}

// A person brings the end of an approval nearer, and never puts it off; the organization
// lets nobody have more by editing either.
func TestEditEndDate(t *testing.T) {
	h := furnished(t)
	free, dated := h.live(t, h.answer(1)), h.until(t, 2, 10*day)
	from := h.answer(1).Grant
	days := func(n int) int64 { return oversight.EndOf(h.Now(), n) }
	for _, tt := range []struct {
		name string
		id   approval.ID
		ends int64
		want error
	}{
		{"later", dated, days(10) + 1, ErrEndDate},
		{"now", dated, days(0), ErrEndDate},
		{"before", free, 1, ErrEndDate},
		{"negative", free, -1, nil},
		{"far", free, days(3651), ErrEndDate},
		{"as it is", dated, days(10), nil},
		{"untouched", dated, 0, nil},
		{"for once", free, days(20), nil},
		{"and nearer", dated, days(3), nil},
	} {
		if err := h.EditApproval(ctx, tt.id, "ada", Edit{from, from, tt.ends}, Act{}); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	h.same(t, "edited")
	for id, want := range map[approval.ID]int64{free: days(20), dated: days(3)} {
		if a, err := h.Check(ctx, id); err != nil || a.Approval.EndsAt != want {
			t.Errorf("%d, %v; want %d", a.Approval.EndsAt, err, want)
		}
	}
	h.rules(t, policy.Policy{Ceiling: grantset.Ceiling{Widest: grantset.Roles, ReadOnly: true}})
	everything, read := grantset.Set{Kind: grantset.Everything}, grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer"}}}
	if err := h.EditApproval(ctx, free, "ada", Edit{From: from, To: everything}, Act{}); !errors.Is(err, ErrCeiling) {
		t.Errorf("everything: %v", err)
	}
	if err := h.EditApproval(ctx, free, "ada", Edit{From: from, To: from, EndsAt: days(19)}, Act{}); err != nil {
		t.Errorf("what it has: %v", err)
	}
	if err := h.EditApproval(ctx, free, "ada", Edit{From: from, To: read}, Act{}); err != nil {
		t.Errorf("less: %v", err)
	}
}

// What ends in three days is in the journal once, whatever sweeps come after; what was
// given for no longer, lasts longer or has ended is not.
func TestEndsSoonIsToldOnce(t *testing.T) {
	h := furnished(t)
	soon := h.until(t, 1, 4*day)
	h.until(t, 2, 2*day)
	h.until(t, 3, 8*day)
	ended := h.until(t, 4, 4*day)
	if _, v, err := h.ApplyLive(ctx, ended, approval.End(approval.RevokedByOperator, h.Now()), Act{Actor: "operator"}); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	told := func() []Event {
		t.Helper()
		if _, err := h.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		all, _, err := h.Events(ctx, EventFilter{Kind: journal.EndsSoon})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := told(); len(all) != 0 {
		t.Fatalf("four days before: %+v", all)
	}
	h.clock.add(day)
	for range 2 {
		if all := told(); len(all) != 1 || all[0].Approval != soon.String() || all[0].Person != "ada" || all[0].Detail != h.Now().Add(3*day).UTC().Format(time.RFC3339) {
			t.Fatalf("three days before: %+v", all)
		}
	}
}
