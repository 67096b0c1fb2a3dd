package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/postgres"
)

// changesOfFacts is one of each kind of change, in an order in which each
// changes something.
func changesOfFacts(h house) []struct {
	name string
	do   func(context.Context) error
} {
	imported := func(d directory.Directory, prune ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			lists := map[string]bool{}
			for _, p := range prune {
				lists[p] = true
			}
			_, err := h.ImportDirectory(ctx, directory.Import{Directory: d, Prune: lists}, Act{})
			return err
		}
	}
	role := func(id, circle string) func(context.Context) error {
		return imported(directory.Directory{Roles: []org.Role{{ID: id, Organization: "nordlys", Circle: circle, Name: id}}})
	}
	return []struct {
		name string
		do   func(context.Context) error
	}{
		{"organization renamed", imported(directory.Directory{Organizations: []org.Organization{{ID: "nordlys", Name: "Nord", AIIntegration: true}}})},
		{"circle made", imported(directory.Directory{Circles: []org.Circle{{ID: "sea", Organization: "nordlys", Name: "Sea"}}})},
		{"role made", role("cook", "anchor")},
		{"role moved", role("cook", "sea")},
		{"role given", func(ctx context.Context) error { return h.SetFiller(ctx, "cook", "tor", true, Act{}) }},
		{"role taken", func(ctx context.Context) error { return h.SetFiller(ctx, "cook", "tor", false, Act{}) }},
		{"role deleted", func(context.Context) error {
			return h.tells(directory.Event{Role: &org.Role{ID: "cook"}, Gone: true})
		}},
		{"circle deleted", func(context.Context) error {
			return h.tells(directory.Event{Circle: &org.Circle{ID: "sea"}, Gone: true})
		}},
		{"admin right given", func(ctx context.Context) error { return h.SetAdmin(ctx, "nordlys", "tor", true, Act{}) }},
		{"person renamed", imported(directory.Directory{People: []directory.Person{{Person: org.Person{ID: "tor", Email: "tor@nordlys.example", Name: "Thor", Active: true}}}})},
		{"circle and role imported", imported(directory.Directory{
			Circles: []org.Circle{{ID: "sky", Organization: "nordlys", Name: "Sky"}},
			Roles:   []org.Role{{ID: "pilot", Organization: "nordlys", Circle: "sky", Name: "Pilot"}},
			Fillers: []directory.Filler{{Role: "pilot", Person: "tor"}},
		})},
		{"person deactivated", func(ctx context.Context) error { return h.SetActive(ctx, "tor", false, Act{}) }},
		{"person reactivated", func(ctx context.Context) error { return h.SetActive(ctx, "tor", true, Act{}) }},
		{"member removed", func(ctx context.Context) error { return h.RemoveMember(ctx, "nordlys", "tor", Act{}) }},
		{"AI integration off", func(ctx context.Context) error { return h.SetIntegration(ctx, "nordlys", false, Act{}) }},
		{"roles pruned", imported(directory.Directory{
			Circles: []org.Circle{{ID: "anchor", Organization: "nordlys", Name: "Nordlys"}, {ID: "grants", Organization: "fjell", Name: "Grants"}},
			Roles:   []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "anchor", Name: "Treasurer"}, {ID: "reviewer", Organization: "fjell", Circle: "grants", Name: "Reviewer"}},
			Fillers: []directory.Filler{{Role: "treasurer", Person: "ada"}, {Role: "reviewer", Person: "ada"}},
		}, directory.ListRoles, directory.ListCircles)},
	}
}

// Every change of an organization's facts gives them another stamp, and none that
// was there before; the facts of another organization keep theirs.
func TestStamps(t *testing.T) {
	h := furnished(t)
	wantStamps(t, h, h)
}

// The same on a node that another one tells.
func TestStampsOnAnotherNode(t *testing.T) {
	all := nodes(t, 2)
	wantStamps(t, all[0], all[1])
}

func wantStamps(t *testing.T, h, seenBy house) {
	ctx := context.Background()
	key := IdentifyAPIKey("key-of-ada-in-nordlys")
	stamp := func() facts.Stamp {
		a, err := seenBy.CheckAPIKeyNow(ctx, key)
		if err != nil || a.Stamp == 0 || a.Stamp != seenBy.Stamp("nordlys") {
			t.Fatalf("stamp %d, %d: %v", a.Stamp, seenBy.Stamp("nordlys"), err)
		}
		return a.Stamp
	}
	seen := map[facts.Stamp]bool{stamp(): true}
	other := seenBy.Stamp("fjell")
	for _, c := range changesOfFacts(h) {
		if err := c.do(ctx); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if now := stamp(); seen[now] {
			t.Errorf("%s: the stamp stayed, or came again", c.name)
		} else {
			seen[now] = true
		}
	}
	if now := seenBy.Stamp("fjell"); now != other {
		t.Errorf("the other organization's stamp went from %d to %d", other, now)
	}
	if s := h.Stamp("nowhere"); s != 0 {
		t.Errorf("of nothing: %d", s)
	}
}

