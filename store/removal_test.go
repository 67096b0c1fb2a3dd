package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store/approvals"
)

// Many members leave in one import that comes twice at once, while their
// clients check, refresh and exchange: nothing is accepted that was asked
// after either has come back, nothing comes back, and each end is told once.
func TestManyRemovedBesideTheirClients(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	lowerMarkBatch(t, 250)
	many := approvals.EndsBatch + 30
	d := treasurers(many)
	if err := h.AddDirectory(ctx, d, Act{}); err != nil {
		t.Fatal(err)
	}
	type one struct {
		id     approval.ID
		issued int64
	}
	all := make([]one, many)
	for i := range all {
		a := h.unique(i)
		a.Person, a.Grant = fmt.Sprintf("p%03d", i), grantset.Set{Kind: grantset.Everything}
		handle, issued, err := h.Approve(ctx, a, Act{})
		if err != nil {
			t.Fatal(err)
		}
		all[i] = one{approval.ID(handle.ID()), issued}
		if i%8 > 0 {
			if v, err := h.exchange(all[i].id, issued); v != approval.OK || err != nil {
				t.Fatal(v, err)
			}
		}
	}
	less := h.exported(t)
	kept := slices.DeleteFunc(slices.Clone(less.Members), func(m directory.Member) bool { return m.Person[0] == 'p' })
	more := less.Members
	less.Members, less.Fillers, less.APIKeys = kept, slices.DeleteFunc(less.Fillers, func(f directory.Filler) bool { return f.Person[0] == 'p' }), nil

	var gone, stop atomic.Bool
	var clients, imports sync.WaitGroup
	for c := range 4 {
		clients.Go(func() {
			for i := c; !stop.Load(); i += 4 {
				at := all[i%many]
				was := gone.Load()
				a, err := h.Check(ctx, at.id)
				if err == nil && was && a.Approval.Phase != approval.Ended && a.Approval.Lost(a.Standing) == "" {
					t.Errorf("%s is accepted after its end", at.id)
				}
				var v approval.Verdict
				if i%8 == 0 {
					v, err = h.exchange(at.id, at.issued)
				} else if a.Approval.Phase == approval.Live {
					v, err = h.refresh(at.id, a.Approval.Generation)
				} else {
					continue
				}
				if err == nil && v == approval.OK && was {
					t.Errorf("%s moved after its end", at.id)
				}
			}
		})
	}
	for range 2 {
		imports.Go(func() {
			if _, err := h.ImportDirectory(ctx, directory.Import{Directory: less, Prune: map[string]bool{directory.ListMembers: true}}, Act{}); err != nil {
				t.Error(err)
			}
			gone.Store(true)
		})
	}
	imports.Wait()
	stop.Store(true)
	clients.Wait()

	// All of them come back, and nothing with them.
	less.Members = more
	if _, err := h.ImportDirectory(ctx, directory.Import{Directory: less, Prune: map[string]bool{directory.ListMembers: true}}, Act{}); err != nil {
		t.Fatal(err)
	}
	ends := map[string]int{}
	for f := (EventFilter{Kind: "approval_ended", Limit: 1000}); ; {
		events, next, err := h.Events(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			ends[e.Approval]++
		}
		if f.After = next; next == "" {
			break
		}
	}
	for _, at := range all {
		row, err := h.Approval(ctx, at.id)
		if err != nil || row.Phase != approval.Ended || h.accepts(t, at.id) || ends[at.id.String()] != 1 {
			t.Fatalf("%s: %+v, told %d times, %v", at.id, row.State, ends[at.id.String()], err)
		}
	}
	if rows := h.rows(t, `SELECT COUNT(*) FROM approval WHERE phase < 3`); rows != 0 {
		t.Errorf("%d rows say that they live", rows)
	}
	h.same(t, "after it")
}
