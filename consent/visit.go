package consent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// A visit is one request, with what every page needs to know of it.
type visit struct {
	w       http.ResponseWriter
	r       *http.Request
	base    string
	now     time.Time  // in the zone in which times are said
	session string     // value of the session's cookie; empty when nobody is signed in
	person  org.Person // whose pages are shown; zero when nobody is signed in
	actor   org.Person // of support staff, who acts as person; zero otherwise
	words   *words     // of the language that pages are in

	actingIn string // organization in which actor acts
}

func (s *Server) visit(w http.ResponseWriter, r *http.Request) *visit {
	v := &visit{w: w, r: r, base: s.Base(r), now: s.Store.Now()}
	v.now = v.now.In(zoneFor(v))
	v.words = s.wordsFor(v)
	return v
}

func (v *visit) signedIn() bool { return v.person.ID != "" }

// reference names the request, on pages and in the log alike.
func (v *visit) reference() string { return v.w.Header().Get("X-Request-Id") }

// see answers 303, the one redirect of this door: 307 would post the form, at
// sign-in the password, to where the browser goes next (decision A10).
func (v *visit) see(location string) error {
	v.w.Header().Set("Location", location)
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// act says who does what this request does.
func (s *Server) act(v *visit) store.Act { return s.actBy(v, v.by()) }

func (s *Server) actBy(v *visit, actor string) store.Act {
	return store.Act{Actor: actor, Address: s.Address(v.r).String(), Reference: v.reference()}
}

// record writes into the journal what came of this request. Where nobody is
// named who did it, it is the system's.
func (s *Server) record(v *visit, e store.Event) {
	e.Actor, e.Address, e.Reference = cmp.Or(e.Actor, "system"), s.Address(v.r).String(), v.reference()
	s.Store.Record(e)
}

// refused records that an approval was refused, and why.
func (s *Server) refused(v *visit, client, why string) {
	s.record(v, store.Event{Kind: "approval_refused", Client: client, Person: v.person.ID, Actor: v.by(), Reason: why})
}

// refusedFor is refused for what a form asked for and nobody could have shown
// it.
func (s *Server) refusedFor(v *visit, client string, faults []grantset.Fault) {
	for _, f := range faults {
		if f == grantset.NotAllowed || f == grantset.NotEligible {
			s.refused(v, client, string(f))
		}
	}
}

// tell tells the log about which client, or approval, a request is.
func (s *Server) tell(v *visit, client string, of approval.ID) {
	if s.Tell != nil {
		s.Tell(v.w, client, of, "")
	}
}

// handle makes a handler of a function that answers itself or returns why it
// did not. All answers carry the headers of a page, redirects too.
func (s *Server) handle(f func(*visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := s.visit(w, whole(r))
		PageHeaders(w.Header())
		err := s.identify(v)
		if err == nil {
			err = f(v)
		}
		if err != nil {
			s.fail(v, err)
		}
	}
}

// whole waits for the body of a request, as far as any form goes, so that who is
// signed in is asked when it is there (decision B7): a session may end while a form
// is held open. What is wrong with the body is told to whoever reads it; a client
// that cut it off may be there still, and is answered.
func whole(r *http.Request) *http.Request {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Body == nil {
		return r
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, consentBytes+1)) // an error comes again
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), r.Body), r.Body}
	if err != nil {
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	return r
}

// identify finds out who is signed in.
func (s *Server) identify(v *visit) error {
	value := cookie(v, "session")
	if value == "" {
		return nil
	}
	ctx := v.r.Context()
	session, err := s.Store.Session(ctx, value)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	p, err := s.Store.Person(ctx, session.Person)
	if err != nil {
		return fmt.Errorf("person of a session: %w", err)
	}
	if session.Actor != "" {
		if v.actor, err = s.Store.Person(ctx, session.Actor); err != nil {
			return fmt.Errorf("actor of a session: %w", err)
		}
		v.actingIn = session.ActingIn
	}
	if session.ActedBy != "" {
		v.actor = org.Person{ID: elsewhere + session.ActedBy, Name: session.ActedBy, Email: s.Service}
	}
	v.session, v.person = value, p
	return nil
}

