package store

import (
	"cmp"
	"crypto/sha256"
	"github.com/grantkeeper/grantkeeper/facts"
	"slices"

	"github.com/grantkeeper/grantkeeper/org"
)

// planRemoval finds what the complete lists of an import do not name, and what
// goes with it. What an event has told since the picture was taken stays.
func (tx *Tx) planRemoval(p *plan) error {
	r := &p.removed
	r.isPerson, r.isOrganization, r.isCircle, r.isRole = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	r.isMember = map[facts.MemberKey]bool{}
	if p.Prune[ListPeople] {
		for _, at := range facts.Sorted(&p.m.People) {
			if _, ok := p.named.people[at.ID]; !ok && !at.Removed() && !p.newer["person:"+at.ID] {
				p.removePerson(at)
			}
		}
	}
	if p.Prune[ListOrganizations] {
		for _, at := range facts.InOrder(p.m.Orgs) {
			if _, ok := p.named.organizations[at.ID]; !ok && !at.Empty() && !p.newer["organization:"+at.ID] {
				p.removeOrganization(at)
			}
		}
	}
	if p.Prune[ListMembers] {
		for _, o := range facts.InOrder(p.m.Orgs) {
			for _, at := range o.ByPerson() {
				if _, ok := p.named.members[at.Key()]; !ok && !p.newer["membership:"+o.ID+"/"+at.Person.ID] {
					p.removeMember(at)
				}
			}
		}
	}
	p.pruneRoles()
	return tx.pruneKeys(p)
}

func (p *plan) removePerson(at *facts.Person) {
	p.removed.people, p.removed.isPerson[at.ID] = append(p.removed.people, at), true
	p.out.add("removed", ListPeople, at.ID)
	p.ends = append(p.ends, ending{at.ID, "", "person removed"})
	for _, m := range at.Members {
		if m.Present {
			p.removeMember(m)
		}
	}
}

func (p *plan) removeOrganization(at *facts.Organization) {
	p.removed.organizations, p.removed.isOrganization[at.ID] = append(p.removed.organizations, at), true
	p.out.add("removed", ListOrganizations, at.ID)
	p.ends = append(p.ends, ending{"", at.ID, "organization removed"})
	for _, m := range at.ByPerson() {
		p.removeMember(m)
	}
	for _, c := range facts.InOrder(at.Circles) {
		p.removeCircle(c)
	}
	for _, r := range facts.InOrder(at.Roles) {
		p.removeRole(r)
	}
}

func (p *plan) removeMember(at *facts.Member) {
	if k := at.Key(); !p.removed.isMember[k] {
		p.removed.members, p.removed.isMember[k] = append(p.removed.members, k), true
		p.out.add("removed", ListMembers, k.Organization+"/"+k.Person)
		p.ends = append(p.ends, ending{k.Person, k.Organization, "member removed"})
	}
}

func (p *plan) removeCircle(c org.Circle) {
	if !p.removed.isCircle[c.ID] {
		p.removed.circles, p.removed.isCircle[c.ID] = append(p.removed.circles, c), true
		p.out.add("removed", ListCircles, c.ID)
	}
}

func (p *plan) removeRole(r *facts.Role) {
	if !p.removed.isRole[r.ID] {
		p.removed.roles, p.removed.isRole[r.ID] = append(p.removed.roles, r), true
		p.out.add("removed", ListRoles, r.ID)
	}
}

