package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/store"
)

// view is everything that a store tells, one line each: rows, and what it has of them
// in memory.
func (d *database) view(s *store.Store) string {
	d.t.Helper()
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	dir, err := s.ExportDirectory(ctx)
	d.must(err)
	for _, p := range dir.People {
		at, err := s.Person(ctx, p.Email)
		sessions, listed := s.Sessions(ctx, p.ID, "")
		add("person %+v, by email %s %v, sessions %+v %v", p.Person, at.ID, err, sessions, listed)
	}
	add("organizations %+v", dir.Organizations)
	add("members %+v\ncircles %+v", dir.Members, dir.Circles)
	add("roles %+v\nfillers %+v", dir.Roles, dir.Fillers)
	member, err := s.APIKey(ctx, apiKey)
	add("API keys %+v; one acts as %+v, %v", dir.APIKeys, member, err)
	for _, o := range dir.Organizations {
		for _, m := range dir.Members {
			if m.Organization == o.ID {
				at, err := s.Member(ctx, m.Person, o.ID)
				add("member %s in %s: admin %t, roles %v, %v", m.Person, o.ID, at.Admin, at.Roles(), err)
			}
		}
	}
	for _, c := range pages(d, func(after string) ([]string, string, error) {
		list, next, err := s.Clients(ctx, store.ClientFilter{After: after, Limit: 1000})
		return texts(list), next, err
	}) {
		add("client %s", c)
	}
	d.viewApprovals(s, add)
	out = append(out, pages(d, func(after string) ([]string, string, error) {
		list, next, err := s.Events(ctx, store.EventFilter{After: after, Limit: 1000, OldestFirst: true})
		return texts(list), next, err
	})...)
	figures, err := s.Figures(ctx)
	back, unknown := s.WentBack(ctx)
	add("figures %+v, %v; went back %v, %v", figures, err, back, unknown)
	return strings.Join(out, "\n")
}

func (d *database) viewApprovals(s *store.Store, add func(string, ...any)) {
	d.t.Helper()
	var rows []store.ApprovalRow
	for after, next := "", "more"; next != ""; after = next {
		some, more, err := s.Approvals(ctx, store.ApprovalFilter{After: after, Limit: 1000})
		d.must(err)
		rows, next = append(rows, some...), more
	}
	all := make([]store.Asked, len(rows))
	for i, r := range rows {
		all[i].Approval = r.ID
	}
	s.CheckAllNow(ctx, all)
	for i, r := range rows {
		a := all[i].Access
		if err := all[i].Err; err != nil && !errors.Is(err, store.ErrNotFound) {
			d.must(err)
		}
		state, _ := s.ClientState(ctx, r.Client)
		add("approval %+v\n\tchecked %+v %s of %s in %s, born %v on %v, gives %+v, admin %t, roles %v, %s in %s, idle %t, client %v",
			r, a.Approval.State, a.Approval.Client, a.Approval.Person, a.Approval.Organization, a.Approval.Born, a.Standing,
			a.Approval.Grant, a.Member().Admin, a.Member().Roles(), a.PersonName, a.OrganizationName, a.Idle(s.Now()), state)
	}
}

// pages reads a list to its end.
func pages(d *database, page func(after string) ([]string, string, error)) (all []string) {
	d.t.Helper()
	for after := ""; ; {
		some, next, err := page(after)
		d.must(err)
		all = append(all, some...)
		if after = next; next == "" {
			return all
		}
	}
}

func texts[T any](list []T) (out []string) {
	for _, one := range list {
		out = append(out, fmt.Sprintf("%+v", one))
	}
	return out
}

// alike wants that every store tells the same, and gives that.
func (d *database) alike(when string) string {
	d.t.Helper()
	d.settle()
	first := d.view(d.Store)
	for _, s := range d.others {
		d.same(when+": a store tells something else than another", d.view(s), first)
	}
	return first
}

// agree wants that every store tells what one tells that starts now, and gives that.
func (d *database) agree(when string) string {
	d.t.Helper()
	before := d.alike(when)
	if d.harness.Cannot[Beside] == "" {
		fresh := d.open()
		defer fresh.Close()
		d.same(when+": a store is not what the rows say", before, d.view(fresh))
	} else {
		d.reopen()
		d.same(when+": a store is not what the rows say", before, d.view(d.Store))
	}
	return before
}

// same wants two views to have the same lines.
func (d *database) same(what, got, want string) {
	d.t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, line := range g {
		if !slices.Contains(w, line) {
			d.t.Errorf("%s: only here:  %s", what, line)
		}
	}
	for _, line := range w {
		if !slices.Contains(g, line) {
			d.t.Errorf("%s: only there: %s", what, line)
		}
	}
	d.t.Fatalf("%s", what)
}
