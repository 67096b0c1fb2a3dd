package consent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/store"
)

// A far is an OpenID provider that does what it is told: the other end of a
// network, with whatever can be wrong there.
type far struct {
	t      *testing.T
	server *httptest.Server
	now    func() time.Time

	mu       sync.Mutex
	keys     []farKey // the last one signs
	codes    map[string]url.Values
	claims   map[string]any // over the ordinary ones; nil takes one out
	userInfo map[string]any
	sign     func(payload []byte) string // nil: with the last key
	metadata map[string]any              // over the ordinary ones
	broken   map[string]http.HandlerFunc // by path
	asked    map[string]int              // by path
}

type farKey struct {
	id  string
	key *ecdsa.PrivateKey
}

func newFar(t *testing.T, now func() time.Time) *far {
	t.Helper()
	f := &far{t: t, now: now, codes: map[string]url.Values{}, broken: map[string]http.HandlerFunc{}, asked: map[string]int{},
		claims:   map[string]any{},
		userInfo: map[string]any{"email": "ada@nordlys.example", "email_verified": true}}
	f.rotate("k1")
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

// rotate makes another key that signs from now on.
func (f *far) rotate(id string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys = append(f.keys, farKey{id, key})
}

func (f *far) provider(id string) *provider.Provider {
	return provider.New(provider.Config{ID: id, Name: "Corporate login", Issuer: f.server.URL, ClientID: "grantkeeper",
		ClientSecret: "a secret", Scopes: []string{"openid", "email"}}, f.now)
}

func (f *far) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked[r.URL.Path]++
	broken := f.broken[r.URL.Path]
	f.mu.Unlock()
	if broken != nil {
		broken(w, r)
		return
	}
	answer := map[string]any{}
	status := http.StatusOK
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		answer = map[string]any{"issuer": f.server.URL, "authorization_endpoint": f.server.URL + "/authorize",
			"token_endpoint": f.server.URL + "/token", "jwks_uri": f.server.URL + "/keys", "userinfo_endpoint": f.server.URL + "/me",
			"id_token_signing_alg_values_supported":          []string{"none", "HS256", "ES256"},
			"authorization_response_iss_parameter_supported": true}
		maps.Copy(answer, f.metadata)
	case "/keys":
		answer["keys"] = f.publicKeys()
	case "/token":
		status = f.token(r, answer)
	case "/me":
		answer["sub"] = "sub-of-ada"
		maps.Copy(answer, f.userInfo)
	default:
		status = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer)
}

func (f *far) publicKeys() (keys []jose.JSONWebKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.keys {
		keys = append(keys, jose.JSONWebKey{Key: k.key.Public(), KeyID: k.id, Algorithm: "ES256", Use: "sig"})
	}
	return keys
}

// token exchanges a code once, for its client, redirect URI and verifier.
func (f *far) token(r *http.Request, answer map[string]any) int {
	id, secret, _ := r.BasicAuth()
	r.ParseForm()
	f.mu.Lock()
	asked, ok := f.codes[r.Form.Get("code")]
	delete(f.codes, r.Form.Get("code"))
	f.mu.Unlock()
	sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
	if !ok || id != "grantkeeper" || secret != "a+secret" || asked.Get("redirect_uri") != r.Form.Get("redirect_uri") ||
		asked.Get("code_challenge_method") != "S256" || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
		answer["error"] = "invalid_grant"
		return http.StatusBadRequest
	}
	answer["access_token"], answer["token_type"] = "far-access-token", "Bearer"
	answer["id_token"] = f.signed(map[string]any{"iss": f.server.URL, "aud": "grantkeeper", "sub": "sub-of-ada",
		"nonce": asked.Get("nonce"), "iat": f.now().Unix(), "exp": f.now().Add(5 * time.Minute).Unix(),
		"auth_time": f.now().Add(-time.Minute).Unix(), "sid": "far-session"})
	return http.StatusOK
}

// signed writes a token of these claims and those that the test has set.
func (f *far) signed(claims map[string]any) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, value := range f.claims {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		f.t.Error(err)
	}
	if f.sign != nil {
		return f.sign(payload)
	}
	last := f.keys[len(f.keys)-1]
	return signWith(f.t, jose.ES256, jose.JSONWebKey{Key: last.key, KeyID: last.id}, payload)
}

func signWith(t *testing.T, alg jose.SignatureAlgorithm, key any, payload []byte) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	s, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asks gives what the browser was sent there with.
func (f *far) asks(p *shown) url.Values {
	f.t.Helper()
	return p.sent(f.server.URL + "/authorize")
}

