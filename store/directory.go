package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// Person finds somebody by ID or by email, in any case of A-Z.
func (s *Store) Person(ctx context.Context, idOrEmail string) (org.Person, error) {
	return s.db.Person(ctx, idOrEmail)
}

// PeopleFilter narrows People; empty fields match all. Query is a part of name
// or email, State one of those below. Limit is at most 1000, 0 is 50.
type PeopleFilter struct {
	Organization, Query, After string
	State                      string
	Limit                      int
}

// The states of a PeopleFilter.
const (
	PeopleActive      = "active"
	PeopleDeactivated = "deactivated"
	PeopleSupport     = "support"
)

// keeps reports whether a person matches what no statement asks.
func (f PeopleFilter) keeps(p org.Person) bool {
	switch {
	case f.State == PeopleActive && !p.Active, f.State == PeopleDeactivated && p.Active, f.State == PeopleSupport && !p.Support:
		return false
	}
	return f.Query == "" || p.Find(f.Query) >= 0
}

// People lists people by ID and gives the cursor of the next page or "".
func (s *Store) People(ctx context.Context, f PeopleFilter) ([]org.Person, string, error) {
	defer s.timed("people", time.Now())
	q := query.Builder{Text: `SELECT p.id, p.email, p.name, p.active, p.support FROM person p`}
	if f.Organization != "" {
		q.Text += ` JOIN membership m ON m.person = p.id AND m.present = 1`
		q.Equals("m.organization", f.Organization)
	}
	if f.After != "" {
		if org.CheckID(f.After) != nil {
			return nil, "", query.ErrCursor
		}
		q.Where("p.id > ", f.After)
	}
	limit := query.PageSize(f.Limit)
	rows, err := s.db.Reader.QueryContext(ctx, q.Page("p.id", query.LookedAt(limit, f.Query+f.State)), q.Args...)
	out, err := query.Found(rows, err, limit, scanPerson, f.keeps)
	if err != nil {
		return nil, "", engine.Unavailable("people", err)
	}
	if len(out) > limit {
		return out[:limit], out[limit-1].ID, nil
	}
	return out, "", nil
}

func scanPerson(r engine.Scanner, p *org.Person) error {
	var active, support int64
	err := r.Scan(&p.ID, &p.Email, &p.Name, &active, &support)
	p.Active, p.Support = active == 1, support == 1
	return err
}

// FindPeople gives the people that a search finds, the nearest first, as
// org.Person.Find ranks them, and whether there are more than limit.
func (s *Store) FindPeople(ctx context.Context, find string, limit int) (best []org.Person, more bool, err error) {
	defer s.timed("people", time.Now())
	ranks := make([][]org.Person, 5)
	rows, err := s.db.Reader.QueryContext(ctx, `SELECT p.id, p.email, p.name, p.active, p.support FROM person p ORDER BY p.id`)
	err = engine.EachRow(rows, err, func(r engine.Scanner) error {
		var p org.Person
		if err := scanPerson(r, &p); err != nil {
			return err
		}
		if n := p.Find(find); n >= 0 && len(ranks[n]) <= limit {
			ranks[n] = append(ranks[n], p)
		}
		return nil
	})
	if err != nil {
		return nil, false, engine.Unavailable("people", err)
	}
	best = slices.Concat(ranks...)
	return best[:min(len(best), limit)], len(best) > limit, nil
}

