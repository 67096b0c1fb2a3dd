package org

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The circles and roles of the tests: role w1 and w2 live in circle web, s1 in
// sales; x1 belongs to another organization.
var (
	w1 = Role{ID: "w1", Organization: "acme", Circle: "web", Name: "Editor"}
	w2 = Role{ID: "w2", Organization: "acme", Circle: "web", Name: "Designer"}
	s1 = Role{ID: "s1", Organization: "acme", Circle: "sales", Name: "Seller"}
	x1 = Role{ID: "x1", Organization: "other", Circle: "web", Name: "Stranger"}
)

func TestCheckID(t *testing.T) {
	const all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
	good := []string{"1", "role-7", strings.Repeat("a", 64), all[:64], all[2:], "...", ".a", "a.", "-.", ":."}
	for _, id := range good {
		if err := CheckID(id); err != nil {
			t.Errorf("%q refused: %v", id, err)
		}
	}
	bad := []string{"", ".", "..", strings.Repeat("a", 65), "a b", "a=b", "é", "a\x00", "\xff", "a\n", strings.Repeat("a", 63) + " "}
	for _, id := range bad {
		if CheckID(id) == nil {
			t.Errorf("%q accepted", id)
		}
	}
	for c := range 256 { // each byte alone
		id := string([]byte{byte(c)})
		if got, want := CheckID(id) == nil, strings.Contains(all, id) && id != "."; got != want {
			t.Errorf("%q accepted: %t, want %t", id, got, want)
		}
	}
}

// A member of no organization, nobody in an organization and the zero Member
// may do nothing, not even what every member may.
func TestNobodyMayDoNothing(t *testing.T) {
	for _, m := range []Member{
		{},
		NewMember("", "acme", true, []Role{w1}),
		NewMember("ann", "", true, []Role{{ID: "w1"}}),
	} {
		if m.Exists() || m.MayAdminister() {
			t.Errorf("%+v exists or may administer", m)
		}
		for _, i := range []Item{
			{},
			{Organization: m.Organization},
			{Organization: m.Organization, Role: "w1", Circle: "web"},
			{Organization: m.Organization, Person: m.Person},
		} {
			if m.MayRead(i) || m.MayChange(i) {
				t.Errorf("%+v may read or change %+v", m, i)
			}
		}
	}
}

// What a person may do by themselves: every member reads what is not private,
// who fills a role of the circle reads what is private there, who fills the
// role changes, an admin does both, and personal items are their person's alone.
func TestMay(t *testing.T) {
	var (
		editor = NewMember("ann", "acme", false, []Role{w1})
		seller = NewMember("bob", "acme", false, []Role{s1})
		member = NewMember("cyd", "acme", false, nil)
		admin  = NewMember("dan", "acme", true, nil)
		guest  = NewMember("eve", "other", true, []Role{x1})
	)
	tests := []struct {
		name         string
		item         Item
		read, change []Member
	}{
		{"of a role", Item{Organization: "acme", Role: "w1", Circle: "web"},
			[]Member{editor, seller, member, admin}, []Member{editor, admin}},
		{"of another role of the circle", Item{Organization: "acme", Role: "w2", Circle: "web"},
			[]Member{editor, seller, member, admin}, []Member{admin}},
		{"private to the circle", Item{Organization: "acme", Role: "w1", Circle: "web", Private: true},
			[]Member{editor, admin}, []Member{editor, admin}},
		{"private, of another role of the circle", Item{Organization: "acme", Role: "w2", Circle: "web", Private: true},
			[]Member{editor, admin}, []Member{admin}},
		{"personal", Item{Organization: "acme", Person: "ann"},
			[]Member{editor}, []Member{editor}},
		{"personal and marked private", Item{Organization: "acme", Person: "bob", Private: true},
			[]Member{seller}, []Member{seller}},
		{"of no role", Item{Organization: "acme"},
			[]Member{editor, seller, member, admin}, []Member{admin}},
		{"private to a lost circle", Item{Organization: "acme", Private: true},
			[]Member{admin}, []Member{admin}},
		{"of another organization", Item{Organization: "other", Role: "x1", Circle: "web"},
			[]Member{guest}, []Member{guest}},
		{"personal in another organization", Item{Organization: "other", Person: "ann"},
			nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, m := range []Member{editor, seller, member, admin, guest} {
				same := func(n Member) bool { return n.Person == m.Person }
				if got, want := m.MayRead(tt.item), slices.ContainsFunc(tt.read, same); got != want {
					t.Errorf("%s reads: %t, want %t", m.Person, got, want)
				}
				if got, want := m.MayChange(tt.item), slices.ContainsFunc(tt.change, same); got != want {
					t.Errorf("%s changes: %t, want %t", m.Person, got, want)
				}
			}
		})
	}
	for _, m := range []Member{editor, seller, member, admin} {
		if m.MayAdminister() != m.Admin {
			t.Errorf("%s administers: %t", m.Person, m.MayAdminister())
		}
	}
}

