package consent

import (
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// allowed is what an authority lets a client do with the items that are there
// now. Each item that the person sees counts once; what the person does not
// see counts nowhere, because a count would tell of it.
type allowed struct {
	Change, Roles    int  // items that it may change, and of how many roles
	Private, Circles int  // private items that it may only read, and of how many circles
	Open             int  // items that every member sees and that it may only read
	Own              int  // the person's own items that it may read and change
	Apart            int  // the person's own items that it may not
	Other            int  // other items that the person sees and it does not
	Personal         bool // it may read and change the person's own items
	Administer       bool // it may change circles, roles and members
}

// allowedBy asks the functions that decide each request, so that what a person is
// shown before approving is what the client gets (decision P6).
func allowedBy(a grantset.Authority, items []store.ItemCount) allowed {
	m := a.Member()
	out := allowed{Administer: a.MayAdminister(),
		Personal: a.MayRead(org.Item{Organization: m.Organization, Person: m.Person})}
	roles, circles := map[string]bool{}, map[string]bool{}
	for _, i := range items {
		switch {
		case i.Personal() && a.MayChange(i.Item):
			out.Own += i.Count
		case i.Personal() && m.MayRead(i.Item):
			out.Apart += i.Count
		case a.MayChange(i.Item):
			out.Change += i.Count
			roles[i.Role] = true
		case !m.MayRead(i.Item):
		case !a.MayRead(i.Item):
			out.Other += i.Count
		case i.Private:
			out.Private += i.Count
			circles[i.Circle] = true
		default:
			out.Open += i.Count
		}
	}
	out.Roles, out.Circles = len(roles), len(circles)
	return out
}

// A previewLine is a number and how it is said. All forms stand in the page
// too, so that the script says them alike.
type previewLine struct {
	Forms string // for the script
	Text  string // empty when the line is not shown
}

type previewRow struct {
	Label string
	Lines [][]previewLine // what stands in one line
}

// Empty reports whether the row says nothing.
func (r previewRow) Empty() bool {
	for _, line := range r.Lines {
		if line[0].Text != "" {
			return false
		}
	}
	return true
}

// unsaid is the number of what a preview does not show.
const unsaid = -1

// numbers are those of the messages of a preview, in their order.
func (a allowed) numbers() []int {
	some := func(n, of int) int {
		if of == 0 {
			return unsaid
		}
		return n
	}
	all := []int{a.Change, some(a.Roles, a.Change), some(a.Private, a.Private), some(a.Circles, a.Private), some(a.Open, a.Open),
		unsaid, a.Apart, some(a.Other, a.Other), unsaid}
	if a.Personal {
		all[5], all[6] = a.Own, unsaid
	}
	if a.Administer {
		all[8] = 1
	}
	return all
}

// previewRows says numbers, in the person's words. Without any, it gives the
// rows for the script to fill.
func previewRows(w *words, numbers []int) []previewRow {
	next := 0
	line := func(ids ...string) (out []previewLine) {
		for _, id := range ids {
			l := previewLine{Forms: w.forms(id)}
			if next < len(numbers) && numbers[next] != unsaid {
				l.Text = w.say(id, "n", numbers[next]).String()
			}
			next++
			out = append(out, l)
		}
		return out
	}
	row := func(label string, lines ...[]previewLine) previewRow {
		return previewRow{w.say(label).String(), lines}
	}
	return []previewRow{
		row("preview.change.title", line("preview.change.items", "role.count")),
		row("preview.read.title", line("preview.read.private", "preview.read.circles"), line("preview.read.open")),
		row("preview.personal.title", line("preview.personal.own"), line("preview.personal.apart")),
		row("preview.not.title", line("preview.not.other")),
		row("preview.administer.title", line("preview.administer.what")),
	}
}

// encode writes numbers for the script. What is not shown has none.
func encode(numbers []int) string {
	var out []string
	for _, n := range numbers {
		text := ""
		if n != unsaid {
			text = strconv.Itoa(n)
		}
		out = append(out, text)
	}
	return strings.Join(out, ",")
}

// sums are what the script adds up while somebody chooses in an organization.
type sums struct {
	Everything   string // lines of that option
	Organization string // lines of that option; empty when it is not offered
	Roles        string // with no role picked: open items, others, and the person's own

	roles   map[string][2]int // role ID: open and private items that change access gives
	circles map[string]int    // circle ID: private items that any of its roles opens
}

// newSums takes every number from the authority of a grant set, so the script
// only adds.
func newSums(o grantset.Offer, items []store.ItemCount) sums {
	with := func(s grantset.Set) grantset.Authority { return s.Narrow(o.Member) }
	nothing := allowedBy(with(grantset.Set{Kind: grantset.Roles}), items)
	s := sums{
		Everything: encode(allowedBy(with(grantset.Set{Kind: grantset.Everything}), items).numbers()),
		Roles:      encode([]int{nothing.Open, nothing.Other, nothing.Apart}),
		roles:      map[string][2]int{}, circles: map[string]int{},
	}
	if o.Allows(grantset.Organization) {
		s.Organization = encode(allowedBy(with(grantset.Set{Kind: grantset.Organization}), items).numbers())
	}
	ofRole, ofCircle := map[string][]store.ItemCount{}, map[string][]store.ItemCount{}
	for _, i := range items {
		ofRole[i.Role] = append(ofRole[i.Role], i)
		ofCircle[i.Circle] = append(ofCircle[i.Circle], i)
	}
	for _, g := range o.Groups {
		read := with(grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: g.Roles[0].ID}}})
		s.circles[g.Circle.ID] = allowedBy(read, ofCircle[g.Circle.ID]).Private
		for _, r := range g.Roles {
			change := with(grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: r.ID, Change: true}}})
			var n [2]int
			for _, i := range ofRole[r.ID] {
				if change.MayChange(i.Item) && i.Private {
					n[1] += i.Count
				} else if change.MayChange(i.Item) {
					n[0] += i.Count
				}
			}
			s.roles[r.ID] = n
		}
	}
	return s
}