// answers gives where the provider sends the browser to, after the person
// signed in there.
func (f *far) answers(asked url.Values, changes ...string) string {
	f.t.Helper()
	code := newCookie()
	f.mu.Lock()
	f.codes[code] = asked
	f.mu.Unlock()
	q := url.Values{"code": {code}, "state": {asked.Get("state")}, "iss": {f.server.URL}}
	for i := 0; i < len(changes); i += 2 {
		q.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			q.Del(changes[i])
		}
	}
	to, ok := strings.CutPrefix(asked.Get("redirect_uri"), base)
	if !ok {
		f.t.Fatalf("redirect URI %q", asked.Get("redirect_uri"))
	}
	return to + "?" + q.Encode()
}

// newOutside is a site where people sign in at a provider alone.
func newOutside(t *testing.T) (*site, *far) {
	t.Helper()
	s := newSite(t)
	f := newFar(t, s.Store.Now)
	s.Ways = Ways{NoPasswords: true, Providers: []*provider.Provider{f.provider("corp")}}
	return s, f
}

// out goes the way of a person who was asked by an app, up to the provider.
func (f *far) out(b *browser) url.Values {
	f.t.Helper()
	page := b.get(authorize("state", "mine")).follow().want(200)
	return f.asks(b.get(page.link("Continue with Corporate login")))
}

// link gives where a link with this text leads.
func (p *shown) link(text string) string {
	p.t.Helper()
	for _, n := range p.all(atom.A) {
		if n.FirstChild != nil && strings.TrimSpace(n.FirstChild.Data) == text {
			return attr(n, "href")
		}
	}
	p.t.Fatalf("no link %q: %s", text, p.text())
	return ""
}

func (s *site) nobody(b *browser) {
	s.t.Helper()
	for name := range b.cookies {
		if strings.HasSuffix(name, "session") {
			s.t.Error("a session has begun")
		}
	}
	if events, _, err := s.Store.Events(context.Background(), store.EventFilter{Kind: "signin_succeeded"}); err != nil || len(events) > 0 {
		s.t.Errorf("signed in: %v %v", events, err)
	}
}

// The whole way: the page says who asked and goes on by itself, and two
// redirects of ours later the pending request is there.
func TestSignInAtAProvider(t *testing.T) {
	s, f := newOutside(t)
	b := s.browser()
	page := b.get(authorize("state", "mine")).follow().want(200).
		says(`To decide about an app that calls itself “Quill Assistant”`, "You sign in with Corporate login.")
	if strings.Contains(page.text(), "Password") || len(page.all(atom.Form)) > 1 { // the other one switches the language
		t.Errorf("it asks for a password: %s", page.text())
	}
	link := page.link("Continue with Corporate login")
	if got := page.header.Get("Refresh"); got != "0;url="+link {
		t.Errorf("Refresh %q, want the link %q", got, link)
	}
	asked := f.asks(b.get(link))
	for name, want := range map[string]string{"response_type": "code", "client_id": "grantkeeper", "scope": "openid email",
		"redirect_uri": base + "/signin/callback/corp", "code_challenge_method": "S256", "prompt": "", "max_age": ""} {
		if asked.Get(name) != want {
			t.Errorf("%s = %q, want %q", name, asked.Get(name), want)
		}
	}
	before := b.cookies["__Host-before"]
	consent := b.get(f.answers(asked)).follow().want(200).says("An app wants to use your Svalinn account", "Signed in as Ada Lindqvist")
	if q := consent.approve().sent(callback); q.Get("state") != "mine" {
		t.Errorf("sent %v", q)
	}
	if e := s.event("signin_succeeded"); e.Person != "ada" || e.Actor != "person:ada" || e.Detail != "corp" {
		t.Errorf("event %+v", e)
	}
	proof, err := s.Store.Proof(t.Context(), b.cookies["__Host-session"])
	if want := (identity.Proof{ProvedAt: s.Store.Now().Add(-time.Minute).Unix(), Issuer: f.server.URL, Subject: "sub-of-ada", SID: "far-session"}); err != nil || proof != want {
		t.Errorf("proof %+v %v, want %+v", proof, err, want)
	}
	b.get("/").press("/signout").want(303)
	if before == "" || b.cookies["__Host-before"] == before {
		t.Error("the cookie of before stays, or was never there")
	}
	b.get(f.answers(asked)).want(403).says("This sign-in cannot be finished here.") // it was this cookie's
	for _, secret := range []string{asked.Get("state"), asked.Get("nonce"), before} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
	if b := s.browser(); true { // without a request nothing is to be said
		f.asks(b.get(b.get("/").follow().want(303).header.Get("Location")))
	}
}

