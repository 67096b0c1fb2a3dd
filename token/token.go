// Package token seals and reads the strings that a client carries. Nothing of
// them is stored: each is a prefix and
//
//	base62( tag | encrypted( handle | number ) )
//
// of fixed length, in letters and digits only (decision T1). The tag is an
// HMAC-SHA256 under the server's key over kind, handle and number, cut to 16
// bytes; it is also the nonce of the AES-CTR encryption (the SIV construction
// of RFC 5297), so there is no randomness to get wrong. Garbage is refused
// before any I/O, and a token shows its holder nothing.
package token

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// Kind tells the three strings apart. Its letter ends the prefix: svo_, svr_,
// svc_ (decision N1).
type Kind byte

const (
	Access  Kind = 'o'
	Refresh Kind = 'r'
	Code    Kind = 'c'
)

// Kinds lists every kind.
var Kinds = []Kind{Access, Refresh, Code}

// Name is the word for it, as in token_type_hint (RFC 7009 section 2.1); "" of none.
func (k Kind) Name() string {
	switch k {
	case Access:
		return "access_token"
	case Refresh:
		return "refresh_token"
	case Code:
		return "authorization_code"
	}
	return ""
}

// Handle is the secret that every token of one approval carries and that is
// stored nowhere.
type Handle [16]byte

// ID is the approval's public ID: the SHA-256 of the handle, cut to 16 bytes.
func (h Handle) ID() [16]byte {
	sum := sha256.Sum256(h[:])
	return [16]byte(sum[:16])
}

// Format prints the approval's public ID instead, under every verb: a handle
// that strays into a log or an error must open nothing.
func (h Handle) Format(f fmt.State, _ rune) {
	id := h.ID()
	io.WriteString(f, hex.EncodeToString(id[:]))
}

// Claim is what a token with a right tag says. Whether the approval behind it
// still stands is another question.
type Claim struct {
	Kind       Kind
	Handle     Handle
	Generation int64 // of the refresh token; of an access token that it was issued with; 0 on a code
	Time       int64 // Unix seconds: expiry of an access token, issue time of a code; 0 on a refresh token
	Key        int   // number of the key that sealed it
}

// Key is one numbered secret of the installation (decision T11).
type Key struct {
	Number int // from 1
	block  cipher.Block
	desks  sync.Pool // of *desk
	nonces sync.Pool // of hash.Hash, keyed for them
	// derive gives a 32-byte key for one purpose (RFC 5869). It alone holds the
	// secret, so that nothing that prints a Key can print that.
	derive func(purpose string) []byte
}

// desk is what sealing and reading one token need: kept for the next one,
// because keying a MAC costs as much as using it, and because what is handed
// to a MAC or a cipher behind an interface would be allocated each time.
type desk struct {
	key *Key
	mac hash.Hash // under the key's MAC key
	// kind, then the body in the clear
	plain [1 + bodyLen]byte
	// tag, then the encrypted body
	sealed [tagLen + bodyLen]byte
	sum    [sha256.Size]byte
	pad    [2 * aes.BlockSize]byte // CTR key stream, longer than the body
	text   [Len]byte
}

// NewKey derives what a key needs from its 32-byte secret.
func NewKey(number int, secret [32]byte) *Key {
	k := &Key{Number: number, derive: func(purpose string) []byte {
		b, err := hkdf.Key(sha256.New, secret[:], nil, "grantkeeper "+purpose, 32)
		if err != nil {
			panic(err) // 32 bytes are within HKDF's bound
		}
		return b
	}}
	block, err := aes.NewCipher(k.derive("token encryption"))
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	k.block = block
	mac := k.derive("token tag")
	k.desks.New = func() any { return &desk{key: k, mac: hmac.New(sha256.New, mac)} }
	nonce := k.derive("dpop nonce")
	k.nonces.New = func() any { return hmac.New(sha256.New, nonce) }
	return k
}

const (
	tagLen  = 16
	bodyLen = 16 + 12                 // handle, number
	textLen = 5*blockText + blockRest // base62 of tagLen+bodyLen bytes
)

// Len is the length of every token, prefix included.
const Len = 4 + textLen

// maxField bounds generation and time: six bytes each.
const maxField = 1<<48 - 1

// Ring holds the keys of an installation. It is safe for concurrent use. A key
// that is added, dropped or begins to seal does so for all callers at once.
type Ring struct {
	prefix   string                 // two letters
	keys     atomic.Pointer[[]*Key] // the sealing one first; what it points to never changes
	changing sync.Mutex             // one change at a time
}

// NewRing makes a ring of at least one key; the one with the number sealing
// seals, all of them open. prefix is two lower-case letters (decision N1).
func NewRing(prefix string, sealing int, keys ...*Key) (*Ring, error) {
	if len(prefix) != 2 || prefix[0] < 'a' || prefix[0] > 'z' || prefix[1] < 'a' || prefix[1] > 'z' {
		return nil, fmt.Errorf("token prefix %q is not two letters from a to z", prefix)
	}
	r := &Ring{prefix: prefix}
	if err := r.set(sealing, keys); err != nil {
		return nil, err
	}
	return r, nil
}

// set replaces the keys.
func (r *Ring) set(sealing int, keys []*Key) error {
	seen := map[int]bool{}
	var all []*Key
	for _, k := range keys {
		if k.Number < 1 || seen[k.Number] {
			return fmt.Errorf("key number %d is below 1 or given twice", k.Number)
		}
		seen[k.Number] = true
		if k.Number == sealing {
			all = append([]*Key{k}, all...)
		} else {
			all = append(all, k)
		}
	}
	if !seen[sealing] {
		return fmt.Errorf("there is no key with the number %d to seal with", sealing)
	}
	r.keys.Store(&all)
	return nil
}

