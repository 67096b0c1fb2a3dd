package store

import (
	"context"
	"errors"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/rules"
)

// FindRoles finds roles of an organization for package rules. Where failed gives an
// error, what was decided by them does not count.
func (s *Store) FindRoles(ctx context.Context, organization string) (find rules.Roles, failed func() error) {
	var fault error
	find.ByID = func(id string) (org.Role, bool) {
		r, err := s.Role(ctx, organization, id)
		if err != nil && !errors.Is(err, ErrNotFound) {
			fault = err
		}
		return r.Role, err == nil
	}
	find.ByName = func(name string) (named []org.Role) {
		all, err := s.Roles(ctx, organization)
		if err != nil && !errors.Is(err, ErrNotFound) {
			fault = err
		}
		for _, r := range all {
			if r.Name == name {
				named = append(named, r.Role)
			}
		}
		return named
	}
	return find, func() error { return fault }
}
