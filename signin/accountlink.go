package signin

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/store"
)

// vouched signs in whom a provider vouches for.
func (s *Server) vouched(v *page.Visit, p *provider.Provider, a attempt, c provider.Claims) error {
	fault := notSignedIn{way: a.Way, path: a.Return, email: c.Email, detail: "vouched for by " + p.ID}
	person, bind, why, err := s.whoIs(v, p, c)
	if err != nil {
		return err
	}
	if fault.why = why; why != "" {
		return fault
	}
	proof := identity.Proof{ProvedAt: provedAt(c.AuthTime), Issuer: c.Issuer, Subject: c.Subject, SID: c.Session}
	if slices.Contains(c.Methods, "mfa") { // RFC 8176
		proof.FactorAt = proof.ProvedAt
	}
	if c.ActedBy != "" {
		bind = false // it is not the person who says so
		if person.Support {
			fault.why = "acting" // decision P9
			return fault
		}
	}
	return s.enter(v, store.Entry{Person: person.ID, Proof: proof, Method: p.ID, Bind: bind, By: actorName(c.ActedBy)}, a, fault)
}

// provedAt is 1 where nobody says when the person proved who they are: never
// recently.
func provedAt(t time.Time) int64 { return max(1, t.Unix()) }

// whoIs finds the person here whom a provider vouches for: by the claim that
// names them, or by subject, which a verified email leads to the first time.
// why is the page for nobody.
func (s *Server) whoIs(v *page.Visit, p *provider.Provider, c provider.Claims) (person org.Person, bind bool, why string, err error) {
	ctx := v.R.Context()
	known, err := s.Store.Subject(ctx, c.Issuer, c.Subject)
	met := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return org.Person{}, false, "", page.Wrap("subject", err)
	}
	switch {
	case p.PersonClaim != "" && (org.CheckID(c.Person) != nil):
		return org.Person{}, false, "unknown", nil
	case p.PersonClaim != "" && met && known.ID != c.Person:
		return org.Person{}, false, "taken", nil
	case p.PersonClaim != "":
		person, err = s.Store.Person(ctx, c.Person)
	case met:
		person = known
	case c.Email == "":
		return org.Person{}, false, "unverified", nil
	default:
		person, err = s.Store.Vouched(ctx, c.Email)
	}
	if errors.Is(err, store.ErrNotFound) && p.Provision {
		person, why, err = s.provision(ctx, c, s.ActBy(v, "system"))
	} else if errors.Is(err, store.ErrNotFound) {
		why, err = "unknown", nil
	}
	if err == nil && why == "" && !person.Active {
		why = "inactive"
	}
	return person, !met, why, page.Wrap("person", err)
}

// provision adds a person whom a provider vouches for, without any membership.
func (s *Server) provision(ctx context.Context, c provider.Claims, act store.Act) (org.Person, string, error) {
	p := org.Person{ID: c.Person, Email: c.Email, Name: strings.TrimSpace(c.Name), Active: true}
	if p.ID == "" {
		b := make([]byte, 10)
		rand.Read(b)
		p.ID = strings.ToLower(base32.StdEncoding.EncodeToString(b))
	}
	if org.CheckEmail(p.Email) != nil {
		return p, "unverified", nil
	}
	if org.CheckName(p.Name) != nil { // people choose theirs there
		p.Name = p.Email
	}
	err := s.Store.Provision(ctx, p, act)
	if errors.Is(err, store.ErrConflict) {
		return p, "taken", nil
	}
	return p, "", err
}

// enter begins the session that a sign-in elsewhere leads to.
func (s *Server) enter(v *page.Visit, e store.Entry, a attempt, fault notSignedIn) error {
	if a.Fresh != "" {
		switch {
		case e.By != "", e.Person != a.Fresh, e.Person != v.Person.ID:
			fault.why = "taken" // another account, or another session meanwhile
			return fault
		case !e.Proof.Proved(s.fresh(), v.Now):
			fault.why = "refused" // it did not ask the person again
			return fault
		}
		e.Ends = v.Session
	}
	actor := "person:" + e.Person
	if e.By != "" {
		actor = page.Elsewhere + e.By
	}
	switch err := s.enterAs(v, actor, e); {
	case errors.Is(err, store.ErrConflict):
		fault.why = "taken"
	case errors.Is(err, store.ErrNotFound): // meanwhile
		fault.why = "inactive"
	case errors.Is(err, store.ErrAnswered):
		fault.why = "browser"
	case err != nil:
		return err
	default:
		return v.See(a.Return)
	}
	return fault
}
