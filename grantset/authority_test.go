package grantset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/org"
	"pgregory.net/rapid"
)

// The world of the properties: eight roles in four circles of one
// organization, and a neighbour with IDs that are alike.
var world = func() (roles []org.Role) {
	for i := range 8 {
		roles = append(roles, org.Role{ID: fmt.Sprint("r", i), Organization: "acme", Circle: fmt.Sprint("c", i/2), Name: fmt.Sprint("Role ", i)})
	}
	return roles
}()

func someRoles() *rapid.Generator[[]org.Role] {
	return rapid.Custom(func(t *rapid.T) []org.Role {
		mask := rapid.Uint8().Draw(t, "roles")
		var out []org.Role
		for i, r := range world {
			if mask>>i&1 == 1 {
				out = append(out, r)
			}
		}
		return out
	})
}

func someMember() *rapid.Generator[org.Member] {
	return rapid.Custom(func(t *rapid.T) org.Member {
		if rapid.IntRange(0, 15).Draw(t, "no member") == 0 {
			return org.Member{}
		}
		return org.NewMember("ann", "acme", rapid.Bool().Draw(t, "admin"), someRoles().Draw(t, "filled"))
	})
}

func someSet() *rapid.Generator[Set] {
	return rapid.Custom(func(t *rapid.T) Set {
		s := Set{Kind: rapid.SampledFrom(Kinds).Draw(t, "kind")}
		if s.Kind != Roles {
			return s
		}
		change := rapid.Uint8().Draw(t, "change")
		for i, r := range someRoles().Draw(t, "picked") {
			s.Picks = append(s.Picks, Pick{r.ID, change>>i&1 == 1})
		}
		s.Personal = rapid.Bool().Draw(t, "personal") || len(s.Picks) == 0
		return s
	})
}

// someCeiling is none half of the time.
func someCeiling() *rapid.Generator[*Ceiling] {
	return rapid.Custom(func(t *rapid.T) *Ceiling {
		if rapid.Bool().Draw(t, "no ceiling") {
			return nil
		}
		c := &Ceiling{ReadOnly: rapid.Bool().Draw(t, "read only"), NoPersonal: rapid.Bool().Draw(t, "no personal items")}
		c.Widest = rapid.SampledFrom(append([]Kind{""}, Kinds...)).Draw(t, "widest")
		for _, r := range someRoles().Draw(t, "never") {
			c.Never = append(c.Never, r.ID)
		}
		return c
	})
}

// everyItem is one item of each sort in the world.
var everyItem = func() (items []org.Item) {
	for _, o := range []string{"acme", "other", ""} {
		for _, private := range []bool{false, true} {
			for _, r := range world {
				items = append(items, org.Item{Organization: o, Role: r.ID, Circle: r.Circle, Private: private})
			}
			items = append(items, org.Item{Organization: o, Private: private})
			for _, person := range []string{"ann", "zoe"} {
				items = append(items, org.Item{Organization: o, Person: person, Private: private})
			}
		}
	}
	return items
}()

// atMost fails when less allows what more does not.
func atMost(t *rapid.T, why string, less, more Authority) {
	for _, i := range everyItem {
		if less.MayRead(i) && !more.MayRead(i) {
			t.Fatalf("%s: reads %+v", why, i)
		}
		if less.MayChange(i) && !more.MayChange(i) {
			t.Fatalf("%s: changes %+v", why, i)
		}
	}
	if less.MayAdminister() && !more.MayAdminister() || less.MayReadOrganization() && !more.MayReadOrganization() {
		t.Fatalf("%s: administers or reads the organization", why)
	}
	rank := map[string]int{"none": 0, "read": 1, "change": 2}
	for _, r := range world {
		if rank[less.Acts(r.ID)] > rank[more.Acts(r.ID)] {
			t.Fatalf("%s: acts with %s as %s, and not more than %s", why, less.Acts(r.ID), r.ID, more.Acts(r.ID))
		}
	}
}