// pruneRoles is planRemoval for circles, roles, and who fills these.
func (p *plan) pruneRoles() {
	if !p.Prune[ListCircles] && !p.Prune[ListRoles] {
		return
	}
	for _, o := range facts.InOrder(p.m.Orgs) {
		for _, c := range facts.InOrder(o.Circles) {
			if _, ok := p.named.circles[c.ID]; p.Prune[ListCircles] && !ok && !p.newer["circle:"+c.ID] {
				p.removeCircle(c)
			}
		}
		if !p.Prune[ListRoles] {
			continue
		}
		for _, r := range facts.InOrder(o.Roles) {
			if _, ok := p.named.roles[r.ID]; !ok && !p.newer["role:"+r.ID] {
				p.removeRole(r)
				continue
			}
			for _, at := range r.Fillers {
				f := Filler{r.ID, at.Person.ID}
				if !p.named.fillers[f] && at.Present && !p.removed.isMember[at.Key()] && !p.newer["filler:"+f.Role+"/"+f.Person] {
					p.removed.fillers = append(p.removed.fillers, f)
					p.out.add("removed", ListFillers, f.Role+"/"+f.Person)
				}
			}
		}
	}
	slices.SortFunc(p.removed.fillers, func(a, b Filler) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Person, b.Person))
	})
}

// pruneKeys finds the API keys that are named without their text, and those
// that are not named at all.
func (tx *Tx) pruneKeys(p *plan) error {
	if len(p.APIKeys) == 0 && !p.Prune[ListAPIKeys] {
		return nil
	}
	rows, err := tx.query(`SELECT hash, person, organization, name FROM api_key ORDER BY person, organization, name, hash`)
	all, err := listOf(rows, err, func(r scanner, k *apiKeyRow) error {
		var hash []byte
		err := r.Scan(&hash, &k.of.Person, &k.of.Organization, &k.name)
		copy(k.hash[:], hash)
		return err
	})
	if err != nil {
		return err
	}
	return p.keepKeys(all)
}

func (p *plan) keepKeys(all []apiKeyRow) error {
	there := map[DirectoryAPIKey][]apiKeyRow{}
	for _, k := range all {
		name := DirectoryAPIKey{Person: k.of.Person, Organization: k.of.Organization, Name: k.name}
		there[name] = append(there[name], k)
	}
	kept := map[[32]byte]bool{}
	for i, k := range p.APIKeys {
		if k.Key != "" {
			kept[sha256.Sum256([]byte(k.Key))] = true
			continue
		}
		found := there[k]
		if len(found) == 0 {
			return misplaced(ListAPIKeys, i, ErrNotFound, "API key %q of %s in %s: send the key itself", k.Name, k.Person, k.Organization)
		}
		for _, one := range found {
			kept[one.hash] = true
		}
	}
	for _, k := range all {
		stands := p.m.APIKeys[k.hash].Stands(p.m.Members.Get(k.of)) // one that has ended is not named either
		if p.Prune[ListAPIKeys] && !kept[k.hash] && stands && !p.removed.isMember[k.of] {
			p.removed.keys = append(p.removed.keys, k)
			p.out.add("removed", ListAPIKeys, k.of.Organization+"/"+k.of.Person)
			p.ends = append(p.ends, ending{k.of.Person, k.of.Organization, "API key removed"})
		}
	}
	return nil
}

// remove takes away what is planned, many rows in each statement: a directory
// that lost 50,000 members must not hold up everybody else.
func (tx *Tx) remove(p *plan) error {
	if err := tx.removeMembers(p.removed.members); err != nil {
		return err
	}
	for _, f := range p.removed.fillers {
		if err := tx.putFiller(f.Role, f.Person, false); err != nil {
			return err
		}
	}
	roles := idsOf(p.removed.roles, func(r *facts.Role) any { return r.ID })
	for _, one := range []func() error{
		func() error { return tx.deleteIn(query{text: `DELETE FROM filler`}, "role", roles) }, // they go with the role
		func() error { return tx.deleteIn(query{text: `DELETE FROM role`}, "id", roles) },
		func() error {
			return tx.deleteIn(query{text: `DELETE FROM circle`}, "id", idsOf(p.removed.circles, func(c org.Circle) any { return c.ID }))
		},
		func() error {
			return tx.deleteIn(query{text: `DELETE FROM api_key`}, "hash", idsOf(p.removed.keys, func(k apiKeyRow) any { return k.hash[:] }))
		},
	} {
		if err := one(); err != nil {
			return err
		}
	}
	return tx.removeOwners(p)
}

