package signin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/provider"
)

// A Far is an OpenID provider that does what it is told: the other end of a
// network, with whatever can be wrong there.
type Far struct {
	t      testing.TB
	Server *httptest.Server
	now    func() time.Time

	Mu       sync.Mutex
	keys     []farKey // the last one signs
	codes    map[string]url.Values
	Claims   map[string]any // over the ordinary ones; nil takes one out
	UserInfo map[string]any
	Sign     func(payload []byte) string // nil: with the last key
	Metadata map[string]any              // over the ordinary ones
	Broken   map[string]http.HandlerFunc // by path
	Asked    map[string]int              // by path
}

type farKey struct {
	id  string
	key *ecdsa.PrivateKey
}

// NewFar starts one where Ada signs in.
func NewFar(t testing.TB, now func() time.Time) *Far {
	t.Helper()
	f := &Far{t: t, now: now, codes: map[string]url.Values{}, Broken: map[string]http.HandlerFunc{}, Asked: map[string]int{},
		Claims:   map[string]any{},
		UserInfo: map[string]any{"email": "ada@nordlys.example", "email_verified": true}}
	f.Rotate("k1")
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Server.Close)
	return f
}

// Rotate makes another key that signs from now on.
func (f *Far) Rotate(id string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.keys = append(f.keys, farKey{id, key})
}

// Provider is this one as a server knows it.
func (f *Far) Provider(id string) *provider.Provider {
	return provider.New(provider.Config{ID: id, Name: "Corporate login", Issuer: f.Server.URL, ClientID: "grantkeeper",
		ClientSecret: "a secret", Scopes: []string{"openid", "email"}}, f.now)
}

// ServeHTTP answers as a provider does, or as the test has it.
func (f *Far) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.Mu.Lock()
	f.Asked[r.URL.Path]++
	broken := f.Broken[r.URL.Path]
	f.Mu.Unlock()
	if broken != nil {
		broken(w, r)
		return
	}
	answer := map[string]any{}
	status := http.StatusOK
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		answer = map[string]any{"issuer": f.Server.URL, "authorization_endpoint": f.Server.URL + "/authorize",
			"token_endpoint": f.Server.URL + "/token", "jwks_uri": f.Server.URL + "/keys", "userinfo_endpoint": f.Server.URL + "/me",
			"id_token_signing_alg_values_supported":          []string{"none", "HS256", "ES256"},
			"authorization_response_iss_parameter_supported": true}
		maps.Copy(answer, f.Metadata)
	case "/keys":
		answer["keys"] = f.publicKeys()
	case "/token":
		status = f.token(r, answer)
	case "/me":
		answer["sub"] = "sub-of-ada"
		maps.Copy(answer, f.UserInfo)
	default:
		status = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer)
}

func (f *Far) publicKeys() (keys []jose.JSONWebKey) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for _, k := range f.keys {
		keys = append(keys, jose.JSONWebKey{Key: k.key.Public(), KeyID: k.id, Algorithm: "ES256", Use: "sig"})
	}
	return keys
}

// token exchanges a code once, for its client, redirect URI and verifier.
func (f *Far) token(r *http.Request, answer map[string]any) int {
	id, secret, _ := r.BasicAuth()
	r.ParseForm()
	f.Mu.Lock()
	asked, ok := f.codes[r.Form.Get("code")]
	delete(f.codes, r.Form.Get("code"))
	f.Mu.Unlock()
	sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
	if !ok || id != "grantkeeper" || secret != "a+secret" || asked.Get("redirect_uri") != r.Form.Get("redirect_uri") ||
		asked.Get("code_challenge_method") != "S256" || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
		answer["error"] = "invalid_grant"
		return http.StatusBadRequest
	}
	answer["access_token"], answer["token_type"] = "far-access-token", "Bearer"
	answer["id_token"] = f.Signed(map[string]any{"iss": f.Server.URL, "aud": "grantkeeper", "sub": "sub-of-ada",
		"nonce": asked.Get("nonce"), "iat": f.now().Unix(), "exp": f.now().Add(5 * time.Minute).Unix(),
		"auth_time": f.now().Add(-time.Minute).Unix(), "sid": "far-session"})
	return http.StatusOK
}

// Signed writes a token of these claims and those that the test has set.
func (f *Far) Signed(claims map[string]any) string {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for name, value := range f.Claims {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		f.t.Error(err)
	}
	if f.Sign != nil {
		return f.Sign(payload)
	}
	last := f.keys[len(f.keys)-1]
	return SignWith(f.t, jose.ES256, jose.JSONWebKey{Key: last.key, KeyID: last.id}, payload)
}

// SignWith gives a JWS.
func SignWith(t testing.TB, alg jose.SignatureAlgorithm, key any, payload []byte) string {
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

// Asks gives what the browser was sent there with.
func (f *Far) Asks(p *pagetest.Shown) url.Values {
	f.t.Helper()
	return p.Sent(f.Server.URL + "/authorize")
}

// Answers gives where the provider sends the browser to, after the person
// signed in there.
func (f *Far) Answers(asked url.Values, changes ...string) string {
	f.t.Helper()
	code := page.NewCookie()
	f.Mu.Lock()
	f.codes[code] = asked
	f.Mu.Unlock()
	q := url.Values{"code": {code}, "state": {asked.Get("state")}, "iss": {f.Server.URL}}
	for i := 0; i < len(changes); i += 2 {
		q.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			q.Del(changes[i])
		}
	}
	to, ok := strings.CutPrefix(asked.Get("redirect_uri"), pagetest.Base)
	if !ok {
		f.t.Fatalf("redirect URI %q", asked.Get("redirect_uri"))
	}
	return to + "?" + q.Encode()
}

// Out goes the way of a person who was asked by an app, up to the provider.
func (f *Far) Out(b *pagetest.Browser) url.Values {
	f.t.Helper()
	page := b.Get(pagetest.Authorize("state", "mine")).Follow().Want(200)
	return f.Asks(b.Get(page.Link("Continue with Corporate login")))
}
