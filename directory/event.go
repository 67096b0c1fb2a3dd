package directory

import (
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
)

// A Telling is one event of a service's own directory: one object as it is
// now, or that it is gone. Of the fields one is set, or Gone with the object's
// IDs.
type Telling struct {
	ID      string // of the event
	Digest  string // of all that it says
	Version int64  // of the object; it grows with each change of it

	Person       *Person
	Organization *org.Organization
	Member       *Member
	Circle       *org.Circle
	Role         *org.Role
	Filler       *Filler
	Unsaid       bool // the flags of person, organization and member were not sent

	Gone bool

	// Like says whether a picture of the organization is the one that the sender
	// decided by; nil is no condition. With one, a Version of 0 is the next of
	// the object.
	Like func(Picture) bool
}

// Object names what the event is about, and what that stands on.
func (t Telling) Object() (name string, on []string) {
	switch {
	case t.Person != nil:
		return "person:" + t.Person.ID, nil
	case t.Organization != nil:
		return "organization:" + t.Organization.ID, nil
	case t.Member != nil:
		return "membership:" + t.Member.Organization + "/" + t.Member.Person,
			[]string{"person:" + t.Member.Person, "organization:" + t.Member.Organization}
	case t.Circle != nil:
		return "circle:" + t.Circle.ID, []string{"organization:" + t.Circle.Organization}
	case t.Role != nil:
		return "role:" + t.Role.ID, []string{"organization:" + t.Role.Organization, "circle:" + t.Role.Circle}
	case t.Filler != nil:
		return "filler:" + t.Filler.Role + "/" + t.Filler.Person, []string{"role:" + t.Filler.Role, "person:" + t.Filler.Person}
	}
	return "", nil
}

func (t Telling) PersonID() string {
	switch {
	case t.Person != nil:
		return t.Person.ID
	case t.Member != nil:
		return t.Member.Person
	case t.Filler != nil:
		return t.Filler.Person
	}
	return ""
}

func (t Telling) OrganizationID() string {
	switch {
	case t.Organization != nil:
		return t.Organization.ID
	case t.Member != nil:
		return t.Member.Organization
	case t.Circle != nil:
		return t.Circle.Organization
	case t.Role != nil:
		return t.Role.Organization
	}
	return ""
}

// PlanEvent plans what one event changes.
func PlanEvent(t Telling, m *facts.Facts, s Source) (*Plan, error) {
	name, _ := t.Object()
	told := &ending{t.PersonID(), t.OrganizationID(), name}
	if t.Gone {
		p, err := PlanImport(Import{}, m, s)
		if err != nil {
			return nil, err
		}
		p.Told = told
		return p, p.removeTold(t)
	}
	var d Directory
	switch {
	case t.Person != nil:
		d.People = []Person{*t.Person}
		d.Unsaid.Active, d.Unsaid.Support = map[string]bool{t.Person.ID: t.Unsaid}, map[string]bool{t.Person.ID: true}
	case t.Organization != nil:
		d.Organizations = []org.Organization{*t.Organization}
		d.Unsaid.AIIntegration = map[string]bool{t.Organization.ID: t.Unsaid}
	case t.Member != nil:
		d.Members = []Member{*t.Member}
		d.Unsaid.Admin = map[MembershipID]bool{{t.Member.Person, t.Member.Organization}: t.Unsaid}
	case t.Circle != nil:
		d.Circles = []org.Circle{*t.Circle}
	case t.Role != nil:
		d.Roles = []org.Role{*t.Role}
	case t.Filler != nil:
		d.Fillers = []Filler{*t.Filler}
	}
	p, err := PlanImport(Import{Directory: d}, m, s)
	if err != nil {
		return nil, err
	}
	p.Told = told
	return p, nil
}

// removeTold plans the removal of one object. One that is not there is gone
// already.
func (p *Plan) removeTold(t Telling) error {
	switch {
	case t.Person != nil:
		if at := p.m.People.Get(t.Person.ID); at != nil && !at.Removed() {
			p.removePerson(at)
		}
	case t.Organization != nil:
		if at := p.m.Orgs[t.Organization.ID]; at != nil && !at.Empty() {
			p.removeOrganization(at)
		}
	case t.Member != nil:
		if at := p.m.Members.Get(facts.MemberKey{Person: t.Member.Person, Organization: t.Member.Organization}); at != nil && at.Present {
			p.removeMember(at)
		}
	case t.Circle != nil:
		return p.removeEmptyCircle(t.Circle.ID)
	case t.Role != nil:
		if at := p.m.Roles.Get(t.Role.ID); at != nil {
			p.removeRole(at)
		}
	case t.Filler != nil:
		if p.fills(*t.Filler) {
			p.Removed.Fillers = append(p.Removed.Fillers, *t.Filler)
			p.Out.add("removed", ListFillers, t.Filler.Role+"/"+t.Filler.Person)
		}
	}
	return nil
}

func (p *Plan) removeEmptyCircle(id string) error {
	for _, o := range p.m.Orgs {
		at, ok := o.Circles[id]
		if !ok {
			continue
		}
		if in := o.Inside(id); in != "" {
			return misplaced(ListCircles, -1, ErrConflict, "%s is in it", in)
		}
		p.removeCircle(at)
	}
	return nil
}

// In names the organization whose facts an event is about; "" is none, or
// one that nobody knows.
func (t Telling) In(m *facts.Facts) string {
	role := ""
	switch {
	case t.OrganizationID() != "":
		return t.OrganizationID()
	case t.Role != nil:
		role = t.Role.ID
	case t.Filler != nil:
		role = t.Filler.Role
	case t.Circle != nil:
		for id, o := range m.Orgs {
			if _, ok := o.Circles[t.Circle.ID]; ok {
				return id
			}
		}
	}
	if r := m.Roles.Get(role); r != nil {
		return r.Organization
	}
	return ""
}
