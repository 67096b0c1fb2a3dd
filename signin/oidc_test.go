package signin_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

// newOutside is a site where people sign in at a provider alone.
func newOutside(t *testing.T) (*site, *signin.Far) {
	t.Helper()
	s := newSite(t)
	f := signin.NewFar(t, s.Store.Now)
	s.NoPasswords, s.SignIn.Providers = true, []*provider.Provider{f.Provider("corp")}
	return s, f
}

func (s *site) nobody(b *pagetest.Browser) {
	s.T.Helper()
	for name := range b.Cookies {
		if strings.HasSuffix(name, "session") {
			s.T.Error("a session has begun")
		}
	}
	if events, _, err := s.Store.Events(context.Background(), store.EventFilter{Kind: "signin_succeeded"}); err != nil || len(events) > 0 {
		s.T.Errorf("signed in: %v %v", events, err)
	}
}

// The whole way: the page says who asked and goes on by itself, and two
// redirects of ours later the pending request is there.
func TestSignInAtAProvider(t *testing.T) {
	s, f := newOutside(t)
	b := s.Browser()
	page := b.Get(pagetest.Authorize("state", "mine")).Follow().Want(200).
		Says(`To decide about an app that calls itself “Quill Assistant”`, "You sign in with Corporate login.")
	if strings.Contains(page.Text(), "Password") || len(page.All(atom.Form)) > 1 { // the other one switches the language
		t.Errorf("it asks for a password: %s", page.Text())
	}
	link := page.Link("Continue with Corporate login")
	if got := page.Header.Get("Refresh"); got != "0;url="+link {
		t.Errorf("Refresh %q, want the link %q", got, link)
	}
	asked := f.Asks(b.Get(link))
	for name, want := range map[string]string{"response_type": "code", "client_id": "grantkeeper", "scope": "openid email",
		"redirect_uri": pagetest.Base + "/signin/callback/corp", "code_challenge_method": "S256", "prompt": "", "max_age": ""} {
		if asked.Get(name) != want {
			t.Errorf("%s = %q, want %q", name, asked.Get(name), want)
		}
	}
	before := b.Cookies["__Host-before"]
	consent := b.Get(f.Answers(asked)).Follow().Want(200).Says("An app wants to use your Svalinn account", "Signed in as Ada Lindqvist")
	if q := consent.Approve().Sent(pagetest.Callback); q.Get("state") != "mine" {
		t.Errorf("sent %v", q)
	}
	if e := s.Event("signin_succeeded"); e.Person != "ada" || e.Actor != "person:ada" || e.Detail != "corp" {
		t.Errorf("event %+v", e)
	}
	proof, err := s.Store.Proof(t.Context(), b.Cookies["__Host-session"])
	if want := (identity.Proof{ProvedAt: s.Store.Now().Add(-time.Minute).Unix(), Issuer: f.Server.URL, Subject: "sub-of-ada", SID: "far-session"}); err != nil || proof != want {
		t.Errorf("proof %+v %v, want %+v", proof, err, want)
	}
	b.Get("/").Press("/signout").Want(303)
	if before == "" || b.Cookies["__Host-before"] == before {
		t.Error("the cookie of before stays, or was never there")
	}
	b.Get(f.Answers(asked)).Want(403).Says("This sign-in cannot be finished here.") // it was this cookie's
	for _, secret := range []string{asked.Get("state"), asked.Get("nonce"), before} {
		if strings.Contains(s.Logged.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
	if b := s.Browser(); true { // without a request nothing is to be said
		f.Asks(b.Get(b.Get("/").Follow().Want(303).Header.Get("Location")))
	}
}

// By subject from then on, whatever the email has become; the email leads
// nobody else into the account.
func TestAnEmailThatChangedHands(t *testing.T) {
	s, f := newOutside(t)
	in := func() *pagetest.Shown {
		b := s.Browser()
		p := b.Get(f.Answers(f.Out(b)))
		if p.Status == 303 {
			p = p.Follow()
		}
		return p
	}
	in().Want(200).Says("Signed in as Ada Lindqvist")
	f.UserInfo = map[string]any{"email": "ada.married@nordlys.example", "email_verified": true}
	in().Want(200).Says("Signed in as Ada Lindqvist")
	f.UserInfo = map[string]any{}
	in().Want(200).Says("Signed in as Ada Lindqvist")

	f.Claims["sub"] = "sub-of-another"
	f.UserInfo = map[string]any{"sub": "sub-of-another", "email": "ada@nordlys.example", "email_verified": true}
	in().Want(403).Says("This account belongs to somebody else here.")
	f.UserInfo = map[string]any{"sub": "sub-of-another", "email": "tor@nordlys.example", "email_verified": true}
	in().Want(200).Says("Signed in as Tor Haugen")
	// What is Tor's email now was Ada's: her account stays hers.
	f.Claims["sub"] = "sub-of-ada"
	f.UserInfo = map[string]any{"email": "tor@nordlys.example", "email_verified": true}
	in().Want(200).Says("Signed in as Ada Lindqvist")
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
	claim := func(name string, value any) func(*site, *signin.Far) {
		return func(_ *site, f *signin.Far) { f.Claims[name] = value }
	}
	user := func(name string, value any) func(*site, *signin.Far) {
		return func(_ *site, f *signin.Far) {
			if f.UserInfo[name] = value; value == nil {
				delete(f.UserInfo, name)
			}
		}
	}
	likeSomebody := func(here, said string) func(*site, *signin.Far) {
		return func(s *site, f *signin.Far) {
			_, err := s.Store.AddPerson(context.Background(), org.Person{ID: "somebody", Email: here, Name: "Somebody", Active: true}, "", store.Act{Actor: "operator"})
			s.Do(err)
			f.UserInfo["email"] = said
		}
	}
	const untrusted = "The answer of Corporate login cannot be accepted."
	tests := []struct {
		name    string
		fault   func(*site, *signin.Far)
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
		{"algorithm none", func(_ *site, f *signin.Far) {
			f.Sign = func(p []byte) string { return "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString(p) + "." }
		}, nil, 400, untrusted},
		{"algorithm HS256 under the client's secret", func(_ *site, f *signin.Far) {
			f.Sign = func(p []byte) string { return hs256(`{"alg":"HS256"}`, p, []byte("a secret")) }
		}, nil, 400, untrusted},
		{"algorithm HS256 under a key that it publishes", func(_ *site, f *signin.Far) {
			f.Broken["/keys"] = says(`{"keys":[{"kty":"oct","kid":"k1","k":"YS1wdWJsaXNoZWQtc2VjcmV0LW9mLTMyLWJ5dGVzLW9yLW1vcmU"}]}`)
			f.Sign = func(p []byte) string {
				return hs256(`{"alg":"HS256","kid":"k1"}`, p, []byte("a-published-secret-of-32-bytes-or-more"))
			}
		}, nil, 400, untrusted},
		{"an unknown key under a known name", func(_ *site, f *signin.Far) {
			f.Sign = func(p []byte) string {
				return signin.SignWith(t, jose.ES256, jose.JSONWebKey{Key: other, KeyID: "k1"}, p)
			}
		}, nil, 400, untrusted},
		{"an unknown key", func(_ *site, f *signin.Far) {
			f.Sign = func(p []byte) string {
				return signin.SignWith(t, jose.ES256, jose.JSONWebKey{Key: other, KeyID: "k9"}, p)
			}
		}, nil, 400, untrusted},
		{"a key in the token itself", func(_ *site, f *signin.Far) {
			f.Sign = func(p []byte) string {
				signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: other}, &jose.SignerOptions{EmbedJWK: true})
				if err != nil {
					t.Error(err)
				}
				jws, _ := signer.Sign(p)
				s, _ := jws.CompactSerialize()
				return s
			}
		}, nil, 400, untrusted},
		{"no token", func(_ *site, f *signin.Far) { f.Sign = func([]byte) string { return "" } }, nil, 400, untrusted},
		{"no code like this", nil, []string{"code", "stolen"}, 400, untrusted},
		{"iss of another provider", nil, []string{"iss", "https://evil.example"}, 400, untrusted},
		{"no iss, although it says that it sends one", nil, []string{"iss", ""}, 400, untrusted},
		{"an error", nil, []string{"code", "", "error", "access_denied"}, 400, "Corporate login did not sign you in."},
		{"an error with markup", nil, []string{"code", "", "error", "<b>x</b>", "error_description", "<script>"}, 400, "Corporate login did not sign you in."},
		{"neither code nor error", nil, []string{"code", ""}, 400, "Corporate login did not sign you in."},
		{"UserInfo of somebody else", user("sub", "another"), nil, 400, untrusted},
		{"keys cannot be had", func(_ *site, f *signin.Far) { f.Broken["/keys"] = status(500) }, nil, 503, "Corporate login does not answer."},
		{"no keys", func(_ *site, f *signin.Far) { f.Broken["/keys"] = says(`{"keys":[]}`) }, nil, 400, untrusted},
		{"the token endpoint is broken", func(_ *site, f *signin.Far) { f.Broken["/token"] = status(500) }, nil, 503, "Corporate login does not answer."},
		{"the token endpoint leads elsewhere", func(_ *site, f *signin.Far) {
			f.Broken["/token"] = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/token2", http.StatusTemporaryRedirect)
			}
		}, nil, 400, untrusted},
		{"the token answer is endless", func(_ *site, f *signin.Far) {
			f.Broken["/token"] = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Write([]byte(`{"access_token":"`))
				for range 3 << 10 {
					w.Write([]byte(strings.Repeat("x", 1<<10)))
				}
				w.Write([]byte(`"}`))
			}
		}, nil, 400, untrusted},
		{"the token answer is no JSON", func(_ *site, f *signin.Far) { f.Broken["/token"] = says("hello") }, nil, 400, untrusted},
		{"UserInfo is broken", func(_ *site, f *signin.Far) { f.Broken["/me"] = status(500) }, nil, 503, "Corporate login does not answer."},
		{"UserInfo refuses", func(_ *site, f *signin.Far) { f.Broken["/me"] = status(403) }, nil, 400, untrusted},
		{"an email that is not verified", user("email_verified", false), nil, 403, "Corporate login has not verified your email."},
		{"an email that nobody says is verified", user("email_verified", nil), nil, 403, "Corporate login has not verified your email."},
		{"verified as a number", user("email_verified", 1), nil, 400, untrusted},
		{"no email", user("email", nil), nil, 403, "Corporate login has not verified your email."},
		{"an email of nobody", user("email", "nobody@nordlys.example"), nil, 403, "Svalinn does not know you."},
		{"an email at a domain that looks alike", likeSomebody("kim@firm.example", "kim@f\u0131rm.example"), nil, 403, "Svalinn does not know you."},
		{"an email that Unicode lowers to somebody's", likeSomebody("kim@firm.example", "\u212aim@f\u0130rm.example"), nil, 403, "Svalinn does not know you."},
		{"an email beyond ASCII in another case", likeSomebody("zo\u00eb@firm.example", "Zo\u00eb@firm.example"), nil, 403, "Svalinn does not know you."},
		{"an ID where an email should be", user("email", "ada"), nil, 403, "Svalinn does not know you."},
		{"somebody who is deactivated", func(s *site, _ *signin.Far) {
			s.Do(s.Store.SetActive(context.Background(), "ada", false, store.Act{Actor: "operator"}))
		}, nil, 403, "Your account is deactivated."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, f := newOutside(t)
			if tt.fault != nil {
				tt.fault(s, f)
			}
			b := s.Browser()
			p := b.Get(f.Answers(f.Out(b), tt.changes...)).Want(tt.status).Says(tt.says, "To decide about an app that calls itself")
			s.nobody(b)
			if strings.Contains(p.Body, "<script>") || strings.Contains(s.Logged.String(), "far-access-token") || strings.Contains(s.Logged.String(), "stolen") {
				t.Error("something of the answer is repeated")
			}
			if e := s.Event("signin_failed"); e.Detail != "corp" || e.Reason == "" {
				t.Errorf("event %+v", e)
			}
			// The pending request was kept: once all is well, it goes on.
			s.Do(s.Store.SetActive(context.Background(), "ada", true, store.Act{Actor: "operator"}))
			f.Mu.Lock()
			f.Claims, f.Broken, f.Sign = map[string]any{}, map[string]http.HandlerFunc{}, nil
			f.UserInfo = map[string]any{"email": "ada@nordlys.example", "email_verified": true}
			f.Mu.Unlock()
			again := b.Get(p.Link("Try again")).Want(200)
			if again.Header.Get("Refresh") != "" {
				t.Error("it goes straight on, into the same fault")
			}
			b.Get(f.Answers(f.Asks(b.Get(again.Link("Continue with Corporate login"))))).Follow().Want(200).Says("An app wants", "Signed in as Ada Lindqvist")
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
		fault  func(*signin.Far)
		status int
		says   string
	}{
		"down":              {func(f *signin.Far) { f.Server.Close() }, 503, "Corporate login does not answer."},
		"no metadata":       {func(f *signin.Far) { f.Broken["/.well-known/openid-configuration"] = http.NotFound }, 503, "Corporate login does not answer."},
		"of another issuer": {func(f *signin.Far) { f.Metadata = map[string]any{"issuer": "https://evil.example"} }, 400, "The answer of Corporate login cannot be accepted."},
	} {
		s, f := newOutside(t)
		tt.fault(f)
		b := s.Browser()
		page := b.Get(pagetest.Authorize("state", "mine")).Follow().Want(200)
		p := b.Get(page.Link("Continue with Corporate login")).Want(tt.status).Says(tt.says, "To decide about an app")
		if tt.status == 503 && p.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", name)
		}
		s.nobody(b)
		if strings.Contains(p.Header.Get("Location"), "evil") {
			t.Errorf("%s: leads to %q", name, p.Header.Get("Location"))
		}
		s.SignedIn("ada").Get("/signin/again/corp").Want(503).Says("Corporate login does not answer.") // and is not asked so soon again
	}
}

