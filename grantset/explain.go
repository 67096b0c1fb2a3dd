package grantset

import (
	"fmt"

	"github.com/grantkeeper/grantkeeper/org"
)

const notMember = "The person is not a member of this organization."

// ExplainRead says why an item may not be read, or "" when it may. role is the
// name of the item's role. The answer is for the person and for operators: to
// a client, what it may not read does not exist.
func (a Authority) ExplainRead(i org.Item, role string) string {
	switch {
	case a.MayRead(i):
		return ""
	case !a.member.Exists():
		return notMember
	case i.Organization != a.member.Organization:
		return "The item belongs to another organization."
	case !a.MayReadOrganization():
		return "This approval gives nothing."
	case i.Personal() && i.Person != a.member.Person:
		return "The item is another person's own."
	case i.Personal() && a.kind == Organization:
		return `Personal items are never part of "Everything in this organization".`
	case i.Personal():
		return "Personal items are not part of this approval."
	case !a.member.MayRead(i):
		return "The item is private to a circle in which the person fills no role."
	}
	return fmt.Sprintf("The item is private to the circle of %s, and no role of that circle is part of this approval.", role)
}

// ExplainChange says why an item may not be changed, or "" when it may. role
// is the name of the item's role.
func (a Authority) ExplainChange(i org.Item, role string) string {
	switch {
	case a.MayChange(i):
		return ""
	case !a.MayRead(i):
		return a.ExplainRead(i, role)
	case !a.member.MayChange(i):
		return fmt.Sprintf("The person does not fill %s.", role)
	case access(a.picks, i.Role) == "read":
		return fmt.Sprintf("%s is read-only in this approval.", role)
	case !a.member.Fills(i.Role):
		return fmt.Sprintf("The person does not fill %s, and this approval carries no admin rights.", role)
	}
	return fmt.Sprintf("%s is not part of this approval.", role)
}

// ExplainPut says why an item may not be made so, or moved to where it would be
// so, or "" when it may. It names the role (decision B3): that is whoever asks
// has sent, and that the item is to be private takes no further right.
func (a Authority) ExplainPut(i org.Item, role string) string {
	i.Private = false
	return a.ExplainChange(i, role)
}

// ExplainAdminister says why the organization itself may not be changed, or ""
// when it may.
func (a Authority) ExplainAdminister() string {
	switch {
	case a.MayAdminister():
		return ""
	case !a.member.Exists():
		return notMember
	case !a.member.MayAdminister():
		return "The person is not an admin of this organization."
	}
	return "This approval carries no admin rights."
}
