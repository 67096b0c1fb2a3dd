package consent

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// choices are what a form had chosen, right or wrong, so that the page can
// come back with it. What may be approved is decided by grantset.Parse alone.
type choices struct {
	sent         bool // the page has been answered before
	organization string
	grant        string
	roles        map[string]string // role ID: read or change
	personal     bool
	replace      bool
	bulk         string // the button that sets all roles of a circle: <circle ID>:<none, read or change>
	circle       string // whose roles were all set by it
	hint         string // organization whose roles are to be shown
	ends         string // for how long
	message      string // to the admins who are asked
	preview      bool   // the button that asks what the choice allows
	need, needs  string // ID of a role that is marked, and the read or change that is asked for
}

func readChoices(form url.Values) choices {
	c := choices{
		sent: true, organization: page.One(form, "organization"), grant: page.One(form, "grant"),
		ends: page.One(form, "ends"), message: page.One(form, "message"), bulk: page.One(form, "bulk"), preview: page.One(form, "action") == "preview", roles: map[string]string{}, personal: page.One(form, "personal") == "1", replace: page.One(form, "replace") == "1",
	}
	for name := range form {
		if role, ok := strings.CutPrefix(name, "role:"); ok {
			if access := page.One(form, name); access == "read" || access == "change" {
				c.roles[role] = access
			}
		}
	}
	return c
}

// setAll does what a bulk button says. A circle's ID may have colons itself.
func (c *choices) setAll(offers []grantset.Offer) {
	i := strings.LastIndexByte(c.bulk, ':')
	if i < 0 || !slices.Contains([]string{"none", "read", "change"}, c.bulk[i+1:]) {
		return
	}
	for _, o := range offers {
		for _, g := range o.Groups {
			if g.Circle.ID != c.bulk[:i] {
				continue
			}
			c.circle = g.Circle.ID
			for _, r := range g.Roles {
				if access := c.bulk[i+1:]; access == "none" || o.Ceiling.WithholdsPick(grantset.Pick{Role: r.ID, Change: access == "change"}) == "" {
					c.roles[r.ID] = access
				}
			}
		}
	}
}

// maxKept is how much of choices travels through sign-in in an address, in bytes.
const maxKept = 6 << 10

// withChoices adds a form's choices to a path, for the person who was shown the
// page, unless they are too many for an address.
func (s *Server) withChoices(path, person string, form url.Values) string {
	kept := url.Values{"person": {person}}
	for name, values := range form {
		switch {
		case name == "organization", name == "grant", name == "personal", name == "replace", name == "ends", name == "message",
			strings.HasPrefix(name, "role:") && page.One(form, name) != "none":
			kept[name] = values
		}
	}
	text := kept.Encode()
	if len(text) > maxKept {
		return path
	}
	if with := page.WithQuery(path, "choices", s.Ring.SealPage(sealedChoices, []byte(text))); len(with) <= page.MaxPath {
		return with
	}
	return path
}

// openChoices gives what withChoices kept, to the person whose choices they are.
func (s *Server) openChoices(v *page.Visit, p parameters) choices {
	sealed, _ := p.one("choices")
	plain, _, ok := s.Ring.OpenPage(sealedChoices, sealed)
	if !ok {
		return choices{}
	}
	kept, err := url.ParseQuery(string(plain))
	if err != nil || page.One(kept, "person") != v.Person.ID {
		return choices{}
	}
	return readChoices(kept)
}

// showing is how a consent page comes about.
type showing struct {
	status      int
	faults      []grantset.Fault
	old         bool // the page asks again because it was open for long
	otherPerson bool // the page had been made for another account
	stale       bool // the approval was changed while the page that edits it was open
}

// A consentPage asks a person about a client (ux 5). App and every name in it
// are text that others wrote.
type consentPage struct {
	page.Frame
	App        page.App
	Registered page.Moment
	UsedBy     []usedBy
	Earlier    []earlier
	LooksOurs  bool         // the name could be taken for the service's own
	Reused     *page.Moment // when an old key of this client came back
	Filled     *page.Moment // when what is filled in was chosen before
	Replace    bool
	Replaces   string // shows that choice while it would end something

	Old         bool // asks again because it was open for long
	OtherPerson bool // asks again because it was made for another account
	NotListed   []string
	chooser
}

// A chooser is the part of a form in which a grant set is chosen: that of the
// consent page and of the page that edits an approval.
type chooser struct {
	Request       string // sealed
	Faults        []shownFault
	Organizations []offered
	Fixed         bool   // the organization is not chosen here
	Grant         string // chosen
	Personal      bool
	Admin         bool                 // some organization could be given as a whole
	AdminClass    string               // shows that option while such an organization is chosen
	AdminNames    []string             // of those organizations
	NoPersonal    bool                 // there are no personal entries to choose
	Whys          map[string][]classed // why an option, or "personal", cannot be chosen, or gives less
	Shut          map[string]bool      // those that cannot
	Ends          *endField
	Summaries     summaries
}