// Nobody waits longer than the request lives: here the browser's, in life 10
// seconds at most.
func TestSignInWhileTheProviderIsSlow(t *testing.T) {
	s, f := newOutside(t)
	b := s.Browser()
	asked := f.Out(b)
	entered, done := make(chan bool), make(chan bool)
	f.Mu.Lock()
	f.Broken["/token"] = func(w http.ResponseWriter, r *http.Request) { close(entered); <-done }
	f.Mu.Unlock()
	defer close(done)
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-entered; stop() }()
	r := httptest.NewRequestWithContext(ctx, "GET", pagetest.Base+f.Answers(asked), nil)
	for name, value := range b.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	s.Answers.ServeHTTP(w, r)
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
	attacker, victim := s.Browser(), s.Browser()
	to := f.Answers(f.Out(attacker))
	victim.Get(to).Want(403).Says("This sign-in cannot be finished here.", "To decide about an app")
	s.nobody(victim)
	f.Out(victim) // has a cookie of its own now
	victim.Get(to).Want(403)
	s.nobody(victim)
	if f.Asked["/token"] != 0 {
		t.Error("the code was exchanged")
	}
	attacker.Get(to).Follow().Want(200).Says("Signed in as Ada Lindqvist")
	attacker.Get(to).Follow().Want(200) // Back: signed in already, and the code is not asked for again
	if f.Asked["/token"] != 1 {
		t.Errorf("%d exchanges, want one", f.Asked["/token"])
	}
}

