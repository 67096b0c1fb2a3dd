package consent

import (
	"maps"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/policy"
)

// withheldFault begins the fault of a choice that an organization withholds.
const withheldFault = "withheld_"

// offers are what the person can give away, under the ceilings of each organization.
func (s *Server) offers(v *page.Visit) ([]grantset.Offer, error) {
	ctx := v.R.Context()
	offers, err := s.Store.Offers(ctx, v.Person.ID)
	if err != nil {
		return nil, page.Wrap("offers", err)
	}
	policies, err := s.Store.Policies(ctx, v.Person.ID)
	if err != nil {
		return nil, page.Wrap("rules for apps", err)
	}
	for i := range offers {
		offers[i].Ceiling = policies[offers[i].Organization.ID].Limit()
	}
	return offers, nil
}

// withheld says what of the choices the organization does not offer, or "".
func (c choices) withheld(o grantset.Offer) grantset.Withheld {
	if why := o.Ceiling.WithholdsKind(grantset.Kind(c.grant)); why != "" || c.grant != string(grantset.Roles) {
		return why
	}
	for _, r := range o.Member.Roles() {
		if access := c.roles[r.ID]; access == "read" || access == "change" {
			if why := o.Ceiling.WithholdsPick(grantset.Pick{Role: r.ID, Change: access == "change"}); why != "" {
				return why
			}
		}
	}
	if c.personal {
		return o.Ceiling.WithholdsPersonal()
	}
	return ""
}

// explained puts the reason of a ceiling in place of a refusal that has one.
func (c choices) explained(faults []grantset.Fault, o grantset.Offer) []grantset.Fault {
	if why := c.withheld(o); why != "" && slices.Contains(faults, grantset.NotAllowed) {
		return []grantset.Fault{grantset.Fault(withheldFault + why)}
	}
	return faults
}

// sayWithheld is a reason for which something is not offered, in words.
func sayWithheld(w *page.Words, why grantset.Withheld, organization string) page.Said {
	switch why {
	case grantset.RolesOnly:
		return w.Say("ceiling.roles", "organization", organization)
	case grantset.NoAdmin:
		return w.Say("ceiling.admin", "organization", organization)
	case grantset.ReadsOnly:
		return w.Say("ceiling.readonly", "organization", organization)
	case grantset.KeepPersonal:
		return w.Say("ceiling.personal", "organization", organization)
	}
	return w.Say("ceiling.never")
}

// withheldAt is the fault of such a reason, beside what it is of.
func withheldAt(w *page.Words, f grantset.Fault, organization string) (shownFault, bool) {
	why, is := strings.CutPrefix(string(f), withheldFault)
	if !is {
		return shownFault{}, false
	}
	at := "roles"
	if why := grantset.Withheld(why); why == grantset.RolesOnly || why == grantset.NoAdmin {
		at = "grant"
	}
	return shownFault{at, sayWithheld(w, grantset.Withheld(why), organization)}, true
}

// limit shows what the organizations withhold. Where one offers what another does not,
// nothing is shut but by the script: which one is meant only the answer says.
func (view *chooser) limit(w *page.Words, open []grantset.Offer, current string) {
	view.Whys, view.Shut = map[string][]classed{}, map[string]bool{}
	use := 0
	withheld := map[string]int{}
	why := func(what, class string, said page.Said) {
		view.Whys[what] = append(view.Whys[what], classed{class, said})
	}
	for i, o := range open {
		at := &view.Organizations[i]
		if at.Asks || at.Blocked != nil {
			continue
		}
		use++
		c, name := o.Ceiling, o.Organization.Name
		for _, kind := range grantset.Kinds[1:] {
			if reason := c.WithholdsKind(kind); reason != "" {
				withheld[string(kind)]++
				at.Shut = append(at.Shut, string(kind))
				why(string(kind), at.Class, sayWithheld(w, reason, name))
				continue
			}
			if c != nil && c.ReadOnly {
				why(string(kind), at.Class, w.Say("ceiling.reads", "organization", name))
			}
			if kind == grantset.Everything && c.WithholdsPersonal() != "" && !view.NoPersonal {
				why(string(kind), at.Class, sayWithheld(w, grantset.KeepPersonal, name))
			}
		}
		if reason := c.WithholdsPersonal(); reason != "" {
			withheld["personal"]++
			at.Shut = append(at.Shut, "personal")
			why("personal", at.Class, sayWithheld(w, reason, name))
		}
		if at.ReadOnly = c != nil && c.ReadOnly; at.ReadOnly {
			at.Why = sayWithheld(w, grantset.ReadsOnly, name)
		}
	}
	for what, n := range withheld {
		view.Shut[what] = n == use && what != current
	}
	if view.Shut[view.Grant] {
		view.Grant = string(grantset.Roles)
	}
	view.Personal = view.Personal && !view.Shut["personal"]
}

