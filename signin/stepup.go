package signin

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// A Strength is what a session has to prove before much is given away in it.
type Strength string

// The zero Strength asks for nothing.
const (
	StrengthFresh  Strength = "fresh"  // a sign-in, or a second factor, of a moment ago
	StrengthFactor Strength = "factor" // a second factor of a moment ago
)

// DefaultFresh is how long ago a moment ago may be.
const DefaultFresh = 10 * time.Minute

func (s *Server) fresh() time.Duration {
	if s.Fresh > 0 {
		return s.Fresh
	}
	return DefaultFresh
}

// proved gives what the session of a visit has proved, and whether the person
// has a second factor.
func (s *Server) proved(v *page.Visit) (p identity.Proof, hasFactor bool, err error) {
	if p, err = s.Store.Proof(v.R.Context(), v.Session); err != nil {
		return p, false, page.Wrap("session", err)
	}
	asked, _, err := s.factorsOf(v, v.Person.ID)
	return p, len(asked) > 0, err
}

// mayChangeSignIn reports whether a session may change what its person signs in
// with (decision S5), or leads to where they sign in again and back to a path.
func (s *Server) mayChangeSignIn(v *page.Visit, back string) (bool, error) {
	proof, err := s.Store.Proof(v.R.Context(), v.Session)
	if err != nil || proof.Proved(s.fresh(), v.Now) {
		return err == nil, page.Wrap("session", err)
	}
	return false, s.toAgain(v, back)
}

// toAgain leads to where somebody signs in again, and back to a path.
func (s *Server) toAgain(v *page.Visit, back string) error {
	return v.See(page.WithQuery("/signin/again", "return", s.SealPath(back)))
}

// Stronger gives what answers a visit whose session has proved less than Strong asks
// for: to sign in again, or to add a factor where the person has none.
// path leads back to it. It is nil where the session has proved enough.
func (s *Server) Stronger(v *page.Visit, path string) (ask func() error, err error) {
	if s.Strong == "" {
		return nil, nil
	}
	proof, hasFactor, err := s.proved(v)
	if err != nil {
		return nil, err
	}
	switch proof.Strong(s.Strong == StrengthFactor, hasFactor, s.fresh(), v.Now) {
	case identity.DemandAgain:
		return func() error { return s.toAgain(v, path) }, nil
	case identity.DemandFactor:
		return func() error {
			return s.showAgain(v, http.StatusForbidden, &againPage{Return: s.SealPath(path), Lacks: true})
		}, nil
	}
	return nil, nil
}

// An againPage asks somebody who is signed in to sign in again.
type againPage struct {
	page.Frame
	Return string // sealed
	Fault  string // what went wrong, in words
	Wrong  bool

	Password, Code bool        // what is asked for here
	Passkey        *passkeyAsk // may stand for the code; nil where the person has none here
	Ways           []wayOut    // or elsewhere
	Lacks          bool        // the person has no second factor: where to add one
	Back           string      // path
}

// againPage is GET /signin/again.
func (s *Server) againPage(v *page.Visit) error {
	sealed := s.Returned(v.R.URL.Query().Get("return"))
	if !v.SignedIn() {
		return s.ToSignIn(v, s.ReturnPath(sealed))
	}
	return s.showAgain(v, http.StatusOK, &againPage{Return: sealed})
}

func (s *Server) showAgain(v *page.Visit, status int, view *againPage) error {
	proof, hasFactor, err := s.proved(v)
	if err != nil {
		return err
	}
	view.Frame = s.Frame(v, page.TitleOf(view.Fault, "again.title", "again.error"))
	view.Same = s.SealPath(page.WithQuery("/signin/again", "return", view.Return))
	view.Back = s.ReturnPath(view.Return)
	view.Instead = s.SealPath(view.Back)
	if !view.Lacks {
		view.Password = proof.Issuer == "" && !s.NoPasswords
		view.Code = view.Password && hasFactor
	}
	if view.Code {
		if view.Passkey, err = s.askPasskey(v, v.Person); err != nil {
			return err
		}
	}
	for _, w := range s.waysOut(view.Return, false) {
		if !view.Password && (proof.Issuer == "" || s.issuerOf(w.ID) == proof.Issuer) {
			w.Path = page.WithQuery("/signin/again/"+w.ID, "return", view.Return)
			view.Ways = append(view.Ways, w)
		}
	}
	return s.Show(v, status, againTemplate, view)
}

// issuerOf is the issuer that sessions by this way have.
func (s *Server) issuerOf(way string) string {
	if p := s.provider(way); p != nil {
		return p.Issuer
	}
	return way
}

// againOut is GET /signin/again/{way}: to sign in again where the person did.
func (s *Server) againOut(v *page.Visit) error {
	path := s.ReturnPath(v.R.URL.Query().Get("return"))
	if !v.SignedIn() {
		return s.ToSignIn(v, path)
	}
	a := s.newAttempt(v, v.R.PathValue("way"), path)
	a.Fresh = v.Person.ID
	return s.sendOut(v, a, false)
}

// again is POST /signin/again.
func (s *Server) again(v *page.Visit) error {
	form, err := s.Changing(v)
	if errors.Is(err, page.ErrSignIn) { // which is what it asks for
		return s.ToSignIn(v, s.ReturnPath(page.One(form, "return")))
	} else if err != nil {
		return err
	}
	view := &againPage{Return: s.Returned(page.One(form, "return"))}
	if s.NoPasswords {
		return page.ErrNoPage
	}
	err = s.enterAgain(v, form)
	if view.Fault = v.MustWait(err); view.Fault != "" {
		return s.showAgain(v, http.StatusTooManyRequests, view)
	}
	if errors.Is(err, errWrong) {
		view.Fault, view.Wrong = v.Words.Say(wrongFactor(err, "again.wrong")).String(), true
		return s.showAgain(v, http.StatusUnprocessableEntity, view)
	} else if err != nil {
		return err
	}
	return v.See(s.ReturnPath(view.Return))
}

// enterAgain begins another session in the place of this one.
func (s *Server) enterAgain(v *page.Visit, form url.Values) error {
	p, stored, err := s.authenticate(v, v.Person.Email, page.One(form, "password"))
	if err != nil {
		return err
	}
	e := store.Entry{Person: p.ID, Password: stored, Ends: v.Session, Method: "again", Proof: identity.Proof{ProvedAt: v.Now.Unix()}}
	asked, _, err := s.factorsOf(v, p.ID)
	if err != nil {
		return err
	}
	if len(asked) > 0 {
		if err := s.checkFactor(v, p, form, &e); err != nil {
			return err
		}
		e.Proof.FactorAt = v.Now.Unix()
	}
	if err = s.enterOwn(v, e); errors.Is(err, store.ErrNotAllowed) {
		return errWrong // a factor was added meanwhile: it is asked for
	}
	return err
}
