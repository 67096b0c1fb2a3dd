package orgadmin

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

const (
	connectionsShown = 25   // on one page of the table
	lookedThrough    = 5000 // connections that are looked through while somebody waits, at least
	requestsBeside   = 3    // cards of requests beside the connections
	listedToEnd      = 50   // connections that are named before they end
	maxNote          = 500  // of a note to people: code points
)

// An integrationPage is the connections of an organization, as its admins see them.
type integrationPage struct {
	adminHead
	All          store.ConnectionCounts
	Due          *due
	Requests     []wanted // some of them
	MoreRequests bool
	Find, Access string // the filter as it was sent
	Only         string // of what it shows alone
	Filtered     bool
	Shown        int // what the filter leaves; -1: nobody has counted
	Connections  []connection
	After, CSV   string
	First, Next  string // paths
	Fault        page.Said
}

// due is how many connections the rules want to have been reviewed.
type due struct{ Connections, Days int }

// A connection is one approval in the table.
type connection struct {
	ID       string
	App      page.App
	Person   string
	Email    string
	Kind     grantset.Kind
	Access   page.Access // of what the table shows; without the person's personal items
	Used     *page.Moment
	Ends     *page.Moment
	Reviewed *page.Moment
	Reviewer string // name
	Details  string // path
	row      store.ApprovalRow
}

// integration is GET /organizations/{organization}/settings/ai-integration.
func (s *Server) integration(v *page.Visit) error {
	o, err := s.administered(v)
	switch {
	case err != nil:
		return err
	case !o.AIIntegration:
		return s.switchedOff(v, o)
	}
	return s.showConnections(v, o, v.R.URL.Query(), nil)
}

// filterOf reads what of the connections is to be shown; what is no filter is all.
func filterOf(o org.Organization, q url.Values) store.ConnectionFilter {
	f := store.ConnectionFilter{Organization: o.ID, Find: strings.TrimSpace(q.Get("find")), After: q.Get("after")}
	if kind := grantset.Kind(q.Get("access")); slices.Contains(grantset.Kinds, kind) {
		f.Access = kind
	}
	if show := store.Show(q.Get("show")); slices.Contains([]store.Show{store.ShowUnreviewed, store.ShowUnused, store.ShowEnding, store.ShowBeyond}, show) {
		f.Show = show
	}
	return f
}

// showConnections answers with the table, where a fault is said beside it.
func (s *Server) showConnections(v *page.Visit, o org.Organization, q url.Values, fault page.Said) error {
	title, status := "connections.title", http.StatusOK
	if fault != nil {
		title, status = "connections.error", http.StatusUnprocessableEntity
	}
	h, err := s.adminHead(v, o, "connections", title)
	if err != nil {
		return err
	}
	f := filterOf(o, q)
	view := &integrationPage{adminHead: h, Find: f.Find, Access: string(f.Access), Only: string(f.Show), After: f.After, Fault: fault}
	view.Filtered = view.Find+view.Access+view.Only != ""
	view.CSV = page.WithQuery(h.Path+"/connections.csv", "find", view.Find, "access", view.Access, "show", view.Only)
	whole, err := s.fill(v, o, f, view)
	if err != nil {
		return err
	}
	view.Shown = view.count(whole)
	return s.Show(v, status, integrationTemplate, view)
}

// fill asks for the table and for what is above it at the same time: each looks through
// all connections of the organization. whole: the list ends with this page.
func (s *Server) fill(v *page.Visit, o org.Organization, f store.ConnectionFilter, view *integrationPage) (whole bool, err error) {
	var all sync.WaitGroup
	var counted, beside error
	all.Go(func() { view.All, counted = s.Store.ConnectionCounts(v.R.Context(), o.ID) })
	all.Go(func() { beside = s.besides(v, o, view) })
	f.Limit = connectionsShown
	rows, next, err := s.Store.Connections(v.R.Context(), f)
	all.Wait()
	if counted != nil || beside != nil {
		return false, errors.Join(page.Wrap("connections", counted), beside)
	}
	// Where few match, a page can come short. Among many that is told, since somebody
	// waits; few are looked through to the end.
	for err == nil && next != "" && len(rows) < connectionsShown && view.All.Connections <= lookedThrough {
		var more []store.Connection
		f.After, f.Limit = next, connectionsShown-len(rows)
		more, next, err = s.Store.Connections(v.R.Context(), f)
		rows = append(rows, more...)
	}
	if err != nil {
		return false, cursorFault(err)
	}
	return next == "", s.fillTable(v, o, rows, next, view)
}

