package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/grantkeeper/grantkeeper/org"
)

// planRemoval finds what the complete lists of an import do not name, and what
// goes with it. What an event has told since the picture was taken stays.
func (w *writer) planRemoval(p *plan) error {
	r := &p.removed
	r.isPerson, r.isOrganization, r.isCircle, r.isRole = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	r.isMember = map[memberKey]bool{}
	if p.Prune[ListPeople] {
		for _, at := range sorted(&p.m.people) {
			if _, ok := p.named.people[at.ID]; !ok && !at.removed() && !p.newer["person:"+at.ID] {
				p.removePerson(at)
			}
		}
	}
	if p.Prune[ListOrganizations] {
		for _, at := range inOrder(p.m.orgs) {
			if _, ok := p.named.organizations[at.ID]; !ok && !at.empty() && !p.newer["organization:"+at.ID] {
				p.removeOrganization(at)
			}
		}
	}
	if p.Prune[ListMembers] {
		for _, o := range inOrder(p.m.orgs) {
			for _, at := range o.byPerson() {
				if _, ok := p.named.members[at.key()]; !ok && !p.newer["membership:"+o.ID+"/"+at.person.ID] {
					p.removeMember(at)
				}
			}
		}
	}
	p.pruneRoles()
	return w.pruneKeys(p)
}

func (at *member) key() memberKey { return memberKey{at.person.ID, at.org.ID} }

// empty reports whether a removal has nothing to take from the organization.
func (o *organization) empty() bool {
	return !o.AIIntegration && len(o.members) == 0 && len(o.circles) == 0 && len(o.roles) == 0
}

func (p *plan) removePerson(at *person) {
	p.removed.people, p.removed.isPerson[at.ID] = append(p.removed.people, at), true
	p.out.add("removed", ListPeople, at.ID)
	p.ends = append(p.ends, ending{at.ID, "", "person removed"})
	for _, m := range at.members {
		if m.present {
			p.removeMember(m)
		}
	}
}

func (p *plan) removeOrganization(at *organization) {
	p.removed.organizations, p.removed.isOrganization[at.ID] = append(p.removed.organizations, at), true
	p.out.add("removed", ListOrganizations, at.ID)
	p.ends = append(p.ends, ending{"", at.ID, "organization removed"})
	for _, m := range at.byPerson() {
		p.removeMember(m)
	}
	for _, c := range inOrder(at.circles) {
		p.removeCircle(c)
	}
	for _, r := range inOrder(at.roles) {
		p.removeRole(r)
	}
}

func (p *plan) removeMember(at *member) {
	if k := at.key(); !p.removed.isMember[k] {
		p.removed.members, p.removed.isMember[k] = append(p.removed.members, k), true
		p.out.add("removed", ListMembers, k.organization+"/"+k.person)
		p.ends = append(p.ends, ending{k.person, k.organization, "member removed"})
	}
}

func (p *plan) removeCircle(c org.Circle) {
	if !p.removed.isCircle[c.ID] {
		p.removed.circles, p.removed.isCircle[c.ID] = append(p.removed.circles, c), true
		p.out.add("removed", ListCircles, c.ID)
	}
}

