package token

import (
	"strings"
	"testing"
	"time"
)

// A nonce says when it was given, on every node that has its key, and nobody else can
// make one.
func TestNonces(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	first, second := NewKey(1, [32]byte{1}), NewKey(2, [32]byte{2})
	ring := func(sealing int, keys ...*Key) *Ring {
		r, err := NewRing("sv", sealing, keys...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	one := ring(1, first)
	nonce := one.Nonce(at)
	for name, r := range map[string]*Ring{"itself": one, "another node": ring(1, NewKey(1, [32]byte{1})), "after a rotation": ring(2, first, second)} {
		if got, ok := r.ReadNonce(nonce); !ok || !got.Equal(at) {
			t.Errorf("%s: %v, %t", name, got, ok)
		}
	}
	if _, ok := ring(2, second).ReadNonce(nonce); ok {
		t.Error("a nonce of a key that was retired is taken")
	}
	if len(nonce) != 32 || one.Nonce(at.Add(time.Second)) == nonce || strings.Trim(nonce, base64Alphabet) != "" {
		t.Errorf("nonce %q", nonce)
	}
	for _, not := range []string{"", nonce[:len(nonce)-1], nonce + "A", nonce + "AAAA", nonce[1:], nonce[:10] + "\r\n" + nonce[12:], "\n" + nonce[1:], one.Tag("dpop nonce", []byte("12345678"))} {
		if _, ok := one.ReadNonce(not); ok {
			t.Errorf("%q is taken", not)
		}
	}
	for i := range nonce {
		b := []byte(nonce)
		if b[i] = 'A'; b[i] == nonce[i] {
			b[i] = 'B'
		}
		if _, ok := one.ReadNonce(string(b)); ok {
			t.Errorf("with another character at %d it is taken", i)
		}
	}
}

// base64Alphabet has what RFC 9449 section 8.1 allows in a nonce, and more.
const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
