package console

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/provider"
)

// awayFor is how long an operator may be away to sign in at a provider.
const awayFor = time.Hour

// sealedJourney is the purpose of what the browser carries to a provider and back.
const sealedJourney = "console sign-in"

// A journey is one sign-in at a provider, which the browser carries sealed, as state.
type journey struct {
	way    string // ID of the provider
	to     string // path to go on to
	secret provider.Secret
	tag    string // of the browser's cookie: nobody else can come back with it
	began  time.Time
}

func (a journey) plain() []byte {
	return []byte(strings.Join([]string{a.way, a.to, base64.RawURLEncoding.EncodeToString(a.secret[:]), a.tag, strconv.FormatInt(a.began.Unix(), 10)}, "\n"))
}

// openJourney reads a state that this server sealed.
func (s *Server) openJourney(state string) (a journey, ok bool) {
	text, _, ok := s.API.Ring.OpenPage(sealedJourney, state)
	part := strings.Split(string(text), "\n")
	if !ok || len(part) != 5 {
		return a, false
	}
	secret, err := base64.RawURLEncoding.DecodeString(part[2])
	began, wrong := strconv.ParseInt(part[4], 10, 64)
	if err != nil || wrong != nil || len(secret) != len(a.secret) {
		return a, false
	}
	return journey{part[0], part[1], provider.Secret(secret), part[3], time.Unix(began, 0)}, true
}

// away are the providers by which an operator can sign in at this request: those of
// people, where the browser asks at the console's own address, to which they lead back.
func (s *Server) away(r *http.Request) []*provider.Provider {
	if s.API.Ring == nil || !s.API.AtConsoleURL(r) {
		return nil
	}
	return s.Providers
}

func (s *Server) awayBy(v *visit) (*provider.Provider, error) {
	for _, p := range s.away(v.Request) {
		if p.ID == v.PathValue("way") {
			return p, nil
		}
	}
	return nil, errNoPage
}

// ask is how a provider is asked on a journey.
func (s *Server) ask(p *provider.Provider, a journey) provider.Ask {
	return provider.Ask{RedirectURI: s.API.ConsoleURL() + signInPath + "/callback/" + p.ID, Secret: a.secret}
}

// goAway leads to a provider.
func (s *Server) goAway(v *visit) error {
	p, err := s.awayBy(v)
	if err != nil {
		return err
	}
	a := journey{way: p.ID, to: s.returnPath(v.URL.Query().Get("return")), tag: s.formTag(s.before(v), v.URL.Path), began: v.now}
	rand.Read(a.secret[:])
	ask := s.ask(p, a)
	ask.State, ask.Another = s.API.Ring.SealPage(sealedJourney, a.plain()), v.URL.Query().Get("another") != ""
	to, err := p.Begin(v.Context(), ask)
	if err != nil {
		return s.notSignedIn(v, p, a, err)
	}
	v.w.Header().Set("Cache-Control", "no-store")
	return v.redirect(to)
}

// Why nobody is signed in who comes back.
var (
	errBrowser = errors.New("begun in another browser, or too long ago")
	errRefused = errors.New("the provider does not sign in")
	errNobody  = errors.New("vouched for nobody here")
)

// comeBack signs in whom a provider vouches for, by the email that it has verified.
func (s *Server) comeBack(v *visit) error {
	p, err := s.awayBy(v)
	if err != nil {
		return err
	}
	if to := v.Header.Get("Sec-Fetch-Dest"); to != "" && to != "document" {
		return errNoPage // a picture, a script or a frame of another page
	}
	q := v.URL.Query()
	a, ok := s.openJourney(q.Get("state"))
	before := s.API.Cookie(v.Request, operator.BeforeCookie)
	if !ok || a.way != p.ID || before == "" || !s.ours(before, signInPath+"/with/"+p.ID, a.tag) || v.now.Sub(a.began) > awayFor {
		return s.notSignedIn(v, p, journey{to: "/"}, errBrowser)
	}
	if q.Get("error") != "" || q.Get("code") == "" {
		return s.notSignedIn(v, p, a, errRefused)
	}
	claims, err := p.Finish(v.Context(), s.ask(p, a), provider.Answer{Code: q.Get("code"), Issuer: q.Get("iss")})
	if err != nil {
		return s.notSignedIn(v, p, a, err)
	}
	n, known := s.API.FromElsewhere(claims.Email)
	if !known || claims.ActedBy != "" {
		return s.notSignedIn(v, p, a, errNobody)
	}
	if err := s.API.Enter(v.w, v.Call, n, p.ID); err != nil {
		return err
	}
	return v.redirect(s.returnPath(a.to))
}

// notSignedIn says why, on the page to sign in. What a journey of this browser came
// to is journaled; any web page can have a browser ask for the address of others.
func (s *Server) notSignedIn(v *visit, p *provider.Provider, a journey, why error) error {
	page, status := signInPage{Return: s.returnPath(a.to), Fault: p.Name + " did not sign you in. Try again."}, http.StatusBadRequest
	switch {
	case errors.Is(why, provider.ErrDown):
		page.Fault, status = p.Name+" does not answer. Try again in a moment.", http.StatusServiceUnavailable
		v.w.Header().Set("Retry-After", "5")
	case errors.Is(why, errBrowser):
		page.Fault, status = "This sign-in was begun in another browser, or too long ago. Begin again.", http.StatusForbidden
	case errors.Is(why, errNobody):
		page.Fault, status = "The account at "+p.Name+" is no operator’s here. Sign in there as somebody else, or ask whoever installed this server.", http.StatusForbidden
	}
	s.API.Log.InfoContext(v.Context(), "operator not signed in", "way", p.ID, "why", why.Error(), "request_id", v.Reference)
	if !errors.Is(why, errBrowser) && !errors.Is(why, provider.ErrDown) {
		s.API.RecordFailed(v.Call, p.ID)
	}
	return s.showSignIn(v, status, page)
}
