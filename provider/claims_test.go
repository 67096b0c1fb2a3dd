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
		got, err := p.read(s, nil)
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
		if _, err := p.read(s, nil); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

// An ID token and UserInfo together: an actor counts in either, an email with the
// word on it of who says it, and what is said of the sign-in in the token alone.
func TestBothSay(t *testing.T) {
	p := New(Config{Issuer: "https://login.example.com", ActorClaim: "admin"}, func() time.Time { return noon })
	for _, tt := range []struct {
		token, info string
		want        Claims
	}{
		{`{}`, `{"act":{"sub":"eve"}}`, Claims{ActedBy: "eve"}},
		{`{"act":null,"admin":false}`, `{"act":{"sub":"eve"}}`, Claims{ActedBy: "eve"}},
		{`{"act":{}}`, `{"act":null}`, Claims{ActedBy: "somebody"}},
		{`{}`, `{"admin":"eve"}`, Claims{ActedBy: "eve"}},
		{`{}`, `{"Act":{"sub":"eve"}}`, Claims{}},
		{`{"act":{"Sub":"eve"}}`, `{}`, Claims{ActedBy: "somebody"}},
		{`{}`, `{"email":"a@b.example","email_verified":true,"name":"Ada","sid":"s"}`, Claims{Email: "a@b.example", Name: "Ada", Session: "s"}},
		{`{"email":"a@b.example"}`, `{"email":"a@b.example","email_verified":true}`, Claims{Email: "a@b.example"}},
		{`{"email":"a@b.example"}`, `{"email":"c@d.example","email_verified":true}`, Claims{}},
		{`{"email":"a@b.example"}`, `{"email_verified":true}`, Claims{}},
		{`{"email_verified":true}`, `{"email":"a@b.example"}`, Claims{}},
		{`{"email":"a@b.example","email_verified":true}`, `{"email":"a@b.example","email_verified":false}`, Claims{}},
		{`{"email":"a@b.example","email_verified":true}`, `{"email":"c@d.example","email_verified":false}`, Claims{Email: "a@b.example"}},
		{`{"auth_time":1772366400,"amr":["pwd"]}`, `{"auth_time":1772366399,"amr":["mfa"]}`, Claims{AuthTime: noon, Methods: []string{"pwd"}}},
		{`{}`, `{"auth_time":1772366400,"amr":["mfa"]}`, Claims{}},
	} {
		var token, info said
		if json.Unmarshal([]byte(tt.token), &token) != nil || json.Unmarshal([]byte(tt.info), &info) != nil {
			t.Fatal(tt)
		}
		got, err := p.read(token, info)
		if tt.want.Issuer = p.Issuer; err != nil || !got.AuthTime.Equal(tt.want.AuthTime) {
			t.Errorf("%s and %s: %v, %v", tt.token, tt.info, got, err)
		}
		if got.AuthTime = tt.want.AuthTime; !equal(got, tt.want) {
			t.Errorf("%s and %s: got %+v, want %+v", tt.token, tt.info, got, tt.want)
		}
	}
}

// Claims that the library and this server could read differently are refused.
func TestClaimsReadTwoWays(t *testing.T) {
	for text, want := range map[string]bool{
		`{"sub":"1","act":{"sub":"eve"}}`: true, `{"sub":"1","sub":"2"}`: false, `{"sub":"1","Sub":"2"}`: false, `{"act":{"sub":"1","sub":""}}`: false, `[]`: false,
	} {
		_, err := members(func(at any) error { return json.Unmarshal([]byte(text), at) })
		if (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func equal(a, b Claims) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
