package consent

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// connectionsShown is how many connections one page of the table has.
const connectionsShown = 100

// An integrationPage is what the admins of an organization see of its AI
// integration (ux 8). Every name in it is text that others wrote.
type integrationPage struct {
	page.Frame
	Organization string
	Path         string // of this page
	On           bool
	By           string       // who turned it on; empty: the service
	Since        *page.Moment // when; nil: not known
	All          tally
	Find, Access string // the filter as it was sent
	Shown        tally  // what the filter leaves
	Connections  []connection
	Earlier      string // path of the page before; empty: there is none
	Later        string
	Done         *revoked
}

// A tally counts connections, and the people that they act for.
type tally struct{ Connections, People int }

// A connection is one approval in the table.
type connection struct {
	App     page.App
	Person  string
	Email   string
	Kind    grantset.Kind
	Access  access // of what the table shows; without the person's personal items
	Used    *page.Moment
	Details string // path
	Revoke  string // path of the confirmation
	row     store.ApprovalRow
}

// revoked says what has become of a connection that an admin pressed Revoke
// for. Already: it had ended by then.
type revoked struct {
	App, Person string
	Already     bool
}

// integration is GET /organizations/{organization}/settings/ai-integration.
func (s *Server) integration(v *page.Visit) error {
	o, err := s.administered(v)
	if err != nil {
		return err
	}
	all, err := s.connections(v, o.ID)
	if err != nil {
		return err
	}
	q := v.R.URL.Query()
	view := &integrationPage{Frame: s.Frame(v, "integration.title", "organization", o.Name), Organization: o.Name, Path: integrationPath(o.ID),
		On: o.AIIntegration, All: tallyOf(all), Find: strings.TrimSpace(q.Get("find")), Access: q.Get("access")}
	view.Slim, view.Other, view.Packed, view.Wide = false, true, true, true
	view.Under(v, o)
	if err := s.switchedBy(v, view, o); err != nil {
		return err
	}
	left := slices.DeleteFunc(all, func(c connection) bool { return !c.matches(view.Find, view.Access) })
	view.Shown = tallyOf(left)
	view.page(left, q.Get("page"))
	if err := s.nameAccess(v, o, view.Connections); err != nil {
		return err
	}
	if view.Done, err = s.doneByAdmin(v, o, q.Get("revoked")); err != nil {
		return err
	}
	return s.Show(v, http.StatusOK, integrationTemplate, view)
}

// nameAccess says which roles the connections of one page of the table have, as far
// as their people fill them now.
func (s *Server) nameAccess(v *page.Visit, o org.Organization, shown []connection) error {
	names, err := s.allRoles(v, o)
	if err != nil {
		return err
	}
	for i := range shown {
		c := &shown[i]
		names.member, err = s.Store.Member(v.R.Context(), c.row.Person, o.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) { // else gone since
			return page.Wrap("member", err)
		}
		c.Access = names.gives(c.row.Grant)
		c.Access.Personal = false // it is theirs alone
	}
	return nil
}

// administered gives the organization of the path, to its admins. To
// everybody else the page does not exist.
func (s *Server) administered(v *page.Visit) (org.Organization, error) {
	o, m, err := s.membership(v)
	if err == nil && !m.Admin {
		err = page.ErrNoPage
	}
	return o, err
}

