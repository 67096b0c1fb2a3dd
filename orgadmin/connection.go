package orgadmin

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

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
	Ends         *page.Moment
	Reviewed     *page.Moment
	Reviewer     string      // name
	Access       page.Access // without the person's personal items
	ID           string
	Post, Back   string // paths: of the revocation, and of the table
	Path         string // of the pages that it belongs to
	Activity     string // path of what it did; empty where that is not known
	Told         []told
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
	r, err := s.Store.Connection(v.R.Context(), o.ID, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, store.ApprovalRow{}, page.ErrNoPage
	} else if err != nil {
		return nil, store.ApprovalRow{}, page.Wrap("connection", err)
	}
	c, err := s.newConnection(v, r)
	if err != nil {
		return nil, store.ApprovalRow{}, err
	}
	view := &connectionPage{Frame: s.Frame(v, "integration.title", "organization", o.Name), Organization: o.Name, App: c.App, Who: c.Person,
		Email: c.Email, Connected: page.On(r.CreatedAt, v.Now), Used: c.Used, Ends: c.Ends, Reviewed: c.Reviewed, Reviewer: c.Reviewer, ID: c.ID,
		Post: c.Details + "/revoke", Back: page.IntegrationPath(o.ID), Path: page.IntegrationPath(o.ID)}
	view.Other = true
	view.Under(v, o, page.Crumb{Text: v.Words.Say("integration.name").String(), Path: view.Back})
	view.Told, err = s.justDone(v, o)
	return view, r.ApprovalRow, err
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
	names, err := s.NamesOf(v, o, m)
	if err != nil {
		return err
	}
	view.Slim, view.Packed, view.Title = false, true, v.Words.Say("connection.title").String()
	if s.Store.KeepsActivity() > 0 {
		view.Activity = activityPath(r.Organization, r.ID)
	}
	view.Access = names.Gives(r.Grant)
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
func (s *Server) endConnection(v *page.Visit, _ org.Organization, _ url.Values) error {
	view, r, err := s.connection(v)
	if err != nil {
		return err
	}
	switch err := s.Store.EndAsAdmin(v.R.Context(), r.Organization, v.Person.ID, r.ID, s.Act(v)); {
	case errors.Is(err, store.ErrNotFound): // since it was asked
		return page.ErrNoPage
	case err != nil:
		return page.Wrap("revoke", err)
	}
	return v.See(page.WithQuery(view.Back, "revoked", r.ID.String()))
}