// A client never may what its person may not (decision P6).
func TestNeverMoreThanThePerson(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, s := someMember().Draw(t, "member"), someSet().Draw(t, "set")
		a := s.Narrow(m, nil)
		for _, i := range everyItem {
			if a.MayRead(i) && !m.MayRead(i) || a.MayChange(i) && !m.MayChange(i) {
				t.Fatalf("%+v", i)
			}
		}
		if a.MayAdminister() && !m.MayAdminister() {
			t.Fatal("administers")
		}
		if a.MayReadOrganization() != m.Exists() {
			t.Fatalf("reads the organization: %t", a.MayReadOrganization())
		}
		if a.Kind() != s.Kind || a.Member().Person != m.Person {
			t.Fatalf("stands for %s of %q", a.Kind(), a.Member().Person)
		}
	})
}

// Fewer picks, read instead of change, and no personal items never allow more;
// and no grant set allows more than "Everything I can access".
func TestNarrowingIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, s := someMember().Draw(t, "member"), someSet().Draw(t, "set")
		a := s.Narrow(m, nil)
		atMost(t, "against everything", a, Set{Kind: Everything}.Narrow(m, nil))
		if s.Kind != Roles {
			return
		}
		fewer := s
		fewer.Personal = false
		atMost(t, "without personal items", fewer.Narrow(m, nil), a)
		for i, p := range s.Picks {
			fewer = s
			fewer.Picks = slices.Delete(slices.Clone(s.Picks), i, i+1)
			atMost(t, "without "+p.Role, fewer.Narrow(m, nil), a)
			fewer.Picks = slices.Clone(s.Picks)
			fewer.Picks[i].Change = false
			atMost(t, "only read as "+p.Role, fewer.Narrow(m, nil), a)
		}
	})
}

// Losing a role, the admin right or the membership never allows more, and a
// role regained counts again as before (decision P5).
func TestLosingNeverAllowsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles, admin, s := someRoles().Draw(t, "filled"), rapid.Bool().Draw(t, "admin"), someSet().Draw(t, "set")
		with := func(admin bool, roles []org.Role) Authority {
			return s.Narrow(org.NewMember("ann", "acme", admin, slices.Clone(roles)), nil)
		}
		before := with(admin, roles)
		atMost(t, "no longer admin", with(false, roles), before)
		atMost(t, "no longer a member", s.Narrow(org.Member{}, nil), before)
		for i, r := range roles {
			atMost(t, "without "+r.ID, with(admin, slices.Delete(slices.Clone(roles), i, i+1)), before)
		}
		after := with(admin, roles)
		atMost(t, "regained", before, after)
		atMost(t, "regained", after, before)
	})
}

// What the options mean, each for itself.
func TestOptions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, s := someMember().Draw(t, "member"), someSet().Draw(t, "set")
		a := s.Narrow(m, nil)
		for _, i := range everyItem {
			read, change := a.MayRead(i), a.MayChange(i)
			visible := m.Exists() && i.Organization == "acme" && !i.Private && !i.Personal()
			switch {
			case visible && !read:
				t.Fatalf("what every member sees is not readable: %+v", i)
			case change && !read:
				t.Fatalf("may change without reading: %+v", i)
			case s.Kind == Organization && i.Personal() && (read || change): // decision P15
				t.Fatalf("a personal item of everything in the organization: %+v", i)
			case s.Kind == Roles && i.Personal() && (read || change) && !s.Personal:
				t.Fatalf("a personal item that was not given: %+v", i)
			case s.Kind == Roles && i.Personal() && s.Personal && (read != m.MayRead(i) || change != m.MayChange(i)): // decision P4
				t.Fatalf("a personal item that was given: read %t, change %t: %+v", read, change, i)
			case s.Kind == Everything && (read != m.MayRead(i) || change != m.MayChange(i)):
				t.Fatalf("not everything that the person may: %+v", i)
			case s.Kind == Organization && !i.Personal() && (read != m.MayRead(i) || change != m.MayChange(i)):
				t.Fatalf("not everything in the organization: %+v", i)
			case s.Kind == Roles && !i.Personal() && change && !(s.Access(i.Role) == "change" && m.Fills(i.Role)):
				t.Fatalf("changed without the role: %+v", i)
			case s.Kind == Roles && i.Organization == "acme" && i.Role != "" && s.Access(i.Role) != "none" && m.Fills(i.Role) && !read:
				t.Fatalf("not readable through its role: %+v", i)
			case s.Kind == Roles && i.Private && !i.Personal() && read && !pickedIn(s, m, i.Circle):
				t.Fatalf("private to a circle of no picked role: %+v", i)
			}
		}
		if want := s.Kind != Roles && m.MayAdminister(); a.MayAdminister() != want {
			t.Fatalf("administers: %t", !want)
		}
		for _, r := range world {
			want := "none"
			if m.Fills(r.ID) {
				want = "change"
				if s.Kind == Roles {
					want = s.Access(r.ID)
				}
			}
			if got := a.Acts(r.ID); got != want {
				t.Fatalf("acts with %s as %s, want %s", got, r.ID, want)
			}
		}
		filled := []org.Role{}
		for r, access := range a.Filled {
			if filled = append(filled, *r); access != a.Acts(r.ID) {
				t.Fatalf("%s is filled with %s, and acts with %s", r.ID, access, a.Acts(r.ID))
			}
		}
		if !slices.Equal(filled, m.Roles()) {
			t.Fatalf("filled: %v, want %v", filled, m.Roles())
		}
	})
}