// Rows that were read between two checks with one stamp belong to the facts of
// that stamp: here a role goes from circle to circle, again and again, and its row
// says where the facts of before and after have it.
func TestRowsBelongToTheStampWhileFactsChange(t *testing.T) {
	h := furnished(t)
	ctx := context.Background()
	id := h.live(t, h.answer(1))
	flip := func(circle string) error {
		_, err := h.ImportDirectory(ctx, directory.Import{Directory: directory.Directory{
			Circles: []org.Circle{{ID: "anchor", Organization: "nordlys", Name: "Nordlys"}, {ID: "other", Organization: "nordlys", Name: "Other"}},
			Roles:   []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: circle, Name: "Treasurer"}},
		}}, Act{})
		return err
	}
	if err := flip("other"); err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	var whole atomic.Int64
	for range 4 {
		wg.Go(func() {
			for !done.Load() {
				before, err := h.Check(ctx, id)
				var circle string
				errRow := h.db.Reader.QueryRowContext(ctx, `SELECT circle FROM role WHERE id = 'treasurer'`).Scan(&circle)
				after, errAfter := h.CheckNow(ctx, id)
				if err := errors.Join(err, errRow, errAfter); err != nil {
					t.Error(err)
					return
				}
				if before.Stamp != after.Stamp {
					continue
				}
				whole.Add(1)
				if r, _ := before.Member().Role("treasurer"); r.Circle != circle {
					t.Errorf("the row has %q, the facts %q", circle, r.Circle)
					return
				}
			}
		})
	}
	for n := range 200 {
		if err := flip([]string{"anchor", "other"}[n%2]); err != nil {
			t.Fatal(err)
		}
	}
	for whole.Load() == 0 && !t.Failed() { // nothing is proved before
		if _, err := h.Check(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	done.Store(true)
	wg.Wait()
}

// An API key stands as its member does, with a grant set of everything.
func TestCheckAPIKey(t *testing.T) {
	h := furnished(t)
	ctx := context.Background()
	a, err := h.CheckAPIKey(ctx, IdentifyAPIKey("key-of-ada-in-nordlys"))
	if err != nil || a.Approval.Person != "ada" || a.Approval.Organization != "nordlys" || a.Approval.Grant.Kind != grantset.Everything ||
		!a.MayAdminister() || a.PersonName != "Ada Lindqvist" || a.OrganizationName != "Nordlys" {
		t.Errorf("%+v, %v", a, err)
	}
	for _, id := range []APIKeyID{{}, IdentifyAPIKey("another")} {
		if _, err := h.CheckAPIKeyNow(ctx, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%x: %v", id[:2], err)
		}
	}
}

// Many that are asked about together are answered as each alone: what has ended is
// not found, also what another node ended.
func TestCheckAllNow(t *testing.T) {
	h := furnished(t)
	ctx := context.Background()
	seenBy := h
	if server != nil {
		seenBy = h.second(t)
	}
	stands, ends := h.live(t, h.answer(1)), h.live(t, h.answer(2))
	all := func() []Asked {
		all := []Asked{{Approval: stands}, {Approval: ends}, {ByKey: true, Key: IdentifyAPIKey("key-of-ada-in-nordlys")}, {ByKey: true}, {}}
		for range 2 * postgres.MaxQuestions { // more than one statement takes
			all = append(all, Asked{Approval: ends})
		}
		seenBy.CheckAllNow(ctx, all)
		return all
	}
	for i, a := range all() {
		if want := i != 3 && i != 4; (a.Err == nil) != want || !want && !errors.Is(a.Err, ErrNotFound) {
			t.Errorf("question %d: %v", i, a.Err)
		}
	}
	if _, v, err := h.Apply(ctx, ends, approval.End(approval.RevokedByPerson, h.Now()), Act{}); err != nil || v != approval.OK {
		t.Fatal(v, err)
	}
	for i, a := range all() {
		if want := i == 0 || i == 2; (a.Err == nil) != want || !want && !errors.Is(a.Err, ErrNotFound) || want && a.Access.Approval.Person != "ada" {
			t.Errorf("question %d after the end: %+v, %v", i, a.Access.Approval, a.Err)
		}
	}
	if server != nil {
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		asked := []Asked{{Approval: stands}}
		seenBy.CheckAllNow(cancelled, asked)
		if !errors.Is(asked[0].Err, ErrUnavailable) {
			t.Errorf("who has given up is told %v", asked[0].Err)
		}
	}
}
