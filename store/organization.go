package store

import (
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// putOrganization adds or updates; switching AI integration off raises the
// epoch.
func (tx *Tx) putOrganization(o org.Organization) error {
	epoch := int64(0)
	if at := tx.Memory.Orgs[o.ID]; at != nil {
		epoch = at.Epoch
		if at.AIIntegration && !o.AIIntegration {
			epoch++
		}
	}
	_, err := tx.Exec(`
		INSERT INTO organization (id, name, ai_integration, epoch) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE
		   SET name = excluded.name, ai_integration = excluded.ai_integration, epoch = excluded.epoch`,
		o.ID, o.Name, engine.Flag(o.AIIntegration), epoch)
	tx.Put(facts.OrganizationChange{Organization: o, Epoch: epoch})
	return err
}

func (tx *Tx) putCircle(c org.Circle) error {
	_, err := tx.Exec(`
		INSERT INTO circle (id, organization, parent, name) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, name = excluded.name`,
		c.ID, c.Organization, c.Parent, c.Name)
	tx.Put(facts.CircleChange{Circle: c})
	return err
}

func (tx *Tx) putRole(r org.Role) error {
	_, err := tx.Exec(`
		INSERT INTO role (id, organization, circle, name) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET circle = excluded.circle, name = excluded.name`,
		r.ID, r.Organization, r.Circle, r.Name)
	tx.Put(facts.RoleChange{Role: r})
	return err
}