func (p *plan) removeRole(r *role) {
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
	for _, o := range inOrder(p.m.orgs) {
		for _, c := range inOrder(o.circles) {
			if _, ok := p.named.circles[c.ID]; p.Prune[ListCircles] && !ok && !p.newer["circle:"+c.ID] {
				p.removeCircle(c)
			}
		}
		if !p.Prune[ListRoles] {
			continue
		}
		for _, r := range inOrder(o.roles) {
			if _, ok := p.named.roles[r.ID]; !ok && !p.newer["role:"+r.ID] {
				p.removeRole(r)
				continue
			}
			for _, at := range r.fillers {
				f := Filler{r.ID, at.person.ID}
				if !p.named.fillers[f] && at.present && !p.removed.isMember[at.key()] && !p.newer["filler:"+f.Role+"/"+f.Person] {
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
func (w *writer) pruneKeys(p *plan) error {
	if len(p.APIKeys) == 0 && !p.Prune[ListAPIKeys] {
		return nil
	}
	rows, err := w.query(`SELECT hash, person, organization, name FROM api_key ORDER BY person, organization, name, hash`)
	all, err := listOf(rows, err, func(r scanner, k *apiKeyRow) error {
		var hash []byte
		err := r.Scan(&hash, &k.of.person, &k.of.organization, &k.name)
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
		name := DirectoryAPIKey{Person: k.of.person, Organization: k.of.organization, Name: k.name}
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
		stands := p.m.apiKeys[k.hash].stands(p.m.members.get(k.of)) // one that has ended is not named either
		if p.Prune[ListAPIKeys] && !kept[k.hash] && stands && !p.removed.isMember[k.of] {
			p.removed.keys = append(p.removed.keys, k)
			p.out.add("removed", ListAPIKeys, k.of.organization+"/"+k.of.person)
			p.ends = append(p.ends, ending{k.of.person, k.of.organization, "API key removed"})
		}
	}
	return nil
}

// remove takes away what is planned, many rows in each statement: a directory
// that lost 50,000 members must not hold up everybody else.
func (w *writer) remove(p *plan) ([]func(), error) {
	if err := w.removeMembers(p.removed.members); err != nil {
		return nil, err
	}
	for _, f := range p.removed.fillers {
		if _, err := w.putFiller(f.Role, f.Person, false); err != nil {
			return nil, err
		}
	}
	roles := idsOf(p.removed.roles, func(r *role) any { return r.ID })
	for _, one := range []func() error{
		func() error { return w.deleteIn(query{text: `DELETE FROM filler`}, "role", roles) }, // they go with the role
		func() error { return w.deleteIn(query{text: `DELETE FROM role`}, "id", roles) },
		func() error {
			return w.deleteIn(query{text: `DELETE FROM circle`}, "id", idsOf(p.removed.circles, func(c org.Circle) any { return c.ID }))
		},
		func() error {
			return w.deleteIn(query{text: `DELETE FROM api_key`}, "hash", idsOf(p.removed.keys, func(k apiKeyRow) any { return k.hash[:] }))
		},
	} {
		if err := one(); err != nil {
			return nil, err
		}
	}
	return w.removeOwners(p)
}

func (w *writer) deleteIn(q query, column string, values []any) error {
	for batch := range slices.Chunk(values, sweepBatch) {
		if err := w.execIn(q, column, batch); err != nil {
			return err
		}
		w.fact("filler")
	}
	return nil
}

// execIn runs a statement on the rows whose column has one of the values.
func (w *writer) execIn(q query, column string, values []any) error {
	q.in(column, padded(values))
	_, err := w.exec(q.whole(), q.args...)
	return err
}

// removeMembers ends memberships: the people's roles there are empty from then
// on.
func (w *writer) removeMembers(members []memberKey) error {
	now := w.store.Now().Unix()
	var keys, fillers []any
	for _, k := range members {
		keys = append(keys, k.person, k.organization)
		for _, r := range w.store.memory.members.get(k).roles {
			fillers = append(fillers, r.ID, k.person)
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
		if err := w.execPairs(one.q, "(role, person)", one.pairs); err != nil {
			return err
		}
	}
	end := query{text: `UPDATE membership SET present = 0, admin = 0, epoch = epoch + 1`, conditions: []string{"present = 1"}}
	return w.execPairs(end, "(person, organization)", keys)
}

// execPairs is execIn for rows that two columns name, with the values of both
// in turn.
func (w *writer) execPairs(q query, columns string, values []any) error {
	for batch := range slices.Chunk(values, 2*sweepBatch) {
		one := q.as(q.text)
		one.pairs(columns, batch)
		if _, err := w.exec(one.whole(), one.args...); err != nil {
			return err
		}
		w.fact("filler") // they go with the membership
	}
	return nil
}

// removeOwners ends people and organizations, and gives what is to be done to
// memory for all that is removed.
func (w *writer) removeOwners(p *plan) ([]func(), error) {
	people := idsOf(p.removed.people, func(at *person) any { return at.ID })
	gone := query{text: `
		UPDATE person
		   SET active = 0, email = '', email_key = 'removed:' || id, password = '', support = 0, epoch = epoch + active`}
	if err := w.deleteIn(gone, "id", people); err != nil {
		return nil, err
	}
	if err := w.deleteIn(query{text: `DELETE FROM session`}, "person", people); err != nil {
		return nil, err
	}
	off := query{text: `UPDATE organization SET ai_integration = 0, epoch = epoch + ai_integration`}
	if err := w.deleteIn(off, "id", idsOf(p.removed.organizations, func(o *organization) any { return o.ID })); err != nil {
		return nil, err
	}
	p.removed.name(w)
	return []func(){func() { p.m.remove(p.removed) }}, nil
}

// name tells other nodes what to load again. What went in one statement with
// others is named by whoever does not name itself.
func (r removed) name(w *writer) {
	for _, k := range r.members {
		w.fact("membership", k.person+" "+k.organization)
	}
	for _, at := range r.roles {
		w.fact("role", at.ID)
	}
	for _, c := range r.circles {
		w.fact("circle", c.ID)
	}
	for _, k := range r.keys {
		w.fact("api_key", hex.EncodeToString(k.hash[:]))
	}
	for _, at := range r.people {
		w.fact("person", at.ID)
	}
	for _, at := range r.organizations {
		w.fact("organization", at.ID)
	}
}

// remove forgets what an import has removed.
func (m *memory) remove(r removed) {
	emptied := map[*role]bool{}
	for _, k := range r.members {
		for _, in := range m.members.get(k).roles {
			emptied[in] = true
		}
	}
	for in := range emptied {
		in.fillers = slices.DeleteFunc(in.fillers, func(f *member) bool { return r.isMember[f.key()] })
	}
	for _, k := range r.members {
		at := m.members.get(k)
		at.roles = nil
		m.putMember(k, false, false, at.epoch+1)
	}
	for _, f := range r.fillers {
		m.setFiller(f.Role, f.Person, false)
	}
	for _, one := range r.roles {
		m.dropRole(one)
	}
	for _, c := range r.circles {
		m.dropCircle(m.orgs[c.Organization], c.ID)
	}
	for _, k := range r.keys {
		delete(m.apiKeys, k.hash)
	}
	for _, at := range r.people {
		gone, epoch := at.Person, at.epoch+flag(at.Active)
		gone.Email, gone.Active, gone.Support = "", false, false
		m.putPerson(gone, epoch)
	}
	for _, o := range r.organizations {
		off, epoch := o.Organization, o.epoch+flag(o.AIIntegration)
		off.AIIntegration = false
		m.putOrganization(off, epoch)
	}
}
