package sample

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strings"
)

// What an admin can send; nil was not.
type (
	// organizationFields are the members of the organization.
	organizationFields struct {
		Name *string `json:"name,omitempty"`
	}
	// personFields are the members of a person that the organization decides.
	personFields struct {
		Admin *bool `json:"admin,omitempty" jsonschema:"whether the member shall be an admin"`
	}
	// circleFields are the members of a circle.
	circleFields struct {
		Name   *string `json:"name,omitempty"`
		Parent *string `json:"parent,omitempty" merge:"null" jsonschema:"ID of the circle that it lies in; empty at the root"`
	}
	// roleFields are the members of a role.
	roleFields struct {
		Name   *string `json:"name,omitempty"`
		Circle *string `json:"circle,omitempty" jsonschema:"ID of the circle that the role lives in"`
	}
)

// newID names a circle or role: 26 letters and digits, 130 random bits.
func newID() string { return strings.ToLower(rand.Text()) }

func checkName(name *string) error {
	if name == nil {
		return nil
	}
	return checkLine("name", *name, maxName)
}

// changeOrganization renames the organization.
func (s *Server) changeOrganization(ctx context.Context, c caller, f organizationFields, when conditions) (named, error) {
	return changing(ctx, s, c, func(now rights) (named, *event, error) {
		at := now.dir.Organization
		switch err := cmp.Or(now.mayAdminister(), checkName(f.Name)); {
		case err != nil:
			return at, nil, err
		case f.Name == nil:
			return at, nil, errNothingSent
		}
		err := when.check(etag(at))
		at.Name = *f.Name
		return at, &event{"organization", map[string]any{"id": at.ID, "name": at.Name}}, err
	})
}

// addCircle makes a circle.
func (s *Server) addCircle(ctx context.Context, c caller, f circleFields) (circle, error) {
	id := newID()
	return changing(ctx, s, c, func(now rights) (circle, *event, error) {
		switch err := cmp.Or(now.mayAdminister(), checkName(f.Name)); {
		case err != nil:
			return circle{}, nil, err
		case f.Name == nil:
			return circle{}, nil, badRequest("name is missing.")
		}
		return now.putCircle(circle{ID: id}, f)
	})
}

// changeCircle renames or moves a circle.
func (s *Server) changeCircle(ctx context.Context, c caller, id string, f circleFields, when conditions) (circle, error) {
	out, err := changing(ctx, s, c, func(now rights) (circle, *event, error) {
		switch err := cmp.Or(now.mayAdminister(), checkName(f.Name)); {
		case err != nil:
			return circle{}, nil, err
		case f == circleFields{}:
			return circle{}, nil, errNothingSent
		}
		at, err := now.circle(id)
		if err := cmp.Or(err, when.check(etag(at))); err != nil {
			return at, nil, err
		}
		return now.putCircle(at, f)
	})
	return out, conflictAs(err, "A circle cannot lie in itself or in a circle that lies in it.")
}

func (r rights) putCircle(next circle, f circleFields) (circle, *event, error) {
	set(&next.Name, f.Name)
	set(&next.Parent, f.Parent)
	if f.Parent != nil && *f.Parent != "" {
		if _, err := r.circle(*f.Parent); err != nil {
			return next, nil, unknownAs("parent", "circle", err)
		}
	}
	return next, &event{"circle", map[string]any{"id": next.ID, "organization": r.Organization, "parent": next.Parent, "name": next.Name}}, nil
}

// conflictAs says in our words what Grantkeeper has found in the way.
func conflictAs(err error, why string) error {
	if refused, ok := err.(*refusedEvent); ok && refused.Code == "conflict" {
		return conflict(why)
	}
	return err
}

// changingOnly is changing of what leaves nothing to show.
func changingOnly(ctx context.Context, s *Server, c caller, decide func(rights) (*event, error)) error {
	_, err := changing(ctx, s, c, func(now rights) (struct{}, *event, error) {
		e, err := decide(now)
		return struct{}{}, e, err
	})
	return err
}

// deleteCircle deletes an empty circle.
func (s *Server) deleteCircle(ctx context.Context, c caller, id string, when conditions) error {
	err := changingOnly(ctx, s, c, func(now rights) (*event, error) {
		at, err := now.circle(id)
		return &event{"circle_removed", map[string]any{"id": id, "organization": c.Organization}},
			cmp.Or(now.mayAdminister(), err, when.check(etag(at)))
	})
	return conflictAs(err, "There are still roles or circles in this circle. Move or delete them first.")
}

