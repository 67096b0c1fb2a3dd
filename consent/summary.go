package consent

import (
	"net/url"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/rules"
)

// A summary says what one choice gives, line by line (ux 2.2). Several stand
// in the page: of the roles chosen, and of the two options that are always the
// same, for each organization.
type summary struct {
	Kind  grantset.Kind
	Class string // shows it while its organization is chosen
	Now   bool   // the page came with this choice
	Lines []summaryLine
}

// A summaryLine is a lead and what follows it, and the titles of the first
// entries that it counts. The service wrote the titles.
type summaryLine struct {
	Icon   string    // pen, eye, lock, shield or clock
	Lead   page.Said // nil: the text is the sentence
	Text   page.Said
	Titles []string
	More   page.Said // what comes after these; nil for nothing
}

// A teller puts summaries into words: with the numbers of the service where it
// told some, or else with what was chosen alone (decision V51).
type teller struct {
	w        *page.Words
	offer    grantset.Offer
	personal bool // the service has personal entries
	told     map[grantset.Kind]identity.Preview
	by       *rules.Survey // of the roles chosen; nil without rules
}

// count says how many there are; nil where that is not known.
func (t teller) count(p *identity.PreviewPart, more bool) page.Said {
	switch {
	case p == nil, more && p.Count == 0:
		return nil
	case more:
		return t.w.Say("summary.least", "items", t.w.Say("noun.count", "n", p.Count))
	}
	return t.w.Say("noun.count", "n", p.Count)
}

// part says what a choice gives of one kind: in the message unknown without a
// number, in none when there is nothing now, or else in counted.
func (t teller) part(p *identity.PreviewPart, more bool, unknown, none, counted string, values ...any) page.Said {
	n := t.count(p, more)
	switch {
	case n == nil:
		return t.w.Say(unknown, values...)
	case p.Count == 0:
		return t.w.Say(none, values...)
	}
	return t.w.Say(counted, append(values, "items", n)...)
}

// both joins two texts, either of which may be nil.
func (t teller) both(first, second page.Said) page.Said {
	if first == nil || second == nil {
		return append(slices.Clip(first), second...)
	}
	return t.w.Say("summary.also", "first", first, "second", second)
}

func (t teller) line(icon, lead string, text page.Said) summaryLine {
	l := summaryLine{Icon: icon, Text: text}
	if lead != "" {
		l.Lead = t.w.Say(lead)
	}
	return l
}

// titled adds the titles of what a line counts.
func (t teller) titled(l summaryLine, more bool, parts ...*identity.PreviewPart) summaryLine {
	all := 0
	for _, p := range parts {
		if p != nil {
			all += p.Count
			l.Titles = append(l.Titles, p.Titles...)
		}
	}
	l.Titles = l.Titles[:min(len(l.Titles), identity.PreviewTitles)]
	switch left := all - len(l.Titles); {
	case more:
		l.More = t.w.Say("summary.and_more")
	case left > 0:
		l.More = t.w.Say("summary.more", "n", left)
	}
	return l
}

// roles says what selected roles give.
func (t teller) roles(set grantset.Set) (lines []summaryLine) {
	change, read := t.named(set)
	p := t.told[grantset.Roles]
	if len(set.Picks) == 0 && !set.Personal {
		id := "summary.nothing"
		if !t.personal {
			id = "summary.norole"
		}
		return []summaryLine{t.line("lock", "", t.w.Say(id, "link", page.Href("#which")))}
	}
	silent := false // of what was chosen, where rules say what that is
	if t.by != nil {
		lines, silent = t.ruled(), !t.by.Unsaid
		if silent = silent && len(lines) > 0; !t.by.Changes { // decision V55
			change, set.Personal = nil, false
		}
		if !t.by.Passes {
			return lines
		}
	}
	var acts, own page.Said
	var parts []*identity.PreviewPart
	if len(change) > 0 && (!silent || t.count(p.Change, p.More) != nil) {
		acts = t.part(p.Change, p.More, "summary.may", "summary.as_none", "summary.as", "names", few(t.w, change, namesShown))
		parts = append(parts, p.Change)
	}
	if set.Personal && (!silent || t.count(p.Personal, p.More) != nil) {
		own = t.part(p.Personal, p.More, "summary.mine", "summary.own_none", "summary.own")
		parts = append(parts, p.Personal)
	}
	if text := t.both(acts, own); text != nil {
		lines = append(lines, t.titled(t.line("pen", "summary.change", text), p.More, parts...))
	}
	reads := t.w.Say("summary.open")
	if len(read) > 0 {
		reads = t.w.Say("summary.sees", "names", few(t.w, read, namesShown))
	}
	if silent {
		reads = nil
	}
	return append(append(lines, t.reads(p, reads)...), t.not(p)...)
}

// reads says what may be read and not changed: unknown without a number.
func (t teller) reads(p identity.Preview, unknown page.Said) []summaryLine {
	switch n := t.count(p.Read, p.More); {
	case n != nil && p.Read.Count > 0:
		return []summaryLine{t.titled(t.line("eye", "summary.only", n), p.More, p.Read)}
	case n == nil && unknown != nil:
		return []summaryLine{t.line("eye", "summary.read", unknown)}
	}
	return nil
}

