package grantset

// Withheld is the ceiling for which an organization does not offer a choice, or "".
type Withheld string

// Why a choice is not offered. What is offered under ReadOnly and the others is
// narrowed at each request all the same: a ceiling may come after the choice.
const (
	RolesOnly    Withheld = "roles_only"    // apps get selected roles only
	NoAdmin      Withheld = "no_admin"      // no app gets what an admin may
	ReadsOnly    Withheld = "read_only"     // change cannot be chosen
	NeverGiven   Withheld = "never_given"   // this role is never given to apps
	KeepPersonal Withheld = "keep_personal" // personal items are kept from apps
)

// WithholdsKind says why an option is not offered.
func (c *Ceiling) WithholdsKind(k Kind) Withheld {
	switch {
	case c == nil || k == Roles:
		return ""
	case c.onlyRoles():
		return RolesOnly
	case k == Organization && c.noAdmin():
		return NoAdmin
	}
	return ""
}

// WithholdsPick says why a role, or change access to it, is not offered.
func (c *Ceiling) WithholdsPick(p Pick) Withheld {
	switch {
	case c.keeps(p.Role):
		return NeverGiven
	case c != nil && c.ReadOnly && p.Change:
		return ReadsOnly
	}
	return ""
}

// WithholdsPersonal says why personal items are not offered, beside selected roles.
func (c *Ceiling) WithholdsPersonal() Withheld {
	if c != nil && c.NoPersonal {
		return KeepPersonal
	}
	return ""
}

// Withholds says what of a choice is not offered: "" where all of it is.
func (c *Ceiling) Withholds(s Set) Withheld {
	if why := c.WithholdsKind(s.Kind); why != "" {
		return why
	}
	for _, p := range s.Picks {
		if why := c.WithholdsPick(p); why != "" {
			return why
		}
	}
	if s.Personal {
		return c.WithholdsPersonal()
	}
	return ""
}
