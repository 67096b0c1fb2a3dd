package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/postgres"
)

// complete is an import that names all there is.
func complete(d directory.Directory) directory.Import {
	i := directory.Import{Directory: d, Prune: map[string]bool{}}
	for _, list := range []string{directory.ListPeople, directory.ListOrganizations, directory.ListMembers, directory.ListCircles, directory.ListRoles, directory.ListAPIKeys} {
		i.Prune[list] = true
	}
	return i
}

func (h house) exported(t testing.TB) directory.Directory {
	t.Helper()
	d, err := h.ExportDirectory(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// What is exported is what is there: to import it changes nothing, also where
// it names all there is.
func TestExportIsAnImport(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	for _, err := range []error{
		h.RemoveMember(ctx, "fjell", "ada", Act{}), h.SetMember(ctx, "fjell", "ada", false, Act{}),
		h.SetActive(ctx, "tor", false, Act{}), h.SetMember(ctx, "fjell", "tor", false, Act{}),
		h.AddDirectory(ctx, directory.Directory{APIKeys: []directory.APIKey{{Key: "a-key-that-will-end", Person: "ada", Organization: "fjell", Name: "ended"}}}, Act{}),
		h.RemoveMember(ctx, "fjell", "ada", Act{}), h.SetMember(ctx, "fjell", "ada", false, Act{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d := h.exported(t)
	if len(d.People) != 2 || len(d.Members) != 4 || len(d.Roles) != 2 || len(d.Fillers) != 1 || len(d.APIKeys) != 1 || d.APIKeys[0].Key != "" || d.People[1].Active {
		t.Errorf("exported %+v", d)
	}
	before, events := h.remembered(t), h.kinds(t)
	out, err := h.ImportDirectory(ctx, complete(d), Act{})
	if err != nil || len(out.Lists) != 0 || len(out.Changes) != 0 || out.Ended != 0 {
		t.Errorf("imported %+v, %v", out, err)
	}
	difference(t, "it was imported again", h.remembered(t), before)
	if h.kinds(t) != events || !h.accepts(t, id) {
		t.Error("an event, or an end, of nothing")
	}
}

// What a complete list does not name goes: facts end for good, the approvals
// on them too, and the rest stays. A dry run tells exactly that, and does none
// of it.
func TestPrune(t *testing.T) {
	ctx := context.Background()
	person := func(id string) func(directory.Directory) directory.Directory {
		return func(d directory.Directory) directory.Directory {
			d.People = slices.DeleteFunc(d.People, func(p directory.Person) bool { return p.ID == id })
			d.Members = slices.DeleteFunc(d.Members, func(m directory.Member) bool { return m.Person == id })
			d.Fillers = slices.DeleteFunc(d.Fillers, func(f directory.Filler) bool { return f.Person == id })
			d.APIKeys = slices.DeleteFunc(d.APIKeys, func(k directory.APIKey) bool { return k.Person == id })
			return d
		}
	}
	for _, tt := range []struct {
		name    string
		leave   func(directory.Directory) directory.Directory
		changes []string
		lives   string // approvals: a is ada's in nordlys, f hers in fjell, t is tor's
		reason  approval.Reason
	}{
		{"a person", person("ada"), []string{"removed member fjell/ada", "removed member nordlys/ada", "removed person ada"}, "t", approval.PersonDeactivated},
		{"a member", func(d directory.Directory) directory.Directory {
			d.Members = slices.DeleteFunc(d.Members, func(m directory.Member) bool { return m.Organization == "nordlys" && m.Person == "ada" })
			d.Fillers = slices.DeleteFunc(d.Fillers, func(f directory.Filler) bool { return f.Role == "treasurer" })
			d.APIKeys = nil
			return d
		}, []string{"removed member nordlys/ada"}, "ft", approval.LeftOrganization},
		{"an organization", func(d directory.Directory) directory.Directory {
			d.Organizations = slices.DeleteFunc(d.Organizations, func(o org.Organization) bool { return o.ID == "nordlys" })
			d.Members = slices.DeleteFunc(d.Members, func(m directory.Member) bool { return m.Organization == "nordlys" })
			d.Circles = slices.DeleteFunc(d.Circles, func(c org.Circle) bool { return c.Organization == "nordlys" })
			d.Roles = slices.DeleteFunc(d.Roles, func(r org.Role) bool { return r.Organization == "nordlys" })
			d.Fillers = slices.DeleteFunc(d.Fillers, func(f directory.Filler) bool { return f.Role == "treasurer" })
			d.APIKeys = nil
			return d
		}, []string{"removed circle anchor", "removed member nordlys/ada", "removed member nordlys/tor", "removed organization nordlys", "removed role treasurer"}, "f", approval.LeftOrganization},
		{"a role", func(d directory.Directory) directory.Directory {
			d.Roles = slices.DeleteFunc(d.Roles, func(r org.Role) bool { return r.ID == "treasurer" })
			d.Fillers = slices.DeleteFunc(d.Fillers, func(f directory.Filler) bool { return f.Role == "treasurer" })
			return d
		}, []string{"removed role treasurer"}, "aft", ""},
		{"a filler", func(d directory.Directory) directory.Directory { d.Fillers = nil; return d },
			[]string{"removed filler reviewer/ada", "removed filler treasurer/ada"}, "aft", ""},
		{"an API key", func(d directory.Directory) directory.Directory { d.APIKeys = nil; return d }, []string{"removed api_key nordlys/ada"}, "aft", ""},
		{"nobody", func(d directory.Directory) directory.Directory { return d }, nil, "aft", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t)
			fjell, tors := h.answer(2), h.answer(3)
			fjell.Organization, fjell.Grant.Picks, fjell.Grant.Personal = "fjell", nil, true
			tors.Person, tors.Grant.Picks, tors.Grant.Personal = "tor", nil, true
			ids := map[byte]approval.ID{'a': h.live(t, h.answer(1)), 'f': h.live(t, fjell), 't': h.live(t, tors)}
			i := complete(tt.leave(h.exported(t)))
			before := h.remembered(t)
			i.Dry = true
			dry, err := h.ImportDirectory(ctx, i, Act{})
			if err != nil {
				t.Fatal(err)
			}
			difference(t, "a dry run", h.remembered(t), before)
			i.Dry = false
			out, err := h.ImportDirectory(ctx, i, Act{Actor: "operator", Reason: "nightly"})
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, c := range out.Changes {
				lines = append(lines, c.What+" "+strings.TrimSuffix(strings.Replace(c.List, "people", "persons", 1), "s")+" "+c.ID)
			}
			slices.Sort(lines)
			if !slices.Equal(lines, tt.changes) || !maps.Equal(out.Lists, dry.Lists) || out.Ended != dry.Ended || out.Ended != 3-len(tt.lives) {
				t.Errorf("changed %q, want %q; ended %d, a dry run said %+v", lines, tt.changes, out.Ended, dry)
			}
			for name, id := range ids {
				if h.accepts(t, id) != strings.ContainsRune(tt.lives, rune(name)) {
					t.Errorf("%c lives: %v", name, h.accepts(t, id))
				}
				var reason string
				if err := h.db.Reader.QueryRow(`SELECT reason FROM approval WHERE id = $1`, id[:]).Scan(&reason); err != nil || (reason != "") != !strings.ContainsRune(tt.lives, rune(name)) || reason != "" && reason != string(tt.reason) {
					t.Errorf("%c ended as %q, %v", name, reason, err)
				}
			}
			h.same(t, "pruned")
			again, err := h.ImportDirectory(ctx, i, Act{})
			if err != nil || len(again.Changes) != 0 {
				t.Errorf("again: %+v, %v", again, err)
			}
		})
	}
}

// A list that is not complete prunes nothing.
func TestPruneOnlyCompleteLists(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	before := h.remembered(t)
	out, err := h.ImportDirectory(ctx, directory.Import{Prune: map[string]bool{}}, Act{})
	if err != nil || len(out.Changes) != 0 {
		t.Errorf("%+v, %v", out, err)
	}
	difference(t, "an empty import", h.remembered(t), before)
}

// Somebody who was removed comes back as somebody new: active, with an email
// that may have been another's meanwhile, and without what ended.
func TestRemovedPersonComesBack(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	all := h.exported(t)
	one := all
	one.People = all.People[1:] // tor
	one.Members = slices.DeleteFunc(slices.Clone(all.Members), func(m directory.Member) bool { return m.Person == "ada" })
	one.Fillers, one.APIKeys = nil, nil
	one.People = append(slices.Clone(one.People), directory.Person{Person: org.Person{ID: "ada2", Email: "ADA@nordlys.example", Name: "Ada", Active: true}})
	if _, err := h.ImportDirectory(ctx, complete(one), Act{}); err != nil {
		t.Fatal(err)
	}
	if p, err := h.Person(ctx, "ada@nordlys.example"); err != nil || p.ID != "ada2" {
		t.Errorf("the email is %+v's, %v", p, err)
	}
	if p, err := h.Person(ctx, "ada"); err != nil || p.Active || p.Email != "" {
		t.Errorf("what is left: %+v, %v", p, err)
	}
	if _, err := h.Person(ctx, ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("without an email: %v", err)
	}
	h.same(t, "removed")
	all.People[0].Email = "ada.again@nordlys.example"
	all.Unsaid.Active = map[string]bool{"ada": true, "tor": true}
	if _, err := h.ImportDirectory(ctx, directory.Import{Directory: directory.Directory{People: all.People, Members: all.Members, Unsaid: all.Unsaid}}, Act{}); err != nil {
		t.Fatal(err)
	}
	if p, err := h.Person(ctx, "ada"); err != nil || !p.Active || h.accepts(t, id) {
		t.Errorf("back again: %+v, %v, the old approval lives: %v", p, err, h.accepts(t, id))
	}
	if _, err := h.APIKey(ctx, "key-of-ada-in-nordlys"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the old API key: %v", err)
	}
	h.same(t, "back again")
	h = h.reopen(t)
	if p, err := h.Person(ctx, "ada.again@nordlys.example"); err != nil || !p.Active {
		t.Errorf("after a restart: %+v, %v", p, err)
	}
}

// An email that somebody leaves in an import may be another's in the same, in any order of the
// two, and with each other; each is found by their new one, also after a restart. One that its
// owner keeps is refused, and nothing of it stands.
func TestImportPassesEmailsOn(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	// people are ada and tor, in the order in which they are named.
	people := func(named ...string) (d directory.Directory) {
		for n := 0; n < len(named); n += 2 {
			d.People = append(d.People, directory.Person{Person: org.Person{ID: named[n], Email: named[n+1], Name: named[n], Active: true}})
		}
		return d
	}
	for _, named := range [][]string{
		{"ada", "new@nordlys.example", "tor", "ada@nordlys.example"},
		{"tor", "new@nordlys.example", "ada", "tor@nordlys.example"},
		{"ada", "NEW@nordlys.example", "tor", "Tor@nordlys.example"},
		{"eva", "new@nordlys.example", "ada", "tor@nordlys.example", "tor", "ada@nordlys.example"},
	} {
		if err := h.AddDirectory(ctx, people(named...), Act{}); err != nil {
			t.Fatalf("%v: %v", named, err)
		}
		h.same(t, "emails have passed on")
		for range 2 {
			for n := 0; n < len(named); n += 2 {
				if p, err := h.Person(ctx, named[n+1]); err != nil || p.ID != named[n] || p.Email != named[n+1] {
					t.Errorf("%v: %s is %+v's, %v", named, named[n+1], p, err)
				}
			}
			h = h.reopen(t)
		}
	}
	before := h.remembered(t)
	if err := h.AddDirectory(ctx, people("ada", "new@nordlys.example", "tor", "tor@nordlys.example"), Act{}); !errors.Is(err, ErrConflict) {
		t.Errorf("an email that its owner keeps: %v", err)
	}
	difference(t, "refused", h.remembered(t), before)
}

// A contradiction is named with its place, and changes nothing.
func TestImportRefused(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		name  string
		wrong func(*directory.Directory)
		list  string
		index int
		want  error
	}{
		{"a person twice", func(d *directory.Directory) { d.People = append(d.People, d.People[0]) }, directory.ListPeople, 2, ErrConflict},
		{"an organization twice", func(d *directory.Directory) { d.Organizations = append(d.Organizations, d.Organizations[0]) }, directory.ListOrganizations, 2, ErrConflict},
		{"a member twice", func(d *directory.Directory) { d.Members = append(d.Members, d.Members[1]) }, directory.ListMembers, 3, ErrConflict},
		{"a circle twice", func(d *directory.Directory) { d.Circles = append(d.Circles, d.Circles[1]) }, directory.ListCircles, 2, ErrConflict},
		{"a role twice", func(d *directory.Directory) { d.Roles = append(d.Roles, d.Roles[1]) }, directory.ListRoles, 2, ErrConflict},
		{"a filler twice", func(d *directory.Directory) { d.Fillers = append(d.Fillers, d.Fillers[0]) }, directory.ListRoles, 0, ErrConflict},
		{"a key without its text that is not there", func(d *directory.Directory) {
			d.APIKeys = append(d.APIKeys, directory.APIKey{Key: "", Person: "ada", Organization: "nordlys", Name: "x"})
		}, directory.ListAPIKeys, 1, ErrNotFound},
		{"a member who is not named", func(d *directory.Directory) { d.People = d.People[:1] }, directory.ListMembers, 2, ErrNotFound},
		{"a member of what is not named", func(d *directory.Directory) { d.Organizations = d.Organizations[:1] }, directory.ListMembers, 1, ErrNotFound},
		{"a role in a circle that is not named", func(d *directory.Directory) { d.Circles = d.Circles[1:] }, directory.ListRoles, 0, ErrNotFound},
		{"a filler who is not named as member", func(d *directory.Directory) { d.Members = d.Members[1:] }, directory.ListRoles, 0, ErrNotFound},
		{"a key of a member who is not named", func(d *directory.Directory) { d.Members, d.Fillers = d.Members[:1], d.Fillers[:1] }, directory.ListAPIKeys, 0, ErrNotFound},
		{"a circle below one that is not named", func(d *directory.Directory) {
			d.Circles = []org.Circle{d.Circles[0], d.Circles[1], {ID: "x", Organization: "nordlys", Parent: "gone", Name: "X"}}
		}, directory.ListCircles, 2, ErrNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t)
			d := h.exported(t)
			tt.wrong(&d)
			before := h.remembered(t)
			_, err := h.ImportDirectory(ctx, complete(d), Act{})
			var at *directory.Misplaced
			if !errors.Is(err, tt.want) || !errors.As(err, &at) || at.List != tt.list || at.Index != tt.index {
				t.Errorf("got %v at %+v, want %v at %s[%d]", err, at, tt.want, tt.list, tt.index)
			}
			difference(t, "refused", h.remembered(t), before)
			h.same(t, "refused")
		})
	}
	h := furnished(t)
	d := h.exported(t)
	i := complete(d)
	i.Circles, i.Roles, i.Fillers, i.Prune[directory.ListRoles] = d.Circles[1:], nil, nil, false
	if _, err := h.ImportDirectory(ctx, i, Act{}); !errors.Is(err, ErrConflict) || !strings.Contains(fmt.Sprint(err), "stays in it") {
		t.Errorf("a circle with a role in it: %v", err)
	}
}