// Roles without a circle, and roles without an ID, give nothing.
func TestDamagedRolesGiveNothing(t *testing.T) {
	m := NewMember("ann", "acme", false, []Role{{ID: "w1", Organization: "acme"}, {Organization: "acme", Circle: "web"}})
	if m.MayRead(Item{Organization: "acme", Role: "z", Private: true}) || m.InCircle("") {
		t.Error("a role without a circle opens what lost its circle")
	}
	if m.MayChange(Item{Organization: "acme", Circle: "web"}) {
		t.Error("a role without an ID changes what belongs to no role")
	}
}

// Where a service knows no personal items, nobody has one.
func TestImpersonal(t *testing.T) {
	m := NewMember("ann", "acme", true, nil)
	own := Item{Organization: "acme", Person: "ann"}
	if !m.MayRead(own) || !m.MayChange(own) {
		t.Error("an own item is closed")
	}
	if m.Impersonal = true; m.MayRead(own) || m.MayChange(own) {
		t.Error("there is an item that nobody can have")
	}
}

func TestNewMember(t *testing.T) {
	m := NewMember("ann", "acme", false, []Role{w2, x1, s1, w2, w1})
	if got := m.Roles(); !slices.Equal(got, []Role{s1, w1, w2}) {
		t.Errorf("roles %+v: want those of the organization, each once, by ID", got)
	}
	for _, r := range []Role{s1, w1, w2} {
		if got, ok := m.Role(r.ID); !ok || got != r || !m.Fills(r.ID) {
			t.Errorf("role %s: %+v, %t", r.ID, got, ok)
		}
	}
	for _, id := range []string{"x1", "", "w", "w11", "zz"} {
		if got, ok := m.Role(id); ok || got != (Role{}) || m.Fills(id) {
			t.Errorf("fills %q: %+v", id, got)
		}
	}
	for circle, want := range map[string]bool{"web": true, "sales": true, "": false, "we": false, "zoo": false} {
		if m.InCircle(circle) != want {
			t.Errorf("in circle %q: %t", circle, !want)
		}
	}
}

// With many roles each is still found, and each neighbour is not.
func TestManyRoles(t *testing.T) {
	var roles []Role
	for i := range 300 {
		roles = append(roles, Role{ID: fmt.Sprint("r", i), Organization: "acme", Circle: fmt.Sprint("c", i%25)})
	}
	m := NewMember("ann", "acme", false, slices.Clone(roles))
	for _, r := range roles {
		if !m.Fills(r.ID) || !m.InCircle(r.Circle) || m.Fills(r.ID+"x") || m.InCircle(r.Circle+"x") {
			t.Fatalf("role %+v", r)
		}
	}
}

func BenchmarkMayChange(b *testing.B) {
	var roles []Role
	for i := range 300 {
		roles = append(roles, Role{ID: fmt.Sprint("role-", i), Organization: "acme", Circle: fmt.Sprint("circle-", i%25)})
	}
	m := NewMember("ann", "acme", false, roles)
	item := Item{Organization: "acme", Role: "role-217", Circle: "circle-17", Private: true}
	b.ReportAllocs()
	for b.Loop() {
		if !m.MayRead(item) || !m.MayChange(item) {
			b.Fatal("refused")
		}
	}
}
