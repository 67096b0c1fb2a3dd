package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/org"
)

// What a directory says twice or wrongly is refused, and changes nothing.
func TestDirectoryRefused(t *testing.T) {
	circle := func(id, organization, parent string) org.Circle {
		return org.Circle{ID: id, Organization: organization, Parent: parent, Name: id}
	}
	role := func(id, organization, circle string) org.Role {
		return org.Role{ID: id, Organization: organization, Circle: circle, Name: id}
	}
	person := func(id, email string) directory.Person {
		return directory.Person{Person: org.Person{ID: id, Email: email, Name: id, Active: true}}
	}
	for _, tt := range []struct {
		name string
		d    directory.Directory
		want error
	}{
		{"two people with one email", directory.Directory{People: []directory.Person{person("eva", "e@x.example"), person("ida", "E@x.example")}}, ErrConflict},
		{"an email that its owner keeps", directory.Directory{People: []directory.Person{person("ada", "tor@nordlys.example"), person("tor", "Tor@nordlys.example")}}, ErrConflict},
		{"an email that moves on to two", directory.Directory{People: []directory.Person{person("ada", "new@nordlys.example"), person("eva", "Ada@nordlys.example"), person("ida", "ada@nordlys.example")}}, ErrConflict},
		{"a member who is nobody", directory.Directory{Members: []directory.Member{{Person: "nobody", Organization: "nordlys", Admin: false}}}, ErrNotFound},
		{"a member of nowhere", directory.Directory{Members: []directory.Member{{Person: "ada", Organization: "nowhere", Admin: false}}}, ErrNotFound},
		{"a circle of nowhere", directory.Directory{Circles: []org.Circle{circle("new", "nowhere", "")}}, ErrNotFound},
		{"a circle of another organization", directory.Directory{Circles: []org.Circle{circle("anchor", "fjell", "")}}, ErrConflict},
		{"a circle in two organizations", directory.Directory{Circles: []org.Circle{circle("new", "nordlys", ""), circle("new", "fjell", "")}}, ErrConflict},
		{"a circle below nothing", directory.Directory{Circles: []org.Circle{circle("new", "nordlys", "gone")}}, ErrNotFound},
		{"a circle below another organization's", directory.Directory{Circles: []org.Circle{circle("new", "nordlys", "grants")}}, ErrNotFound},
		{"a circle below another organization's new one", directory.Directory{Circles: []org.Circle{circle("new", "nordlys", "next"), circle("next", "fjell", "")}}, ErrNotFound},
		{"a circle below itself", directory.Directory{Circles: []org.Circle{circle("new", "nordlys", "new")}}, ErrConflict},
		{"a ring", directory.Directory{Circles: []org.Circle{circle("a", "nordlys", "b"), circle("b", "nordlys", "a")}}, ErrConflict},
		{"a way into a ring", directory.Directory{Circles: []org.Circle{circle("way", "nordlys", "a"), circle("a", "nordlys", "b"), circle("b", "nordlys", "a")}}, ErrConflict},
		{"a ring with a circle that is there", directory.Directory{Circles: []org.Circle{circle("new", "nordlys", "anchor"), circle("anchor", "nordlys", "new")}}, ErrConflict},
		{"a role of another organization", directory.Directory{Roles: []org.Role{role("treasurer", "fjell", "grants")}}, ErrConflict},
		{"a role in two organizations", directory.Directory{Roles: []org.Role{role("new", "nordlys", "anchor"), role("new", "fjell", "grants")}}, ErrConflict},
		{"a role in no circle", directory.Directory{Roles: []org.Role{role("new", "nordlys", "gone")}}, ErrNotFound},
		{"a role in another organization's circle", directory.Directory{Roles: []org.Role{role("new", "nordlys", "grants")}}, ErrNotFound},
		{"a role in another organization's new circle", directory.Directory{Circles: []org.Circle{circle("new", "fjell", "")}, Roles: []org.Role{role("new", "nordlys", "new")}}, ErrNotFound},
		{"a filler of no role", directory.Directory{Fillers: []directory.Filler{{Role: "gone", Person: "ada"}}}, ErrNotFound},
		{"a filler who is no member", directory.Directory{Fillers: []directory.Filler{{Role: "reviewer", Person: "tor"}}}, ErrNotFound},
		{"an API key of no member", directory.Directory{APIKeys: []directory.APIKey{{Key: "a-key-of-16-characters", Person: "tor", Organization: "fjell", Name: "k"}}}, ErrNotFound},
		{"an API key that can be guessed", directory.Directory{APIKeys: []directory.APIKey{{Key: "15-characters--", Person: "ada", Organization: "nordlys", Name: "k"}}}, ErrConflict},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t)
			before := h.remembered(t)
			tt.d.People = append(tt.d.People, person("first", "first@x.example"))
			tt.d.Organizations = []org.Organization{{ID: "first", Name: "First"}}
			if err := h.AddDirectory(context.Background(), tt.d, Act{}); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			difference(t, "it was refused", h.remembered(t), before)
			h.same(t, "refused")
		})
	}
}

