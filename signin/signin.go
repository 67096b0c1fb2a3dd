package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	tries "github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// A signInPage asks for email and password (ux 4).
type signInPage struct {
	page.Frame
	App    *page.App // not ours: the client that the person was asked about, in a flow
	Return string    // sealed
	Email  string    // as it was typed
	Fault  string    // what went wrong, in words
	Wrong  bool      // the fault is in the fields

	Passwords bool     // people may have one here
	Forgot    string   // where a new password is to be had; "" is nowhere
	ForgotOut bool     // that is not ours
	Ways      []wayOut // to sign in elsewhere
	On        string   // the one place that the page goes on to by itself
}

// signInPage is GET /signin.
func (s *Server) signInPage(v *page.Visit) error {
	sealed := s.Returned(v.R.URL.Query().Get("return"))
	if v.SignedIn() {
		return v.See(s.ReturnPath(sealed))
	}
	stay := v.R.URL.Query().Get("stay") != ""
	view := &signInPage{Return: sealed, Ways: s.waysOut(sealed, stay)}
	if s.straightOn() && !stay {
		if s.askedAbout(v, sealed) == nil {
			return v.See(view.Ways[0].Path)
		}
		// Who asked is said while the browser is on its way.
		view.On = view.Ways[0].Name
		v.W.Header().Set("Refresh", "0;url="+view.Ways[0].Path)
	}
	return s.showSignIn(v, http.StatusOK, view)
}

// signIn is POST /signin.
func (s *Server) signIn(v *page.Visit) error {
	form, err := page.Posted(v, page.OtherBytes, page.OtherFields)
	if err != nil {
		return err
	}
	if s.NoPasswords {
		return page.ErrNoPage
	}
	sealed, email := s.Returned(page.One(form, "return")), page.One(form, "email")
	if v.SignedIn() { // in another tab: who it is shows at consent
		return v.See(s.ReturnPath(sealed))
	}
	view := &signInPage{Return: sealed, Email: email, Ways: s.waysOut(sealed, false)}
	if !s.Own(v, page.One(form, "csrf")) {
		view.Fault = v.Words.Say("signin.again").String()
		return s.showSignIn(v, http.StatusUnprocessableEntity, view)
	}
	person, stored, err := s.authenticate(v, email, page.One(form, "password"))
	if err == nil {
		asked, e := s.toSecond(v, person, stored, s.ReturnPath(sealed))
		if asked || e != nil {
			return e
		}
		err = s.enterOwn(v, store.Entry{Person: person.ID, Password: stored, Proof: identity.Proof{ProvedAt: v.Now.Unix()}})
		if errors.Is(err, store.ErrNotAllowed) { // a factor was added meanwhile
			if asked, e = s.toSecond(v, person, stored, s.ReturnPath(sealed)); asked || e != nil {
				return e
			}
			return s.ToSignIn(v, s.ReturnPath(sealed)) // and is gone again
		}
	}
	if view.Fault = v.MustWait(err); view.Fault != "" {
		return s.showSignIn(v, http.StatusTooManyRequests, view)
	}
	if errors.Is(err, errWrong) {
		view.Fault, view.Wrong = v.Words.Say("signin.wrong").String(), true
		s.saw(v, s.ReturnPath(sealed), tries.WrongPassword)
		return s.showSignIn(v, http.StatusUnprocessableEntity, view)
	} else if err != nil {
		return err
	}
	return v.See(s.ReturnPath(sealed))
}

// enterOwn begins a session of somebody who proved here who they are. A
// password that was changed since it was checked, an account that was
// deactivated, or a factor that was used meanwhile, is errWrong.
func (s *Server) enterOwn(v *page.Visit, e store.Entry) error {
	err := s.enterAs(v, "person:"+e.Person, e)
	if errors.Is(err, store.ErrAnswered) || errors.Is(err, store.ErrNotFound) {
		return errWrong
	}
	return err
}

// enterAs begins a session under a new value, so that one that somebody else
// planted is worth nothing (decision S1). actor is who is at the keyboard.
func (s *Server) enterAs(v *page.Visit, actor string, e store.Entry) error {
	e.Value = page.NewCookie()
	e.Browser, e.System = deviceOf(v.R.UserAgent())
	if err := s.Store.Enter(v.R.Context(), e, s.ActBy(v, actor)); err != nil {
		return page.Wrap("new session", err)
	}
	s.Counted("signin", "ok")
	page.SetCookie(v, "session", e.Value)
	return nil
}