type usedBy struct {
	People       int
	Organization string
}

type earlier struct {
	On           page.Moment
	Organization string // empty where there is only one
}

type shownFault struct {
	Group string // the fieldset that it stands next to
	Text  page.Said
}

// offered is one organization on the page.
type offered struct {
	N        int // from 1, in the page's order
	ID, Name string
	Admin    bool
	Roles    int
	Chosen   bool
	Class    string // shows this organization's roles while it is chosen
	Groups   []group
	Show     string    // path that shows its roles, when they are not in the page
	Asks     bool      // an admin must allow the app first
	Limits   bool      // on what apps may get
	Blocked  page.Said // why the app cannot be connected; nil where it can
	Shut     []string  // options, and "personal", that it withholds
	ReadOnly bool      // it lets apps read only
	Why      page.Said // of that
	Most     int       // days that access lasts there; 0 is no bound
}

type group struct {
	ID, Name string
	Flat     bool // the roles stand without their circle, which each names
	Open     bool
	Set      bool // all its roles were just set by a button
	NoChange bool // none of them can be changed
	Chosen   int
	Roles    []shownRole
}

type shownRole struct {
	ID, Name, Access string
	Needs            *page.Said // what a link asks for here; nil is nothing
	Never, NoChange  bool       // of what can be chosen
}

// What a page shows at once (ux 5.3).
const (
	flatRoles = 7    // at most so many stand without their circles, and without a search
	openRoles = 12   // with at most so many in all, the first circle is open
	allRoles  = 1000 // with more, only the chosen organization's are in the page
	numbered  = 20   // organizations that the stylesheet can tell apart
	manyLive  = 200  // with more live connections, each organization is asked for its newest
)

// showConsent shows the consent page, or in its place why there is nothing to
// choose.
func (s *Server) showConsent(v *page.Visit, c client.Client, p question, chosen choices, how showing) error {
	offers, err := s.offers(v)
	if err != nil {
		return err
	}
	open := eligible(offers)
	if len(open) == 0 {
		s.sawAt(v, c, p, "", attempt.NoOrganization)
		return s.showNowhere(v, c, p, offers, how)
	}
	ruled, err := s.rulings(v, c, p.RedirectURI, open)
	if err != nil {
		return err
	}
	if other := s.instead(v, c, p, ruled, chosen, how); other != nil {
		return other()
	}
	s.sawAt(v, c, p, rulingOf(ruled, chosen.organization).Organization.ID, "") // a form may say another's
	var filled *page.Moment
	if !chosen.sent {
		before, at, err := s.refill(v, c, p.RedirectURI, ruled)
		if err != nil {
			return err
		}
		if at != nil {
			before.hint = chosen.hint
			chosen, filled = before, at
		}
	}
	chosen.setAll(open)
	chosen.personal = chosen.personal && !s.NoPersonal
	if !chosen.sent {
		chosen.grant = string(grantset.Roles)
		if len(open) == 1 {
			chosen.organization = open[0].Organization.ID
		}
	}
	roles := chosen.rolesOf(open)
	told := s.previewing(v, roles)
	title := "consent.title"
	if len(how.faults) > 0 {
		title = "consent.error"
	}
	view := &consentPage{
		Frame: s.Frame(v, title), App: s.app(c, p.authorization),
		Old: how.old, OtherPerson: how.otherPerson, NotListed: notListed(offers), Replace: chosen.replace, Filled: filled,
		chooser: chooser{Request: s.sealQuestion(p), Grant: chosen.grant, Personal: chosen.personal, NoPersonal: s.NoPersonal},
	}
	view.Slim, view.Script, view.Packed, view.Instead = false, true, true, s.SealPath(p.path())
	view.offer(open, chosen, p.path())
	if err := view.rule(s, v, ruled); err != nil {
		return err
	}
	view.limit(v.Words, open, "")
	view.offerEnds(ender{v.Words, v.Now}, s.boundsOf(ruled), chosen.ends)
	view.say(v.Words, how.faults, offers, chosen)
	if err := s.facts(v, view, c, open); err != nil {
		return err
	}
	view.Summaries = s.summaries(v, chosen, open, classesOf(len(open)), roles, told())
	return s.Show(v, how.status, consentTemplate, view)
}

