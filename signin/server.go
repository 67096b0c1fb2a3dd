// Package signin is who somebody is, and what their session has proved:
// passwords, providers, hand-off, second factors, signing in again, the account's
// pages, and support staff who act as somebody. It knows nothing of approvals.
package signin

import (
	"embed"
	"maps"
	"slices"
	"time"

	tries "github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/provider"
)

//go:embed templates/*.html
var templates embed.FS

var (
	signInTemplate  = page.Parse(templates, "signin.html")
	outsideTemplate = page.Parse(templates, "outside.html")
	secondTemplate  = page.Parse(templates, "second.html")
	againTemplate   = page.Parse(templates, "again.html")
	factorsTemplate = page.Parse(templates, "factors.html")
	accountTemplate = page.Parse(templates, "account.html", "newpassword.html")
	resetTemplate   = page.Parse(templates, "reset.html", "newpassword.html")
	forgotTemplate  = page.Parse(templates, "forgot.html")
	supportTemplate = page.Parse(templates, "support.html")
	actAsTemplate   = page.Parse(templates, "actas.html")
)

// Purposes of what is sealed here.
const (
	sealedDone    = "account was changed"
	sealedFactors = "factors were changed"
	sealedAttempt = "sign-in elsewhere"
	sealedForgot  = "return after a new password"
	sealedSecond  = "second step of a sign-in"
	sealedPasskey = "passkey"
	sealedOneTime = "secret of one-time codes"
)

// A Server signs people in. Its fields are set before Pages is called and
// not changed after.
type Server struct {
	*page.Site

	// Ways to sign in, beside passwords.
	Providers []*provider.Provider
	HandOff   *HandOff // nil where there is none

	Strong Strength      // what Stronger asks for
	Fresh  time.Duration // how long ago that may be; 0 is DefaultFresh

	// Forgotten, unless nil, mails a link to whoever has an email, in the background;
	// false when too much mail waits. Nil where no mail is sent.
	Forgotten func(Forgotten) bool

	// Asks, unless nil, gives the app that a path of this server asks about, which
	// the page of sign-in then names; nil for none.
	Asks func(v *page.Visit, path string) *page.App

	// Seen, unless nil, is told what somebody was asked, or typed, who signs in for a
	// path of this server.
	Seen func(v *page.Visit, path string, what tries.What)

	failures     *failures
	wrongFactors *failures
	hasher       *hasher
	forgets      forgotLimits
	logouts      wrongs           // counts those that were wrong
	elsewhere    wrongs           // counts sign-ins elsewhere that came back wrong
	lost         *limit.Addresses // lets through so many events of sign-ins elsewhere
}

func (s *Server) saw(v *page.Visit, path string, what tries.What) {
	if s.Seen != nil {
		s.Seen(v, path, what)
	}
}

// Pages gives all pages of signing in, by their patterns. It is called once.
func (s *Server) Pages() map[string]func(*page.Visit) error {
	s.failures = newFailures(s.Limits, "signin", signInAccount)
	s.wrongFactors = newFailures(s.Limits, "second", secondAccount)
	s.hasher = newHasher()
	s.forgets = newForgotLimits(s.Limits)
	s.elsewhere.Addresses = s.Limits.Addresses("signin-elsewhere", signInAddress, nil)
	s.lost = limit.NewAddresses(signInAddress, nil)
	s.logouts.Addresses = s.Limits.Addresses("signin-logout", signInAddress, nil)
	return s.pages()
}

// Patterns are those of all pages, as net/http.ServeMux takes them.
func Patterns() []string { return slices.Collect(maps.Keys(new(Server).pages())) }

func (s *Server) pages() map[string]func(*page.Visit) error {
	pages := map[string]func(*page.Visit) error{
		"GET /signin":                s.signInPage,
		"POST /signin":               s.signIn,
		"GET /signin/second":         s.secondPage,
		"POST /signin/second":        s.second,
		"GET /signin/with/{way}":     s.elsewhereOr(s.goOut),
		"GET /signin/callback/{way}": s.elsewhereOr(s.comeBack),
		"POST /signin/logout/{way}":  s.logout,
		"POST /signout":              s.signOut,
		"GET /signin/forgot":         s.forgotPage,
		"POST /signin/forgot":        s.forgot,
		"GET /reset/{secret}":        s.resetPage,
		"POST /reset/{secret}":       s.reset,

		"POST /support/stop": s.stopActing,
	}
	for pattern, page := range s.ownPages() {
		pages[pattern] = s.Themselves(page)
	}
	return pages
}

// ownPages are for nobody but the person (decision P9).
func (s *Server) ownPages() map[string]func(*page.Visit) error {
	return map[string]func(*page.Visit) error{
		"GET /account":                         s.accountPage,
		"POST /account/password":               s.changePassword,
		"POST /account/sessions/end":           s.endOthers,
		"POST /account/sessions/{session}/end": s.endOne,

		"GET /account/sign-in":              s.factorsPage,
		"POST /account/sign-in/app":         s.newApp,
		"POST /account/sign-in/confirm":     s.confirmApp,
		"POST /account/sign-in/passkey":     s.newPasskey,
		"POST /account/sign-in/passkey/add": s.addPasskey,
		"POST /account/sign-in/recovery":    s.newRecovery,
		"POST /account/sign-in/remove":      s.removeFactor,
		"GET /signin/again":                 s.againPage,
		"POST /signin/again":                s.again,
		"GET /signin/again/{way}":           s.elsewhereOr(s.againOut),

		"GET /support":                          s.supportPage,
		"GET /support/{organization}/{person}":  s.actAsPage,
		"POST /support/{organization}/{person}": s.actAs,
	}
}

// way reports whether people can sign in by this way.
func (s *Server) way(id string) bool {
	return s.provider(id) != nil || id == handOffID && s.HandOff != nil
}

func (s *Server) wayName(id string) string {
	if p := s.provider(id); p != nil {
		return p.Name
	}
	if id == handOffID && s.HandOff != nil && s.HandOff.Name != "" {
		return s.HandOff.Name
	}
	return s.Service
}

func (s *Server) provider(id string) *provider.Provider {
	i := slices.IndexFunc(s.Providers, func(p *provider.Provider) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return s.Providers[i]
}

// A wayOut is another place to sign in, on the page.
type wayOut struct{ ID, Name, Path string }

func (s *Server) waysOut(sealed string, another bool) (ways []wayOut) {
	mark := ""
	if another {
		mark = "1"
	}
	add := func(id string) {
		ways = append(ways, wayOut{id, s.wayName(id), page.WithQuery("/signin/with/"+id, "return", sealed, "another", mark)})
	}
	if s.HandOff != nil {
		add(handOffID)
	}
	for _, p := range s.Providers {
		add(p.ID)
	}
	return ways
}

// straightOn reports whether there is one way to sign in, and it is elsewhere.
func (s *Server) straightOn() bool {
	return s.NoPasswords && len(s.waysOut("", false)) == 1
}

// SignInPath leads to the sign-in page, which does not go straight on, and asks other
// places for another account: whoever has just signed out would be signed in again.
func (s *Server) SignInPath(sealed string) string {
	mark := ""
	if len(s.waysOut("", false)) > 0 {
		mark = "1"
	}
	return page.WithQuery("/signin", "return", sealed, "stay", mark)
}
