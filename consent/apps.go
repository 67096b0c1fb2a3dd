package consent

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// unusedDays is after how many days without use Connected apps gives a hint.
const unusedDays = 90

// An appsPage is Connected apps: clients, with the person's approvals of them
// in one organization inside (decision P2).
type appsPage struct {
	page.Frame
	Organization string  // not ours, as are all names below
	Path         string  // of this page
	Revoked      *string // name of the app whose access was just revoked
	Changed      *string // name of the app whose approval was just edited
	Kept         *string // name of the app whose approval was saved as it was
	Apps         []connected
	Ended        []endedApproval
}

type connected struct {
	App       page.App
	Approvals []shownApproval
	Revoke    string // path of the confirmation
	lastUsed  int64
}

type shownApproval struct {
	Access    page.Access
	Connected page.Moment
	Used      *page.Moment
	Unused    int          // days, when it is time to say so
	Ends      *page.Moment // nil: there is no end date
	Less      limits
	Edit      string // path of the page that changes it; empty before the app has connected
	Activity  string // path of what it did; empty where that is not known
	id        approval.ID
}

type endedApproval struct {
	App      page.App
	Had      page.Access
	When     page.Moment
	Used     *page.Moment
	Reason   approval.Reason
	Looks    string // what a refresh token that came back looked like, as store.Reuse has it
	Note     string // what an admin wrote who ended it; not ours
	Activity string // path of what it did; empty where that is not known
	id       approval.ID
	at       int64 // Unix seconds
}

// Reused reports whether an old code or refresh token was presented again.
func (e endedApproval) Reused() bool {
	return reused(e.Reason)
}

// apps is GET /organizations/{organization}/profile/api.
func (s *Server) apps(v *page.Visit) error {
	o, m, err := s.Membership(v)
	if err != nil {
		return err
	}
	rows, err := s.approvals(v, o.ID, "")
	if err != nil {
		return err
	}
	names, err := s.NamesOf(v, o, m)
	if err != nil {
		return err
	}
	lookup := lookup{Names: names}
	view := &appsPage{Frame: s.Frame(v, "apps.title", "organization", o.Name), Organization: o.Name, Path: page.AppsPath(o.ID)}
	view.Slim, view.Other, view.Packed = false, true, true
	view.Under(v, o)
	if lookup.policy, err = s.Store.Policy(v.R.Context(), o.ID); err != nil {
		return page.Wrap("rules for apps", err)
	}
	view.list(v, o, rows, lookup)
	s.linkActivity(view, o)
	if err := s.explainReuse(v, view.Ended); err != nil {
		return err
	}
	if err := s.findNotes(v, view.Ended); err != nil {
		return err
	}
	view.Revoked = justRevoked(rows, v.R.URL.Query().Get("revoked"), revokes(v))
	view.Changed, view.Kept = s.justEdited(v, rows, "changed"), s.justEdited(v, rows, "same")
	return s.Show(v, http.StatusOK, appsTemplate, view)
}

// linkActivity leads to what each app did, where that is recorded.
func (s *Server) linkActivity(view *appsPage, o org.Organization) {
	if s.Store.KeepsActivity() == 0 {
		return
	}
	for i := range view.Apps {
		for n := range view.Apps[i].Approvals {
			if one := &view.Apps[i].Approvals[n]; one.id != (approval.ID{}) {
				one.Activity = activityPath(o.ID, one.id)
			}
		}
	}
	for i := range view.Ended {
		if one := &view.Ended[i]; one.Reason != approval.NeverConnected {
			one.Activity = activityPath(o.ID, one.id)
		}
	}
}

// explainReuse finds what each refresh token that came back looked like.
func (s *Server) explainReuse(v *page.Visit, of []endedApproval) (err error) {
	for i := range of {
		if of[i].Reason != approval.RefreshReused {
			continue
		}
		if of[i].Looks, err = s.Store.Reuse(v.R.Context(), of[i].id); err != nil {
			return page.Wrap("reuse", err)
		}
	}
	return nil
}

// notesShown bounds for how many approvals a note is looked for: the last ones.
const notesShown = 50

// findNotes finds what admins wrote who ended something.
func (s *Server) findNotes(v *page.Visit, of []endedApproval) error {
	looked := 0
	for i := range of {
		if of[i].Reason != approval.RevokedByAdmin || looked == notesShown {
			continue
		}
		looked++
		events, _, err := s.Store.Events(v.R.Context(), store.EventFilter{Kind: journal.ApprovalEnded, Approval: of[i].id.String(), Limit: 1})
		if err != nil {
			return page.Wrap("note", err)
		}
		if len(events) > 0 {
			of[i].Note = events[0].Detail
		}
	}
	return nil
}

