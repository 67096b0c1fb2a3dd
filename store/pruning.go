package store

import (
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
	"github.com/grantkeeper/grantkeeper/store/records"
)

// remove takes away what is planned, many rows in each statement: a directory
// that lost 50,000 members must not hold up everybody else.
func (tx *Tx) remove(p *directory.Plan) error {
	if err := tx.removeMembers(p.Removed.Members); err != nil {
		return err
	}
	if err := tx.removeFillers(p.Removed.Fillers...); err != nil {
		return err
	}
	roles := query.IDs(p.Removed.Roles, func(r *facts.Role) any { return r.ID })
	for _, one := range []func() error{
		func() error { return query.ExecEach(tx.Tx, query.Builder{Text: `DELETE FROM filler`}, "role", roles) }, // they go with the role
		func() error { return query.ExecEach(tx.Tx, query.Builder{Text: `DELETE FROM role`}, "id", roles) },
		func() error {
			return query.ExecEach(tx.Tx, query.Builder{Text: `DELETE FROM circle`}, "id", query.IDs(p.Removed.Circles, func(c org.Circle) any { return c.ID }))
		},
		func() error {
			return query.ExecEach(tx.Tx, query.Builder{Text: `DELETE FROM api_key`}, "hash", query.IDs(p.Removed.Keys, func(k directory.KeyRow) any { return k.Hash[:] }))
		},
	} {
		if err := one(); err != nil {
			return err
		}
	}
	return tx.removeOwners(p)
}

// removeMembers ends memberships: the people's roles there are empty from then
// on.
func (tx *Tx) removeMembers(members []facts.MemberKey) error {
	var keys []any
	var fillers []directory.Filler
	for _, k := range members {
		keys = append(keys, k.Person, k.Organization)
		for _, r := range tx.Memory.Members.Get(k).Roles {
			fillers = append(fillers, directory.Filler{Role: r.ID, Person: k.Person})
		}
	}
	if err := tx.deleteFillers(fillers); err != nil {
		return err
	}
	end := query.Builder{Text: `UPDATE membership SET present = 0, admin = 0, epoch = epoch + 1`, Conditions: []string{"present = 1"}}
	return query.ExecPairs(tx.Tx, end, "(person, organization)", keys)
}

// removeOwners ends people and organizations, and puts all that is removed.
func (tx *Tx) removeOwners(p *directory.Plan) error {
	people := query.IDs(p.Removed.People, func(at *facts.Person) any { return at.ID })
	gone := query.Builder{Text: `
		UPDATE person
		   SET active = 0, email = '', email_key = 'removed:' || id, password = '', support = 0, epoch = epoch + active`}
	if err := query.ExecEach(tx.Tx, gone, "id", people); err != nil {
		return err
	}
	if err := query.ExecEach(tx.Tx, query.Builder{Text: `DELETE FROM session`}, "person", people); err != nil {
		return err
	}
	if err := query.ExecEach(tx.Tx, query.Builder{Text: `DELETE FROM attempt`, Conditions: []string{"person <> ''"}}, "person", people); err != nil {
		return err
	}
	if err := records.Removed(tx.Tx, people); err != nil {
		return err
	}
	off := query.Builder{Text: `UPDATE organization SET ai_integration = 0, epoch = epoch + ai_integration`}
	if err := query.ExecEach(tx.Tx, off, "id", query.IDs(p.Removed.Organizations, func(o *facts.Organization) any { return o.ID })); err != nil {
		return err
	}
	tx.putRemoved(p.Removed)
	return nil
}

// putRemoved puts what an import has removed; the fillers have been put.
func (tx *Tx) putRemoved(r directory.Removed) {
	for _, k := range r.Members {
		tx.Put(facts.MemberChange{MemberKey: k, Epoch: tx.Memory.Members.Get(k).Epoch + 1})
	}
	for _, at := range r.Roles {
		tx.Put(facts.RoleGone(at.ID))
	}
	for _, c := range r.Circles {
		tx.Put(facts.CircleGone{Organization: c.Organization, ID: c.ID})
	}
	for _, k := range r.Keys {
		tx.Put(facts.APIKeyGone(k.Hash))
	}
	for _, at := range r.People {
		gone, epoch := at.Person, at.Epoch+engine.Flag(at.Active)
		gone.Email, gone.Active, gone.Support = "", false, false
		tx.Put(facts.PersonChange{Person: gone, Epoch: epoch})
	}
	for _, at := range r.Organizations {
		off, epoch := at.Organization, at.Epoch+engine.Flag(at.AIIntegration)
		off.AIIntegration = false
		tx.Put(facts.OrganizationChange{Organization: off, Epoch: epoch})
	}
}
