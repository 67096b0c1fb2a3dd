package store

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
)

// Rows of items, which releases before kept here, are in nobody's way, and stay.
func TestRowsOfItems(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	h.sql(t, `INSERT INTO item (id, kind, organization, role, person, private, title, body, status, version, created_at, changed_at) VALUES
		('budget', 'note', 'nordlys', 'treasurer', '', 1, 'Budget', '', 'open', 1, 1, 1),
		('own', 'note', 'nordlys', '', 'ada', 0, 'Own', '', 'open', 1, 1, 1)`)
	err := errors.Join(h.tells(directory.Event{Role: &org.Role{ID: "treasurer"}, Gone: true}),
		h.tells(directory.Event{Organization: &org.Organization{ID: "nordlys"}, Gone: true}),
		h.tells(directory.Event{Person: &directory.Person{Person: org.Person{ID: "ada"}}, Gone: true}))
	_, pruned := h.ImportDirectory(ctx, directory.Import{Prune: map[string]bool{directory.ListPeople: true, directory.ListOrganizations: true, directory.ListRoles: true, directory.ListCircles: true}}, Act{})
	if err := errors.Join(err, pruned); err != nil {
		t.Fatal(err)
	}
	h = h.reopen(t)
	if n := h.rows(t, `SELECT count(*) FROM item`); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestCirclesAndRoles(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	circle := func(id, parent string) error {
		return h.AddDirectory(ctx, directory.Directory{Circles: []org.Circle{{ID: id, Organization: "nordlys", Parent: parent, Name: id}}}, Act{})
	}
	role := func(organization, id, circle string) error {
		return h.AddDirectory(ctx, directory.Directory{Roles: []org.Role{{ID: id, Organization: organization, Circle: circle, Name: id}}}, Act{})
	}
	for _, tt := range []struct {
		name string
		err  error
		want error
	}{
		{"a circle", circle("product", "anchor"), nil},
		{"a circle in it", circle("platform", "product"), nil},
		{"a ring", circle("product", "platform"), ErrConflict},
		{"its own parent", circle("product", "product"), ErrConflict},
		{"another organization's circle", circle("grants", ""), ErrConflict},
		{"a parent of another organization", circle("product", "grants"), ErrNotFound},
		{"a role", role("nordlys", "steward", "product"), nil},
		{"a circle of another organization", role("nordlys", "steward", "grants"), ErrNotFound},
		{"another organization's role", role("nordlys", "reviewer", "anchor"), ErrConflict},
		{"a circle with roles and a circle", h.tells(directory.Event{Circle: &org.Circle{ID: "product"}, Gone: true}), ErrConflict},
		{"an empty circle", h.tells(directory.Event{Circle: &org.Circle{ID: "platform"}, Gone: true}), nil},
		{"a circle with roles", h.tells(directory.Event{Circle: &org.Circle{ID: "product"}, Gone: true}), ErrConflict},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, tt.err, tt.want)
		}
	}
	id := h.live(t, h.answer(1))
	if err := h.tells(directory.Event{Role: &org.Role{ID: "treasurer"}, Gone: true}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // in memory, and after a restart
		if a, err := h.Check(ctx, id); err != nil || a.Member().Fills("treasurer") {
			t.Errorf("a deleted role is filled: %v", err)
		}
		h = h.reopen(t)
	}
}

