package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// What an admin can send; nil was not.
type (
	// OrganizationFields are the members of the organization.
	OrganizationFields struct {
		Name *string `json:"name,omitempty"`
	}
	// PersonFields are the members of a person that the organization decides.
	PersonFields struct {
		Admin *bool `json:"admin,omitempty" jsonschema:"whether the member shall be an admin"`
	}
	// CircleFields are the members of a circle.
	CircleFields struct {
		Name   *string `json:"name,omitempty"`
		Parent *string `json:"parent,omitempty" merge:"null" jsonschema:"ID of the circle that it lies in; empty at the root"`
	}
	// RoleFields are the members of a role.
	RoleFields struct {
		Name   *string `json:"name,omitempty"`
		Circle *string `json:"circle,omitempty" jsonschema:"ID of the circle that the role lives in"`
	}
)

// mayAdminister says why the organization may not be changed.
func (r Rights) mayAdminister() error {
	if why := r.ExplainAdminister(); why != "" {
		return Forbidden(why)
	}
	return nil
}

// administrator is current for those who administer, now.
func (s *Server) administrator(ctx context.Context, a Actor) (Rights, error) {
	now, err := s.current(ctx, a)
	if err != nil {
		return now, err
	}
	return now, now.mayAdminister()
}

// act is what the journal says of the actor's changes: the person answers for
// them, whatever carried them out.
func (a Actor) act() store.Act {
	x := store.Act{Actor: "person:" + a.Person, Address: a.address, Reference: a.reference, Reason: "through an API key"}
	if a.Client != "" {
		x.Reason = "through client " + a.Client
	}
	return x
}

// newID names a circle or role: 26 letters and digits, 130 random bits.
func newID() string { return strings.ToLower(rand.Text()) }

func checkName(name *string) error {
	if name == nil {
		return nil
	}
	if err := checkLine("name", *name, MaxName); err != nil {
		return err
	}
	if err := org.CheckName(*name); err != nil {
		return badRequest("name: " + err.Error() + ".")
	}
	return nil
}

// ChangeOrganization answers PATCH /api/v5/organization.
func (s *Server) ChangeOrganization(ctx context.Context, a Actor, f OrganizationFields, when Conditions) (Named, error) {
	return changing(ctx, s, a, func(now Rights) (Named, error) {
		switch err := cmp.Or(now.mayAdminister(), checkName(f.Name)); {
		case err != nil:
			return Named{}, err
		case f.Name == nil:
			return Named{}, errNothingSent
		}
		o, err := s.Store.ChangeOrganization(ctx, a.Organization, func(at org.Organization) (org.Organization, error) {
			if _, err := s.administrator(ctx, a); err != nil {
				return at, err
			}
			err := when.check(Tag(Named{at.ID, at.Name}))
			at.Name = *f.Name
			return at, err
		}, a.act())
		return Named{o.ID, o.Name}, err
	})
}

// AddCircle answers POST /api/v5/circles.
func (s *Server) AddCircle(ctx context.Context, a Actor, f CircleFields) (Circle, error) {
	return changing(ctx, s, a, func(now Rights) (Circle, error) {
		switch err := cmp.Or(now.mayAdminister(), checkName(f.Name)); {
		case err != nil:
			return Circle{}, err
		case f.Name == nil:
			return Circle{}, badRequest("name is missing.")
		}
		return s.putCircle(ctx, a, newID(), f, func(*org.Circle) error { return nil })
	})
}

// ChangeCircle answers PATCH /api/v5/circles/{id}.
func (s *Server) ChangeCircle(ctx context.Context, a Actor, id string, f CircleFields, when Conditions) (Circle, error) {
	return changing(ctx, s, a, func(now Rights) (Circle, error) {
		switch err := cmp.Or(now.mayAdminister(), checkName(f.Name)); {
		case err != nil:
			return Circle{}, err
		case f == CircleFields{}:
			return Circle{}, errNothingSent
		}
		if err := checkID(id); err != nil {
			return Circle{}, err
		}
		if _, err := now.circle(ctx, id); err != nil { // before the writer, to whom an ID of another organization is a conflict
			return Circle{}, err
		}
		return s.putCircle(ctx, a, id, f, func(at *org.Circle) error {
			if at == nil { // deleted a moment ago
				return errNoObject
			}
			return when.check(Tag(circle(*at)))
		})
	})
}

