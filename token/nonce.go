package token

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"time"
)

// A nonce is for a client to put into what it signs, so that this cannot be older
// (RFC 9449 section 8): the time at which it was given, and a tag that nobody else can
// make. Nothing of it is stored, and each node takes those of the others.
const (
	nonceTime = 8 // bytes, Unix seconds
	nonceLen  = nonceTime + tagLen
)

// Nonce gives the nonce of a time.
func (r *Ring) Nonce(now time.Time) string {
	var b [nonceLen]byte
	binary.BigEndian.PutUint64(b[:], uint64(now.Unix()))
	copy(b[nonceTime:], r.sealing().nonceTag(b[:nonceTime]))
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// ReadNonce gives the time of a nonce that a key of the ring has made.
func (r *Ring) ReadNonce(text string) (at time.Time, ok bool) {
	var b [nonceLen]byte
	if len(text) != base64.RawURLEncoding.EncodedLen(nonceLen) {
		return at, false
	}
	if n, err := base64.RawURLEncoding.Decode(b[:], []byte(text)); err != nil || n != nonceLen { // shorter where line ends were skipped
		return at, false
	}
	for _, k := range r.Keys() {
		if hmac.Equal(k.nonceTag(b[:nonceTime]), b[nonceTime:]) {
			return time.Unix(int64(binary.BigEndian.Uint64(b[:])), 0), true
		}
	}
	return at, false
}

func (k *Key) nonceTag(at []byte) []byte {
	mac := k.nonces.Get().(hash.Hash)
	defer k.nonces.Put(mac)
	mac.Reset()
	mac.Write(at)
	return mac.Sum(nil)[:tagLen]
}
