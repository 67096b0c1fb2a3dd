package console

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// An organizationRow is an organization in a list. Others wrote its name.
type organizationRow struct {
	ID, Name  string
	On        bool // AI integration
	Members   int
	Approvals int // that have not ended
	Rules     string
	Calls     string // in the window of the limit; "" is unknown
	Path      string
}

// An organizationsPage lists organizations.
type organizationsPage struct {
	frame
	Query, On string // of the filter, as sent
	Rows      []organizationRow
	Next      string
	More      bool
}

func (s *Server) organizationsPage(v *visit) error {
	f, err := v.Filter("q", "ai")
	if err != nil {
		return err
	}
	on, err := f.OneOf("ai", "on", "off")
	if err != nil {
		return err
	}
	found, next, err := s.API.Store.FindOrganizations(v.Context(), store.OrganizationFilter{Query: strings.TrimSpace(f.Get("q")), AI: on, After: f.After, Limit: f.Limit})
	if err != nil {
		return f.CursorError(err)
	}
	p := organizationsPage{frame: s.frame(v, "organizations", "Organizations"), Query: f.Get("q"), On: f.Get("ai"), Next: v.link("/organizations", next), More: f.After != ""}
	if p.Rows, err = s.organizationRows(v, found); err != nil {
		return err
	}
	return s.render(v.w, 200, organizationsTemplate, &p)
}

func (s *Server) organizationRows(v *visit, found []store.OrganizationSize) (rows []organizationRow, err error) {
	ids := make([]string, len(found))
	for i, o := range found {
		ids[i] = o.ID
	}
	approvals, err := s.API.Store.OrganizationUses(v.Context(), ids)
	if err != nil {
		return nil, err
	}
	for _, o := range found {
		rows = append(rows, organizationRow{
			ID: o.ID, Name: o.Name, On: o.AIIntegration, Members: o.Members, Approvals: approvals[o.ID], Path: organizationPath(o.ID),
			Rules: strings.Join(rulesInWords(o.Policy), ". "), Calls: s.callsOf(o.ID),
		})
	}
	return rows, nil
}

// callsOf says how many calls an organization has made of those that it may.
func (s *Server) callsOf(organization string) string {
	if s.Calls == nil {
		return ""
	}
	made, most := s.Calls(organization)
	return operator.Number(made) + " of " + operator.Number(most)
}

var unknownInWords = map[policy.Rule]string{
	"": "Members may connect every app", policy.Allow: "Members may connect every app", policy.Ask: "An admin decides about new apps", policy.Block: "Apps that are not listed are blocked",
}

// rulesInWords says an organization's rules for apps, each in a sentence without its
// full stop; none are nothing.
func rulesInWords(p *policy.Policy) (said []string) {
	if p == nil {
		return nil
	}
	said = append(said, unknownInWords[p.Unknown])
	listed := map[policy.Rule]int{}
	for _, a := range p.Apps {
		listed[a.Rule]++
	}
	for _, r := range []struct {
		rule     policy.Rule
		one, all string
	}{{policy.Allow, "1 app allowed", "%s apps allowed"}, {policy.Ask, "1 app to ask about", "%s apps to ask about"}, {policy.Block, "1 app blocked", "%s apps blocked"}} {
		if n := listed[r.rule]; n > 0 {
			said = append(said, operator.Count(n, r.one, r.all))
		}
	}
	return append(said, limitsInWords(p)...)
}

// An organizationPage shows one organization.
type organizationPage struct {
	frame
	Organization organizationRow
	Admins       []personRow
	MoreAdmins   bool
	Rules        []string
	People       int // with approvals
	Members      []memberRow
	More         string // path of all members; "" shows all
	Next         string // of the members' own page
	Later        bool   // that is not its first
	Events       []eventRow
	Busy         []busyRow // who called most within the last day
	Done         string
}

// A busyRow is an approval by which an organization is called. Names are not ours.
type busyRow struct {
	Client, Person   string
	Calls            int
	Path, PersonPath string
}

// busyShown is how many an organization's page names.
const busyShown = 5

// busy are the approvals that call most, where that is recorded.
func (s *Server) busy(v *visit, organization string) (rows []busyRow, err error) {
	if s.API.Store.KeepsActivity() == 0 {
		return nil, nil
	}
	all, err := s.API.Store.Busiest(v.Context(), organization, v.now.Add(-24*time.Hour).Unix(), busyShown)
	names := s.newNameCache(v)
	for _, b := range all {
		rows = append(rows, busyRow{b.ClientName, names.person(b.Person), b.Calls, "/approvals/" + b.ID.String() + "/activity", personPath(b.Person)})
	}
	return rows, err
}

// A memberRow is a member of an organization.
type memberRow struct {
	personRow
	Admin              bool
	Roles              int
	Remove, Make, Take string // paths
}

