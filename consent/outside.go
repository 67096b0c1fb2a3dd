package consent

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/store"
)

// Ways are how people can sign in. The zero Ways is with passwords alone.
type Ways struct {
	NoPasswords bool
	Providers   []*provider.Provider
	HandOff     *HandOff

	Strong Strength      // what an approval of more than roles asks for
	Fresh  time.Duration // how long ago that may be; 0 is DefaultFresh
}

// attemptLifetime is how long somebody may be away to sign in elsewhere.
const attemptLifetime = time.Hour

// An attempt is one sign-in elsewhere. The browser carries it sealed, as state
// or challenge, so any number of tabs are under way at once.
type attempt struct {
	Way     string `json:"way"`             // ID of the provider, or handoff
	Return  string `json:"return"`          // path of this server
	Secret  []byte `json:"secret"`          // 32 random bytes, of this attempt alone
	Browser string `json:"browser"`         // form token of the browser's cookie: nobody else can come back with it
	Began   int64  `json:"began"`           // Unix seconds
	Fresh   string `json:"fresh,omitempty"` // person who signs in anew, to go on in the session that there is
}

func (a attempt) secret() provider.Secret { return provider.Secret(a.Secret) }

func (s *Server) openAttempt(sealed string) (a attempt, ok bool) {
	ok = s.open(sealedAttempt, sealed, &a) && len(a.Secret) == len(provider.Secret{})
	return a, ok
}

// newAttempt begins a sign-in elsewhere in this browser.
func (s *Server) newAttempt(v *visit, way, path string) attempt {
	a := attempt{Way: way, Return: path, Secret: make([]byte, len(provider.Secret{})), Began: v.now.Unix()}
	rand.Read(a.Secret)
	a.Browser = s.Ring.FormToken(s.before(v))
	return a
}

// What can become of a sign-in elsewhere, each a page (outside.html).
type notSignedIn struct {
	why    string // of the page
	way    string // ID of the provider, or handoff
	path   string // where to go on after another attempt
	detail string // for the log
	email  string // not ours: as the provider says it
}

func (e notSignedIn) Error() string { return "not signed in: " + e.why + ": " + e.detail }

var outsideStatus = map[string]int{"down": http.StatusServiceUnavailable,
	"unknown": http.StatusForbidden, "unverified": http.StatusForbidden, "taken": http.StatusForbidden,
	"inactive": http.StatusForbidden, "acting": http.StatusForbidden, "browser": http.StatusForbidden}

// An outsidePage says why somebody is not signed in, and what to do.
type outsidePage struct {
	frame
	App     *app // not ours
	Why     string
	Way     string // name of the other side
	Email   string // not ours
	Again   string // path to try again
	Another string // path to try as somebody else
}

func (s *Server) showOutside(v *visit, e notSignedIn) error {
	status := outsideStatus[e.why]
	if status == 0 {
		status = http.StatusBadRequest
	}
	if status == http.StatusServiceUnavailable {
		v.w.Header().Set("Retry-After", unavailableFor)
	}
	s.count("signin", "failed")
	s.Log.Info("sign-in elsewhere refused", "way", e.way, "verdict", e.why, "why", e.detail, "request_id", v.reference())
	address := s.Address(v.r)
	if e.why != "down" { // which is nobody's fault here
		s.elsewhere.Allow(address, v.now)
	}
	if told, _ := s.lost.Allow(address, v.now); told {
		s.record(v, store.Event{Kind: "signin_failed", Reason: e.why, Detail: e.way})
	}
	sealed := s.sealPath(e.path)
	view := &outsidePage{frame: s.frame(v, "outside.title"), App: s.askedAbout(v, sealed), Why: e.why,
		Way: s.wayName(e.way), Email: e.email, Again: s.signInPath(sealed, true)}
	if v.signedIn() {
		view.Again = e.path
	}
	view.Same = s.sealPath(view.Again) // what came back counts once
	if s.way(e.way) && !v.signedIn() {
		view.Another = withQuery("/signin/with/"+e.way, "return", sealed, "another", "1")
	}
	return s.show(v, status, outsideTemplate, view)
}

// way reports whether people can sign in by this way.
func (s *Server) way(id string) bool {
	return s.provider(id) != nil || id == handOffID && s.Ways.HandOff != nil
}

func (s *Server) wayName(id string) string {
	if p := s.provider(id); p != nil {
		return p.Name
	}
	if id == handOffID && s.Ways.HandOff != nil && s.Ways.HandOff.Name != "" {
		return s.Ways.HandOff.Name
	}
	return s.Service
}