// What an import ends is journaled one by one, with who and why.
func TestImportIsJournaled(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	d := h.exported(t)
	d.Members, d.Fillers, d.APIKeys = d.Members[:1], d.Fillers[:1], nil
	d.Organizations[0].AIIntegration = false
	if _, err := h.ImportDirectory(ctx, complete(d), Act{Actor: "operator:anna", Address: "192.0.2.1", Reason: "nightly"}); err != nil {
		t.Fatal(err)
	}
	events, _, err := h.Events(ctx, EventFilter{Kind: "directory_changed"})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range events[:4] {
		if e.Actor != "operator:anna" || e.Address != "192.0.2.1" || e.Reason != "nightly" {
			t.Errorf("%+v", e)
		}
		told = append(told, strings.TrimSpace(e.Detail+" "+e.Organization+" "+e.Person))
	}
	slices.Sort(told)
	want := []string{"AI integration off fjell", "member removed nordlys ada", "member removed nordlys tor", "organizations: 1 changed; members: 2 removed"}
	if !slices.Equal(told, want) {
		t.Errorf("got %q\nwant %q", told, want)
	}
}

// An import that only takes a version, or gives an API key another name, says so: in what a
// dry run tells, and in the journal, once.
func TestImportTellsVersionsAndNames(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	renamed := directory.Directory{APIKeys: []directory.APIKey{{Key: "key-of-ada-in-nordlys", Person: "ada", Organization: "nordlys", Name: "backup"}}}
	for _, tt := range []struct {
		i    directory.Import
		want string
	}{
		{directory.Import{AsOf: 42}, "as_of: 42"},
		{directory.Import{Directory: renamed}, "api_keys: 1 changed"},
	} {
		for _, want := range []string{tt.want, ""} {
			told := h.told(t)
			dry := tt.i
			dry.Dry = true
			if out, err := h.ImportDirectory(ctx, dry, Act{}); err != nil || out.String() != want || len(h.told(t)) != len(told) {
				t.Errorf("a dry run says %q, %v, want %q", out, err, want)
			}
			out, err := h.ImportDirectory(ctx, tt.i, Act{})
			if want != "" {
				told = append([]string{want}, told...)
			}
			if now := h.told(t); err != nil || out.String() != want || !slices.Equal(now, told) {
				t.Errorf("got %q, %v, journaled %q, want %q", out, err, now, told)
			}
		}
	}
	if d := h.exported(t); len(d.APIKeys) != 1 || d.APIKeys[0].Name != "backup" {
		t.Errorf("the key is %+v", d.APIKeys)
	}
	if _, err := h.APIKey(ctx, "key-of-ada-in-nordlys"); err != nil {
		t.Errorf("by its new name: %v", err)
	}
}

