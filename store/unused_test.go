package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/postgres"
)

// ending is a house whose approvals end after so long without use; 0 is never.
func (h house) ending(t testing.TB, after time.Duration) house {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	return h.openWith(t, func(o *Options) { o.EndUnusedAfter = after })
}

// T-18: a refresh token that nobody used for 90 days is refused; one that was
// used on day 89 works for another 90; without the setting it works for ever.
func TestT18Unused(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		name  string
		after time.Duration
		wait  time.Duration
		want  approval.Verdict
	}{
		{"90 days", 90 * day, 90 * day, approval.Over},
		{"a second less", 90 * day, 90*day - time.Second, approval.OK},
		{"without the setting", 0, 9000 * day, approval.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t).ending(t, tt.after)
			id := h.live(t, h.answer(1))
			h.clock.add(tt.wait)
			row, err := h.Approval(ctx, id)
			if err != nil || (row.Reason == approval.Unused) != (tt.want == approval.Over) {
				t.Errorf("shown as %+v, %v", row.State, err)
			}
			if v, err := h.refresh(id, 1); v != tt.want || err != nil {
				t.Fatalf("refresh: %v, %v, want %v", v, err, tt.want)
			}
			if tt.want == approval.Over {
				row, err := h.Approval(ctx, id)
				if err != nil || row.Reason != approval.Unused || row.EndedAt != row.IssuedAt+int64(tt.after/time.Second) || h.accepts(t, id) {
					t.Errorf("%+v, %v", row, err)
				}
				if events, _, err := h.Events(ctx, EventFilter{Kind: "approval_ended"}); err != nil || len(events) != 1 || events[0].Reason != "unused" {
					t.Errorf("events %+v, %v", events, err)
				}
				return
			}
			if tt.after == 0 {
				return
			}
			h.eventuallyUsed(t, id)
			for _, wait := range []time.Duration{89 * day, 89 * day, 90 * day} { // each counts from the one before
				h.clock.add(wait)
				want, generation := approval.OK, h.generation(t, id)
				if wait == 90*day {
					want = approval.Over
				}
				if v, err := h.refresh(id, generation); v != want || err != nil {
					t.Errorf("after %v: %v, %v, want %v", wait, v, err, want)
				}
				h.eventuallyUsed(t, id)
			}
		})
	}
}

// A refresh is a use and saves it; an exchange is none, and an end leaves it as it
// was (decision P11). Whoever checks finds it: nothing is to be noted then.
func TestRefreshIsAUse(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	want := func(what string, used int64, idle bool) {
		t.Helper()
		row, err := h.Approval(ctx, id)
		if err != nil || row.LastUsed != used {
			t.Errorf("%s: last use %d, %v; want %d", what, row.LastUsed, err, used)
		}
		if a, err := h.Check(ctx, id); row.Phase == approval.Live && (err != nil || a.Idle(h.Now()) != idle) {
			t.Errorf("%s: idle %t, %v", what, !idle, err)
		}
		h.same(t, what)
	}
	want("exchanged", 0, true)
	for generation := range int64(3) { // at first it is read, then remembered
		h.clock.add(2 * time.Hour)
		want("two hours later", max(0, h.Now().Unix()-7200)*min(generation, 1), true)
		if v, err := h.refresh(id, 1+generation); v != approval.OK || err != nil {
			t.Fatal(v, err)
		}
		want("refreshed", h.Now().Unix(), false)
	}
	used := h.Now().Unix()
	h.clock.add(time.Minute)
	h.Used(id)
	if err := h.EndApproval(ctx, id, approval.RevokedByPerson, Act{}); err != nil {
		t.Fatal(err)
	}
	want("ended", used, false)
	h = h.reopen(t)
	want("after a restart", used, false)
}

// The last use does not go back: a node whose clock is ahead may have saved a later
// one, and what waits to be noted may be older than what is saved meanwhile.
func TestUseNeverGoesBack(t *testing.T) {
	h := furnished(t)
	id, other := h.live(t, h.answer(1)), h.live(t, h.answer(2))
	h.clock.add(3 * time.Hour)
	now := h.Now().Unix()
	want := func(what string, id approval.ID, used int64) {
		t.Helper()
		if row, err := h.Approval(ctx, id); err != nil || row.LastUsed != used {
			t.Errorf("%s: last use %d, %v; want %d", what, row.LastUsed, err, used)
		}
	}
	note := func(used map[approval.ID]uint32) {
		t.Helper()
		if embedded() {
			for id := range used {
				h.Used(id)
			}
			if err := h.Ready(ctx); err != nil {
				t.Fatal(err)
			}
		} else if err := h.changeFacts(func(tx *Tx) error { return postgres.WriteUses(tx.Tx, used) }); err != nil {
			t.Fatal(err)
		}
	}
	if !embedded() { // each is noted by its own time, whatever comes with it
		h.sql(t, fmt.Sprintf(`UPDATE approval SET used_at = %d`, now-7200))
		note(map[approval.ID]uint32{id: uint32(now - 7300), other: uint32(now)})
		want("an older use, noted beside a newer", id, now-7200)
		want("the newer", other, now)
	}
	later := now + 100
	h.sql(t, fmt.Sprintf(`UPDATE approval SET used_at = %d`, later))
	note(map[approval.ID]uint32{id: uint32(now)})
	want("an older use", id, later)
	if v, err := h.refresh(id, 1); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	want("an older refresh", id, later)
	if v, err := h.refresh(id, 1); v != approval.Reused || err != nil {
		t.Fatal(v, err)
	}
	want("ended by its token, used twice", id, later)
}

