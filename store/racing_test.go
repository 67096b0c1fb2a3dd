package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
)

// A code that is exchanged while approvals are looked for, at whatever moment,
// is no way past their end.
func TestEndMatchingBesideAnExchange(t *testing.T) {
	ctx := context.Background()
	for moment := 1; ; moment++ {
		h := furnished(t)
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		var exchange func()
		looks := 0
		h = h.openWith(t, func(o *Options) {
			o.Took = func(what string, _ time.Duration) {
				if what != "approvals" {
					return
				}
				if looks++; looks == moment {
					exchange()
				}
			}
		})
		handle, issued, err := h.Approve(ctx, h.answer(1), Act{})
		if err != nil {
			t.Fatal(err)
		}
		id := approval.ID(handle.ID())
		exchange = func() {
			if v, err := h.exchange(id, issued); err != nil || v != approval.OK {
				t.Errorf("exchange: %v, %v", v, err)
			}
		}
		n, err := h.EndMatching(ctx, ApprovalFilter{Client: "quill"}, approval.RevokedByOperator, false, Act{})
		if looks < moment { // there was no such moment
			if moment < 3 {
				t.Errorf("%d looks", looks)
			}
			return
		}
		if err != nil || n != 1 {
			t.Errorf("exchanged at %d: %d ended, %v", moment, n, err)
		}
		if h.accepts(t, id) {
			t.Errorf("exchanged at %d: it lives on", moment)
		}
	}
}

// What ended before nobody waited any more is in the journal, as what was asked for.
func TestEndMatchingThatIsCutOff(t *testing.T) {
	const all = 150 // more than a batch
	h := furnished(t)
	for n := range all {
		h.live(t, h.answer(byte(n)))
	}
	left := func() int {
		n, err := h.db.Engine.Live(ctx)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	ended, err := h.EndMatching(gone{ctx, func() bool { return left() < all }}, ApprovalFilter{Client: "quill"}, approval.RevokedByOperator, false, Act{Actor: "operator", Reason: "stolen"})
	if !errors.Is(err, context.Canceled) || ended == 0 || ended == all || left() != all-ended {
		t.Errorf("%d ended, %v, %d are left", ended, err, left())
	}
	entries, _, err := h.Events(ctx, EventFilter{Kinds: []journal.Kind{journal.OperatorChanged}})
	if err != nil || len(entries) != 1 || entries[0].Reason != "stolen" || entries[0].Client != "quill" || entries[0].Detail != fmt.Sprint(ended, " approvals revoked, then broken off") {
		t.Errorf("journal: %+v, %v", entries, err)
	}
}

// Approvals whose end no row says yet, and which were used again before their
// rows are read, leave those behind them in the list.
func TestEndedListsWhereSomeLiveAgain(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	var ids []string
	again := map[string]bool{}
	for i := range byte(8) { // their codes expire
		handle, _, err := h.Approve(ctx, h.answer(i), Act{})
		if err != nil {
			t.Fatal(err)
		}
		id := approval.ID(handle.ID()).String()
		ids = append(ids, id)
		again[id] = i%5 > 1
		h.clock.add(time.Second)
	}
	h.clock.add(10 * time.Minute)
	slices.Reverse(ids)
	want := slices.DeleteFunc(ids, func(id string) bool { return again[id] })
	walkAs(t, "ended", want, false, func(after string, limit int) (ids []string, next string, err error) {
		rows, next, err := h.ApprovalPage(ctx, ApprovalFilter{State: "ended", After: after, Limit: limit},
			func(r ApprovalRow) bool { return !again[r.ID.String()] })
		for _, r := range rows {
			ids = append(ids, r.ID.String())
		}
		return ids, next, err
	})
}
