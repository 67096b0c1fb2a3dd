package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/org"
)

func given(id, organization, role, person string) Item {
	return Item{Kind: "note", Title: "Budget", Body: "Of next year.", Status: "open",
		Item: org.Item{ID: id, Organization: organization, Role: role, Person: person}}
}

// Items come with a directory under their own IDs; what came before is
// updated, and what came exactly so is left as it is.
func TestDirectoryItems(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	hidden := given("salaries", "nordlys", "treasurer", "")
	hidden.Private = true
	d := Directory{
		Roles:   []org.Role{{ID: "secretary", Organization: "nordlys", Circle: "anchor", Name: "Secretary"}},
		Members: []DirectoryMember{{Person: "tor", Organization: "fjell"}},
		Items:   []Item{given("budget", "nordlys", "secretary", ""), hidden, given("own", "fjell", "", "tor")},
	}
	if err := h.AddDirectory(ctx, d, Act{}); err != nil {
		t.Fatal(err)
	}
	first, err := h.FindItem(ctx, "nordlys", "budget")
	if err != nil || first.Circle != "anchor" || first.Version != 1 || first.CreatedAt != h.Now().Unix() || first.Title != "Budget" || first.Private {
		t.Errorf("got %+v, %v", first, err)
	}
	if i, err := h.FindItem(ctx, "nordlys", "salaries"); err != nil || !i.Private || i.Role != "treasurer" {
		t.Errorf("got %+v, %v", i, err)
	}
	if i, err := h.Item(ctx, "fjell", "note", "own"); err != nil || i.Person != "tor" || i.Circle != "" {
		t.Errorf("got %+v, %v", i, err)
	}
	if _, err := h.FindItem(ctx, "fjell", "budget"); !errors.Is(err, ErrNotFound) {
		t.Errorf("from another organization: %v, want not found", err)
	}
	h.clock.add(time.Minute)
	if err := h.AddDirectory(ctx, d, Act{}); err != nil {
		t.Fatal(err)
	}
	if i, err := h.FindItem(ctx, "nordlys", "budget"); err != nil || i != first {
		t.Errorf("the same again: got %+v, %v; want %+v", i, err, first)
	}
	for n, change := range []func(*Item){
		func(i *Item) { i.Title = "Budget, again" },
		func(i *Item) { i.Body = "" },
		func(i *Item) { i.Status = "done" },
		func(i *Item) { i.Private = true },
		func(i *Item) { i.Role = "treasurer" },
		func(i *Item) { i.Role, i.Person, i.Private = "", "ada", false },
	} {
		change(&d.Items[0])
		if err := h.AddDirectory(ctx, d, Act{}); err != nil {
			t.Fatal(err)
		}
		want := d.Items[0]
		want.Version, want.CreatedAt, want.ChangedAt = int64(n+2), first.CreatedAt, h.Now().Unix()
		if want.Role != "" {
			want.Circle = "anchor"
		}
		if i, err := h.FindItem(ctx, "nordlys", "budget"); err != nil || i != want {
			t.Errorf("got %+v, %v; want %+v", i, err, want)
		}
	}
	events, _, err := h.Events(ctx, EventFilter{Kind: "directory_changed", Limit: 1})
	if err != nil || len(events) != 1 || events[0].Detail != "items: 1 changed" {
		t.Errorf("journal: %+v, %v", events, err)
	}
}