// list groups what lives by client, the most recently used first, and lists
// what has ended, the last first.
func (view *appsPage) list(v *page.Visit, o org.Organization, rows []store.ApprovalRow, l lookup) {
	place := map[string]int{} // client ID: index in view.Apps
	for _, r := range rows {
		if ended(r) {
			view.Ended = append(view.Ended, endedApproval{
				App: page.AppOf(r.Client, r.ClientName, r.RedirectURI, r.Preregistered), Had: l.Gave(r.Grant),
				When: page.At(r.EndedAt, v.Now), Used: page.LastUse(r, v.Now), Reason: r.Reason, id: r.ID, at: r.EndedAt,
			})
			continue
		}
		i, ok := place[r.Client]
		if !ok {
			i = len(view.Apps)
			place[r.Client] = i
			view.Apps = append(view.Apps, connected{
				App: page.AppOf(r.Client, r.ClientName, r.RedirectURI, r.Preregistered), Revoke: revokePath(o.ID, r.Client),
			})
		}
		c := &view.Apps[i]
		c.lastUsed = max(c.lastUsed, r.LastUsed)
		one := shownApproval{Access: l.Gives(r.Grant), Connected: page.On(r.CreatedAt, v.Now), Used: page.LastUse(r, v.Now), Less: l.limits(r.Grant)}
		if r.EndsAt > 0 {
			one.Ends = new(page.On(r.EndsAt, v.Now))
		}
		if r.Phase == approval.Live {
			one.id = r.ID
			if !v.Acting() {
				one.Edit = editPath(o.ID, r.ID)
			}
		}
		if days := page.DaysSince(max(r.LastUsed, r.CreatedAt), v.Now); days > unusedDays {
			one.Unused = days
		}
		c.Approvals = append(c.Approvals, one)
	}
	slices.SortStableFunc(view.Apps, func(a, b connected) int { return cmp.Compare(b.lastUsed, a.lastUsed) })
	slices.SortStableFunc(view.Ended, func(a, b endedApproval) int { return cmp.Compare(b.at, a.at) })
}

func ended(r store.ApprovalRow) bool { return r.Phase == approval.Ended }

// approvals gives all of the person's approvals in an organization, of one
// client or of all, newest first.
func (s *Server) approvals(v *page.Visit, organization, client string) ([]store.ApprovalRow, error) {
	f := store.ApprovalFilter{Person: v.Person.ID, Organization: organization, Client: client, Limit: 1000}
	return store.Collect(&f.After, func() ([]store.ApprovalRow, string, error) { return s.Store.Approvals(v.R.Context(), f) })
}

// justRevoked names the client whose access the person has just revoked, if
// that is true: the ID stands in an address that anybody can write.
func justRevoked(rows []store.ApprovalRow, client string, by approval.Reason) *string {
	var name *string
	for _, r := range rows {
		switch {
		case r.Client != client:
		case !ended(r):
			return nil
		case r.Reason == by && name == nil:
			name = new(nameOfApp(r))
		}
	}
	return name
}

func nameOfApp(r store.ApprovalRow) string {
	return cmp.Or(r.ClientName, page.HostOf(r.RedirectURI).String())
}

// A revokePage asks whether the access of a client is to end.
type revokePage struct {
	page.Frame
	App          page.App // not ours
	Organization string   // not ours
	Here, Back   string   // paths
}

// revokePage is GET .../clients/{client}/revoke.
func (s *Server) revokePage(v *page.Visit) error {
	o, rows, err := s.ofClient(v)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(rows, func(r store.ApprovalRow) bool { return !ended(r) }) {
		return v.See(page.AppsPath(o.ID)) // done already, in another tab
	}
	r := rows[0]
	view := &revokePage{Frame: s.Frame(v, "revoke.title"), Organization: o.Name,
		Here: revokePath(o.ID, r.Client), Back: page.AppsPath(o.ID), App: page.AppOf(r.Client, r.ClientName, r.RedirectURI, r.Preregistered)}
	view.Other = true
	return s.Show(v, http.StatusOK, revokeTemplate, view)
}

// revoke is POST .../clients/{client}/revoke. It ends all of the person's
// approvals of the client in the organization (decision P2). Done twice, it is
// no error.
func (s *Server) revoke(v *page.Visit) error {
	if _, err := s.Changing(v); err != nil {
		return err
	}
	o, rows, err := s.ofClient(v)
	if err != nil {
		return err
	}
	f := store.ApprovalFilter{Client: rows[0].Client, Person: v.Person.ID, Organization: o.ID}
	if _, err := s.Store.EndApprovals(v.R.Context(), f, revokes(v), s.Act(v)); err != nil && !errors.Is(err, store.ErrNotFound) {
		return page.Wrap("revoke", err)
	}
	return v.See(page.WithQuery(page.AppsPath(o.ID), "revoked", rows[0].Client))
}

// revokes is the reason of what is revoked: the person is not told that they
// did it themselves where support staff did.
func revokes(v *page.Visit) approval.Reason {
	if v.Acting() {
		return approval.RevokedByOperator
	}
	return approval.RevokedByPerson
}

// ofClient gives the person's own approvals of the client in the path, of
// which there is at least one.
func (s *Server) ofClient(v *page.Visit) (org.Organization, []store.ApprovalRow, error) {
	o, _, err := s.Membership(v)
	if err != nil {
		return org.Organization{}, nil, err
	}
	client := v.R.PathValue("client")
	if client == "" || !org.Storable(client) {
		return org.Organization{}, nil, page.ErrNoPage
	}
	rows, err := s.approvals(v, o.ID, client)
	if err != nil {
		return org.Organization{}, nil, err
	}
	if len(rows) == 0 {
		return org.Organization{}, nil, page.ErrNoPage
	}
	return o, rows, nil
}

func revokePath(organization, client string) string {
	return fmt.Sprintf("%s/clients/%s/revoke", page.AppsPath(organization), url.PathEscape(client))
}
