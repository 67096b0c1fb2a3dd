package provider

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// idToken gives an ID token of claims, whose signature is taken to be right.
func idToken(t *testing.T, p *Provider, claims map[string]any) *oidc.IDToken {
	t.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	raw := strings.Join([]string{encode([]byte(`{"alg":"RS256"}`)), encode(body), encode([]byte("signature"))}, ".")
	verifier := oidc.NewVerifier(p.Issuer, nil, &oidc.Config{ClientID: p.ClientID, Now: p.now, InsecureSkipSignatureCheck: true})
	token, err := verifier.Verify(t.Context(), raw)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// An ID token is believed as OpenID Connect Core 1.0 section 3.1.3.7 has it.
func TestCheck(t *testing.T) {
	p := New(Config{Issuer: "https://login.example.com", ClientID: "x"}, func() time.Time { return noon })
	a := Ask{Secret: Secret{1}}
	good := map[string]any{"iss": p.Issuer, "sub": "1", "aud": "x", "exp": noon.Add(time.Hour).Unix(), "iat": noon.Unix(), "nonce": a.Secret.derive("nonce")}
	for name, change := range map[string]map[string]any{
		"":                                  {},
		"several audiences, and it is ours": {"aud": []string{"x", "y"}, "azp": "x"},
		"issued a moment ahead":             {"iat": noon.Add(skew).Unix()},
		"!another nonce":                    {"nonce": Secret{2}.derive("nonce")},
		"!no subject":                       {"sub": ""},
		"!a long subject":                   {"sub": strings.Repeat("s", 256)},
		"!several audiences":                {"aud": []string{"x", "y"}},
		"!for another party":                {"azp": "y"},
		"!issued in the future":             {"iat": noon.Add(skew + time.Second).Unix()},
		"!of another access token":          {"at_hash": "AAAA"},
		"!a logout token":                   {logoutEvents: map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}},
	} {
		claims := maps.Clone(good)
		maps.Copy(claims, change)
		_, err := p.check(idToken(t, p, claims), "access", a)
		if refused := strings.HasPrefix(name, "!"); (err != nil) != refused {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// What a provider vouches for is read from its claims, and nothing else is.
func TestClaims(t *testing.T) {
	p := New(Config{Issuer: "https://login.example.com", ActorClaim: "admin"}, func() time.Time { return noon })
	for claims, want := range map[string]Claims{
		`{"email":"a@b.example","email_verified":true,"auth_time":1772366400,"amr":["mfa"]}`: {Email: "a@b.example", AuthTime: noon, Methods: []string{"mfa"}},
		`{"email":"a@b.example"}`:                                                 {},
		`{"email":"a@b.example","act":{"sub":"eve"},"amr":"mfa"}`:                 {ActedBy: "eve"},
		`{"email":"a@b.example","admin":true}`:                                    {ActedBy: "somebody"},
		`{"email":"a@b.example","admin":"eve"}`:                                   {ActedBy: "eve"},
		`{"email":"a@b.example","act":null,"admin":false,"sid":"s","name":"Ada"}`: {Session: "s", Name: "Ada"},
	} {
		var s said
		if err := json.Unmarshal([]byte(claims), &s); err != nil {
			t.Fatal(err)
		}
		want.Issuer = p.Issuer
		got, err := p.claims(t.Context(), nil, s, nil)
		if err != nil || !got.AuthTime.Equal(want.AuthTime) {
			t.Errorf("%s: %v, %v", claims, got, err)
		}
		if got.AuthTime = want.AuthTime; !equal(got, want) {
			t.Errorf("%s: got %+v, want %+v", claims, got, want)
		}
	}
	for _, wrong := range []string{`"auth_time":1772366461`, `"auth_time":-1`, `"auth_time":"noon"`} {
		var s said
		if err := json.Unmarshal([]byte(`{"email":"a@b.example",`+wrong+`}`), &s); err != nil {
			t.Fatal(err)
		}
		if _, err := p.claims(t.Context(), nil, s, nil); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

func equal(a, b Claims) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
