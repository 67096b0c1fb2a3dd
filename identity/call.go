package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

// HeaderCall signs which call the headers are for, so that a copy of them is good
// for no other within [Tolerance]. A service may leave it unread.
const HeaderCall = "X-Grantkeeper-Call-Signature"

// unsigned stands for a body that whoever signed did not see.
const unsigned = "-"

// Call is a request, as the service gets it.
type Call struct {
	Method string
	Target string // path and query, in the bytes of the request line

	Body   []byte // all of it; empty for none
	Unread bool   // the body is not at hand: it is not signed, or not asked for
}

func (c Call) body() string {
	if c.Unread {
		return unsigned
	}
	sum := sha256.Sum256(c.Body)
	return hex.EncodeToString(sum[:])
}

// SignCall adds HeaderCall to headers that Sign gave with the same key.
func SignCall(key []byte, headers map[string]string, c Call) error {
	if !visible(c.Method) || !visible(c.Target) || c.Method == "" || c.Target == "" {
		return errors.New(HeaderCall + ": method or target has more than visible ASCII characters, or none")
	}
	body := c.body()
	headers[HeaderCall] = "body=" + body + ",v1=" + hex.EncodeToString(callMAC(key, headers[HeaderSignature], c, body))
	return nil
}

// callMAC is HMAC-SHA256 over lines, each ended by a line feed: call-v1, the
// value of HeaderSignature, method, target, and the body's SHA-256 or a hyphen.
func callMAC(key []byte, signature string, c Call, body string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("call-v1\n" + signature + "\n" + c.Method + "\n" + c.Target + "\n" + body + "\n"))
	return h.Sum(nil)
}

// VerifyCall is Verify, and asks that the headers were signed for this call.
func VerifyCall(header map[string][]string, c Call, now time.Time, keys ...[]byte) (Identity, error) {
	if err := signedCall(header, c, keys); err != nil {
		return Identity{}, err
	}
	return Verify(header, now, keys...)
}

// signedCall says what is wrong with HeaderCall, under the rules of Verify.
func signedCall(header map[string][]string, c Call, keys [][]byte) error {
	said, err := one(header, HeaderCall)
	if err != nil {
		return err
	}
	if said == "" {
		return errors.New(HeaderCall + ": missing")
	}
	body, digits, _ := strings.Cut(strings.TrimPrefix(said, "body="), ",v1=")
	sum, ok := digest(digits)
	if _, known := digest(body); !ok || !known && body != unsigned || "body="+body+",v1="+digits != said {
		return errors.New(HeaderCall + ": not body=<digest or ->,v1=<signature>")
	}
	if !c.Unread && body == unsigned {
		return errors.New(HeaderCall + ": the body is not signed")
	}
	if !c.Unread && body != c.body() {
		return errors.New(HeaderCall + ": signed for another body")
	}
	signature, err := one(header, HeaderSignature)
	if err != nil {
		return err
	}
	good := false
	for _, key := range keys {
		if len(key) >= MinKey && hmac.Equal(callMAC(key, signature, c, body), sum) {
			good = true
		}
	}
	if !good {
		return errors.New(HeaderCall + ": not signed for this call by a known key")
	}
	return nil
}
