package consent

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// home is GET /: the person's organizations, each with what can be done there.
func (s *Server) home(v *visit) error {
	if !v.signedIn() {
		return s.toSignIn(v, "/")
	}
	offers, err := s.Store.Offers(v.r.Context(), v.person.ID)
	if err != nil {
		return wrap("organizations", err)
	}
	view := &homePage{frame: s.frame(v, "home.title")}
	view.Other, view.Packed = true, true
	for _, o := range v.visible(offers) {
		view.Organizations = append(view.Organizations, homeOrganization{
			ID: o.Organization.ID, Name: o.Organization.Name, Admin: o.Member.Admin, Open: o.Organization.AIIntegration,
			Roles: len(o.Member.Roles()), Apps: appsPath(o.Organization.ID), Leave: leavePath(o.Organization.ID),
			Integration: integrationPath(o.Organization.ID),
		})
	}
	return s.show(v, http.StatusOK, homeTemplate, view)
}

// A homePage lists the person's organizations.
type homePage struct {
	frame
	Organizations []homeOrganization
}

type homeOrganization struct {
	ID          string
	Name        string // not ours
	Admin       bool
	Open        bool // AI integration is on
	Roles       int
	Apps, Leave string // paths
	Integration string // path, for admins
}

// An everyPage leads to the Connected apps of each organization.
type everyPage struct {
	frame
	In []appsIn
}

type appsIn struct {
	Name string // not ours
	Path string
	Apps int // that act for the person there
}

// everyApp is GET /connected-apps: Connected apps for whoever comes from nowhere in
// particular. Who is in one organization goes on to its page.
func (s *Server) everyApp(v *visit) error {
	if !v.signedIn() {
		return errSignIn
	}
	offers, err := s.Store.Offers(v.r.Context(), v.person.ID)
	if err != nil {
		return wrap("organizations", err)
	}
	offers = v.visible(offers)
	if len(offers) == 1 {
		return v.see(appsPath(offers[0].Organization.ID))
	}
	view := &everyPage{frame: s.frame(v, "apps.name")}
	view.Other, view.Packed = true, true
	for _, o := range offers {
		rows, err := s.approvals(v, o.Organization.ID, "")
		if err != nil {
			return err
		}
		apps := map[string]bool{}
		for _, r := range rows {
			if !ended(r) {
				apps[r.Client] = true
			}
		}
		view.In = append(view.In, appsIn{o.Organization.Name, appsPath(o.Organization.ID), len(apps)})
	}
	return s.show(v, http.StatusOK, everyTemplate, view)
}

func appsPath(organization string) string {
	return "/organizations/" + url.PathEscape(organization) + "/profile/api"
}

func leavePath(organization string) string {
	return "/organizations/" + url.PathEscape(organization) + "/leave"
}

// A leavePage asks whether the person wants to leave an organization.
type leavePage struct {
	frame
	Organization string // not ours
	Admin        bool
	Apps         int    // connections that end
	Here, Back   string // paths
}

// leavePage is GET /organizations/{organization}/leave.
func (s *Server) leavePage(v *visit) error {
	o, m, err := s.membership(v)
	if err != nil {
		return err
	}
	rows, err := s.approvals(v, o.ID, "")
	if err != nil {
		return err
	}
	view := &leavePage{frame: s.frame(v, "leave.title"), Organization: o.Name, Admin: m.Admin, Here: leavePath(o.ID), Back: "/"}
	view.Other = true
	for _, r := range rows {
		if !ended(r) {
			view.Apps++
		}
	}
	return s.show(v, http.StatusOK, leaveTemplate, view)
}

// leave is POST /organizations/{organization}/leave (decision P14).
func (s *Server) leave(v *visit) error {
	if _, err := s.changing(v); err != nil {
		return err
	}
	o, _, err := s.membership(v)
	if err != nil {
		return err
	}
	if err := s.Store.RemoveMember(v.r.Context(), o.ID, v.person.ID, s.act(v)); err != nil {
		return wrap("leave", err)
	}
	return v.see("/")
}

// errSignIn says that somebody has to sign in first.
var errSignIn = errors.New("nobody is signed in")

// membership gives the organization of the path and who the person is there.
// To everybody else it does not exist.
func (s *Server) membership(v *visit) (org.Organization, org.Member, error) {
	if !v.signedIn() {
		return org.Organization{}, org.Member{}, errSignIn
	}
	ctx, id := v.r.Context(), v.r.PathValue("organization")
	if org.CheckID(id) != nil || v.acting() && !v.actsElsewhere() && id != v.actingIn {
		return org.Organization{}, org.Member{}, errNoPage
	}
	m, err := s.Store.Member(ctx, v.person.ID, id)
	if errors.Is(err, store.ErrNotFound) {
		return org.Organization{}, org.Member{}, errNoPage
	} else if err != nil {
		return org.Organization{}, org.Member{}, wrap("member", err)
	}
	o, err := s.Store.Organization(ctx, id)
	if err != nil {
		return org.Organization{}, org.Member{}, wrap("organization", err)
	}
	return o, m, nil
}

// changing checks that a form which changes something was shown to this
// session, and reads it.
func (s *Server) changing(v *visit) (url.Values, error) {
	form, err := posted(v, otherBytes, otherFields)
	switch {
	case err != nil:
		return nil, err
	case !v.signedIn():
		return nil, errSignIn
	case !s.ours(v, form):
		return nil, errStale
	}
	return form, nil
}
