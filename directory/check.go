package directory

import (
	"crypto/sha256"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
)

// name lists what the directory names, and refuses what it names twice.
func (p *Plan) name() (err error) {
	n, d := &p.named, p.Directory
	if n.people, err = places(ListPeople, "person", d.People, func(p Person) string { return p.ID }); err != nil {
		return err
	}
	if n.organizations, err = places(ListOrganizations, "organization", d.Organizations, func(o org.Organization) string { return o.ID }); err != nil {
		return err
	}
	if n.members, err = places(ListMembers, "member", d.Members, func(m Member) facts.MemberKey {
		return facts.MemberKey{Person: m.Person, Organization: m.Organization}
	}); err != nil {
		return err
	}
	if n.circles, err = places(ListCircles, "circle", d.Circles, func(c org.Circle) string { return c.ID }); err != nil {
		return err
	}
	if n.roles, err = places(ListRoles, "role", d.Roles, func(r org.Role) string { return r.ID }); err != nil {
		return err
	}
	n.fillers = map[Filler]bool{}
	for _, f := range d.Fillers {
		if n.fillers[f] {
			return misplaced(ListRoles, p.roleIndex(f.Role), ErrConflict, "filler %s of role %s comes twice", f.Person, f.Role)
		}
		n.fillers[f] = true
	}
	return nil
}

// places gives where each of a list stands, by what it is named.
func places[T any, K comparable](list, what string, all []T, key func(T) K) (map[K]int, error) {
	at := make(map[K]int, len(all))
	for i, one := range all {
		k := key(one)
		if _, twice := at[k]; twice {
			return nil, misplaced(list, i, ErrConflict, "%s %v comes twice", what, k)
		}
		at[k] = i
	}
	return at, nil
}

func (p *Plan) roleIndex(role string) int {
	if i, ok := p.named.roles[role]; ok {
		return i
	}
	return -1
}

// hasPerson reports whether there is such a person once the plan is carried out.
func (p *Plan) hasPerson(id string) bool {
	if _, ok := p.named.people[id]; ok {
		return true
	}
	at := p.m.People.Get(id)
	return at != nil && !at.Removed() && !p.Removed.isPerson[id]
}

func (p *Plan) hasOrganization(id string) bool {
	if _, ok := p.named.organizations[id]; ok {
		return true
	}
	return p.m.Orgs[id] != nil && !p.Removed.isOrganization[id]
}

func (p *Plan) hasMember(person, organization string) bool {
	k := facts.MemberKey{Person: person, Organization: organization}
	if _, ok := p.named.members[k]; ok {
		return true
	}
	at := p.m.Members.Get(k)
	return at != nil && at.Present && !p.Removed.IsMember[k]
}

// circle gives a circle as it is once the plan is carried out; one without an
// ID is not there.
func (p *Plan) circle(organization, id string) org.Circle {
	if i, ok := p.named.circles[id]; ok {
		return p.Directory.Circles[i]
	}
	if o := p.m.Orgs[organization]; o != nil && !p.Removed.isCircle[id] {
		return o.Circles[id]
	}
	return org.Circle{}
}

// roleIn gives the organization of a role once the plan is carried out, or "".
func (p *Plan) roleIn(id string) string {
	if i, ok := p.named.roles[id]; ok {
		return p.Directory.Roles[i].Organization
	}
	if at := p.m.Roles.Get(id); at != nil && !p.Removed.isRole[id] {
		return at.Organization
	}
	return ""
}

// check finds what the directory refers to and what would not be there.
func (p *Plan) check() error {
	for _, check := range []func() error{p.checkPeople, p.checkCircles, p.checkRoles, p.checkLeft, p.checkKeys, p.checkRules} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) checkPeople() error {
	emails := map[string]bool{}
	for i, one := range p.Directory.People {
		key := facts.EmailKey(one.Person)
		if emails[key] || !p.newer["person:"+one.ID] && p.keepsEmail(key, one.ID) {
			return misplaced(ListPeople, i, ErrConflict, "person %s: another person has this email", one.ID)
		}
		emails[key] = true
	}
	for i, k := range p.Directory.Members {
		if !p.hasPerson(k.Person) || !p.hasOrganization(k.Organization) {
			return misplaced(ListMembers, i, ErrNotFound, "membership of %s in %s", k.Person, k.Organization)
		}
	}
	return nil
}

// keepsEmail reports whether somebody else has the email, and still has it once the plan is
// carried out.
func (p *Plan) keepsEmail(key, but string) bool {
	at := p.m.ByEmail.Get(key)
	if at == nil || at.ID == but || p.Removed.isPerson[at.ID] {
		return false
	}
	i, named := p.named.people[at.ID]
	return !named || p.newer["person:"+at.ID] || facts.EmailKey(p.Directory.People[i].Person) == key
}

// circleKey names a circle of an organization.
type circleKey struct{ organization, circle string }

