package consent

import (
	"slices"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/rules"
)

// survey is what the rules let a choice of roles do; nil where there are none, or
// it cannot be found out.
func (s *Server) survey(v *page.Visit, roles grantset.Choice) *rules.Survey {
	if s.Rules == nil || len(roles.Set.Picks) == 0 && !roles.Set.Personal {
		return nil
	}
	by := s.Rules()
	if by == nil || by.Empty() {
		return nil
	}
	organization := roles.Offer.Organization.ID
	find, err := s.findRoles(v, organization)
	if err != nil {
		return nil
	}
	all := by.Survey(roles.Set.Narrow(roles.Offer.Member, roles.Offer.Ceiling), find, func(at, tool string) rules.Known {
		_, reads := s.Tool(organization, at, tool)
		return reads
	})
	for _, list := range [][]rules.Named{all.Change, all.Read, all.Not} {
		for i, n := range list {
			if title, _ := s.Tool(organization, n.At, n.Tool); n.Tool != "" && identity.Title(title) {
				list[i].Name = title
			}
		}
	}
	return &all
}

// findRoles reads all roles at once: many rules ask for them.
func (s *Server) findRoles(v *page.Visit, organization string) (rules.Roles, error) {
	rows, err := s.Store.Roles(v.R.Context(), organization)
	byID, byName := map[string]org.Role{}, map[string][]org.Role{}
	for _, r := range rows {
		byID[r.ID], byName[r.Name] = r.Role, append(byName[r.Name], r.Role)
	}
	return rules.Roles{
		ByID:   func(id string) (org.Role, bool) { r, ok := byID[id]; return r, ok },
		ByName: func(name string) []org.Role { return byName[name] },
	}, err
}

// rulesNamed is how many of what rules name stand in a line.
const rulesNamed = 5

// ruled says what rules let the choice do, by the names of what they name.
func (t teller) ruled() (lines []summaryLine) {
	if !t.by.Passes {
		lines = append(lines, t.line("lock", "", t.w.Say("summary.denied")))
	}
	for _, one := range []struct {
		icon, lead string
		named      []rules.Named
	}{{"pen", "summary.does", t.by.Change}, {"eye", "summary.reads", t.by.Read}, {"lock", "summary.never", t.by.Not}} {
		var names []string
		for _, n := range one.named {
			if !slices.Contains(names, n.Name) {
				names = append(names, n.Name)
			}
		}
		if len(names) > 0 {
			lines = append(lines, t.line(one.icon, one.lead, few(t.w, names, rulesNamed)))
		}
	}
	return lines
}