// By subject from then on, whatever the email has become; the email leads
// nobody else into the account.
func TestAnEmailThatChangedHands(t *testing.T) {
	s, f := newOutside(t)
	in := func() *shown {
		b := s.browser()
		p := b.get(f.answers(f.out(b)))
		if p.status == 303 {
			p = p.follow()
		}
		return p
	}
	in().want(200).says("Signed in as Ada Lindqvist")
	f.userInfo = map[string]any{"email": "ada.married@nordlys.example", "email_verified": true}
	in().want(200).says("Signed in as Ada Lindqvist")
	f.userInfo = map[string]any{}
	in().want(200).says("Signed in as Ada Lindqvist")

	f.claims["sub"] = "sub-of-another"
	f.userInfo = map[string]any{"sub": "sub-of-another", "email": "ada@nordlys.example", "email_verified": true}
	in().want(403).says("This account belongs to somebody else here.")
	f.userInfo = map[string]any{"sub": "sub-of-another", "email": "tor@nordlys.example", "email_verified": true}
	in().want(200).says("Signed in as Tor Haugen")
	// What is Tor's email now was Ada's: her account stays hers.
	f.claims["sub"] = "sub-of-ada"
	f.userInfo = map[string]any{"email": "tor@nordlys.example", "email_verified": true}
	in().want(200).says("Signed in as Ada Lindqvist")
}

