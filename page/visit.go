package page

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

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// A Visit is one request, with what every page needs to know of it.
type Visit struct {
	W       http.ResponseWriter
	R       *http.Request
	Base    string
	Now     time.Time  // in the zone in which times are said
	Session string     // value of the session's cookie; empty when nobody is signed in
	Person  org.Person // whose pages are shown; zero when nobody is signed in
	Actor   org.Person // of support staff, who acts as person; zero otherwise
	Words   *Words     // of the language that pages are in

	ActingIn string // organization in which actor acts
}

// Visit begins one; nobody is identified yet.
func (s *Site) Visit(w http.ResponseWriter, r *http.Request) *Visit {
	v := &Visit{W: w, R: r, Base: s.Base(r), Now: s.Store.Now()}
	v.Now = v.Now.In(zoneFor(v))
	v.Words = s.wordsFor(v)
	return v
}

// SignedIn reports whether somebody is.
func (v *Visit) SignedIn() bool { return v.Person.ID != "" }

// Acting reports whether support staff see the pages of somebody else.
func (v *Visit) Acting() bool { return v.Actor.ID != "" }

// Elsewhere begins the ID of an actor whom the other side names.
const Elsewhere = "elsewhere:"

// ActsElsewhere reports whether the other side says that somebody else is at
// the keyboard. They see the person's pages as support staff do (decision P9).
func (v *Visit) ActsElsewhere() bool { return strings.HasPrefix(v.Actor.ID, Elsewhere) }

// who is the person who does what this request does: whoever is at the
// keyboard.
func (v *Visit) who() org.Person {
	if v.Acting() {
		return v.Actor
	}
	return v.Person
}

// By is who does what a request does, in the journal.
func (v *Visit) By() string {
	if v.ActsElsewhere() {
		return v.Actor.ID
	}
	return "person:" + v.who().ID
}

// Reference names the request, on pages and in the log alike.
func (v *Visit) Reference() string { return v.W.Header().Get("X-Request-Id") }

// See answers 303, the one redirect of pages: 307 would post the form, at
// sign-in the password, to where the browser goes next (decision A10).
func (v *Visit) See(location string) error {
	v.W.Header().Set("Location", location)
	v.W.WriteHeader(http.StatusSeeOther)
	return nil
}

// WithQuery adds names and values to a URI, never touching its own bytes. What
// is empty is left out. A space becomes %20, which every reader of a query
// takes for a space.
func WithQuery(uri string, params ...string) string {
	var b strings.Builder
	b.WriteString(uri)
	sep := "?"
	if strings.Contains(uri, "?") {
		sep = "&"
		if strings.HasSuffix(uri, "?") || strings.HasSuffix(uri, "&") {
			sep = ""
		}
	}
	name := ""
	for i, one := range params {
		if i%2 == 0 {
			name = one
		} else if one != "" {
			b.WriteString(sep + name + "=" + strings.ReplaceAll(url.QueryEscape(one), "+", "%20"))
			sep = "&"
		}
	}
	return b.String()
}

// AppsPath leads to Connected apps of an organization.
func AppsPath(organization string) string {
	return "/organizations/" + url.PathEscape(organization) + "/profile/api"
}

// IntegrationPath leads to the pages of an organization's admins.
func IntegrationPath(organization string) string {
	return "/organizations/" + url.PathEscape(organization) + "/settings/ai-integration"
}

// Act says who does what this request does.
func (s *Site) Act(v *Visit) store.Act { return s.ActBy(v, v.By()) }

// ActBy is Act of somebody else.
func (s *Site) ActBy(v *Visit, actor string) store.Act {
	return store.Act{Actor: actor, Address: s.Address(v.R).String(), Reference: v.Reference()}
}

// Record writes into the journal what came of this request. Where nobody is
// named who did it, it is the system's.
func (s *Site) Record(v *Visit, e store.Event) {
	e.Actor, e.Address, e.Reference = cmp.Or(e.Actor, "system"), s.Address(v.R).String(), v.Reference()
	s.Store.Record(e)
}