// State that is not ours, not for this way, or too old (decision S4).
func TestState(t *testing.T) {
	s, f := newOutside(t)
	s.SignIn.Providers = append(s.SignIn.Providers, f.Provider("second"))
	b := s.Browser()
	page := b.Get(pagetest.Authorize("state", "mine")).Follow().Want(200)
	asked := f.Asks(b.Get(page.Link("Continue with Corporate login")))
	for _, state := range []string{"", "x", asked.Get("state") + "A", s.SealPath("/"), s.Ring.SealPage(signin.SealedAttempt, []byte("{}"))} {
		b.Get(f.Answers(asked, "state", state)).Want(403).Says("This sign-in cannot be finished here.")
	}
	b.Get(f.Answers(asked) + "&state=x").Want(403) // twice
	// A code and a state of one provider, presented as the other's.
	mixed := strings.Replace(f.Answers(asked), "/corp?", "/second?", 1)
	b.Get(mixed).Want(400).Says("cannot be accepted", "To decide about an app")
	b.Get(strings.Replace(mixed, "/second?", "/third?", 1)).Want(404)
	s.Pass(signin.AttemptLifetime + time.Second)
	b.Get(f.Answers(asked)).Want(403).Says("This sign-in cannot be finished here.", "To decide about an app")
	s.nobody(b)
	if f.Asked["/token"] != 0 {
		t.Error("a code was exchanged")
	}
}

