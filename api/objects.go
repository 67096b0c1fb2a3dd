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
	return s.meWith(ctx, a, nil)
}

// meWith is Me that gathers the roles in an empty slice, if there is one.
func (s *Server) meWith(ctx context.Context, a Actor, roles []Role) (Me, error) {
	return ask(ctx, s, a, func(_ context.Context, now Rights) (Me, error) {
		if roles == nil {
			roles = make([]Role, 0, len(now.Member().Roles()))
		}
		return now.me(roles[:0])
	})
}

func (r Rights) me(roles []Role) (Me, error) {
	if err := r.mayRead(); err != nil {
		return Me{}, err
	}
	for role, access := range r.Filled {
		roles = append(roles, Role{role.ID, role.Name, role.Circle, access})
	}
	return Me{
		Person:       Named{r.Person, r.personName},
		Organization: Named{r.Organization, r.organizationName},
		Client:       r.Client,
		Grant: Grant{
			Kind: string(r.Grant.Kind), Words: r.words(roles),
			PersonalItems: r.MayRead(org.Item{Organization: r.Organization, Person: r.Person}),
			Administers:   r.MayAdminister(),
		},
		Roles: roles,
	}, nil
}

// mayRead refuses an authority that gives not even what every member sees.
func (r Rights) mayRead() error {
	if r.MayReadOrganization() {
		return nil
	}
	return Forbidden("This approval gives nothing in the organization.")
}

