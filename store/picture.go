package store

import (
	"cmp"
	"context"
	"fmt"
	"github.com/grantkeeper/grantkeeper/facts"
	"slices"

	"github.com/grantkeeper/grantkeeper/org"
)

// A Picture is what a service has to know of an organization to decide by what it
// is told of a call: all of one state of the facts, each list by ID.
type Picture struct {
	Organization org.Organization
	Members      []MemberRow
	Circles      []org.Circle
	Roles        []RoleRow
}

// MemberRow is a member whose account is active.
type MemberRow struct {
	ID, Name string
	Admin    bool
}

// Picture gives the picture of an organization as it is now, or ErrNotFound.
func (s *Store) Picture(ctx context.Context, organization string) (Picture, error) {
	if err := s.fresh(ctx); err != nil {
		return Picture{}, err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	at := s.memory.Orgs[organization]
	if at == nil {
		return Picture{}, fmt.Errorf("organization: %w", ErrNotFound)
	}
	return picture(at), nil
}

func picture(o *facts.Organization) Picture {
	p := Picture{Organization: o.Organization, Circles: facts.InOrder(o.Circles)}
	for _, m := range o.Members {
		if m.Present && m.Person.Active {
			p.Members = append(p.Members, MemberRow{m.Person.ID, m.Person.Name, m.Admin})
		}
	}
	slices.SortFunc(p.Members, func(a, b MemberRow) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range facts.InOrder(o.Roles) {
		p.Roles = append(p.Roles, roleRow(r))
	}
	return p
}

// toldIn names the organization whose facts an event is about; "" is none, or
// one that nobody knows.
func (m *memory) toldIn(t Telling) string {
	role := ""
	switch {
	case t.organization() != "":
		return t.organization()
	case t.Role != nil:
		role = t.Role.ID
	case t.Filler != nil:
		role = t.Filler.Role
	case t.Circle != nil:
		for id, o := range m.Orgs {
			if _, ok := o.Circles[t.Circle.ID]; ok {
				return id
			}
		}
	}
	if r := m.Roles.Get(role); r != nil {
		return r.Organization
	}
	return ""
}

// unlike refuses an event whose sender decided by another picture than the one
// that it would change (decision V42).
func (tx *Tx) unlike(t Telling) error {
	if t.Like == nil {
		return nil
	}
	var p Picture
	if o := tx.memory.Orgs[tx.memory.toldIn(t)]; o != nil {
		p = picture(o)
	}
	if !t.Like(p) {
		return ErrChanged
	}
	return nil
}