func pickedIn(s Set, m org.Member, circle string) bool {
	return slices.ContainsFunc(m.Roles(), func(r org.Role) bool { return r.Circle == circle && s.Access(r.ID) != "none" })
}

// There is a reason exactly for what is refused, and what may not even be read
// gives away no other one.
func TestExplainIsEmptyWhenAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := someSet().Draw(t, "set")
		if rapid.IntRange(0, 7).Draw(t, "zero set") == 0 {
			s = Set{}
		}
		a := s.Narrow(someMember().Draw(t, "member"), someCeiling().Draw(t, "ceiling"))
		for _, i := range everyItem {
			if (a.ExplainRead(i, "Role") == "") != a.MayRead(i) || (a.ExplainChange(i, "Role") == "") != a.MayChange(i) {
				t.Fatalf("reading %+v: %q, changing: %q", i, a.ExplainRead(i, "Role"), a.ExplainChange(i, "Role"))
			}
			put := a.ExplainPut(i, "Role")
			if (put == "") != a.MayChange(i) || put != "" && i.Role != "" && i.Organization == "acme" && a.MayReadOrganization() && !strings.Contains(put, "Role") {
				t.Fatalf("putting %+v: %q", i, put)
			}
			if read, change := a.ExplainRead(i, "Role"), a.ExplainChange(i, "Role"); read != "" && change != read {
				t.Fatalf("%+v may not be read: %q; and changed: %q", i, read, change)
			}
		}
		if (a.ExplainAdminister() == "") != a.MayAdminister() {
			t.Fatalf("administering: %q", a.ExplainAdminister())
		}
	})
}

// A set that was never chosen, and an authority that was never narrowed, allow
// nothing, not even to an admin.
func TestZeroAllowsNothing(t *testing.T) {
	admin := org.NewMember("ann", "acme", true, slices.Clone(world))
	for name, a := range map[string]Authority{
		"zero authority": {}, "zero set": Set{}.Narrow(admin, nil), "unknown kind": Set{Kind: "all", Personal: true, Picks: []Pick{{"r1", true}}}.Narrow(admin, nil),
	} {
		for _, i := range everyItem {
			if a.MayRead(i) || a.MayChange(i) {
				t.Errorf("%s: may read or change %+v", name, i)
			}
		}
		if a.MayAdminister() || a.MayReadOrganization() || a.Acts("r1") != "none" {
			t.Errorf("%s: administers, reads the organization or acts", name)
		}
	}
	if got, want := (Set{}).Narrow(admin, nil).ExplainRead(org.Item{Organization: "acme"}, ""), "This approval gives nothing."; got != want {
		t.Errorf("zero set: %q, want %q", got, want)
	}
}

// Narrow keeps its hands off the set and the member, which others hold too.
func TestNarrowChangesNothing(t *testing.T) {
	s := Set{Kind: Roles, Picks: []Pick{{"r0", true}, {"r1", false}, {"r9", true}}}
	m := org.NewMember("ann", "acme", false, slices.Clone(world))
	before := s
	before.Picks = slices.Clone(s.Picks)
	s.Narrow(m, nil)
	if !s.Equal(before) || !slices.Equal(m.Roles(), world) {
		t.Errorf("set %+v, roles %+v", s, m.Roles())
	}
}
