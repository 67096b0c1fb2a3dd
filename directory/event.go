package directory

import (
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
)

// An Event is one change that a service's own directory reports: one object as
// it is now, or that it is gone, of which only its IDs are set.
type Event struct {
	ID      string // of the event
	Digest  string // of all that it says
	Version int64  // of the object; it grows with each change of it

	Person       *Person
	Organization *org.Organization
	Rules        *policy.Policy // of the organization; nil was not sent
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
func (e Event) Object() (name string, on []string) {
	switch {
	case e.Person != nil:
		return "person:" + e.Person.ID, nil
	case e.Organization != nil:
		return "organization:" + e.Organization.ID, nil
	case e.Member != nil:
		return "membership:" + e.Member.Organization + "/" + e.Member.Person,
			[]string{"person:" + e.Member.Person, "organization:" + e.Member.Organization}
	case e.Circle != nil:
		return "circle:" + e.Circle.ID, []string{"organization:" + e.Circle.Organization}
	case e.Role != nil:
		return "role:" + e.Role.ID, []string{"organization:" + e.Role.Organization, "circle:" + e.Role.Circle}
	case e.Filler != nil:
		return "filler:" + e.Filler.Role + "/" + e.Filler.Person, []string{"role:" + e.Filler.Role, "person:" + e.Filler.Person}
	}
	return "", nil
}

func (e Event) PersonID() string {
	switch {
	case e.Person != nil:
		return e.Person.ID
	case e.Member != nil:
		return e.Member.Person
	case e.Filler != nil:
		return e.Filler.Person
	}
	return ""
}

func (e Event) OrganizationID() string {
	switch {
	case e.Organization != nil:
		return e.Organization.ID
	case e.Member != nil:
		return e.Member.Organization
	case e.Circle != nil:
		return e.Circle.Organization
	case e.Role != nil:
		return e.Role.Organization
	}
	return ""
}

// PlanEvent plans what one event changes.
func PlanEvent(e Event, m *facts.Facts, s Source) (*Plan, error) {
	name, _ := e.Object()
	about := &Ending{e.PersonID(), e.OrganizationID(), name}
	if e.Gone {
		p, err := PlanImport(Import{}, m, s)
		if err != nil {
			return nil, err
		}
		p.About = about
		return p, p.removeObject(e)
	}
	var d Directory
	switch {
	case e.Person != nil:
		d.People = []Person{*e.Person}
		d.Unsaid.Active, d.Unsaid.Support = map[string]bool{e.Person.ID: e.Unsaid}, map[string]bool{e.Person.ID: true}
	case e.Organization != nil:
		d.Organizations = []org.Organization{*e.Organization}
		d.Unsaid.AIIntegration = map[string]bool{e.Organization.ID: e.Unsaid}
		if e.Rules != nil {
			d.Rules = map[string]policy.Policy{e.Organization.ID: *e.Rules}
		}
	case e.Member != nil:
		d.Members = []Member{*e.Member}
		d.Unsaid.Admin = map[MembershipID]bool{{e.Member.Person, e.Member.Organization}: e.Unsaid}
	case e.Circle != nil:
		d.Circles = []org.Circle{*e.Circle}
	case e.Role != nil:
		d.Roles = []org.Role{*e.Role}
	case e.Filler != nil:
		d.Fillers = []Filler{*e.Filler}
	}
	p, err := PlanImport(Import{Directory: d}, m, s)
	if err != nil {
		return nil, err
	}
	p.About = about
	return p, nil
}

// removeObject plans the removal of one object. One that is not there is gone
// already.
func (p *Plan) removeObject(e Event) error {
	switch {
	case e.Person != nil:
		if at := p.m.People.Get(e.Person.ID); at != nil && !at.Removed() {
			p.removePerson(at)
		}
	case e.Organization != nil:
		if at := p.m.Orgs[e.Organization.ID]; at != nil && !at.Empty() {
			p.removeOrganization(at)
		}
	case e.Member != nil:
		if at := p.m.Members.Get(facts.MemberKey{Person: e.Member.Person, Organization: e.Member.Organization}); at != nil && at.Present {
			p.removeMember(at)
		}
	case e.Circle != nil:
		return p.removeEmptyCircle(e.Circle.ID)
	case e.Role != nil:
		if at := p.m.Roles.Get(e.Role.ID); at != nil {
			p.removeRole(at)
		}
	case e.Filler != nil:
		if p.fills(*e.Filler) {
			p.Removed.Fillers = append(p.Removed.Fillers, *e.Filler)
			p.Out.add("removed", ListFillers, e.Filler.Role+"/"+e.Filler.Person)
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
func (e Event) In(m *facts.Facts) string {
	role := ""
	switch {
	case e.OrganizationID() != "":
		return e.OrganizationID()
	case e.Role != nil:
		role = e.Role.ID
	case e.Filler != nil:
		role = e.Filler.Role
	case e.Circle != nil:
		for id, o := range m.Orgs {
			if _, ok := o.Circles[e.Circle.ID]; ok {
				return id
			}
		}
	}
	if r := m.Roles.Get(role); r != nil {
		return r.Organization
	}
	return ""
}