func (t teller) not(p identity.Preview) []summaryLine {
	if n := t.count(p.Not, p.More); n != nil && p.Not.Count > 0 {
		return []summaryLine{t.line("lock", "summary.not", t.w.Say("summary.visible", "items", n))}
	}
	return nil
}

// everything says what the person's whole access is.
func (t teller) everything(a grantset.Authority) (lines []summaryLine) {
	p := t.told[grantset.Everything]
	kept := t.personal && a.KeepsPersonal()
	t.personal = t.personal && !kept
	switch {
	case t.offer.Ceiling.WithholdsKind(grantset.Everything) != "":
		return append(t.reads(p, t.w.Say("summary.open")), t.not(p)...)
	case a.ReadOnly():
		lines = append(t.reads(p, t.w.Say("summary.can")), t.not(p)...)
	case t.count(p.Change, p.More) == nil:
		lines = append(lines, t.line("pen", "summary.both", t.w.Say("summary.can")))
	default:
		var own page.Said
		parts := []*identity.PreviewPart{p.Change}
		if t.personal {
			own = t.part(p.Personal, p.More, "summary.mine", "summary.own_none", "summary.own")
			parts = append(parts, p.Personal)
		}
		all := t.part(p.Change, p.More, "summary.can", "summary.all_none", "summary.all")
		lines = append(lines, t.titled(t.line("pen", "summary.change", t.both(all, own)), p.More, parts...))
		lines = append(append(lines, t.reads(p, nil)...), t.not(p)...)
	}
	if kept {
		lines = append(lines, t.line("lock", "summary.not", t.w.Say("summary.mine")))
	}
	lines = append(lines, t.lessOf(a)...)
	if a.MayAdminister() {
		lines = append(lines, t.line("shield", "", t.w.Say("summary.administer")))
	}
	return append(lines, t.line("clock", "", t.w.Say("summary.later")))
}

// organization says what an admin's access is, without personal entries.
func (t teller) organization(a grantset.Authority) (lines []summaryLine) {
	p := t.told[grantset.Organization]
	if t.offer.Ceiling.WithholdsKind(grantset.Organization) != "" { // as everything without what is their own
		t.told = map[grantset.Kind]identity.Preview{grantset.Everything: p}
		t.personal = false
		return t.everything(a)
	}
	whole := t.part(p.Change, p.More, "summary.whole_all", "summary.whole_none", "summary.whole", "organization", t.offer.Organization.Name)
	if a.ReadOnly() {
		lines = t.reads(p, whole)
	} else {
		lines = append(lines, t.titled(t.line("pen", "summary.both", whole), p.More, p.Change))
	}
	if lines = append(lines, t.lessOf(a)...); a.MayAdminister() {
		lines = append(lines, t.line("shield", "", t.w.Say("summary.administer")))
	}
	if t.personal {
		lines = append(lines, t.line("lock", "summary.not", t.w.Say("summary.personal")))
	}
	return lines
}

// named gives the names of picked roles in the offer's order: of those that may
// change, and of as many as it takes to name all that can be read. Any role of
// a circle lets its private entries be read, so one that may change is named
// only where no other of its circle was picked to read.
func (t teller) named(set grantset.Set) (change, read []string) {
	for _, g := range t.offer.Groups {
		var changes, reads []string
		for _, r := range g.Roles {
			switch set.Access(r.ID) {
			case "change":
				changes = append(changes, r.Name)
			case "read":
				reads = append(reads, r.Name)
			}
		}
		change = append(change, changes...)
		if len(reads) == 0 {
			reads = changes
		}
		read = append(read, reads...)
	}
	return change, read
}

// few lists up to so many names, and says how many more there are.
func few(w *page.Words, names []string, shown int) page.Said {
	if len(names) <= shown {
		return w.List(names)
	}
	more := w.Say("summary.more", "n", len(names)-shown)
	return append(append(w.List(names[:shown]), page.Part{Kind: "text", Text: " "}), more...)
}

// namesShown is how many names stand in a sentence, as operators read them too.
const namesShown = grantset.NamesShown

// previewing begins to ask the service what can be chosen in the organization
// of a choice: the roles of the choice, and the wider options. What it gives
// waits for the answer, which is nil when there is none.
func (s *Server) previewing(v *page.Visit, roles grantset.Choice) func() map[grantset.Kind]identity.Preview {
	var kinds []grantset.Kind
	var sets []grantset.Authority
	for _, kind := range grantset.Kinds {
		set := grantset.Set{Kind: kind}
		if kind == grantset.Roles {
			set = roles.Set
		}
		if roles.Offer.Allows(kind) && (kind != grantset.Roles || len(set.Picks) > 0 || set.Personal) {
			kinds, sets = append(kinds, kind), append(sets, set.Narrow(roles.Offer.Member, roles.Offer.Ceiling))
		}
	}
	if s.Preview == nil || len(sets) == 0 {
		return func() map[grantset.Kind]identity.Preview { return nil }
	}
	answered := make(chan map[grantset.Kind]identity.Preview, 1)
	go func() {
		told := map[grantset.Kind]identity.Preview{}
		if a, ok := s.Preview(v.R.Context(), v.Words.Tag, sets); ok {
			for i, kind := range kinds {
				told[kind] = a.Sets[i]
			}
		}
		answered <- told
	}()
	return func() map[grantset.Kind]identity.Preview { return <-answered }
}

