package grantset

import (
	"slices"

	"github.com/grantkeeper/grantkeeper/org"
)

// Ceiling is what an organization lets any client have at most, whatever a person
// chose: the third of the three that an Authority is within (decision P16). The
// zero Ceiling limits nothing. It is shared by pointer and never changed.
type Ceiling struct {
	Widest     Kind     // the widest option that counts; "" and Organization are all
	ReadOnly   bool     // nothing is changed or administered
	NoPersonal bool     // nobody's personal items, to read or to change
	Never      []string // IDs of roles that clients never act through, sorted
}

// Zero reports whether the ceiling limits nothing.
func (c *Ceiling) Zero() bool {
	return c == nil || !c.noAdmin() && !c.ReadOnly && !c.NoPersonal && len(c.Never) == 0
}

// noAdmin reports whether nobody gives a client the rights of an admin.
func (c *Ceiling) noAdmin() bool { return c.Widest != "" && c.Widest != Organization }

// onlyRoles reports whether nothing counts but selected roles.
func (c *Ceiling) onlyRoles() bool { return c.noAdmin() && c.Widest != Everything }

// keeps reports whether clients never act through a role.
func (c *Ceiling) keeps(role string) bool { return c != nil && has(c.Never, role) }

// limits is what a ceiling does beyond making another choice of the person's.
type limits struct {
	ceiling *Ceiling // nil for none
	chosen  Kind     // before the ceiling
	demoted bool     // the person is an admin, and counts as none
	less    bool     // more than selected roles was chosen, and some of it is not left
}

// under narrows the set to what a ceiling leaves of it, and that to the member.
// What comes to selected roles is made one of them: everything that somebody may who
// is no admin is the roles that they fill.
func (s Set) under(m org.Member, c *Ceiling) Authority {
	l := limits{ceiling: c, chosen: s.Kind, demoted: m.Admin && c.noAdmin()}
	m.Admin = m.Admin && !l.demoted
	whole, personal := s.Kind == Everything || s.Kind == Organization, s.Kind == Everything && !c.NoPersonal
	keeps := slices.ContainsFunc(m.Roles(), func(r org.Role) bool { return c.keeps(r.ID) })
	switch {
	case s.Kind == Roles:
		s.Picks, s.Personal = c.leaves(s.Picks), s.Personal && !c.NoPersonal
	case whole && c.onlyRoles():
		s, l.less = Set{Kind: Roles}, true // nobody picked any
	case whole && m.Admin:
		if l.less = len(c.Never) > 0; !personal {
			s.Kind = Organization
		}
	case whole && (l.demoted || keeps || c.ReadOnly || c.NoPersonal && s.Kind == Everything):
		l.less = l.demoted || keeps
		s = Set{Kind: Roles, Picks: c.leaves(picksOf(m)), Personal: personal}
	}
	a := s.narrow(m)
	a.limits = l
	if a.member.Admin && a.kind != Roles {
		a.circles = c.circlesOf(m)
	}
	return a
}

// leaves gives what is left of picks.
func (c *Ceiling) leaves(picks []Pick) []Pick {
	if !c.ReadOnly && !slices.ContainsFunc(picks, func(p Pick) bool { return c.keeps(p.Role) }) {
		return picks
	}
	var left []Pick
	for _, p := range picks {
		if !c.keeps(p.Role) {
			left = append(left, Pick{p.Role, p.Change && !c.ReadOnly})
		}
	}
	return left
}

func picksOf(m org.Member) []Pick {
	picks := make([]Pick, len(m.Roles()))
	for i, r := range m.Roles() {
		picks[i] = Pick{r.ID, true}
	}
	return picks
}

// circlesOf gives the circles of the roles that are left to the member.
func (c *Ceiling) circlesOf(m org.Member) (circles []string) {
	for _, r := range m.Roles() {
		if at, found := slices.BinarySearch(circles, r.Circle); !found && r.Circle != "" && !c.keeps(r.ID) {
			circles = slices.Insert(circles, at, r.Circle)
		}
	}
	return circles
}

// ReadOnly reports whether nothing may be changed, whatever was chosen.
func (a Authority) ReadOnly() bool { return a.ceiling != nil && a.ceiling.ReadOnly }

// Whole reports whether more than selected roles was chosen, and a ceiling took no
// role of it: calls of which nobody says what they touch are within it, but for
// personal items, and under ReadOnly those that read.
func (a Authority) Whole() bool {
	if a.ceiling == nil {
		return a.kind == Everything || a.kind == Organization
	}
	return !a.less && (a.chosen == Everything || a.chosen == Organization)
}

// Keeps reports whether the organization lets no client act through a role.
func (a Authority) Keeps(role string) bool { return a.ceiling.keeps(role) }

// KeepsPersonal reports whether it lets no client have anybody's personal items.
func (a Authority) KeepsPersonal() bool { return a.ceiling != nil && a.ceiling.NoPersonal }

// KeepsAdmin reports whether the person is an admin, and it lets no client act as one.
func (a Authority) KeepsAdmin() bool { return a.demoted }

// Never gives the roles whose items an admin's authority leaves alone, by ID: those
// of any other are none that it acts through.
func (a Authority) Never() []string {
	if !a.member.Admin || a.ceiling == nil || a.kind == Roles {
		return nil
	}
	return a.ceiling.Never
}

// ActsAsAdmin reports whether the person is an admin, and a client may what admins may, as
// far as ReadOnly and Never go.
func (a Authority) ActsAsAdmin() bool { return a.kind != Roles && a.member.MayAdminister() }

// hides reports whether an admin's authority cannot read an item because clients
// never act through its role, and no role that is left is in its circle.
func (a Authority) hides(i org.Item) bool {
	return i.Private && has(a.Never(), i.Role) && !has(a.circles, i.Circle)
}

// acts is Acts where nothing was picked, through a role that is filled.
func (a Authority) acts(role string) string {
	switch {
	case a.ceiling.keeps(role):
		return "none"
	case a.ReadOnly():
		return "read"
	}
	return "change"
}

// Within reports whether an authority of a member gives nothing that another one of
// the same member does not, now or when the member's roles and rights change. Of two that
// leave an admin's rights it also says no where the other keeps a role whose circle is
// reached through others all the same.
func (a Authority) Within(b Authority) bool {
	own := org.Item{Organization: a.member.Organization, Person: a.member.Person}
	switch {
	case a.MayReadOrganization() && (!b.MayReadOrganization() || a.Whole() && !b.Whole()), a.MayAdminister() && !b.MayAdminister(), a.ActsAsAdmin() && !b.ActsAsAdmin(),
		a.MayRead(own) && !b.MayRead(own), a.MayChange(own) && !b.MayChange(own):
		return false
	}
	for r, access := range a.Filled {
		if has := b.Acts(r.ID); access != has && (access == "change" || has == "none") {
			return false
		}
	}
	return !a.ActsAsAdmin() || !slices.ContainsFunc(b.Never(), func(role string) bool { return !a.Keeps(role) })
}