func (s *Server) provider(id string) *provider.Provider {
	i := slices.IndexFunc(s.Ways.Providers, func(p *provider.Provider) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return s.Ways.Providers[i]
}

// A wayOut is another place to sign in, on the page.
type wayOut struct{ ID, Name, Path string }

func (s *Server) waysOut(sealed string, another bool) (ways []wayOut) {
	mark := ""
	if another {
		mark = "1"
	}
	add := func(id string) {
		ways = append(ways, wayOut{id, s.wayName(id), withQuery("/signin/with/"+id, "return", sealed, "another", mark)})
	}
	if s.Ways.HandOff != nil {
		add(handOffID)
	}
	for _, p := range s.Ways.Providers {
		add(p.ID)
	}
	return ways
}

// straightOn reports whether there is one way to sign in, and it is elsewhere.
func (s *Server) straightOn() bool {
	return s.Ways.NoPasswords && len(s.waysOut("", false)) == 1
}

// signInPath leads to the sign-in page. stay keeps it from going straight on:
// whoever has just signed out would be signed in again.
func (s *Server) signInPath(sealed string, stay bool) string {
	mark := ""
	if stay && s.straightOn() {
		mark = "1"
	}
	return withQuery("/signin", "return", sealed, "stay", mark)
}

// goOut is GET /signin/with/{way}.
func (s *Server) goOut(v *visit) error {
	q := v.r.URL.Query()
	path := s.returnPath(q.Get("return"))
	if v.signedIn() { // in another tab: who it is shows at consent
		return v.see(path)
	}
	return s.sendOut(v, s.newAttempt(v, v.r.PathValue("way"), path), q.Get("another") != "")
}

func (s *Server) sendOut(v *visit, a attempt, another bool) error {
	if a.Way == handOffID && s.Ways.HandOff != nil {
		return v.see(s.Ways.HandOff.address(s.seal(sealedAttempt, a), v.base, a.Fresh != ""))
	}
	p := s.provider(a.Way)
	if p == nil {
		return errNoPage
	}
	to, err := p.Begin(v.r.Context(), provider.Ask{RedirectURI: callbackURI(v, p), Secret: a.secret(), State: s.seal(sealedAttempt, a),
		Fresh: a.Fresh != "", Another: another})
	if err != nil {
		return providerFault(a, err)
	}
	return v.see(to)
}

// callbackURI is a path of its own for each provider, so that the answer of
// one cannot pass for another's (RFC 9700 section 4.4.2.2).
func callbackURI(v *visit, p *provider.Provider) string { return v.base + "/signin/callback/" + p.ID }

func providerFault(a attempt, err error) error {
	why := "untrusted"
	if errors.Is(err, provider.ErrDown) {
		why = "down"
	}
	return notSignedIn{why: why, way: a.Way, path: a.Return, detail: err.Error()}
}

// comeBack is GET /signin/callback/{way}.
func (s *Server) comeBack(v *visit) error {
	way, q := v.r.PathValue("way"), v.r.URL.Query()
	if wait := s.elsewhere.Wait(s.Address(v.r), v.now); wait > 0 {
		return tooMany{wait}
	}
	if way == handOffID && s.Ways.HandOff != nil {
		return s.assertedBack(v, one(q, "assertion"))
	}
	p := s.provider(way)
	if p == nil {
		return errNoPage
	}
	a, ok := s.openAttempt(one(q, "state"))
	if open, err := s.checkAttempt(v, a, ok, way); !open {
		return err
	}
	if code := one(q, "error"); code != "" || one(q, "code") == "" {
		return notSignedIn{why: "refused", way: way, path: a.Return, detail: "the provider answers " + plainWord(code)}
	}
	c, err := p.Finish(v.r.Context(), provider.Ask{RedirectURI: callbackURI(v, p), Secret: a.secret()},
		provider.Answer{Code: one(q, "code"), Issuer: one(q, "iss")})
	if err != nil {
		return providerFault(a, err)
	}
	return s.vouched(v, p, a, c)
}

// checkAttempt refuses what did not begin here, in this browser, for this way,
// a while ago at most. Who is signed in by now, in another tab, goes on without:
// nothing is done with the answer.
func (s *Server) checkAttempt(v *visit, a attempt, ok bool, way string) (open bool, err error) {
	fault := notSignedIn{why: "browser", way: way, path: a.Return}
	switch {
	case !ok:
		fault.path, fault.detail = "/", "state is not ours"
	case a.Way != way:
		fault.why, fault.detail = "untrusted", "state was given to "+a.Way
	case v.signedIn() && a.Fresh == "":
		return false, v.see(a.Return)
	case !s.own(v, a.Browser):
		fault.detail = "begun in another browser"
	case v.now.Sub(time.Unix(a.Began, 0)) > attemptLifetime:
		fault.detail = "begun too long ago"
	default:
		return true, nil
	}
	return false, fault
}

// plainWord keeps of an error code what may stand in a log.
func plainWord(code string) string {
	if len(code) > 40 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "something else"
	}
	return code
}

