package store

import (
	"context"
	"errors"
	"testing"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/org"
)

// A role that comes without a circle stays where it is, and else comes to the one
// circle at the organization's root, which is made where there is none.
func TestImportRolesWithoutACircle(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	in := func(id, organization string) string {
		t.Helper()
		r, err := h.Role(ctx, organization, id)
		if err != nil {
			t.Fatal(err)
		}
		return r.Circle
	}
	flat := directory.Directory{Organizations: []org.Organization{{ID: "flat", Name: "Flat & Co"}}, Roles: []org.Role{{ID: "f1", Organization: "flat", Name: "One"}, {ID: "f2", Organization: "flat", Name: "Two"}}}
	for range 2 { // and again, which changes nothing
		for _, prune := range []map[string]bool{nil, {directory.ListCircles: true}} {
			d := flat
			if prune != nil { // what is pruned is in the lists: the other organizations' circles too
				d.Circles = h.circles(t)
			}
			if _, err := h.ImportDirectory(ctx, directory.Import{Directory: d, Prune: prune}, Act{}); err != nil {
				t.Fatal(err)
			}
			c, err := h.Circle(ctx, "flat", "flat")
			if in("f1", "flat") != "flat" || in("f2", "flat") != "flat" || err != nil || c.Name != "Flat & Co" || c.Parent != "" {
				t.Fatalf("%q, %q, %+v, %v", in("f1", "flat"), in("f2", "flat"), c, err)
			}
		}
	}
	out, err := h.ImportDirectory(ctx, directory.Import{Directory: flat, Dry: true}, Act{})
	if err != nil || len(out.Lists) != 0 {
		t.Errorf("repeated: %+v, %v", out, err)
	}
	d := directory.Directory{Circles: []org.Circle{{ID: "inner", Organization: "flat", Parent: "flat", Name: "Inner"}},
		Roles: []org.Role{{ID: "f2", Organization: "flat", Circle: "inner", Name: "Two"}, {ID: "f3", Organization: "flat", Name: "Three"}}}
	if err := h.AddDirectory(ctx, d, Act{}); err != nil || in("f3", "flat") != "flat" {
		t.Errorf("a root with a circle in it: %v, %q", err, in("f3", "flat"))
	}
	if err := h.AddDirectory(ctx, flat, Act{}); err != nil || in("f2", "flat") != "inner" {
		t.Errorf("a role that is there: %v, %q", err, in("f2", "flat"))
	}
	two := directory.Directory{Circles: []org.Circle{{ID: "second", Organization: "flat", Name: "Second"}}, Roles: []org.Role{{ID: "f4", Organization: "flat", Name: "Four"}}}
	var at *directory.Misplaced
	if err := h.AddDirectory(ctx, two, Act{}); !errors.Is(err, ErrConflict) || !errors.As(err, &at) || at.List != directory.ListRoles || at.Index != 0 {
		t.Errorf("two roots: %v", err)
	}
	nowhere := directory.Directory{Roles: []org.Role{{ID: "f5", Organization: "none", Name: "Five"}}}
	if err := h.AddDirectory(ctx, nowhere, Act{}); !errors.As(err, &at) || at.List != directory.ListRoles {
		t.Errorf("no organization: %v", err)
	}
	h.same(t, "with roles that came without a circle")
}

// circles are all of the organizations that a furnished house has.
func (h house) circles(t *testing.T) (all []org.Circle) {
	t.Helper()
	h.db.Memory.RLock()
	defer h.db.Memory.RUnlock()
	for _, o := range h.db.Memory.Orgs {
		if o.ID == "flat" {
			continue
		}
		for _, c := range o.Circles {
			all = append(all, c)
		}
	}
	return all
}