// switchedBy says who turned AI integration on, and when.
func (s *Server) switchedBy(v *page.Visit, view *integrationPage, o org.Organization) error {
	by, err := s.Store.Switched(v.R.Context(), o.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && !o.AIIntegration {
		return nil
	} else if err != nil {
		return page.Wrap("switched by", err)
	}
	when := page.On(by.At, v.Now)
	view.Since = &when
	if id, ok := strings.CutPrefix(by.Actor, "person:"); ok {
		p, err := s.Store.Person(v.R.Context(), id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return page.Wrap("switched by", err)
		}
		view.By = p.Name
	}
	return nil
}

// connections lists what lives in an organization: the widest access first,
// then what was used last.
func (s *Server) connections(v *page.Visit, organization string) ([]connection, error) {
	people, err := s.peopleOf(v.R.Context(), organization)
	if err != nil {
		return nil, err
	}
	f := store.ApprovalFilter{Organization: organization, Unended: true, Limit: 1000}
	rows, err := collect(&f.After, func() ([]store.ApprovalRow, string, error) { return s.Store.Approvals(v.R.Context(), f) })
	if err != nil {
		return nil, err
	}
	var out []connection
	for _, r := range rows {
		if !ended(r) {
			out = append(out, newConnection(v, r, people[r.Person]))
		}
	}
	width := func(c connection) int { return slices.Index(widestFirst, c.Kind) }
	slices.SortStableFunc(out, func(a, b connection) int {
		return cmp.Or(cmp.Compare(width(a), width(b)), cmp.Compare(b.row.LastUsed, a.row.LastUsed))
	})
	return out, nil
}

var widestFirst = []grantset.Kind{grantset.Organization, grantset.Everything, grantset.Roles}

// peopleOf gives the members of an organization by ID.
func (s *Server) peopleOf(ctx context.Context, organization string) (map[string]org.Person, error) {
	f := store.PeopleFilter{Organization: organization, Limit: 1000}
	people, err := collect(&f.After, func() ([]org.Person, string, error) { return s.Store.People(ctx, f) })
	out := map[string]org.Person{}
	for _, p := range people {
		out[p.ID] = p
	}
	return out, err
}

func newConnection(v *page.Visit, r store.ApprovalRow, p org.Person) connection {
	c := connection{App: page.AppOf(r.ClientName, r.RedirectURI, r.Preregistered), Person: p.Name, Email: p.Email,
		Kind: r.Grant.Kind, Used: lastUse(r, v.Now), row: r,
		Details: connectionPath(r.Organization, r.ID), Revoke: connectionPath(r.Organization, r.ID) + "/revoke"}
	return c
}

// matches reports whether the filter leaves a connection.
func (c connection) matches(find, access string) bool {
	if slices.Contains(widestFirst, grantset.Kind(access)) && c.Kind != grantset.Kind(access) {
		return false
	}
	return org.Finds(strings.Join([]string{c.App.Name, c.App.Host.String(), c.Person, c.Email}, "\n"), find)
}

func tallyOf(all []connection) tally {
	people := map[string]bool{}
	for _, c := range all {
		people[c.row.Person] = true
	}
	return tally{len(all), len(people)}
}

// page takes one page out of a list; number counts from 1.
func (view *integrationPage) page(all []connection, number string) {
	last := max(1, (len(all)+connectionsShown-1)/connectionsShown)
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		n = 1
	}
	n = min(n, last)
	at := func(n int) string {
		return page.WithQuery(view.Path, "find", view.Find, "access", view.Access, "page", strconv.Itoa(n))
	}
	if n > 1 {
		view.Earlier = at(n - 1)
	}
	if n < last {
		view.Later = at(n + 1)
	}
	from := (n - 1) * connectionsShown
	view.Connections = all[from:min(from+connectionsShown, len(all))]
}

// doneByAdmin tells of a connection that has just ended, if that is true: the
// ID stands in an address that anybody can write.
func (s *Server) doneByAdmin(v *page.Visit, o org.Organization, id string) (*revoked, error) {
	parsed, err := approval.ParseID(id)
	if err != nil {
		return nil, nil
	}
	r, err := s.Store.Approval(v.R.Context(), parsed)
	if errors.Is(err, store.ErrNotFound) || err == nil && (r.Organization != o.ID || !ended(r)) {
		return nil, nil
	} else if err != nil {
		return nil, page.Wrap("approval", err)
	}
	p, err := s.Store.Person(v.R.Context(), r.Person)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, page.Wrap("person", err)
	}
	return &revoked{nameOfApp(r), p.Name, r.Reason != approval.RevokedByAdmin}, nil
}

// A connectionPage shows one connection to an admin, or asks whether it is to
// end. App, Who and the names of roles are not ours.
type connectionPage struct {
	page.Frame
	Organization string
	App          page.App
	Who          string
	Email        string
	Connected    page.Moment
	Used         *page.Moment
	Access       access // without the person's personal items
	Post, Back   string // paths: of the revocation, and of the table
}

// connection finds the living approval of the path, in the organization of an
// admin. What has ended is told by the table.
func (s *Server) connection(v *page.Visit) (*connectionPage, store.ApprovalRow, error) {
	o, err := s.administered(v)
	if err != nil {
		return nil, store.ApprovalRow{}, err
	}
	id, err := approval.ParseID(v.R.PathValue("approval"))
	if err != nil {
		return nil, store.ApprovalRow{}, page.ErrNoPage
	}
	r, err := s.Store.Approval(v.R.Context(), id)
	if errors.Is(err, store.ErrNotFound) || err == nil && r.Organization != o.ID {
		return nil, store.ApprovalRow{}, page.ErrNoPage
	} else if err != nil {
		return nil, store.ApprovalRow{}, page.Wrap("approval", err)
	}
	p, err := s.Store.Person(v.R.Context(), r.Person)
	if err != nil {
		return nil, store.ApprovalRow{}, page.Wrap("person", err)
	}
	c := newConnection(v, r, p)
	view := &connectionPage{Frame: s.Frame(v, "integration.title", "organization", o.Name), Organization: o.Name, App: c.App, Who: p.Name,
		Email: p.Email, Connected: page.On(r.CreatedAt, v.Now), Used: c.Used, Post: c.Revoke, Back: integrationPath(o.ID)}
	view.Other = true
	view.Under(v, o, page.Crumb{Text: v.Words.Say("integration.name").String(), Path: view.Back})
	return view, r, nil
}

