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

// putOrganization adds or updates; switching AI integration off raises the
// epoch.
func (tx *Tx) putOrganization(o org.Organization) error {
	epoch := int64(0)
	if at := tx.memory.orgs[o.ID]; at != nil {
		epoch = at.epoch
		if at.AIIntegration && !o.AIIntegration {
			epoch++
		}
	}
	_, err := tx.exec(`
		INSERT INTO organization (id, name, ai_integration, epoch) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE
		   SET name = excluded.name, ai_integration = excluded.ai_integration, epoch = excluded.epoch`,
		o.ID, o.Name, flag(o.AIIntegration), epoch)
	tx.Put(organizationChange{o, epoch})
	return err
}

func (tx *Tx) putCircle(c org.Circle) error {
	_, err := tx.exec(`
		INSERT INTO circle (id, organization, parent, name) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, name = excluded.name`,
		c.ID, c.Organization, c.Parent, c.Name)
	tx.Put(circleChange{c})
	return err
}

func (tx *Tx) putRole(r org.Role) error {
	_, err := tx.exec(`
		INSERT INTO role (id, organization, circle, name) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET circle = excluded.circle, name = excluded.name`,
		r.ID, r.Organization, r.Circle, r.Name)
	tx.Put(roleChange{r})
	return err
}