// summaries are the part of a page that says what its choices give.
type summaries struct {
	Lists []summary
	Bar   page.Said // the roles chosen, in a few words
	Why   string    // why nothing can be said of the choice
	Asked bool      // by the button
}

// summaries says what a form's choices give. Nothing picked yet is a choice
// here. The roles are summed up even while a wider option is chosen: somebody
// may go back to them. classes are those of the offers.
func (s *Server) summaries(v *page.Visit, chosen choices, offers []grantset.Offer, classes []string, roles grantset.Choice, told map[grantset.Kind]identity.Preview) summaries {
	g, w := summaries{Asked: chosen.preview}, v.Words
	if _, faults := grantset.Parse(chosen.fields(), offers); len(faults) > 0 {
		switch faults[0] {
		case grantset.NothingPicked:
		case grantset.NoOrganization, grantset.NoGrant:
			g.Why = w.Say("preview.choose").String()
		default:
			g.Why = w.Say("fault.impossible").String()
		}
	}
	t := teller{w, roles.Offer, !s.NoPersonal && roles.Offer.Ceiling.WithholdsPersonal() == "", told, s.survey(v, roles)}
	g.Lists = []summary{{Kind: grantset.Roles, Now: chosen.grant == string(grantset.Roles), Lines: t.roles(roles.Set)}}
	g.Bar = t.bar(roles.Set)
	for i, o := range offers {
		at := o.Organization.ID == roles.Offer.Organization.ID
		class := classes[i]
		if i >= numbered {
			if !at {
				continue
			}
			class = "fresh"
		}
		t := teller{w, o, !s.NoPersonal, nil, nil}
		if at {
			t.told = told
		}
		for _, kind := range grantset.Kinds[1:] {
			current := at && chosen.grant == string(kind) && o.Ceiling.WithholdsKind(kind) != "" // and stays, see editing.kept
			if !o.Allows(kind) && !current {
				continue
			}
			a := grantset.Set{Kind: kind}.Narrow(o.Member, o.Ceiling)
			one := summary{Kind: kind, Class: class, Now: chosen.grant == string(kind) && at}
			if kind == grantset.Organization {
				one.Lines = t.organization(a)
			} else {
				one.Lines = t.everything(a)
			}
			g.Lists = append(g.Lists, one)
		}
	}
	return g
}

// previewLimit is how often the script of one sign-in may ask.
var previewLimit = limit.Limit{N: 60, Window: time.Minute}

// preview is POST /oauth/authorize/preview: to the script of a page that was
// made for this sign-in, the part of it that says what its form gives.
func (s *Server) preview(v *page.Visit) error {
	form, err := page.Posted(v, page.ChoiceBytes, page.ChoiceFields)
	switch {
	case err != nil:
		return err
	case !s.Ours(v, form):
		return page.ErrStale
	}
	if ok, wait := s.previews.Allow(v.Session, v.Now); !ok {
		return page.TooMany{Wait: wait}
	}
	offers, classes, err := s.onPage(v, form)
	if err != nil {
		return err
	}
	chosen := readChoices(form)
	roles := chosen.rolesOf(offers)
	g := s.summaries(v, chosen, offers, classes, roles, s.previewing(v, roles)())
	return s.ShowPart(v, consentTemplate, "summaries", g)
}

// onPage gives the offers of the page that a form is of, and their classes.
func (s *Server) onPage(v *page.Visit, form url.Values) ([]grantset.Offer, []string, error) {
	p, asks := s.openQuestion(page.One(form, "request"))
	var e edit
	edits := s.Open(sealedEdit, page.One(form, "request"), &e)
	if !(asks && p.Issuer == v.Base && p.Person == v.Person.ID) && !(edits && e.Person == v.Person.ID) {
		return nil, nil, page.ErrBadForm
	}
	offers, err := s.offers(v)
	if err != nil {
		return nil, nil, err
	}
	if edits {
		offers = slices.DeleteFunc(offers, func(o grantset.Offer) bool { return o.Organization.ID != page.One(form, "organization") })
		return offers, make([]string, len(offers)), nil
	}
	offers = eligible(offers)
	return offers, classesOf(len(offers)), nil
}

// bar says in a few words which roles are chosen.
func (t teller) bar(set grantset.Set) page.Said {
	switch name := t.offer.Organization.Name; {
	case len(set.Picks) > 0:
		return t.w.Say("bar.roles", "n", len(t.offer.Member.Roles()), "chosen", len(set.Picks), "organization", name)
	case set.Personal:
		return t.w.Say("bar.personal", "organization", name)
	}
	return t.w.Say("bar.none")
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
