package api

import (
	"cmp"
	"context"
	"strings"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// Named is a person or an organization, where a name says enough.
type Named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Role is a role as the actor sees it. Access is "none", "read" or "change":
// what the actor may do through it, which is never more than "none" for a role
// that its person does not fill.
type Role struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Circle string `json:"circle"` // ID
	Access string `json:"access" jsonschema:"what may be done through this role: none, read or change"`
}

// RoleOfAll is a role among all of the organization's.
type RoleOfAll struct {
	Role
	CircleName string   `json:"circle_name"`
	Fillers    []string `json:"fillers" jsonschema:"IDs of the people who fill this role"`
}

// Circle is a circle of the organization.
type Circle struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Parent string `json:"parent,omitempty"` // ID; none at the root
}

// Grant is what the person chose to give (spec 2.4), as it stands now.
type Grant struct {
	Kind          string `json:"kind" jsonschema:"roles, everything or organization"`
	Words         string `json:"words" jsonschema:"the choice in words"`
	PersonalItems bool   `json:"personal_items" jsonschema:"whether the person's own tensions, actions, projects and notes are part of it"`
	Administers   bool   `json:"administers" jsonschema:"whether circles, roles, fillers and members may be changed"`
}

// Me says who the actor is and what it may do. Roles are those that the person
// fills, by ID.
type Me struct {
	Person       Named  `json:"person"`
	Organization Named  `json:"organization"`
	Client       string `json:"client_id,omitempty"` // none when an API key was sent
	Grant        Grant  `json:"grant"`
	Roles        []Role `json:"roles"`
}

// A Page is a part of a list. Next is what to send as after for the part
// behind it; empty at the end.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next" jsonschema:"send this as after to get what follows; empty at the end"`
}

// Me answers GET /api/v5/me.
func (s *Server) Me(ctx context.Context, a Actor) (Me, error) {
	return s.meWith(ctx, a, make([]Role, 0, len(a.Member().Roles())))
}

// meWith is Me that gathers the roles in an empty slice.
func (s *Server) meWith(ctx context.Context, a Actor, roles []Role) (Me, error) {
	if err := mayRead(a); err != nil {
		return Me{}, err
	}
	if a.Client == "" { // an API key: its check finds no names
		person, err := s.Store.Person(ctx, a.Person)
		if err != nil {
			return Me{}, err
		}
		organization, err := s.Store.Organization(ctx, a.Organization)
		if err != nil {
			return Me{}, err
		}
		a.personName, a.organizationName = person.Name, organization.Name
	}
	for r, access := range a.Filled {
		roles = append(roles, Role{r.ID, r.Name, r.Circle, access})
	}
	return Me{
		Person:       Named{a.Person, a.personName},
		Organization: Named{a.Organization, a.organizationName},
		Client:       a.Client,
		Grant: Grant{
			Kind: string(a.Grant.Kind), Words: words(a, roles),
			PersonalItems: a.MayRead(org.Item{Organization: a.Organization, Person: a.Person}),
			Administers:   a.MayAdminister(),
		},
		Roles: roles,
	}, nil
}

// mayRead refuses an authority that gives not even what every member sees.
func mayRead(a Actor) error {
	if a.MayReadOrganization() {
		return nil
	}
	return Forbidden("This approval gives nothing in the organization.")
}

func (a Actor) role(r org.Role) Role {
	return Role{r.ID, r.Name, r.Circle, a.Acts(r.ID)}
}

// words says the grant set as the person reads it on the consent page. roles
// are those that the person fills.
func words(a Actor, roles []Role) string {
	switch a.Grant.Kind {
	case grantset.Everything:
		return "Everything I can access"
	case grantset.Organization:
		if a.MayAdminister() {
			return "Everything in this organization"
		}
		return "Everything in this organization, as far as the person, who is not an admin now, may reach"
	}
	var room [128]byte
	b := append(room[:0], "Only selected roles: "...)
	n := 0
	for i := range roles {
		r := &roles[i]
		if r.Access == "none" {
			continue
		}
		if n++; n > 1 {
			b = append(b, ", "...)
		}
		b = append(append(b, r.Name...), " ("...)
		b = append(append(b, r.Access...), ')')
	}
	if n == 0 {
		b = append(b, "none now"...)
	}
	if a.Grant.Personal {
		b = append(b, "; and personal items"...)
	}
	return string(b)
}

// Person is a member of the organization.
type Person struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Admin bool   `json:"admin" jsonschema:"whether this member is an admin of the organization"`
}

// Organization answers GET /api/v5/organization.
func (s *Server) Organization(ctx context.Context, a Actor) (Named, error) {
	if err := mayRead(a); err != nil {
		return Named{}, err
	}
	o, err := s.Store.Organization(ctx, a.Organization)
	return Named{o.ID, o.Name}, err
}