// Organization gives an organization, or ErrNotFound.
func (s *Store) Organization(ctx context.Context, id string) (org.Organization, error) {
	if err := s.fresh(ctx); err != nil {
		return org.Organization{}, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	at := s.db.Memory.Orgs[id]
	if at == nil {
		return org.Organization{}, fmt.Errorf("organization: %w", ErrNotFound)
	}
	return at.Organization, nil
}

// Organizations lists them by ID and gives the cursor of the next page or "".
// limit is at most 1000, 0 is 50.
func (s *Store) Organizations(ctx context.Context, after string, limit int) ([]org.Organization, string, error) {
	if after != "" && org.CheckID(after) != nil {
		return nil, "", query.ErrCursor
	}
	if err := s.fresh(ctx); err != nil {
		return nil, "", err
	}
	limit = query.PageSize(limit)
	s.db.Memory.RLock()
	var out []org.Organization
	for _, o := range facts.InOrder(s.db.Memory.Orgs) {
		if o.ID > after && len(out) <= limit {
			out = append(out, o.Organization)
		}
	}
	s.db.Memory.RUnlock()
	if len(out) > limit {
		return out[:limit], out[limit-1].ID, nil
	}
	return out, "", nil
}

// Member gives a person as a member of an organization, as they stand now.
// ErrNotFound: not a member, or not active.
func (s *Store) Member(ctx context.Context, person, organization string) (org.Member, error) {
	if err := s.fresh(ctx); err != nil {
		return org.Member{}, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	m := s.db.Memory.Members.Get(facts.MemberKey{Person: person, Organization: organization}).AsMember()
	if !m.Exists() {
		return org.Member{}, fmt.Errorf("membership: %w", ErrNotFound)
	}
	return m, nil
}

// Offers lists what the person can give in each of their organizations, by
// name, whether AI integration is on there or not.
func (s *Store) Offers(ctx context.Context, personID string) ([]grantset.Offer, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	at := s.db.Memory.People.Get(personID)
	if at == nil {
		return nil, fmt.Errorf("person: %w", ErrNotFound)
	}
	var out []grantset.Offer
	for _, m := range at.Members {
		if f := m.AsMember(); f.Exists() {
			out = append(out, grantset.NewOffer(m.Org.Organization, f, facts.InOrder(m.Org.Circles)))
		}
	}
	slices.SortFunc(out, func(a, b grantset.Offer) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Organization.Name), strings.ToLower(b.Organization.Name)), cmp.Compare(a.Organization.ID, b.Organization.ID))
	})
	return out, nil
}

// Circles lists the circles of an organization by name.
func (s *Store) Circles(ctx context.Context, organization string) ([]org.Circle, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	at := s.db.Memory.Orgs[organization]
	if at == nil {
		return nil, fmt.Errorf("organization: %w", ErrNotFound)
	}
	return slices.SortedFunc(maps.Values(at.Circles), func(a, b org.Circle) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	}), nil
}

// Roles lists the roles of an organization by ID.
func (s *Store) Roles(ctx context.Context, organization string) ([]directory.RoleRow, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	at := s.db.Memory.Orgs[organization]
	if at == nil {
		return nil, fmt.Errorf("organization: %w", ErrNotFound)
	}
	var out []directory.RoleRow
	for _, r := range facts.InOrder(at.Roles) {
		out = append(out, directory.RowOf(r))
	}
	return out, nil
}

// Circle gives a circle of an organization, or ErrNotFound.
func (s *Store) Circle(ctx context.Context, organization, id string) (org.Circle, error) {
	if err := s.fresh(ctx); err != nil {
		return org.Circle{}, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	if at := s.db.Memory.Orgs[organization]; at != nil {
		if c, ok := at.Circles[id]; ok {
			return c, nil
		}
	}
	return org.Circle{}, fmt.Errorf("circle: %w", ErrNotFound)
}

// Role gives a role of an organization, or ErrNotFound.
func (s *Store) Role(ctx context.Context, organization, id string) (directory.RoleRow, error) {
	if err := s.fresh(ctx); err != nil {
		return directory.RoleRow{}, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	r := s.db.Memory.Roles.Get(id)
	if r == nil || r.Organization != organization {
		return directory.RoleRow{}, fmt.Errorf("role: %w", ErrNotFound)
	}
	return directory.RowOf(r), nil
}

// Admins lists up to limit admins of an organization by name.
func (s *Store) Admins(ctx context.Context, organization string, limit int) ([]org.Person, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	at := s.db.Memory.Orgs[organization]
	if at == nil {
		return nil, fmt.Errorf("organization: %w", ErrNotFound)
	}
	var out []org.Person
	byName := func(a, b *facts.Member) int { return cmp.Compare(a.Person.Name, b.Person.Name) }
	for _, m := range slices.SortedFunc(slices.Values(at.Members), byName) {
		if m.Admin && m.Person.Active && len(out) < limit {
			out = append(out, m.Person.Person)
		}
	}
	return out, nil
}