// Every fault of the other side: a page, nobody is signed in, and the pending
// request goes on from there.
func TestFaultsOfAProvider(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) }
	}
	says := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(body))
		}
	}
	claim := func(name string, value any) func(*site, *far) {
		return func(_ *site, f *far) { f.claims[name] = value }
	}
	user := func(name string, value any) func(*site, *far) {
		return func(_ *site, f *far) {
			if f.userInfo[name] = value; value == nil {
				delete(f.userInfo, name)
			}
		}
	}
	likeSomebody := func(here, said string) func(*site, *far) {
		return func(s *site, f *far) {
			_, err := s.Store.AddPerson(context.Background(), org.Person{ID: "somebody", Email: here, Name: "Somebody", Active: true}, "", store.Act{Actor: "operator"})
			s.do(err)
			f.userInfo["email"] = said
		}
	}
	const untrusted = "The answer of Corporate login cannot be accepted."
	tests := []struct {
		name    string
		fault   func(*site, *far)
		changes []string // of what the browser comes back with
		status  int
		says    string
	}{
		{"another issuer", claim("iss", "https://evil.example"), nil, 400, untrusted},
		{"another audience", claim("aud", "another-client"), nil, 400, untrusted},
		{"several audiences, and none authorized", claim("aud", []string{"grantkeeper", "another-client"}), nil, 400, untrusted},
		{"another authorized party", claim("azp", "another-client"), nil, 400, untrusted},
		{"another nonce", claim("nonce", "another"), nil, 400, untrusted},
		{"no nonce", claim("nonce", nil), nil, 400, untrusted},
		{"expired", claim("exp", 1), nil, 400, untrusted},
		{"no expiry", claim("exp", nil), nil, 400, untrusted},
		{"issued in the future", claim("iat", 4102444800), nil, 400, untrusted},
		{"signed in there in the future", claim("auth_time", 4102444800), nil, 400, untrusted},
		{"auth_time is no time", claim("auth_time", "yesterday"), nil, 400, untrusted},
		{"no subject", claim("sub", nil), nil, 400, untrusted},
		{"a subject too long", claim("sub", strings.Repeat("x", 256)), nil, 400, untrusted},
		{"the hash of another access token", claim("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), nil, 400, untrusted},
		{"a logout token", claim("events", map[string]any{"x": map[string]any{}}), nil, 400, untrusted},
		{"algorithm none", func(_ *site, f *far) {
			f.sign = func(p []byte) string { return "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString(p) + "." }
		}, nil, 400, untrusted},
		{"algorithm HS256 under the client's secret", func(_ *site, f *far) {
			f.sign = func(p []byte) string { return hs256(`{"alg":"HS256"}`, p, []byte("a secret")) }
		}, nil, 400, untrusted},
		{"algorithm HS256 under a key that it publishes", func(_ *site, f *far) {
			f.broken["/keys"] = says(`{"keys":[{"kty":"oct","kid":"k1","k":"YS1wdWJsaXNoZWQtc2VjcmV0LW9mLTMyLWJ5dGVzLW9yLW1vcmU"}]}`)
			f.sign = func(p []byte) string {
				return hs256(`{"alg":"HS256","kid":"k1"}`, p, []byte("a-published-secret-of-32-bytes-or-more"))
			}
		}, nil, 400, untrusted},
		{"an unknown key under a known name", func(_ *site, f *far) {
			f.sign = func(p []byte) string { return signWith(t, jose.ES256, jose.JSONWebKey{Key: other, KeyID: "k1"}, p) }
		}, nil, 400, untrusted},
		{"an unknown key", func(_ *site, f *far) {
			f.sign = func(p []byte) string { return signWith(t, jose.ES256, jose.JSONWebKey{Key: other, KeyID: "k9"}, p) }
		}, nil, 400, untrusted},
		{"a key in the token itself", func(_ *site, f *far) {
			f.sign = func(p []byte) string {
				signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: other}, &jose.SignerOptions{EmbedJWK: true})
				if err != nil {
					t.Error(err)
				}
				jws, _ := signer.Sign(p)
				s, _ := jws.CompactSerialize()
				return s
			}
		}, nil, 400, untrusted},
		{"no token", func(_ *site, f *far) { f.sign = func([]byte) string { return "" } }, nil, 400, untrusted},
		{"no code like this", nil, []string{"code", "stolen"}, 400, untrusted},
		{"iss of another provider", nil, []string{"iss", "https://evil.example"}, 400, untrusted},
		{"no iss, although it says that it sends one", nil, []string{"iss", ""}, 400, untrusted},
		{"an error", nil, []string{"code", "", "error", "access_denied"}, 400, "Corporate login did not sign you in."},
		{"an error with markup", nil, []string{"code", "", "error", "<b>x</b>", "error_description", "<script>"}, 400, "Corporate login did not sign you in."},
		{"neither code nor error", nil, []string{"code", ""}, 400, "Corporate login did not sign you in."},
		{"UserInfo of somebody else", user("sub", "another"), nil, 400, untrusted},
		{"keys cannot be had", func(_ *site, f *far) { f.broken["/keys"] = status(500) }, nil, 503, "Corporate login does not answer."},
		{"no keys", func(_ *site, f *far) { f.broken["/keys"] = says(`{"keys":[]}`) }, nil, 400, untrusted},
		{"the token endpoint is broken", func(_ *site, f *far) { f.broken["/token"] = status(500) }, nil, 503, "Corporate login does not answer."},
		{"the token endpoint leads elsewhere", func(_ *site, f *far) {
			f.broken["/token"] = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/token2", http.StatusTemporaryRedirect)
			}
		}, nil, 400, untrusted},
		{"the token answer is endless", func(_ *site, f *far) {
			f.broken["/token"] = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Write([]byte(`{"access_token":"`))
				for range 3 << 10 {
					w.Write([]byte(strings.Repeat("x", 1<<10)))
				}
				w.Write([]byte(`"}`))
			}
		}, nil, 400, untrusted},
		{"the token answer is no JSON", func(_ *site, f *far) { f.broken["/token"] = says("hello") }, nil, 400, untrusted},
		{"UserInfo is broken", func(_ *site, f *far) { f.broken["/me"] = status(500) }, nil, 503, "Corporate login does not answer."},
		{"UserInfo refuses", func(_ *site, f *far) { f.broken["/me"] = status(403) }, nil, 400, untrusted},
		{"an email that is not verified", user("email_verified", false), nil, 403, "Corporate login has not verified your email."},
		{"an email that nobody says is verified", user("email_verified", nil), nil, 403, "Corporate login has not verified your email."},
		{"verified as a number", user("email_verified", 1), nil, 400, untrusted},
		{"no email", user("email", nil), nil, 403, "Corporate login has not verified your email."},
		{"an email of nobody", user("email", "nobody@nordlys.example"), nil, 403, "Svalinn does not know you."},
		{"an email at a domain that looks alike", likeSomebody("kim@firm.example", "kim@f\u0131rm.example"), nil, 403, "Svalinn does not know you."},
		{"an email that Unicode lowers to somebody's", likeSomebody("kim@firm.example", "\u212aim@f\u0130rm.example"), nil, 403, "Svalinn does not know you."},
		{"an email beyond ASCII in another case", likeSomebody("zo\u00eb@firm.example", "Zo\u00eb@firm.example"), nil, 403, "Svalinn does not know you."},
		{"an ID where an email should be", user("email", "ada"), nil, 403, "Svalinn does not know you."},
		{"somebody who is deactivated", func(s *site, _ *far) {
			s.do(s.Store.SetActive(context.Background(), "ada", false, store.Act{Actor: "operator"}))
		}, nil, 403, "Your account is deactivated."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, f := newOutside(t)
			if tt.fault != nil {
				tt.fault(s, f)
			}
			b := s.browser()
			p := b.get(f.answers(f.out(b), tt.changes...)).want(tt.status).says(tt.says, "To decide about an app that calls itself")
			s.nobody(b)
			if strings.Contains(p.body, "<script>") || strings.Contains(s.log.String(), "far-access-token") || strings.Contains(s.log.String(), "stolen") {
				t.Error("something of the answer is repeated")
			}
			if e := s.event("signin_failed"); e.Detail != "corp" || e.Reason == "" {
				t.Errorf("event %+v", e)
			}
			// The pending request was kept: once all is well, it goes on.
			s.do(s.Store.SetActive(context.Background(), "ada", true, store.Act{Actor: "operator"}))
			f.mu.Lock()
			f.claims, f.broken, f.sign = map[string]any{}, map[string]http.HandlerFunc{}, nil
			f.userInfo = map[string]any{"email": "ada@nordlys.example", "email_verified": true}
			f.mu.Unlock()
			again := b.get(p.link("Try again")).want(200)
			if again.header.Get("Refresh") != "" {
				t.Error("it goes straight on, into the same fault")
			}
			b.get(f.answers(f.asks(b.get(again.link("Continue with Corporate login"))))).follow().want(200).says("An app wants", "Signed in as Ada Lindqvist")
		})
	}
}

