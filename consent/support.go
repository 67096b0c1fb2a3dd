package consent

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// Support staff can see a member's pages as that member does, for an hour, with
// a reason that the journal keeps (decision P9). They look, and they can end
// what apps may do for that person; nothing else.

// maxReason bounds why somebody acts as somebody else, in characters.
const maxReason = 300

// membersFound is how many people a search of support staff shows.
const membersFound = 20

// acting reports whether support staff see the pages of somebody else.
func (v *visit) acting() bool { return v.actor.ID != "" }

// who is the person who does what this request does: whoever is at the
// keyboard.
func (v *visit) who() org.Person {
	if v.acting() {
		return v.actor
	}
	return v.person
}

// errActing is what is not for support staff who see somebody else's pages.
var errActing = errors.New("impersonating")

// themselves keeps from support staff who act as somebody what only that
// person may do. Each attempt is an event that names both.
func (s *Server) themselves(f func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		if !v.acting() {
			return f(v)
		}
		s.actingRefused(v, v.person.ID, v.actingIn, "impersonating")
		return errActing
	}
}

// actingRefused records an attempt, as whom and where it was, and why not.
func (s *Server) actingRefused(v *visit, person, organization, why string) {
	if org.CheckID(person) != nil || org.CheckID(organization) != nil { // of a path that names nobody
		person, organization = "", ""
	}
	s.record(v, store.Event{Kind: "impersonation_refused", Person: person, Organization: organization,
		Actor: v.by(), Reason: why, Detail: v.r.Pattern})
}

// A supportPage finds members. All names are text that others wrote.
type supportPage struct {
	frame
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
func (s *Server) supportPage(v *visit) error {
	if err := support(v); err != nil {
		return err
	}
	view := &supportPage{frame: s.frame(v, "support.title"), Find: strings.TrimSpace(v.r.URL.Query().Get("find"))}
	view.Slim, view.Other, view.Packed = false, true, true
	if view.Find == "" || !utf8.ValidString(view.Find) || strings.Contains(view.Find, "\x00") {
		return s.show(v, http.StatusOK, supportTemplate, view)
	}
	people, next, err := s.Store.People(v.r.Context(), store.PeopleFilter{Query: view.Find, Limit: membersFound})
	if err != nil {
		return wrap("people", err)
	}
	view.More = next != ""
	for _, p := range people {
		one := foundPerson{Name: p.Name, Email: p.Email, Staff: p.Support, Gone: !p.Active}
		offers, err := s.Store.Offers(v.r.Context(), p.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return wrap("organizations", err)
		}
		for _, o := range offers {
			one.Member = append(one.Member, actAsLink{o.Organization.Name, actAsPath(o.Organization.ID, p.ID)})
		}
		view.People = append(view.People, one)
	}
	return s.show(v, http.StatusOK, supportTemplate, view)
}

// support lets nobody pass but support staff.
func support(v *visit) error {
	switch {
	case !v.signedIn():
		return errSignIn
	case !v.person.Support:
		return errNoPage
	}
	return nil
}

// An actAsPage asks why support staff want to see a member's pages.
type actAsPage struct {
	frame
	Member       org.Person // not ours
	Organization string     // not ours
	Reason       string     // as it was entered
	Fault        string
	Post, Back   string // paths
}

// member gives the member that the path names. Support staff are not there:
// nobody acts as them.
func (s *Server) member(v *visit) (*actAsPage, error) {
	if err := support(v); err != nil {
		return nil, err
	}
	organization, person := v.r.PathValue("organization"), v.r.PathValue("person")
	if org.CheckID(organization) != nil || org.CheckID(person) != nil {
		return nil, errNoPage
	}
	ctx := v.r.Context()
	m, err := s.Store.Member(ctx, person, organization)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errNoPage
	} else if err != nil {
		return nil, wrap("member", err)
	}
	p, err := s.Store.Person(ctx, m.Person)
	if err != nil {
		return nil, wrap("member", err)
	}
	o, err := s.Store.Organization(ctx, organization)
	if err != nil {
		return nil, wrap("organization", err)
	}
	if p.Support {
		return nil, errNoPage
	}
	view := &actAsPage{frame: s.frame(v, "actas.title"), Member: p, Organization: o.Name,
		Post: actAsPath(o.ID, p.ID), Back: "/support"}
	view.Other = true
	return view, nil
}

// actAsPage is GET /support/{organization}/{person}.
func (s *Server) actAsPage(v *visit) error {
	view, err := s.member(v)
	if err != nil {
		return err
	}
	return s.show(v, http.StatusOK, actAsTemplate, view)
}