var doneWithOrganization = map[string]string{
	"on": "AI integration is on. What has ended stays ended.", "off": "AI integration is off. All approvals there have ended.",
	"member": "They are a member now.", "removed": "They are no member any more. Their approvals there have ended.",
	"admin": "They are an admin now.", "no-admin": "They are a member, and no admin any more.",
}

// adminsShown is how many admins an organization's page names.
const adminsShown = 10

// sizeOf is the organization of the path.
func (s *Server) sizeOf(v *visit) (store.OrganizationSize, error) {
	o, err := s.API.Store.OrganizationSize(v.Context(), v.PathValue("id"))
	return o, orNotFound(err, "organization")
}

func (s *Server) organizationPage(v *visit) error {
	f, err := v.Filter("done")
	if err != nil {
		return err
	}
	o, err := s.sizeOf(v)
	if err != nil {
		return err
	}
	rows, err := s.organizationRows(v, []store.OrganizationSize{o})
	if err != nil {
		return err
	}
	p := organizationPage{frame: s.frame(v, "organizations", o.Name), Organization: rows[0], Rules: rulesInWords(o.Policy), Done: doneWithOrganization[f.Get("done")]}
	if done := f.Get("done"); done == "on" && !o.AIIntegration || done == "off" && o.AIIntegration {
		p.Done = "" // the address is older than the state
	}
	admins, err := s.API.Store.Admins(v.Context(), o.ID, adminsShown+1)
	if err != nil {
		return orNotFound(err, "organization")
	}
	for _, a := range admins[:min(adminsShown, len(admins))] {
		p.Admins = append(p.Admins, newPersonRow(a))
	}
	p.MoreAdmins = len(admins) > adminsShown
	next := ""
	if p.Members, next, err = s.memberRows(v, o.ID, "", personsShown); err != nil {
		return err
	}
	if next != "" {
		p.More = p.Organization.Path + "/members"
	}
	if p.Events, err = s.eventsOf(v, store.EventFilter{Organization: o.ID, Limit: personsShown}); err != nil {
		return err
	}
	if p.Busy, err = s.busy(v, o.ID); err != nil {
		return err
	}
	return s.render(v.w, 200, organizationTemplate, &p)
}

func (s *Server) membersPage(v *visit) error {
	f, err := v.Filter()
	if err != nil {
		return err
	}
	o, err := s.sizeOf(v)
	if err != nil {
		return err
	}
	p := organizationPage{frame: s.frame(v, "organizations", "Members of "+o.Name), Organization: organizationRow{ID: o.ID, Name: o.Name, Members: o.Members, Path: organizationPath(o.ID)}, Later: f.After != ""}
	next := ""
	if p.Members, next, err = s.memberRows(v, o.ID, f.After, f.Limit); err != nil {
		return f.CursorError(err)
	}
	p.Next = v.link(p.Organization.Path+"/members", next)
	return s.render(v.w, 200, membersTemplate, &p)
}

// memberRows are the members of an organization behind a cursor, by ID.
func (s *Server) memberRows(v *visit, organization, after string, limit int) (rows []memberRow, next string, err error) {
	found, next, err := s.API.Store.People(v.Context(), store.PeopleFilter{Organization: organization, After: after, Limit: limit})
	if err != nil {
		return nil, "", err
	}
	people, err := s.personRows(v, found)
	if err != nil {
		return nil, "", err
	}
	for _, p := range people {
		row, at := memberRow{personRow: p}, organizationPath(organization)+"/members/"+url.PathEscape(p.ID)
		row.Remove, row.Make, row.Take = at+"/remove", at+"/make-admin", at+"/take-admin"
		for _, m := range p.all {
			if m.Organization.ID == organization {
				row.Admin, row.Roles = m.Admin, m.Roles
			}
		}
		rows = append(rows, row)
	}
	return rows, next, nil
}

// organizationChange is a change of the organization of the path.
func (s *Server) organizationChange(v *visit, c change) (change, store.OrganizationSize, error) {
	o, err := s.sizeOf(v)
	c.Under, c.Name, c.Back = "organizations", o.Name, organizationPath(o.ID)
	return c, o, err
}

func (s *Server) turnOff(v *visit) (change, error) {
	c, o, err := s.organizationChange(v, change{Before: "Turn AI integration off in ", After: "?", Button: "Turn it off", Keep: "Leave it on"})
	if err != nil {
		return c, err
	}
	n, err := s.API.Store.Unended(v.Context(), store.ApprovalFilter{Organization: o.ID})
	c.Lines = []string{operator.Count(n, "1 approval there ends", "%s approvals there end") + " at once, and nobody can connect an app until it is on again. What has ended does not come back by itself. Its admins can turn it on too."}
	c.do = func(_ url.Values, reason string) (string, error) {
		return c.Back + "?done=off", s.API.Store.SetIntegration(v.Context(), o.ID, false, v.Act(reason))
	}
	return c, err
}

