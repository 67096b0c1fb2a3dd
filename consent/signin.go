package consent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// A signInPage asks for email and password (ux 4).
type signInPage struct {
	frame
	App    *app   // not ours: the client that the person was asked about, in a flow
	Return string // sealed
	Email  string // as it was typed
	Fault  string // what went wrong, in words
	Wrong  bool   // the fault is in the fields

	Passwords bool     // people may have one here
	Forgot    string   // where a new password is to be had; "" is nowhere
	ForgotOut bool     // that is not ours
	Ways      []wayOut // to sign in elsewhere
	On        string   // the one place that the page goes on to by itself
}

// signInPage is GET /signin.
func (s *Server) signInPage(v *visit) error {
	sealed := v.r.URL.Query().Get("return")
	if v.signedIn() {
		return v.see(s.returnPath(sealed))
	}
	stay := v.r.URL.Query().Get("stay") != ""
	view := &signInPage{Return: sealed, Ways: s.waysOut(sealed, stay)}
	if s.straightOn() && !stay {
		if s.askedAbout(v, sealed) == nil {
			return v.see(view.Ways[0].Path)
		}
		// Who asked is said while the browser is on its way.
		view.On = view.Ways[0].Name
		v.w.Header().Set("Refresh", "0;url="+view.Ways[0].Path)
	}
	return s.showSignIn(v, http.StatusOK, view)
}

// signIn is POST /signin.
func (s *Server) signIn(v *visit) error {
	form, err := posted(v, otherBytes, otherFields)
	if err != nil {
		return err
	}
	if s.Ways.NoPasswords {
		return errNoPage
	}
	sealed, email := one(form, "return"), one(form, "email")
	if v.signedIn() { // in another tab: who it is shows at consent
		return v.see(s.returnPath(sealed))
	}
	view := &signInPage{Return: sealed, Email: email, Ways: s.waysOut(sealed, false)}
	if !s.own(v, one(form, "csrf")) {
		view.Fault = v.words.say("signin.again").String()
		return s.showSignIn(v, http.StatusUnprocessableEntity, view)
	}
	person, stored, err := s.authenticate(v, email, one(form, "password"))
	if err == nil {
		asked, e := s.toSecond(v, person, stored, s.returnPath(sealed))
		if asked || e != nil {
			return e
		}
		err = s.enterOwn(v, store.Entry{Person: person.ID, Password: stored, Proof: identity.Proof{ProvedAt: v.now.Unix()}})
	}
	if view.Fault = v.mustWait(err); view.Fault != "" {
		return s.showSignIn(v, http.StatusTooManyRequests, view)
	}
	if errors.Is(err, errWrong) {
		view.Fault, view.Wrong = v.words.say("signin.wrong").String(), true
		return s.showSignIn(v, http.StatusUnprocessableEntity, view)
	} else if err != nil {
		return err
	}
	return v.see(s.returnPath(sealed))
}

// enterOwn begins a session of somebody who proved here who they are. A
// password that was changed since it was checked, an account that was
// deactivated, or a factor that was used meanwhile, is errWrong.
func (s *Server) enterOwn(v *visit, e store.Entry) error {
	err := s.enterAs(v, "person:"+e.Person, e)
	if errors.Is(err, store.ErrAnswered) || errors.Is(err, store.ErrNotFound) {
		return errWrong
	}
	return err
}

// enterAs begins a session under a new value, so that one that somebody else
// planted is worth nothing (decision S1). actor is who is at the keyboard.
func (s *Server) enterAs(v *visit, actor string, e store.Entry) error {
	e.Value = newCookie()
	e.Browser, e.System = deviceOf(v.r.UserAgent())
	if err := s.Store.Enter(v.r.Context(), e, s.actBy(v, actor)); err != nil {
		return wrap("new session", err)
	}
	s.count("signin", "ok")
	setCookie(v, "session", e.Value)
	return nil
}

// signOut is POST /signout. With a return it is "Use another account".
func (s *Server) signOut(v *visit) error {
	form, err := posted(v, consentBytes, otherFields)
	if err != nil {
		return err
	}
	if v.signedIn() {
		if !s.ours(v, form) {
			return errStale
		}
		if v.acting() { // its end is an event of its own
			if err := s.beThemselves(v); err != nil {
				return err
			}
		}
		if err := s.Store.EndSession(v.r.Context(), v.session); err != nil && !errors.Is(err, store.ErrNotFound) {
			return wrap("end session", err)
		}
		forget(v)
	}
	sealed := one(form, "return")
	if p, ok := s.openPage(sealed); ok {
		sealed = s.sealPath(p.path())
	} else if _, _, ok := s.Ring.OpenPage(sealedReturn, sealed); !ok {
		sealed = ""
	}
	return v.see(s.signInPath(sealed, true))
}

// forget takes the session's cookie from a browser, and gives another one to
// sign in with. Chromium shows a page that it kept, no-store or not, to whoever
// goes back, unless more cookies have changed since than on the way to it: so
// signing in changes one, and signing out two.
func forget(v *visit) {
	setCookie(v, "session", "")
	setCookie(v, "before", newCookie())
}

