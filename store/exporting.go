package store

import (
	"cmp"
	"context"
	"slices"
)

// ExportDirectory gives the whole directory as it stands, in order of IDs:
// what ImportDirectory takes, and changes nothing with. Passwords are not in
// it, API keys are there by their names alone, and items are no part of it.
func (s *Store) ExportDirectory(ctx context.Context) (d Directory, err error) {
	if d.APIKeys, err = s.exportKeys(ctx); err != nil {
		return Directory{}, err
	}
	if err := s.fresh(ctx); err != nil {
		return Directory{}, err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	for _, at := range sorted(&s.memory.people) {
		if !at.removed() {
			d.People = append(d.People, DirectoryPerson{Person: at.Person})
		}
	}
	for _, o := range inOrder(s.memory.orgs) {
		d.Organizations = append(d.Organizations, o.Organization)
		for _, m := range o.byPerson() {
			d.Members = append(d.Members, DirectoryMember{m.person.ID, o.ID, m.admin})
		}
		d.Circles = append(d.Circles, inOrder(o.circles)...)
		for _, r := range inOrder(o.roles) {
			d.Roles = append(d.Roles, r.Role)
			d.Fillers = append(d.Fillers, r.filled()...)
		}
	}
	d.APIKeys = slices.DeleteFunc(d.APIKeys, func(k DirectoryAPIKey) bool {
		at := s.memory.members.get(memberKey{k.Person, k.Organization})
		return at == nil || !at.present
	})
	return d, nil
}

// filled lists who fills the role, active or not.
func (r *role) filled() (out []Filler) {
	for _, at := range r.fillers {
		if at.present {
			out = append(out, Filler{r.ID, at.person.ID})
		}
	}
	slices.SortFunc(out, func(a, b Filler) int { return cmp.Compare(a.Person, b.Person) })
	return out
}
