package identity

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

var (
	asserted = Assertion{Audience: "https://app.example", Challenge: "1.abc", Person: "ada", AuthTime: time.Unix(1000, 0)}
	atNoon   = time.Unix(100_000, 0)
	secret   = []byte("a secret of at least thirty-two bytes")
)

// What is signed is read back the same, under either kind of key.
func TestAssertion(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := []AssertionKey{{}, {Secret: secret}, {Ed25519: public}}
	for _, a := range []Assertion{asserted, {Audience: asserted.Audience, Challenge: "x", Person: "tor@nordlys.example", ImpersonatedBy: "support"}} {
		byHMAC, err := a.Sign(secret, atNoon)
		if err != nil {
			t.Fatal(err)
		}
		byEd25519, err := a.SignEd25519(private, atNoon)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{byHMAC, byEd25519} {
			for _, now := range []time.Time{atNoon, atNoon.Add(59 * time.Second), atNoon.Add(-assertionSkew)} {
				if got, err := ReadAssertion(s, a.Audience, now, keys...); err != nil || got != a {
					t.Errorf("at %v: got %+v, %v, want %+v", now, got, err, a)
				}
			}
			for _, now := range []time.Time{atNoon.Add(AssertionLifetime), atNoon.Add(AssertionLifetime + time.Second), atNoon.Add(-assertionSkew - time.Second)} {
				if got, err := ReadAssertion(s, a.Audience, now, keys...); err == nil {
					t.Errorf("at %v it is believed: %+v", now, got)
				}
			}
		}
	}
	if _, err := asserted.Sign(secret[:MinKey-1], atNoon); err == nil {
		t.Error("signed with a short secret")
	}
	if _, err := asserted.SignEd25519(private[:40], atNoon); err == nil {
		t.Error("signed with half a key")
	}
}

// Whatever is changed in an assertion, it is not believed.
func TestBadAssertions(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	good, err := asserted.Sign(secret, atNoon)
	if err != nil {
		t.Fatal(err)
	}
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	claims := func(changes map[string]any) map[string]any {
		c := map[string]any{"aud": asserted.Audience, "challenge": "x", "sub": "ada", "iat": atNoon.Unix()}
		for k, v := range changes {
			c[k] = v
		}
		return c
	}
	signedAs := func(header, body string) string {
		return header + "." + body + "." + base64.RawURLEncoding.EncodeToString(hs256(secret, []byte(header+"."+body)))
	}
	signed := func(header, body any) string { return signedAs(part(header), part(body)) }
	hs := map[string]any{"alg": "HS256"}
	if _, err := ReadAssertion(signed(hs, claims(nil)), asserted.Audience, atNoon, AssertionKey{Secret: secret}); err != nil {
		t.Fatalf("the one that the others are made of: %v", err)
	}
	pieces := strings.Split(good, ".")
	bad := map[string]string{
		"empty": "", "one part": "x", "two parts": pieces[0] + "." + pieces[1], "four parts": good + ".x",
		"no signature": pieces[0] + "." + pieces[1] + ".", "cut": good[:len(good)-1], "longer": good + "A", "a line feed": good + "\n",
		"none":                                   part(map[string]any{"alg": "none"}) + "." + pieces[1] + ".",
		"another name":                           signed(map[string]any{"alg": "HS512"}, claims(nil)),
		"no algorithm":                           signed(map[string]any{}, claims(nil)),
		"critical":                               signed(map[string]any{"alg": "HS256", "crit": []string{"b64"}, "b64": false}, claims(nil)),
		"critical, and empty":                    signed(map[string]any{"alg": "HS256", "crit": []string{}}, claims(nil)), // RFC 7515 section 4.1.11
		"critical, and null":                     signed(map[string]any{"alg": "HS256", "crit": nil}, claims(nil)),
		"the header's algorithm in another case": signed(map[string]any{"alg": "HS256", "Alg": "none"}, claims(nil)),
		"impersonated in another case":           signed(hs, claims(map[string]any{"Impersonated_By": "x"})),
		"twice but for the case":                 signed(hs, claims(map[string]any{"impersonated_by": "x", "Impersonated_By": ""})),
		"a person in another case":               signed(hs, claims(map[string]any{"Sub": "tor"})),
		"acted for in another case":              signed(hs, claims(map[string]any{"ACT": map[string]any{"sub": "x"}})),
		"twice":                                  signed(hs, json.RawMessage(`{"aud":"`+asserted.Audience+`","challenge":"x","sub":"ada","iat":100000,"sub":"ada"}`)),
		"header no JSON":                         signed("x", claims(nil)),
		"claims no JSON":                         signed(hs, "x"),
		"claims a list":                          signed(hs, []string{"x"}),
		"a person by number":                     signed(hs, claims(map[string]any{"sub": 7})),
		"several audiences":                      signed(hs, claims(map[string]any{"aud": []string{asserted.Audience, "https://evil.example"}})),
		"for another server":                     signed(hs, claims(map[string]any{"aud": "https://evil.example"})),
		"for no server":                          signed(hs, claims(map[string]any{"aud": nil})),
		"no challenge":                           signed(hs, claims(map[string]any{"challenge": ""})),
		"nobody":                                 signed(hs, claims(map[string]any{"sub": ""})),
		"a header with something behind":         signedAs(part(hs)+"!", part(claims(nil))),
		"claims with something behind":           signedAs(part(hs), part(json.RawMessage(`{"aud":"`+asserted.Audience+`","challenge":"x","sub":"a","iat":100000}`))+"!"),
		"expired":                                signed(hs, claims(map[string]any{"exp": atNoon.Unix()})),
		"no time":                                signed(hs, claims(map[string]any{"iat": nil})),
		"a negative time":                        signed(hs, claims(map[string]any{"auth_time": -1})),
		"too long":                               signed(hs, claims(map[string]any{"x": strings.Repeat("x", maxAssertion)})),
		"other claims":                           pieces[0] + "." + part(claims(map[string]any{"sub": "tor"})) + "." + pieces[2],
	}
	for name, s := range bad {
		if got, err := ReadAssertion(s, asserted.Audience, atNoon, AssertionKey{Secret: secret}, AssertionKey{Ed25519: public}); err == nil {
			t.Errorf("%s: believed: %+v", name, got)
		}
	}
	// The public key is no secret: the algorithm is the key's, not the header's.
	confused, err := asserted.Sign(public, atNoon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAssertion(confused, asserted.Audience, atNoon, AssertionKey{Ed25519: public}); err == nil {
		t.Error("signed with the public key as a secret, and believed")
	}
	byOther, err := asserted.SignEd25519(private, atNoon)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HS256", "none", "ES256", ""} { // the right signature under another algorithm's name
		input := part(map[string]any{"alg": name}) + "." + part(claims(nil))
		s := input + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, []byte(input)))
		if _, err := ReadAssertion(s, asserted.Audience, atNoon, AssertionKey{Ed25519: public}); err == nil {
			t.Errorf("algorithm %q: believed", name)
		}
	}
	for _, keys := range [][]AssertionKey{nil, {{Secret: secret}}, {{Secret: secret[:8]}}, {{Ed25519: public[:8]}}} {
		if _, err := ReadAssertion(byOther, asserted.Audience, atNoon, keys...); err == nil {
			t.Errorf("believed under %v", keys)
		}
	}
	// RFC 8693's act counts as well.
	if a, err := ReadAssertion(signed(hs, claims(map[string]any{"act": map[string]any{"sub": "support"}})), asserted.Audience, atNoon, AssertionKey{Secret: secret}); err != nil || a.ImpersonatedBy == "" {
		t.Errorf("act: %+v, %v", a, err)
	}
}

