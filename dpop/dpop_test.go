package dpop

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const uri = "https://service.example/oauth/token"

var noon = time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)

// The keys of these tests, made once.
var (
	ecKey  = sync.OnceValue(func() *ecdsa.PrivateKey { k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader); return k })
	edKey  = sync.OnceValue(func() ed25519.PrivateKey { _, k, _ := ed25519.GenerateKey(rand.Reader); return k })
	rsaKey = sync.OnceValue(func() *rsa.PrivateKey { k, _ := rsa.GenerateKey(rand.Reader, 2048); return k })
)

// claims are those of a right proof.
func claims() map[string]any {
	return map[string]any{"jti": "one", "htm": "POST", "htu": uri, "iat": noon.Unix(), "nonce": "n"}
}

// written gives the text of JSON.
func written(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func encoded(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// publicOf is the jwk of the key that most proofs here are signed by.
func publicOf(t testing.TB) map[string]any {
	t.Helper()
	b, err := ecKey().PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"kty": "EC", "crv": "P-256", "x": encoded(string(b[1:33])), "y": encoded(string(b[33:]))}
}

// header is that of a right proof.
func header(t testing.TB) map[string]any {
	t.Helper()
	return map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": publicOf(t)}
}

// signed gives a JWS of the two texts, whatever they say, by ecKey.
func signed(t testing.TB, header, payload string) string {
	t.Helper()
	text := encoded(header) + "." + encoded(payload)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, ecKey(), sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + encoded(string(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)))
}

// right gives a right proof with changes of its header and its claims; nil takes out.
func right(t testing.TB, headers, payload map[string]any) string {
	t.Helper()
	h, p := header(t), claims()
	change := func(m, by map[string]any) {
		for name, v := range by {
			if m[name] = v; v == nil {
				delete(m, name)
			}
		}
	}
	change(h, headers)
	change(p, payload)
	return signed(t, written(t, h), written(t, p))
}

// read reads and proves, at noon.
func read(sent ...string) (Proof, error) {
	u, err := new(Keys).Read(sent, "POST", uri)
	if err != nil {
		return Proof{}, err
	}
	return u.Prove(noon)
}

