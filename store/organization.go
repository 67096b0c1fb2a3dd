package store

import "github.com/grantkeeper/grantkeeper/org"

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