// words says the grant set as the person reads it on the consent page. roles
// are those that the person fills.
func (r Rights) words(roles []Role) string {
	switch r.Grant.Kind {
	case grantset.Everything:
		return "Everything I can access"
	case grantset.Organization:
		if r.MayAdminister() {
			return "Everything in this organization"
		}
		return "Everything in this organization, as far as the person, who is not an admin now, may reach"
	}
	var room [128]byte
	b := append(room[:0], "Only selected roles: "...)
	n := 0
	for i := range roles {
		role := &roles[i]
		if role.Access == "none" {
			continue
		}
		if n++; n > 1 {
			b = append(b, ", "...)
		}
		b = append(append(b, role.Name...), " ("...)
		b = append(append(b, role.Access...), ')')
	}
	if n == 0 {
		b = append(b, "none now"...)
	}
	if r.Grant.Personal {
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
	return ask(ctx, s, a, func(ctx context.Context, now Rights) (Named, error) {
		if err := now.mayRead(); err != nil {
			return Named{}, err
		}
		o, err := now.organization(ctx)
		return Named{o.ID, o.Name}, err
	})
}

// People answers GET /api/v5/people: everybody in the actor's organization
// whose account is active. So a page may have fewer items than the limit.
func (s *Server) People(ctx context.Context, a Actor, after string, limit int) (Page[Person], error) {
	return ask(ctx, s, a, func(ctx context.Context, now Rights) (Page[Person], error) {
		if err := now.mayRead(); err != nil {
			return Page[Person]{}, err
		}
		after, err := s.openCursor("people", a, after)
		if err != nil {
			return Page[Person]{}, err
		}
		people, next, err := now.people(ctx, after, limit)
		if err != nil {
			return Page[Person]{}, err
		}
		items := make([]Person, 0, len(people))
		for _, p := range people {
			if m, err := now.member(ctx, p.ID); err == nil {
				items = append(items, Person{p.ID, p.Name, m.Admin})
			}
		}
		return Page[Person]{items, s.sealCursor("people", a, next)}, nil
	})
}

// Person answers GET /api/v5/people/{id}. Who is not in the actor's
// organization is unknown, whether or not they exist.
func (s *Server) Person(ctx context.Context, a Actor, id string) (Person, error) {
	return ask(ctx, s, a, func(ctx context.Context, now Rights) (Person, error) {
		if err := cmp.Or(now.mayRead(), checkID(id)); err != nil {
			return Person{}, err
		}
		m, err := now.member(ctx, id)
		if err != nil {
			return Person{}, err
		}
		return now.person(ctx, m)
	})
}

// Circles answers GET /api/v5/circles, by ID.
func (s *Server) Circles(ctx context.Context, a Actor, after string, limit int) (Page[Circle], error) {
	return ask(ctx, s, a, func(ctx context.Context, now Rights) (Page[Circle], error) {
		if err := now.mayRead(); err != nil {
			return Page[Circle]{}, err
		}
		circles, err := now.circles(ctx)
		if err != nil {
			return Page[Circle]{}, err
		}
		all := make([]Circle, len(circles))
		for i, c := range circles {
			all[i] = circle(c)
		}
		return cut(s, "circles", a, all, func(c Circle) string { return c.ID }, after, limit)
	})
}

// Circle answers GET /api/v5/circles/{id}.
func (s *Server) Circle(ctx context.Context, a Actor, id string) (Circle, error) {
	return ask(ctx, s, a, func(ctx context.Context, now Rights) (Circle, error) {
		if err := cmp.Or(now.mayRead(), checkID(id)); err != nil {
			return Circle{}, err
		}
		c, err := now.circle(ctx, id)
		return circle(c), err
	})
}

func circle(c org.Circle) Circle { return Circle{c.ID, c.Name, c.Parent} }

// RoleFilter narrows Roles; empty fields match all.
type RoleFilter struct {
	Circle string
	Mine   *bool // filled by the person
}

// Roles answers GET /api/v5/roles, by ID: all roles of the organization, which
// every member may see, each with what the actor may do through it.
func (s *Server) Roles(ctx context.Context, a Actor, f RoleFilter, after string, limit int) (Page[RoleOfAll], error) {
	return ask(ctx, s, a, func(ctx context.Context, now Rights) (Page[RoleOfAll], error) {
		all, err := now.allRoles(ctx, f)
		if err != nil {
			return Page[RoleOfAll]{}, err
		}
		return cut(s, f.list(), a, all, func(r RoleOfAll) string { return r.ID }, after, limit)
	})
}

func (r Rights) allRoles(ctx context.Context, f RoleFilter) ([]RoleOfAll, error) {
	if err := r.mayRead(); err != nil {
		return nil, err
	}
	if f.Circle != "" {
		if _, err := r.circle(ctx, f.Circle); err != nil {
			return nil, unknown("circle", err)
		}
	}
	circles, err := r.circles(ctx)
	if err != nil {
		return nil, err
	}
	roles, err := r.roles(ctx)
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(circles))
	for _, c := range circles {
		names[c.ID] = c.Name
	}
	all := make([]RoleOfAll, 0, len(roles))
	for _, row := range roles {
		if (f.Circle == "" || row.Circle == f.Circle) && (f.Mine == nil || r.Member().Fills(row.ID) == *f.Mine) {
			all = append(all, r.roleOfAll(row, names[row.Circle]))
		}
	}
	return all, nil
}

// list names the filtered list in cursors.
func (f RoleFilter) list() string { return strings.Join([]string{"roles", f.Circle, yes(f.Mine)}, "/") }

// Role answers GET /api/v5/roles/{id}.
func (s *Server) Role(ctx context.Context, a Actor, id string) (RoleOfAll, error) {
	return ask(ctx, s, a, func(ctx context.Context, now Rights) (RoleOfAll, error) { return now.oneRole(ctx, id) })
}

func (r Rights) oneRole(ctx context.Context, id string) (RoleOfAll, error) {
	if err := cmp.Or(r.mayRead(), checkID(id)); err != nil {
		return RoleOfAll{}, err
	}
	row, err := r.role(ctx, id)
	if err != nil {
		return RoleOfAll{}, err
	}
	c, err := r.circle(ctx, row.Circle)
	return r.roleOfAll(row, c.Name), err
}

func (r Rights) roleOfAll(row store.RoleRow, circle string) RoleOfAll {
	x := RoleOfAll{Role{row.ID, row.Name, row.Circle, r.Acts(row.ID)}, circle, row.Fillers}
	if row.Fillers == nil {
		x.Fillers = []string{} // never null
	}
	return x
}