func (s *Server) putCircle(ctx context.Context, a Actor, id string, f CircleFields, check func(*org.Circle) error) (Circle, error) {
	c, err := s.Store.ChangeCircle(ctx, a.Organization, id, func(at *org.Circle) (next org.Circle, err error) {
		now, err := s.administrator(ctx, a)
		if err := cmp.Or(err, check(at)); err != nil {
			return next, err
		}
		if at != nil {
			next = *at
		}
		set(&next.Name, f.Name)
		set(&next.Parent, f.Parent)
		if f.Parent != nil && *f.Parent != "" {
			if _, err := now.circle(ctx, *f.Parent); err != nil {
				return next, unknownAs("parent", "circle", err)
			}
		}
		return next, nil
	}, a.act())
	if errors.Is(err, store.ErrConflict) {
		return Circle{}, conflict("A circle cannot lie in itself or in a circle that lies in it.")
	}
	return circle(c), err
}

// DeleteCircle answers DELETE /api/v5/circles/{id}.
func (s *Server) DeleteCircle(ctx context.Context, a Actor, id string, when Conditions) error {
	return changingOnly(ctx, s, a, func(now Rights) error {
		if err := cmp.Or(now.mayAdminister(), checkID(id)); err != nil {
			return err
		}
		err := s.Store.DeleteCircle(ctx, a.Organization, id, func(at org.Circle) error {
			_, err := s.administrator(ctx, a)
			return cmp.Or(err, when.check(Tag(circle(at))))
		}, a.act())
		if errors.Is(err, store.ErrConflict) {
			return conflict("There are still roles or circles in this circle. Move or delete them first.")
		}
		return err
	})
}

// AddRole answers POST /api/v5/roles.
func (s *Server) AddRole(ctx context.Context, a Actor, f RoleFields) (RoleOfAll, error) {
	return changing(ctx, s, a, func(now Rights) (RoleOfAll, error) {
		switch err := cmp.Or(now.mayAdminister(), checkName(f.Name)); {
		case err != nil:
			return RoleOfAll{}, err
		case f.Name == nil || f.Circle == nil:
			return RoleOfAll{}, badRequest("name and circle are needed.")
		}
		return s.putRole(ctx, a, newID(), f, func(Rights, *org.Role) error { return nil })
	})
}

// ChangeRole answers PATCH /api/v5/roles/{id}. A role that moves takes its
// items along, the private ones too.
func (s *Server) ChangeRole(ctx context.Context, a Actor, id string, f RoleFields, when Conditions) (RoleOfAll, error) {
	return changing(ctx, s, a, func(now Rights) (RoleOfAll, error) {
		switch err := cmp.Or(now.mayAdminister(), checkName(f.Name)); {
		case err != nil:
			return RoleOfAll{}, err
		case f == RoleFields{}:
			return RoleOfAll{}, errNothingSent
		}
		if _, err := now.oneRole(ctx, id); err != nil { // before the writer, to whom an ID of another organization is a conflict
			return RoleOfAll{}, err
		}
		return s.putRole(ctx, a, id, f, func(now Rights, at *org.Role) error {
			if at == nil { // deleted a moment ago
				return errNoObject
			}
			return now.roleAsSeen(ctx, id, when)
		})
	})
}

// roleAsSeen checks the conditions of a change of a role.
func (r Rights) roleAsSeen(ctx context.Context, id string, when Conditions) error {
	role, err := r.oneRole(ctx, id)
	return cmp.Or(err, when.check(Tag(role)))
}

// putRole gives the role as the writer found it to be: a credential that has
// ended since then reads nothing, but what it changed before it may know.
func (s *Server) putRole(ctx context.Context, a Actor, id string, f RoleFields, check func(Rights, *org.Role) error) (RoleOfAll, error) {
	out := RoleOfAll{Fillers: []string{}}
	_, err := s.Store.ChangeRole(ctx, a.Organization, id, func(at *org.Role) (next org.Role, err error) {
		now, err := s.administrator(ctx, a)
		if err != nil {
			return next, err
		}
		if err := check(now, at); err != nil {
			return next, err
		}
		var row store.RoleRow
		if at != nil {
			if row, err = now.role(ctx, id); err != nil {
				return next, err
			}
			next = *at
		}
		set(&next.Name, f.Name)
		set(&next.Circle, f.Circle)
		c, err := now.circle(ctx, next.Circle)
		if err != nil {
			return next, unknown("circle", err)
		}
		row.Role = next
		row.ID = id
		out = now.roleOfAll(row, c.Name)
		return next, nil
	}, a.act())
	if err != nil {
		return RoleOfAll{}, err
	}
	return out, nil
}

