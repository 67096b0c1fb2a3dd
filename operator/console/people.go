package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// A personRow is a person in a list. Others wrote all names.
type personRow struct {
	ID, Name, Email string
	Active, Support bool
	Organizations   []membershipRow
	MoreOf          int // organizations that are not shown
	Approvals       int // that have not ended
	SignedIn        moment
	Path            string

	all []store.Membership
}

// A membershipRow is an organization of a person.
type membershipRow struct {
	ID, Name string
	Admin    bool
	Roles    int
	Path     string
}

// organizationsShown is how many organizations of a person a list has.
const organizationsShown = 3

func personPath(id string) string       { return "/people/" + url.PathEscape(id) }
func organizationPath(id string) string { return "/organizations/" + url.PathEscape(id) }

func newPersonRow(p org.Person) personRow {
	return personRow{ID: p.ID, Name: p.Name, Email: p.Email, Active: p.Active, Support: p.Support, Path: personPath(p.ID)}
}

func newMembershipRow(m store.Membership) membershipRow {
	return membershipRow{m.Organization.ID, m.Organization.Name, m.Admin, m.Roles, organizationPath(m.Organization.ID)}
}

// personRows adds to people where they are members, and what they use.
func (s *Server) personRows(v *visit, people []org.Person) (rows []personRow, err error) {
	ids := make([]string, len(people))
	for i, p := range people {
		ids[i] = p.ID
	}
	uses, err := s.API.Store.PersonUses(v.Context(), ids)
	if err != nil {
		return nil, err
	}
	members, err := s.API.Store.Memberships(v.Context(), ids)
	if err != nil {
		return nil, err
	}
	for _, p := range people {
		row, of := newPersonRow(p), members[p.ID]
		row.Approvals, row.all = uses[p.ID].Approvals, of
		row.SignedIn = moment{Text: "not signed in"}
		if at := uses[p.ID].SignedIn; at > 0 {
			row.SignedIn = onDay(at, v.now)
		}
		for _, m := range of[:min(organizationsShown, len(of))] {
			row.Organizations = append(row.Organizations, newMembershipRow(m))
		}
		row.MoreOf = len(of) - len(row.Organizations)
		rows = append(rows, row)
	}
	return rows, nil
}

// A peoplePage lists people.
type peoplePage struct {
	frame
	Query, State string // of the filter, as sent
	Rows         []personRow
	Next         string
	More         bool // the first page is another one
}

func (s *Server) peoplePage(v *visit) error {
	f, err := v.Filter("q", "state")
	if err != nil {
		return err
	}
	state, err := f.OneOf("state", store.PeopleActive, store.PeopleDeactivated, store.PeopleSupport)
	if err != nil {
		return err
	}
	find := strings.TrimSpace(f.Get("q"))
	found, next, err := s.API.Store.People(v.Context(), store.PeopleFilter{Query: find, State: state, After: f.After, Limit: f.Limit})
	if err != nil {
		return f.CursorError(err)
	}
	if known, err := s.API.Store.Person(v.Context(), find); err == nil && f.After == "" && state == "" && find == known.ID &&
		!slices.ContainsFunc(found, func(p org.Person) bool { return p.ID == known.ID }) {
		found = append([]org.Person{known}, found...) // by ID, which is in no name
	} else if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	p := peoplePage{frame: s.frame(v, "people", "People"), Query: f.Get("q"), State: f.Get("state"), Next: v.link("/people", next), More: f.After != ""}
	if p.Rows, err = s.personRows(v, found); err != nil {
		return err
	}
	return s.render(v.w, 200, peopleTemplate, &p)
}

// A personPage shows one person.
type personPage struct {
	frame
	Person    personRow
	Sessions  []sessionRow
	Factors   []factorRow
	Recovery  int // codes that are left
	Ways      []string
	Members   []membershipRow
	Approvals []approvalRow
	More      bool // there are more approvals
	Events    []eventRow
	Done      string // what was just done, in a sentence
	CanLink   bool   // reset links are made here
	Mails     bool   // and mailed
}

// A sessionRow is where somebody is signed in.
type sessionRow struct {
	Device, Address string
	Began, Seen     moment
}

// A factorRow is a second factor. Its person wrote Name.
type factorRow struct {
	Kind, Name  string
	Added, Used moment
}

// personsShown is how many approvals and events of a person, or members and events of
// an organization, its page has.
const personsShown = 20

// doneWithPerson are the sentences after a change.
var doneWithPerson = map[string]string{
	"added": "The person is added.", "out": "All sessions are ended.", "reset": "Second factors and accounts at providers are forgotten, and all sessions ended.",
	"deactivated": "The person is deactivated. Their sessions and approvals have ended.", "reactivated": "The person is active again. What has ended stays ended.",
	"mailed": "The link is on its way, by mail.",
}