// itemsOf counts the items of the organizations.
func (s *Server) itemsOf(v *visit, offers []grantset.Offer) (map[string][]store.ItemCount, error) {
	out := map[string][]store.ItemCount{}
	for _, o := range offers {
		items, err := s.Store.ItemCounts(v.r.Context(), o.Organization.ID)
		if err != nil {
			return nil, wrap("items", err)
		}
		out[o.Organization.ID] = items
	}
	return out, nil
}

// A preview says what the choice of a form allows.
type preview struct {
	Rows  []previewRow
	Shown bool   // the rows say something
	Why   string // why there is nothing to say
	Asked bool   // by the button
	First bool   // an organization is to be chosen
}

// newPreview says what a form's choice allows. Nothing picked yet is a choice
// here: it shows what stays readable.
func newPreview(w *words, chosen choices, offers []grantset.Offer, items map[string][]store.ItemCount) preview {
	p := preview{Asked: chosen.preview}
	choice, faults := grantset.Parse(chosen.fields(), offers)
	switch {
	case len(faults) == 0:
	case faults[0] == grantset.NothingPicked:
		choice = grantset.Choice{Offer: offerOf(offers, chosen.organization), Set: grantset.Set{Kind: grantset.Roles}}
	case faults[0] == grantset.NoOrganization || faults[0] == grantset.NoGrant:
		p.Why = w.say("preview.choose").String()
	default:
		p.Why = w.say("fault.impossible").String()
	}
	if p.Why != "" {
		p.Rows = previewRows(w, nil)
		return p
	}
	at := choice.Offer
	p.Rows = previewRows(w, allowedBy(choice.Set.Narrow(at.Member), items[at.Organization.ID]).numbers())
	p.Shown = true
	return p
}

// fields are the choices as a form sends them.
func (c choices) fields() map[string][]string {
	f := map[string][]string{"organization": {c.organization}, "grant": {c.grant}}
	for role, access := range c.roles {
		f["role:"+role] = []string{access}
	}
	if c.personal {
		f["personal"] = []string{"1"}
	}
	return f
}

func offerOf(offers []grantset.Offer, organization string) grantset.Offer {
	for _, o := range offers {
		if o.Organization.ID == organization {
			return o
		}
	}
	return grantset.Offer{}
}
