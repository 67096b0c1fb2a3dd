package directory

import (
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
)

// A Plan is what an import changes: what it names and is not stored exactly so,
// and what it removes.
type Plan struct {
	Import
	m     *facts.Facts
	named named               // what the directory names
	newer map[string]bool     // objects with an event later than AsOf
	keys  map[[32]byte]string // names of the API keys that are there; empty where none is named

	People        []Person
	Organizations []org.Organization
	Members       []Member
	Circles       []org.Circle
	Roles         []org.Role
	Fillers       []Filler
	Keys          []APIKey
	Rules         []Rules
	Removed       Removed

	Version int64
	Ends    []Ending
	About   *Ending // what one event is about; nil is an import
	Out     Imported
}

// Rules are what the rules of an organization are to be.
type Rules struct {
	Organization string
	Policy       policy.Policy
}

// named holds what a directory names, by ID: where it stands in its list.
type named struct {
	people, organizations, circles, roles map[string]int
	members                               map[facts.MemberKey]int
	fillers                               map[Filler]bool
}

// Removed is what an import takes away.
type Removed struct {
	People        []*facts.Person
	Organizations []*facts.Organization
	Members       []facts.MemberKey
	Circles       []org.Circle
	Roles         []*facts.Role
	Fillers       []Filler
	Keys          []KeyRow

	isPerson, isOrganization, isCircle, isRole map[string]bool
	IsMember                                   map[facts.MemberKey]bool
}

// An Ending is a fact that an import ends, for the journal.
type Ending struct{ Person, Organization, What string }

// KeyRow is an API key as it is stored, by its hash.
type KeyRow struct {
	Hash [32]byte
	Of   facts.MemberKey
	Name string
}

// complete fills in what the directory does not say. Whoever was removed comes
// back as somebody new does.
func (d Directory) complete(m *facts.Facts) Directory {
	d.People, d.Organizations, d.Members = slices.Clone(d.People), slices.Clone(d.Organizations), slices.Clone(d.Members)
	for i, p := range d.People {
		at := m.People.Get(p.ID)
		if at != nil && d.Unsaid.Active[p.ID] {
			d.People[i].Active = at.Active || at.Removed()
		}
		if at != nil && d.Unsaid.Support[p.ID] {
			d.People[i].Support = at.Support
		}
	}
	for i, o := range d.Organizations {
		if at := m.Orgs[o.ID]; at != nil && d.Unsaid.AIIntegration[o.ID] {
			d.Organizations[i].AIIntegration = at.AIIntegration
		}
	}
	for i, k := range d.Members {
		at := m.Members.Get(facts.MemberKey{Person: k.Person, Organization: k.Organization})
		if at != nil && at.Present && d.Unsaid.Admin[MembershipID{k.Person, k.Organization}] {
			d.Members[i].Admin = at.Admin
		}
	}
	return d
}

// placeRoles puts roles without a circle where they are stored, and else in the
// one circle at the root of their organization, which gets one where it has none.
func (p *Plan) placeRoles() {
	roles := slices.Clone(p.Directory.Roles)
	p.Directory.Roles = roles
	var circles map[string]map[string]org.Circle // by organization, once the plan is carried out
	root := map[string]string{}                  // by organization, "" where it has not one
	for i, r := range roles {
		if r.Circle != "" {
			continue
		}
		if circles == nil {
			circles = p.placesOf(roles)
		}
		in := circles[r.Organization]
		if at := p.m.Roles.Get(r.ID); at != nil && in[at.Circle].Organization == at.Organization {
			roles[i].Circle = at.Circle
			continue
		}
		if _, known := root[r.Organization]; !known {
			root[r.Organization] = onlyRoot(in)
		}
		roles[i].Circle = root[r.Organization]
	}
}

