package operator

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// A Who is who sends a request: a named operator, or whoever knows the shared
// password, who has no name and all rights. The zero value is nobody, who has none.
type Who struct {
	Named
	Session string // value of the cookie; "" is the shared password
}

// whoKey is the key of a Who in a request's context.
type whoKey struct{}

// cookieLen is the length of the value of a cookie: 32 bytes in base64url.
const cookieLen = 43

// NewCookie gives a value that nobody can guess.
func NewCookie() string {
	random := make([]byte, 32)
	rand.Read(random)
	return base64.RawURLEncoding.EncodeToString(random)
}

// cookieNamed is the name of a cookie of the console, which has names of its own:
// cookies of a host are those of all its ports. Over https it carries the prefix that
// keeps other hosts from setting it.
func (s *Server) cookieNamed(r *http.Request, name string) string {
	if s.Secure(r) {
		return "__Host-operator_" + name
	}
	return "operator_" + name
}

// Secure reports whether the browser asks over https: where it asks by the host of
// ConsoleURL, which says so.
func (s *Server) Secure(r *http.Request) bool {
	return strings.HasPrefix(s.consoleURL(), "https://") && s.AtConsoleURL(r)
}

func (s *Server) consoleURL() string {
	if s.ConsoleURL == nil {
		return ""
	}
	return s.ConsoleURL()
}

// Cookie gives the value of a cookie of the console that could be one of ours.
func (s *Server) Cookie(r *http.Request, name string) string {
	c, err := r.Cookie(s.cookieNamed(r, name))
	if err != nil || len(c.Value) != cookieLen {
		return ""
	}
	return c.Value
}