// personOf is the person of the path, by ID alone: an email may be somebody else's
// tomorrow.
func (s *Server) personOf(v *visit) (org.Person, error) {
	p, err := s.API.Store.Person(v.Context(), v.PathValue("id"))
	if err == nil && p.ID != v.PathValue("id") {
		err = store.ErrNotFound
	}
	return p, orNotFound(err, "person")
}

func (s *Server) personPage(v *visit) error {
	f, err := v.Filter("done")
	if err != nil {
		return err
	}
	person, err := s.personOf(v)
	if err != nil {
		return err
	}
	rows, err := s.personRows(v, []org.Person{person})
	if err != nil {
		return err
	}
	p := personPage{frame: s.frame(v, "people", person.Name), Person: rows[0], Done: doneWithPerson[f.Get("done")], CanLink: s.API.CanLink(), Mails: s.API.Mails()}
	if done := f.Get("done"); done == "deactivated" && person.Active || done == "reactivated" && !person.Active {
		p.Done = "" // the address is older than the state
	}
	for _, fill := range []func(*visit, *personPage) error{s.fillSignIn, s.fillApprovals} {
		if err := fill(v, &p); err != nil {
			return err
		}
	}
	p.fillMembers()
	if p.Events, err = s.eventsOf(v, store.EventFilter{Person: person.ID, Limit: personsShown}); err != nil {
		return err
	}
	return s.render(v.w, 200, personTemplate, &p)
}

// eventsOf gives entries of the journal as rows.
func (s *Server) eventsOf(v *visit, f store.EventFilter) (rows []eventRow, err error) {
	found, _, err := s.API.Store.Events(v.Context(), f)
	names := s.newNameCache(v)
	for _, e := range found {
		rows = append(rows, names.event(e))
	}
	return rows, err
}

var factorKinds = map[string]string{store.FactorOneTime: "Authenticator app", store.FactorPasskey: "Passkey"}

// fillSignIn says how and where somebody signs in.
func (s *Server) fillSignIn(v *visit, p *personPage) error {
	sessions, err := s.API.Store.Sessions(v.Context(), p.Person.ID, "")
	if err != nil {
		return err
	}
	for _, one := range sessions {
		device := "an unknown browser"
		switch {
		case one.Browser != "" && one.System != "":
			device = one.Browser + " on " + one.System
		case one.Browser+one.System != "":
			device = one.Browser + one.System
		}
		p.Sessions = append(p.Sessions, sessionRow{device, one.Address, onDay(one.CreatedAt, v.now), onDay(one.SeenAt, v.now)})
	}
	factors, err := s.API.Store.Factors(v.Context(), p.Person.ID)
	if err != nil {
		return err
	}
	for _, one := range factors {
		if one.Kind == store.FactorRecovery {
			p.Recovery++
			continue
		}
		row := factorRow{Kind: factorKinds[one.Kind], Name: one.Name, Added: onDay(one.CreatedAt, v.now), Used: moment{Text: "never"}}
		if one.UsedAt > 0 {
			row.Used = onDay(one.UsedAt, v.now)
		}
		p.Factors = append(p.Factors, row)
	}
	ways, err := s.API.Store.WaysIn(v.Context(), p.Person.ID)
	if ways.Password {
		p.Ways = append(p.Ways, "Password")
	}
	for _, issuer := range ways.Issuers {
		p.Ways = append(p.Ways, s.providerOf(issuer))
	}
	return err
}

// providerOf names a provider by its issuer, which names one that is not configured
// any more.
func (s *Server) providerOf(issuer string) string {
	for _, p := range s.Providers {
		if p.Issuer == issuer {
			return p.Name
		}
	}
	return issuer
}

func (p *personPage) fillMembers() {
	for _, m := range p.Person.all {
		p.Members = append(p.Members, newMembershipRow(m))
	}
}

func (s *Server) fillApprovals(v *visit, p *personPage) error {
	rows, next, err := s.API.Store.Approvals(v.Context(), store.ApprovalFilter{Person: p.Person.ID, State: "live", Limit: personsShown})
	names := s.newNameCache(v)
	for _, r := range rows {
		p.Approvals = append(p.Approvals, names.approval(r))
	}
	p.More = next != ""
	return err
}