func (s *Server) showSignIn(v *visit, status int, view *signInPage) error {
	before := s.before(v)
	view.Passwords = !s.Ways.NoPasswords
	view.Forgot, view.ForgotOut = s.forgotLink(view.Return)
	view.frame = s.frame(v, titleOf(view.Fault, "signin.title", "signin.error"))
	view.CSRF = s.Ring.FormToken(before)
	view.App = s.askedAbout(v, view.Return)
	view.Same = s.sealPath(withQuery("/signin", "return", view.Return, "stay", v.r.URL.Query().Get("stay")))
	return s.show(v, status, signInTemplate, view)
}

// askedAbout finds the client of the request that waits for the sign-in. The
// page does not need it, so whatever goes wrong here is found again later.
func (s *Server) askedAbout(v *visit, sealed string) *app {
	query, ok := strings.CutPrefix(s.returnPath(sealed), "/oauth/authorize?")
	if !ok {
		return nil
	}
	p := parseParameters(query)
	id, _ := p.client()
	redirectURI, _ := p.one("redirect_uri")
	c, err := s.client(v, id, redirectURI)
	if err != nil {
		return nil
	}
	return new(newApp(c, redirectURI))
}

// errWrong is an unknown email, a wrong password or a deactivated account:
// people are told no more, and it takes the same work to find out.
var errWrong = errors.New("the email or the password is not right")

// authenticate finds the person whose email and password these are, with the
// password as it is stored, or gives errWrong or tooMany.
func (s *Server) authenticate(v *visit, email, password string) (p org.Person, stored string, err error) {
	address := s.Address(v.r)
	if wait := s.failures.wait(email, address, v.now); wait > 0 {
		return org.Person{}, "", s.throttled(v, address, wait)
	}
	if err := s.hasher.enter(v.r.Context()); errors.Is(err, errBusy) {
		return org.Person{}, "", s.throttled(v, address, time.Second)
	} else if err != nil {
		return org.Person{}, "", fmt.Errorf("waiting to hash: %w", err)
	}
	defer s.hasher.leave()
	// Asked again, as others may have failed while this one waited.
	end, wait := s.failures.begin(email, address, v.now)
	if wait > 0 {
		return org.Person{}, "", s.throttled(v, address, wait)
	}
	defer end()
	p, stored, err = s.verify(v.r.Context(), email, password)
	if err == nil && s.failures.wait(email, address, v.now) > 0 {
		err = errWrong // as far as anybody is told
	}
	if errors.Is(err, errWrong) {
		s.count("signin", "failed")
		s.record(v, store.Event{Kind: "signin_failed", Person: p.ID})
		if wait := s.failures.add(email, address, v.now); wait > 0 {
			return org.Person{}, "", s.throttled(v, address, wait)
		}
	}
	return p, stored, err
}

// verify compares, with equal work in every case (decision L4). With errWrong
// it still gives who it would have been.
func (s *Server) verify(ctx context.Context, email, password string) (p org.Person, stored string, err error) {
	if !utf8.ValidString(email) || strings.Contains(email, "\x00") {
		email = "" // nobody's
	}
	in, err := s.Store.SignIn(ctx, email)
	if err != nil {
		return org.Person{}, "", wrap("password", err)
	}
	hash, known := phc{}, false
	if in.Hash != "" {
		if hash, err = parsePHC(in.Hash); err != nil {
			s.Log.Error("person cannot sign in", "person", in.Person.ID, "err", err)
		}
		known = err == nil
	}
	matches, unknown := s.hasher.compare(hash, known, in.Costs, password)
	if unknown { // written by the previous release
		s.Store.KnowCosts(in.Hash)
	}
	if !matches || !in.Person.Active {
		return in.Person, "", errWrong
	}
	return s.strengthenHash(ctx, in, hash, password)
}

// strengthenHash stores a new hash of a right password whose costs are weak. If
// that fails the person signs in all the same; the next sign-in tries again.
func (s *Server) strengthenHash(ctx context.Context, in store.SignIn, hash phc, password string) (p org.Person, stored string, err error) {
	if !hash.Weak() {
		return in.Person, in.Hash, nil
	}
	next := Hash(password)
	err = s.Store.Rehash(ctx, in.Person.ID, in.Hash, next)
	if err == nil {
		return in.Person, next, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		s.Log.Error("a weak hash of a password stays", "person", in.Person.ID, "err", err)
		return in.Person, in.Hash, nil
	}
	// Changed meanwhile: by another sign-in, which did the same, or to another password.
	_, now, err := s.Store.Password(ctx, in.Person.Email)
	if err != nil {
		return in.Person, "", wrap("password", err)
	}
	if !Matches(now, password) {
		return in.Person, "", errWrong
	}
	return in.Person, now, nil
}

func (s *Server) throttled(v *visit, address netip.Addr, wait time.Duration) error {
	s.count("signin", "throttled")
	if first, _ := s.failures.journaled.Allow(address, v.now); first {
		s.record(v, store.Event{Kind: "signin_throttled"})
	}
	return tooMany{wait}
}