// Each algorithm that is announced is taken, as another implementation signs it, and the
// key has the thumbprint that this one gives it.
func TestEachAlgorithm(t *testing.T) {
	keys := map[string]struct {
		alg jose.SignatureAlgorithm
		key crypto.Signer
	}{
		"ES256": {jose.ES256, ecKey()}, "EdDSA": {jose.EdDSA, edKey()}, "RS256": {jose.RS256, rsaKey()}, "PS256": {jose.PS256, rsaKey()},
	}
	for name, k := range keys {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.alg, Key: k.key}, (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := signer.Sign([]byte(written(t, claims())))
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		p, err := read(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, err := (&jose.JSONWebKey{Key: k.key.Public()}).Thumbprint(crypto.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		if string(p.Key[:]) != string(want) {
			t.Errorf("%s: thumbprint %x, want %x", name, p.Key, want)
		}
		if _, err := read(text[:len(text)-4] + "AAAA"); !errors.Is(err, Signature) && !errors.Is(err, NotJWS) {
			t.Errorf("%s with another signature: %v", name, err)
		}
	}
	// The name of RFC 9864, which the other implementation does not write.
	b := edKey().Public().(ed25519.PublicKey)
	text := encoded(`{"typ":"dpop+jwt","alg":"Ed25519","jwk":{"kty":"OKP","crv":"Ed25519","x":"`+encoded(string(b))+`"}}`) + "." + encoded(written(t, claims()))
	if _, err := read(text + "." + encoded(string(ed25519.Sign(edKey(), []byte(text))))); err != nil {
		t.Errorf("Ed25519: %v", err)
	}
	if got := slices.Sorted(maps.Keys(algorithms)); !slices.Equal(got, Algorithms) {
		t.Errorf("taken are %q, announced are %q", got, Algorithms)
	}
}

// RFC 7638 section 3.1 has a key with its thumbprint, and RFC 8037 appendix A.3 another.
func TestThumbprints(t *testing.T) {
	for jwk, want := range map[string]string{
		`{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"}`: "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",
		`{"crv":"Ed25519","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`: "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
	} {
		alg := "RS256"
		if strings.Contains(jwk, "OKP") {
			alg = "EdDSA"
		}
		u, err := new(Keys).Read([]string{signed(t, `{"typ":"dpop+jwt","alg":"`+alg+`","jwk":`+jwk+`}`, written(t, claims()))}, "POST", uri)
		if err != nil {
			t.Errorf("%s: %v", alg, err)
			continue
		}
		if got := base64.RawURLEncoding.EncodeToString(u.key.thumbprint[:]); got != want {
			t.Errorf("%s: %s, want %s", alg, got, want)
		}
	}
}

type headers = map[string]any

// What is no proof is refused, for what it is.
func TestHostileProofs(t *testing.T) {
	good := right(t, nil, nil)
	part := strings.Split(good, ".")
	jwk := func(changes headers) headers {
		k := publicOf(t)
		maps.Copy(k, changes)
		return headers{"jwk": k}
	}
	ed := encoded(string(edKey().Public().(ed25519.PublicKey)))
	n := func(bytes int, first, last byte) string {
		b := []byte(strings.Repeat("\xaa", bytes))
		b[0], b[bytes-1] = first, last
		return encoded(string(b))
	}
	rsaJWK := func(n, e string) headers {
		return headers{"alg": "RS256", "jwk": headers{"kty": "RSA", "n": n, "e": e}}
	}
	head, pay := written(t, header(t)), written(t, claims())
	hs256 := encoded(`{"typ":"dpop+jwt","alg":"HS256","jwk":{"kty":"oct","k":"AAAA"}}`)
	point, err := ecKey().PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	shorter, longer := encoded(string(point[1:32])), encoded(string(point[32:]))
	signature, _ := decode(part[2])
	second := func(m string) string { return m[:len(m)-1] }
	tests := []struct {
		name string
		sent string
		want Fault
	}{
		{"nothing", "", NotJWS},
		{"a word", "proof", NotJWS},
		{"two parts", part[0] + "." + part[1], NotJWS},
		{"four parts", good + ".x", NotJWS},
		{"five parts, encrypted", good + ".x.y", NotJWS},
		{"two proofs with a comma", good + "," + good, NotJWS},
		{"a space in front", " " + good, NotJWS},
		{"padding", part[0] + "==." + part[1] + "." + part[2], NotJWS},
		{"base64 with plus", part[0] + "." + part[1] + "." + strings.Repeat("+", 86), NotJWS},
		{"a line end in the signature", good[:len(good)-2] + "\n" + good[len(good)-2:], NotJWS},
		{"the last bits of the signature are another spelling", good[:len(good)-1] + otherSpelling(good[len(good)-1]), NotJWS},
		{"8192 bytes", strings.Repeat("A", 8192), NotJWS},
		{"8193 bytes", good + strings.Repeat("A", 8193-len(good)), TooLong},
		{"five levels of the payload", signed(t, head, second(pay)+`,"a":[[[[]]]]}`), NotJWS},
		{"a header that is a list", signed(t, `[]`, pay), NotJWS},
		{"a payload that is a text", signed(t, head, `"x"`), NotJWS},
		{"a payload that is not UTF-8", signed(t, head, "{\"jti\":\"\xff\"}"), NotJWS},
		{"a payload with something behind", signed(t, head, pay+"{}"), NotJWS},
		{"alg twice", signed(t, second(head)+`,"alg":"ES256"}`, pay), NotJWS},
		{"jti twice", signed(t, head, second(pay)+`,"jti":"two"}`), NotJWS},
		{"jti twice, once escaped", signed(t, head, second(pay)+`,"\u006ati":"two"}`), NotJWS},
		{"x twice in the key", signed(t, strings.Replace(head, `"crv"`, `"x":"AAAA","crv"`, 1), pay), NotJWS},
		{"very deep", signed(t, head, second(pay)+`,"a":`+strings.Repeat("[", 500)+strings.Repeat("]", 500)+`}`), NotJWS},

		{"no typ", right(t, headers{"typ": nil}, nil), Type},
		{"typ JWT", right(t, headers{"typ": "JWT"}, nil), Type},
		{"typ in another case", right(t, headers{"typ": "DPoP+jwt"}, nil), Type},
		{"typ is a list", right(t, headers{"typ": []string{"dpop+jwt"}}, nil), Type},

		{"no alg", right(t, headers{"alg": nil}, nil), Algorithm},
		{"alg none", right(t, headers{"alg": "none"}, nil), Algorithm},
		{"alg none without a signature", encoded(`{"typ":"dpop+jwt","alg":"none"}`) + "." + part[1] + ".", Algorithm},
		{"alg HS256 with a symmetric jwk", hs256 + "." + part[1] + "." + part[2], Algorithm},
		{"alg HS256 with the public key", right(t, headers{"alg": "HS256"}, nil), Algorithm},
		{"alg in another case", right(t, headers{"alg": "es256"}, nil), Algorithm},
		{"alg ES512", right(t, headers{"alg": "ES512"}, nil), Algorithm},
		{"alg empty", right(t, headers{"alg": ""}, nil), Algorithm},

		{"crit", right(t, headers{"crit": []string{"exp"}}, nil), Extension},
		{"crit of nothing", right(t, headers{"crit": []string{}}, nil), Extension},
		{"x5c beside the key", right(t, headers{"x5c": []string{"MIIB"}}, nil), Extension},
		{"x5u beside the key", right(t, headers{"x5u": "https://a.example/"}, nil), Extension},
		{"jku beside the key", right(t, headers{"jku": "https://a.example/"}, nil), Extension},

		{"no jwk", right(t, headers{"jwk": nil}, nil), NotPublic},
		{"jwk is a text", right(t, headers{"jwk": "x"}, nil), NotPublic},
		{"a private key", right(t, jwk(headers{"d": encoded("secret")}), nil), NotPublic},
		{"a private key that is empty", right(t, jwk(headers{"d": ""}), nil), NotPublic},
		{"a secret beside the key", right(t, jwk(headers{"k": "AAAA"}), nil), NotPublic},
		{"a prime of RSA", right(t, jwk(headers{"p": "AAAA"}), nil), NotPublic},

		{"oct", right(t, jwk(headers{"kty": "oct"}), nil), NotKey},
		{"kty in another case", right(t, jwk(headers{"kty": "ec"}), nil), NotKey},
		{"another curve", right(t, jwk(headers{"crv": "P-384"}), nil), NotKey},
		{"no y", right(t, jwk(headers{"y": nil}), nil), NotKey},
		{"no point of the curve", right(t, jwk(headers{"y": encoded(strings.Repeat("\x01", 32))}), nil), NotKey},
		{"the point at infinity", right(t, jwk(headers{"x": encoded(strings.Repeat("\x00", 32)), "y": encoded(strings.Repeat("\x00", 32))}), nil), NotKey},
		{"x of 31 bytes", right(t, jwk(headers{"x": encoded(strings.Repeat("\x01", 31))}), nil), NotKey},
		{"x of 33 bytes", right(t, jwk(headers{"x": encoded("\x00" + strings.Repeat("\x01", 32))}), nil), NotKey},
		{"the same point with a byte of x in y", right(t, jwk(headers{"x": shorter, "y": longer}), nil), NotKey},
		{"the key of another alg", right(t, headers{"alg": "EdDSA"}, nil), NotKey},
		{"Ed25519 of 33 bytes", right(t, headers{"alg": "EdDSA", "jwk": headers{"kty": "OKP", "crv": "Ed25519", "x": encoded(strings.Repeat("\x01", 33))}}, nil), NotKey},
		{"X25519", right(t, headers{"alg": "EdDSA", "jwk": headers{"kty": "OKP", "crv": "X25519", "x": ed}}, nil), NotKey},
		{"RSA of 1024 bits", right(t, rsaJWK(n(128, 0xaa, 1), "AQAB"), nil), NotKey},
		{"RSA of 2047 bits", right(t, rsaJWK(n(256, 0x7f, 1), "AQAB"), nil), NotKey},
		{"RSA of 4104 bits", right(t, rsaJWK(n(513, 0xaa, 1), "AQAB"), nil), NotKey},
		{"RSA with a zero in front", right(t, rsaJWK(n(257, 0, 1), "AQAB"), nil), NotKey},
		{"RSA with an even modulus", right(t, rsaJWK(n(256, 0xaa, 2), "AQAB"), nil), NotKey},
		{"RSA with the exponent 1", right(t, rsaJWK(n(256, 0xaa, 1), "AQ"), nil), NotKey},
		{"RSA with a very large exponent", right(t, rsaJWK(n(256, 0xaa, 1), n(256, 0xaa, 1)), nil), NotKey},

		{"no jti", right(t, nil, headers{"jti": nil}), ID},
		{"an empty jti", right(t, nil, headers{"jti": ""}), ID},
		{"jti is a number", right(t, nil, headers{"jti": 1}), ID},
		{"jti of 257 bytes", right(t, nil, headers{"jti": strings.Repeat("a", 257)}), ID},

		{"no htm", right(t, nil, headers{"htm": nil}), Method},
		{"htm GET", right(t, nil, headers{"htm": "GET"}), Method},
		{"htm in another case", right(t, nil, headers{"htm": "post"}), Method},

		{"no htu", right(t, nil, headers{"htu": nil}), URI},
		{"htu is a list", right(t, nil, headers{"htu": []string{uri}}), URI},
		{"another host of the server", right(t, nil, headers{"htu": "https://eu.service.example/oauth/token"}), URI},
		{"another endpoint", right(t, nil, headers{"htu": "https://service.example/oauth/revoke"}), URI},
		{"http", right(t, nil, headers{"htu": "http://service.example/oauth/token"}), URI},

		{"no iat", right(t, nil, headers{"iat": nil}), Time},
		{"iat is a text", right(t, nil, headers{"iat": strconv.FormatInt(noon.Unix(), 10)}), Time},
		{"iat in milliseconds", right(t, nil, headers{"iat": noon.UnixMilli()}), Time},
		{"iat a day and a second ago", right(t, nil, headers{"iat": noon.Unix() - 86401}), Time},
		{"iat in a day and a second", right(t, nil, headers{"iat": noon.Unix() + 86401}), Time},
		{"iat beyond all numbers", signed(t, head, strings.Replace(pay, strconv.FormatInt(noon.Unix(), 10), "1e999", 1)), Time},
		{"nonce is a number", right(t, nil, headers{"nonce": 1}), Nonce},
		{"nonce is null", signed(t, head, strings.Replace(pay, `"n"`, "null", 1)), Nonce},

		{"the signature of another proof", part[0] + "." + part[1] + "." + strings.Split(right(t, nil, headers{"jti": "two"}), ".")[2], Signature},
		{"no signature", part[0] + "." + part[1] + ".", Signature},
		{"a signature in ASN.1", part[0] + "." + part[1] + "." + encoded(asn1Of(t, part[0]+"."+part[1])), Signature},
		{"a signature with a zero in the middle", part[0] + "." + part[1] + "." + encoded(string(signature[:32])+"\x00"+string(signature[32:])), Signature},
		{"a signature of zeros", part[0] + "." + part[1] + "." + encoded(strings.Repeat("\x00", 64)), Signature},
		{"another key than the one that signed", right(t, headers{"alg": "EdDSA", "jwk": headers{"kty": "OKP", "crv": "Ed25519", "x": ed}}, nil), Signature},
		{"RSA that signed nothing", right(t, rsaJWK(encoded(string(rsaKey().N.Bytes())), "AQAB"), nil), Signature},
	}
	for _, tt := range tests {
		if _, err := read(tt.sent); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	for n, sent := range [][]string{nil, {}, {good, good}, {good, ""}} {
		if _, err := read(sent...); !errors.Is(err, Several) {
			t.Errorf("headers %d: %v", n, err)
		}
	}
}

// otherSpelling changes bits of the last character of base64 that say nothing: the last
// of 86 has four of them.
func otherSpelling(last byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, last)^1])
}

