// Package org holds the facts that authority follows: people, organizations,
// memberships, circles, roles, and the items that belong to them (spec 2.4).
// It knows what a person may do by themselves; what an approval leaves of
// that is package grantset.
package org

import (
	"fmt"
	"slices"
	"strings"
)

// MaxID is the greatest length of an ID, in characters.
const MaxID = 64

// CheckID says what is wrong with the ID of a person, organization, circle or
// role: it has 1 to 64 characters of A-Z a-z 0-9 . _ : and -, so that it can
// stand in a URL, a field name and a list without being escaped. Of these, "."
// and ".." are none: a path with them leads elsewhere (RFC 3986 section 5.2.4).
func CheckID(id string) error {
	if id == "" || len(id) > MaxID {
		return fmt.Errorf("an ID has 1 to %d characters, not %d", MaxID, len(id))
	}
	if id == "." || id == ".." {
		return fmt.Errorf("an ID is not %q, which means another place in a path", id)
	}
	for i := range len(id) {
		if !idChar[id[i]] {
			return fmt.Errorf("an ID consists of A-Z a-z 0-9 . _ : and -, not %q", id)
		}
	}
	return nil
}

// idChar says of each byte whether it may stand in an ID: a look-up, because
// IDs are checked a million times at start.
var idChar = func() (ok [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-" {
		ok[c] = true
	}
	return ok
}()

// Person is somebody who can sign in.
type Person struct {
	ID     string
	Email  string
	Name   string
	Active bool
	// Support staff may act as another person, never approve for them
	// (decision P9).
	Support bool
}

// Organization is one tenant of the service.
type Organization struct {
	ID   string
	Name string
	// AIIntegration says whether members can connect clients here. Off, it
	// ends every approval in the organization (decision P7).
	AIIntegration bool
}

// Circle is a node of an organization's tree; Parent is empty at the root.
type Circle struct {
	ID           string
	Organization string
	Parent       string
	Name         string
}

// Role lives in one circle and is filled by people.
type Role struct {
	ID           string
	Organization string
	Circle       string
	Name         string
}

// Member is one person in one organization at one moment: everything that a
// decision about authority starts from. The zero Member may do nothing.
type Member struct {
	Person       string // ID
	Organization string // ID
	Admin        bool
	Impersonal   bool // nobody has personal items: the service knows none

	roles   []Role   // that the person fills, by ID
	circles []string // in which the person fills a role, sorted
}

// NewMember gives the member of an organization who fills these roles. Roles
// of other organizations are left out: they can never count here. The slice
// is taken over: it is sorted in place and must not be used again.
func NewMember(person, organization string, admin bool, roles []Role) Member {
	roles = slices.DeleteFunc(roles, func(r Role) bool { return r.Organization != organization })
	slices.SortFunc(roles, func(a, b Role) int { return strings.Compare(a.ID, b.ID) })
	roles = slices.CompactFunc(roles, func(a, b Role) bool { return a.ID == b.ID })
	circles := make([]string, len(roles))
	for i, r := range roles {
		circles[i] = r.Circle
	}
	slices.Sort(circles)
	return Member{
		Person: person, Organization: organization, Admin: admin,
		roles: roles, circles: slices.Compact(circles),
	}
}

// Exists tells a membership from the zero Member.
func (m Member) Exists() bool { return m.Person != "" && m.Organization != "" }

// Roles are the roles that the person fills, sorted by ID. Read only.
func (m Member) Roles() []Role { return m.roles }

// Role gives the filled role with this ID.
func (m Member) Role(id string) (Role, bool) {
	i, ok := slices.BinarySearchFunc(m.roles, id, func(r Role, id string) int { return strings.Compare(r.ID, id) })
	if !ok {
		return Role{}, false
	}
	return m.roles[i], true
}

// Fills reports whether the person fills the role.
func (m Member) Fills(role string) bool { _, ok := m.Role(role); return ok }

// InCircle reports whether the person fills any role of the circle. Nobody is
// in the circle without an ID, that of an item or role that lost its own.
func (m Member) InCircle(circle string) bool {
	_, ok := slices.BinarySearch(m.circles, circle)
	return ok && circle != ""
}

// Item is a tension, action, project or note. It belongs to a role of a
// circle, or is personal: assigned to a person and seen only by that person.
type Item struct {
	ID           string
	Organization string
	Role         string // with Circle, which is the role's; empty on a personal item
	Circle       string
	Private      bool   // to those who fill a role in the circle, and admins
	Person       string // of a personal item; then Role and Circle are empty
}

// Personal reports whether the item is somebody's own.
func (i Item) Personal() bool { return i.Person != "" }

// MayRead reports whether the person may read the item: every member what is
// neither private nor personal, a private one who fills a role in its circle
// or is an admin, a personal one its person alone.
func (m Member) MayRead(i Item) bool {
	switch {
	case !m.Exists() || i.Organization != m.Organization:
		return false
	case i.Personal():
		return i.Person == m.Person && !m.Impersonal
	case !i.Private || m.Admin:
		return true
	default:
		return m.InCircle(i.Circle)
	}
}

// MayChange reports whether the person may change the item: who fills its
// role, an admin, and of a personal item its person alone.
func (m Member) MayChange(i Item) bool {
	switch {
	case !m.Exists() || i.Organization != m.Organization:
		return false
	case i.Personal():
		return i.Person == m.Person && !m.Impersonal
	case m.Admin:
		return true
	default:
		return i.Role != "" && m.Fills(i.Role)
	}
}

// MayAdminister reports whether the person may change the organization's
// circles, roles, role fillers and members.
func (m Member) MayAdminister() bool { return m.Exists() && m.Admin }
