package store

import (
	"context"
	"fmt"

	"github.com/grantkeeper/grantkeeper/org"
)

// ChangeOrganization changes the name of an organization in one step. change
// sees it as it stands, and gives what it shall be, or refuses. All but the
// name stays: SetIntegration has more to do.
func (s *Store) ChangeOrganization(_ context.Context, id string, change func(org.Organization) (org.Organization, error), act Act) (org.Organization, error) {
	var out org.Organization
	err := s.writer.changeFacts(func(w *writer) (func(), error) {
		at := w.store.memory.orgs[id]
		if at == nil {
			return nil, fmt.Errorf("organization: %w", ErrNotFound)
		}
		next, err := change(at.Organization)
		if err != nil {
			return nil, &refused{err}
		}
		out = at.Organization
		out.Name = next.Name
		after, err := w.putOrganization(out)
		if err != nil {
			return nil, err
		}
		return after, w.changed("", id, "organization renamed", act)
	})
	return out, unwrapRefused(err)
}

// ChangeCircle adds or changes a circle of an organization in one step. change
// sees it as it stands, or nil, and gives what it shall be, or refuses.
// ErrNotFound: the parent is not a circle of the organization; ErrConflict: it
// would be its own ancestor, or the ID belongs to another organization.
func (s *Store) ChangeCircle(_ context.Context, organizationID, id string, change func(*org.Circle) (org.Circle, error), act Act) (org.Circle, error) {
	var out org.Circle
	err := s.writer.changeFacts(func(w *writer) (func(), error) {
		o := w.store.memory.orgs[organizationID]
		if o == nil {
			return nil, fmt.Errorf("organization: %w", ErrNotFound)
		}
		var at *org.Circle
		if c, ok := o.circles[id]; ok {
			at = &c
		} else if w.store.memory.hasCircle(id) {
			return nil, fmt.Errorf("circle: %w", ErrConflict)
		}
		next, err := change(at)
		if err != nil {
			return nil, &refused{err}
		}
		next.ID, next.Organization = id, organizationID
		if err := o.mayHang(next); err != nil {
			return nil, err
		}
		out = next
		after, err := w.putCircle(next)
		if err != nil {
			return nil, err
		}
		return after, w.changed("", organizationID, "circle "+id+" changed", act)
	})
	return out, unwrapRefused(err)
}

// hasCircle reports whether any organization has a circle with this ID.
func (m *memory) hasCircle(id string) bool {
	for _, o := range m.orgs {
		if _, ok := o.circles[id]; ok {
			return true
		}
	}
	return false
}

// mayHang keeps the circles a tree.
func (o *organization) mayHang(c org.Circle) error {
	climbed := 0
	for parent := c.Parent; parent != ""; parent = o.circles[parent].Parent {
		if climbed++; parent == c.ID || climbed > len(o.circles) {
			return fmt.Errorf("a circle cannot be its own ancestor: %w", ErrConflict)
		}
		if _, ok := o.circles[parent]; !ok {
			return fmt.Errorf("parent circle: %w", ErrNotFound)
		}
	}
	return nil
}

// DeleteCircle deletes an empty circle: one without roles and circles in it.
func (s *Store) DeleteCircle(_ context.Context, organizationID, id string, check func(org.Circle) error, act Act) error {
	return unwrapRefused(s.writer.changeFacts(func(w *writer) (func(), error) {
		m := w.store.memory
		o := m.orgs[organizationID]
		if o == nil || o.circles[id].ID == "" {
			return nil, fmt.Errorf("circle: %w", ErrNotFound)
		}
		if err := check(o.circles[id]); err != nil {
			return nil, &refused{err}
		}
		if in := o.inside(id); in != "" {
			return nil, fmt.Errorf("%s is in the circle: %w", in, ErrConflict)
		}
		if _, err := w.exec(`DELETE FROM circle WHERE id = $1`, id); err != nil {
			return nil, err
		}
		w.fact("circle", id)
		return func() { m.dropCircle(o, id) }, w.changed("", organizationID, "circle "+id+" deleted", act)
	}))
}

// inside names something that is in a circle; "" is nothing.
func (o *organization) inside(circle string) string {
	for _, c := range o.circles {
		if c.Parent == circle {
			return "circle " + c.ID
		}
	}
	for _, r := range o.roles {
		if r.Circle == circle {
			return "role " + r.ID
		}
	}
	return ""
}