// handle makes a handler of a function that answers itself or returns why it
// did not. All answers carry the headers of a page, redirects too.
func (s *Site) handle(f func(*Visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := s.Visit(w, whole(r))
		PageHeaders(w.Header())
		err := s.identify(v)
		if err == nil {
			err = f(v)
		}
		if err != nil {
			s.Fail(v, err)
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
	text, err := io.ReadAll(io.LimitReader(r.Body, ChoiceBytes+1)) // an error comes again
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
func (s *Site) identify(v *Visit) error {
	value := cookie(v, "session")
	if value == "" {
		return nil
	}
	ctx := v.R.Context()
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
		if v.Actor, err = s.Store.Person(ctx, session.Actor); err != nil {
			return fmt.Errorf("actor of a session: %w", err)
		}
		v.ActingIn = session.ActingIn
	}
	if session.ActedBy != "" {
		v.Actor = org.Person{ID: Elsewhere + session.ActedBy, Name: session.ActedBy, Email: s.Service}
	}
	v.Session, v.Person = value, p
	return nil
}

// cookieName is the name of a cookie on this host. Over https it carries the
// prefix that keeps other hosts from setting it; over plain http, which is
// loopback, browsers do not take the prefix (decision S1).
func cookieName(v *Visit, name string) string {
	if secure(v) {
		return "__Host-" + name
	}
	return name
}

func secure(v *Visit) bool { return strings.HasPrefix(v.Base, "https://") }

// cookieLen is the length of every cookie's value: 32 bytes in base64url.
const cookieLen = 43

// cookie gives the value of a cookie that could be one of ours.
func cookie(v *Visit, name string) string {
	c, err := v.R.Cookie(cookieName(v, name))
	if err != nil || len(c.Value) != cookieLen {
		return ""
	}
	return c.Value
}

// SetCookie sets a cookie for as long as the browser runs. An empty value
// deletes it.
func SetCookie(v *Visit, name, value string) {
	c := &http.Cookie{Name: cookieName(v, name), Value: value, Path: "/",
		Secure: secure(v), HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(v.W, c)
}

// NewCookie makes a value that nobody guesses.
func NewCookie() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// Foreign reports a sign of another origin behind a POST (decision A11).
// Neither header is no sign: programs send none, and the form token decides.
func Foreign(v *Visit) bool {
	if v.R.Header["Sec-Fetch-Site"] != nil {
		return !ledHere(v.R)
	}
	origins := v.R.Header["Origin"]
	return origins != nil && !slices.Equal(origins, []string{v.Base})
}

// ledHere reports whether the browser says that the person, or a page of ours,
// led to this one. Where another site did, it chose the address, and often a
// name on the page, so the length of a compressed answer would tell whoever
// reads the network what else is on it (decision A11).
func ledHere(r *http.Request) bool {
	sites := r.Header["Sec-Fetch-Site"]
	return slices.Equal(sites, []string{"same-origin"}) || slices.Equal(sites, []string{"none"})
}

// Ours reports whether the form came from a page that this session was shown.
func (s *Site) Ours(v *Visit, form url.Values) bool {
	return v.Session != "" && s.Ring.CheckFormToken(v.Session, One(form, "csrf"))
}

// Before gives the value of the cookie that a browser signs in with, and sets
// one where there is none.
func (s *Site) Before(v *Visit) string {
	value := cookie(v, "before")
	if value == "" {
		value = NewCookie()
		SetCookie(v, "before", value)
	}
	return value
}

// Own reports whether a form token is of this browser, before anybody is
// signed in there.
func (s *Site) Own(v *Visit, token string) bool {
	before := cookie(v, "before")
	return before != "" && s.Ring.CheckFormToken(before, token)
}

// Changing checks that a form which changes something was shown to this
// session, and reads it. Where nobody is signed in, the form comes with ErrSignIn: it may
// say where to come back to.
func (s *Site) Changing(v *Visit) (url.Values, error) {
	return s.ChangingUpTo(v, OtherBytes, OtherFields)
}

// ChangingUpTo is Changing of a form of at most so many bytes and fields.
func (s *Site) ChangingUpTo(v *Visit, bytes int64, fields int) (url.Values, error) {
	form, err := Posted(v, bytes, fields)
	switch {
	case err != nil:
		return nil, err
	case !v.SignedIn():
		return form, ErrSignIn
	case !s.Ours(v, form):
		return nil, ErrStale
	}
	return form, nil
}

// Posted reads a form that no other site has sent.
func Posted(v *Visit, bytes int64, fields int) (url.Values, error) {
	if Foreign(v) {
		return nil, ErrForeign
	}
	return ReadForm(v, bytes, fields)
}

// ReadForm reads a body of at most so many bytes and fields.
func ReadForm(v *Visit, bytes int64, fields int) (url.Values, error) {
	if !isForm(v.R.Header) {
		return nil, ErrBadForm
	}
	var b strings.Builder
	if _, err := io.Copy(&b, http.MaxBytesReader(v.W, v.R.Body, bytes)); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return nil, errTooLarge
		}
		return nil, ErrBadForm
	}
	if strings.Count(b.String(), "&") >= fields {
		return nil, errTooLarge
	}
	form, err := url.ParseQuery(b.String())
	if err != nil {
		return nil, ErrBadForm
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

// One gives the value of a field that was sent once.
func One(form url.Values, name string) string {
	if v := form[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}

// Membership gives the organization of the path and who the person is there.
// To everybody else it does not exist.
func (s *Site) Membership(v *Visit) (org.Organization, org.Member, error) {
	if !v.SignedIn() {
		return org.Organization{}, org.Member{}, ErrSignIn
	}
	ctx, id := v.R.Context(), v.R.PathValue("organization")
	if org.CheckID(id) != nil || v.Acting() && !v.ActsElsewhere() && id != v.ActingIn {
		return org.Organization{}, org.Member{}, ErrNoPage
	}
	m, err := s.Store.Member(ctx, v.Person.ID, id)
	if errors.Is(err, store.ErrNotFound) {
		return org.Organization{}, org.Member{}, ErrNoPage
	} else if err != nil {
		return org.Organization{}, org.Member{}, Wrap("member", err)
	}
	o, err := s.Store.Organization(ctx, id)
	if err != nil {
		return org.Organization{}, org.Member{}, Wrap("organization", err)
	}
	return o, m, nil
}
