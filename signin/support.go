package signin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// Support staff can see a member's pages as that member does, for an hour, with
// a reason that the journal keeps (decision P9). They look, and they can end
// what apps may do for that person; nothing else.

// maxReason bounds why somebody acts as somebody else, in characters.
const maxReason = 300

// membersFound is how many people a search of support staff shows.
const membersFound = 20

// A supportPage finds members. All names are text that others wrote.
type supportPage struct {
	page.Frame
	Find   string
	People []foundPerson
	More   bool // than are shown
}

type foundPerson struct {
	Name, Email string
	Staff       bool // nobody acts as support staff
	Gone        bool // deactivated
	Member      []actAsLink
}

type actAsLink struct{ Organization, Path string }

// supportPage is GET /support. To everybody but support staff it does not
// exist.
func (s *Server) supportPage(v *page.Visit) error {
	if err := support(v); err != nil {
		return err
	}
	view := &supportPage{Frame: s.Frame(v, "support.title"), Find: strings.TrimSpace(v.R.URL.Query().Get("find"))}
	view.Slim, view.Other, view.Packed = false, true, true
	if view.Find == "" || !org.Storable(view.Find) {
		return s.Show(v, http.StatusOK, supportTemplate, view)
	}
	people, more, err := s.Store.FindPeople(v.R.Context(), view.Find, membersFound)
	if err != nil {
		return page.Wrap("people", err)
	}
	view.More = more
	for _, p := range people {
		one := foundPerson{Name: p.Name, Email: p.Email, Staff: p.Support, Gone: !p.Active}
		offers, err := s.Store.Offers(v.R.Context(), p.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return page.Wrap("organizations", err)
		}
		for _, o := range offers {
			one.Member = append(one.Member, actAsLink{o.Organization.Name, actAsPath(o.Organization.ID, p.ID)})
		}
		view.People = append(view.People, one)
	}
	return s.Show(v, http.StatusOK, supportTemplate, view)
}

// support lets nobody pass but support staff.
func support(v *page.Visit) error {
	switch {
	case !v.SignedIn():
		return page.ErrSignIn
	case !v.Person.Support:
		return page.ErrNoPage
	}
	return nil
}

// An actAsPage asks why support staff want to see a member's pages.
type actAsPage struct {
	page.Frame
	Member       org.Person // not ours
	Organization string     // not ours
	Reason       string     // as it was entered
	Fault        string
	Post, Back   string // paths
}

// member gives the member that the path names. Support staff are not there:
// nobody acts as them.
func (s *Server) member(v *page.Visit) (*actAsPage, error) {
	if err := support(v); err != nil {
		return nil, err
	}
	organization, person := v.R.PathValue("organization"), v.R.PathValue("person")
	if org.CheckID(organization) != nil || org.CheckID(person) != nil {
		return nil, page.ErrNoPage
	}
	ctx := v.R.Context()
	m, err := s.Store.Member(ctx, person, organization)
	if errors.Is(err, store.ErrNotFound) {
		return nil, page.ErrNoPage
	} else if err != nil {
		return nil, page.Wrap("member", err)
	}
	p, err := s.Store.Person(ctx, m.Person)
	if err != nil {
		return nil, page.Wrap("member", err)
	}
	o, err := s.Store.Organization(ctx, organization)
	if err != nil {
		return nil, page.Wrap("organization", err)
	}
	if p.Support {
		return nil, page.ErrNoPage
	}
	view := &actAsPage{Frame: s.Frame(v, "actas.title"), Member: p, Organization: o.Name,
		Post: actAsPath(o.ID, p.ID), Back: "/support"}
	view.Other = true
	return view, nil
}

// actAsPage is GET /support/{organization}/{person}.
func (s *Server) actAsPage(v *page.Visit) error {
	view, err := s.member(v)
	if err != nil {
		return err
	}
	return s.Show(v, http.StatusOK, actAsTemplate, view)
}

// actAs is POST /support/{organization}/{person}: it begins.
func (s *Server) actAs(v *page.Visit) error {
	form, err := s.Changing(v)
	if err != nil {
		return err
	}
	view, err := s.member(v)
	if errors.Is(err, page.ErrNoPage) {
		s.actingRefused(v, v.R.PathValue("person"), v.R.PathValue("organization"), "not_allowed")
	}
	if err != nil {
		return err
	}
	view.Reason = strings.TrimSpace(page.One(form, "reason"))
	if wrong := faultOfReason(view.Reason); wrong != "" {
		view.Fault = v.Words.Say(wrong).String()
		view.Title = v.Words.Say("actas.error").String()
		return s.Show(v, http.StatusUnprocessableEntity, actAsTemplate, view)
	}
	act, next := s.Act(v), page.NewCookie()
	act.Reason = view.Reason
	err = s.Store.StartActing(v.R.Context(), store.Acting{Session: v.Session, Next: next,
		Person: view.Member.ID, Organization: v.R.PathValue("organization")}, act)
	switch {
	case errors.Is(err, store.ErrNotAllowed), errors.Is(err, store.ErrNotFound): // since it was asked
		s.actingRefused(v, view.Member.ID, v.R.PathValue("organization"), "not_allowed")
		return page.ErrNoPage
	case err != nil:
		return page.Wrap("act as a member", err)
	}
	page.SetCookie(v, "session", next)
	return v.See(page.AppsPath(v.R.PathValue("organization")))
}

// faultOfReason gives the id of what is wrong with a reason.
func faultOfReason(text string) string {
	switch {
	case text == "":
		return "actas.missing"
	case utf8.RuneCountInString(text) > maxReason:
		return "actas.long"
	case !org.Legible(text, false):
		return "actas.broken"
	}
	return ""
}

func actAsPath(organization, person string) string {
	return "/support/" + url.PathEscape(organization) + "/" + url.PathEscape(person)
}
