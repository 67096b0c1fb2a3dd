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
	return put(tx, query.Builder{
		Text: `INSERT INTO organization (id, name, ai_integration, epoch)`,
		End: ` ON CONFLICT (id) DO UPDATE
		   SET name = excluded.name, ai_integration = excluded.ai_integration, epoch = excluded.epoch`,
	}, all, func(o org.Organization) (facts.Change, []any) {
		epoch := int64(0)
		if at := tx.Memory.Orgs[o.ID]; at != nil {
			epoch = at.Epoch
			if at.AIIntegration && !o.AIIntegration {
				epoch++
			}
		}
		return facts.OrganizationChange{Organization: o, Epoch: epoch}, []any{o.ID, o.Name, engine.Flag(o.AIIntegration), epoch}
	})
}

func (tx *Tx) putCircles(all ...org.Circle) error {
	return put(tx, query.Builder{
		Text: `INSERT INTO circle (id, organization, parent, name)`,
		End:  ` ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, name = excluded.name`,
	}, all, func(c org.Circle) (facts.Change, []any) {
		return facts.CircleChange{Circle: c}, []any{c.ID, c.Organization, c.Parent, c.Name}
	})
}

func (tx *Tx) putRoles(all ...org.Role) error {
	return put(tx, query.Builder{
		Text: `INSERT INTO role (id, organization, circle, name)`,
		End:  ` ON CONFLICT (id) DO UPDATE SET circle = excluded.circle, name = excluded.name`,
	}, all, func(r org.Role) (facts.Change, []any) {
		return facts.RoleChange{Role: r}, []any{r.ID, r.Organization, r.Circle, r.Name}
	})
}
