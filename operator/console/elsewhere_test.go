package console

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
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/provider"
)

// A far is an OpenID provider, the other end of a network.
type far struct {
	*httptest.Server
	key   *ecdsa.PrivateKey
	nonce string
	email map[string]any
	now   func() time.Time
}

func newFar(t *testing.T, now func() time.Time) *far {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f := &far{key: key, now: now}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			answer = map[string]any{"issuer": f.URL, "authorization_endpoint": f.URL + "/authorize", "token_endpoint": f.URL + "/token", "jwks_uri": f.URL + "/keys",
				"id_token_signing_alg_values_supported": []string{"ES256"}}
		case "/keys":
			answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: f.key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}}
		case "/token":
			answer = map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": f.idToken(t)}
		default:
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *far) idToken(t *testing.T) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: f.key, KeyID: "1"}}, nil)
	if err != nil {
		t.Error(err)
		return ""
	}
	claims := map[string]any{"iss": f.URL, "sub": "7", "aud": "gk", "exp": f.now().Add(time.Hour).Unix(), "iat": f.now().Unix(), "nonce": f.nonce}
	maps.Copy(claims, f.email)
	text, err := json.Marshal(claims)
	if err != nil {
		t.Error(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		t.Error(err)
		return ""
	}
	out, err := signed.CompactSerialize()
	if err != nil {
		t.Error(err)
	}
	return out
}

// withFar is an office whose operators can sign in at a provider.
func withFar(t *testing.T) (*office, *far, func([]operator.Named)) {
	t.Helper()
	o, _, set := withNamed(t)
	f := newFar(t, o.Store.Now)
	f.email = map[string]any{"email": "ingrid@ops.example", "email_verified": true}
	p := provider.New(provider.Config{ID: "corp", Name: "Corporate login", Issuer: f.URL, ClientID: "gk", Scopes: []string{"openid", "email"}}, o.Store.Now)
	o.api.ConsoleURL = func() string { return "https://ops.example" }
	o.console(&Server{Providers: []*provider.Provider{p}})
	return o, f, set
}

// goes leads the browser to the provider, and gives the address that it comes back to.
func (b *browser) goes(f *far, to string) (back string) {
	b.o.Helper()
	p := b.asks("GET", "/signin/with/corp?return="+url.QueryEscape(to), nil).want(303)
	u, err := url.Parse(p.head.Get("Location"))
	if err != nil || !strings.HasPrefix(u.String(), f.URL+"/authorize?") || u.Query().Get("redirect_uri") != "https://ops.example/signin/callback/corp" {
		b.o.Fatalf("leads to %q", p.head.Get("Location"))
	}
	f.nonce = u.Query().Get("nonce")
	return "/signin/callback/corp?" + url.Values{"code": {"c"}, "state": {u.Query().Get("state")}}.Encode()
}

// Whom a provider vouches for by a verified email is the operator who has it, and
// nobody else; the way back counts in the browser that began, at the console's own
// address, for an hour.
func TestSignInAtAProvider(t *testing.T) {
	o, f, set := withFar(t)
	b := o.browser()
	b.host = "ops.example"
	b.asks("GET", "/signin?return=/events", nil).want(200).says("Sign in with Corporate login")
	back := b.goes(f, "/events")
	if p := b.asks("GET", back, nil).want(303); p.head.Get("Location") != "/events" {
		t.Errorf("leads to %q", p.head.Get("Location"))
	}
	b.asks("GET", "/events", nil).want(200).says("You may read, change and administer.")
	events := o.asked("GET", "/v1/events?kind=operator_signed_in", "")["items"].([]any)
	if len(events) != 1 || events[0].(map[string]any)["detail"] != "corp" || events[0].(map[string]any)["actor"] != "operator:ingrid" {
		t.Errorf("journal: %v", events)
	}
	fresh := func() *browser {
		one := o.browser()
		one.host = "ops.example"
		return one
	}
	for what, email := range map[string]map[string]any{
		"not verified": {"email": "ingrid@ops.example", "email_verified": false}, "no email": {}, "nobody's": {"email": "eva@ops.example", "email_verified": true},
		"acted for": {"email": "ingrid@ops.example", "email_verified": true, "act": map[string]any{"sub": "x"}},
	} {
		f.email = email
		one := fresh()
		if p := one.asks("GET", one.goes(f, "/"), nil); p.code != 403 || one.jar["__Host-operator_session"] != "" {
			t.Errorf("%s: %d", what, p.code)
		}
	}
	f.email = map[string]any{"email": "INGRID@ops.example", "email_verified": true}
	one := fresh()
	back = one.goes(f, "/")
	fresh().asks("GET", back, nil).want(403).says("another browser")
	one.asks("GET", back, nil, func(r *http.Request) { r.Header.Set("Sec-Fetch-Dest", "image") }).want(404)
	one.asks("GET", "/signin/callback/corp?state=x&code=c", nil).want(403)
	one.asks("GET", strings.Replace(back, "code=c", "error=access_denied", 1), nil).want(400).says("did not sign you in")
	one.asks("GET", back, nil).want(303)
	one = fresh()
	back = one.goes(f, "/")
	o.Pass(time.Hour + time.Second)
	one.asks("GET", back, nil).want(403)

	local := o.browser() // not the console's own address: nothing leads back there
	local.asks("GET", "/signin", nil).want(200).saysNot("Corporate login")
	local.asks("GET", "/signin/with/corp", nil).want(404)
	local.asks("GET", back, nil).want(404)
	fresh().asks("GET", "/signin/with/other", nil).want(404)

	f.nonce = ""
	one = fresh()
	back = one.goes(f, "/")
	f.nonce = "another"
	one.asks("GET", back, nil).want(400)
	one = fresh()
	one.asks("GET", one.goes(f, "//evil.example"), nil).want(303)
	one.asks("GET", "/", nil).want(200)
	now := namedOperators()
	now[2].Email = "another@ops.example"
	set(now)
	one.asks("GET", "/", nil).want(303)
	set(namedOperators())
	one.asks("GET", "/", nil).want(303) // it has ended
	one = fresh()
	one.asks("GET", one.goes(f, "/"), nil).want(303)
	one.asks("GET", "/", nil).want(200)
	o.api.Ways = nil // the provider is not configured any more
	one.asks("GET", "/", nil).want(303)
	f.Close()
	o.console(&Server{Providers: []*provider.Provider{provider.New(provider.Config{ID: "corp", Name: "Corporate login", Issuer: f.URL, ClientID: "gk", Scopes: []string{"openid"}}, o.Store.Now)}})
	fresh().asks("GET", "/signin/with/corp", nil).want(503).says("Corporate login does not answer.")
}
