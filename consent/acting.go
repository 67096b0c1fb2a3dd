package consent

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// acting reports whether support staff see the pages of somebody else.
func (v *visit) acting() bool { return v.actor.ID != "" }

// elsewhere begins the ID of an actor whom the other side names.
const elsewhere = "elsewhere:"

// actorName is who acts for somebody as it can stand on a page and in the
// journal.
func actorName(name string) string {
	if name != "" && (len(name) > 100 || client.CheckName(name) != nil) {
		return "somebody"
	}
	return name
}

// actsElsewhere reports whether the other side says that somebody else is at
// the keyboard. They see the person's pages as support staff do (decision P9).
func (v *visit) actsElsewhere() bool { return strings.HasPrefix(v.actor.ID, elsewhere) }

// who is the person who does what this request does: whoever is at the
// keyboard.
func (v *visit) who() org.Person {
	if v.acting() {
		return v.actor
	}
	return v.person
}

// by is who does what a request does, in the journal.
func (v *visit) by() string {
	if v.actsElsewhere() {
		return v.actor.ID
	}
	return "person:" + v.who().ID
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

// endElsewhere ends the session of somebody who acts for another: who they
// are themselves is known elsewhere.
func (s *Server) endElsewhere(v *visit) error {
	if err := s.Store.EndSession(v.r.Context(), v.session); err != nil && !errors.Is(err, store.ErrNotFound) {
		return wrap("end session", err)
	}
	s.record(v, store.Event{Kind: "impersonation_stopped", Person: v.person.ID, Actor: v.by()})
	v.session, v.person, v.actor = "", org.Person{}, org.Person{}
	setCookie(v, "session", "")
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
	view := &actingPage{frame: s.frame(v, "acting.short"), App: newApp(c, p.RedirectURI), Request: s.sealPage(p)}
	view.Stops = false // the page has its own button
	view.Instead = view.Request
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
