package sample

import (
	"cmp"
	"context"
	"strings"
)

// named is a person or an organization, where a name says enough.
type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// role is a role as the caller sees it. Access is "none", "read" or "change":
// what the call may do through it, which is never more than "none" for a role
// that its person does not fill.
type role struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Circle string `json:"circle"` // ID
	Access string `json:"access" jsonschema:"what may be done through this role: none, read or change"`
}

// roleOfAll is a role among all of the organization's.
type roleOfAll struct {
	role
	CircleName string   `json:"circle_name"`
	Fillers    []string `json:"fillers" jsonschema:"IDs of the people who fill this role"`
}

// circle is a circle of the organization.
type circle struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Parent string `json:"parent,omitempty"` // ID; none at the root
}

// person is a member of the organization.
type person struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Admin bool   `json:"admin" jsonschema:"whether this member is an admin of the organization"`
}

// grant is what the person chose to give, as it stands now.
type grant struct {
	Kind          string `json:"kind" jsonschema:"roles, everything or organization"`
	Words         string `json:"words" jsonschema:"the choice in words"`
	PersonalItems bool   `json:"personal_items" jsonschema:"whether the person's own tensions, actions, projects and notes are part of it"`
	Administers   bool   `json:"administers" jsonschema:"whether circles, roles, fillers and members may be changed"`
}

// me says who the caller is and what it may do, as GET /api/v5/me of Grantkeeper
// does. Roles are those that the person fills, by ID.
type me struct {
	Person       named  `json:"person"`
	Organization named  `json:"organization"`
	Client       string `json:"client_id,omitempty"` // none when an API key was sent
	Grant        grant  `json:"grant"`
	Roles        []role `json:"roles"`
}

// A page is a part of a list. Next is what to send as after for the part
// behind it; empty at the end.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next" jsonschema:"send this as after to get what follows; empty at the end"`
}

// asking gives what read gives for the rights of now.
func asking[T any](ctx context.Context, s *Server, c caller, read func(rights) (T, error)) (T, error) {
	var none T
	now, err := s.rights(ctx, c)
	if err != nil {
		return none, err
	}
	if err := now.mayRead(); err != nil {
		return none, err
	}
	return read(now)
}

func (s *Server) whoAmI(ctx context.Context, c caller) (me, error) {
	return asking(ctx, s, c, func(now rights) (me, error) {
		roles := []role{}
		for _, one := range now.filled() {
			roles = append(roles, role{one.ID, one.Name, one.Circle, now.acts(one.ID)})
		}
		return me{
			Person:       named{c.Person, now.dir.people[c.Person].Name},
			Organization: now.dir.Organization, Client: c.Client,
			Grant: grant{Kind: c.Grant, Words: now.words(roles), PersonalItems: c.Personal || c.PersonalReads, Administers: now.administers()},
			Roles: roles,
		}, nil
	})
}

// words says the grant set as the person reads it where they approve, and what of the
// organization's ceilings the headers tell.
func (r rights) words(filled []role) string {
	said := r.given(filled)
	if r.ReadOnly {
		said += "; the organization lets apps read only"
	}
	if len(r.Never) > 0 {
		said += "; it lets no app act through some roles"
	}
	return said
}

func (r rights) given(filled []role) string {
	switch {
	case r.Grant == "everything":
		return "Everything I can access"
	case r.Grant == "organization" && r.reachesAsAdmin(""):
		return "Everything in this organization"
	case r.Grant == "organization":
		return "Everything in this organization, as far as the person, who is not an admin now, may reach"
	}
	var given []string
	for _, one := range filled {
		if one.Access != "none" {
			given = append(given, one.Name+" ("+one.Access+")")
		}
	}
	said := "Only selected roles: " + cmp.Or(strings.Join(given, ", "), "none now")
	if r.Personal || r.PersonalReads {
		said += "; and personal items"
	}
	return said
}

func (s *Server) readOrganization(ctx context.Context, c caller) (named, error) {
	return asking(ctx, s, c, func(now rights) (named, error) { return now.dir.Organization, nil })
}

func (s *Server) listPeople(ctx context.Context, c caller, after string, limit int) (page[person], error) {
	return asking(ctx, s, c, func(now rights) (page[person], error) {
		return cut(s, "people", c, now.dir.People, func(p person) string { return p.ID }, after, limit)
	})
}

// readPerson gives a member. Who is not in the organization is unknown, whether
// or not they exist.
func (s *Server) readPerson(ctx context.Context, c caller, id string) (person, error) {
	return asking(ctx, s, c, func(now rights) (person, error) { return now.person(id) })
}

func (r rights) person(id string) (person, error) {
	if p, ok := r.dir.people[id]; ok {
		return p, nil
	}
	return person{}, errNoObject
}

func (s *Server) listCircles(ctx context.Context, c caller, after string, limit int) (page[circle], error) {
	return asking(ctx, s, c, func(now rights) (page[circle], error) {
		return cut(s, "circles", c, now.dir.Circles, func(c circle) string { return c.ID }, after, limit)
	})
}

func (s *Server) readCircle(ctx context.Context, c caller, id string) (circle, error) {
	return asking(ctx, s, c, func(now rights) (circle, error) { return now.circle(id) })
}

// roleFilter narrows listRoles; empty fields match all.
type roleFilter struct {
	Circle string
	Mine   *bool // filled by the person
}

// listRoles gives all roles of the organization, which every member may see, each
// with what the call may do through it.
func (s *Server) listRoles(ctx context.Context, c caller, f roleFilter, after string, limit int) (page[roleOfAll], error) {
	return asking(ctx, s, c, func(now rights) (page[roleOfAll], error) {
		if f.Circle != "" {
			if _, err := now.circle(f.Circle); err != nil {
				return page[roleOfAll]{}, unknown("circle", err)
			}
		}
		var all []roleOfAll
		for _, one := range now.dir.Roles {
			if (f.Circle == "" || one.Circle == f.Circle) && (f.Mine == nil || now.fills(one.ID) == *f.Mine) {
				all = append(all, now.roleOfAll(one))
			}
		}
		return cut(s, f.list(), c, all, func(r roleOfAll) string { return r.ID }, after, limit)
	})
}

// list names the filtered list in cursors.
func (f roleFilter) list() string { return strings.Join([]string{"roles", f.Circle, yes(f.Mine)}, "/") }

func (s *Server) readRole(ctx context.Context, c caller, id string) (roleOfAll, error) {
	return asking(ctx, s, c, func(now rights) (roleOfAll, error) { return now.oneRole(id) })
}

func (r rights) oneRole(id string) (roleOfAll, error) {
	one, err := r.role(id)
	if err != nil {
		return roleOfAll{}, err
	}
	return r.roleOfAll(one), nil
}

func (r rights) roleOfAll(one dirRole) roleOfAll {
	return roleOfAll{role{one.ID, one.Name, one.Circle, r.acts(one.ID)}, r.dir.circles[one.Circle].Name, append([]string{}, one.Fillers...)}
}