// offer lists where and what the person may give away. path leads to the same
// page.
func (view *chooser) offer(open []grantset.Offer, chosen choices, path string) {
	total := 0
	for _, o := range open {
		total += len(o.Member.Roles())
	}
	shown := chosen.organization // whose roles are in the page: a link says that, and chooses nothing (ux 5.2)
	if shown == "" {
		shown = chosen.hint
	}
	var admins []string
	classes := classesOf(len(open))
	for i, o := range open {
		one := offered{N: i + 1, ID: o.Organization.ID, Name: o.Organization.Name, Admin: o.Member.Admin,
			Roles: len(o.Member.Roles()), Chosen: o.Organization.ID == chosen.organization, Class: classes[i]}
		if o.Member.Admin {
			admins = append(admins, one.Class)
			view.AdminNames = append(view.AdminNames, one.Name)
		}
		if total > allRoles && one.ID != shown {
			one.Show = page.WithQuery(path, "organization", one.ID)
		} else {
			one.Groups = groups(o, chosen, total)
		}
		view.Organizations = append(view.Organizations, one)
	}
	view.Admin = len(admins) > 0
	if !slices.Contains(admins, "") { // else it could not be told when to show it
		view.AdminClass = strings.Join(admins, " ")
	}
}

// classesOf are the classes that show what belongs to each of n organizations
// while it is chosen; empty where the stylesheet cannot tell it apart.
func classesOf(n int) []string {
	out := make([]string, n)
	for i := range min(n, numbered) {
		out[i] = "only org-" + strconv.Itoa(i+1)
	}
	return out
}

// notListed names the organizations where nothing can be approved.
func notListed(offers []grantset.Offer) (names []string) {
	for _, o := range offers {
		if !o.Eligible() {
			names = append(names, o.Organization.Name)
		}
	}
	return names
}

func groups(of grantset.Offer, chosen choices, total int) []group {
	var out []group
	for i, g := range of.Groups {
		one := group{ID: g.Circle.ID, Name: g.Circle.Name, Flat: len(of.Member.Roles()) <= flatRoles}
		one.Set = chosen.circle != "" && g.Circle.ID == chosen.circle
		one.Open = i == 0 && total <= openRoles || one.Set || slices.ContainsFunc(g.Roles, func(r org.Role) bool { return r.ID == chosen.need })
		for _, r := range g.Roles {
			access := chosen.roles[r.ID]
			never := of.Ceiling.WithholdsPick(grantset.Pick{Role: r.ID}) != ""
			noChange := of.Ceiling.WithholdsPick(grantset.Pick{Role: r.ID, Change: true}) != ""
			if access == "" || never || noChange && access == "change" {
				access = "none"
			}
			if access != "none" {
				one.Chosen++
			}
			one.Roles = append(one.Roles, shownRole{ID: r.ID, Name: r.Name, Access: access, Never: never, NoChange: noChange})
		}
		one.NoChange = !slices.ContainsFunc(one.Roles, func(r shownRole) bool { return !r.NoChange })
		out = append(out, one)
	}
	return out
}

// say puts the faults into the person's words (ux 5.4).
func (view *chooser) say(w *page.Words, faults []grantset.Fault, offers []grantset.Offer, chosen choices) {
	for _, f := range faults {
		var said shownFault
		switch f {
		case grantset.NoOrganization:
			said = shownFault{"organization", w.Say("fault.organization")}
		case grantset.NotEligible:
			said = shownFault{"organization", w.Say("fault.closed", "organization", nameOf(offers, chosen.organization))}
		case grantset.NoGrant:
			said = shownFault{"grant", w.Say("fault.grant")}
		case appBlocked:
			said = shownFault{"organization", w.Say("blocked.fault", "organization", nameOf(offers, chosen.organization))}
		case endBeyond:
			said = shownFault{"ends", w.Say("ends.fault", "n", view.Ends.most.days, "by", view.Ends.most.by, "link", page.Href("#ends"))}
		case noMore:
			said = shownFault{"grant", w.Say("fault.nomore")}
		case endUnknown:
			said = shownFault{"ends", w.Say("ends.unknown", "link", page.Href("#ends"))}
		case grantset.NothingPicked:
			said = shownFault{"roles", w.Say("fault.nothing", "link", page.Href("#which"))}
			if view.NoPersonal || offerOf(offers, chosen.organization).Ceiling.WithholdsPersonal() != "" {
				said.Text = w.Say("fault.norole", "link", page.Href("#which"))
			}
		default:
			var is bool
			if said, is = withheldAt(w, f, nameOf(offers, chosen.organization)); !is {
				said = shownFault{"grant", w.Say("fault.impossible")}
			}
		}
		view.Faults = append(view.Faults, said)
	}
}

// One reports whether something can be approved in one organization alone.
func (view *chooser) One() bool { return len(view.Organizations) == 1 }

// Countable reports whether the script can follow every choice: the stylesheet
// tells all organizations apart.
func (view *chooser) Countable() bool { return len(view.Organizations) <= numbered }

