package signin

import (
	"errors"
	"net/http"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// actorName is who acts for somebody as it can stand on a page and in the
// journal.
func actorName(name string) string {
	if name != "" && (len(name) > 100 || client.CheckName(name) != nil) {
		return "somebody"
	}
	return name
}

// errActing is what is not for support staff who see somebody else's pages.
var errActing = page.Refusal{Status: http.StatusForbidden, Why: "acting", Titled: "acting.short"}

// Themselves keeps from support staff who act as somebody what only that
// person may do. Each attempt is an event that names both.
func (s *Server) Themselves(f func(*page.Visit) error) func(*page.Visit) error {
	return func(v *page.Visit) error {
		if !v.Acting() {
			return f(v)
		}
		s.actingRefused(v, v.Person.ID, v.ActingIn, "impersonating")
		return errActing
	}
}

// actingRefused records an attempt, as whom and where it was, and why not.
func (s *Server) actingRefused(v *page.Visit, person, organization, why string) {
	if org.CheckID(person) != nil || org.CheckID(organization) != nil { // of a path that names nobody
		person, organization = "", ""
	}
	s.Record(v, store.Event{Kind: journal.ImpersonationRefused, Person: person, Organization: organization,
		Actor: v.By(), Reason: why, Detail: v.R.Pattern})
}

// stopActing is POST /support/stop. Done twice, it is no error.
func (s *Server) stopActing(v *page.Visit) error {
	if _, err := s.Changing(v); errors.Is(err, page.ErrSignIn) {
		return v.See(s.SignInPath("")) // who acted from elsewhere may have stopped: their session ended with it
	} else if err != nil {
		return err
	}
	if !v.Acting() {
		return v.See("/")
	}
	if err := s.BeThemselves(v); err != nil {
		return err
	}
	if !v.SignedIn() {
		return v.See(s.SignInPath(""))
	}
	return v.See("/support")
}

// BeThemselves ends an impersonation, under a new value of the session.
func (s *Server) BeThemselves(v *page.Visit) error {
	if v.ActsElsewhere() {
		return s.endElsewhere(v)
	}
	next := page.NewCookie()
	if err := s.Store.StopActing(v.R.Context(), v.Session, next, s.Act(v)); errors.Is(err, store.ErrNotFound) {
		return page.ErrStale // in another tab, meanwhile
	} else if err != nil {
		return page.Wrap("stop acting", err)
	}
	v.Session, v.Person, v.Actor, v.ActingIn = next, v.Actor, org.Person{}, ""
	page.SetCookie(v, "session", next)
	return nil
}

// endElsewhere ends the session of somebody who acts for another: who they
// are themselves is known elsewhere.
func (s *Server) endElsewhere(v *page.Visit) error {
	if err := s.Store.EndSession(v.R.Context(), v.Session); err != nil && !errors.Is(err, store.ErrNotFound) {
		return page.Wrap("end session", err)
	}
	s.Record(v, store.Event{Kind: journal.ImpersonationStopped, Person: v.Person.ID, Actor: v.By()})
	v.Session, v.Person, v.Actor = "", org.Person{}, org.Person{}
	page.SetCookie(v, "session", "")
	return nil
}
