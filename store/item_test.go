package store

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
)

func (h house) item(t testing.TB, i Item) Item {
	t.Helper()
	if i.Kind == "" {
		i.Kind = "note"
	}
	i.Organization = "nordlys"
	i.ID = h.ids.next(h.Now())
	err := h.AddDirectory(context.Background(), Directory{Items: []Item{i}}, Act{})
	out, errFound := h.FindItem(context.Background(), i.Organization, i.ID)
	if err := errors.Join(err, errFound); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestItems(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	var ids []string
	for range 5 {
		ids = append(ids, h.item(t, Item{Item: org.Item{Role: "treasurer"}, Title: "Budget"}).ID)
	}
	hidden := h.item(t, Item{Item: org.Item{Role: "treasurer", Private: true}, Title: "Salaries"})
	own := h.item(t, Item{Item: org.Item{Person: "ada"}, Title: "Call the bank"})
	if own.Circle != "" || hidden.Circle != "anchor" {
		t.Errorf("circles %q and %q; want none and anchor", own.Circle, hidden.Circle)
	}
	may := func(i org.Item) bool { return !i.Private && !i.Personal() }
	var got []string
	pages := 0
	for after := ""; ; pages++ {
		page, next, err := h.Items(ctx, ItemFilter{Organization: "nordlys", Kind: "note", After: after, Limit: 2}, may)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page {
			got = append(got, i.ID)
		}
		if after = next; next == "" {
			break
		}
	}
	if len(got) != 5 || got[0] != ids[0] || got[4] != ids[4] || pages != 2 {
		t.Errorf("got %v in %d pages; want %v in 3", got, pages+1, ids)
	}
	if _, err := h.Item(ctx, "fjell", "note", own.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("from another organization: got %v, want not found", err)
	}
	if _, err := h.Item(ctx, "nordlys", "action", own.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("as another kind: got %v, want not found", err)
	}
}

func TestCirclesAndRoles(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	circle := func(id, parent string) error {
		_, err := h.ChangeCircle(ctx, "nordlys", id, func(*org.Circle) (org.Circle, error) {
			return org.Circle{Parent: parent, Name: id}, nil
		}, Act{})
		return err
	}
	role := func(organization, id, circle string) error {
		_, err := h.ChangeRole(ctx, organization, id, func(*org.Role) (org.Role, error) {
			return org.Role{Circle: circle, Name: id}, nil
		}, Act{})
		return err
	}
	allow := func(org.Role) error { return nil }
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
		{"a circle with roles", h.DeleteCircle(ctx, "nordlys", "product", func(org.Circle) error { return nil }, Act{}), ErrConflict},
		{"an empty circle", h.DeleteCircle(ctx, "nordlys", "platform", func(org.Circle) error { return nil }, Act{}), nil},
		{"a deleted circle", h.DeleteCircle(ctx, "nordlys", "platform", func(org.Circle) error { return nil }, Act{}), ErrNotFound},
		{"another organization's role, deleted", h.DeleteRole(ctx, "nordlys", "reviewer", allow, Act{}), ErrNotFound},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, tt.err, tt.want)
		}
	}
	id := h.live(t, h.answer(1))
	kept := h.item(t, Item{Item: org.Item{Role: "treasurer"}})
	if err := h.DeleteRole(ctx, "nordlys", "treasurer", allow, Act{}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // in memory, and after a restart
		if a, err := h.Check(ctx, id); err != nil || a.Member().Fills("treasurer") {
			t.Errorf("a deleted role is filled: %v", err)
		}
		if _, err := h.Item(ctx, "nordlys", "note", kept.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("the item of a deleted role: got %v, want not found", err)
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

// A caller's own refusal leaves organization and fillers as they are;
// what it lets through is there at once, and after a restart.
func TestChecksInTheWriter(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	no := errors.New("no")
	rename := func(to string, err error) error {
		_, e := h.ChangeOrganization(ctx, "nordlys", func(o org.Organization) (org.Organization, error) {
			return org.Organization{ID: "x", Name: o.Name + to}, err
		}, Act{})
		return e
	}
	filler := func(on bool, err error) (saw bool, e error) {
		e = h.ChangeFiller(ctx, "treasurer", "tor", on, func(r org.Role, fills bool) error {
			if saw = fills; r.ID != "treasurer" {
				t.Errorf("sees %q", r.ID)
			}
			return err
		}, Act{})
		return saw, e
	}
	before, _ := h.Organization(ctx, "nordlys")
	if err := rename(" AS", no); err != no {
		t.Errorf("got %v, want the caller's own refusal", err)
	}
	if _, err := filler(true, no); err != no {
		t.Errorf("got %v, want the caller's own refusal", err)
	}
	if m, err := h.Member(ctx, "tor", "nordlys"); err != nil || m.Admin || m.Fills("treasurer") {
		t.Errorf("a refusal has changed %+v, %v", m, err)
	}
	if o, err := h.Organization(ctx, "nordlys"); err != nil || o != before {
		t.Errorf("a refusal has changed %+v, %v", o, err)
	}

	saw, err := filler(true, nil)
	again, err2 := filler(true, nil)
	if saw || !again || errors.Join(err, err2, rename(" AS", nil), h.SetAdmin(ctx, "nordlys", "tor", true, Act{})) != nil {
		t.Errorf("fills %t, then %t; %v, %v", saw, again, err, err2)
	}
	for range 2 {
		m, err := h.Member(ctx, "tor", "nordlys")
		if err != nil || !m.Admin || !m.Fills("treasurer") {
			t.Errorf("got %+v, %v; want an admin who is treasurer", m, err)
		}
		want := before
		want.Name += " AS"
		if o, err := h.Organization(ctx, "nordlys"); err != nil || o != want {
			t.Errorf("got %+v, %v; want %+v", o, err, want)
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
