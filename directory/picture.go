package directory

import (
	"cmp"
	"slices"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
)

// A Picture is what a service has to know of an organization to decide by what it
// is sent with a call: all of one state of the facts, each list by ID.
type Picture struct {
	Organization org.Organization
	Members      []MemberRow
	Circles      []org.Circle
	Roles        []RoleRow
}

// MemberRow is a member whose account is active.
type MemberRow struct {
	ID, Name string
	Admin    bool
}

func PictureOf(o *facts.Organization) Picture {
	p := Picture{Organization: o.Organization, Circles: facts.InOrder(o.Circles)}
	for _, m := range o.Members {
		if m.Present && m.Person.Active {
			p.Members = append(p.Members, MemberRow{m.Person.ID, m.Person.Name, m.Admin})
		}
	}
	slices.SortFunc(p.Members, func(a, b MemberRow) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range facts.InOrder(o.Roles) {
		p.Roles = append(p.Roles, RowOf(r))
	}
	return p
}

// RowOf lists those who fill the role and are active members, by ID.
func RowOf(r *facts.Role) RoleRow {
	row := RoleRow{Role: r.Role}
	for _, f := range r.Fillers {
		if f.Present && f.Person.Active {
			row.Fillers = append(row.Fillers, f.Person.ID)
		}
	}
	slices.Sort(row.Fillers)
	return row
}

// RoleRow is a role with those who fill it, by ID.
type RoleRow struct {
	org.Role
	Fillers []string
}