// besides finds what is above the table: requests that wait, and what is due.
func (s *Server) besides(v *page.Visit, o org.Organization, view *integrationPage) error {
	var err error
	if view.Requests, err = s.waiting(v, o); err != nil {
		return err
	}
	view.Waiting = len(view.Requests)
	view.MoreRequests = view.Waiting > requestsBeside
	view.Requests = view.Requests[:min(view.Waiting, requestsBeside)]
	p, err := s.Store.Policy(v.R.Context(), o.ID)
	if err != nil {
		return page.Wrap("rules", err)
	}
	if p != nil && p.ReviewDays > 0 {
		n, err := s.Store.DueForReview(v.R.Context(), o.ID, p.ReviewDays)
		if err != nil {
			return page.Wrap("review", err)
		}
		if n > 0 {
			view.Due = &due{n, p.ReviewDays}
		}
	}
	return nil
}

// fillTable shows one page of the list.
func (s *Server) fillTable(v *page.Visit, o org.Organization, rows []store.Connection, next string, view *integrationPage) error {
	for _, r := range rows {
		c, err := s.newConnection(v, r)
		if err != nil {
			return err
		}
		view.Connections = append(view.Connections, c)
	}
	at := func(after string) string {
		return page.WithQuery(view.Path, "find", view.Find, "access", view.Access, "show", view.Only, "after", after)
	}
	if view.After != "" {
		view.First = at("")
	}
	if next != "" {
		view.Next = at(next)
	}
	return s.nameAccess(v, o, view.Connections)
}

// count gives how many the filter leaves, where that is known; whole: the list ends
// with this page.
func (view *integrationPage) count(whole bool) int {
	switch alone := view.Find+view.Access == ""; {
	case view.After == "" && whole:
		return len(view.Connections)
	case alone && view.Only == "":
		return view.All.Connections
	case alone && view.Only == string(store.ShowUnreviewed):
		return view.All.Unreviewed
	case alone && view.Only == string(store.ShowEnding):
		return view.All.Ending
	}
	return -1
}

// cursorFault is what is wrong with a list: a place in it that anybody may have
// written into the address is none.
func cursorFault(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return page.ErrBadForm
	}
	return page.Wrap("connections", err)
}

// newConnection is a row of the table.
func (s *Server) newConnection(v *page.Visit, r store.Connection) (connection, error) {
	c := connection{ID: r.ID.String(), App: page.AppOf(r.Client, r.ClientName, r.RedirectURI, r.Preregistered), Person: r.PersonName, Email: r.PersonEmail,
		Kind: r.Grant.Kind, Used: page.LastUse(r.ApprovalRow, v.Now), row: r.ApprovalRow, Details: connectionPath(r.Organization, r.ID)}
	if r.EndsAt > 0 {
		c.Ends = new(page.On(r.EndsAt, v.Now))
	}
	if r.ReviewedAt == 0 {
		return c, nil
	}
	c.Reviewed = new(page.On(r.ReviewedAt, v.Now))
	var err error
	c.Reviewer, err = s.nameOfActor(v, r.ReviewedBy)
	return c, err
}

