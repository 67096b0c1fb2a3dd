package dpop

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"math/big"
	"strings"
	"sync"

	"github.com/grantkeeper/grantkeeper/strictjson"
)

// Algorithms are those that a proof may be signed by, as the metadata announces them
// (RFC 9449 section 5.1): asymmetric ones that clients have. Ed25519 is the name that
// RFC 9864 gives what EdDSA is here.
var Algorithms = []string{"ES256", "Ed25519", "EdDSA", "PS256", "RS256"}

var algorithms = map[string]func(jwk strictjson.Members) (key, bool){
	"ES256": readP256, "Ed25519": readEd25519, "EdDSA": readEd25519,
	"PS256": readRSA(signedPSS), "RS256": readRSA(signedPKCS1),
}

// key is the public key of a proof.
type key struct {
	thumbprint [sha256.Size]byte // RFC 7638
	signed     func(text string, signature []byte) bool
}

// bytesOf gives what a member of a key encodes, and its text.
func bytesOf(jwk strictjson.Members, name string) (b []byte, text string, ok bool) {
	if text, ok = textOf(jwk[name]); ok {
		b, ok = decode(text)
	}
	return b, text, ok
}

// is reports whether a member of a key is a text.
func is(jwk strictjson.Members, name, want string) bool {
	text, ok := textOf(jwk[name])
	return ok && text == want
}

// thumbprintOf hashes a key's members as RFC 7638 section 3 writes them. Their values
// are base64url of one spelling, so that nothing needs escaping and each key has one.
func thumbprintOf(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

const coordinate = 32 // bytes, of P-256 and Ed25519

// readP256 reads a key of ES256 (RFC 7518 sections 3.4 and 6.2.1).
func readP256(jwk strictjson.Members) (k key, ok bool) {
	x, xText, okX := bytesOf(jwk, "x")
	y, yText, okY := bytesOf(jwk, "y")
	if !okX || !okY || len(x) != coordinate || len(y) != coordinate || !is(jwk, "kty", "EC") || !is(jwk, "crv", "P-256") {
		return k, false
	}
	const uncompressed = 4 // SEC 1 section 2.3.3
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{uncompressed}, x...), y...))
	if err != nil { // no point of the curve
		return k, false
	}
	k.thumbprint = thumbprintOf(`{"crv":"P-256","kty":"EC","x":"` + xText + `","y":"` + yText + `"}`)
	k.signed = func(text string, signature []byte) bool {
		if len(signature) != 2*coordinate {
			return false
		}
		sum := sha256.Sum256([]byte(text))
		return ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(signature[:coordinate]), new(big.Int).SetBytes(signature[coordinate:]))
	}
	return k, true
}

// readEd25519 reads a key of EdDSA (RFC 8037 section 2).
func readEd25519(jwk strictjson.Members) (k key, ok bool) {
	x, text, ok := bytesOf(jwk, "x")
	if !ok || len(x) != ed25519.PublicKeySize || !is(jwk, "kty", "OKP") || !is(jwk, "crv", "Ed25519") {
		return k, false
	}
	k.thumbprint = thumbprintOf(`{"crv":"Ed25519","kty":"OKP","x":"` + text + `"}`)
	k.signed = func(text string, signature []byte) bool { return ed25519.Verify(x, []byte(text), signature) }
	return k, true
}

// The bounds of an RSA key: below, it can be broken; above, a check takes long.
const (
	minModulus = 256 // bytes
	maxModulus = 512
	exponent   = "AQAB" // 65537, which all but every key has
)

// readRSA reads a key of RS256 or PS256 (RFC 7518 section 6.3.1).
func readRSA(verify func(public *rsa.PublicKey, sum, signature []byte) error) func(strictjson.Members) (key, bool) {
	return func(jwk strictjson.Members) (k key, ok bool) {
		n, text, ok := bytesOf(jwk, "n")
		// It has no zeros in front (RFC 7518 section 6.3.1.1), and its highest bit, so that
		// its length says its bits.
		if !ok || len(n) < minModulus || len(n) > maxModulus || n[0]&0x80 == 0 || n[len(n)-1]&1 == 0 ||
			!is(jwk, "kty", "RSA") || !is(jwk, "e", exponent) {
			return k, false
		}
		k.thumbprint = thumbprintOf(`{"e":"` + exponent + `","kty":"RSA","n":"` + text + `"}`)
		public := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: 65537}
		k.signed = func(text string, signature []byte) bool {
			sum := sha256.Sum256([]byte(text))
			return verify(public, sum[:], signature) == nil
		}
		return k, true
	}
}

func signedPKCS1(public *rsa.PublicKey, sum, signature []byte) error {
	return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum, signature)
}

// signedPSS wants a salt as long as the hash (RFC 7518 section 3.5).
func signedPSS(public *rsa.PublicKey, sum, signature []byte) error {
	return rsa.VerifyPSS(public, crypto.SHA256, sum, signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
}

// Keys remembers the headers of proofs that it has read of late, which are the same for
// all of one client: to read one takes as long as the rest of a proof but its signature.
// Nothing of what it remembers is believed: the signature is looked at each time. Its
// zero value is empty.
type Keys struct {
	mu            sync.Mutex
	keys, earlier map[string]*key // by the header's text
}

// mostKeys bounds each half of what is remembered: some two KiB each.
const mostKeys = 2048

// longestHeader is what is remembered at most: more than any algorithm here needs.
const longestHeader = 2 << 10 // bytes

// of gives the key of a header.
func (k *Keys) of(header string) (*key, error) {
	k.mu.Lock()
	known := k.keys[header]
	if known == nil {
		known = k.earlier[header]
	}
	k.mu.Unlock()
	if known != nil {
		return known, nil
	}
	at, err := readHeader(header)
	if err != nil || len(header) > longestHeader {
		return at, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil || len(k.keys) >= mostKeys {
		k.earlier, k.keys = k.keys, make(map[string]*key)
	}
	k.keys[strings.Clone(header)] = at
	return at, nil
}
