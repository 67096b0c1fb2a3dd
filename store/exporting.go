package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/policy"
)

// ExportDirectory gives the whole directory as it stands, in order of IDs:
// what ImportDirectory takes, and changes nothing with. Passwords are not in
// it, API keys are there by their names alone, and items are no part of it.
func (s *Store) ExportDirectory(ctx context.Context) (d directory.Directory, err error) {
	if d.APIKeys, err = s.exportKeys(ctx); err != nil {
		return directory.Directory{}, err
	}
	if err := s.fresh(ctx); err != nil {
		return directory.Directory{}, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	d.Rules = map[string]policy.Policy{}
	for _, at := range facts.Sorted(&s.db.Memory.People) {
		if !at.Removed() {
			d.People = append(d.People, directory.Person{Person: at.Person})
		}
	}
	for _, o := range facts.InOrder(s.db.Memory.Orgs) {
		d.Organizations = append(d.Organizations, o.Organization)
		d.Rules[o.ID] = o.Policy.Unsigned()
		for _, m := range o.ByPerson() {
			d.Members = append(d.Members, directory.Member{Person: m.Person.ID, Organization: o.ID, Admin: m.Admin})
		}
		d.Circles = append(d.Circles, facts.InOrder(o.Circles)...)
		for _, r := range facts.InOrder(o.Roles) {
			d.Roles = append(d.Roles, r.Role)
			d.Fillers = append(d.Fillers, filled(r)...)
		}
	}
	d.APIKeys = slices.DeleteFunc(d.APIKeys, func(k directory.APIKey) bool {
		at := s.db.Memory.Members.Get(facts.MemberKey{Person: k.Person, Organization: k.Organization})
		return at == nil || !at.Present
	})
	return d, nil
}

// filled lists who fills the role, active or not.
func filled(r *facts.Role) (out []directory.Filler) {
	for _, at := range r.Fillers {
		if at.Present {
			out = append(out, directory.Filler{Role: r.ID, Person: at.Person.ID})
		}
	}
	slices.SortFunc(out, func(a, b directory.Filler) int { return cmp.Compare(a.Person, b.Person) })
	return out
}
