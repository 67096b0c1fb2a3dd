package grantset

import (
	"fmt"
	"slices"

	"github.com/grantkeeper/grantkeeper/org"
)

// What an organization's ceilings withhold.
const (
	keepsPersonal = "The organization keeps personal items from apps."
	keepsAdmin    = "the organization lets no app act as an admin"
	readsOnly     = "The organization lets apps read only."
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
	case i.Personal() && a.KeepsPersonal():
		return keepsPersonal
	case i.Personal() && a.given() == Organization:
		return `Personal items are never part of "Everything in this organization".`
	case i.Personal():
		return "Personal items are not part of this approval."
	case !a.Member().MayRead(i):
		return "The item is private to a circle in which the person fills no role."
	case !a.member.MayRead(i) && a.given() != Roles:
		return "The item is private to a circle in which the person fills no role, and " + keepsAdmin + "."
	case a.hides(i) || a.keepsOf(i.Circle):
		return fmt.Sprintf("The item is private to the circle of %s, and no role of that circle that the organization lets apps act through is part of this approval.", role)
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
	case !a.Member().MayChange(i):
		return fmt.Sprintf("The person does not fill %s.", role)
	case a.ReadOnly() && i.Personal():
		return readsOnly
	case a.ReadOnly():
		return fmt.Sprintf("%s is read-only in this approval: the organization lets apps read only.", role)
	case a.Keeps(i.Role):
		return fmt.Sprintf("The organization lets no app act through %s.", role)
	case access(a.picks, i.Role) == "read":
		return fmt.Sprintf("%s is read-only in this approval.", role)
	case !a.member.Fills(i.Role) && a.KeepsAdmin() && a.given() != Roles:
		return fmt.Sprintf("The person does not fill %s, and %s.", role, keepsAdmin)
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
	case !a.Member().MayAdminister():
		return "The person is not an admin of this organization."
	case a.ReadOnly():
		return readsOnly
	case a.KeepsAdmin() && a.given() != Roles:
		return "This approval carries no admin rights: " + keepsAdmin + "."
	}
	return "This approval carries no admin rights."
}

// given is the option that the person chose, before a ceiling made another one of it.
func (a Authority) given() Kind {
	if a.ceiling == nil {
		return a.kind
	}
	return a.chosen
}

// keepsOf reports whether the person fills a role in a circle that no client acts
// through.
func (a Authority) keepsOf(circle string) bool {
	return slices.ContainsFunc(a.member.Roles(), func(r org.Role) bool { return r.Circle == circle && a.Keeps(r.ID) })
}