// kept reports whether choices are those that an approval stands for, some of which
// its organization withholds now: it stays as it is, for when the rules allow it again.
func (e editing) kept(c choices) bool {
	now := e.current()
	none := func(_, access string) bool { return access == "none" }
	maps.DeleteFunc(c.roles, none)
	maps.DeleteFunc(now.roles, none)
	same := c.grant == now.grant && (c.grant != string(grantset.Roles) || maps.Equal(c.roles, now.roles) && c.personal == now.personal)
	return same && e.ceiling().Withholds(e.row.Grant) != ""
}

func (e editing) ceiling() *grantset.Ceiling {
	if len(e.offers) == 0 {
		return nil
	}
	return e.offers[0].Ceiling
}

// A lookup is the names behind a grant set, with the rules of the organization, where
// its ceilings are asked for.
type lookup struct {
	page.Names
	policy *policy.Policy
}

// limits are what an organization takes from a grant set now. The zero limits are none.
type limits struct {
	Organization string      // not ours
	On           page.Moment // when its rules were last saved
	Lines        []page.Said
}

func (l lookup) limits(s grantset.Set) limits {
	c := l.policy.Limit()
	if c == nil {
		return limits{}
	}
	return limits{l.Organization.Name, page.On(l.policy.ChangedAt, l.Now), l.less(s, c)}
}

// less says what of a grant set the organization takes from it now; nil for nothing.
func (l lookup) less(s grantset.Set, c *grantset.Ceiling) (lines []page.Said) {
	a, whole := s.Narrow(l.Member, c), s.Kind != grantset.Roles
	say := func(is bool, id string, values ...any) {
		if is {
			lines = append(lines, l.Words.Say(id, values...))
		}
	}
	if whole && c.WithholdsKind(grantset.Everything) != "" {
		say(true, "ceiling.less.open")
		return lines
	}
	changes := whole || s.Personal && !l.Impersonal || slices.ContainsFunc(s.Picks, func(p grantset.Pick) bool { return p.Change && l.Member.Fills(p.Role) })
	say(whole && a.KeepsAdmin(), "ceiling.less.admin")
	say(a.ReadOnly() && changes, "ceiling.less.change")
	say(a.KeepsPersonal() && (s.Kind == grantset.Everything || s.Personal) && !l.Impersonal, "ceiling.less.personal")
	kept := l.keptRoles(s, a)
	say(len(kept) > 0, "ceiling.less.never", "roles", kept)
	say(len(kept) == 0 && len(a.Never()) > 0, "ceiling.less.some")
	return lines
}

// keptRoles names those roles of a grant set that the person fills and no app acts
// through.
func (l lookup) keptRoles(s grantset.Set, a grantset.Authority) []string {
	return keptOf(l.Member, a, func(r org.Role) bool { return s.Kind != grantset.Roles || s.Access(r.ID) != "none" })
}

func keptOf(m org.Member, a grantset.Authority, given func(org.Role) bool) (names []string) {
	for _, r := range m.Roles() {
		if a.Keeps(r.ID) && given(r) {
			names = append(names, r.Name)
		}
	}
	return names
}

// lessOf adds to what a wide choice gives what the ceiling takes from it.
func (t teller) lessOf(a grantset.Authority) (lines []summaryLine) {
	if a.KeepsAdmin() {
		lines = append(lines, t.line("lock", "", t.w.Say("ceiling.less.admin")))
	}
	if kept := keptOf(t.offer.Member, a, func(org.Role) bool { return true }); len(kept) > 0 {
		lines = append(lines, t.line("lock", "", t.w.Say("ceiling.less.never", "roles", kept)))
	} else if len(a.Never()) > 0 {
		lines = append(lines, t.line("lock", "", t.w.Say("ceiling.less.some")))
	}
	return lines
}