// An edit takes effect at the next check, with the same tokens (decision P3).
func TestEditGrant(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	from, to := h.answer(1).Grant, grantset.Set{Kind: grantset.Everything}
	id := h.live(t, h.answer(1))
	if err := h.EditGrant(ctx, id, "tor", from, to, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("another person: got %v, want not found", err)
	}
	if err := h.EditGrant(ctx, id, "ada", to, to, Act{}); !errors.Is(err, ErrConflict) {
		t.Errorf("from what it is not: got %v, want a conflict", err)
	}
	if err := h.EditGrant(ctx, id, "ada", from, to, Act{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if a, err := h.Check(ctx, id); err != nil || !a.Approval.Grant.Equal(to) {
			t.Errorf("got %+v, %v; want everything", a.Approval.Grant, err)
		}
		h = h.reopen(t)
	}
	if err := h.SetAdmin(ctx, "nordlys", "ada", false, Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.EditGrant(ctx, id, "ada", to, grantset.Set{Kind: grantset.Organization}, Act{}); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("organization by one who is no admin: got %v, want not allowed", err)
	}
	if v, err := h.refresh(id, 1); err != nil || v.String() != "ok" {
		t.Errorf("refresh after the edit: %v, %v", v, err)
	}
	if err := h.EndApproval(ctx, id, "revoked_by_person", Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.EditGrant(ctx, id, "ada", to, from, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("ended: got %v, want not found", err)
	}
}

// Who fills a role, and who is an admin, is so at once, and after a restart; who
// comes back fills none.
func TestFillersAndMembers(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	renamed, err := h.Organization(ctx, "nordlys")
	renamed.Name += " AS"
	err = errors.Join(err, h.SetFiller(ctx, "treasurer", "tor", true, Act{}), h.SetFiller(ctx, "treasurer", "tor", true, Act{}),
		h.AddDirectory(ctx, directory.Directory{Organizations: []org.Organization{renamed}}, Act{}), h.SetAdmin(ctx, "nordlys", "tor", true, Act{}))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m, err := h.Member(ctx, "tor", "nordlys")
		if err != nil || !m.Admin || !m.Fills("treasurer") {
			t.Errorf("got %+v, %v; want an admin who is treasurer", m, err)
		}
		if o, err := h.Organization(ctx, "nordlys"); err != nil || o != renamed {
			t.Errorf("got %+v, %v; want %+v", o, err, renamed)
		}
		h = h.reopen(t)
	}
	if err := h.RemoveMember(ctx, "nordlys", "tor", Act{}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Member(ctx, "tor", "nordlys"); !errors.Is(err, ErrNotFound) {
		t.Errorf("removed: got %v, want not found", err)
	}
	if err := h.SetMember(ctx, "nordlys", "tor", false, Act{}); err != nil {
		t.Fatal(err)
	}
	if m, err := h.Member(ctx, "tor", "nordlys"); err != nil || m.Fills("treasurer") {
		t.Errorf("back: %+v, %v; want no role", m, err)
	}
}

// A circle or role alone is what the list has, and unknown to another
// organization.
func TestOneCircleAndRole(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	for _, person := range []string{"tor", "ada", "tor"} { // whoever came last
		if err := h.SetFiller(ctx, "treasurer", person, true, Act{}); err != nil {
			t.Fatal(err)
		}
	}
	circles, err := h.Circles(ctx, "nordlys")
	roles, err2 := h.Roles(ctx, "nordlys")
	if errors.Join(err, err2) != nil || len(circles) == 0 || len(roles) == 0 {
		t.Fatal(err, err2)
	}
	for _, want := range circles {
		if got, err := h.Circle(ctx, "nordlys", want.ID); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
		if _, err := h.Circle(ctx, "fjell", want.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s from another organization: got %v, want not found", want.ID, err)
		}
	}
	for _, want := range roles {
		got, err := h.Role(ctx, "nordlys", want.ID)
		if err != nil || got.Role != want.Role || !slices.Equal(got.Fillers, want.Fillers) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
		if _, err := h.Role(ctx, "fjell", want.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s from another organization: got %v, want not found", want.ID, err)
		}
		if want.ID == "treasurer" && !slices.Equal(want.Fillers, []string{"ada", "tor"}) {
			t.Errorf("fillers %q, want by ID", want.Fillers)
		}
	}
	if _, err := h.Role(ctx, "nobody", "treasurer"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
	if _, err := h.Circle(ctx, "nobody", "anchor"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}