func hs256(header string, payload, secret []byte) string {
	input := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(payload)
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(input))
	return input + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// A provider that is down when somebody sets out, and one that says it is
// another.
func TestAProviderThatCannotBeAsked(t *testing.T) {
	for name, tt := range map[string]struct {
		fault  func(*far)
		status int
		says   string
	}{
		"down":              {func(f *far) { f.server.Close() }, 503, "Corporate login does not answer."},
		"no metadata":       {func(f *far) { f.broken["/.well-known/openid-configuration"] = http.NotFound }, 503, "Corporate login does not answer."},
		"of another issuer": {func(f *far) { f.metadata = map[string]any{"issuer": "https://evil.example"} }, 400, "The answer of Corporate login cannot be accepted."},
	} {
		s, f := newOutside(t)
		tt.fault(f)
		b := s.browser()
		page := b.get(authorize("state", "mine")).follow().want(200)
		p := b.get(page.link("Continue with Corporate login")).want(tt.status).says(tt.says, "To decide about an app")
		if tt.status == 503 && p.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", name)
		}
		s.nobody(b)
		if strings.Contains(p.header.Get("Location"), "evil") {
			t.Errorf("%s: leads to %q", name, p.header.Get("Location"))
		}
	}
}

// Nobody waits longer than the request lives: here the browser's, in life 10
// seconds at most.
func TestASlowProvider(t *testing.T) {
	s, f := newOutside(t)
	b := s.browser()
	asked := f.out(b)
	entered, done := make(chan bool), make(chan bool)
	f.mu.Lock()
	f.broken["/token"] = func(w http.ResponseWriter, r *http.Request) { close(entered); <-done }
	f.mu.Unlock()
	defer close(done)
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-entered; stop() }()
	r := httptest.NewRequestWithContext(ctx, "GET", base+f.answers(asked), nil)
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	if w.Code != 503 {
		t.Errorf("status %d", w.Code)
	}
	if provider.Timeout > 10*time.Second {
		t.Errorf("a provider may take %v", provider.Timeout)
	}
}

// Login CSRF: what another browser has begun ends nowhere in this one (decision S4).
func TestTheCodeOfAnotherBrowser(t *testing.T) {
	s, f := newOutside(t)
	attacker, victim := s.browser(), s.browser()
	to := f.answers(f.out(attacker))
	victim.get(to).want(403).says("This sign-in cannot be finished here.", "To decide about an app")
	s.nobody(victim)
	f.out(victim) // has a cookie of its own now
	victim.get(to).want(403)
	s.nobody(victim)
	if f.asked["/token"] != 0 {
		t.Error("the code was exchanged")
	}
	attacker.get(to).follow().want(200).says("Signed in as Ada Lindqvist")
	attacker.get(to).follow().want(200) // Back: signed in already, and the code is not asked for again
	if f.asked["/token"] != 1 {
		t.Errorf("%d exchanges, want one", f.asked["/token"])
	}
}