// placesOf gives the circles of the organizations of roles without a circle.
func (p *Plan) placesOf(roles []org.Role) map[string]map[string]org.Circle {
	circles, names := map[string]map[string]org.Circle{}, map[string]string{}
	for _, r := range roles {
		if r.Circle != "" || circles[r.Organization] != nil {
			continue
		}
		circles[r.Organization] = map[string]org.Circle{}
		if o := p.m.Orgs[r.Organization]; o != nil {
			names[o.ID] = o.Name
			for id, c := range o.Circles {
				if !p.Prune[ListCircles] || p.newer["circle:"+id] {
					circles[o.ID][id] = c
				}
			}
		}
	}
	for _, c := range p.Directory.Circles {
		if in := circles[c.Organization]; in != nil {
			in[c.ID] = c
		}
	}
	for _, o := range p.Directory.Organizations {
		names[o.ID] = o.Name
	}
	p.Directory.Circles = slices.Clone(p.Directory.Circles)
	for _, id := range slices.Sorted(maps.Keys(circles)) {
		if len(circles[id]) == 0 && names[id] != "" {
			root := org.Circle{ID: id, Organization: id, Name: names[id]}
			circles[id][id], p.Directory.Circles = root, append(p.Directory.Circles, root)
		}
	}
	return circles
}

// onlyRoot gives the circle that is part of no other, "" where that is not one.
func onlyRoot(circles map[string]org.Circle) (root string) {
	for id, c := range circles {
		switch {
		case c.Parent != "":
		case root != "":
			return ""
		default:
			root = id
		}
	}
	return root
}

func addedIf(is bool) string {
	if is {
		return "added"
	}
	return "changed"
}

func (p *Plan) compareRoles() {
	for _, one := range p.Directory.Circles {
		at, there := org.Circle{}, false
		if o := p.m.Orgs[one.Organization]; o != nil {
			at, there = o.Circles[one.ID]
		}
		if there && at == one || p.newer["circle:"+one.ID] {
			continue
		}
		p.Circles = append(p.Circles, one)
		p.Out.add(addedIf(!there), ListCircles, one.ID)
	}
	for _, one := range p.Directory.Roles {
		at := p.m.Roles.Get(one.ID)
		if at != nil && at.Role == one || p.newer["role:"+one.ID] {
			continue
		}
		p.Roles = append(p.Roles, one)
		p.Out.add(addedIf(at == nil), ListRoles, one.ID)
	}
	for _, one := range p.Directory.Fillers {
		id := one.Role + "/" + one.Person
		if p.fills(one) || p.newer["filler:"+id] || p.leftSince(one.Person, p.roleIn(one.Role)) {
			continue
		}
		p.Fillers = append(p.Fillers, one)
		p.Out.add("added", ListFillers, id)
	}
}

// goneSince reports whether an event has removed the person since the picture
// was taken that names them.
func (p *Plan) goneSince(id string) bool {
	at := p.m.People.Get(id)
	return p.newer["person:"+id] && (at == nil || at.Removed())
}

// leftSince is goneSince for a member.
func (p *Plan) leftSince(person, organization string) bool {
	at := p.m.Members.Get(facts.MemberKey{Person: person, Organization: organization})
	return p.goneSince(person) || p.newer["membership:"+organization+"/"+person] && (at == nil || !at.Present)
}

// fills reports whether the person fills the role now.
func (p *Plan) fills(f Filler) bool {
	r := p.m.Roles.Get(f.Role)
	if r == nil {
		return false
	}
	at := p.m.Members.Get(facts.MemberKey{Person: f.Person, Organization: r.Organization})
	return at != nil && at.Present && at.Fills(r)
}

func (p *Plan) compareKeys() {
	for _, one := range p.APIKeys {
		name, there := p.keys[sha256.Sum256([]byte(one.Key))]
		if one.Key == "" || there && name == one.Name {
			continue // without its text it was found by its name
		}
		p.Keys = append(p.Keys, one)
		p.Out.add(addedIf(!there), ListAPIKeys, one.Organization+"/"+one.Person)
	}
}

// rulesOf gives the rules of an organization as they are now.
func (p *Plan) rulesOf(organization string) *policy.Policy {
	if at := p.m.Orgs[organization]; at != nil {
		return at.Policy
	}
	return nil
}

func (p *Plan) compareRules() {
	for _, one := range p.Directory.Organizations {
		to, said := p.Directory.Rules[one.ID]
		at := p.rulesOf(one.ID)
		if !said || policy.Same(at, &to) || p.newer["organization:"+one.ID] {
			continue
		}
		p.Rules = append(p.Rules, Rules{one.ID, to})
		if policy.Same(&to, nil) {
			p.Out.add("removed", ListRules, one.ID)
		} else {
			p.Out.add(addedIf(policy.Same(at, nil)), ListRules, one.ID)
		}
	}
}