// actAs is POST /support/{organization}/{person}: it begins.
func (s *Server) actAs(v *visit) error {
	form, err := s.changing(v)
	if err != nil {
		return err
	}
	view, err := s.member(v)
	if errors.Is(err, errNoPage) {
		s.actingRefused(v, v.r.PathValue("person"), v.r.PathValue("organization"), "not_allowed")
	}
	if err != nil {
		return err
	}
	view.Reason = strings.TrimSpace(one(form, "reason"))
	if wrong := faultOfReason(view.Reason); wrong != "" {
		view.Fault = v.words.say(wrong).String()
		view.Title = v.words.say("actas.error").String()
		return s.show(v, http.StatusUnprocessableEntity, actAsTemplate, view)
	}
	act, next := s.act(v), newCookie()
	act.Reason = view.Reason
	err = s.Store.StartActing(v.r.Context(), store.Acting{Session: v.session, Next: next,
		Person: view.Member.ID, Organization: v.r.PathValue("organization")}, act)
	switch {
	case errors.Is(err, store.ErrNotAllowed), errors.Is(err, store.ErrNotFound): // since it was asked
		s.actingRefused(v, view.Member.ID, v.r.PathValue("organization"), "not_allowed")
		return errNoPage
	case err != nil:
		return wrap("act as a member", err)
	}
	setCookie(v, "session", next)
	return v.see(appsPath(v.r.PathValue("organization")))
}

// faultOfReason gives the id of what is wrong with a reason.
func faultOfReason(text string) string {
	switch {
	case text == "":
		return "actas.missing"
	case utf8.RuneCountInString(text) > maxReason:
		return "actas.long"
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "actas.broken"
	}
	return ""
}

// stopActing is POST /support/stop. Done twice, it is no error.
func (s *Server) stopActing(v *visit) error {
	if _, err := s.changing(v); err != nil {
		return err
	}
	if !v.acting() {
		return v.see("/")
	}
	if err := s.beThemselves(v); err != nil {
		return err
	}
	if !v.signedIn() {
		return v.see(s.signInPath("", true))
	}
	return v.see("/support")
}

// beThemselves ends an impersonation, under a new value of the session.
func (s *Server) beThemselves(v *visit) error {
	if v.actsElsewhere() {
		return s.endElsewhere(v)
	}
	next := newCookie()
	if err := s.Store.StopActing(v.r.Context(), v.session, next, s.act(v)); errors.Is(err, store.ErrNotFound) {
		return errStale // in another tab, meanwhile
	} else if err != nil {
		return wrap("stop acting", err)
	}
	v.session, v.person, v.actor, v.actingIn = next, v.actor, org.Person{}, ""
	setCookie(v, "session", next)
	return nil
}

// An actingPage says to support staff that only the person can approve (ux 6,
// E3).
type actingPage struct {
	frame
	App     app // not ours
	Request string
}

// showActing is E3, and an event. p asks about the request again, once support
// staff are themselves.
func (s *Server) showActing(v *visit, c client.Client, p page) error {
	s.refused(v, c.ID, "impersonating")
	view := &actingPage{frame: s.frame(v, "consent.title"), App: newApp(c, p.RedirectURI), Request: s.sealPage(p)}
	view.Stops = false // the page has its own button
	return s.show(v, http.StatusForbidden, actingTemplate, view)
}

// decideActing answers a consent page that support staff post while they act
// as somebody: they can go back to themselves, or cancel.
func (s *Server) decideActing(v *visit, c client.Client, p page, form url.Values) error {
	p = s.newPage(v, p.authorization) // whoever it was made for: what that page made stays
	switch ours := s.ours(v, form); {
	case ours && one(form, "action") == "stop_impersonating":
		if err := s.beThemselves(v); err != nil {
			return err
		}
		if !v.signedIn() {
			return v.see(s.signInPath(s.sealPath(p.path()), true))
		}
		return v.see(p.path())
	case ours && one(form, "decision") == "cancel":
		return s.cancel(v, c, p)
	}
	return s.showActing(v, c, p)
}

// visible leaves the organizations that a visit shows: support staff see the
// one that they act in.
func (v *visit) visible(offers []grantset.Offer) []grantset.Offer {
	if !v.acting() || v.actsElsewhere() {
		return offers
	}
	return slices.DeleteFunc(offers, func(o grantset.Offer) bool { return o.Organization.ID != v.actingIn })
}

func actAsPath(organization, person string) string {
	return "/support/" + url.PathEscape(organization) + "/" + url.PathEscape(person)
}