// Session fixation: a cookie that was planted is worth nothing after it.
func TestPlantedCookies(t *testing.T) {
	s, f := newOutside(t)
	b := s.Browser()
	planted := page.NewCookie()
	b.Cookies["__Host-session"] = planted
	b.Get(f.Answers(f.Out(b))).Follow().Want(200)
	if b.Cookies["__Host-session"] == planted {
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
	b := s.Browser()
	var asked []url.Values
	for i := range 5 {
		page := b.Get(pagetest.Authorize("state", fmt.Sprint("tab-", i))).Follow().Want(200)
		asked = append(asked, f.Asks(b.Get(page.Link("Continue with Corporate login"))))
	}
	for i, a := range asked {
		if q := b.Get(f.Answers(a)).Follow().Want(200).Approve().Sent(pagetest.Callback); q.Get("state") != fmt.Sprint("tab-", i) {
			t.Errorf("tab %d is sent %v", i, q)
		}
	}
}

// Only what this server sealed is followed: there is no open redirect.
func TestReturnFromAProvider(t *testing.T) {
	s, f := newOutside(t)
	for _, to := range []string{"https://evil.example/", "//evil.example", s.Ring.SealPage("consent page", []byte("https://evil.example")), ""} {
		b := s.Browser()
		asked := f.Asks(b.Get("/signin/with/corp?" + url.Values{"return": {to}}.Encode()))
		if got := b.Get(f.Answers(asked)).Want(303).Header.Get("Location"); got != "/" {
			t.Errorf("return %q leads to %q", to, got)
		}
		if got := b.Get("/signin/with/corp?" + url.Values{"return": {to}}.Encode()).Want(303).Header.Get("Location"); got != "/" {
			t.Errorf("return %q of somebody signed in leads to %q", to, got)
		}
	}
	s.Browser().Get("/signin/with/other").Want(404)
	s.Browser().Get("/signin/with/handoff").Want(404)
	s.Browser().Get("/signin/callback/handoff?assertion=x").Want(404)
}

// Keys rotate: a token under a new one is good at once; one that was taken
// out is believed as long as the metadata, and not under another name.
func TestKeysRotate(t *testing.T) {
	s, f := newOutside(t)
	for _, id := range []string{"k1", "k2", "k3"} {
		if id != "k1" {
			f.Rotate(id)
		}
		b := s.Browser()
		b.Get(f.Answers(f.Out(b))).Follow().Want(200).Says("Signed in as Ada")
	}
	if f.Asked["/keys"] != 3 || f.Asked["/.well-known/openid-configuration"] != 1 {
		t.Errorf("asked %v", f.Asked)
	}
}

// With passwords the page has both; signing out stays out.
func TestWaysOnThePage(t *testing.T) {
	s, f := newOutside(t)
	s.NoPasswords = false
	b := s.Browser()
	page := b.Get(pagetest.Authorize()).Follow().Want(200).Says("Password", "Or:", "Continue with Corporate login")
	if page.Header.Get("Refresh") != "" {
		t.Error("it goes on by itself")
	}
	pagetest.SignIn(page, "tor@nordlys.example", pagetest.Password).Follow().Want(200).Says("Signed in as Tor")

	s.NoPasswords = true
	b = s.Browser()
	out := b.Get(f.Answers(f.Out(b))).Follow().Want(200).Press("/signout").Follow().Want(200).Says("To decide about an app")
	if out.Header.Get("Refresh") != "" {
		t.Error("signed out, and in again")
	}
	for want, supported := range map[string][]string{"login": nil, "select_account": {"login", "select_account"}} {
		f.Metadata = map[string]any{"prompt_values_supported": supported}
		s.SignIn.Providers[0] = f.Provider("corp")
		if got := f.Asks(b.Get(out.Link("Continue with Corporate login"))).Get("prompt"); got != want {
			t.Errorf("prompt %q for another account, want %q", got, want)
		}
	}
	b.Post("/signin", url.Values{"email": {"ada@nordlys.example"}, "password": {pagetest.Password}}).Want(404)
	s.Nothing("ada")
}

// A claim that names the person decides alone.
func TestPersonByClaim(t *testing.T) {
	s, f := newOutside(t)
	c := f.Provider("corp").Config
	c.PersonClaim = "employee"
	s.SignIn.Providers[0] = provider.New(c, s.Store.Now)
	in := func(sub string, employee any) *pagetest.Shown {
		f.Claims["sub"], f.Claims["employee"], f.UserInfo["sub"] = sub, employee, sub
		b := s.Browser()
		return b.Get(f.Answers(f.Out(b)))
	}
	in("1", "tor").Follow().Want(200).Says("Signed in as Tor Haugen") // and not ada, whose email it is
	in("1", "tor").Follow().Want(200).Says("Signed in as Tor Haugen")
	in("1", "ada").Want(403).Says("belongs to somebody else") // a subject that changed hands
	in("2", "tor").Want(403).Says("belongs to somebody else")
	for _, nobody := range []any{"nobody", "", nil, "ada@nordlys.example", 7, []string{"ada"}} {
		in("3", nobody).Want(403).Says("Svalinn does not know you.")
	}
}

// Nobody is added unless that is configured, and then without a membership.
func TestProvisioning(t *testing.T) {
	s, f := newOutside(t)
	c := f.Provider("corp").Config
	c.Provision = true
	s.SignIn.Providers[0] = provider.New(c, s.Store.Now)
	in := func(sub string, user map[string]any) *pagetest.Shown {
		f.Claims["sub"] = sub
		f.UserInfo = user
		f.UserInfo["sub"] = sub
		b := s.Browser()
		return b.Get(f.Answers(f.Out(b)))
	}
	in("1", map[string]any{"email": "new@nordlys.example", "email_verified": false}).Want(403).Says("has not verified")
	if _, err := s.Store.Person(t.Context(), "new@nordlys.example"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("added without a verified email: %v", err)
	}
	in("1", map[string]any{"email": "new@nordlys.example", "email_verified": true, "name": "New Person"}).Follow().Want(403).
		Says("You are not a member of any organization.")
	p, err := s.Store.Person(t.Context(), "new@nordlys.example")
	if err != nil || p.Name != "New Person" || !p.Active || p.Support || org.CheckID(p.ID) != nil {
		t.Errorf("added %+v, %v", p, err)
	}
	for sub, name := range map[string]string{"2": "Ada\u202e", "3": "\u200b", "4": "two\nlines", "5": ""} { // people choose theirs there
		email := "p" + sub + "@nordlys.example"
		in(sub, map[string]any{"email": email, "email_verified": true, "name": name}).Follow().Want(403)
		if p, err := s.Store.Person(t.Context(), email); err != nil || p.Name != email {
			t.Errorf("%q added as %+v, %v", name, p, err)
		}
	}
	in("6", map[string]any{"email": "a\u200bda@nordlys.example", "email_verified": true, "name": "Ada"}).Want(403).Says("has not verified")
	in("1", map[string]any{}).Follow().Want(403).Says("You are not a member")
	s.Do(s.Store.SetActive(t.Context(), p.ID, false, store.Act{Actor: "operator"}))
	in("1", map[string]any{}).Want(403).Says("deactivated")
}

// Back-channel logout ends the sessions that the provider's word began, once,
// and no others.
func TestBackChannelLogout(t *testing.T) {
	s, f := newOutside(t)
	here := s.SignedIn("ada") // by password
	in := func() *pagetest.Browser {
		b := s.Browser()
		b.Get(f.Answers(f.Out(b))).Follow().Want(200)
		return b
	}
	signedIn := func(b *pagetest.Browser) bool {
		_, err := s.Store.Session(t.Context(), b.Cookies["__Host-session"])
		return err == nil
	}
	number := 0
	token := func(changes map[string]any) string {
		number++
		claims := map[string]any{"iss": f.Server.URL, "aud": "grantkeeper", "iat": s.Store.Now().Unix(), "exp": s.Store.Now().Add(2 * time.Minute).Unix(),
			"jti": fmt.Sprint(number), "events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}}
		for name, value := range changes {
			claims[name] = value
			if value == nil {
				delete(claims, name)
			}
		}
		return f.Signed(claims)
	}
	logout := func(token string) *pagetest.Shown {
		return s.Browser().Post("/signin/logout/corp", url.Values{"logout_token": {token}})
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
		if p := logout(token(bad)); p.Status != 400 || !strings.Contains(p.Body, "invalid_request") {
			t.Errorf("%s: %d %s", name, p.Status, p.Body)
		}
	}
	for _, bad := range []string{"", "x", "a.b.c"} {
		logout(bad).Want(400)
	}
	if !signedIn(a) {
		t.Fatal("a bad logout token ends the session")
	}
	logout(token(map[string]any{"sub": "somebody-else"})).Want(200)
	logout(token(map[string]any{"sid": "another-session"})).Want(200)
	logout(token(map[string]any{"sid": "far-session", "sub": "somebody-else"})).Want(200)
	if !signedIn(a) {
		t.Fatal("the logout of another ends the session")
	}
	first := token(map[string]any{"sid": "far-session"})
	logout(first).Want(200)
	if signedIn(a) || !signedIn(here) {
		t.Errorf("signed in: at the provider %v, by password %v", signedIn(a), signedIn(here))
	}
	if e := s.Event("signed_out"); e.Person != "ada" {
		t.Errorf("event %+v", e)
	}
	b, c := in(), in()
	logout(first).Want(400) // a replay
	if !signedIn(b) {
		t.Fatal("a replay ends a session")
	}
	logout(token(map[string]any{"sub": "sub-of-ada"})).Want(200)
	if signedIn(b) || signedIn(c) || !signedIn(here) {
		t.Error("a logout by subject ends all of that provider's, and no more")
	}
	s.Browser().Post("/signin/logout/other", url.Values{}).Want(404)
	f.Mu.Lock()
	f.Broken["/keys"] = http.NotFound
	f.Mu.Unlock()
	f.Rotate("k7")
	logout(token(map[string]any{"sub": "sub-of-ada"})).Want(503) // to be said again
	for range signin.SignInAddress.N {
		logout("x")
	}
	logout("x").Want(429)
}

// Coming back wrong is limited like a wrong password, and a provider that is
// down is nobody's fault; neither fills the journal.
func TestLimitsElsewhere(t *testing.T) {
	s, f := newOutside(t)
	f.Server.Close()
	b := s.Browser()
	for range 2 * signin.SignInAddress.N {
		b.Get("/signin/with/corp").Want(503)
	}
	s.Do(s.Store.Ready(t.Context())) // written after what was queued
	events, _, err := s.Store.Events(t.Context(), store.EventFilter{Kind: "signin_failed", Limit: 1000})
	if err != nil || len(events) != signin.SignInAddress.N {
		t.Errorf("%d events, %v", len(events), err)
	}
	down, f2 := newOutside(t)
	f2.Broken["/me"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }
	waiting := down.Browser()
	asked := f2.Out(waiting)
	for range signin.SignInAddress.N + 1 {
		waiting.Get(f2.Answers(asked)).Want(503)
	}
	s.From = "203.0.113.77" // asked for by any web page, or in another browser: nobody suffers
	stranger := s.Browser()
	for range 2 * signin.SignInAddress.N {
		stranger.Get("/signin/callback/corp?code=x&state=x").Want(403)
	}
	stranger.Header.Set("Sec-Fetch-Dest", "image")
	stranger.Get("/signin/callback/corp?code=x&state=x").Want(404)

	s, f = newOutside(t)
	asked = f.Out(s.Browser())
	for range 2 * signin.SignInAddress.N {
		s.Browser().Get(f.Answers(asked)).Want(403)
	}
	b = s.Browser() // its own attempts count
	asked = f.Out(b)
	image := s.Browser()
	image.Header.Set("Sec-Fetch-Dest", "iframe")
	image.Get(f.Answers(asked)).Want(404)
	for range signin.SignInAddress.N {
		b.Get(f.Answers(asked, "code", "", "error", "access_denied")).Want(400)
	}
	if got := b.Get(f.Answers(asked)).Want(429).Header.Get("Retry-After"); got != "600" {
		t.Errorf("Retry-After %q", got)
	}
	s.From = "203.0.113.77"
	b.Get(f.Answers(asked)).Follow().Want(200)
}
