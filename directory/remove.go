package directory

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
)

// planRemoval finds what the complete lists of an import do not name, and what
// goes with it. What an event has reported since the picture was taken stays.
func (p *Plan) planRemoval(s Source) error {
	r := &p.Removed
	r.isPerson, r.isOrganization, r.isCircle, r.isRole = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	r.IsMember = map[facts.MemberKey]bool{}
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
	if len(p.APIKeys) == 0 && !p.Prune[ListAPIKeys] {
		return nil
	}
	all, err := s.Keys()
	if err != nil {
		return err
	}
	return p.keepKeys(all)
}

func (p *Plan) removePerson(at *facts.Person) {
	p.Removed.People, p.Removed.isPerson[at.ID] = append(p.Removed.People, at), true
	p.Out.add("removed", ListPeople, at.ID)
	p.Ends = append(p.Ends, Ending{at.ID, "", "person removed"})
	for _, m := range at.Members {
		if m.Present {
			p.removeMember(m)
		}
	}
}

func (p *Plan) removeOrganization(at *facts.Organization) {
	p.Removed.Organizations, p.Removed.isOrganization[at.ID] = append(p.Removed.Organizations, at), true
	p.Out.add("removed", ListOrganizations, at.ID)
	p.Ends = append(p.Ends, Ending{"", at.ID, "organization removed"})
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

func (p *Plan) removeMember(at *facts.Member) {
	if k := at.Key(); !p.Removed.IsMember[k] {
		p.Removed.Members, p.Removed.IsMember[k] = append(p.Removed.Members, k), true
		p.Out.add("removed", ListMembers, k.Organization+"/"+k.Person)
		p.Ends = append(p.Ends, Ending{k.Person, k.Organization, "member removed"})
	}
}

func (p *Plan) removeCircle(c org.Circle) {
	if !p.Removed.isCircle[c.ID] {
		p.Removed.Circles, p.Removed.isCircle[c.ID] = append(p.Removed.Circles, c), true
		p.Out.add("removed", ListCircles, c.ID)
	}
}

func (p *Plan) removeRole(r *facts.Role) {
	if !p.Removed.isRole[r.ID] {
		p.Removed.Roles, p.Removed.isRole[r.ID] = append(p.Removed.Roles, r), true
		p.Out.add("removed", ListRoles, r.ID)
	}
}

// pruneRoles is planRemoval for circles, roles, and who fills these.
func (p *Plan) pruneRoles() {
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
				if !p.named.fillers[f] && at.Present && !p.Removed.IsMember[at.Key()] && !p.newer["filler:"+f.Role+"/"+f.Person] {
					p.Removed.Fillers = append(p.Removed.Fillers, f)
					p.Out.add("removed", ListFillers, f.Role+"/"+f.Person)
				}
			}
		}
	}
	slices.SortFunc(p.Removed.Fillers, func(a, b Filler) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Person, b.Person))
	})
}

// keepKeys finds the API keys that are named without their text, and those that
// are not named at all.
func (p *Plan) keepKeys(all []KeyRow) error {
	there := map[APIKey][]KeyRow{}
	p.keys = make(map[[32]byte]string, len(all))
	for _, k := range all {
		p.keys[k.Hash] = k.Name
		name := APIKey{Person: k.Of.Person, Organization: k.Of.Organization, Name: k.Name}
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
			kept[one.Hash] = true
		}
	}
	for _, k := range all {
		stands := p.m.APIKeys[k.Hash].Stands(p.m.Members.Get(k.Of)) // one that has ended is not named either
		if p.Prune[ListAPIKeys] && !kept[k.Hash] && stands && !p.Removed.IsMember[k.Of] {
			p.Removed.Keys = append(p.Removed.Keys, k)
			p.Out.add("removed", ListAPIKeys, k.Of.Organization+"/"+k.Of.Person)
			p.Ends = append(p.Ends, Ending{k.Of.Person, k.Of.Organization, "API key removed"})
		}
	}
	return nil
}