// vouched signs in whom a provider vouches for.
func (s *Server) vouched(v *visit, p *provider.Provider, a attempt, c provider.Claims) error {
	fault := notSignedIn{way: a.Way, path: a.Return, email: c.Email, detail: "vouched for by " + p.ID}
	person, bind, why, err := s.whoIs(v, p, c)
	if err != nil {
		return err
	}
	if fault.why = why; why != "" {
		return fault
	}
	proof := store.Proof{ProvedAt: provedAt(c.AuthTime), Issuer: c.Issuer, Subject: c.Subject, SID: c.Session}
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

// enter begins the session that a sign-in elsewhere leads to.
func (s *Server) enter(v *visit, e store.Entry, a attempt, fault notSignedIn) error {
	if a.Fresh != "" {
		switch {
		case e.By != "", e.Person != a.Fresh, e.Person != v.person.ID:
			fault.why = "taken" // another account, or another session meanwhile
			return fault
		case !s.recent(v, e.Proof.ProvedAt):
			fault.why = "refused" // it did not ask the person again
			return fault
		}
		e.Ends = v.session
	}
	actor := "person:" + e.Person
	if e.By != "" {
		actor = elsewhere + e.By
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
		return v.see(a.Return)
	}
	return fault
}

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

// by is who does what a request does, in the journal.
func (v *visit) by() string {
	if v.actsElsewhere() {
		return v.actor.ID
	}
	return "person:" + v.who().ID
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

// whoIs finds the person here whom a provider vouches for: by the claim that
// names them, or by subject, which a verified email leads to the first time.
// why is the page for nobody.
func (s *Server) whoIs(v *visit, p *provider.Provider, c provider.Claims) (person org.Person, bind bool, why string, err error) {
	ctx := v.r.Context()
	known, err := s.Store.Subject(ctx, c.Issuer, c.Subject)
	met := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return org.Person{}, false, "", wrap("subject", err)
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
		person, err = s.Store.PersonByEmail(ctx, c.Email)
	}
	if errors.Is(err, store.ErrNotFound) && p.Provision {
		person, why, err = s.provision(ctx, c, s.actBy(v, "system"))
	} else if errors.Is(err, store.ErrNotFound) {
		why, err = "unknown", nil
	}
	if err == nil && why == "" && !person.Active {
		why = "inactive"
	}
	return person, !met, why, wrap("person", err)
}

// provision adds a person whom a provider vouches for, without any membership.
func (s *Server) provision(ctx context.Context, c provider.Claims, act store.Act) (org.Person, string, error) {
	p := org.Person{ID: c.Person, Email: c.Email, Name: strings.TrimSpace(c.Name), Active: true}
	if p.ID == "" {
		b := make([]byte, 10)
		rand.Read(b)
		p.ID = strings.ToLower(base32.StdEncoding.EncodeToString(b))
	}
	if p.Name == "" || len(p.Name) > 200 {
		p.Name = p.Email
	}
	if p.Email == "" || !strings.Contains(p.Email, "@") || len(p.Email) > 254 {
		return p, "unverified", nil
	}
	err := s.Store.Provision(ctx, p, act)
	if errors.Is(err, store.ErrConflict) {
		return p, "taken", nil
	}
	return p, "", err
}

// farewell is POST /signin/logout/{way}: a provider says that somebody signed
// out (OpenID Connect Back-Channel Logout 1.0 section 2.5).
func (s *Server) farewell(v *visit) error {
	p := s.provider(v.r.PathValue("way"))
	if p == nil {
		return errNoPage
	}
	address := s.Address(v.r)
	if wait := s.farewells.Wait(address, v.now); wait > 0 {
		return tooMany{wait}
	}
	form, err := readForm(v, otherBytes, otherFields)
	if err != nil {
		return err
	}
	out, err := p.Logout(v.r.Context(), one(form, "logout_token"))
	if errors.Is(err, provider.ErrDown) {
		return answerJSON(v, http.StatusServiceUnavailable, "temporarily_unavailable")
	}
	ended := 0
	if err == nil {
		ended, err = s.Store.EndSessionsAt(v.r.Context(), store.Farewell{Issuer: out.Issuer, Subject: out.Subject, SID: out.Session,
			Once: "logout " + out.Issuer + " " + out.ID, OnceUntil: out.Until},
			s.actBy(v, "system"))
	}
	if errors.Is(err, store.ErrUnavailable) {
		return answerJSON(v, http.StatusServiceUnavailable, "temporarily_unavailable")
	}
	if err != nil { // wrong ones alone are counted: each may ask the provider for keys
		s.farewells.Allow(address, v.now)
		s.Log.Info("logout refused", "way", p.ID, "why", err, "request_id", v.reference())
		return answerJSON(v, http.StatusBadRequest, "invalid_request")
	}
	s.Log.Info("logout", "way", p.ID, "sessions", ended, "request_id", v.reference())
	v.w.WriteHeader(http.StatusOK)
	return nil
}

func answerJSON(v *visit, status int, code string) error {
	v.w.Header().Set("Content-Type", "application/json")
	v.w.WriteHeader(status)
	_, err := v.w.Write([]byte(`{"error":"` + code + `"}`))
	return err
}