func TestDirectoryItemsRefused(t *testing.T) {
	ctx := context.Background()
	of := func(change func(*Item)) []Item {
		i := given("new", "nordlys", "treasurer", "")
		change(&i)
		return []Item{i}
	}
	for _, tt := range []struct {
		name  string
		items []Item
		want  error
	}{
		{"no ID", of(func(i *Item) { i.ID = "" }), ErrConflict},
		{"an ID with a space", of(func(i *Item) { i.ID = "a b" }), ErrConflict},
		{"an ID that is too long", of(func(i *Item) { i.ID = strings.Repeat("x", org.MaxID+1) }), ErrConflict},
		{"an ID twice", append(of(func(*Item) {}), given("new", "nordlys", "treasurer", "")), ErrConflict},
		{"an unknown kind", of(func(i *Item) { i.Kind = "poem" }), ErrConflict},
		{"role and person", of(func(i *Item) { i.Person = "ada" }), ErrConflict},
		{"neither role nor person", of(func(i *Item) { i.Role = "" }), ErrConflict},
		{"personal and private", of(func(i *Item) { i.Role, i.Person, i.Private = "", "ada", true }), ErrConflict},
		{"a role that is not there", of(func(i *Item) { i.Role = "gone" }), ErrNotFound},
		{"a role of another organization", of(func(i *Item) { i.Role = "reviewer" }), ErrNotFound},
		{"of no organization", of(func(i *Item) { i.Organization, i.Role = "", "gone" }), ErrNotFound},
		{"a person who is no member", of(func(i *Item) { i.Role, i.Person, i.Organization = "", "tor", "fjell" }), ErrNotFound},
		{"of another organization before", of(func(i *Item) { i.ID, i.Organization, i.Role = "old", "fjell", "reviewer" }), ErrConflict},
		{"of another kind before", of(func(i *Item) { i.ID, i.Kind = "old", "action" }), ErrConflict},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t)
			if err := h.AddDirectory(ctx, Directory{Items: []Item{given("old", "nordlys", "treasurer", "")}}, Act{}); err != nil {
				t.Fatal(err)
			}
			before, err := h.FindItem(ctx, "nordlys", "old")
			if err != nil {
				t.Fatal(err)
			}
			d := Directory{Items: append([]Item{given("first", "nordlys", "treasurer", "")}, tt.items...)}
			if err := h.AddDirectory(ctx, d, Act{}); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if _, err := h.FindItem(ctx, "nordlys", "first"); !errors.Is(err, ErrNotFound) {
				t.Errorf("it was refused, and left the first item: %v", err)
			}
			if i, err := h.FindItem(ctx, "nordlys", "old"); err != nil || i != before {
				t.Errorf("it was refused, and changed %+v, %v", i, err)
			}
		})
	}
}

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
	flat := Directory{Organizations: []org.Organization{{ID: "flat", Name: "Flat & Co"}}, Roles: []org.Role{{ID: "f1", Organization: "flat", Name: "One"}, {ID: "f2", Organization: "flat", Name: "Two"}}}
	for range 2 { // and again, which changes nothing
		for _, prune := range []map[string]bool{nil, {ListCircles: true}} {
			d := flat
			if prune != nil { // what is pruned is in the lists: the other organizations' circles too
				d.Circles = h.circles(t)
			}
			if _, err := h.ImportDirectory(ctx, Import{Directory: d, Prune: prune}, Act{}); err != nil {
				t.Fatal(err)
			}
			c, err := h.Circle(ctx, "flat", "flat")
			if in("f1", "flat") != "flat" || in("f2", "flat") != "flat" || err != nil || c.Name != "Flat & Co" || c.Parent != "" {
				t.Fatalf("%q, %q, %+v, %v", in("f1", "flat"), in("f2", "flat"), c, err)
			}
		}
	}
	out, err := h.ImportDirectory(ctx, Import{Directory: flat, Dry: true}, Act{})
	if err != nil || len(out.Lists) != 0 {
		t.Errorf("repeated: %+v, %v", out, err)
	}
	d := Directory{Circles: []org.Circle{{ID: "inner", Organization: "flat", Parent: "flat", Name: "Inner"}},
		Roles: []org.Role{{ID: "f2", Organization: "flat", Circle: "inner", Name: "Two"}, {ID: "f3", Organization: "flat", Name: "Three"}}}
	if err := h.AddDirectory(ctx, d, Act{}); err != nil || in("f3", "flat") != "flat" {
		t.Errorf("a root with a circle in it: %v, %q", err, in("f3", "flat"))
	}
	if err := h.AddDirectory(ctx, flat, Act{}); err != nil || in("f2", "flat") != "inner" {
		t.Errorf("a role that is there: %v, %q", err, in("f2", "flat"))
	}
	two := Directory{Circles: []org.Circle{{ID: "second", Organization: "flat", Name: "Second"}}, Roles: []org.Role{{ID: "f4", Organization: "flat", Name: "Four"}}}
	var at *Misplaced
	if err := h.AddDirectory(ctx, two, Act{}); !errors.Is(err, ErrConflict) || !errors.As(err, &at) || at.List != ListRoles || at.Index != 0 {
		t.Errorf("two roots: %v", err)
	}
	nowhere := Directory{Roles: []org.Role{{ID: "f5", Organization: "none", Name: "Five"}}}
	if err := h.AddDirectory(ctx, nowhere, Act{}); !errors.As(err, &at) || at.List != ListRoles {
		t.Errorf("no organization: %v", err)
	}
	h.same(t, "with roles that came without a circle")
}

// circles are all of the organizations that a furnished house has.
func (h house) circles(t *testing.T) (all []org.Circle) {
	t.Helper()
	h.memory.mu.RLock()
	defer h.memory.mu.RUnlock()
	for _, o := range h.memory.orgs {
		if o.ID == "flat" {
			continue
		}
		for _, c := range o.circles {
			all = append(all, c)
		}
	}
	return all
}
