package identity

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"time"
)

// OneTimeStep is how long a one-time code is shown (RFC 6238 section 5.2).
const OneTimeStep = 30 * time.Second

// OneTimeDigits is the length of a one-time code.
const OneTimeDigits = 6

// OneTimeCode is the code of a secret in a step, which is Unix time divided by
// OneTimeStep (RFC 6238, HMAC-SHA-1: what every authenticator app knows).
func OneTimeCode(secret []byte, step int64) string {
	return fmt.Sprintf("%0*d", OneTimeDigits, truncated(secret, step)%1_000_000)
}

// truncated is RFC 4226 section 5.3 without its modulus.
func truncated(secret []byte, step int64) uint32 {
	h := hmac.New(sha1.New, secret)
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step))
	h.Write(counter[:])
	sum := h.Sum(nil)
	at := sum[len(sum)-1] & 0x0f
	return binary.BigEndian.Uint32(sum[at:]) & 0x7fffffff
}

// CheckOneTimeCode reports whether a code is the secret's now, one step before
// or one after, and which step it was. Steps up to last do not count: a code
// counts once (RFC 6238 section 5.2).
func CheckOneTimeCode(secret []byte, code string, now time.Time, last int64) (step int64, ok bool) {
	present := now.Unix() / int64(OneTimeStep/time.Second)
	for s := present - 1; s <= present+1; s++ {
		if s > last && subtle.ConstantTimeCompare([]byte(OneTimeCode(secret, s)), []byte(code)) == 1 {
			step, ok = s, true
		}
	}
	return step, ok
}