// signOut is POST /signout. With a return it is "Use another account".
func (s *Server) signOut(v *page.Visit) error {
	form, err := page.Posted(v, page.ChoiceBytes, page.OtherFields)
	if err != nil {
		return err
	}
	if v.SignedIn() {
		if !s.Ours(v, form) {
			return page.ErrStale
		}
		if v.Acting() { // its end is an event of its own
			if err := s.BeThemselves(v); err != nil {
				return err
			}
		}
		if err := s.Store.EndSession(v.R.Context(), v.Session); err != nil && !errors.Is(err, store.ErrNotFound) {
			return page.Wrap("end session", err)
		}
		forget(v)
	}
	return v.See(s.SignInPath(s.Returned(page.One(form, "return"))))
}

// forget takes the session's cookie from a browser, and gives another one to
// sign in with. Chromium shows a page that it kept, no-store or not, to whoever
// goes back, unless more cookies have changed since than on the way to it: so
// signing in changes one, and signing out two.
func forget(v *page.Visit) {
	page.SetCookie(v, "session", "")
	page.SetCookie(v, "before", page.NewCookie())
}

func (s *Server) showSignIn(v *page.Visit, status int, view *signInPage) error {
	before := s.Before(v)
	view.Passwords = !s.NoPasswords
	view.Frame = s.Frame(v, page.TitleOf(view.Fault, "signin.title", "signin.error"))
	view.Forgot, view.ForgotOut = s.forgotLink(view.Return, view.Help)
	view.CSRF = s.Ring.FormToken(before)
	view.App = s.askedAbout(v, view.Return)
	view.Same = s.SealPath(page.WithQuery("/signin", "return", view.Return, "stay", v.R.URL.Query().Get("stay")))
	return s.Show(v, status, signInTemplate, view)
}

// askedAbout is the app that waits for the sign-in.
func (s *Server) askedAbout(v *page.Visit, sealed string) *page.App {
	if s.Asks == nil {
		return nil
	}
	return s.Asks(v, s.ReturnPath(sealed))
}

// errWrong is an unknown email, a wrong password or a deactivated account:
// people are told no more, and it takes the same work to find out.
var errWrong = errors.New("the email or the password is not right")

// authenticate finds the person whose email and password these are, with the
// password as it is stored, or gives errWrong or page.TooMany.
func (s *Server) authenticate(v *page.Visit, email, password string) (p org.Person, stored string, err error) {
	address := s.Address(v.R)
	if wait := s.failures.wait(email, address, v.Now); wait > 0 {
		return org.Person{}, "", s.throttled(v, address, wait)
	}
	if err := s.hasher.enter(v.R.Context()); errors.Is(err, errBusy) {
		return org.Person{}, "", s.throttled(v, address, time.Second)
	} else if err != nil {
		return org.Person{}, "", fmt.Errorf("waiting to hash: %w", err)
	}
	defer s.hasher.leave()
	// Asked again, as others may have failed while this one waited.
	end, wait := s.failures.begin(email, address, v.Now)
	if wait > 0 {
		return org.Person{}, "", s.throttled(v, address, wait)
	}
	defer end()
	p, stored, err = s.verify(v.R.Context(), email, password)
	if err == nil && s.failures.wait(email, address, v.Now) > 0 {
		err = errWrong // as far as anybody is told
	}
	if errors.Is(err, errWrong) {
		s.Counted("signin", "failed")
		s.Record(v, store.Event{Kind: journal.SignInFailed, Person: p.ID})
		if wait := s.failures.add(email, address, v.Now); wait > 0 {
			return org.Person{}, "", s.throttled(v, address, wait)
		}
	}
	return p, stored, err
}

// verify compares, with equal work in every case (decision L4). With errWrong
// it still gives who it would have been.
func (s *Server) verify(ctx context.Context, email, password string) (p org.Person, stored string, err error) {
	if !org.Storable(email) {
		email = "" // nobody's
	}
	in, err := s.Store.SignIn(ctx, email)
	if err != nil {
		return org.Person{}, "", page.Wrap("password", err)
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
		return in.Person, "", page.Wrap("password", err)
	}
	if !Matches(now, password) {
		return in.Person, "", errWrong
	}
	return in.Person, now, nil
}

func (s *Server) throttled(v *page.Visit, address netip.Addr, wait time.Duration) error {
	s.Counted("signin", "throttled")
	if first, _ := s.failures.journaled.Allow(address, v.Now); first {
		s.Record(v, store.Event{Kind: journal.SignInThrottled})
	}
	return page.TooMany{Wait: wait}
}