// addRole makes a role.
func (s *Server) addRole(ctx context.Context, c caller, f roleFields) (roleOfAll, error) {
	id := newID()
	return changing(ctx, s, c, func(now rights) (roleOfAll, *event, error) {
		switch err := cmp.Or(now.mayAdminister(), checkName(f.Name)); {
		case err != nil:
			return roleOfAll{}, nil, err
		case f.Name == nil || f.Circle == nil:
			return roleOfAll{}, nil, badRequest("name and circle are needed.")
		}
		return now.putRole(dirRole{ID: id}, f)
	})
}

// changeRole renames or moves a role. Its items go along, the private ones too.
func (s *Server) changeRole(ctx context.Context, c caller, id string, f roleFields, when conditions) (roleOfAll, error) {
	return changing(ctx, s, c, func(now rights) (roleOfAll, *event, error) {
		switch err := cmp.Or(now.mayAdminister(), checkName(f.Name)); {
		case err != nil:
			return roleOfAll{}, nil, err
		case f == roleFields{}:
			return roleOfAll{}, nil, errNothingSent
		}
		at, err := now.role(id)
		if err := cmp.Or(err, when.check(etag(now.roleOfAll(at)))); err != nil {
			return roleOfAll{}, nil, err
		}
		return now.putRole(at, f)
	})
}

func (r rights) putRole(next dirRole, f roleFields) (roleOfAll, *event, error) {
	set(&next.Name, f.Name)
	set(&next.Circle, f.Circle)
	if _, err := r.circle(next.Circle); err != nil {
		return roleOfAll{}, nil, unknown("circle", err)
	}
	return r.roleOfAll(next), &event{"role", map[string]any{"id": next.ID, "organization": r.Organization, "circle": next.Circle, "name": next.Name}}, nil
}

// deleteRole deletes a role with all its items.
func (s *Server) deleteRole(ctx context.Context, c caller, id string, when conditions) error {
	err := changingOnly(ctx, s, c, func(now rights) (*event, error) {
		at, err := now.role(id)
		return &event{"role_removed", map[string]any{"id": id, "organization": c.Organization}},
			cmp.Or(now.mayAdminister(), err, when.check(etag(now.roleOfAll(at))))
	})
	if err != nil {
		return err
	}
	return s.items.deleteOf(c.Organization, id)
}

// setFiller puts somebody into a role, or takes them out. To put somebody where
// they are changes nothing; to take away who is not there is 404.
func (s *Server) setFiller(ctx context.Context, c caller, role, person string, on bool, when conditions) error {
	return changingOnly(ctx, s, c, func(now rights) (*event, error) {
		if err := now.mayAdminister(); err != nil {
			return nil, err
		}
		_, noRole := now.role(role)
		_, nobody := now.person(person)
		fills, tag := now.dir.fills[person][role], ""
		if fills {
			tag = untagged
		}
		e := event{"filler", map[string]any{"role": role, "person": person}}
		switch {
		case noRole != nil, nobody != nil, !on && !fills:
			return nil, errNoObject
		case when.check(tag) != nil:
			return nil, errStale
		case on && fills:
			return nil, nil
		case !on:
			e.kind = "filler_removed"
		}
		return &e, nil
	})
}

// changePerson gives or takes the admin right.
func (s *Server) changePerson(ctx context.Context, c caller, id string, f personFields, when conditions) (person, error) {
	return changing(ctx, s, c, func(now rights) (person, *event, error) {
		switch err := now.mayAdminister(); {
		case err != nil:
			return person{}, nil, err
		case checkID(id) != nil:
			return person{}, nil, errNoObject
		case f.Admin == nil:
			return person{}, nil, errNothingSent
		}
		at, err := now.memberAsSeen(id, when, *f.Admin)
		at.Admin = *f.Admin
		return at, &event{"membership", map[string]any{"organization": c.Organization, "person": id, "admin": at.Admin}}, err
	})
}

// removePerson ends a membership, and with it every approval that the person has
// given here.
func (s *Server) removePerson(ctx context.Context, c caller, id string, when conditions) error {
	return changingOnly(ctx, s, c, func(now rights) (*event, error) {
		if err := now.mayAdminister(); err != nil {
			return nil, err
		}
		_, err := now.memberAsSeen(id, when, false)
		return &event{"membership_removed", map[string]any{"organization": c.Organization, "person": id}}, err
	})
}

// memberAsSeen gives a member who is to be changed, if the conditions hold. It
// keeps the organization its last admin, whom only an operator could replace.
func (r rights) memberAsSeen(id string, when conditions, staysAdmin bool) (person, error) {
	at, err := r.person(id)
	if err := cmp.Or(err, when.check(etag(at))); err != nil {
		return at, err
	}
	other := slices.ContainsFunc(r.dir.People, func(p person) bool { return p.Admin && p.ID != id })
	if at.Admin && !staysAdmin && !other {
		return at, conflict("This is the organization's last admin. Make somebody else an admin first.")
	}
	return at, nil
}