// cookieName is the name of a cookie on this host. Over https it carries the
// prefix that keeps other hosts from setting it; over plain http, which is
// loopback, browsers do not take the prefix (decision S1).
func cookieName(v *visit, name string) string {
	if secure(v) {
		return "__Host-" + name
	}
	return name
}

func secure(v *visit) bool { return strings.HasPrefix(v.base, "https://") }

// cookieLen is the length of every cookie's value: 32 bytes in base64url.
const cookieLen = 43

// cookie gives the value of a cookie that could be one of ours.
func cookie(v *visit, name string) string {
	c, err := v.r.Cookie(cookieName(v, name))
	if err != nil || len(c.Value) != cookieLen {
		return ""
	}
	return c.Value
}

// setCookie sets a cookie for as long as the browser runs. An empty value
// deletes it.
func setCookie(v *visit, name, value string) {
	c := &http.Cookie{Name: cookieName(v, name), Value: value, Path: "/",
		Secure: secure(v), HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(v.w, c)
}

func newCookie() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// foreign reports a sign of another origin behind a POST (decision A11).
// Neither header is no sign: programs send none, and the form token decides.
func foreign(v *visit) bool {
	if v.r.Header["Sec-Fetch-Site"] != nil {
		return !ledHere(v.r)
	}
	origins := v.r.Header["Origin"]
	return origins != nil && !slices.Equal(origins, []string{v.base})
}

// ledHere reports whether the browser says that the person, or a page of ours,
// led to this one. Where another site did, it chose the address, and often a
// name on the page, so the length of a compressed answer would tell whoever
// reads the network what else is on it (decision A11).
func ledHere(r *http.Request) bool {
	sites := r.Header["Sec-Fetch-Site"]
	return slices.Equal(sites, []string{"same-origin"}) || slices.Equal(sites, []string{"none"})
}

// ours reports whether the form came from a page that this session was shown.
func (s *Server) ours(v *visit, form url.Values) bool {
	return v.session != "" && s.Ring.CheckFormToken(v.session, one(form, "csrf"))
}

// before gives the value of the cookie that a browser signs in with, and sets
// one where there is none.
func (s *Server) before(v *visit) string {
	value := cookie(v, "before")
	if value == "" {
		value = newCookie()
		setCookie(v, "before", value)
	}
	return value
}

// own reports whether a form token is of this browser, before anybody is
// signed in there.
func (s *Server) own(v *visit, token string) bool {
	before := cookie(v, "before")
	return before != "" && s.Ring.CheckFormToken(before, token)
}

// posted reads a form that no other site has sent.
func posted(v *visit, bytes int64, fields int) (url.Values, error) {
	if foreign(v) {
		return nil, errForeign
	}
	return readForm(v, bytes, fields)
}

// readForm reads a body of at most so many bytes and fields.
func readForm(v *visit, bytes int64, fields int) (url.Values, error) {
	if !isForm(v.r.Header) {
		return nil, errBadForm
	}
	var b strings.Builder
	if _, err := io.Copy(&b, http.MaxBytesReader(v.w, v.r.Body, bytes)); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return nil, errTooLarge
		}
		return nil, errBadForm
	}
	if strings.Count(b.String(), "&") >= fields {
		return nil, errTooLarge
	}
	form, err := url.ParseQuery(b.String())
	if err != nil {
		return nil, errBadForm
	}
	return form, nil
}

// isForm reports whether a body says that it is a form, once, and in UTF-8 as
// far as it says so.
func isForm(h http.Header) bool {
	types := h["Content-Type"]
	if len(types) != 1 || h.Get("Content-Encoding") != "" {
		return false
	}
	kind, parameters, err := mime.ParseMediaType(types[0])
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return false
	}
	charset, named := parameters["charset"]
	return !named || strings.EqualFold(charset, "utf-8")
}

// one gives the value of a field that was sent once.
func one(form url.Values, name string) string {
	if v := form[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}
