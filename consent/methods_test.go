package consent

import (
	"net/url"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

// signInPages gives every page of signing in elsewhere and with two factors.
func (s *site) signInPages(visit func(name string, flow bool, p *pagetest.Shown)) {
	s.T.Helper()
	defer func() { s.SignIn.Providers, s.SignIn.HandOff, s.SignIn.Strong = nil, nil, "" }()
	f := pagetest.NewFar(s.T, s.Store.Now)
	down := provider.New(provider.Config{ID: "down", Name: "Example Corp", Issuer: "http://127.0.0.1:1", ClientID: "x", Scopes: []string{"openid"}}, s.Store.Now)
	s.SignIn.Providers, s.SignIn.Strong = []*provider.Provider{down, f.Provider("corp")}, signin.StrengthFactor
	s.SignIn.HandOff = &signin.HandOff{URL: pagetest.HandOffURL, Keys: []identity.AssertionKey{{Secret: []byte(pagetest.HandOffSecret)}}}
	b := s.Browser()
	page := b.Get(pagetest.Authorize()).Follow().Want(200)
	visit("ways", true, page)
	visit("down", true, b.Get(page.Leads("/signin/with/down?")).Want(503))
	q := b.Get(page.Leads("/signin/with/handoff?")).Sent(pagetest.HandOffURL)
	back := func(person string, change func(*identity.Assertion)) *pagetest.Shown {
		return b.Get(s.Asserts(q, person, change))
	}
	visit("untrusted", true, back("", nil).Want(400))
	visit("begun elsewhere", true, s.Browser().Get(s.Asserts(q, "ada", nil)).Want(403))
	visit("unknown", true, back("nobody", nil).Want(403))
	visit("acting as support staff", true, back("nils", func(a *identity.Assertion) { a.ImpersonatedBy = "x" }).Want(403))
	corp := func() url.Values { return f.Asks(b.Get(page.Leads("/signin/with/corp?"))) }
	visit("refused", true, b.Get(f.Answers(corp(), "code", "", "error", "access_denied")).Want(400))
	f.UserInfo = map[string]any{}
	visit("unverified", true, b.Get(f.Answers(corp())).Want(403))
	f.UserInfo = map[string]any{"email": "tor@nordlys.example", "email_verified": true}
	ada := s.SignedIn("ada")
	visit("taken", true, ada.Get(f.Answers(f.Asks(ada.Get("/signin/again/corp")))).Want(403))
	s.Do(s.Store.SetActive(s.T.Context(), "ola", false, store.Act{Actor: "operator"}))
	visit("deactivated", true, back("ola", nil).Want(403))
	s.Do(s.Store.SetActive(s.T.Context(), "ola", true, store.Act{Actor: "operator"}))

	eve := s.SignedIn("eve")
	visit("factors", false, eve.Get("/account/sign-in").Want(200))
	visit("new passkey", false, eve.Get("/account/sign-in").Press("/account/sign-in/passkey").Want(200))
	app := eve.Get("/account/sign-in").Press("/account/sign-in/app").Want(200)
	visit("new app", false, app)
	visit("new app with a fault", false, app.Press("/account/sign-in/confirm", "code", "x").Want(422))
	visit("no second factor", true, ada.Get(pagetest.Authorize()).Approve().Want(403))
	s.Do(s.Store.AddFactors(s.T.Context(), "eve", eve.Cookies[eve.CookieName("session")], []store.Factor{{ID: "one-time", Kind: store.FactorOneTime}, {ID: "recovery", Kind: store.FactorRecovery}}, store.Act{Actor: "person:eve"}))
	visit("factors of somebody", false, eve.Get("/account/sign-in").Want(200))
	visit("recovery codes", false, eve.Get("/account/sign-in").Press("/account/sign-in/recovery").Want(200))
	visit("again", true, eve.Get("/signin/again").Want(200))
	visit("again with a fault", true, eve.Get("/signin/again").Press("/signin/again", "password", "x").Want(422))
	second := pagetest.SignIn(s.Browser().Get("/signin"), "eve@nowhere.example", pagetest.Password).Follow().Want(200)
	visit("second", true, second)
	visit("second with a fault", true, second.Press("/signin/second", "code", "x").Want(422))
	_, err := s.Store.ResetSignIn(s.T.Context(), "eve", store.Act{Actor: "operator"})
	s.Do(err)
}