// One who was a member once, and whose roles were emptied, fills nothing of a
// directory's either, unless it makes them a member again.
func TestDirectoryAndOldMembers(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	if err := h.RemoveMember(ctx, "nordlys", "tor", Act{}); err != nil {
		t.Fatal(err)
	}
	d := directory.Directory{Fillers: []directory.Filler{{Role: "treasurer", Person: "tor"}}, APIKeys: []directory.APIKey{{Key: "a-key-of-16-characters", Person: "tor", Organization: "nordlys", Name: "k"}}}
	if err := h.AddDirectory(ctx, d, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
	if err := h.SetFiller(ctx, "treasurer", "tor", true, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("as filler: got %v, want not found", err)
	}
	d.Members = []directory.Member{{Person: "tor", Organization: "nordlys", Admin: false}}
	if err := h.AddDirectory(ctx, d, Act{}); err != nil {
		t.Error(err)
	}
	if m, err := h.APIKey(ctx, "a-key-of-16-characters"); err != nil || !m.Fills("treasurer") {
		t.Errorf("member again: %+v, %v", m, err)
	}
	h.same(t, "member again")
}

// What an import ends, it ends for good, at once and in the rows (decisions
// P7, P10); what it moves is seen at the next request.
func TestDirectoryEnds(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		name      string
		off, on   directory.Directory
		reason    approval.Reason
		keepsTor  bool
		keepsSess bool
	}{
		{"AI integration off, and on",
			directory.Directory{Organizations: []org.Organization{{ID: "nordlys", Name: "Nordlys"}}},
			directory.Directory{Organizations: []org.Organization{{ID: "nordlys", Name: "Nordlys", AIIntegration: true}}},
			approval.IntegrationOff, false, true},
		{"person deactivated, and reactivated",
			directory.Directory{People: []directory.Person{{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada"}}}},
			directory.Directory{People: []directory.Person{{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada", Active: true}}}},
			approval.PersonDeactivated, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t)
			id := h.live(t, h.answer(1))
			tors := h.answer(2)
			tors.Person, tors.Grant.Picks = "tor", nil
			tors.Grant.Personal = true
			other := h.live(t, tors)
			if err := h.AddSession(ctx, "value", "ada", Act{}); err != nil {
				t.Fatal(err)
			}
			for _, d := range []directory.Directory{tt.off, tt.off, tt.on} {
				if err := h.AddDirectory(ctx, d, Act{}); err != nil {
					t.Fatal(err)
				}
				if h.accepts(t, id) || h.accepts(t, other) != tt.keepsTor {
					t.Errorf("ada's is accepted: %v, tor's: %v", h.accepts(t, id), h.accepts(t, other))
				}
				var reason string
				if err := h.db.Reader.QueryRow(`SELECT reason FROM approval WHERE id = $1`, id[:]).Scan(&reason); err != nil || reason != string(tt.reason) {
					t.Errorf("the row says %q, %v", reason, err)
				}
			}
			if _, err := h.Session(ctx, "value"); (err == nil) != tt.keepsSess {
				t.Errorf("session: %v", err)
			}
			h.same(t, "after the import")
		})
	}
}

// A role moved by an import belongs to its new circle at once, for those who
// fill it too.
func TestDirectoryMovesRole(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	h.accepts(t, id) // the member's facts are made once, and have to be made again
	if err := h.AddDirectory(ctx, directory.Directory{
		Circles: []org.Circle{{ID: "ring", Organization: "nordlys", Parent: "anchor", Name: "Ring"}},
		Roles:   []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "ring", Name: "Treasurer"}},
	}, Act{}); err != nil {
		t.Fatal(err)
	}
	a, err := h.Check(ctx, id)
	if err != nil || len(a.Member().Roles()) != 1 || a.Member().Roles()[0].Circle != "ring" {
		t.Errorf("the member's roles: %+v, %v", a.Member().Roles(), err)
	}
	h.same(t, "moved")
}

// Who has another password has no session from before, whichever way it came
// (case A-10); an import of the same one leaves them.
func TestA10NewPasswordEndsSessions(t *testing.T) {
	ctx := context.Background()
	ada := directory.Person{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada", Active: true}}
	with := func(hash string) directory.Directory {
		p := ada
		p.PasswordHash = hash
		return directory.Directory{People: []directory.Person{p}}
	}
	for _, tt := range []struct {
		name string
		do   func(h house) error
		want bool // the session stands
	}{
		{"set", func(h house) error { return h.SetPassword(ctx, "ada", "$argon2id$y", Act{}) }, false},
		{"imported", func(h house) error { return h.AddDirectory(ctx, with("$argon2id$y"), Act{}) }, false},
		{"imported, the same", func(h house) error { return h.AddDirectory(ctx, with("$argon2id$x"), Act{}) }, true},
		{"not imported", func(h house) error { return h.AddDirectory(ctx, with(""), Act{}) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t)
			id := h.live(t, h.answer(1))
			for value, person := range map[string]string{"value": "ada", "tor's": "tor"} {
				if err := h.AddSession(ctx, value, person, Act{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := tt.do(h); err != nil {
				t.Fatal(err)
			}
			if _, err := h.Session(ctx, "value"); (err == nil) != tt.want {
				t.Errorf("session: %v, want it to stand: %v", err, tt.want)
			}
			if _, err := h.Session(ctx, "tor's"); err != nil || !h.accepts(t, id) {
				t.Errorf("another's session: %v, the approval lives: %v", err, h.accepts(t, id))
			}
			_, hash, err := h.Password(ctx, "ADA@nordlys.example")
			if want := "$argon2id$y"; err != nil || (hash == want) == tt.want {
				t.Errorf("password %q, %v", hash, err)
			}
		})
	}
}

// People are found by ID and by email, but sign in by email alone.
func TestPersonAndPassword(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	for _, name := range []string{"ada", "Ada@nordlys.example", "ada@NORDLYS.example"} {
		if p, err := h.Person(ctx, name); err != nil || p.ID != "ada" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		if p, _, err := h.Password(ctx, name); (err == nil) != (name != "ada") || err == nil && p.ID != "ada" {
			t.Errorf("password of %s: %+v, %v", name, p, err)
		}
	}
	if err := h.AddDirectory(ctx, directory.Directory{People: []directory.Person{{Person: org.Person{ID: "ada", Email: "new@nordlys.example", Name: "Ada", Active: true}}}}, Act{}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Person(ctx, "ada@nordlys.example"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the old email: %v", err)
	}
	if err := h.AddDirectory(ctx, directory.Directory{People: []directory.Person{{Person: org.Person{ID: "eva", Email: "ada@nordlys.example", Name: "Eva", Active: true}}}}, Act{}); err != nil {
		t.Error("the old email, to somebody else:", err)
	}
	if err := h.SetActive(ctx, "eva", false, Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.AddSession(ctx, "value", "eva", Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("signed in while deactivated: %v", err)
	}
}

// What is listed of an organization follows who is there and active.
func TestListsFollowFacts(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	look := func(when string, admins, fillers int, member bool) {
		t.Helper()
		people, err := h.Admins(ctx, "nordlys", 10)
		if err != nil || len(people) != admins {
			t.Errorf("%s: admins %v, %v", when, people, err)
		}
		rows, err := h.Roles(ctx, "nordlys")
		if err != nil || len(rows) != 1 || len(rows[0].Fillers) != fillers {
			t.Errorf("%s: roles %+v, %v", when, rows, err)
		}
		if _, err := h.Member(ctx, "ada", "nordlys"); (err == nil) != member {
			t.Errorf("%s: member: %v", when, err)
		}
	}
	look("at first", 1, 1, true)
	if err := h.SetActive(ctx, "ada", false, Act{}); err != nil {
		t.Fatal(err)
	}
	look("deactivated", 0, 0, false)
	if err := h.SetActive(ctx, "ada", true, Act{}); err != nil {
		t.Fatal(err)
	}
	look("reactivated", 1, 1, true)
	if err := h.RemoveMember(ctx, "nordlys", "ada", Act{}); err != nil {
		t.Fatal(err)
	}
	look("removed", 0, 0, false)
	if err := h.SetMember(ctx, "nordlys", "ada", true, Act{}); err != nil {
		t.Fatal(err)
	}
	look("a member again", 1, 0, true)
	if people, err := h.Admins(ctx, "nordlys", 0); err != nil || len(people) != 0 {
		t.Errorf("none asked for: %v, %v", people, err)
	}
}

// A circle whose ancestors are a ring, as an older release took them, stops
// nobody.
func TestRingOfCirclesHoldsNobodyWhoWaits(t *testing.T) {
	h := furnished(t)
	h.sql(t, `INSERT INTO circle (id, organization, parent, name) VALUES ('a', 'nordlys', 'b', 'A'), ('b', 'nordlys', 'a', 'B')`)
	h = h.reopen(t)
	done := make(chan error, 1)
	go func() {
		done <- h.AddDirectory(context.Background(), directory.Directory{Circles: []org.Circle{{ID: "new", Organization: "nordlys", Parent: "b", Name: "New"}}}, Act{})
	}()
	select {
	case err := <-done:
		if !errors.Is(err, ErrConflict) {
			t.Errorf("got %v, want a conflict", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the writer climbs for ever")
	}
}
