// Package dpop reads proofs that a client holds a key (RFC 9449): what a proof has to
// say, and whether that key has signed it. It keeps nothing: whether a nonce is one of
// this server, and whether a proof was used before, its caller asks.
package dpop

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/strictjson"
)

// The bounds of a proof. RFC 9449 has none.
const (
	MaxLen = 8 << 10 // bytes of the header
	maxID  = 256     // bytes of jti

	// MaxSkew is how far iat may be from now, either way. A nonce of this server says
	// when a proof was made (RFC 9449 section 4.3, item 11), so this is for clocks that
	// are set to another day, or count milliseconds, alone.
	MaxSkew = 24 * time.Hour
)

// A Fault is why something is no proof, in words that hold nothing of it.
type Fault string

func (f Fault) Error() string { return string(f) }

// What can be wrong with a proof.
const (
	Several   Fault = "there must be one DPoP header"
	TooLong   Fault = "the proof has more than 8192 bytes"
	NotJWS    Fault = "the proof is not a compact JWS of two JSON objects"
	Type      Fault = "typ of the proof must be dpop+jwt"
	Algorithm Fault = "alg of the proof is not one of dpop_signing_alg_values_supported"
	Extension Fault = "the proof has a header that is not taken: crit, or another key beside jwk"
	NotPublic Fault = "jwk of the proof must be a public key and nothing more"
	NotKey    Fault = "jwk of the proof is not a key of its alg: P-256, Ed25519, or RSA of 2048 to 4096 bits with the exponent 65537"
	ID        Fault = "jti of the proof must be a text of 1 to 256 bytes"
	Method    Fault = "htm of the proof is not the method of the request"
	URI       Fault = "htu of the proof is not the address of the request"
	Time      Fault = "iat of the proof is not a number of seconds within a day of now"
	Nonce     Fault = "nonce of the proof is not a text"
	Signature Fault = "the signature of the proof is not one of its key"
)

// Unproven is a proof whose signature nobody has looked at yet.
type Unproven struct {
	signed    string // what the signature is over
	signature []byte
	key       *key
	at        float64 // iat
	id        string  // jti
	nonce     string
}

// Proof is what one that is right has proved.
type Proof struct {
	Key [sha256.Size]byte // the thumbprint of the key (RFC 7638)
	ID  [sha256.Size]byte // of the key and jti: no two proofs of a key have one
}

// Read takes apart what was sent in DPoP headers with a request, and checks all that
// needs neither time nor key. RFC 9449 section 4.3, items 1 to 6, 8 and 9. uri has
// neither query nor fragment.
func (k *Keys) Read(sent []string, method, uri string) (*Unproven, error) {
	switch {
	case len(sent) != 1:
		return nil, Several
	case len(sent[0]) > MaxLen:
		return nil, TooLong
	}
	text := sent[0]
	first, last := strings.IndexByte(text, '.'), strings.LastIndexByte(text, '.')
	if first == last {
		return nil, NotJWS
	}
	u, err := &Unproven{signed: text[:last]}, error(nil)
	claims, ok := objectIn(text[first+1 : last])
	if !ok {
		return nil, NotJWS
	}
	if u.signature, ok = decode(text[last+1:]); !ok {
		return nil, NotJWS
	}
	if u.key, err = k.of(text[:first]); err != nil {
		return nil, err
	}
	return u, u.readClaims(claims, method, uri)
}

// readHeader takes what RFC 9449 section 4.2 wants of the JOSE header, as it came.
func readHeader(text string) (*key, error) {
	header, ok := objectIn(text)
	if !ok {
		return nil, NotJWS
	}
	for _, name := range []string{"crit", "jku", "x5u", "x5c"} {
		if _, sent := header[name]; sent {
			return nil, Extension
		}
	}
	if typ, _ := textOf(header["typ"]); typ != "dpop+jwt" {
		return nil, Type
	}
	alg, _ := textOf(header["alg"])
	read, known := algorithms[alg]
	if !known {
		return nil, Algorithm
	}
	jwk, err := strictjson.Object(header["jwk"], depth)
	if err != nil {
		return nil, NotPublic
	}
	for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
		if _, sent := jwk[private]; sent {
			return nil, NotPublic
		}
	}
	at, ok := read(jwk)
	if !ok {
		return nil, NotKey
	}
	return &at, nil
}

// readClaims takes what RFC 9449 section 4.2 wants of the payload.
func (u *Unproven) readClaims(claims strictjson.Members, method, uri string) (err error) {
	var ok bool
	if u.id, ok = textOf(claims["jti"]); !ok || u.id == "" || len(u.id) > maxID {
		return ID
	}
	if htm, ok := textOf(claims["htm"]); !ok || htm != method {
		return Method
	}
	if htu, ok := textOf(claims["htu"]); !ok || !names(htu, uri) {
		return URI
	}
	if u.at, err = strconv.ParseFloat(string(claims["iat"]), 64); err != nil {
		return Time
	}
	if _, sent := claims["nonce"]; sent {
		if u.nonce, ok = textOf(claims["nonce"]); !ok {
			return Nonce
		}
	}
	return nil
}

// Nonce is what the proof says that it was given, or "". Nobody has checked it.
func (u *Unproven) Nonce() string { return u.nonce }

// Prove checks when the proof was made, and its signature.
func (u *Unproven) Prove(now time.Time) (Proof, error) {
	switch {
	case math.Abs(u.at-float64(now.Unix())) > MaxSkew.Seconds():
		return Proof{}, Time
	case !u.key.signed(u.signed, u.signature):
		return Proof{}, Signature
	}
	p := Proof{Key: u.key.thumbprint}
	p.ID = sha256.Sum256(append(append([]byte("dpop "), p.Key[:]...), u.id...))
	return p, nil
}

// depth is how deep the header and the payload may be: a key may hold lists.
const depth = 4

// objectIn reads one part of a JWS: base64url of one JSON object.
func objectIn(part string) (strictjson.Members, bool) {
	text, ok := decode(part)
	if !ok {
		return nil, false
	}
	members, err := strictjson.Object(text, depth)
	return members, err == nil
}

// decode reads base64url without padding, of which each text has one spelling
// (RFC 7515 section 2).
func decode(text string) ([]byte, bool) {
	if strings.ContainsAny(text, "\r\n") { // which base64 would skip
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return b, err == nil
}

// textOf gives the text that a member is.
func textOf(value json.RawMessage) (text string, ok bool) {
	n := len(value)
	switch {
	case n < 2 || value[0] != '"':
		return "", false
	case !strings.Contains(string(value), `\`): // all but always
		return string(value[1 : n-1]), true
	}
	err := json.Unmarshal(value, &text)
	return text, err == nil
}