func (tx *Tx) deleteIn(q query, column string, values []any) error {
	for batch := range slices.Chunk(values, sweepBatch) {
		if err := tx.execIn(q, column, batch); err != nil {
			return err
		}
	}
	return nil
}

// execIn runs a statement on the rows whose column has one of the values.
func (tx *Tx) execIn(q query, column string, values []any) error {
	q.in(column, padded(values))
	_, err := tx.exec(q.whole(), q.args...)
	return err
}

// removeMembers ends memberships: the people's roles there are empty from then
// on.
func (tx *Tx) removeMembers(members []facts.MemberKey) error {
	now := tx.store.Now().Unix()
	var keys, fillers []any
	for _, k := range members {
		keys = append(keys, k.Person, k.Organization)
		for _, r := range tx.memory.Members.Get(k).Roles {
			fillers = append(fillers, r.ID, k.Person)
		}
	}
	for _, one := range []struct {
		q     query
		pairs []any
	}{
		{query{
			text: `
			INSERT INTO filler_left (role, person, left_at)
			SELECT role, person, CAST($1 AS BIGINT) FROM filler`, args: []any{now},
			end: ` ON CONFLICT (role, person) DO UPDATE SET left_at = excluded.left_at`,
		}, fillers},
		{query{text: `DELETE FROM filler`}, fillers},
	} {
		if err := tx.execPairs(one.q, "(role, person)", one.pairs); err != nil {
			return err
		}
	}
	end := query{text: `UPDATE membership SET present = 0, admin = 0, epoch = epoch + 1`, conditions: []string{"present = 1"}}
	return tx.execPairs(end, "(person, organization)", keys)
}

// execPairs is execIn for rows that two columns name, with the values of both
// in turn.
func (tx *Tx) execPairs(q query, columns string, values []any) error {
	for batch := range slices.Chunk(values, 2*sweepBatch) {
		one := q.as(q.text)
		one.pairs(columns, batch)
		if _, err := tx.exec(one.whole(), one.args...); err != nil {
			return err
		}
	}
	return nil
}

// removeOwners ends people and organizations, and puts all that is removed.
func (tx *Tx) removeOwners(p *plan) error {
	people := idsOf(p.removed.people, func(at *facts.Person) any { return at.ID })
	gone := query{text: `
		UPDATE person
		   SET active = 0, email = '', email_key = 'removed:' || id, password = '', support = 0, epoch = epoch + active`}
	if err := tx.deleteIn(gone, "id", people); err != nil {
		return err
	}
	if err := tx.deleteIn(query{text: `DELETE FROM session`}, "person", people); err != nil {
		return err
	}
	off := query{text: `UPDATE organization SET ai_integration = 0, epoch = epoch + ai_integration`}
	if err := tx.deleteIn(off, "id", idsOf(p.removed.organizations, func(o *facts.Organization) any { return o.ID })); err != nil {
		return err
	}
	tx.putRemoved(p.removed)
	return nil
}

// putRemoved puts what an import has removed; the fillers have been put.
func (tx *Tx) putRemoved(r removed) {
	tx.Put(facts.RolesLeft{Members: r.members, Is: r.isMember})
	for _, k := range r.members {
		tx.Put(facts.MemberChange{MemberKey: k, Epoch: tx.memory.Members.Get(k).Epoch + 1})
	}
	for _, at := range r.roles {
		tx.Put(facts.RoleGone(at.ID))
	}
	for _, c := range r.circles {
		tx.Put(facts.CircleGone{Organization: c.Organization, ID: c.ID})
	}
	for _, k := range r.keys {
		tx.Put(facts.APIKeyGone(k.hash))
	}
	for _, at := range r.people {
		gone, epoch := at.Person, at.Epoch+flag(at.Active)
		gone.Email, gone.Active, gone.Support = "", false, false
		tx.Put(facts.PersonChange{Person: gone, Epoch: epoch})
	}
	for _, at := range r.organizations {
		off, epoch := at.Organization, at.Epoch+flag(at.AIIntegration)
		off.AIIntegration = false
		tx.Put(facts.OrganizationChange{Organization: off, Epoch: epoch})
	}
}