// ChangeRole adds or changes a role, as ChangeCircle does a circle.
// ErrNotFound: its circle is not one of the organization.
func (s *Store) ChangeRole(_ context.Context, organizationID, id string, change func(*org.Role) (org.Role, error), act Act) (org.Role, error) {
	var out org.Role
	err := s.writer.changeFacts(func(w *writer) (func(), error) {
		m := w.store.memory
		o := m.orgs[organizationID]
		if o == nil {
			return nil, fmt.Errorf("organization: %w", ErrNotFound)
		}
		var at *org.Role
		if r := m.roles.get(id); r != nil && r.Organization == organizationID {
			seen := r.Role // a copy: memory changes after the commit alone
			at = &seen
		} else if r != nil {
			return nil, fmt.Errorf("role: %w", ErrConflict)
		}
		next, err := change(at)
		if err != nil {
			return nil, &refused{err}
		}
		next.ID, next.Organization = id, organizationID
		if o.circles[next.Circle].ID == "" {
			return nil, fmt.Errorf("circle: %w", ErrNotFound)
		}
		out = next
		after, err := w.putRole(next)
		if err != nil {
			return nil, err
		}
		return after, w.changed("", organizationID, "role "+id+" changed", act)
	})
	return out, unwrapRefused(err)
}

// DeleteRole deletes a role with its items and fillers. Picks of it in grant
// sets count for nothing from then on (decision P5).
func (s *Store) DeleteRole(_ context.Context, organizationID, id string, check func(org.Role) error, act Act) error {
	return unwrapRefused(s.writer.changeFacts(func(w *writer) (func(), error) {
		m := w.store.memory
		r := m.roles.get(id)
		if r == nil || r.Organization != organizationID {
			return nil, fmt.Errorf("role: %w", ErrNotFound)
		}
		if err := check(r.Role); err != nil {
			return nil, &refused{err}
		}
		for _, text := range []string{
			`DELETE FROM role WHERE id = $1`, `DELETE FROM filler WHERE role = $1`, `DELETE FROM filler_left WHERE role = $1`, `DELETE FROM item WHERE role = $1`,
		} {
			if _, err := w.exec(text, id); err != nil {
				return nil, err
			}
			w.fact("filler") // they go with the role
		}
		w.fact("role", id)
		return func() { m.dropRole(r) }, w.changed("", organizationID, "role "+id+" deleted", act)
	}))
}

// dropRole forgets a role. Its place in the list stays, because picks name it
// by that.
func (m *memory) dropRole(r *role) {
	m.empty(r)
	m.roles.drop(r.ID)
}

// empty takes a role from all who fill it, and from its organization.
func (m *memory) empty(r *role) {
	for _, f := range r.fillers {
		f.roles = without(f.roles, r)
		f.facts.Store(nil)
	}
	r.fillers = nil
	m.touch(m.orgs[r.Organization])
	delete(m.orgs[r.Organization].roles, r.ID)
}

// putOrganization adds or updates; switching AI integration off raises the
// epoch.
func (w *writer) putOrganization(o org.Organization) (func(), error) {
	epoch := int64(0)
	if at := w.store.memory.orgs[o.ID]; at != nil {
		epoch = at.epoch
		if at.AIIntegration && !o.AIIntegration {
			epoch++
		}
	}
	_, err := w.exec(`
		INSERT INTO organization (id, name, ai_integration, epoch) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE
		   SET name = excluded.name, ai_integration = excluded.ai_integration, epoch = excluded.epoch`,
		o.ID, o.Name, flag(o.AIIntegration), epoch)
	w.fact("organization", o.ID)
	return func() { w.store.memory.putOrganization(o, epoch) }, err
}

func (w *writer) putCircle(c org.Circle) (func(), error) {
	_, err := w.exec(`
		INSERT INTO circle (id, organization, parent, name) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, name = excluded.name`,
		c.ID, c.Organization, c.Parent, c.Name)
	w.fact("circle", c.ID)
	return func() { w.store.memory.putCircle(c) }, err
}

func (w *writer) putRole(r org.Role) (func(), error) {
	_, err := w.exec(`
		INSERT INTO role (id, organization, circle, name) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET circle = excluded.circle, name = excluded.name`,
		r.ID, r.Organization, r.Circle, r.Name)
	w.fact("role", r.ID)
	return func() { w.store.memory.putRole(r) }, err
}
