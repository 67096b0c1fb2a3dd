package consent

import (
	"strings"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/store"
)

// signInPages gives every page of signing in elsewhere and with two factors.
func (s *site) signInPages(visit func(name string, flow bool, p *shown)) {
	s.t.Helper()
	before := s.Ways
	defer func() { s.Ways = before }()
	down := provider.New(provider.Config{ID: "down", Name: "Example Corp", Issuer: "http://127.0.0.1:1", ClientID: "x", Scopes: []string{"openid"}}, s.Store.Now)
	s.Ways = Ways{Providers: []*provider.Provider{down}, Strong: StrengthFactor,
		HandOff: &HandOff{URL: handOffURL, Keys: []identity.AssertionKey{{Secret: []byte(handOffSecret)}}}}
	b := s.browser()
	page := b.get(authorize()).follow().want(200)
	visit("ways", true, page)
	visit("down", true, b.get(page.leads("/signin/with/down?")).want(503))
	q := b.get(page.leads("/signin/with/handoff?")).sent(handOffURL)
	back := func(person string, change func(*identity.Assertion)) *shown {
		return b.get(s.asserts(q, person, change))
	}
	visit("untrusted", true, back("", nil).want(400))
	visit("begun elsewhere", true, s.browser().get(s.asserts(q, "ada", nil)).want(403))
	visit("unknown", true, back("nobody", nil).want(403))
	visit("acting as support staff", true, back("nils", func(a *identity.Assertion) { a.ImpersonatedBy = "x" }).want(403))
	for _, why := range []string{"refused", "unverified", "taken"} {
		visit(why, true, s.outside(b, notSignedIn{why: why, way: "down", path: "/", email: "ada@nordlys.example"}))
	}
	s.do(s.Store.SetActive(s.t.Context(), "ola", false, store.Act{Actor: "operator"}))
	visit("deactivated", true, back("ola", nil).want(403))
	s.do(s.Store.SetActive(s.t.Context(), "ola", true, store.Act{Actor: "operator"}))

	eve := s.signedIn("eve")
	visit("factors", false, eve.get("/account/sign-in").want(200))
	visit("new passkey", false, eve.get("/account/sign-in").press("/account/sign-in/passkey").want(200))
	app := eve.get("/account/sign-in").press("/account/sign-in/app").want(200)
	visit("new app", false, app)
	visit("new app with a fault", false, app.press("/account/sign-in/confirm", "code", "x").want(422))
	ada := s.signedIn("ada")
	visit("no second factor", true, ada.get(authorize()).approve().want(403))
	s.do(s.Store.AddFactors(s.t.Context(), "eve", eve.cookies[eve.cookieName("session")], []store.Factor{{ID: newFactorID(), Kind: store.FactorOneTime}, {ID: newFactorID(), Kind: store.FactorRecovery}}, store.Act{Actor: "person:eve"}))
	visit("factors of somebody", false, eve.get("/account/sign-in").want(200))
	visit("recovery codes", false, eve.get("/account/sign-in").press("/account/sign-in/recovery").want(200))
	visit("again", true, eve.get("/signin/again").want(200))
	visit("again with a fault", true, eve.get("/signin/again").press("/signin/again", "password", "x").want(422))
	second := signin(s.browser().get("/signin"), "eve@nowhere.example", password).follow().want(200)
	visit("second", true, second)
	visit("second with a fault", true, second.press("/signin/second", "code", "x").want(422))
	_, err := s.Store.ResetSignIn(s.t.Context(), "eve", store.Act{Actor: "operator"})
	s.do(err)
}

// outside shows a page of a sign-in that failed elsewhere.
func (s *site) outside(b *browser, e notSignedIn) *shown {
	s.t.Helper()
	handler := s.handler
	defer func() { s.handler = handler }()
	s.handler = s.handle(func(*visit) error { return e })
	return b.get("/signin")
}

// leads gives the link that begins so, in whatever language it is said.
func (p *shown) leads(to string) string {
	p.t.Helper()
	for _, n := range p.all(atom.A) {
		if href := attr(n, "href"); strings.HasPrefix(href, to) {
			return href
		}
	}
	p.t.Fatalf("nothing leads to %s: %s", to, p.text())
	return ""
}
