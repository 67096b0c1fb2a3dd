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
func mayAdminister(a Actor) error {
	if why := a.ExplainAdminister(); why != "" {
		return Forbidden(why)
	}
	return nil
}

// administrator is current for those who administer, now.
func (s *Server) administrator(ctx context.Context, a Actor) (Actor, error) {
	a, err := s.current(ctx, a)
	return a, cmp.Or(err, mayAdminister(a))
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
	switch err := cmp.Or(mayAdminister(a), checkName(f.Name)); {
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
}

// AddCircle answers POST /api/v5/circles.
func (s *Server) AddCircle(ctx context.Context, a Actor, f CircleFields) (Circle, error) {
	switch err := cmp.Or(mayAdminister(a), checkName(f.Name)); {
	case err != nil:
		return Circle{}, err
	case f.Name == nil:
		return Circle{}, badRequest("name is missing.")
	}
	return s.putCircle(ctx, a, newID(), f, func(a Actor, at *org.Circle) error { return nil })
}

// ChangeCircle answers PATCH /api/v5/circles/{id}.
func (s *Server) ChangeCircle(ctx context.Context, a Actor, id string, f CircleFields, when Conditions) (Circle, error) {
	switch err := cmp.Or(mayAdminister(a), checkName(f.Name)); {
	case err != nil:
		return Circle{}, err
	case f == CircleFields{}:
		return Circle{}, errNothingSent
	}
	if _, err := s.Circle(ctx, a, id); err != nil { // before the writer, to whom an ID of another organization is a conflict
		return Circle{}, err
	}
	return s.putCircle(ctx, a, id, f, func(a Actor, at *org.Circle) error {
		if at == nil { // deleted a moment ago
			return errNoObject
		}
		return when.check(Tag(circle(*at)))
	})
}

func (s *Server) putCircle(ctx context.Context, a Actor, id string, f CircleFields, check func(Actor, *org.Circle) error) (Circle, error) {
	c, err := s.Store.ChangeCircle(ctx, a.Organization, id, func(at *org.Circle) (next org.Circle, err error) {
		if a, err = s.administrator(ctx, a); err != nil {
			return next, err
		}
		if err := check(a, at); err != nil {
			return next, err
		}
		if at != nil {
			next = *at
		}
		set(&next.Name, f.Name)
		set(&next.Parent, f.Parent)
		if f.Parent != nil && *f.Parent != "" {
			if _, err := s.Store.Circle(ctx, a.Organization, *f.Parent); err != nil {
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
	if err := cmp.Or(mayAdminister(a), checkID(id)); err != nil {
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
}

// AddRole answers POST /api/v5/roles.
func (s *Server) AddRole(ctx context.Context, a Actor, f RoleFields) (RoleOfAll, error) {
	switch err := cmp.Or(mayAdminister(a), checkName(f.Name)); {
	case err != nil:
		return RoleOfAll{}, err
	case f.Name == nil || f.Circle == nil:
		return RoleOfAll{}, badRequest("name and circle are needed.")
	}
	return s.putRole(ctx, a, newID(), f, func(Actor, *org.Role) error { return nil })
}

// ChangeRole answers PATCH /api/v5/roles/{id}. A role that moves takes its
// items along, the private ones too.
func (s *Server) ChangeRole(ctx context.Context, a Actor, id string, f RoleFields, when Conditions) (RoleOfAll, error) {
	switch err := cmp.Or(mayAdminister(a), checkName(f.Name)); {
	case err != nil:
		return RoleOfAll{}, err
	case f == RoleFields{}:
		return RoleOfAll{}, errNothingSent
	}
	if _, err := s.Role(ctx, a, id); err != nil { // before the writer, to whom an ID of another organization is a conflict
		return RoleOfAll{}, err
	}
	return s.putRole(ctx, a, id, f, func(a Actor, at *org.Role) error {
		if at == nil { // deleted a moment ago
			return errNoObject
		}
		return s.roleAsSeen(ctx, a, id, when)
	})
}

// roleAsSeen checks the conditions of a change of a role.
func (s *Server) roleAsSeen(ctx context.Context, a Actor, id string, when Conditions) error {
	r, err := s.Role(ctx, a, id)
	return cmp.Or(err, when.check(Tag(r)))
}

func (s *Server) putRole(ctx context.Context, a Actor, id string, f RoleFields, check func(Actor, *org.Role) error) (RoleOfAll, error) {
	_, err := s.Store.ChangeRole(ctx, a.Organization, id, func(at *org.Role) (next org.Role, err error) {
		if a, err = s.administrator(ctx, a); err != nil {
			return next, err
		}
		if err := check(a, at); err != nil {
			return next, err
		}
		if at != nil {
			next = *at
		}
		set(&next.Name, f.Name)
		set(&next.Circle, f.Circle)
		if _, err := s.Store.Circle(ctx, a.Organization, next.Circle); err != nil {
			return next, unknown("circle", err)
		}
		return next, nil
	}, a.act())
	if err != nil {
		return RoleOfAll{}, err
	}
	return s.Role(ctx, a, id)
}

// DeleteRole answers DELETE /api/v5/roles/{id}: with all its items.
func (s *Server) DeleteRole(ctx context.Context, a Actor, id string, when Conditions) error {
	if err := cmp.Or(mayAdminister(a), checkID(id)); err != nil {
		return err
	}
	return s.Store.DeleteRole(ctx, a.Organization, id, func(org.Role) error {
		a, err := s.administrator(ctx, a)
		return cmp.Or(err, s.roleAsSeen(ctx, a, id, when))
	}, a.act())
}

// SetFiller answers PUT and DELETE /api/v5/roles/{id}/fillers/{person}. To put
// somebody where they are changes nothing; to take away who is not there is
// 404.
func (s *Server) SetFiller(ctx context.Context, a Actor, role, person string, on bool, when Conditions) error {
	if err := cmp.Or(mayAdminister(a), checkID(role), checkID(person)); err != nil {
		return err
	}
	err := s.Store.ChangeFiller(ctx, role, person, on, func(at org.Role, fills bool) error {
		a, err := s.administrator(ctx, a)
		if err != nil {
			return err
		}
		tag := ""
		if fills {
			tag = untagged
		}
		_, member := s.Store.Member(ctx, person, a.Organization)
		switch {
		case at.Organization != a.Organization, member != nil, !on && !fills:
			return errNoObject
		case when.check(tag) != nil:
			return errStale
		case on && fills:
			return errUnchanged
		}
		return nil
	}, a.act())
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// ChangePerson answers PATCH /api/v5/people/{id}.
func (s *Server) ChangePerson(ctx context.Context, a Actor, id string, f PersonFields, when Conditions) (Person, error) {
	switch err := cmp.Or(mayAdminister(a), checkID(id)); {
	case err != nil:
		return Person{}, err
	case f.Admin == nil:
		return Person{}, errNothingSent
	}
	to := store.Membership{Admin: *f.Admin}
	if err := s.changeMember(ctx, a, id, to, when); err != nil {
		return Person{}, err
	}
	p, err := s.Store.Person(ctx, id)
	return Person{p.ID, p.Name, *f.Admin}, err
}

// RemovePerson answers DELETE /api/v5/people/{id}: the membership ends, and
// with it every approval that the person has given here.
func (s *Server) RemovePerson(ctx context.Context, a Actor, id string, when Conditions) error {
	if err := cmp.Or(mayAdminister(a), checkID(id)); err != nil {
		return err
	}
	return s.changeMember(ctx, a, id, store.Membership{Ended: true}, when)
}

// changeMember keeps the organization its last admin, whom only an operator
// could replace.
func (s *Server) changeMember(ctx context.Context, a Actor, id string, to store.Membership, when Conditions) error {
	return s.Store.ChangeMember(ctx, a.Organization, id, func(at org.Member) (store.Membership, error) {
		if _, err := s.administrator(ctx, a); err != nil {
			return to, err
		}
		p, err := s.person(ctx, at)
		if err := cmp.Or(err, when.check(Tag(p))); err != nil {
			return to, err
		}
		if at.Admin && !to.Admin {
			admins, err := s.Store.Admins(ctx, a.Organization, 2)
			if err != nil {
				return to, err
			}
			if !slices.ContainsFunc(admins, func(p org.Person) bool { return p.ID != id }) {
				return to, conflict("This is the organization's last admin. Make somebody else an admin first.")
			}
		}
		return to, nil
	}, a.act())
}
