package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
)

// Every combination of filters gives the entries that match, in both orders
// and in pages of each size, also where a page looks at a few entries alone.
func TestEventFilters(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	for i := range 24 {
		e := Event{Kind: []journal.Kind{"signin_failed", "rate_limited"}[i%2], Reference: fmt.Sprint("r", i%5)}
		if i%3 > 0 {
			e.Person, e.Client = []string{"", "ada", "tor"}[i%3], []string{"quill", "scribe"}[i/2%2]
		}
		if i%6 == 2 {
			e.Approval, e.Organization = "0badcafe", "nordlys"
		}
		if err := h.change(func(tx *Tx) error { return tx.Journal(e) }); err != nil {
			t.Fatal(err)
		}
		h.clock.add(time.Second)
	}
	all, next, err := h.Events(ctx, EventFilter{Limit: 1000})
	if err != nil || next != "" || len(all) < 24 {
		t.Fatalf("%d entries, next %q, %v", len(all), next, err)
	}
	most := maxEventWalk
	t.Cleanup(func() { maxEventWalk = most })
	matched := 0
	for _, f := range eventFilters(all[len(all)-10].At, all[3].At) {
		want := matching(all, f)
		matched += len(want)
		for _, maxEventWalk = range []int{most, 6} {
			walkAs(t, fmt.Sprintf("%d, %+v", maxEventWalk, f), want, maxEventWalk == most, h.eventPages(f))
		}
	}
	if matched < 300 {
		t.Errorf("only %d matches", matched)
	}
}

func (h house) eventPages(f EventFilter) func(after string, limit int) (ids []string, next string, err error) {
	return func(after string, limit int) (ids []string, next string, err error) {
		f.After, f.Limit = after, limit
		page, next, err := h.Events(context.Background(), f)
		for _, e := range page {
			ids = append(ids, e.ID)
		}
		return ids, next, err
	}
}

func eventFilters(since, until int64) (all []EventFilter) {
	for _, kind := range []journal.Kind{"", "signin_failed"} {
		for _, client := range []string{"", "quill"} {
			for _, person := range []string{"", "ada", "tor"} {
				for _, approval := range []string{"", "0badcafe"} {
					for _, reference := range []string{"", "r1"} {
						for _, oldest := range []bool{false, true} {
							f := EventFilter{Kind: kind, Client: client, Person: person, Approval: approval, Reference: reference, OldestFirst: oldest}
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

func matching(all []Event, f EventFilter) (ids []string) {
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
