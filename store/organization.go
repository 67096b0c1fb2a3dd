package store

import (
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// putOrganizations adds or updates; switching AI integration off raises the
// epoch.
func (tx *Tx) putOrganizations(all ...org.Organization) error {
	var values []any
	for _, o := range all {
		epoch := int64(0)
		if at := tx.Memory.Orgs[o.ID]; at != nil {
			epoch = at.Epoch
			if at.AIIntegration && !o.AIIntegration {
				epoch++
			}
		}
		values = append(values, o.ID, o.Name, engine.Flag(o.AIIntegration), epoch)
		tx.Put(facts.OrganizationChange{Organization: o, Epoch: epoch})
	}
	return query.Insert(tx.Tx, query.Builder{
		Text: `INSERT INTO organization (id, name, ai_integration, epoch)`,
		End: ` ON CONFLICT (id) DO UPDATE
		   SET name = excluded.name, ai_integration = excluded.ai_integration, epoch = excluded.epoch`,
	}, 4, values)
}

func (tx *Tx) putCircles(all ...org.Circle) error {
	var values []any
	for _, c := range all {
		values = append(values, c.ID, c.Organization, c.Parent, c.Name)
		tx.Put(facts.CircleChange{Circle: c})
	}
	return query.Insert(tx.Tx, query.Builder{
		Text: `INSERT INTO circle (id, organization, parent, name)`,
		End:  ` ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, name = excluded.name`,
	}, 4, values)
}

func (tx *Tx) putRoles(all ...org.Role) error {
	var values []any
	for _, r := range all {
		values = append(values, r.ID, r.Organization, r.Circle, r.Name)
		tx.Put(facts.RoleChange{Role: r})
	}
	return query.Insert(tx.Tx, query.Builder{
		Text: `INSERT INTO role (id, organization, circle, name)`,
		End:  ` ON CONFLICT (id) DO UPDATE SET circle = excluded.circle, name = excluded.name`,
	}, 4, values)
}
