package sample

import (
	"context"
	"fmt"
	"slices"

	"github.com/grantkeeper/grantkeeper/identity"
)

// caller is who a call is for, and how far it may go, as its headers say.
type caller = identity.Identity

type callerKey struct{}

func withCaller(ctx context.Context, c caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// rights is what a caller may do by one directory.
type rights struct {
	caller
	dir *directory
}

// rights reads the directory as it is now.
func (s *Server) rights(ctx context.Context, c caller) (rights, error) {
	d, err := s.directory.read(ctx, c.Organization)
	return rights{c, d}, err
}

// A place is all of an item that its rights depend on.
type place struct {
	role    string // ID; empty on a personal item
	person  string // ID; of a personal item
	private bool
}

func (p place) personal() bool { return p.person != "" }

// fills reports whether the person fills a role.
func (r rights) fills(role string) bool { return r.dir.fills[r.Person][role] }

// acts is what may be done through a role: the headers say how far, the directory
// who fills it.
func (r rights) acts(role string) string {
	if !r.fills(role) {
		return "none"
	}
	return r.Acts(role)
}

// filled are the roles that the person fills, by ID.
func (r rights) filled() []dirRole {
	var all []dirRole
	for _, one := range r.dir.Roles {
		if r.fills(one.ID) {
			all = append(all, one)
		}
	}
	return all
}

func (r rights) member() bool { _, ok := r.dir.people[r.Person]; return ok }

// mayRead refuses a caller who does not even get what every member sees.
func (r rights) mayRead() error {
	if r.member() && slices.Contains([]string{"roles", "everything", "organization"}, r.Grant) {
		return nil
	}
	return forbidden("This approval gives nothing in the organization.")
}

// inCircle reports whether the call may see what is private to a circle: through
// any role of it that it may act through, and that the person fills.
func (r rights) inCircle(circle string) bool {
	return slices.ContainsFunc(r.dir.Roles, func(one dirRole) bool { return one.Circle == circle && r.acts(one.ID) != "none" })
}

// mayReadItem reports whether an item may be read.
func (r rights) mayReadItem(p place) bool {
	in, there := r.dir.roles[p.role]
	switch {
	case r.mayRead() != nil:
		return false
	case p.personal():
		return p.person == r.Person && (r.Personal || r.PersonalReads)
	case !there:
		return false
	}
	return !p.private || r.reachesAsAdmin(p.role) || r.inCircle(in.Circle)
}

// mayChangeItem reports whether an item may be made, changed or deleted.
func (r rights) mayChangeItem(p place) bool {
	_, there := r.dir.roles[p.role]
	switch {
	case r.mayRead() != nil:
		return false
	case p.personal():
		return p.person == r.Person && r.Personal
	}
	return there && (r.reachesAsAdmin(p.role) && !r.ReadOnly || r.acts(p.role) == "change")
}

// mayAdminister says why the organization may not be changed.
func (r rights) mayAdminister() error {
	switch {
	case r.administers():
		return nil
	case !r.member():
		return forbidden("The person is not a member of this organization.")
	case !r.dir.people[r.Person].Admin:
		return forbidden("The person is not an admin of this organization.")
	}
	return forbidden("This approval carries no admin rights.")
}

// mayPut says why there may not be such an item by the caller's hand, and names
// its role: it was sent, or is that of an item that may be read.
func (r rights) mayPut(p place) error {
	if r.mayChangeItem(p) {
		return nil
	}
	role := r.dir.roles[p.role].Name
	switch {
	case r.mayRead() != nil:
		return forbidden("This approval gives nothing.")
	case p.personal() && p.person != r.Person:
		return forbidden("The item is another person's own.")
	case p.personal() && r.Grant == "organization":
		return forbidden(`Personal items are never part of "Everything in this organization".`)
	case p.personal():
		return forbidden("Personal items are not part of this approval.")
	case !r.fills(p.role) && !r.dir.people[r.Person].Admin:
		return forbidden(fmt.Sprintf("The person does not fill %s.", role))
	case slices.Contains(r.Never, p.role):
		return forbidden(fmt.Sprintf("The organization lets no app act through %s.", role))
	case r.acts(p.role) == "read":
		return forbidden(fmt.Sprintf("%s is read-only in this approval.", role))
	case !r.fills(p.role):
		return forbidden(fmt.Sprintf("The person does not fill %s, and this approval carries no admin rights.", role))
	}
	return forbidden(fmt.Sprintf("%s is not part of this approval.", role))
}

// mayChangeSome reports whether there could be an item that may be made or
// changed.
func (r rights) mayChangeSome() bool {
	return r.administers() || r.Personal || slices.ContainsFunc(r.dir.Roles, func(one dirRole) bool { return r.acts(one.ID) == "change" })
}

// administers is what the headers say, as long as the directory says so too: that
// may be newer, and a change of it is bound to it.
func (r rights) administers() bool {
	return (r.Admin || r.AdminWithin && !r.ReadOnly) && r.dir.people[r.Person].Admin
}

// reachesAsAdmin reports whether an admin's rights reach the items of a role, to read
// at least.
func (r rights) reachesAsAdmin(role string) bool {
	return (r.Admin || r.AdminWithin && !slices.Contains(r.Never, role)) && r.dir.people[r.Person].Admin
}

// circle gives a circle of the organization.
func (r rights) circle(id string) (circle, error) {
	if c, ok := r.dir.circles[id]; ok {
		return c, nil
	}
	return circle{}, errNoObject
}

// role gives a role of the organization.
func (r rights) role(id string) (dirRole, error) {
	if one, ok := r.dir.roles[id]; ok {
		return one, nil
	}
	return dirRole{}, errNoObject
}