// pickedIn gives the connections that a form names, each once.
func pickedIn(form url.Values) ([]approval.ID, error) {
	var ids []approval.ID
	seen := map[approval.ID]bool{}
	for _, text := range form["connection"] {
		id, err := approval.ParseID(text)
		if err != nil {
			return nil, page.ErrBadForm
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// bulk is POST .../ai-integration/connections: what an admin does to the ones that
// they picked, or to all that the list shows.
func (s *Server) bulk(v *page.Visit, o org.Organization, form url.Values) error {
	ids, err := pickedIn(form)
	if err != nil {
		return err
	}
	action := page.One(form, "action")
	if action == "all" {
		return s.markAllPage(v, o, form)
	}
	switch {
	case len(ids) == 0:
		return s.showConnections(v, o, form, v.Words.Say("connections.nothing"))
	case len(ids) > store.MaxConnections:
		return s.showConnections(v, o, form, v.Words.Say("connections.many", "most", store.MaxConnections))
	}
	switch action {
	case "review":
		n, err := s.Store.MarkReviewed(v.R.Context(), o.ID, v.Person.ID, ids, s.Act(v))
		if err != nil {
			return page.Wrap("review", err)
		}
		return s.done(v, o, backFrom(o, form, ids), "marked:"+strconv.Itoa(n))
	case "end":
		return s.endingPage(v, o, ids, form, nil)
	case "ended":
		return s.endPicked(v, o, ids, form)
	}
	return page.ErrBadForm
}

// backFrom is where an admin was: at one connection, or at a page of the list.
func backFrom(o org.Organization, form url.Values, ids []approval.ID) string {
	if page.One(form, "at") == "connection" && len(ids) == 1 {
		return connectionPath(o.ID, ids[0])
	}
	f := filterOf(o, form)
	return page.WithQuery(page.IntegrationPath(o.ID), "find", f.Find, "access", string(f.Access), "show", string(f.Show), "after", f.After)
}

// endPicked ends them, with what the admin wrote to the people.
func (s *Server) endPicked(v *page.Visit, o org.Organization, ids []approval.ID, form url.Values) error {
	note := strings.TrimSpace(strings.ReplaceAll(page.One(form, "note"), "\r\n", "\n"))
	if fault := textFault(v, note, maxNote, true); fault != nil {
		return s.endingPage(v, o, ids, form, fault)
	}
	act := s.Act(v)
	act.Reason = note
	n, err := s.Store.EndConnections(v.R.Context(), o.ID, v.Person.ID, ids, act)
	if err != nil {
		return page.Wrap("end", err)
	}
	return s.done(v, o, backFrom(o, url.Values{}, nil), "ended:"+strconv.Itoa(n))
}

// textFault says what is wrong with a text that an admin writes to people, nil for
// nothing.
func textFault(v *page.Visit, text string, most int, lines bool) page.Said {
	switch {
	case utf8.RuneCountInString(text) > most:
		return v.Words.Say("connections.long", "most", most)
	case !org.Legible(text, lines):
		return v.Words.Say("connections.signs")
	}
	return nil
}

// An endingPage asks whether connections are to end, or to be marked as reviewed.
type endingPage struct {
	page.Frame
	Connections []connection // some of them
	IDs         []string     // of all
	More        int          // that are not shown
	Note        string
	Fault       page.Said
	Full        int    // how many there are at most, where that many were found; 0: there are fewer
	Post, Back  string // paths
}

// endingPage answers with it. Only those that live and are of the organization are
// asked about.
func (s *Server) endingPage(v *page.Visit, o org.Organization, ids []approval.ID, form url.Values, fault page.Said) error {
	title, status := "ending.title", http.StatusOK
	if fault != nil {
		title, status = "ending.error", http.StatusUnprocessableEntity
	}
	view := &endingPage{Frame: s.Frame(v, title), Note: page.One(form, "note"), Fault: fault,
		Post: page.IntegrationPath(o.ID) + "/connections", Back: backFrom(o, form, ids)}
	view.Other, view.Packed = true, true
	for _, id := range ids {
		r, err := s.Store.Connection(v.R.Context(), o.ID, id)
		if errors.Is(err, store.ErrNotFound) || err == nil && ended(r.ApprovalRow) {
			continue
		} else if err != nil {
			return page.Wrap("connection", err)
		}
		view.IDs = append(view.IDs, r.ID.String())
		if len(view.Connections) >= listedToEnd {
			view.More++
			continue
		}
		c, err := s.newConnection(v, r)
		if err != nil {
			return err
		}
		view.Connections = append(view.Connections, c)
	}
	if len(view.IDs) == 0 { // done already, in another tab
		return s.done(v, o, page.IntegrationPath(o.ID), "ended:0")
	}
	if err := s.nameAccess(v, o, view.Connections); err != nil {
		return err
	}
	return s.Show(v, status, endConnectionsTemplate, view)
}

// markAllPage asks whether all that the filter shows are to be marked as reviewed.
func (s *Server) markAllPage(v *page.Visit, o org.Organization, form url.Values) error {
	f := filterOf(o, form)
	f.After, f.Limit = "", store.MaxConnections
	view := &endingPage{Frame: s.Frame(v, "connections.marktitle"), Post: page.IntegrationPath(o.ID) + "/connections", Back: backFrom(o, form, nil)}
	view.Other, view.Packed = true, true
	for {
		rows, next, err := s.Store.Connections(v.R.Context(), f)
		if err != nil {
			return cursorFault(err)
		}
		for _, r := range rows {
			view.IDs = append(view.IDs, r.ID.String())
		}
		if f.After = next; next == "" || len(view.IDs) >= store.MaxConnections {
			break
		}
	}
	if len(view.IDs) > store.MaxConnections || f.After != "" {
		view.IDs, view.Full = view.IDs[:min(len(view.IDs), store.MaxConnections)], store.MaxConnections
	}
	if len(view.IDs) == 0 { // marked, ended or changed in another tab: the list says that none matches
		form.Del("after")
		return v.See(backFrom(o, form, nil))
	}
	return s.Show(v, http.StatusOK, markTemplate, view)
}
