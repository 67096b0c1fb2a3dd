// Package grantset holds what a person chose to give a client (spec 2.4), and
// decides what that lets the client do: never more than the person may do at
// that moment, narrowed to what the person chose.
package grantset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/org"
)

// Kind is the option that the person chose. Its text is the form's value.
type Kind string

const (
	// Roles: only selected roles, each with read or change access.
	Roles Kind = "roles"
	// Everything: whatever the person may do.
	Everything Kind = "everything"
	// Organization: what an organization admin may do, without anyone's personal
	// items (decision P15).
	Organization Kind = "organization"
)

// Kinds lists the options from the least to the most.
var Kinds = []Kind{Roles, Everything, Organization}

// Pick is one selected role.
type Pick struct {
	Role   string // ID
	Change bool   // else read only
}

// Set is a grant set: immutable once made by Parse or Decode. The zero Set
// allows nothing.
type Set struct {
	Kind     Kind
	Picks    []Pick // under Roles: sorted by role, each role once
	Personal bool   // under Roles: personal items too, to read and change (decision P4)
}

// WithoutPersonal is the set as admins of its organization are told it: whether somebody
// has added their personal items to roles is theirs alone.
func (s Set) WithoutPersonal() Set {
	s.Personal = false
	return s
}

// EncodePicks writes the picks as they are stored and shown to operators:
// role=read or role=change, in order of role ID, separated by spaces. Neither
// character can occur in an ID (org.CheckID).
func (s Set) EncodePicks() string {
	var b strings.Builder
	b.Grow(len(s.Picks) * 16)
	for i, p := range s.Picks {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(p.Role)
		b.WriteByte('=')
		b.WriteString(p.access())
	}
	return b.String()
}

// Decode reads a stored grant set. Anything that Parse could not have made, or
// that EncodePicks would write differently, is refused: a damaged row gives no access.
// The picks share the text's memory.
func Decode(kind, picks string, personal bool) (Set, error) {
	i := slices.Index(Kinds, Kind(kind))
	if i < 0 {
		return Set{}, fmt.Errorf("grant set: unknown kind %q", kind)
	}
	s := Set{Kind: Kinds[i], Personal: personal}
	switch {
	case s.Kind != Roles && (picks != "" || personal):
		return Set{}, fmt.Errorf("grant set: %s with picks or personal items", kind)
	case s.Kind == Roles && picks == "" && !personal:
		return Set{}, fmt.Errorf("grant set: %s with nothing picked", kind)
	case picks == "":
		return s, nil
	}
	s.Picks = make([]Pick, 0, 1+strings.Count(picks, " "))
	last := ""
	for more := true; more; {
		var one string
		one, picks, more = strings.Cut(picks, " ")
		role, what, _ := strings.Cut(one, "=")
		if err := org.CheckID(role); err != nil {
			return Set{}, fmt.Errorf("grant set: pick %q: %w", one, err)
		}
		if what != "read" && what != "change" {
			return Set{}, fmt.Errorf("grant set: pick %q: access is neither read nor change", one)
		}
		if role <= last {
			return Set{}, fmt.Errorf("grant set: pick %q: doubled or out of order", one)
		}
		s.Picks = append(s.Picks, Pick{role, what == "change"})
		last = role
	}
	return s, nil
}

func (s *Set) sort() {
	slices.SortFunc(s.Picks, func(a, b Pick) int { return strings.Compare(a.Role, b.Role) })
}

// Access gives what was picked for a role: "none", "read" or "change".
func (s Set) Access(role string) string { return access(s.Picks, role) }

func access(sorted []Pick, role string) string {
	i, ok := slices.BinarySearchFunc(sorted, role, func(p Pick, role string) int { return strings.Compare(p.Role, role) })
	if !ok {
		return "none"
	}
	return sorted[i].access()
}

func (p Pick) access() string {
	if p.Change {
		return "change"
	}
	return "read"
}

// Equal reports whether two grant sets are the same choice.
func (s Set) Equal(t Set) bool {
	return s.Kind == t.Kind && s.Personal == t.Personal && slices.Equal(s.Picks, t.Picks)
}