// connectionPage is GET .../ai-integration/{approval}: which roles somebody
// chose.
func (s *Server) connectionPage(v *page.Visit) error {
	view, r, err := s.connection(v)
	switch {
	case err != nil:
		return err
	case ended(r):
		return v.See(page.WithQuery(view.Back, "revoked", r.ID.String()))
	}
	o := org.Organization{ID: r.Organization, Name: view.Organization}
	m, err := s.Store.Member(v.R.Context(), r.Person, r.Organization)
	if err != nil && !errors.Is(err, store.ErrNotFound) { // else gone since
		return page.Wrap("member", err)
	}
	names, err := s.roles(v, o, m)
	if err != nil {
		return err
	}
	view.Slim, view.Packed, view.Title = false, true, v.Words.Say("connection.title").String()
	view.Access = names.gives(r.Grant)
	view.Access.Personal = false // it is theirs alone
	return s.Show(v, http.StatusOK, connectionTemplate, view)
}

// endConnectionPage is GET .../ai-integration/{approval}/revoke.
func (s *Server) endConnectionPage(v *page.Visit) error {
	view, r, err := s.connection(v)
	switch {
	case err != nil:
		return err
	case ended(r): // done already, in another tab
		return v.See(page.WithQuery(view.Back, "revoked", r.ID.String()))
	}
	view.Title = v.Words.Say("revoke.title").String()
	return s.Show(v, http.StatusOK, endConnectionTemplate, view)
}

// endConnection is POST .../ai-integration/{approval}/revoke (decision P8).
// Done twice, it is no error.
func (s *Server) endConnection(v *page.Visit) error {
	if _, err := s.Changing(v); err != nil {
		return err
	}
	view, r, err := s.connection(v)
	if err != nil {
		return err
	}
	switch err := s.Store.EndAsAdmin(v.R.Context(), r.Organization, v.Person.ID, r.ID, s.Act(v)); {
	case errors.Is(err, store.ErrNotAllowed), errors.Is(err, store.ErrNotFound): // since it was asked
		return page.ErrNoPage
	case err != nil:
		return page.Wrap("revoke", err)
	}
	return v.See(page.WithQuery(view.Back, "revoked", r.ID.String()))
}

// An offPage asks whether AI integration is to be turned off.
type offPage struct {
	page.Frame
	Organization string // not ours
	All          tally
	Post, Back   string // paths
}

// offPage is GET .../ai-integration/off.
func (s *Server) offPage(v *page.Visit) error {
	o, err := s.administered(v)
	switch {
	case err != nil:
		return err
	case !o.AIIntegration: // done already, in another tab
		return v.See(integrationPath(o.ID))
	}
	all, err := s.connections(v, o.ID)
	if err != nil {
		return err
	}
	view := &offPage{Frame: s.Frame(v, "off.title"), Organization: o.Name, All: tallyOf(all),
		Post: integrationPath(o.ID) + "/off", Back: integrationPath(o.ID)}
	view.Other = true
	return s.Show(v, http.StatusOK, offTemplate, view)
}

// turn is POST .../ai-integration/on and off (decision P7). Done twice, it is
// no error.
func (s *Server) turn(on bool) func(*page.Visit) error {
	return func(v *page.Visit) error {
		if _, err := s.Changing(v); err != nil {
			return err
		}
		o, err := s.administered(v)
		if err != nil {
			return err
		}
		switch err := s.Store.SwitchIntegration(v.R.Context(), o.ID, v.Person.ID, on, s.Act(v)); {
		case errors.Is(err, store.ErrNotAllowed): // since it was asked
			return page.ErrNoPage
		case err != nil:
			return page.Wrap("AI integration", err)
		}
		return v.See(integrationPath(o.ID))
	}
}

func integrationPath(organization string) string {
	return "/organizations/" + url.PathEscape(organization) + "/settings/ai-integration"
}

func connectionPath(organization string, id approval.ID) string {
	return integrationPath(organization) + "/" + id.String()
}