// State that is not ours, not for this way, or too old (decision S4).
func TestState(t *testing.T) {
	s, f := newOutside(t)
	s.Ways.Providers = append(s.Ways.Providers, f.provider("second"))
	b := s.browser()
	page := b.get(authorize("state", "mine")).follow().want(200)
	asked := f.asks(b.get(page.link("Continue with Corporate login")))
	for _, state := range []string{"", "x", asked.Get("state") + "A", s.Ring.SealPage(sealedReturn, []byte("/")), s.Ring.SealPage(sealedAttempt, []byte("{}"))} {
		b.get(f.answers(asked, "state", state)).want(403).says("This sign-in cannot be finished here.")
	}
	b.get(f.answers(asked) + "&state=x").want(403) // twice
	// A code and a state of one provider, presented as the other's.
	mixed := strings.Replace(f.answers(asked), "/corp?", "/second?", 1)
	b.get(mixed).want(400).says("cannot be accepted", "To decide about an app")
	b.get(strings.Replace(mixed, "/second?", "/third?", 1)).want(404)
	s.pass(attemptLifetime + time.Second)
	b.get(f.answers(asked)).want(403).says("This sign-in cannot be finished here.", "To decide about an app")
	s.nobody(b)
	if f.asked["/token"] != 0 {
		t.Error("a code was exchanged")
	}
}

// Session fixation: a cookie that was planted is worth nothing after it.
func TestPlantedCookies(t *testing.T) {
	s, f := newOutside(t)
	b := s.browser()
	planted := newCookie()
	b.cookies["__Host-session"] = planted
	b.get(f.answers(f.out(b))).follow().want(200)
	if b.cookies["__Host-session"] == planted {
		t.Error("the session has the value that was planted")
	}
	if _, err := s.Store.Session(t.Context(), planted); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the planted value: %v", err)
	}
}

// Any number of tabs, each back at its own request; whoever is second is
// signed in already.
func TestTabs(t *testing.T) {
	s, f := newOutside(t)
	b := s.browser()
	var asked []url.Values
	for i := range 5 {
		page := b.get(authorize("state", fmt.Sprint("tab-", i))).follow().want(200)
		asked = append(asked, f.asks(b.get(page.link("Continue with Corporate login"))))
	}
	for i, a := range asked {
		if q := b.get(f.answers(a)).follow().want(200).approve().sent(callback); q.Get("state") != fmt.Sprint("tab-", i) {
			t.Errorf("tab %d is sent %v", i, q)
		}
	}
}

// Only what this server sealed is followed: there is no open redirect.
func TestReturnFromAProvider(t *testing.T) {
	s, f := newOutside(t)
	for _, to := range []string{"https://evil.example/", "//evil.example", s.Ring.SealPage(sealedPage, []byte("https://evil.example")), ""} {
		b := s.browser()
		asked := f.asks(b.get("/signin/with/corp?" + url.Values{"return": {to}}.Encode()))
		if got := b.get(f.answers(asked)).want(303).header.Get("Location"); got != "/" {
			t.Errorf("return %q leads to %q", to, got)
		}
		if got := b.get("/signin/with/corp?" + url.Values{"return": {to}}.Encode()).want(303).header.Get("Location"); got != "/" {
			t.Errorf("return %q of somebody signed in leads to %q", to, got)
		}
	}
	s.browser().get("/signin/with/other").want(404)
	s.browser().get("/signin/with/handoff").want(404)
	s.browser().get("/signin/callback/handoff?assertion=x").want(404)
}

// Keys rotate: a token under a new one is good at once; one that was taken
// out is believed as long as the metadata, and not under another name.
func TestKeysRotate(t *testing.T) {
	s, f := newOutside(t)
	for _, id := range []string{"k1", "k2", "k3"} {
		if id != "k1" {
			f.rotate(id)
		}
		b := s.browser()
		b.get(f.answers(f.out(b))).follow().want(200).says("Signed in as Ada")
	}
	if f.asked["/keys"] != 3 || f.asked["/.well-known/openid-configuration"] != 1 {
		t.Errorf("asked %v", f.asked)
	}
}

// With passwords the page has both; signing out stays out.
func TestWaysOnThePage(t *testing.T) {
	s, f := newOutside(t)
	s.Ways.NoPasswords = false
	b := s.browser()
	page := b.get(authorize()).follow().want(200).says("Password", "Or:", "Continue with Corporate login")
	if page.header.Get("Refresh") != "" {
		t.Error("it goes on by itself")
	}
	signin(page, "tor@nordlys.example", password).follow().want(200).says("Signed in as Tor")

	s.Ways.NoPasswords = true
	b = s.browser()
	out := b.get(f.answers(f.out(b))).follow().want(200).press("/signout").follow().want(200).says("To decide about an app")
	if out.header.Get("Refresh") != "" {
		t.Error("signed out, and in again")
	}
	for want, supported := range map[string][]string{"login": nil, "select_account": {"login", "select_account"}} {
		f.metadata = map[string]any{"prompt_values_supported": supported}
		s.Ways.Providers[0] = f.provider("corp")
		if got := f.asks(b.get(out.link("Continue with Corporate login"))).Get("prompt"); got != want {
			t.Errorf("prompt %q for another account, want %q", got, want)
		}
	}
	b.post("/signin", url.Values{"email": {"ada@nordlys.example"}, "password": {password}}).want(404)
	s.nothing("ada")
}

