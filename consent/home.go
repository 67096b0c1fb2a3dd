package consent

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// home is GET /: the person's organizations, each with what can be done there.
func (s *Server) home(v *page.Visit) error {
	if !v.SignedIn() {
		return s.ToSignIn(v, "/")
	}
	offers, err := s.Store.Offers(v.R.Context(), v.Person.ID)
	if err != nil {
		return page.Wrap("organizations", err)
	}
	view := &homePage{Frame: s.Frame(v, "home.title")}
	view.Other, view.Packed = true, true
	if view.Left, err = s.justLeft(v, offers); err != nil {
		return err
	}
	for _, o := range visible(v, offers) {
		view.Organizations = append(view.Organizations, homeOrganization{
			ID: o.Organization.ID, Name: o.Organization.Name, Admin: o.Member.Admin, Open: o.Organization.AIIntegration,
			Roles: len(o.Member.Roles()), Apps: page.AppsPath(o.Organization.ID), Leave: leavePath(o.Organization.ID),
			Integration: page.IntegrationPath(o.Organization.ID),
		})
	}
	return s.Show(v, http.StatusOK, homeTemplate, view)
}

// A homePage lists the person's organizations.
type homePage struct {
	page.Frame
	Organizations []homeOrganization
	Left          string // name of the one that the person has just left; not ours
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
	page.Frame
	In []appsIn
}

type appsIn struct {
	Name string // not ours
	Path string
	Apps int // that act for the person there
}

// everyApp is GET /connected-apps: Connected apps for whoever comes from nowhere in
// particular. Who is in one organization goes on to its page.
func (s *Server) everyApp(v *page.Visit) error {
	if !v.SignedIn() {
		return page.ErrSignIn
	}
	offers, err := s.Store.Offers(v.R.Context(), v.Person.ID)
	if err != nil {
		return page.Wrap("organizations", err)
	}
	offers = visible(v, offers)
	if len(offers) == 1 {
		return v.See(page.AppsPath(offers[0].Organization.ID))
	}
	view := &everyPage{Frame: s.Frame(v, "apps.name")}
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
		view.In = append(view.In, appsIn{o.Organization.Name, page.AppsPath(o.Organization.ID), len(apps)})
	}
	return s.Show(v, http.StatusOK, everyTemplate, view)
}

func leavePath(organization string) string {
	return "/organizations/" + url.PathEscape(organization) + "/leave"
}

// A leavePage asks whether the person wants to leave an organization.
type leavePage struct {
	page.Frame
	Organization string // not ours
	Admin        bool
	Apps         int    // connections that end
	Member       string // sealed: who was a member where
	Here, Back   string // paths
}

// leavePage is GET /organizations/{organization}/leave.
func (s *Server) leavePage(v *page.Visit) error {
	o, m, err := s.Membership(v)
	if err != nil {
		return err
	}
	rows, err := s.approvals(v, o.ID, "")
	if err != nil {
		return err
	}
	view := &leavePage{Frame: s.Frame(v, "leave.title"), Organization: o.Name, Admin: m.Admin, Here: leavePath(o.ID), Back: "/",
		Member: s.Seal(sealedMember, membership{o.ID, v.Person.ID})}
	view.Other = true
	for _, r := range rows {
		if !ended(r) {
			view.Apps++
		}
	}
	return s.Show(v, http.StatusOK, leaveTemplate, view)
}

// A membership is one that a page was made for.
type membership struct{ Organization, Person string }

// leave is POST /organizations/{organization}/leave (decision P14). Done twice, it is no
// error: the form says that its person was a member there, however old it is.
func (s *Server) leave(v *page.Visit) error {
	form, err := s.Changing(v)
	if err != nil {
		return err
	}
	o, _, err := s.Membership(v)
	was, here := membership{}, membership{v.R.PathValue("organization"), v.Person.ID}
	if errors.Is(err, page.ErrNoPage) && s.Open(sealedMember, page.One(form, "member"), &was) && was == here {
		return s.left(v, was.Organization)
	}
	if err != nil {
		return err
	}
	if err := s.Store.RemoveMember(v.R.Context(), o.ID, v.Person.ID, s.Act(v)); err != nil {
		return page.Wrap("leave", err)
	}
	return s.left(v, o.ID)
}

// left leads home, which says that an organization was left.
func (s *Server) left(v *page.Visit, organization string) error {
	return v.See(page.WithQuery("/", "left", s.SealDone(v, sealedLeft, organization)))
}

// justLeft names the organization that the person has just left, unless they are a member
// again.
func (s *Server) justLeft(v *page.Visit, now []grantset.Offer) (string, error) {
	id := s.JustDone(v, sealedLeft, v.R.URL.Query().Get("left"))
	if id == "" || slices.ContainsFunc(now, func(o grantset.Offer) bool { return o.Organization.ID == id }) {
		return "", nil
	}
	o, err := s.Store.Organization(v.R.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return o.Name, page.Wrap("organization", err)
}
