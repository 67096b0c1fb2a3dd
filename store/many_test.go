package store

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/approvals"
)

func lowerMarkBatch(t testing.TB, to int) {
	t.Helper()
	was := approvals.EndsBatch
	approvals.EndsBatch = to
	t.Cleanup(func() { approvals.EndsBatch = was })
}

// treasurers are so many people with one role.
func treasurers(many int) (d directory.Directory) {
	for i := range many {
		id := fmt.Sprintf("p%03d", i)
		d.People = append(d.People, directory.Person{Person: org.Person{ID: id, Email: id + "@nordlys.example", Active: true}})
		d.Members = append(d.Members, directory.Member{Person: id, Organization: "nordlys", Admin: false})
		d.Fillers = append(d.Fillers, directory.Filler{Role: "treasurer", Person: id})
	}
	return d
}

// crowd adds so many people with a role and an approval each, and gives their
// approvals and the directory without them.
func (h house) crowd(t testing.TB, many int) (all []approval.ID, without directory.Directory) {
	t.Helper()
	ctx := context.Background()
	without = h.exported(t)
	without.APIKeys = nil
	d := treasurers(many)
	if err := h.AddDirectory(ctx, d, Act{}); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		a := h.unique(i)
		a.Person, a.Grant = fmt.Sprintf("p%03d", i), grantset.Set{Kind: grantset.Everything}
		all = append(all, h.live(t, a))
	}
	without.People = append(without.People, d.People...)
	return all, without
}

// An import that is cut off behind its commit, while the rows of what it ended
// are marked: nothing of that is accepted from then on, and whoever starts next
// marks the rest. Each end is told once.
func TestRemovalIsCutOff(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	lowerMarkBatch(t, 10)
	all, less := h.crowd(t, 25)
	cut, stop := context.WithCancel(ctx)
	stop()
	out, err := h.ImportDirectory(cut, directory.Import{Directory: less, Prune: map[string]bool{directory.ListMembers: true}}, Act{})
	if err != nil || out.Lists[directory.ListMembers].Removed != len(all) || out.Ended >= len(all) {
		t.Fatalf("%+v, %v", out, err)
	}
	after := h
	if embedded() {
		if rows := h.rows(t, `SELECT COUNT(*) FROM approval WHERE phase = 3`); rows != 10 {
			t.Fatalf("%d rows are marked, want those of the first batch", rows)
		}
		left := filepath.Join(t.TempDir(), "copy.db")
		for _, suffix := range []string{"", "-wal"} {
			copyFile(t, h.path+suffix, left+suffix)
		}
		after = open(t, left, h.clock)
	} else {
		h.Close()
		after = open(t, h.path, h.clock)
	}
	for _, id := range all {
		if v, err := after.refresh(id, 1); v == approval.OK || err != nil || after.accepts(t, id) {
			t.Fatalf("%s after its end: %v, %v", id, v, err)
		}
	}
	if _, err := after.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	ended, next, err := after.Events(ctx, EventFilter{Kind: "approval_ended", Limit: 1000})
	slices.SortFunc(ended, func(a, b Event) int { return slices.Compare([]byte(a.Approval), []byte(b.Approval)) })
	ended = slices.CompactFunc(ended, func(a, b Event) bool { return a.Approval == b.Approval })
	if err != nil || next != "" || len(ended) != len(all) {
		t.Errorf("the ends of %d were told, %v", len(ended), err)
	}
	if rows := after.rows(t, `SELECT COUNT(*) FROM journal WHERE kind = 'approval_ended'`); rows != len(all) {
		t.Errorf("%d ends were told of %d", rows, len(all))
	}
	if rows := after.rows(t, `SELECT COUNT(*) FROM approval WHERE phase < 3`); rows != 0 {
		t.Errorf("%d rows say that they live", rows)
	}
	after.same(t, "after it")
}

// The room that a removal is given is taken back, whether its batches come to
// their end at once or in the sweep after.
func TestRoomIsTakenBack(t *testing.T) {
	if !embedded() {
		return
	}
	ctx, h := context.Background(), furnished(t)
	lowerMarkBatch(t, 10)
	room := func() (out [2]int64) {
		t.Helper()
		err := h.change(func(tx *Tx) error {
			for i, name := range []string{"cache_size", "wal_autocheckpoint"} {
				if err := tx.Conn.QueryRowContext(ctx, `PRAGMA `+name).Scan(&out[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	little := room()
	_, less := h.crowd(t, 35)
	half := less
	half.Members = append(slices.Clone(less.Members), h.exported(t).Members[20:]...)
	slices.SortFunc(half.Members, func(a, b directory.Member) int {
		return slices.Compare([]byte(a.Organization+"/"+a.Person), []byte(b.Organization+"/"+b.Person))
	})
	half.Members = slices.Compact(half.Members)
	prune := map[string]bool{directory.ListMembers: true}
	cut, stop := context.WithCancel(ctx)
	stop()
	if _, err := h.ImportDirectory(cut, directory.Import{Directory: half, Prune: prune}, Act{}); err != nil {
		t.Fatal(err)
	}
	if room() == little {
		t.Error("there is little room while rows wait to be marked")
	}
	if _, err := h.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if got := room(); got != little {
		t.Errorf("after the sweep: got %v, want %v", got, little)
	}
	if out, err := h.ImportDirectory(ctx, directory.Import{Directory: less, Prune: prune}, Act{}); err != nil || out.Ended == 0 {
		t.Fatal(out.Ended, err)
	}
	if got := room(); got != little {
		t.Errorf("after a removal: got %v, want %v", got, little)
	}
}

// However many entries are written together, each has its own fields, in the
// order in which they came.
func TestManyEntries(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	var want []Event
	for i := range 1000 + 2*64 + 3 {
		field := func(name string) string { return fmt.Sprintf("%s-%d", name, i) }
		want = append(want, Event{Kind: "restored", Client: field("client"), Person: field("person"), Organization: field("organization"),
			Approval: field("approval"), Actor: field("actor"), Address: field("address"), Reason: field("reason"), Detail: field("detail"),
			Reference: field("reference")})
	}
	if err := h.change(func(tx *Tx) error { return tx.Journal(want...) }); err != nil {
		t.Fatal(err)
	}
	var got []Event
	for f := (EventFilter{Kind: "restored", OldestFirst: true, Limit: 1000}); ; {
		page, next, err := h.Events(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page...)
		if f.After = next; next == "" {
			break
		}
	}
	for i := range got {
		if got[i].At != h.Now().Unix() {
			t.Fatalf("entry %d is of %d", i, got[i].At)
		}
		got[i].ID, got[i].At = "", 0
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d entries were written, %d are there, or they differ", len(want), len(got))
	}
}
