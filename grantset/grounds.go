package grantset

import (
	"fmt"

	"github.com/grantkeeper/grantkeeper/org"
)

// ReadGrounds says by which rule an item may be read, or "" when it may not:
// the other half of ExplainRead.
func (a Authority) ReadGrounds(i org.Item) string {
	switch {
	case !a.MayRead(i):
		return ""
	case i.Personal():
		return a.ownGrounds()
	case !i.Private:
		return "Every member of the organization can read the item, and so can every approval of a member."
	case a.kind == Roles:
		return fmt.Sprintf("%s, a role of the item's circle, is part of this approval.", a.roleOf(i.Circle))
	case a.acting(i.Circle):
		return fmt.Sprintf("The person fills a role of the item's circle, and this approval gives %s.", a.gives())
	}
	return fmt.Sprintf("The person is an admin, and this approval gives %s.", a.gives())
}

// ChangeGrounds says by which rule an item may be changed, or "" when it may
// not: the other half of ExplainChange. role is the name of the item's role.
func (a Authority) ChangeGrounds(i org.Item, role string) string {
	switch {
	case !a.MayChange(i):
		return ""
	case i.Personal():
		return a.ownGrounds()
	case a.kind == Roles:
		return fmt.Sprintf("The person fills %s, and this approval gives change access to it.", role)
	case a.member.Fills(i.Role):
		return fmt.Sprintf("The person fills %s, and this approval gives %s.", role, a.gives())
	}
	return fmt.Sprintf("The person is an admin, and this approval gives %s.", a.gives())
}

// ownGrounds is for a personal item that may be read and changed.
func (a Authority) ownGrounds() string {
	if a.kind == Roles {
		return "The item is the person's own, and personal items are part of this approval."
	}
	return fmt.Sprintf("The item is the person's own, and this approval gives %s.", a.gives())
}

// gives is what the option without picks gives.
func (a Authority) gives() string {
	if a.kind == Organization {
		return "what an organization admin may do, as far as the person still may"
	}
	return "everything that the person can access"
}

// roleOf names the first picked role in a circle.
func (a Authority) roleOf(circle string) string {
	for _, p := range a.picks {
		if r, ok := a.member.Role(p.Role); ok && r.Circle == circle {
			return r.Name
		}
	}
	return ""
}

// acting reports whether a role that is filled in the circle counts, where nothing
// was picked.
func (a Authority) acting(circle string) bool {
	if len(a.Never()) > 0 {
		return has(a.circles, circle)
	}
	return a.member.InCircle(circle)
}