// Fault gives the fault that stands next to a fieldset.
func (view *chooser) Fault(group string) *shownFault { return faultOf(view.Faults, group) }

func faultOf(faults []shownFault, group string) *shownFault {
	for i := range faults {
		if faults[i].Group == group {
			return &faults[i]
		}
	}
	return nil
}

func nameOf(offers []grantset.Offer, organization string) string {
	return offerOf(offers, organization).Organization.Name
}

// facts tells what is known of the client: since when, who uses it, and this
// person's own earlier connections (decision P1).
func (s *Server) facts(v *page.Visit, view *consentPage, c client.Client, open []grantset.Offer) error {
	ctx := v.R.Context()
	view.Registered = page.Ago(c.IssuedAt, v.Now)
	looks, err := s.looksOurs(v, c, view.App.Host)
	if err != nil {
		return err
	}
	view.LooksOurs = looks
	var ids []string
	for _, o := range open {
		ids = append(ids, o.Organization.ID)
	}
	people, err := s.Store.UsedBy(ctx, c.ID, ids)
	if err != nil {
		return page.Wrap("used by", err)
	}
	for _, o := range open {
		if n := people[o.Organization.ID]; n > 0 {
			view.UsedBy = append(view.UsedBy, usedBy{n, o.Organization.Name})
		}
	}
	rows, err := s.living(v, c, open)
	if err != nil {
		return page.Wrap("earlier approvals", err)
	}
	view.remember(rows, open, v.Now)
	reused, err := s.Store.LastReuse(ctx, v.Person.ID, c.ID)
	if err != nil {
		return page.Wrap("reuse", err)
	}
	if reused > 0 {
		when := page.On(reused, v.Now)
		view.Reused = &when
	}
	return nil
}

// living gives the person's live connections of the client, the newest in each
// organization before the others there. One that ended takes no place from
// them, and where they are many, neither does one of another organization.
func (s *Server) living(v *page.Visit, c client.Client, open []grantset.Offer) ([]store.ApprovalRow, error) {
	ctx, f := v.R.Context(), store.ApprovalFilter{Client: c.ID, Person: v.Person.ID, State: "live", Limit: manyLive}
	rows, next, err := s.Store.Approvals(ctx, f)
	if err != nil || next == "" {
		return rows, err
	}
	f.Limit = 1
	for _, o := range open {
		f.Organization = o.Organization.ID
		newest, _, err := s.Store.Approvals(ctx, f)
		if err != nil {
			return nil, err
		}
		rows = append(rows, newest...)
	}
	return rows, nil
}

// remember shows the newest live connection in each organization, which comes
// first of them in rows. Only earlier connections in the chosen organization can
// be ended with an approval.
func (view *consentPage) remember(rows []store.ApprovalRow, open []grantset.Offer, now time.Time) {
	seen := map[string]bool{}
	var classes []string
	for _, r := range rows {
		name := nameOf(open, r.Organization)
		if name == "" || seen[r.Organization] {
			continue
		}
		seen[r.Organization] = true
		if len(open) == 1 {
			name = ""
		}
		view.Earlier = append(view.Earlier, earlier{page.On(r.CreatedAt, now), name})
		for _, o := range view.Organizations {
			if o.ID == r.Organization {
				classes = append(classes, o.Class)
			}
		}
	}
	if !slices.Contains(classes, "") { // else it could not be told when to show it
		view.Replaces = strings.Join(classes, " ")
	}
}

// A nowherePage says that no organization of the person allows this (ux 6, E4).
type nowherePage struct {
	page.Frame
	App           page.App // not ours
	Request       string
	Organizations []closed
}

// closed is an organization whose AI integration is off.
type closed struct {
	Name     string
	Settings string   // path
	Admin    bool     // the person is one
	Admins   []string // names of up to three
}

func (s *Server) showNowhere(v *page.Visit, c client.Client, p question, offers []grantset.Offer, how showing) error {
	view := &nowherePage{Frame: s.Frame(v, "nowhere.title"), App: s.app(c, p.authorization), Request: s.sealQuestion(p)}
	for _, o := range offers {
		admins, err := s.Store.Admins(v.R.Context(), o.Organization.ID, 3)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return page.Wrap("admins", err)
		}
		view.Organizations = append(view.Organizations,
			closed{o.Organization.Name, page.IntegrationPath(o.Organization.ID), o.Member.Admin, names(admins)})
	}
	view.Same = s.SealPath(p.path())
	view.Instead = view.Same
	status := http.StatusForbidden
	if how.status != http.StatusOK {
		status = how.status
	}
	return s.Show(v, status, nowhereTemplate, view)
}

func names(people []org.Person) []string {
	var out []string
	for _, p := range people {
		out = append(out, p.Name)
	}
	return out
}