func asn1Of(t *testing.T, text string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	b, err := ecdsa.SignASN1(rand.Reader, ecKey(), sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What differs in nothing that counts is right.
func TestRightProofs(t *testing.T) {
	for name, text := range map[string]string{
		"as most write it":    right(t, nil, nil),
		"without a nonce":     right(t, nil, headers{"nonce": nil}),
		"iat with a fraction": right(t, nil, headers{"iat": float64(noon.Unix()) + 0.25}),
		"iat a day ago":       right(t, nil, headers{"iat": noon.Unix() - 86400}),
		"iat in a day":        right(t, nil, headers{"iat": noon.Unix() + 86400}),
		"jti of 256 bytes":    right(t, nil, headers{"jti": strings.Repeat("a", 256)}),
		"jti with escapes":    right(t, nil, headers{"jti": "\"\\\u00e9<"}),
		"an empty nonce":      right(t, nil, headers{"nonce": ""}),
		"four levels":         right(t, nil, headers{"a": [][][]int{{{}}}}),
		"more claims":         right(t, nil, headers{"ath": "x", "exp": 1, "aud": []string{"a"}}),
		"more headers":        right(t, headers{"kid": "1", "x5t": "a"}, nil),
		"a key with what WebCrypto has": right(t, headers{"jwk": func() map[string]any {
			k := publicOf(t)
			k["ext"], k["key_ops"], k["use"], k["alg"], k["kid"] = true, []string{"verify"}, "sig", "ES256", "1"
			return k
		}()}, nil),
		"typ with an escape": signed(t, strings.Replace(written(t, header(t)), "dpop+jwt", `dpop\u002bjwt`, 1), written(t, claims())),
	} {
		if _, err := read(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	u, err := new(Keys).Read([]string{right(t, nil, headers{"nonce": "a\"b"})}, "POST", uri)
	if err != nil || u.Nonce() != `a"b` {
		t.Errorf("nonce %q, %v", u.Nonce(), err)
	}
	if _, err := new(Keys).Read([]string{right(t, nil, headers{"iat": nil})}, "POST", uri); err != Time {
		t.Errorf("no time: %v", err)
	}
	large := "\xff" + strings.Repeat("\x01", 511)
	if _, err := readHeader(encoded(`{"typ":"dpop+jwt","alg":"RS256","jwk":{"kty":"RSA","e":"AQAB","n":"` + encoded(large) + `"}}`)); err != nil {
		t.Errorf("RSA of 4096 bits: %v", err)
	}
}

// A proof is known again by its key and its jti, whatever else of it changes.
func TestIDsOfProofs(t *testing.T) {
	id := func(payload headers) [32]byte {
		p, err := read(right(t, nil, payload))
		if err != nil {
			t.Fatal(err)
		}
		return p.ID
	}
	one := id(nil)
	if id(headers{"iat": noon.Unix() + 1, "nonce": "m"}) != one {
		t.Error("the same jti at another time is another proof")
	}
	if id(headers{"jti": "two"}) == one {
		t.Error("another jti is the same proof")
	}
	text := encoded(`{"typ":"dpop+jwt","alg":"EdDSA","jwk":{"kty":"OKP","crv":"Ed25519","x":"`+encoded(string(edKey().Public().(ed25519.PublicKey)))+`"}}`) + "." + encoded(written(t, claims()))
	other, err := read(text + "." + encoded(string(ed25519.Sign(edKey(), []byte(text)))))
	if err != nil || other.ID == one {
		t.Errorf("the same jti of another key: %v", err)
	}
}

// RFC 9449 section 4.3: htu is compared without query and fragment, after what RFC 3986
// calls syntax-based and scheme-based normalization, and by nothing else.
func TestNames(t *testing.T) {
	const dev = "http://127.0.0.1:8080/oauth/token"
	for _, tt := range []struct {
		htu, uri string
		want     bool
	}{
		{uri, uri, true},
		{"HTTPS://service.example/oauth/token", uri, true},
		{"https://SERVICE.example/oauth/token", uri, true},
		{"https://service.example:443/oauth/token", uri, true},
		{"https://service.example/oauth/token?a=b", uri, true},
		{"https://service.example/oauth/token#a", uri, true},
		{"https://service.example/oauth/t%6Fken", uri, true},
		{"https://A~b.example/", "https://a~b.example/", true},
		{dev, dev, true},
		{"http://service.example:80/oauth/token", "http://service.example/oauth/token", true},
		{"https://[2001:DB8::1]/oauth/token", "https://[2001:db8::1]/oauth/token", true},

		{"https://service.example/oauth/Token", uri, false},
		{"https://service.example/oauth/token/", uri, false},
		{"https://service.example//oauth/token", uri, false},
		{"https://service.example/oauth%2Ftoken", uri, false},
		{"https://service.example/oauth/./token", uri, false},
		{"https://service.example/oauth/token%00", uri, false},
		{"https://service.example", uri, false},
		{"https://service.example:444/oauth/token", uri, false},
		{"https://service.example:80/oauth/token", uri, false},
		{"https://service.example.:443/oauth/token", uri, false},
		{"https://service.example:/oauth/token", uri, false},
		{"http://service.example:443/oauth/token", uri, false},
		{"http://127.0.0.1/oauth/token", dev, false},
		{"http://localhost:8080/oauth/token", dev, false},
		{"https://a@service.example/oauth/token", uri, false},
		{"https://service.example@evil.example/oauth/token", uri, false},
		{"https://\u212aey.example/oauth/token", "https://key.example/oauth/token", false},
		{"//service.example/oauth/token", uri, false},
		{"/oauth/token", uri, false},
		{"oauth/token", uri, false},
		{"ftp://service.example/oauth/token", "ftp://service.example/oauth/Token", false},
		{"ftp://SERVICE.example/oauth/token", "ftp://service.example/oauth/token", false},
		{"https:service.example/oauth/token", uri, false},
		{"", uri, false},
		{" " + uri, uri, false},
		{"https://service.example/oauth/token%zz", uri, false},
	} {
		if got := names(tt.htu, tt.uri); got != tt.want {
			t.Errorf("%q names %q: %t", tt.htu, tt.uri, got)
		}
	}
}

// What is taken is a proof in one spelling: its parts are those that were sent, and a
// change of any byte is another proof or none.
func FuzzRead(f *testing.F) {
	f.Add(right(f, nil, nil))
	f.Add(right(f, headers{"crit": []string{"b64"}}, nil))
	f.Add(signed(f, `{"typ":"dpop+jwt","alg":"EdDSA","jwk":{}}`, `{"jti":"","htm":"POST"}`))
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := new(Keys).Read([]string{text}, "POST", uri)
		if err != nil {
			var fault Fault
			if !errors.As(err, &fault) || strings.ContainsAny(err.Error(), "\"\\\r\n") {
				t.Fatalf("%v cannot be told", err)
			}
			return
		}
		if got := u.signed + "." + encoded(string(u.signature)); got != text {
			t.Fatalf("%q was read as %q", text, got)
		}
		if _, err := u.Prove(noon); err != nil && !errors.Is(err, Time) && !errors.Is(err, Signature) {
			t.Fatal(err)
		}
	})
}

// What is remembered of a header is the key alone, and no more of them than are bounded.
func TestHeadersThatAreRemembered(t *testing.T) {
	var k Keys
	prove := func(text string) error {
		u, err := k.Read([]string{text}, "POST", uri)
		if err == nil {
			_, err = u.Prove(noon)
		}
		return err
	}
	good, bad := right(t, nil, nil), right(t, headers{"crit": []string{"a"}}, nil)
	part := strings.Split(good, ".")
	for range 2 {
		for text, want := range map[string]error{
			good: nil, right(t, nil, headers{"jti": "two"}): nil, bad: Extension,
			part[0] + "." + encoded(written(t, claims())[1:]) + "." + part[2]:                               NotJWS,
			part[0] + "." + encoded(`{"jti":"1","htm":"POST","htu":"`+uri+`","iat":1}`) + "." + part[2]:     Time,
			part[0] + "." + encoded(strings.Replace(written(t, claims()), "one", "two", 1)) + "." + part[2]: Signature,
		} {
			if err := prove(text); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	}
	if len(k.keys) != 1 {
		t.Errorf("%d headers are remembered, want that of the right proofs", len(k.keys))
	}
	head := written(t, header(t))
	named := func(kid string) *key {
		at, err := k.of(encoded(strings.Replace(head, "{", `{"kid":"`+kid+`",`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	all := make([]*key, 3*2048)
	for i := range all {
		all[i] = named(strconv.Itoa(i))
	}
	if len(k.keys) != 1 || len(k.earlier) != 2048 {
		t.Errorf("%d and %d headers are remembered", len(k.keys), len(k.earlier))
	}
	for i, want := range map[int]bool{0: false, len(all) - 3: true, len(all) - 1: true} {
		if got := named(strconv.Itoa(i)) == all[i]; got != want {
			t.Errorf("header %d is remembered: %v", i, got)
		}
	}
	if err := prove(good); err != nil {
		t.Errorf("one that was forgotten: %v", err)
	}
	long := strings.Repeat("a", 2048/4*3-len(head)-len(`"kid":"",`)) // and it has 2048 characters
	one, same := named(long), named(long)
	longer, other := named(long+"a"), named(long+"a")
	if one != same || longer == other {
		t.Error("of a header that is longer than all others too much is remembered, or too little")
	}
}

func BenchmarkRead(b *testing.B) {
	text, k := right(b, nil, nil), new(Keys)
	for b.Loop() {
		u, err := k.Read([]string{text}, "POST", uri)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := u.Prove(noon); err != nil {
			b.Fatal(err)
		}
	}
}