// checkCircles sees that all circles will be trees: whoever climbs one would
// never come to its top.
func (p *Plan) checkCircles() error {
	if len(p.Directory.Circles) == 0 {
		return nil
	}
	in := map[string]string{} // organization of each circle that is there
	most := len(p.Directory.Circles)
	rooted := map[circleKey]bool{} // they reach a root; to climb from each is quadratic, and everybody who writes waits
	for _, o := range p.m.Orgs {
		for id := range o.Circles {
			in[id] = o.ID
		}
		most += len(o.Circles)
	}
	for i, c := range p.Directory.Circles {
		if !p.hasOrganization(c.Organization) {
			return misplaced(ListCircles, i, ErrNotFound, "circle %s: organization %s", c.ID, c.Organization)
		}
		if at := in[c.ID]; at != "" && at != c.Organization {
			return misplaced(ListCircles, i, ErrConflict, "circle %s belongs to %s", c.ID, at)
		}
		var path []string
		for parent := c.Parent; parent != "" && !rooted[circleKey{c.Organization, parent}]; {
			at := p.circle(c.Organization, parent)
			switch {
			case parent == c.ID, len(path) > most:
				return misplaced(ListCircles, i, ErrConflict, "circle %s would be its own ancestor", c.ID)
			case at.ID == "" || at.Organization != c.Organization:
				return misplaced(ListCircles, i, ErrNotFound, "circle %s: parent %s", c.ID, parent)
			}
			path, parent = append(path, parent), at.Parent
		}
		for _, id := range append(path, c.ID) {
			rooted[circleKey{c.Organization, id}] = true
		}
	}
	return nil
}

func (p *Plan) checkRoles() error {
	for i, r := range p.Directory.Roles {
		if at := p.m.Roles.Get(r.ID); at != nil && at.Organization != r.Organization {
			return misplaced(ListRoles, i, ErrConflict, "role %s belongs to %s", r.ID, at.Organization)
		}
		switch {
		case r.Circle == "" && !p.hasOrganization(r.Organization):
			return misplaced(ListRoles, i, ErrNotFound, "role %s: organization %s", r.ID, r.Organization)
		case r.Circle == "":
			return misplaced(ListRoles, i, ErrConflict, "roles[%d]: circle is missing, and %s has not one root circle", i, r.Organization)
		}
		if c := p.circle(r.Organization, r.Circle); c.ID == "" || c.Organization != r.Organization || !p.hasOrganization(r.Organization) {
			return misplaced(ListRoles, i, ErrNotFound, "role %s: circle %s in %s", r.ID, r.Circle, r.Organization)
		}
	}
	for _, f := range p.Directory.Fillers {
		if in := p.roleIn(f.Role); in == "" || !p.hasMember(f.Person, in) {
			return misplaced(ListRoles, p.roleIndex(f.Role), ErrNotFound, "filler %s of role %s", f.Person, f.Role)
		}
	}
	return nil
}

// checkLeft sees that nothing stays in what is removed.
func (p *Plan) checkLeft() error {
	left, seen := map[circleKey]string{}, map[string]bool{} // roles by their circles; organizations that are in it
	for _, c := range p.Removed.Circles {
		if !seen[c.Organization] {
			seen[c.Organization] = true
			p.rolesLeft(p.m.Orgs[c.Organization], left)
		}
		if id, ok := left[circleKey{c.Organization, c.ID}]; ok {
			return misplaced(ListCircles, -1, ErrConflict, "circle %s is not named, and role %s stays in it", c.ID, id)
		}
	}
	return nil
}

// rolesLeft adds the first role by ID that stays in each circle of an organization.
func (p *Plan) rolesLeft(o *facts.Organization, left map[circleKey]string) {
	for id, r := range o.Roles {
		if p.Removed.isRole[id] {
			continue
		}
		k := circleKey{o.ID, r.Circle}
		if i, ok := p.named.roles[id]; ok {
			k.circle = p.Directory.Roles[i].Circle
		}
		if first, ok := left[k]; !ok || id < first {
			left[k] = id
		}
	}
}

func (p *Plan) checkKeys() error {
	seen := map[string]bool{}
	for i, k := range p.APIKeys {
		switch {
		case !p.hasMember(k.Person, k.Organization):
			return misplaced(ListAPIKeys, i, ErrNotFound, "API key of %s in %s", k.Person, k.Organization)
		case k.Key == "":
			continue // planRemoval has looked for it
		case len(k.Key) < 16:
			return misplaced(ListAPIKeys, i, ErrConflict, "API key of %s: shorter than 16 characters", k.Person)
		case seen[k.Key]:
			return misplaced(ListAPIKeys, i, ErrConflict, "an API key of %s comes twice", k.Person)
		}
		seen[k.Key] = true
		if at, there := p.m.APIKeys[sha256.Sum256([]byte(k.Key))]; there && at.MemberKey != (facts.MemberKey{Person: k.Person, Organization: k.Organization}) {
			return misplaced(ListAPIKeys, i, ErrConflict, "API key of %s in %s: it is another member's", k.Person, k.Organization)
		}
	}
	return nil
}

// checkRules sees that the roles which rules name will be there. One that is gone, and
// that the rules named before, can stay named.
func (p *Plan) checkRules() error {
	for i, o := range p.Directory.Organizations {
		rules, said := p.Directory.Rules[o.ID]
		if !said {
			continue
		}
		if err := rules.Check(nil); err != nil {
			return misplaced(ListOrganizations, i, ErrConflict, "rules of %s: %v", o.ID, err)
		}
		at := p.rulesOf(o.ID)
		if err := rules.Check(func(role string) bool { return p.roleIn(role) == o.ID || at.Names(role) }); err != nil {
			return misplaced(ListOrganizations, i, ErrNotFound, "rules of %s: %v", o.ID, err)
		}
	}
	return nil
}
