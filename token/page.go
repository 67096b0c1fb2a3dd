package token

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
)

// SealPage encrypts state that a page carries, for one purpose: what is sealed
// for one cannot be opened for another. The text is fit for URLs and forms.
func (r *Ring) SealPage(purpose string, plain []byte) string {
	k := r.sealing()
	aead := k.aead(purpose)
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	rand.Read(nonce)
	return strconv.Itoa(k.Number) + "." + base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, plain, nil))
}

// OpenPage gives what SealPage sealed for the purpose, and the number of the
// key that it was sealed with.
func (r *Ring) OpenPage(purpose, sealed string) (plain []byte, key int, ok bool) {
	number, text, ok := strings.Cut(sealed, ".")
	if !ok || strings.ContainsAny(text, "\r\n") { // which base64 would skip
		return nil, 0, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, 0, false
	}
	for _, k := range r.Keys() {
		if strconv.Itoa(k.Number) != number {
			continue
		}
		aead := k.aead(purpose)
		if len(raw) < aead.NonceSize() {
			return nil, 0, false
		}
		plain, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], nil)
		if err != nil {
			return nil, 0, false
		}
		return plain, k.Number, true
	}
	return nil, 0, false
}

func (k *Key) aead(purpose string) cipher.AEAD {
	block, err := aes.NewCipher(k.derive("page " + purpose))
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has the right block size
	}
	return aead
}

// Handle derives the handle of the approval that a page's nonce leads to, so
// that the same page answered twice is the same approval (decision A12).
// attempt counts from 0 and grows when the approval before it has ended
// without having been exchanged. key is the page's own; ok is false when the
// ring no longer has it.
func (r *Ring) Handle(key int, nonce [16]byte, attempt uint32) (h Handle, ok bool) {
	for _, k := range r.Keys() {
		if k.Number == key {
			m := hmac.New(sha256.New, k.derive("handle"))
			m.Write(binary.BigEndian.AppendUint32(nonce[:], attempt))
			return Handle(m.Sum(nil)[:16]), true
		}
	}
	return Handle{}, false
}

// FormToken binds a form to a session, or before sign-in to the browser
// (decision A11). secret is the cookie's value. Each call gives another text.
func (r *Ring) FormToken(secret string) string {
	k := r.sealing()
	return strconv.Itoa(k.Number) + "." + Mask(k.formToken(secret))
}

// CheckFormToken reports, in constant time, whether FormToken gave this token
// for the secret.
func (r *Ring) CheckFormToken(secret, presented string) bool {
	number, text, ok := strings.Cut(presented, ".")
	for _, k := range r.Keys() {
		if ok && strconv.Itoa(k.Number) == number {
			return Masks(k.formToken(secret), text)
		}
	}
	return false
}

func (k *Key) formToken(secret string) []byte {
	m := hmac.New(sha256.New, k.derive("form"))
	m.Write([]byte(secret))
	return m.Sum(nil)[:18]
}

// Tag binds data, for one purpose, in 22 letters, digits, hyphens and underscores
// that are fit for headers. The same data gives the same tag as long as one key
// seals.
func (r *Ring) Tag(purpose string, data []byte) string { return r.sealing().bind(purpose, data) }

// Tagged reports, in constant time, whether Tag gave this tag for the data, under
// any key of the ring: what was bound under an earlier one is good until that is
// dropped.
func (r *Ring) Tagged(purpose string, data []byte, tag string) bool {
	ok := false
	for _, k := range r.Keys() {
		ok = hmac.Equal([]byte(k.bind(purpose, data)), []byte(tag)) || ok
	}
	return ok
}

func (k *Key) bind(purpose string, data []byte) string {
	m := hmac.New(sha256.New, k.derive("tag "+purpose))
	m.Write(data)
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:16])
}

// Mask writes a tag that stays the same as a text that never does: a random
// pad, then the tag under it. The length of compressed pages would give away a
// text that they repeat, one character after the other. The text is fit for
// URLs and forms.
func Mask(tag []byte) string {
	n := len(tag)
	text := make([]byte, 2*n)
	rand.Read(text[:n])
	subtle.XORBytes(text[n:], tag, text[:n])
	return base64.RawURLEncoding.EncodeToString(text)
}

// Masks reports, in constant time, whether Mask gave this text for the tag.
func Masks(tag []byte, text string) bool {
	n := len(tag)
	if len(text) != base64.RawURLEncoding.EncodedLen(2*n) {
		return false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != 2*n { // shorter where line ends were skipped
		return false
	}
	subtle.XORBytes(raw[n:], raw[n:], raw[:n])
	return hmac.Equal(tag, raw[n:])
}

// Fingerprint is a check value of a key, safe to store: a database with
// another one belongs to another key (decision T11).
func (k *Key) Fingerprint() string {
	return base64.RawURLEncoding.EncodeToString(k.derive("fingerprint")[:12])
}

// Keys lists the ring's keys, the sealing one first. The list is not to be
// changed.
func (r *Ring) Keys() []*Key { return *r.keys.Load() }