// A claim that names the person decides alone.
func TestPersonByClaim(t *testing.T) {
	s, f := newOutside(t)
	c := f.provider("corp").Config
	c.PersonClaim = "employee"
	s.Ways.Providers[0] = provider.New(c, s.Store.Now)
	in := func(sub string, employee any) *shown {
		f.claims["sub"], f.claims["employee"], f.userInfo["sub"] = sub, employee, sub
		b := s.browser()
		return b.get(f.answers(f.out(b)))
	}
	in("1", "tor").follow().want(200).says("Signed in as Tor Haugen") // and not ada, whose email it is
	in("1", "tor").follow().want(200).says("Signed in as Tor Haugen")
	in("1", "ada").want(403).says("belongs to somebody else") // a subject that changed hands
	in("2", "tor").want(403).says("belongs to somebody else")
	for _, nobody := range []any{"nobody", "", nil, "ada@nordlys.example", 7, []string{"ada"}} {
		in("3", nobody).want(403).says("Svalinn does not know you.")
	}
}

// Nobody is added unless that is configured, and then without a membership.
func TestProvisioning(t *testing.T) {
	s, f := newOutside(t)
	c := f.provider("corp").Config
	c.Provision = true
	s.Ways.Providers[0] = provider.New(c, s.Store.Now)
	in := func(sub string, user map[string]any) *shown {
		f.claims["sub"] = sub
		f.userInfo = user
		f.userInfo["sub"] = sub
		b := s.browser()
		return b.get(f.answers(f.out(b)))
	}
	in("1", map[string]any{"email": "new@nordlys.example", "email_verified": false}).want(403).says("has not verified")
	if _, err := s.Store.Person(t.Context(), "new@nordlys.example"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("added without a verified email: %v", err)
	}
	in("1", map[string]any{"email": "new@nordlys.example", "email_verified": true, "name": "New Person"}).follow().want(403).
		says("You are not a member of any organization.")
	p, err := s.Store.Person(t.Context(), "new@nordlys.example")
	if err != nil || p.Name != "New Person" || !p.Active || p.Support || org.CheckID(p.ID) != nil {
		t.Errorf("added %+v, %v", p, err)
	}
	for sub, name := range map[string]string{"2": "Ada\u202e", "3": "\u200b", "4": "two\nlines", "5": ""} { // people choose theirs there
		email := "p" + sub + "@nordlys.example"
		in(sub, map[string]any{"email": email, "email_verified": true, "name": name}).follow().want(403)
		if p, err := s.Store.Person(t.Context(), email); err != nil || p.Name != email {
			t.Errorf("%q added as %+v, %v", name, p, err)
		}
	}
	in("6", map[string]any{"email": "a\u200bda@nordlys.example", "email_verified": true, "name": "Ada"}).want(403).says("has not verified")
	in("1", map[string]any{}).follow().want(403).says("You are not a member")
	s.do(s.Store.SetActive(t.Context(), p.ID, false, store.Act{Actor: "operator"}))
	in("1", map[string]any{}).want(403).says("deactivated")
}