// It is of 16 KiB at most.
func TestLongAssertions(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	for n, want := range map[int]bool{16384: true, 16385: false} {
		body := `{"aud":"a","challenge":"x","sub":"ada","iat":100000,"x":"` + strings.Repeat("x", n*3/4-200)
		s := ""
		for ; len(s) < n; body += "x" {
			s = encode([]byte(`{"alg":"HS256"}`)) + "." + encode([]byte(body+`"}`))
			s += "." + encode(hs256(secret, []byte(s)))
		}
		if _, err := ReadAssertion(s, "a", atNoon, AssertionKey{Secret: secret}); len(s) != n || (err == nil) != want {
			t.Errorf("of %d bytes, which should be %d: %v", len(s), n, err)
		}
	}
}

// The bounds, each to the second, and the least key. Without exp, iat
// alone says when it is over.
func TestAssertionAtItsBounds(t *testing.T) {
	least := secret[:MinKey]
	input := func(claims string) string {
		encode := base64.RawURLEncoding.EncodeToString
		s := encode([]byte(`{"alg":"HS256"}`)) + "." + encode([]byte(`{"aud":"a","challenge":"x","sub":"ada",`+claims+`}`))
		return s + "." + encode(hs256(least, []byte(s)))
	}
	for claims, want := range map[string]bool{
		`"iat":99940`: true, `"iat":99939`: false, `"iat":100010`: true, `"iat":100011`: false,
		`"iat":100000,"exp":100001`: true, `"iat":100000,"exp":100000`: false,
		`"iat":100000,"auth_time":100010`: true, `"iat":100000,"auth_time":100011`: false, `"iat":100000,"auth_time":1`: true,
	} {
		if _, err := ReadAssertion(input(claims), "a", atNoon, AssertionKey{Secret: least}); (err == nil) != want {
			t.Errorf("%s: %v, want believed %v", claims, err, want)
		}
	}
}

// What is believed was signed: any bytes are refused, or are what Sign wrote.
func FuzzReadAssertion(f *testing.F) {
	good, err := asserted.Sign(secret, atNoon)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := ReadAssertion(s, asserted.Audience, atNoon, AssertionKey{Secret: secret}); err == nil && s != good {
			t.Errorf("%q is believed: %+v", s, a)
		}
	})
}
