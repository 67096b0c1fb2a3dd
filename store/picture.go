package store

import (
	"cmp"
	"context"
	"fmt"
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
	at := s.memory.orgs[organization]
	if at == nil {
		return Picture{}, fmt.Errorf("organization: %w", ErrNotFound)
	}
	return at.picture(), nil
}

func (o *organization) picture() Picture {
	p := Picture{Organization: o.Organization, Circles: inOrder(o.circles)}
	for _, m := range o.members {
		if m.present && m.person.Active {
			p.Members = append(p.Members, MemberRow{m.person.ID, m.person.Name, m.admin})
		}
	}
	slices.SortFunc(p.Members, func(a, b MemberRow) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range inOrder(o.roles) {
		p.Roles = append(p.Roles, r.row())
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
		for id, o := range m.orgs {
			if _, ok := o.circles[t.Circle.ID]; ok {
				return id
			}
		}
	}
	if r := m.roles.get(role); r != nil {
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
	if o := tx.memory.orgs[tx.memory.toldIn(t)]; o != nil {
		p = o.picture()
	}
	if !t.Like(p) {
		return ErrChanged
	}
	return nil
}
