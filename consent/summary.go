package consent

import (
	"fmt"
	"slices"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// allowed is what an authority lets a client do with the items that are there
// now. Each item that the person sees counts once; what the person does not
// see counts nowhere, because a count would tell of it.
type allowed struct {
	Change     int  // items of roles that it may change
	Private    int  // private items that it may only read
	Open       int  // items that every member sees and that it may only read
	Own        int  // the person's own items that it may read and change
	Apart      int  // the person's own items that it may not
	Other      int  // other items that the person sees and it does not
	Personal   bool // it may read and change the person's own items
	Administer bool // it may change circles, roles, members and settings

	circles  map[string]bool // IDs of those whose private items it may only read
	changed  []org.Item      // who has what it may change: roles and the person
	readOnly []org.Item      // the roles that have what Private counts
}

// allowedBy asks the functions that decide each request, so that what a person is
// shown before approving is what the client gets (decision P6).
func allowedBy(a grantset.Authority, items []store.ItemCount) allowed {
	m := a.Member()
	out := allowed{Administer: a.MayAdminister(), circles: map[string]bool{},
		Personal: a.MayRead(org.Item{Organization: m.Organization, Person: m.Person})}
	for _, i := range items {
		switch {
		case i.Personal() && a.MayChange(i.Item):
			out.Own += i.Count
			out.changed = append(out.changed, i.Item)
		case i.Personal() && m.MayRead(i.Item):
			out.Apart += i.Count
		case a.MayChange(i.Item):
			out.Change += i.Count
			out.changed = append(out.changed, i.Item)
		case !m.MayRead(i.Item):
		case !a.MayRead(i.Item):
			out.Other += i.Count
		case i.Private:
			out.Private += i.Count
			out.circles[i.Circle] = true
			out.readOnly = append(out.readOnly, i.Item)
		default:
			out.Open += i.Count
		}
	}
	return out
}

// A summary says what one choice gives, line by line (ux 2.2). Three stand in
// the page: of the roles chosen, which the script counts anew, and of the two
// options that are always the same, for each organization.
type summary struct {
	Kind  grantset.Kind
	Class string // shows it while its organization is chosen
	Now   bool   // the page came with this choice
	Lines []summaryLine
}

// A summaryLine is a lead, what follows it, and which items those are.
type summaryLine struct {
	Icon   string // pen, eye, lock, shield or clock
	Lead   said   // nil: the only piece is the sentence
	Pieces []piece
	Ask    said     // what Titles answer
	Titles []string // of the first items
	More   int      // how many come after these
}

// A piece is what a line says, or nothing now; Forms is for the script.
type piece struct {
	Forms string
	Text  said
}

// Empty reports whether the line says nothing.
func (l summaryLine) Empty() bool {
	return !slices.ContainsFunc(l.Pieces, func(p piece) bool { return p.Text != nil })
}

// between puts what separates a list before each piece that says something but
// the first.
func between(w *words, pieces []piece) []piece {
	out := slices.Clone(pieces)
	first := true
	for i := range out {
		if out[i].Text == nil {
			continue
		}
		if !first {
			out[i].Text = append(slices.Clone(w.say("list.between")), out[i].Text...)
		}
		first = false
	}
	return out
}

// titles are those of the first items of a summary's lines.
type titles struct{ changed, readOnly []string }

// shownTitles is how many titles stand below a line.
const shownTitles = 20

// A teller puts summaries into words.
type teller struct {
	w     *words
	offer grantset.Offer
}

func (t teller) piece(show bool, id string, values ...any) piece {
	p := piece{Forms: t.w.forms(id)}
	if show {
		p.Text = t.w.say(id, values...)
	}
	return p
}

func (t teller) line(icon, lead string, pieces ...piece) summaryLine {
	l := summaryLine{Icon: icon, Pieces: between(t.w, pieces)}
	if lead != "" {
		l.Lead = t.w.say(lead)
	}
	return l
}

func (l summaryLine) with(ask said, some []string, all int) summaryLine {
	if len(some) > 0 {
		l.Ask, l.Titles, l.More = ask, some, max(0, all-len(some))
	}
	return l
}

// named are the names of the offer's circles that are in the set, in its order.
func (t teller) named(circles map[string]bool) (names []string) {
	for _, g := range t.offer.Groups {
		if circles[g.Circle.ID] {
			names = append(names, g.Circle.Name)
		}
	}
	return names
}

// changedBy names the picked roles that may change, in the offer's order.
func (t teller) changedBy(set grantset.Set) (names []string) {
	for _, g := range t.offer.Groups {
		for _, r := range g.Roles {
			if set.Access(r.ID) == "change" {
				names = append(names, r.Name)
			}
		}
	}
	return names
}

// roles says what selected roles give. Every piece that could come stands in
// it, hidden where it says nothing, so that the script can say it.
func (t teller) roles(set grantset.Set, a allowed, some titles) []summaryLine {
	acts := t.changedBy(set)
	picked := len(set.Picks) > 0 || set.Personal
	return []summaryLine{
		t.line("pen", "summary.change",
			t.piece(len(acts) > 0, "summary.as", "n", a.Change, "names", t.w.few(acts)),
			t.piece(set.Personal, "summary.own", "n", a.Own)).
			with(t.w.say("summary.what"), some.changed, a.Change+a.Own),
		t.line("eye", "summary.read",
			t.piece(picked && a.Private > 0, "summary.private", "n", a.Private, "names", t.w.few(t.named(a.circles))),
			t.piece(picked && a.Open > 0, "summary.open", "n", a.Open)).
			with(t.w.say("summary.which"), some.readOnly, a.Private),
		t.line("lock", "summary.not",
			t.piece(picked && a.Apart > 0, "summary.apart", "n", a.Apart),
			t.piece(picked && a.Other > 0, "summary.other", "n", a.Other)),
		t.line("lock", "", t.piece(!picked, "summary.nothing", "link", link("#which"))),
	}
}

// everything says what the person's whole access is.
func (t teller) everything(a allowed, some titles) []summaryLine {
	lines := []summaryLine{
		t.line("pen", "summary.change", t.piece(true, "summary.all", "n", a.Change), t.piece(true, "summary.own", "n", a.Own)).
			with(t.w.say("summary.what"), some.changed, a.Change+a.Own),
		t.line("eye", "summary.read",
			t.piece(a.Private > 0, "summary.private", "n", a.Private, "names", t.w.few(t.named(a.circles))),
			t.piece(a.Open > 0, "summary.open", "n", a.Open)).
			with(t.w.say("summary.which"), some.readOnly, a.Private),
	}
	if a.Administer {
		lines = append(lines, t.line("shield", "", t.piece(true, "summary.administer")))
	}
	return append(lines, t.line("clock", "", t.piece(true, "summary.later")))
}

// organization says what an admin's access is, without personal items.
func (t teller) organization(a allowed, some titles) []summaryLine {
	return []summaryLine{
		t.line("pen", "summary.both", t.piece(true, "summary.whole", "n", a.Change, "organization", t.offer.Organization.Name)).
			with(t.w.say("summary.what"), some.changed, a.Change),
		t.line("shield", "", t.piece(true, "summary.administer")),
		t.line("lock", "summary.not", t.piece(true, "summary.personal")),
	}
}

// few lists up to three names, and says how many more there are.
func (w *words) few(names []string) said {
	if len(names) <= namesShown {
		return w.list(names)
	}
	more := w.say("summary.more", "n", len(names)-namesShown)
	return append(append(w.list(names[:namesShown]), part{Kind: "text", Text: " "}), more...)
}

// namesShown is how many names stand in a sentence.
const namesShown = 3

// A counted is an organization's items, and the titles that one may ask for.
type counted struct {
	items []store.ItemCount
	some  map[grantset.Kind]titles
}

// itemsOf counts the items of the organizations. Titles it gives of what is
// chosen, and of the wider options in the same organization.
func (s *Server) itemsOf(v *visit, offers []grantset.Offer, chosen grantset.Choice) (map[string]counted, error) {
	out := map[string]counted{}
	for _, o := range offers {
		items, err := s.Store.ItemCounts(v.r.Context(), o.Organization.ID)
		if err != nil {
			return nil, wrap("items", err)
		}
		c := counted{items: items, some: map[grantset.Kind]titles{}}
		if o.Organization.ID == chosen.Offer.Organization.ID {
			for _, kind := range grantset.Kinds {
				set := grantset.Set{Kind: kind}
				if kind == grantset.Roles {
					set = chosen.Set
				}
				if !o.Allows(kind) || set.Kind != kind {
					continue
				}
				if c.some[kind], err = s.titles(v, set.Narrow(o.Member), items); err != nil {
					return nil, err
				}
			}
		}
		out[o.Organization.ID] = c
	}
	return out, nil
}

// titles gives the first titles of what an authority may change, and of the
// private items that it may only read. What was read is asked again: an item
// can have moved since it was counted.
func (s *Server) titles(v *visit, a grantset.Authority, items []store.ItemCount) (titles, error) {
	is := allowedBy(a, items)
	first := func(owners []org.Item, private bool, may func(org.Item) bool) (names []string, err error) {
		found, err := s.Store.ItemTitles(v.r.Context(), a.Member().Organization, owners[:min(len(owners), shownTitles)], private, shownTitles)
		for _, i := range found {
			if may(i.Item) {
				names = append(names, i.Title)
			}
		}
		return names, err
	}
	changed, err := first(is.changed, false, a.MayChange)
	if err != nil {
		return titles{}, wrap("titles", err)
	}
	readOnly, err := first(is.readOnly, true, a.MayRead)
	if err != nil {
		return titles{}, wrap("titles", err)
	}
	return titles{changed, readOnly}, nil
}

// sums are what the script adds up while somebody picks roles.
type sums struct {
	Roles   string            // with no role picked: open items, others, and the person's own
	roles   map[string][2]int // role ID: open and private items that change access gives
	circles map[string]int    // circle ID: private items that any of its roles opens
}

// newSums takes every number from the authority of a grant set, so the script
// only adds.
func newSums(o grantset.Offer, items []store.ItemCount) sums {
	with := func(s grantset.Set) grantset.Authority { return s.Narrow(o.Member) }
	nothing := allowedBy(with(grantset.Set{Kind: grantset.Roles}), items)
	s := sums{
		Roles: fmt.Sprintf("%d,%d,%d", nothing.Open, nothing.Other, nothing.Apart),
		roles: map[string][2]int{}, circles: map[string]int{},
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

// summaries are the part of a page that says what its choices give.
type summaries struct {
	Lists []summary
	Bar   said   // the roles chosen, in a few words
	Why   string // why nothing can be said of the choice
	Asked bool   // by the button
}

// newSummaries says what a form's choices give. Nothing picked yet is a choice
// here. The roles are summed up even while a wider option is chosen: somebody
// may go back to them.
func newSummaries(w *words, view *chooser, chosen choices, offers []grantset.Offer, roles grantset.Choice, items map[string]counted) summaries {
	g := summaries{Asked: chosen.preview}
	if _, faults := grantset.Parse(chosen.fields(), offers); len(faults) > 0 {
		switch faults[0] {
		case grantset.NothingPicked:
		case grantset.NoOrganization, grantset.NoGrant:
			g.Why = w.say("preview.choose").String()
		default:
			g.Why = w.say("fault.impossible").String()
		}
	}
	at := roles.Offer
	t := teller{w, at}
	of := items[at.Organization.ID]
	g.Lists = []summary{{Kind: grantset.Roles, Now: chosen.grant == string(grantset.Roles),
		Lines: t.roles(roles.Set, allowedBy(roles.Set.Narrow(at.Member), of.items), of.some[grantset.Roles])}}
	g.Bar = t.bar(roles.Set)
	for i, o := range offers {
		class := view.Organizations[i].Class
		if i >= numbered {
			if o.Organization.ID != at.Organization.ID {
				continue
			}
			class = "fresh"
		}
		t, of := teller{w, o}, items[o.Organization.ID]
		for _, kind := range grantset.Kinds[1:] {
			if !o.Allows(kind) {
				continue
			}
			a := allowedBy(grantset.Set{Kind: kind}.Narrow(o.Member), of.items)
			one := summary{Kind: kind, Class: class, Now: chosen.grant == string(kind) && o.Organization.ID == at.Organization.ID}
			if kind == grantset.Organization {
				one.Lines = t.organization(a, of.some[kind])
			} else {
				one.Lines = t.everything(a, of.some[kind])
			}
			g.Lists = append(g.Lists, one)
		}
	}
	return g
}

// bar says in a few words which roles are chosen.
func (t teller) bar(set grantset.Set) said {
	switch name := t.offer.Organization.Name; {
	case len(set.Picks) > 0:
		return t.w.say("bar.roles", "n", len(t.offer.Member.Roles()), "chosen", len(set.Picks), "organization", name)
	case set.Personal:
		return t.w.say("bar.personal", "organization", name)
	}
	return t.w.say("bar.none")
}

// rolesOf is the choice of selected roles that a form holds, whatever option it
// has chosen. What cannot be chosen is none.
func (c choices) rolesOf(offers []grantset.Offer) grantset.Choice {
	c.grant = string(grantset.Roles)
	choice, faults := grantset.Parse(c.fields(), offers)
	if len(faults) > 0 {
		return grantset.Choice{Offer: offerOf(offers, c.organization), Set: grantset.Set{Kind: grantset.Roles}}
	}
	return choice
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