// Source is what a plan asks of the rows beside the facts.
type Source interface {
	// AsOf is the version of the last directory that was taken; 0 is none.
	AsOf() (int64, error)
	// Newer lists the objects with an event later than a version.
	Newer(than int64) ([]string, error)
	// Keys lists all API keys.
	Keys() ([]KeyRow, error)
	// Passwords gives the PHC strings of people who are there, by their IDs; "" is none.
	Passwords(people []string) (map[string]string, error)
}

// PlanImport plans what an import changes of the facts, or refuses it as Misplaced. It
// changes nothing.
func PlanImport(i Import, m *facts.Facts, s Source) (*Plan, error) {
	p := &Plan{Import: i, m: m, newer: map[string]bool{}, Out: Imported{Lists: map[string]Counts{}}}
	if err := p.readAsOf(s); err != nil {
		return nil, err
	}
	p.Directory = p.Directory.complete(p.m)
	p.placeRoles()
	if err := p.name(); err != nil {
		return nil, err
	}
	if err := p.planRemoval(s); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return p, p.compare(s)
}

// readAsOf refuses a picture that is older than the last one, and finds what
// events have reported since this one was taken.
func (p *Plan) readAsOf(s Source) error {
	if p.AsOf == 0 {
		return nil
	}
	last, err := s.AsOf()
	if err != nil {
		return err
	}
	if p.AsOf < last {
		return misplaced("", -1, ErrConflict, "this directory is of version %d, and one of version %d was taken already", p.AsOf, last)
	}
	if p.AsOf > last {
		p.Version, p.Out.AsOf = p.AsOf, p.AsOf
	}
	newer, err := s.Newer(p.AsOf)
	for _, object := range newer {
		p.newer[object] = true
	}
	return err
}

// compare keeps what is not there as it came.
func (p *Plan) compare(s Source) error {
	same := func(one Person) bool {
		at := p.m.People.Get(one.ID)
		return at != nil && at.Person == one.Person
	}
	var asked []string
	for _, one := range p.Directory.People {
		if one.PasswordHash != "" && same(one) {
			asked = append(asked, one.ID)
		}
	}
	hashes, err := s.Passwords(asked)
	if err != nil {
		return err
	}
	for _, one := range p.Directory.People {
		if same(one) && (one.PasswordHash == "" || one.PasswordHash == hashes[one.ID]) || p.newer["person:"+one.ID] {
			continue
		}
		at := p.m.People.Get(one.ID)
		p.People = append(p.People, one)
		p.Out.add(addedIf(at == nil || at.Removed()), ListPeople, one.ID)
		if at != nil && at.Active && !one.Active {
			p.Ends = append(p.Ends, Ending{one.ID, "", "person deactivated"})
		}
	}
	for _, one := range p.Directory.Organizations {
		at := p.m.Orgs[one.ID]
		if at != nil && at.Organization == one || p.newer["organization:"+one.ID] {
			continue
		}
		p.Organizations = append(p.Organizations, one)
		p.Out.add(addedIf(at == nil), ListOrganizations, one.ID)
		if at != nil && at.AIIntegration && !one.AIIntegration {
			p.Ends = append(p.Ends, Ending{"", one.ID, "AI integration off"})
		}
	}
	for _, one := range p.Directory.Members {
		at, id := p.m.Members.Get(facts.MemberKey{Person: one.Person, Organization: one.Organization}), one.Organization+"/"+one.Person
		if at != nil && at.Present && at.Admin == one.Admin || p.newer["membership:"+id] || p.goneSince(one.Person) {
			continue
		}
		p.Members = append(p.Members, one)
		p.Out.add(addedIf(at == nil || !at.Present), ListMembers, id)
	}
	p.compareRoles()
	p.compareKeys()
	p.compareRules()
	return nil
}

// EndedPeople are those whom the plan removes or deactivates.
func (p *Plan) EndedPeople() (ids []string) {
	for _, at := range p.Removed.People {
		ids = append(ids, at.ID)
	}
	for _, one := range p.People {
		if at := p.m.People.Get(one.ID); at != nil && at.Active && !one.Active {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

// SwitchedOff are the organizations whose AI integration the plan switches off.
func (p *Plan) SwitchedOff() (ids []string) {
	for _, at := range p.Removed.Organizations {
		ids = append(ids, at.ID)
	}
	for _, one := range p.Organizations {
		if at := p.m.Orgs[one.ID]; at != nil && at.AIIntegration && !one.AIIntegration {
			ids = append(ids, one.ID)
		}
	}
	return ids
}
