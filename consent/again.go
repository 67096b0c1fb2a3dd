package consent

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/store"
)

// A Strength is what an approval of everything that a person can access, or of
// everything in an organization, asks for.
type Strength string

// The zero Strength asks for nothing.
const (
	StrengthFresh  Strength = "fresh"  // a sign-in, or a second factor, of a moment ago
	StrengthFactor Strength = "factor" // a second factor of a moment ago
)

// DefaultFresh is how long ago a moment ago may be.
const DefaultFresh = 10 * time.Minute

func (s *Server) fresh() time.Duration {
	if s.Ways.Fresh > 0 {
		return s.Ways.Fresh
	}
	return DefaultFresh
}

// weak reports whether an approval of this kind asks for more than the session
// has: to sign in again, or for a factor that the person does not have.
func (s *Server) weak(v *visit, kind grantset.Kind) (again, lacks bool, err error) {
	if s.Ways.Strong == "" || kind != grantset.Everything && kind != grantset.Organization {
		return false, false, nil
	}
	proof, hasFactor, err := s.proved(v)
	demand := proof.Strong(s.Ways.Strong == StrengthFactor, hasFactor, s.fresh(), v.now)
	return demand == identity.DemandAgain, demand == identity.DemandFactor, err
}

// proved gives what the session of a visit has proved, and whether the person
// has a second factor.
func (s *Server) proved(v *visit) (p identity.Proof, hasFactor bool, err error) {
	if p, err = s.Store.Proof(v.r.Context(), v.session); err != nil {
		return p, false, wrap("session", err)
	}
	asked, _, err := s.factorsOf(v, v.person.ID)
	return p, len(asked) > 0, err
}

// mayChangeSignIn reports whether a session may change what its person signs in
// with (decision S5), or leads to where they sign in again and back to a path.
func (s *Server) mayChangeSignIn(v *visit, back string) (bool, error) {
	proof, err := s.Store.Proof(v.r.Context(), v.session)
	if err != nil || proof.Proved(s.fresh(), v.now) {
		return err == nil, wrap("session", err)
	}
	return false, v.see(withQuery("/signin/again", "return", s.sealPath(back)))
}

// strengthen keeps an approval waiting until the person is who they are beyond
// doubt; path leads back to it, choices kept. done is false when nothing is in
// its way.
func (s *Server) strengthen(v *visit, client string, kind grantset.Kind, path string) (done bool, err error) {
	again, lacks, err := s.weak(v, kind)
	if err != nil || !again && !lacks {
		return err != nil, err
	}
	s.refused(v, client, "not_fresh")
	sealed := s.sealPath(path)
	if again {
		return true, v.see(withQuery("/signin/again", "return", sealed))
	}
	return true, s.showAgain(v, http.StatusForbidden, &againPage{Return: sealed, Lacks: true})
}

// An againPage asks somebody who is signed in to sign in again.
type againPage struct {
	frame
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
func (s *Server) againPage(v *visit) error {
	sealed := v.r.URL.Query().Get("return")
	if !v.signedIn() {
		return s.toSignIn(v, s.returnPath(sealed))
	}
	return s.showAgain(v, http.StatusOK, &againPage{Return: sealed})
}

func (s *Server) showAgain(v *visit, status int, view *againPage) error {
	proof, hasFactor, err := s.proved(v)
	if err != nil {
		return err
	}
	view.frame = s.frame(v, titleOf(view.Fault, "again.title", "again.error"))
	view.Same = s.sealPath(withQuery("/signin/again", "return", view.Return))
	view.Back = s.returnPath(view.Return)
	view.Instead = s.sealPath(view.Back)
	if !view.Lacks {
		view.Password = proof.Issuer == "" && !s.Ways.NoPasswords
		view.Code = view.Password && hasFactor
	}
	if view.Code {
		if view.Passkey, err = s.askPasskey(v, v.person); err != nil {
			return err
		}
	}
	for _, w := range s.waysOut(view.Return, false) {
		if !view.Password && (proof.Issuer == "" || s.issuerOf(w.ID) == proof.Issuer) {
			w.Path = withQuery("/signin/again/"+w.ID, "return", view.Return)
			view.Ways = append(view.Ways, w)
		}
	}
	return s.show(v, status, againTemplate, view)
}

// issuerOf is the issuer that sessions by this way have.
func (s *Server) issuerOf(way string) string {
	if p := s.provider(way); p != nil {
		return p.Issuer
	}
	return way
}

// againOut is GET /signin/again/{way}: to sign in again where the person did.
func (s *Server) againOut(v *visit) error {
	path := s.returnPath(v.r.URL.Query().Get("return"))
	if !v.signedIn() {
		return s.toSignIn(v, path)
	}
	a := s.newAttempt(v, v.r.PathValue("way"), path)
	a.Fresh = v.person.ID
	return s.sendOut(v, a, false)
}

// again is POST /signin/again.
func (s *Server) again(v *visit) error {
	form, err := s.changing(v)
	if err != nil {
		return err
	}
	view := &againPage{Return: one(form, "return")}
	if s.Ways.NoPasswords {
		return errNoPage
	}
	err = s.enterAgain(v, form)
	if view.Fault = v.mustWait(err); view.Fault != "" {
		return s.showAgain(v, http.StatusTooManyRequests, view)
	}
	if errors.Is(err, errWrong) {
		view.Fault, view.Wrong = v.words.say(wrongFactor(err, "again.wrong")).String(), true
		return s.showAgain(v, http.StatusUnprocessableEntity, view)
	} else if err != nil {
		return err
	}
	return v.see(s.returnPath(view.Return))
}

// enterAgain begins another session in the place of this one.
func (s *Server) enterAgain(v *visit, form url.Values) error {
	p, stored, err := s.authenticate(v, v.person.Email, one(form, "password"))
	if err != nil {
		return err
	}
	e := store.Entry{Person: p.ID, Password: stored, Ends: v.session, Method: "again", Proof: identity.Proof{ProvedAt: v.now.Unix()}}
	asked, _, err := s.factorsOf(v, p.ID)
	if err != nil {
		return err
	}
	if len(asked) > 0 {
		if err := s.checkFactor(v, p, form, &e); err != nil {
			return err
		}
		e.Proof.FactorAt = v.now.Unix()
	}
	return s.enterOwn(v, e)
}
