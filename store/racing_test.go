package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
)

// A page of the journal ends where it was found to end, even when entries came
// or went since.
func TestEventPagesWhileEntriesComeAndGo(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	write := func(kind journal.Kind, n int) {
		t.Helper()
		for i := range n {
			e := Event{Kind: kind, Reference: fmt.Sprint("r", i%3), Person: "ada"}
			if err := h.change(func(tx *Tx) error { return tx.Journal(e) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	most := maxEventWalk
	t.Cleanup(func() { maxEventWalk = most })
	for _, tt := range []struct {
		name string
		walk int
		f    EventFilter
	}{
		{"newest first", 8, EventFilter{Reference: "r1"}},
		{"newest first, the end in sight", 600, EventFilter{Reference: "r1"}},
		{"of a person", 32, EventFilter{Reference: "r1", Person: "ada"}},
		{"oldest first", 8, EventFilter{Reference: "r1", OldestFirst: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write("signin_failed", 40)
			maxEventWalk = most
			f := tt.f
			f.Limit = 1000
			before, next, err := h.Events(ctx, f)
			if err != nil || next != "" {
				t.Fatal(next, err)
			}
			maxEventWalk = tt.walk
			got := map[string]int{}
			for pages := 0; ; pages++ {
				way, err := f.way()
				if err != nil {
					t.Fatal(err)
				}
				edge, err := h.edge(ctx, f, way)
				if err != nil {
					t.Fatal(err)
				}
				if pages == 0 && f.OldestFirst { // the oldest are swept
					if err := h.changeFacts(func(tx *Tx) error {
						_, err := tx.Exec(`DELETE FROM journal WHERE id IN (SELECT id FROM journal ORDER BY id LIMIT 6)`)
						return err
					}); err != nil {
						t.Fatal(err)
					}
				} else if pages == 0 {
					write("rate_limited", tt.walk)
				}
				page, next, err := h.eventsTo(ctx, f, way, edge)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page {
					got[e.ID]++
				}
				if f.After = next; next == "" {
					break
				}
			}
			gone := 0
			for _, e := range before {
				if _, err := h.Event(ctx, e.ID); err != nil {
					gone++
				} else if got[e.ID] != 1 {
					t.Errorf("entry %s is there %d times", e.ID, got[e.ID])
				}
			}
			if gone > 6 {
				t.Errorf("%d of the entries are gone", gone)
			}
			for id, n := range got {
				if n > 1 {
					t.Errorf("entry %s is there %d times", id, n)
				}
			}
		})
	}
}

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
