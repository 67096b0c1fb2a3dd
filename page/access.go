package page

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// Access is what an approval allows, in one line and in detail.
type Access struct {
	Kind         grantset.Kind
	Personal     bool
	Organization string
	Roles        []RolePick
	Impersonal   bool // there are no personal entries
	Narrowed     bool // given as a whole organization by somebody who is an admin no more
	words        *Words
}

// A RolePick is one role of it. Names are not ours.
type RolePick struct {
	Role, Circle string
	Access       string  // read, change, or empty when the person no longer fills it
	Left         *Moment // when the person left it, where that is known
	Gone         bool    // the role is deleted
}

// LastUse is nil where an app never used what it was given.
func LastUse(r store.ApprovalRow, now time.Time) *Moment {
	if r.LastUsed == 0 {
		return nil
	}
	return new(Used(r.LastUsed, now))
}

// Names knows the names behind a grant set: of an organization, and of what a member
// of it fills, the zero member nothing.
type Names struct {
	Organization org.Organization
	Member       org.Member
	Roles        map[string]org.Role // by ID
	Circles      map[string]string   // names by ID
	left         map[string]int64    // when the member left a role, in Unix seconds
	Now          time.Time
	Words        *Words
	Impersonal   bool // the service has no personal entries
}

// NamesOf gives those of an organization, for one of its members.
func (s *Site) NamesOf(v *Visit, o org.Organization, m org.Member) (Names, error) {
	n, err := s.NamesIn(v, o)
	if err != nil {
		return Names{}, err
	}
	n.Member = m
	if n.left, err = s.Store.LeftRoles(v.R.Context(), m.Person, o.ID); err != nil {
		return Names{}, Wrap("left roles", err)
	}
	return n, nil
}

// NamesIn gives those of an organization, for nobody yet.
func (s *Site) NamesIn(v *Visit, o org.Organization) (Names, error) {
	n := Names{Organization: o, Roles: map[string]org.Role{}, Circles: map[string]string{}, Now: v.Now, Words: v.Words, Impersonal: s.NoPersonal}
	roles, err := s.Store.Roles(v.R.Context(), o.ID)
	if err != nil {
		return Names{}, Wrap("roles", err)
	}
	for _, r := range roles {
		n.Roles[r.ID] = r.Role
	}
	circles, err := s.Store.Circles(v.R.Context(), o.ID)
	if err != nil {
		return Names{}, Wrap("circles", err)
	}
	for _, c := range circles {
		n.Circles[c.ID] = c.Name
	}
	return n, nil
}

// Gave is what a grant set was when it was chosen.
func (n Names) Gave(s grantset.Set) Access {
	a := Access{words: n.Words, Kind: s.Kind, Personal: s.Personal && !n.Impersonal, Impersonal: n.Impersonal, Organization: n.Organization.Name}
	for _, p := range s.Picks {
		one := RolePick{Role: cmp.Or(n.Roles[p.Role].Name, p.Role), Circle: n.Circles[n.Roles[p.Role].Circle], Access: "read"}
		if p.Change {
			one.Access = "change"
		}
		a.Roles = append(a.Roles, one)
	}
	a.sort()
	return a
}

// Gives is what a grant set allows now: roles that the person has left count
// for nothing but are named (decision P5).
func (n Names) Gives(s grantset.Set) Access {
	a := Access{words: n.Words, Kind: s.Kind, Personal: s.Personal && !n.Impersonal, Impersonal: n.Impersonal, Organization: n.Organization.Name,
		Narrowed: s.Kind == grantset.Organization && !n.Member.Admin}
	for _, p := range s.Picks {
		r, there := n.Roles[p.Role]
		one := RolePick{Role: cmp.Or(r.Name, p.Role), Circle: n.Circles[r.Circle]}
		switch {
		case !there:
			one.Gone = true
		case !n.Member.Fills(p.Role):
			if at := n.left[p.Role]; at > 0 {
				one.Left = new(On(at, n.Now))
			}
		case p.Change:
			one.Access = "change"
		default:
			one.Access = "read"
		}
		a.Roles = append(a.Roles, one)
	}
	a.sort()
	return a
}

func (a Access) sort() {
	slices.SortStableFunc(a.Roles, func(a, b RolePick) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Circle), strings.ToLower(b.Circle)),
			cmp.Compare(strings.ToLower(a.Role), strings.ToLower(b.Role)))
	})
}

// says names a role, with what it is picked for.
func (p RolePick) says(w *Words) Said {
	if p.Access == "change" {
		return w.Say("grant.role.change", "role", p.Role)
	}
	return w.Say("grant.role.read", "role", p.Role)
}

// Says is what an access gives, in words: to whom it belongs is not said. Roles that
// the person no longer fills give nothing and are not named.
func (a Access) Says() Said {
	w := a.words
	if a.Kind != grantset.Roles {
		return w.Say("grant." + string(a.Kind))
	}
	var all Said
	n := 0
	for _, kind := range []string{"change", "read"} {
		for _, r := range a.Roles {
			if r.Access != kind {
				continue
			}
			if n++; n > grantset.NamesShown {
				continue
			}
			if n > 1 {
				all = append(all, w.Say("list.between")...)
			}
			all = append(all, r.says(w)...)
		}
	}
	if n > grantset.NamesShown {
		all = append(append(all, Part{Kind: "text", Text: " "}), w.Say("grant.more", "n", n-grantset.NamesShown)...)
	}
	switch {
	case n == 0 && a.Personal:
		return w.Say("grant.personal")
	case n == 0:
		return w.Say("grant.roles")
	case a.Personal:
		return w.Say("grant.some.personal", "roles", all)
	}
	return w.Say("grant.some.roles", "roles", all)
}
