package store

import (
	"context"
	"errors"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/rules"
)

// FindRoles finds roles of an organization for package rules. Where failed gives an
// error, what was decided by them does not count. Each is asked for once: it is for one
// decision, or one list of them.
func (s *Store) FindRoles(ctx context.Context, organization string) (find rules.Roles, failed func() error) {
	var fault error
	note := func(err error) bool {
		if err != nil && !errors.Is(err, ErrNotFound) {
			fault = err
		}
		return err == nil
	}
	byID, byName := map[string]*org.Role{}, map[string][]org.Role(nil)
	find.ByID = func(id string) (org.Role, bool) {
		r, asked := byID[id]
		if !asked {
			if row, err := s.Role(ctx, organization, id); note(err) {
				r = &row.Role
			}
			byID[id] = r
		}
		if r == nil {
			return org.Role{}, false
		}
		return *r, true
	}
	find.ByName = func(name string) []org.Role {
		if byName == nil {
			byName = map[string][]org.Role{}
			all, err := s.Roles(ctx, organization)
			note(err)
			for _, r := range all {
				byName[r.Name] = append(byName[r.Name], r.Role)
			}
		}
		return byName[name]
	}
	return find, func() error { return fault }
}