// A use that another node has saved is found beside what is remembered.
func TestUseAtAnotherNode(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	id := all[0].live(t, all[0].unique(1))
	idle := func() bool {
		a, err := all[0].Check(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return a.Idle(all[0].Now())
	}
	for range 2 { // the first remembers
		if !idle() {
			t.Error("used before anybody did")
		}
	}
	all[1].Used(id)
	all[1].eventuallyUsed(t, id)
	if idle() {
		t.Error("the use at the other node is not found")
	}
}

func (h house) generation(t testing.TB, id approval.ID) int64 {
	t.Helper()
	row, err := h.Approval(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return row.Generation
}

// A call counts as a use; what another client sends does not end anything, and
// a sweep says in the rows what was true before.
func TestUnusedSwept(t *testing.T) {
	ctx := context.Background()
	h := furnished(t).ending(t, 90*day)
	used, unused, waiting := h.live(t, h.answer(1)), h.live(t, h.answer(2)), h.answer(3)
	h.clock.add(89 * day)
	h.Used(used)
	handle, _, err := h.Approve(ctx, waiting, Act{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	h.eventuallyUsed(t, used)
	h.clock.add(day)
	if _, v, err := h.Refresh(ctx, unused, "other", 1, 1, Act{}); v != approval.WrongClient || err != nil {
		t.Errorf("another client: %v, %v", v, err)
	}
	if rows, _, err := h.Approvals(ctx, ApprovalFilter{State: "live"}); err != nil || len(rows) != 1 || rows[0].ID != used {
		t.Errorf("listed as live: %+v, %v", rows, err)
	}
	for _, want := range []int{1, 0} {
		if n, err := h.Unused(ctx); n != want || err != nil {
			t.Errorf("%d are unused, %v; want %d", n, err, want)
		}
		if _, err := h.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[approval.ID]approval.Reason{used: "", unused: approval.Unused, approval.ID(handle.ID()): approval.NeverConnected} {
		var reason string
		if err := h.db.Reader.QueryRow(`SELECT reason FROM approval WHERE id = $1`, id[:]).Scan(&reason); err != nil || reason != string(want) {
			t.Errorf("%s: %q, %v, want %q", id, reason, err, want)
		}
	}
	if rows, _, err := h.Approvals(ctx, ApprovalFilter{State: "ended"}); err != nil || len(rows) != 2 {
		t.Errorf("listed as ended: %+v, %v", rows, err)
	}
	h.same(t, "swept")
}

// eventuallyUsed waits for the row of a use now, which nobody else waits for;
// of an approval that has ended there comes none.
func (h house) eventuallyUsed(t testing.TB, id approval.ID) {
	t.Helper()
	if row, err := h.Approval(context.Background(), id); err != nil || row.Phase == approval.Ended {
		return
	}
	for range 6000 {
		var n int
		if err := h.db.Reader.QueryRow(`SELECT COUNT(*) FROM approval WHERE id = $1 AND used_at > $2`, id[:], h.Now().Add(-time.Hour).Unix()).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the use is not in its row")
}

// The journal forgets what is older than it is told to keep.
func TestJournalRetention(t *testing.T) {
	ctx := context.Background()
	h := furnished(t)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = h.openWith(t, func(o *Options) { o.JournalRetention = 30 * day })
	h.clock.add(29 * day)
	h.register(t, "younger")
	for _, tt := range []struct {
		wait time.Duration
		left int
	}{{0, 3}, {day + time.Minute, 1}, {29 * day, 0}} {
		h.clock.add(tt.wait)
		if _, err := h.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		events, _, err := h.Events(ctx, EventFilter{})
		kept := 0
		for _, e := range events {
			if e.Kind == "client_registered" || e.Kind == "directory_changed" {
				kept++
			}
		}
		if err != nil || kept != tt.left {
			t.Errorf("after %v more: %d left, %v, want %d: %+v", tt.wait, kept, err, tt.left, events)
		}
	}
}

// openWith opens the house's rows with other options.
func (h house) openWith(t testing.TB, change func(*Options)) house {
	t.Helper()
	o := Options{Ring: h.ring, Now: h.clock.Now}
	change(&o)
	s, err := Open(context.Background(), at(t, h.path, o))
	if err != nil {
		t.Fatal(err)
	}
	h.Store = s
	t.Cleanup(func() { s.Close() })
	return h
}