func (s *Server) turnOn(v *visit) (change, error) {
	c, o, err := s.organizationChange(v, change{Before: "Turn AI integration on in ", After: "?", Button: "Turn it on", Keep: "Leave it off", Gentle: true,
		Lines: []string{"Members can connect apps there, under its rules. Ended approvals stay ended."}})
	c.do = func(_ url.Values, reason string) (string, error) {
		return c.Back + "?done=on", s.API.Store.SetIntegration(v.Context(), o.ID, true, v.Act(reason))
	}
	return c, err
}

func (s *Server) addMember(v *visit) (change, error) {
	c, o, err := s.organizationChange(v, change{
		Before: "Add a member to ", Button: "Add", Keep: "Add nobody", Gentle: true,
		Lines:  []string{"Where a service keeps its directory here, it tells of members by itself: what it does not know of goes at its next import with --prune."},
		Fields: []field{{ID: "person", Label: "Person", Kind: "text", Hint: "Email or ID"}, {ID: "admin", Label: "As an admin, who decides about members' apps", Kind: "check"}},
	})
	c.do = func(form url.Values, reason string) (string, error) {
		p, err := s.API.Store.Person(v.Context(), strings.TrimSpace(form.Get("person")))
		if errors.Is(err, store.ErrNotFound) {
			return "", invalid{"person", "No person has this email or ID."}
		} else if err != nil {
			return "", err
		}
		return c.Back + "?done=member", s.API.Store.SetMember(v.Context(), o.ID, p.ID, form.Get("admin") != "", v.Act(reason))
	}
	return c, err
}

// memberChange is a change of the member of the path. A person who is no member is
// not found.
func (s *Server) memberChange(v *visit, c change) (change, store.OrganizationSize, org.Person, error) {
	c, o, err := s.organizationChange(v, c)
	if err != nil {
		return c, o, org.Person{}, err
	}
	p, err := s.API.Store.Person(v.Context(), v.PathValue("person"))
	if err == nil && p.ID != v.PathValue("person") {
		err = store.ErrNotFound
	}
	c.Name, c.After = p.Name, fmt.Sprintf(c.After, o.Name)
	return c, o, p, orNotFound(err, "member")
}

func (s *Server) removeMember(v *visit) (change, error) {
	c, o, p, err := s.memberChange(v, change{Before: "Remove ", After: " from %s?", Button: "Remove", Keep: "Leave it",
		Lines: []string{"Their approvals there end at once, and their roles go. They stay a person, with their other organizations."}})
	c.do = func(_ url.Values, reason string) (string, error) {
		err := s.API.Store.RemoveMember(v.Context(), o.ID, p.ID, v.Act(reason))
		return c.Back + "?done=removed", orNotFound(err, "member")
	}
	return c, err
}

func (s *Server) makeAdmin(v *visit) (change, error) { return s.setAdmin(v, true) }
func (s *Server) takeAdmin(v *visit) (change, error) { return s.setAdmin(v, false) }

func (s *Server) setAdmin(v *visit, on bool) (change, error) {
	ask, done := change{Before: "Make ", After: " an admin of %s?", Button: "Make admin", Keep: "Leave it",
		Lines: []string{"Admins decide which apps members may connect, and can let an app see and change everything there."}}, "admin"
	if !on {
		ask, done = change{Before: "Take from ", After: " that they are an admin of %s?", Button: "Take it", Keep: "Leave it",
			Lines: []string{"They stay a member. Apps that they let do everything there get only what they can access themselves."}}, "no-admin"
	}
	c, o, p, err := s.memberChange(v, ask)
	c.do = func(_ url.Values, reason string) (string, error) {
		err := s.API.Store.SetAdmin(v.Context(), o.ID, p.ID, on, v.Act(reason))
		return c.Back + "?done=" + done, orNotFound(err, "member")
	}
	return c, err
}

// limitsInWords says how far an organization's rules let apps go.
func limitsInWords(p *policy.Policy) (said []string) {
	switch p.Ceiling.Widest {
	case grantset.Roles:
		said = append(said, "Apps get selected roles only")
	case grantset.Everything:
		said = append(said, "Apps get at most what the member can access")
	}
	if p.Ceiling.ReadOnly {
		said = append(said, "Apps read only")
	}
	if p.Ceiling.NoPersonal {
		said = append(said, "No personal items")
	}
	if n := len(p.Ceiling.Never); n > 0 {
		said = append(said, operator.Count(n, "1 role is never given", "%s roles are never given"))
	}
	if p.MaxDays > 0 {
		said = append(said, operator.Count(p.MaxDays, "1 day at most", "%s days at most"))
	}
	if p.ReviewDays > 0 {
		said = append(said, operator.Count(p.ReviewDays, "Reviewed each day", "Reviewed every %s days"))
	}
	return said
}