// told is what the journal has of changes of the directory, the last first.
func (h house) told(t *testing.T) (details []string) {
	t.Helper()
	events, _, err := h.Events(context.Background(), EventFilter{Kind: "directory_changed"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		details = append(details, e.Detail)
	}
	return details
}

// A picture of the directory that is older than what an event has told since
// leaves that alone; one that is older than the last picture is refused.
func TestImportAsOf(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	h.sql(t, `INSERT INTO directory_version (object, version) VALUES ('membership:nordlys/tor', 12), ('person:eva', 15), ('membership:fjell/ada', 8)`)
	if err := h.RemoveMember(ctx, "nordlys", "tor", Act{}); err != nil {
		t.Fatal(err)
	}
	d := h.exported(t)
	d.People = append(d.People, directory.Person{Person: org.Person{ID: "eva", Email: "eva@nordlys.example", Name: "Eva", Active: true}})
	d.Members = []directory.Member{{Person: "ada", Organization: "nordlys", Admin: true}, {Person: "tor", Organization: "nordlys", Admin: false}}
	d.Fillers = []directory.Filler{{Role: "treasurer", Person: "ada"}, {Role: "treasurer", Person: "tor"}}
	i := complete(d)
	i.AsOf = 10
	out, err := h.ImportDirectory(ctx, i, Act{})
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(out.Lists, map[string]directory.Counts{directory.ListMembers: {Removed: 1}}) || out.Changes[0].ID != "fjell/ada" {
		t.Errorf("changed %+v", out)
	}
	h.same(t, "as of 10")
	i.AsOf = 9
	if _, err := h.ImportDirectory(ctx, i, Act{}); !errors.Is(err, ErrConflict) {
		t.Errorf("an older picture: %v", err)
	}
	i.AsOf = 20
	if out, err = h.ImportDirectory(ctx, i, Act{}); err != nil || !maps.Equal(out.Lists, map[string]directory.Counts{directory.ListPeople: {Added: 1}, directory.ListMembers: {Added: 1}, directory.ListFillers: {Added: 1}}) {
		t.Errorf("a newer picture: %+v, %v", out, err)
	}
}

// A version beyond the bound, which an earlier release took, refuses no picture and no event:
// the next picture's is taken in its place, and counts as ever.
func TestAsOfBeyondTheBoundIsNone(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	h.sql(t, `INSERT INTO meta (name, value) VALUES ('directory.as_of', '9223372036854775807')`)
	eva := directory.Event{ID: "e1", Version: 3, Person: &directory.Person{Person: org.Person{ID: "eva", Email: "eva@nordlys.example", Name: "Eva", Active: true}}}
	if result, err := h.TellDirectory(ctx, eva, Act{}); err != nil || result != ToldApplied {
		t.Errorf("an event: %s, %v", result, err)
	}
	if out, err := h.ImportDirectory(ctx, directory.Import{AsOf: 7}, Act{}); err != nil || out.AsOf != 7 {
		t.Errorf("a picture takes version %d, %v", out.AsOf, err)
	}
	if _, err := h.ImportDirectory(ctx, directory.Import{AsOf: 6}, Act{}); !errors.Is(err, ErrConflict) {
		t.Errorf("an older one then: %v", err)
	}
	if _, err := h.ImportDirectory(ctx, directory.Import{AsOf: directory.MaxAsOf}, Act{}); err != nil {
		t.Errorf("the greatest: %v", err)
	}
	if _, err := h.ImportDirectory(ctx, directory.Import{AsOf: 8}, Act{}); !errors.Is(err, ErrConflict) {
		t.Errorf("one before the greatest: %v", err)
	}
}

// On PostgreSQL a whole directory has longer than other changes have.
func TestAnImportHasItsOwnBound(t *testing.T) {
	if embedded() {
		return
	}
	was := postgres.ChangeTimeout
	postgres.ChangeTimeout = time.Second
	defer func() { postgres.ChangeTimeout = was }()
	h := furnished(t)
	long := func(tx *Tx) error {
		for range 3 {
			if _, err := tx.Exec(`SELECT pg_sleep(0.5)`); err != nil {
				return err
			}
		}
		return putAda(tx)
	}
	if err := h.changeFacts(long); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a change: %v", err)
	}
	if err := h.changeMany(long); err != nil {
		t.Errorf("an import: %v", err)
	}
	h.same(t, "after the import")
}

// On PostgreSQL what changes very many rows finds them by their index, and leaves the server as
// it is for all else.
func TestManyRowsByTheirIndex(t *testing.T) {
	if embedded() {
		return
	}
	h := furnished(t)
	for _, change := range []struct {
		name string
		run  func(func(*Tx) error) error
		on   bool // PostgreSQL itself
		want string
	}{{"an import", h.changeMany, true, "1"}, {"a change after it", h.changeFacts, true, "4"}, {"on another engine", h.changeMany, false, "4"}} {
		var cost string
		h.postgres().IsPostgreSQL = change.on
		if err := change.run(func(tx *Tx) error { return tx.QueryRow(`SHOW random_page_cost`).Scan(&cost) }); err != nil || cost != change.want {
			t.Errorf("%s: a page by an index costs %s, want %s: %v", change.name, cost, change.want, err)
		}
	}
}