// Authority is what one request may do: the grant set narrowed to what the
// person may do now (decision P6). It is made for each request, so a lost
// role, admin right or membership is felt at once, and a role regained counts
// again (decision P5). The zero Authority may do nothing.
type Authority struct {
	member   org.Member
	kind     Kind
	personal bool
	picks    []Pick   // of roles filled now, sorted by role
	circles  []string // of those roles, sorted

	limits
}

// Narrow gives the authority that the grant set leaves of the member, under the
// ceiling of the organization; nil is none.
func (s Set) Narrow(m org.Member, c *Ceiling) Authority {
	if c != nil {
		return s.under(m, c)
	}
	return s.narrow(m)
}

func (s Set) narrow(m org.Member) Authority {
	a := Authority{member: m, kind: s.Kind, personal: s.Personal}
	if s.Kind != Roles {
		return a
	}
	a.picks = s.Picks                                    // the same memory, while all of them are filled
	a.circles = make([]string, 0, min(len(s.Picks), 32)) // many roles share few
	for i, p := range s.Picks {
		r, ok := m.Role(p.Role)
		switch {
		case !ok && len(a.picks) == len(s.Picks):
			a.picks = slices.Clone(s.Picks[:i])
			continue
		case !ok:
			continue
		case len(a.picks) < len(s.Picks):
			a.picks = append(a.picks, p)
		}
		if at, found := slices.BinarySearch(a.circles, r.Circle); !found {
			a.circles = slices.Insert(a.circles, at, r.Circle)
		}
	}
	return a
}

// Member is the person behind the authority.
func (a Authority) Member() org.Member {
	m := a.member
	m.Admin = m.Admin || a.demoted
	return m
}

// Kind is the option behind the authority. Under a ceiling it is Roles where the
// person's choice has become one of selected roles.
func (a Authority) Kind() Kind { return a.kind }

// MayRead reports whether the item may be read.
func (a Authority) MayRead(i org.Item) bool {
	if !a.member.MayRead(i) {
		return false
	}
	switch a.kind {
	case Everything:
		return !a.hides(i)
	case Organization:
		return !i.Personal() && !a.hides(i)
	case Roles:
		if i.Personal() {
			return a.personal
		}
		return !i.Private || has(a.circles, i.Circle)
	}
	return false
}

// MayChange reports whether the item may be changed, created or deleted.
func (a Authority) MayChange(i org.Item) bool {
	if a.ReadOnly() || !a.member.MayChange(i) {
		return false
	}
	switch a.kind {
	case Everything:
		return !has(a.Never(), i.Role)
	case Organization:
		return !i.Personal() && !has(a.Never(), i.Role)
	case Roles:
		if i.Personal() {
			return a.personal
		}
		return access(a.picks, i.Role) == "change"
	}
	return false
}

// MayAdminister reports whether the organization's circles, roles, fillers and
// members may be changed. Selected roles never give admin rights.
func (a Authority) MayAdminister() bool {
	return !a.ReadOnly() && (a.kind == Everything || a.kind == Organization) && a.member.MayAdminister()
}

// MayReadOrganization reports whether what every member sees may be read: the
// organization, its circles, roles and people.
func (a Authority) MayReadOrganization() bool {
	return a.member.Exists() && slices.Contains(Kinds, a.kind)
}

// Acts gives "none", "read" or "change": what the authority may do through a
// role that the person fills.
func (a Authority) Acts(role string) string {
	switch {
	case !a.member.Fills(role):
		return "none"
	case a.kind == Everything, a.kind == Organization:
		return a.acts(role)
	}
	return access(a.picks, role)
}

// Filled yields the roles that the person fills, by ID, and what Acts says of
// each. Both lists are in order, so that it takes one walk.
func (a Authority) Filled(yield func(r *org.Role, access string) bool) {
	left := a.picks
	roles := a.member.Roles()
	for i := range roles {
		access := "none"
		switch {
		case a.kind == Everything, a.kind == Organization:
			access = a.acts(roles[i].ID)
		default:
			for len(left) > 0 && left[0].Role < roles[i].ID {
				left = left[1:]
			}
			if len(left) > 0 && left[0].Role == roles[i].ID {
				access = left[0].access()
			}
		}
		if !yield(&roles[i], access) {
			return
		}
	}
}

func has(sorted []string, s string) bool {
	_, ok := slices.BinarySearch(sorted, s)
	return ok
}
