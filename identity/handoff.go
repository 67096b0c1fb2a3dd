package identity

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/strictjson"
)

// An Assertion is what a service says of the person who is signed in there,
// when the server hands the sign-in to it: a JWS (RFC 7515) that the browser
// carries back.
type Assertion struct {
	Audience  string    // {base} of the server, as it asked
	Challenge string    // as it asked
	Person    string    // ID or email
	AuthTime  time.Time // when the person proved who they are, true to the second; zero when unknown

	// ImpersonatedBy is who acts as the person, such as support staff; empty
	// when it is the person. Nobody can approve for somebody else.
	ImpersonatedBy string
}

// AssertionLifetime is how long an assertion may be on its way. It counts
// once.
const AssertionLifetime = time.Minute

// assertionSkew is how far the clock of the service may be ahead.
const assertionSkew = 10 * time.Second

// maxAssertion is the most bytes that an assertion may have: it travels in a
// URL.
const maxAssertion = 16 << 10

// An AssertionKey checks what a service has signed: one of its fields is set.
type AssertionKey struct {
	Secret  []byte            // HMAC-SHA256 (HS256); at least MinKey bytes, and the service has it too
	Ed25519 ed25519.PublicKey // EdDSA; only the service can sign
}

type joseHeader struct {
	Algorithm string          `json:"alg"`
	Type      string          `json:"typ,omitempty"`
	Critical  json.RawMessage `json:"crit,omitempty"`
}

// The members of an assertion's claims.
type assertionClaims struct {
	Audience       string          `json:"aud"`
	Challenge      string          `json:"challenge"`
	Person         string          `json:"sub"`
	IssuedAt       int64           `json:"iat"`
	Expires        int64           `json:"exp,omitempty"`
	AuthTime       int64           `json:"auth_time,omitempty"`
	ImpersonatedBy string          `json:"impersonated_by,omitempty"`
	Actor          json.RawMessage `json:"act,omitempty"`
}

// Sign gives the assertion with the key of a service, a secret of at least
// MinKey bytes that the server has too.
func (a Assertion) Sign(secret []byte, now time.Time) (string, error) {
	if len(secret) < MinKey {
		return "", fmt.Errorf("a key has at least %d bytes, not %d", MinKey, len(secret))
	}
	return a.sign("HS256", func(input []byte) []byte { return hs256(secret, input) }, now), nil
}

// SignEd25519 gives the assertion with a key that the service alone has.
func (a Assertion) SignEd25519(key ed25519.PrivateKey, now time.Time) (string, error) {
	if len(key) != ed25519.PrivateKeySize {
		return "", errors.New("not an Ed25519 private key")
	}
	return a.sign("EdDSA", func(input []byte) []byte { return ed25519.Sign(key, input) }, now), nil
}

func (a Assertion) sign(algorithm string, sign func([]byte) []byte, now time.Time) string {
	c := assertionClaims{Audience: a.Audience, Challenge: a.Challenge, Person: a.Person, IssuedAt: now.Unix(),
		Expires: now.Add(AssertionLifetime).Unix(), ImpersonatedBy: a.ImpersonatedBy}
	if !a.AuthTime.IsZero() {
		c.AuthTime = a.AuthTime.Unix()
	}
	header, err := json.Marshal(joseHeader{Algorithm: algorithm, Type: "JWT"})
	claims, err2 := json.Marshal(c)
	if err := errors.Join(err, err2); err != nil {
		panic(err) // texts and numbers
	}
	input := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	return input + "." + base64.RawURLEncoding.EncodeToString(sign([]byte(input)))
}

func hs256(secret, input []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(input)
	return h.Sum(nil)
}

// ReadAssertion gives what an assertion says, if it is signed with one of the
// keys, for this audience, and not older than AssertionLifetime. Whether its
// challenge is the browser's, and whether it counts for the first time, the
// caller knows. The error holds no part of it.
func ReadAssertion(s, audience string, now time.Time, keys ...AssertionKey) (Assertion, error) {
	if len(s) > maxAssertion || strings.ContainsAny(s, "\r\n") { // which base64 would skip
		return Assertion{}, errors.New("assertion: too long, or more than one line")
	}
	dot := max(0, strings.LastIndexByte(s, '.'))
	input := s[:dot]
	head, body, ok := strings.Cut(input, ".")
	if !ok {
		return Assertion{}, errors.New("assertion: not a JWS in its compact form")
	}
	var header joseHeader
	if err := decodePart(head, &header); err != nil {
		return Assertion{}, fmt.Errorf("assertion: header: %w", err)
	}
	sum, err := base64.RawURLEncoding.Strict().DecodeString(s[dot+1:])
	if err != nil || header.Critical != nil || !slices.ContainsFunc(keys, func(k AssertionKey) bool {
		return k.signed(header.Algorithm, []byte(input), sum)
	}) {
		return Assertion{}, errors.New("assertion: not signed by a known key")
	}
	var c assertionClaims
	if err := decodePart(body, &c); err != nil {
		return Assertion{}, fmt.Errorf("assertion: claims: %w", err)
	}
	return c.read(audience, now)
}

// signed goes by the key's own algorithm, never by the one that a header
// names (RFC 8725 section 3.1).
func (k AssertionKey) signed(algorithm string, input, sum []byte) bool {
	switch {
	case len(k.Secret) >= MinKey:
		return algorithm == "HS256" && hmac.Equal(hs256(k.Secret, input), sum)
	case len(k.Ed25519) == ed25519.PublicKeySize:
		return algorithm == "EdDSA" && ed25519.Verify(k.Ed25519, input, sum)
	}
	return false
}

func (c assertionClaims) read(audience string, now time.Time) (Assertion, error) {
	a := Assertion{Audience: c.Audience, Challenge: c.Challenge, Person: c.Person, ImpersonatedBy: c.ImpersonatedBy}
	if act := string(c.Actor); act != "" && act != "null" && a.ImpersonatedBy == "" {
		a.ImpersonatedBy = "act"
	}
	if c.AuthTime != 0 {
		a.AuthTime = time.Unix(c.AuthTime, 0)
	}
	age := now.Unix() - c.IssuedAt
	switch {
	case c.Audience != audience:
		return Assertion{}, errors.New("assertion: for another audience")
	case age > int64(AssertionLifetime/time.Second), -age > int64(assertionSkew/time.Second):
		return Assertion{}, errors.New("assertion: issued at another time than now")
	case c.Expires != 0 && c.Expires <= now.Unix():
		return Assertion{}, errors.New("assertion: expired")
	case c.Challenge == "":
		return Assertion{}, errors.New("assertion: no challenge")
	case c.Person == "":
		return Assertion{}, errors.New("assertion: names nobody")
	case c.AuthTime < 0 || c.AuthTime > now.Add(assertionSkew).Unix():
		return Assertion{}, errors.New("assertion: auth_time is not a time that has been")
	}
	return a, nil
}

// decodePart reads one JSON object of a JWS: each member once, by its exact name.
func decodePart(part string, into any) error {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return errors.New("not base64url")
	}
	if err := strictjson.Into(raw, into); err != nil {
		return fmt.Errorf("not a JSON object with members of the right kind: %w", err)
	}
	return nil
}
