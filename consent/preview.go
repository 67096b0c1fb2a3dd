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

// A previewLine is a number or two and how they are said. The forms stand in
// the page too, so that the script says them alike: of none, of one, of more
// in one role or circle, and of more.
type previewLine struct {
	Forms string // separated by |; {n} and {m} stand for the numbers
	Text  string // the form that is right; empty when the line does not count
}

type previewRow struct {
	Label string
	Lines []previewLine
}

// Empty reports whether the row says nothing.
func (r previewRow) Empty() bool {
	for _, l := range r.Lines {
		if l.Text != "" {
			return false
		}
	}
	return true
}

// numbers are those of the lines of a preview, in their order. A line without
// numbers is not shown.
func (a allowed) numbers() [][]int {
	lines := [][]int{{a.Change, a.Roles}, {a.Private, a.Circles}, {a.Open}, nil, {a.Apart}, {a.Other}, nil}
	if a.Personal {
		lines[3], lines[4] = []int{a.Own}, nil
	}
	if a.Administer {
		lines[6] = []int{1}
	}
	return lines
}

// previewRows says numbers, in the person's words. Without any, it gives the
// rows for the script to fill.
func previewRows(numbers [][]int) []previewRow {
	rows := []previewRow{
		{"Change", []previewLine{
			{Forms: "Nothing|1 item of 1 role|{n} items of 1 role|{n} items of {m} roles"}}},
		{"Read only", []previewLine{
			{Forms: "|1 private item of 1 circle|{n} private items of 1 circle|{n} private items of {m} circles"},
			{Forms: "|1 item that every member can see|{n} items that every member can see"}}},
		{"Personal items", []previewLine{
			{Forms: "Read and change; there are none now|Read and change 1 item|Read and change {n} items"},
			{Forms: "Not included|Not included: 1 item|Not included: {n} items"}}},
		{"Not at all", []previewLine{
			{Forms: "|1 other item that you can see|{n} other items that you can see"}}},
		{"Administer", []previewLine{
			{Forms: "|Circles, roles and members"}}},
	}
	next := 0
	for _, r := range rows {
		for i := range r.Lines {
			if next < len(numbers) {
				r.Lines[i].Text = say(r.Lines[i].Forms, numbers[next])
			}
			next++
		}
	}
	return rows
}

// say gives the form that goes with the numbers.
func say(forms string, numbers []int) string {
	if len(numbers) == 0 {
		return ""
	}
	f, n, m := strings.Split(forms, "|"), numbers[0], 0
	if len(numbers) > 1 {
		m = numbers[1]
	}
	form := f[len(f)-1]
	switch {
	case n < 2:
		form = f[n]
	case m == 1:
		form = f[2]
	}
	return strings.NewReplacer("{n}", strconv.Itoa(n), "{m}", strconv.Itoa(m)).Replace(form)
}

// encode writes numbers for the script. A line that is not shown has none.
func encode(lines [][]int) string {
	var out []string
	for _, numbers := range lines {
		if numbers == nil {
			out = append(out, "")
		}
		for _, n := range numbers {
			out = append(out, strconv.Itoa(n))
		}
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
		Roles:      encode([][]int{{nothing.Open, nothing.Other, nothing.Apart}}),
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
}

// newPreview says what a form's choice allows. Nothing picked yet is a choice
// here: it shows what stays readable.
func newPreview(chosen choices, offers []grantset.Offer, items map[string][]store.ItemCount) preview {
	p := preview{Asked: chosen.preview}
	choice, faults := grantset.Parse(chosen.fields(), offers)
	switch {
	case len(faults) == 0:
	case faults[0] == grantset.NothingPicked:
		choice = grantset.Choice{Offer: offerOf(offers, chosen.organization), Set: grantset.Set{Kind: grantset.Roles}}
	case faults[0] == grantset.NoOrganization || faults[0] == grantset.NoGrant:
		p.Why = "Choose an organization, and what the app may do there."
	default:
		p.Why = impossible
	}
	if p.Why != "" {
		p.Rows = previewRows(nil)
		return p
	}
	at := choice.Offer
	p.Rows = previewRows(allowedBy(choice.Set.Narrow(at.Member), items[at.Organization.ID]).numbers())
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