// Back-channel logout ends the sessions that the provider's word began, once,
// and no others.
func TestBackChannelLogout(t *testing.T) {
	s, f := newOutside(t)
	here := s.signedIn("ada") // by password
	in := func() *browser {
		b := s.browser()
		b.get(f.answers(f.out(b))).follow().want(200)
		return b
	}
	signedIn := func(b *browser) bool {
		_, err := s.Store.Session(t.Context(), b.cookies["__Host-session"])
		return err == nil
	}
	number := 0
	token := func(changes map[string]any) string {
		number++
		claims := map[string]any{"iss": f.server.URL, "aud": "grantkeeper", "iat": s.Store.Now().Unix(), "exp": s.Store.Now().Add(2 * time.Minute).Unix(),
			"jti": fmt.Sprint(number), "events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}}
		for name, value := range changes {
			claims[name] = value
			if value == nil {
				delete(claims, name)
			}
		}
		return f.signed(claims)
	}
	logout := func(token string) *shown {
		return s.browser().post("/signin/logout/corp", url.Values{"logout_token": {token}})
	}

	a := in()
	for name, bad := range map[string]map[string]any{
		"no event": {"events": nil}, "another event": {"events": map[string]any{"x": 1}}, "with a nonce": {"nonce": "x"},
		"without jti": {"jti": nil}, "of another issuer": {"iss": "https://evil.example"}, "for another": {"aud": "other"},
		"expired": {"exp": 1}, "old": {"iat": s.Store.Now().Add(-time.Hour).Unix()}, "about nobody": {}, "about two": {"Sub": "somebody-else"},
	} {
		if name != "about nobody" {
			bad["sub"] = "sub-of-ada"
		}
		if p := logout(token(bad)); p.status != 400 || !strings.Contains(p.body, "invalid_request") {
			t.Errorf("%s: %d %s", name, p.status, p.body)
		}
	}
	for _, bad := range []string{"", "x", "a.b.c"} {
		logout(bad).want(400)
	}
	if !signedIn(a) {
		t.Fatal("a bad logout token ends the session")
	}
	logout(token(map[string]any{"sub": "somebody-else"})).want(200)
	logout(token(map[string]any{"sid": "another-session"})).want(200)
	logout(token(map[string]any{"sid": "far-session", "sub": "somebody-else"})).want(200)
	if !signedIn(a) {
		t.Fatal("the logout of another ends the session")
	}
	first := token(map[string]any{"sid": "far-session"})
	logout(first).want(200)
	if signedIn(a) || !signedIn(here) {
		t.Errorf("signed in: at the provider %v, by password %v", signedIn(a), signedIn(here))
	}
	if e := s.event("signed_out"); e.Person != "ada" {
		t.Errorf("event %+v", e)
	}
	b, c := in(), in()
	logout(first).want(400) // a replay
	if !signedIn(b) {
		t.Fatal("a replay ends a session")
	}
	logout(token(map[string]any{"sub": "sub-of-ada"})).want(200)
	if signedIn(b) || signedIn(c) || !signedIn(here) {
		t.Error("a logout by subject ends all of that provider's, and no more")
	}
	s.browser().post("/signin/logout/other", url.Values{}).want(404)
	f.mu.Lock()
	f.broken["/keys"] = http.NotFound
	f.mu.Unlock()
	f.rotate("k7")
	logout(token(map[string]any{"sub": "sub-of-ada"})).want(503) // to be said again
	for range signInAddress.N {
		logout("x")
	}
	logout("x").want(429)
}

// Coming back wrong is limited like a wrong password, and a provider that is
// down is nobody's fault; neither fills the journal.
func TestLimitsElsewhere(t *testing.T) {
	s, f := newOutside(t)
	f.server.Close()
	b := s.browser()
	for range 2 * signInAddress.N {
		b.get("/signin/with/corp").want(503)
	}
	s.do(s.Store.Ready(t.Context())) // written after what was queued
	events, _, err := s.Store.Events(t.Context(), store.EventFilter{Kind: "signin_failed", Limit: 1000})
	if err != nil || len(events) != signInAddress.N {
		t.Errorf("%d events, %v", len(events), err)
	}
	down, f2 := newOutside(t)
	f2.broken["/me"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }
	waiting := down.browser()
	asked := f2.out(waiting)
	for range signInAddress.N + 1 {
		waiting.get(f2.answers(asked)).want(503)
	}
	s.address = "203.0.113.77" // asked for by any web page, or in another browser: nobody suffers
	stranger := s.browser()
	for range 2 * signInAddress.N {
		stranger.get("/signin/callback/corp?code=x&state=x").want(403)
	}
	stranger.header.Set("Sec-Fetch-Dest", "image")
	stranger.get("/signin/callback/corp?code=x&state=x").want(404)

	s, f = newOutside(t)
	asked = f.out(s.browser())
	for range 2 * signInAddress.N {
		s.browser().get(f.answers(asked)).want(403)
	}
	b = s.browser() // its own attempts count
	asked = f.out(b)
	image := s.browser()
	image.header.Set("Sec-Fetch-Dest", "iframe")
	image.get(f.answers(asked)).want(404)
	for range signInAddress.N {
		b.get(f.answers(asked, "code", "", "error", "access_denied")).want(400)
	}
	if got := b.get(f.answers(asked)).want(429).header.Get("Retry-After"); got != "600" {
		t.Errorf("Retry-After %q", got)
	}
	s.address = "203.0.113.77"
	b.get(f.answers(asked)).follow().want(200)
}
