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

// limits is what of a ceiling cannot be said as another choice of the same person.
type limits struct {
	readOnly bool
	demoted  bool     // the person is an admin, and counts as none
	never    []string // of an admin's authority; circles are then of the filled roles that are not among them
}

// under narrows the set to what a ceiling leaves of it, and that to the member. What
// comes to selected roles is made one of them: everything that somebody may who is no
// admin, less some roles, is the roles that are left.
func (s Set) under(m org.Member, c *Ceiling) Authority {
	l := limits{readOnly: c.ReadOnly, demoted: m.Admin && c.noAdmin()}
	m.Admin = m.Admin && !l.demoted
	whole := s.Kind == Everything || s.Kind == Organization
	personal := s.Kind == Everything && !c.NoPersonal
	switch {
	case whole && c.noAdmin() && c.Widest != Everything:
		s = Set{Kind: Roles} // nobody picked any
	case s.Kind == Roles:
		s.Picks, s.Personal = c.leaves(s.Picks), s.Personal && !c.NoPersonal
	case whole && !m.Admin && (l.demoted || personal != (s.Kind == Everything) || slices.ContainsFunc(m.Roles(), c.keeps)):
		s = Set{Kind: Roles, Picks: c.leaves(picksOf(m)), Personal: personal}
	case whole && m.Admin:
		l.never = c.Never
		if !personal {
			s.Kind = Organization
		}
	}
	a := s.narrow(m)
	a.limits = l
	if len(l.never) > 0 {
		a.circles = c.circlesOf(m)
	}
	return a
}

func (c *Ceiling) keeps(r org.Role) bool { return has(c.Never, r.ID) }

// leaves gives what is left of picks.
func (c *Ceiling) leaves(picks []Pick) []Pick {
	if !c.ReadOnly && !slices.ContainsFunc(picks, func(p Pick) bool { return has(c.Never, p.Role) }) {
		return picks
	}
	var left []Pick
	for _, p := range picks {
		if !has(c.Never, p.Role) {
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
		if at, found := slices.BinarySearch(circles, r.Circle); !found && !c.keeps(r) {
			circles = slices.Insert(circles, at, r.Circle)
		}
	}
	return circles
}

// hides reports whether an admin's authority cannot read an item because clients
// never act through its role, and no role that is left is in its circle.
func (a Authority) hides(i org.Item) bool {
	return i.Private && has(a.never, i.Role) && (i.Circle == "" || !has(a.circles, i.Circle))
}

// whole is Acts where nothing was picked, through a role that is filled.
func (a Authority) whole(role string) string {
	switch {
	case has(a.never, role):
		return "none"
	case a.readOnly:
		return "read"
	}
	return "change"
}