// People answers GET /api/v5/people: everybody in the actor's organization
// whose account is active. So a page may have fewer items than the limit.
func (s *Server) People(ctx context.Context, a Actor, after string, limit int) (Page[Person], error) {
	if err := mayRead(a); err != nil {
		return Page[Person]{}, err
	}
	after, err := s.openCursor("people", a, after)
	if err != nil {
		return Page[Person]{}, err
	}
	people, next, err := s.Store.People(ctx, store.PeopleFilter{Organization: a.Organization, After: after, Limit: limit})
	if err != nil {
		return Page[Person]{}, err
	}
	items := make([]Person, 0, len(people))
	for _, p := range people {
		if m, err := s.Store.Member(ctx, p.ID, a.Organization); err == nil {
			items = append(items, Person{p.ID, p.Name, m.Admin})
		}
	}
	return Page[Person]{items, s.sealCursor("people", a, next)}, nil
}

// Person answers GET /api/v5/people/{id}. Who is not in the actor's
// organization is unknown, whether or not they exist.
func (s *Server) Person(ctx context.Context, a Actor, id string) (Person, error) {
	if err := cmp.Or(mayRead(a), checkID(id)); err != nil {
		return Person{}, err
	}
	m, err := s.Store.Member(ctx, id, a.Organization)
	if err != nil {
		return Person{}, err
	}
	return s.person(ctx, m)
}

func (s *Server) person(ctx context.Context, m org.Member) (Person, error) {
	p, err := s.Store.Person(ctx, m.Person)
	return Person{p.ID, p.Name, m.Admin}, err
}

// Circles answers GET /api/v5/circles, by ID.
func (s *Server) Circles(ctx context.Context, a Actor, after string, limit int) (Page[Circle], error) {
	all, err := s.allCircles(ctx, a)
	if err != nil {
		return Page[Circle]{}, err
	}
	return cut(s, "circles", a, all, func(c Circle) string { return c.ID }, after, limit)
}

// Circle answers GET /api/v5/circles/{id}.
func (s *Server) Circle(ctx context.Context, a Actor, id string) (Circle, error) {
	if err := cmp.Or(mayRead(a), checkID(id)); err != nil {
		return Circle{}, err
	}
	c, err := s.Store.Circle(ctx, a.Organization, id)
	return circle(c), err
}

func circle(c org.Circle) Circle { return Circle{c.ID, c.Name, c.Parent} }

func (s *Server) allCircles(ctx context.Context, a Actor) ([]Circle, error) {
	if err := mayRead(a); err != nil {
		return nil, err
	}
	circles, err := s.Store.Circles(ctx, a.Organization)
	if err != nil {
		return nil, err
	}
	all := make([]Circle, len(circles))
	for i, c := range circles {
		all[i] = circle(c)
	}
	return all, nil
}

// RoleFilter narrows Roles; empty fields match all.
type RoleFilter struct {
	Circle string
	Mine   *bool // filled by the person
}

// Roles answers GET /api/v5/roles, by ID: all roles of the organization, which
// every member may see, each with what the actor may do through it.
func (s *Server) Roles(ctx context.Context, a Actor, f RoleFilter, after string, limit int) (Page[RoleOfAll], error) {
	if err := mayRead(a); err != nil {
		return Page[RoleOfAll]{}, err
	}
	if f.Circle != "" {
		if _, err := s.Store.Circle(ctx, a.Organization, f.Circle); err != nil {
			return Page[RoleOfAll]{}, unknown("circle", err)
		}
	}
	circles, err := s.Store.Circles(ctx, a.Organization)
	if err != nil {
		return Page[RoleOfAll]{}, err
	}
	roles, err := s.Store.Roles(ctx, a.Organization)
	if err != nil {
		return Page[RoleOfAll]{}, err
	}
	names := make(map[string]string, len(circles))
	for _, c := range circles {
		names[c.ID] = c.Name
	}
	all := make([]RoleOfAll, 0, len(roles))
	for _, r := range roles {
		if (f.Circle == "" || r.Circle == f.Circle) && (f.Mine == nil || a.Member().Fills(r.ID) == *f.Mine) {
			all = append(all, a.roleOfAll(r, names[r.Circle]))
		}
	}
	return cut(s, f.list(), a, all, func(r RoleOfAll) string { return r.ID }, after, limit)
}

// list names the filtered list in cursors.
func (f RoleFilter) list() string { return strings.Join([]string{"roles", f.Circle, yes(f.Mine)}, "/") }

// Role answers GET /api/v5/roles/{id}.
func (s *Server) Role(ctx context.Context, a Actor, id string) (RoleOfAll, error) {
	if err := cmp.Or(mayRead(a), checkID(id)); err != nil {
		return RoleOfAll{}, err
	}
	r, err := s.Store.Role(ctx, a.Organization, id)
	if err != nil {
		return RoleOfAll{}, err
	}
	c, err := s.Store.Circle(ctx, a.Organization, r.Circle)
	return a.roleOfAll(r, c.Name), err
}

func (a Actor) roleOfAll(r store.RoleRow, circle string) RoleOfAll {
	x := RoleOfAll{a.role(r.Role), circle, r.Fillers}
	if r.Fillers == nil {
		x.Fillers = []string{} // never null
	}
	return x
}
