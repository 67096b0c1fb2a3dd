package grantset

import (
	"fmt"
	"strings"
)

// NamesShown is how many names stand in a sentence; how many more there are is
// said behind them.
const NamesShown = 3

// InWords says in English what was approved, as operators read it. name gives
// the name of a role.
func (s Set) InWords(name func(role string) string) string {
	switch {
	case s.Kind == Everything:
		return "Everything they can access"
	case s.Kind == Organization:
		return "Everything in this organization"
	case len(s.Picks) == 0:
		return "Only personal items"
	case s.Personal:
		return "Selected roles: " + s.picksInWords(name) + "; personal items included"
	}
	return "Selected roles: " + s.picksInWords(name)
}

// InWords says in English what clients get at most, as operators read it: "" under a
// ceiling that limits nothing. name gives the name of a role.
func (c *Ceiling) InWords(name func(role string) string) string {
	if c.Zero() {
		return ""
	}
	var all []string
	if c.onlyRoles() {
		all = append(all, "selected roles at most")
	} else if c.noAdmin() {
		all = append(all, "no admin rights")
	}
	if c.ReadOnly {
		all = append(all, "to read only")
	}
	if c.NoPersonal {
		all = append(all, "no personal items")
	}
	for i, role := range c.Never {
		if i == NamesShown {
			all = append(all, fmt.Sprintf("nor through %d more", len(c.Never)-i))
			break
		}
		all = append(all, "never through "+name(role))
	}
	return strings.Join(all, ", ")
}

// picksInWords names the roles that may be changed first.
func (s Set) picksInWords(name func(role string) string) string {
	var some []string
	for _, change := range []bool{true, false} {
		for _, p := range s.Picks {
			if p.Change == change && len(some) < NamesShown {
				some = append(some, name(p.Role)+" ("+p.access()+")")
			}
		}
	}
	text := strings.Join(some, ", ")
	if more := len(s.Picks) - len(some); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