// DeleteRole answers DELETE /api/v5/roles/{id}: with all its items.
func (s *Server) DeleteRole(ctx context.Context, a Actor, id string, when Conditions) error {
	return changingOnly(ctx, s, a, func(now Rights) error {
		if err := cmp.Or(now.mayAdminister(), checkID(id)); err != nil {
			return err
		}
		return s.Store.DeleteRole(ctx, a.Organization, id, func(org.Role) error {
			now, err := s.administrator(ctx, a)
			if err != nil {
				return err
			}
			return now.roleAsSeen(ctx, id, when)
		}, a.act())
	})
}

// SetFiller answers PUT and DELETE /api/v5/roles/{id}/fillers/{person}. To put
// somebody where they are changes nothing; to take away who is not there is
// 404.
func (s *Server) SetFiller(ctx context.Context, a Actor, role, person string, on bool, when Conditions) error {
	return changingOnly(ctx, s, a, func(now Rights) error {
		if err := cmp.Or(now.mayAdminister(), checkID(role), checkID(person)); err != nil {
			return err
		}
		err := s.Store.ChangeFiller(ctx, role, person, on, func(at org.Role, fills bool) error {
			now, err := s.administrator(ctx, a)
			if err != nil {
				return err
			}
			return now.mayFill(ctx, at, person, on, fills, when)
		}, a.act())
		if errors.Is(err, errUnchanged) {
			return nil
		}
		return err
	})
}

func (r Rights) mayFill(ctx context.Context, at org.Role, person string, on, fills bool, when Conditions) error {
	tag := ""
	if fills {
		tag = untagged
	}
	_, member := r.member(ctx, person)
	switch {
	case at.Organization != r.Organization, member != nil, !on && !fills:
		return errNoObject
	case when.check(tag) != nil:
		return errStale
	case on && fills:
		return errUnchanged
	}
	return nil
}

// ChangePerson answers PATCH /api/v5/people/{id}.
func (s *Server) ChangePerson(ctx context.Context, a Actor, id string, f PersonFields, when Conditions) (Person, error) {
	return changing(ctx, s, a, func(now Rights) (Person, error) {
		switch err := cmp.Or(now.mayAdminister(), checkID(id)); {
		case err != nil:
			return Person{}, err
		case f.Admin == nil:
			return Person{}, errNothingSent
		}
		p, err := s.changeMember(ctx, a, id, store.Membership{Admin: *f.Admin}, when)
		p.Admin = *f.Admin
		return p, err
	})
}

// RemovePerson answers DELETE /api/v5/people/{id}: the membership ends, and
// with it every approval that the person has given here.
func (s *Server) RemovePerson(ctx context.Context, a Actor, id string, when Conditions) error {
	return changingOnly(ctx, s, a, func(now Rights) error {
		if err := cmp.Or(now.mayAdminister(), checkID(id)); err != nil {
			return err
		}
		_, err := s.changeMember(ctx, a, id, store.Membership{Ended: true}, when)
		return err
	})
}

// changeMember gives the member as they were. It keeps the organization its last
// admin, whom only an operator could replace.
func (s *Server) changeMember(ctx context.Context, a Actor, id string, to store.Membership, when Conditions) (was Person, err error) {
	err = s.Store.ChangeMember(ctx, a.Organization, id, func(at org.Member) (store.Membership, error) {
		now, err := s.administrator(ctx, a)
		if err != nil {
			return to, err
		}
		was, err = now.person(ctx, at)
		if err := cmp.Or(err, when.check(Tag(was))); err != nil {
			return to, err
		}
		if at.Admin && !to.Admin {
			return to, now.notTheLastAdmin(ctx, id)
		}
		return to, nil
	}, a.act())
	return was, err
}

func (r Rights) notTheLastAdmin(ctx context.Context, id string) error {
	admins, err := r.admins(ctx, 2)
	if err != nil || slices.ContainsFunc(admins, func(p org.Person) bool { return p.ID != id }) {
		return err
	}
	return conflict("This is the organization's last admin. Make somebody else an admin first.")
}
