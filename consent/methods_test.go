package consent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/net/html/atom"

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
	f := s.newIssuer()
	down := provider.New(provider.Config{ID: "down", Name: "Example Corp", Issuer: "http://127.0.0.1:1", ClientID: "x", Scopes: []string{"openid"}}, s.Store.Now)
	s.SignIn.Providers, s.SignIn.Strong = []*provider.Provider{down, provider.New(provider.Config{ID: "corp", Name: "Corporate login", Issuer: f.URL, ClientID: "x", Scopes: []string{"openid", "email"}}, s.Store.Now)}, signin.StrengthFactor
	s.SignIn.HandOff = &signin.HandOff{URL: pagetest.HandOffURL, Keys: []identity.AssertionKey{{Secret: []byte(pagetest.HandOffSecret)}}}
	b := s.Browser()
	page := b.Get(pagetest.Authorize()).Follow().Want(200)
	visit("ways", true, page)
	visit("down", true, b.Get(leads(page, "/signin/with/down?")).Want(503))
	q := b.Get(leads(page, "/signin/with/handoff?")).Sent(pagetest.HandOffURL)
	back := func(person string, change func(*identity.Assertion)) *pagetest.Shown {
		return b.Get(s.Asserts(q, person, change))
	}
	visit("untrusted", true, back("", nil).Want(400))
	visit("begun elsewhere", true, s.Browser().Get(s.Asserts(q, "ada", nil)).Want(403))
	visit("unknown", true, back("nobody", nil).Want(403))
	visit("acting as support staff", true, back("nils", func(a *identity.Assertion) { a.ImpersonatedBy = "x" }).Want(403))
	corp := func() url.Values { return b.Get(leads(page, "/signin/with/corp?")).Sent(f.URL + "/authorize") }
	visit("refused", true, b.Get(f.answers(corp())+"&error=access_denied").Want(400))
	visit("unverified", true, b.Get(f.answers(corp())).Want(403))
	f.says = map[string]any{"email": "tor@nordlys.example", "email_verified": true}
	ada := s.SignedIn("ada")
	visit("taken", true, ada.Get(f.answers(ada.Get("/signin/again/corp").Sent(f.URL+"/authorize"))).Want(403))
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

// leads gives the link that begins so, in whatever language it is said.
func leads(p *pagetest.Shown, to string) string {
	p.T.Helper()
	for _, n := range p.All(atom.A) {
		if href := pagetest.Attr(n, "href"); strings.HasPrefix(href, to) {
			return href
		}
	}
	p.T.Fatalf("nothing leads to %s: %s", to, p.Text())
	return ""
}

// An issuer is an OpenID provider that says of whoever comes what it was told.
type issuer struct {
	*httptest.Server
	says map[string]any
}

func (s *site) newIssuer() *issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.Do(err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	s.Do(err)
	i := new(issuer)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
			"jwks_uri": i.URL + "/keys", "keys": []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}},
			"id_token_signing_alg_values_supported": []string{"ES256"}, "access_token": "x", "token_type": "Bearer"}
		if r.URL.Path == "/token" {
			now := s.Store.Now().Unix()
			claims := map[string]any{"iss": i.URL, "aud": "x", "sub": "of-them", "nonce": r.FormValue("code"), "iat": now, "exp": now + 60, "auth_time": now}
			maps.Copy(claims, i.says)
			payload, _ := json.Marshal(claims)
			signed, _ := signer.Sign(payload)
			answer["id_token"], _ = signed.CompactSerialize()
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(answer)
	}))
	s.T.Cleanup(i.Close)
	return i
}

// answers is where it sends the browser back to, which came with these parameters.
// Its codes are the nonces that its tokens have to say.
func (i *issuer) answers(asked url.Values) string {
	return "/signin/callback/corp?" + url.Values{"code": {asked.Get("nonce")}, "state": {asked.Get("state")}}.Encode()
}