// addPerson asks for somebody new.
func (s *Server) addPerson(v *visit) (change, error) {
	c := change{
		Under: "people", Before: "Add a person", Button: "Add", Keep: "Add nobody", Gentle: true, Back: "/people",
		Lines: []string{"They belong to no organization until somebody makes them a member, and have no password: send a reset link."},
		Fields: []field{
			{ID: "name", Label: "Name", Kind: "text"}, {ID: "email", Label: "Email", Kind: "email"},
			{ID: "id", Label: "ID", Kind: "text", Optional: true, Hint: "The service's own, where it has one. Without one it is random."},
		},
	}
	c.do = func(form url.Values, reason string) (string, error) {
		p, err := s.API.AddPerson(v.Call, operator.NewPerson{ID: form.Get("id"), Email: strings.TrimSpace(form.Get("email")), Name: strings.TrimSpace(form.Get("name"))}, reason)
		if errors.Is(err, store.ErrConflict) {
			return "", invalid{"email", "Somebody has this email or this ID already."}
		}
		return personPath(p.ID) + "?done=added", err
	}
	return c, nil
}

// personChange is a change of the person of the path.
func (s *Server) personChange(v *visit, c change) (change, org.Person, error) {
	p, err := s.personOf(v)
	c.Under, c.Name, c.Back = "people", p.Name, personPath(p.ID)
	return c, p, err
}

func (s *Server) signPersonOut(v *visit) (change, error) {
	c, p, err := s.personChange(v, change{
		Before: "Sign ", After: " out everywhere?", Button: "Sign out everywhere", Keep: "Leave it",
		Lines: []string{"All their sessions end at once, at every browser. Apps that they connected go on: revoke those one by one, or deactivate the person."},
	})
	c.do = func(_ url.Values, reason string) (string, error) {
		_, err := s.API.Store.EndSessions(v.Context(), p.ID, func(store.SessionInfo) bool { return true }, "", v.Act(reason))
		return c.Back + "?done=out", err
	}
	return c, err
}

func (s *Server) resetFactor(v *visit) (change, error) {
	c, p, err := s.personChange(v, change{
		Before: "Reset how ", After: " signs in?", Button: "Reset", Keep: "Leave it",
		Lines: []string{
			"For somebody who has lost authenticator app, passkey and recovery codes. These are forgotten, and who they are at providers; all their sessions end.",
			"The password alone, or the next sign-in at a provider, lets them in again. See that it is they who ask.",
		},
	})
	c.do = func(_ url.Values, reason string) (string, error) {
		_, err := s.API.Store.ResetSignIn(v.Context(), p.ID, v.Act(reason))
		return c.Back + "?done=reset", err
	}
	return c, err
}

// A linkPage shows a reset link, once.
type linkPage struct {
	frame
	Person personRow
	URL    string
	Ends   moment
}

func (s *Server) sendLink(v *visit) (change, error) {
	if !s.API.CanLink() {
		return change{}, errNoPage
	}
	c, p, err := s.personChange(v, change{
		Before: "Send ", After: " a reset link?", Button: "Send it", Keep: "Send nothing", Gentle: true,
		Lines: []string{"Whoever has the link sets a new password, once, within a day. Until then the old one stays. A later link takes its place."},
	})
	if !s.API.Mails() {
		c.Before, c.Button = "Make ", "Make it"
		c.Lines = append(c.Lines, "No mail is set up: the link is shown to you, once. See that it reaches nobody else.")
	}
	c.do = func(_ url.Values, reason string) (string, error) {
		link, err := s.API.MakeLink(v.Call, p.ID, nil, reason)
		if err != nil || link.Mailed {
			return c.Back + "?done=mailed", err
		}
		page := linkPage{frame: s.frame(v, "people", "Reset link"), Person: newPersonRow(p), URL: link.URL, Ends: onDay(link.ExpiresAt, v.now)}
		return "", s.render(v.w, http.StatusOK, linkTemplate, &page)
	}
	return c, err
}

func (s *Server) deactivatePerson(v *visit) (change, error) {
	c, p, err := s.personChange(v, change{Before: "Deactivate ", After: "?", Button: "Deactivate", Keep: "Leave it"})
	if err != nil {
		return c, err
	}
	n, err := s.API.Store.Unended(v.Context(), store.ApprovalFilter{Person: p.ID})
	c.Lines = []string{"They cannot sign in any more. Their sessions end at once, and so " + operator.Count(n, "does 1 approval", "do %s approvals") +
		": to use those again, they approve again after they are reactivated. They stay members."}
	c.do = func(_ url.Values, reason string) (string, error) {
		return c.Back + "?done=deactivated", s.API.Store.SetActive(v.Context(), p.ID, false, v.Act(reason))
	}
	return c, err
}

func (s *Server) reactivatePerson(v *visit) (change, error) {
	c, p, err := s.personChange(v, change{Before: "Reactivate ", After: "?", Button: "Reactivate", Keep: "Leave it", Gentle: true,
		Lines: []string{"They can sign in again, as a member of the same organizations. Ended approvals stay ended."}})
	c.do = func(_ url.Values, reason string) (string, error) {
		return c.Back + "?done=reactivated", s.API.Store.SetActive(v.Context(), p.ID, true, v.Act(reason))
	}
	return c, err
}