// Add gives the ring keys that open and do not seal (decision T11).
func (r *Ring) Add(keys ...*Key) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	return r.set(r.Sealing(), append(slices.Clone(r.Keys()), keys...))
}

// Seal lets the key with the number seal from now on.
func (r *Ring) Seal(number int) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	return r.set(number, r.Keys())
}

// Drop takes a key out, unless it seals: what it sealed does not open any
// more.
func (r *Ring) Drop(number int) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	rest := slices.DeleteFunc(slices.Clone(r.Keys()), func(k *Key) bool { return k.Number == number })
	return r.set(r.Sealing(), rest)
}

// Sealing is the number of the key that seals now.
func (r *Ring) Sealing() int { return r.sealing().Number }

func (r *Ring) sealing() *Key { return r.Keys()[0] }

// Access seals an access token; expires is Unix seconds.
func (r *Ring) Access(h Handle, generation, expires int64) string {
	return r.seal(Access, h, generation, expires)
}

// Refresh seals the refresh token of a generation.
func (r *Ring) Refresh(h Handle, generation int64) string { return r.seal(Refresh, h, generation, 0) }

// Code seals an authorization code; issued is Unix seconds.
func (r *Ring) Code(h Handle, issued int64) string { return r.seal(Code, h, 0, issued) }

func (r *Ring) seal(kind Kind, h Handle, generation, time int64) string {
	if generation < 0 || generation > maxField || time < 0 || time > maxField {
		panic("token: number out of range")
	}
	d := r.sealing().desks.Get().(*desk)
	defer d.key.desks.Put(d)
	return d.seal(r.prefix, kind, h, generation, time)
}

// Read opens a token of one kind. It fails on every string that this ring's
// keys did not seal: one spelling per token, in constant time for the tag.
func (r *Ring) Read(kind Kind, s string) (Claim, bool) {
	if r.KindOf(s) != kind || len(s) != Len {
		return Claim{}, false
	}
	var raw [tagLen + bodyLen]byte
	if !decode(raw[:], s[4:]) {
		return Claim{}, false
	}
	for _, k := range r.Keys() {
		d := k.desks.Get().(*desk)
		c, ok := d.open(kind, &raw)
		k.desks.Put(d)
		if ok {
			return c, true
		}
	}
	return Claim{}, false
}

// ReadAny opens an access or a refresh token, for the revocation endpoint.
func (r *Ring) ReadAny(s string) (Claim, bool) {
	if c, ok := r.Read(Access, s); ok {
		return c, true
	}
	return r.Read(Refresh, s)
}

// KindOf gives the kind that a string has the prefix of, 0 is none: enough to name a wrong
// kind, not to believe it.
func (r *Ring) KindOf(s string) Kind {
	if len(s) < 4 || s[:2] != r.prefix || s[3] != '_' || Kind(s[2]).Name() == "" {
		return 0
	}
	return Kind(s[2])
}

func (d *desk) seal(prefix string, kind Kind, h Handle, generation, time int64) string {
	body := d.plain[1:]
	copy(body, h[:])
	putUint48(body[16:], uint64(generation))
	putUint48(body[22:], uint64(time))
	copy(d.sealed[:tagLen], d.tag(kind))
	d.crypt(d.sealed[tagLen:], body)

	out := append(d.text[:0], prefix...)
	out = append(out, byte(kind), '_')
	return string(encode(out, d.sealed[:]))
}

func (d *desk) open(kind Kind, sealed *[tagLen + bodyLen]byte) (Claim, bool) {
	d.sealed = *sealed
	body := d.plain[1:]
	d.crypt(body, d.sealed[tagLen:])
	if subtle.ConstantTimeCompare(d.tag(kind), d.sealed[:tagLen]) != 1 {
		return Claim{}, false
	}
	return Claim{
		Kind: kind, Handle: Handle(body[:16]), Key: d.key.Number,
		Generation: int64(uint48(body[16:])), Time: int64(uint48(body[22:])),
	}, true
}

// tag binds kind, handle and number: those on the desk in the clear.
func (d *desk) tag(kind Kind) []byte {
	d.plain[0] = byte(kind)
	d.mac.Reset()
	d.mac.Write(d.plain[:])
	return d.mac.Sum(d.sum[:0])[:tagLen]
}

// crypt is AES-CTR from the tag on the desk as the first counter block, the
// whole of it counting (NIST SP 800-38A section 6.5; as cipher.NewCTR, which
// allocates).
func (d *desk) crypt(dst, src []byte) {
	copy(d.pad[:], d.sealed[:tagLen])
	copy(d.pad[tagLen:], d.sealed[:tagLen])
	for i := len(d.pad) - 1; i >= tagLen; i-- {
		if d.pad[i]++; d.pad[i] != 0 {
			break
		}
	}
	d.key.block.Encrypt(d.pad[:tagLen], d.pad[:tagLen])
	d.key.block.Encrypt(d.pad[tagLen:], d.pad[tagLen:])
	subtle.XORBytes(dst, src, d.pad[:])
}

func putUint48(b []byte, v uint64) {
	binary.BigEndian.PutUint16(b, uint16(v>>32))
	binary.BigEndian.PutUint32(b[2:], uint32(v))
}

func uint48(b []byte) uint64 {
	return uint64(binary.BigEndian.Uint16(b))<<32 | uint64(binary.BigEndian.Uint32(b[2:]))
}