// SetCookie sets a cookie of the console for as long as the browser runs; "" takes
// it away. Lax: who comes back from a provider has it.
func (s *Server) SetCookie(w http.ResponseWriter, r *http.Request, name, value string) {
	c := &http.Cookie{Name: s.cookieNamed(r, name), Value: value, Path: "/", HttpOnly: true, Secure: s.Secure(r), SameSite: http.SameSiteLaxMode}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// The cookies of the console: of a session, and of a browser before it has one.
const (
	SessionCookie = "session"
	BeforeCookie  = "before"
)

// ErrWrong is an unknown email or a wrong password: nobody is told which.
var ErrWrong = errors.New("the email or the password is not right")

// TooMany refuses a sign-in while somebody has been wrong too often, or too many are
// under way.
type TooMany struct{ Wait time.Duration }

func (e TooMany) Error() string { return "too many sign-ins" }

// ErrBusy refuses a sign-in while as many passwords are compared as may be.
var ErrBusy = TooMany{time.Second}

// SignIn finds the operator whose email and password these are. The error is
// ErrWrong or a TooMany.
func (s *Server) SignIn(c Call, email, password string) (Named, error) {
	var who Named
	var all []string
	for _, n := range s.operators() {
		if n.Hash != "" {
			all = append(all, n.Hash)
		}
		if org.EmailKey(n.Email) == org.EmailKey(email) {
			who = n
		}
	}
	now := s.Store.Now()
	end, wait := s.passwords.begin(c.Address, org.EmailKey(email), now)
	right, err := false, error(nil)
	if wait == 0 && len(password) > MaxPassword {
		password = "" // which nobody has
	}
	if wait == 0 {
		right, err = s.MatchPassword(c.Context(), who.Hash, all, password)
		right = right && who.Hash != "" && err == nil
		wait = end(err == nil && !right, s.Store.Now())
	}
	switch {
	case wait > 0:
		s.recordWrong(s.passwords.throttledEvents, journal.SignInThrottled, c, who.Name, now)
		return Named{}, TooMany{wait}
	case err != nil:
		return Named{}, err
	case !right:
		s.recordWrong(s.passwords.failedEvents, journal.SignInFailed, c, who.Name, now)
		return Named{}, ErrWrong
	}
	return who, nil
}

// Enter signs an operator in by a way, under a new value: one that somebody planted
// is worth nothing.
func (s *Server) Enter(w http.ResponseWriter, c Call, n Named, way string) error {
	value := NewCookie()
	c.Actor = User + ":" + n.Name
	err := s.Store.BeginOperatorSession(c.Context(), value, store.OperatorSession{Operator: n.Name, Way: way, Bound: n.bound(way + " " + s.Ways[way])}, c.Act(""))
	if err == nil {
		s.SetCookie(w, c.Request, SessionCookie, value)
	}
	return err
}

// Leave ends the session of a call, and takes both cookies from the browser: one
// that goes back is shown no page that it kept.
func (s *Server) Leave(w http.ResponseWriter, c Call) error {
	if err := s.Store.EndOperatorSession(c.Context(), c.Who.Session, c.Act("")); err != nil {
		return err
	}
	s.SetCookie(w, c.Request, SessionCookie, "")
	s.SetCookie(w, c.Request, BeforeCookie, NewCookie())
	return nil
}

// SignedIn gives who is signed in at the browser of a request, as the configuration
// has them now; ok is false for nobody.
func (s *Server) SignedIn(r *http.Request) (who Who, ok bool, err error) {
	value := s.Cookie(r, SessionCookie)
	if value == "" {
		return who, false, nil
	}
	session, err := s.Store.OperatorSession(r.Context(), value)
	if errors.Is(err, store.ErrNotFound) {
		return who, false, nil
	} else if err != nil {
		return who, false, err
	}
	n, ok := s.named(session.Operator)
	if !ok || n.bound(session.Way+" "+s.Ways[session.Way]) != session.Bound {
		// It has ended, and does not live again where the configuration is as before.
		act := store.Act{Actor: User + ":" + session.Operator, Reason: "another in the configuration"}
		return who, false, s.Store.EndOperatorSession(r.Context(), value, act)
	}
	if !s.wayOpen(session.Way) {
		return who, false, nil
	}
	return Who{n, value}, true, nil
}

// wayOpen reports whether operators may sign in by a way now.
func (s *Server) wayOpen(way string) bool {
	return way == ByPassword || s.Ways[way] != "" && s.consoleURL() != ""
}

// AtConsoleURL reports whether a browser asks at the console's own address, to which
// providers lead back.
func (s *Server) AtConsoleURL(r *http.Request) bool {
	_, host, known := strings.Cut(s.consoleURL(), "://")
	return known && hostAsked(r) == host
}

// hostAsked is the host of a request, as ConsoleURL has it.
func hostAsked(r *http.Request) string {
	return org.LowerASCII(strings.TrimSuffix(strings.TrimSuffix(r.Host, ":443"), ":80"))
}

// HasPasswords reports whether some operator signs in with a password.
func (s *Server) HasPasswords() bool {
	for _, n := range s.operators() {
		if n.Hash != "" {
			return true
		}
	}
	return false
}

// RecordFailed journals that somebody was not signed in by a provider, at most as
// often as for a wrong password.
func (s *Server) RecordFailed(c Call, way string) {
	s.recordWrong(s.passwords.failedEvents, journal.SignInFailed, c, way, s.Store.Now())
}

// HasNamed reports whether operators sign in by name.
func (s *Server) HasNamed() bool { return len(s.operators()) > 0 }

// GuardPages is Guard for pages. Where operators have names, who sends no password
// is known by the session of the browser, and who has none is shown the way to
// sign in by signIn.
func (s *Server) GuardPages(next http.Handler, signIn func(http.ResponseWriter, Call), refuse func(http.ResponseWriter, Call, error)) http.Handler {
	shared := s.Guard(next, refuse)
	crossSite := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || len(s.operators()) == 0 {
			shared.ServeHTTP(w, r)
			return
		}
		r = whole(r)
		who, ok, err := s.SignedIn(r)
		c := s.NewCall(w, r)
		switch {
		case err != nil:
			refuse(w, c, err)
		case crossSite.Check(r) != nil:
			refuse(w, c, ErrCrossSite)
		case !ok:
			signIn(w, c)
		default:
			serveAs(next, w, r, who)
		}
	})
}

// serveAs serves a request as somebody's. The pattern that it matches goes back to the
// request as it came, whose log line and metrics have it.
func serveAs(next http.Handler, w http.ResponseWriter, r *http.Request, who Who) {
	as := r.WithContext(context.WithValue(r.Context(), whoKey{}, who))
	defer func() { r.Pattern = as.Pattern }()
	next.ServeHTTP(w, as)
}

// whole waits for the body of a request, so that who is signed in is asked when it
// is there (decision B7): a session may end while a form is held open.
func whole(r *http.Request) *http.Request {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Body == nil {
		return r
	}
	text, _ := io.ReadAll(io.LimitReader(r.Body, MaxBody+1)) // an error comes again
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), r.Body), r.Body}
	return r
}

// FromElsewhere gives the operator whose email a provider vouches for.
func (s *Server) FromElsewhere(email string) (Named, bool) {
	for _, n := range s.operators() {
		if email != "" && org.VouchedEmail(n.Email, email) {
			return n, true
		}
	}
	return Named{}, false
}

// ErrCrossSite refuses what a page of another site sent.
var ErrCrossSite = &Error{Status: http.StatusForbidden, Code: "cross_site", Description: "this request was sent by a page of another site"}
