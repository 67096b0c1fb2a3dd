package records_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/records"
)

// Every combination of filters gives the entries that match, in both orders
// and in pages of each size, also where a page looks at a few entries alone.
func TestEventFilters(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	for i := range 24 {
		e := engine.Event{Kind: []journal.Kind{"signin_failed", "rate_limited"}[i%2], Reference: fmt.Sprint("r", i%5)}
		if i%3 > 0 {
			e.Person, e.Client = []string{"", "ada", "tor"}[i%3], []string{"quill", "scribe"}[i/2%2]
		}
		if i%6 == 2 {
			e.Approval, e.Organization = "0badcafe", "nordlys"
		}
		if err := h.change(func(tx *engine.Tx) error { return tx.Journal(e) }); err != nil {
			t.Fatal(err)
		}
		h.clock.add(time.Second)
	}
	all, next, err := h.Events(ctx, records.EventFilter{Limit: 1000})
	if err != nil || next != "" || len(all) < 24 {
		t.Fatalf("%d entries, next %q, %v", len(all), next, err)
	}
	most := *records.MaxEventWalk
	t.Cleanup(func() { *records.MaxEventWalk = most })
	matched := 0
	for _, f := range eventFilters(all[len(all)-10].At, all[3].At) {
		want := matching(all, f)
		matched += len(want)
		for _, *records.MaxEventWalk = range []int{most, 6} {
			walkAs(t, fmt.Sprintf("%d, %+v", *records.MaxEventWalk, f), want, *records.MaxEventWalk == most, h.eventPages(f))
		}
	}
	if matched < 300 {
		t.Errorf("only %d matches", matched)
	}
}

func (h house) eventPages(f records.EventFilter) func(after string, limit int) (ids []string, next string, err error) {
	return func(after string, limit int) (ids []string, next string, err error) {
		f.After, f.Limit = after, limit
		page, next, err := h.Events(context.Background(), f)
		for _, e := range page {
			ids = append(ids, e.ID)
		}
		return ids, next, err
	}
}

func eventFilters(since, until int64) (all []records.EventFilter) {
	for _, kind := range []journal.Kind{"", "signin_failed"} {
		for _, client := range []string{"", "quill"} {
			for _, person := range []string{"", "ada", "tor"} {
				for _, approval := range []string{"", "0badcafe"} {
					for _, reference := range []string{"", "r1"} {
						for _, oldest := range []bool{false, true} {
							f := records.EventFilter{Kind: kind, Client: client, Person: person, Approval: approval, Reference: reference, OldestFirst: oldest}
							all = append(all, f)
							f.Since, f.Until = since, until
							if kind == "" {
								f.Kinds = []journal.Kind{"rate_limited", "client_registered"}
							}
							all = append(all, f)
						}
					}
				}
			}
		}
	}
	return all
}

func matching(all []engine.Event, f records.EventFilter) (ids []string) {
	for _, e := range all {
		if (f.Kind == "" || f.Kind == e.Kind) && (f.Kinds == nil || slices.Contains(f.Kinds, e.Kind)) &&
			(f.Client == "" || f.Client == e.Client) && (f.Person == "" || f.Person == e.Person) &&
			(f.Approval == "" || f.Approval == e.Approval) && (f.Reference == "" || f.Reference == e.Reference) &&
			(f.Since == 0 || e.At >= f.Since) && (f.Until == 0 || e.At < f.Until) {
			ids = append(ids, e.ID)
		}
	}
	if f.OldestFirst {
		slices.Reverse(ids)
	}
	return ids
}

// A page of the journal ends where it was found to end, even when entries came
// or went since.
func TestEventPagesWhileEntriesComeAndGo(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	write := func(kind journal.Kind, n int) {
		t.Helper()
		for i := range n {
			e := engine.Event{Kind: kind, Reference: fmt.Sprint("r", i%3), Person: "ada"}
			if err := h.change(func(tx *engine.Tx) error { return tx.Journal(e) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	most := *records.MaxEventWalk
	t.Cleanup(func() { *records.MaxEventWalk = most })
	for _, tt := range []struct {
		name string
		walk int
		f    records.EventFilter
	}{
		{"newest first", 8, records.EventFilter{Reference: "r1"}},
		{"newest first, the end in sight", 600, records.EventFilter{Reference: "r1"}},
		{"of a person", 32, records.EventFilter{Reference: "r1", Person: "ada"}},
		{"oldest first", 8, records.EventFilter{Reference: "r1", OldestFirst: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write("signin_failed", 40)
			*records.MaxEventWalk = most
			f := tt.f
			f.Limit = 1000
			before, next, err := h.Events(ctx, f)
			if err != nil || next != "" {
				t.Fatal(next, err)
			}
			*records.MaxEventWalk = tt.walk
			got := map[string]int{}
			for pages := 0; ; pages++ {
				way, edge, err := h.Edge(ctx, f)
				if err != nil {
					t.Fatal(err)
				}
				if pages == 0 && f.OldestFirst { // the oldest are swept
					if err := h.Handle().ChangeFacts(func(tx *engine.Tx) error {
						_, err := tx.Exec(`DELETE FROM journal WHERE id IN (SELECT id FROM journal ORDER BY id LIMIT 6)`)
						return err
					}); err != nil {
						t.Fatal(err)
					}
				} else if pages == 0 {
					write("rate_limited", tt.walk)
				}
				page, next, err := h.EventsTo(ctx, f, way, edge)
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
