package identity

import (
	"strings"
	"testing"
)

func TestReadPasswordCosts(t *testing.T) {
	for text, want := range map[string]PasswordCosts{
		"$argon2id$v=19$m=19456,t=2,p=1$":         {19456, 2, 1},
		"$argon2id$v=19$m=65536,t=10,p=4$c2E$a2V": {65536, 10, 4},
		"$argon2id$v=19$m=8,t=1,p=1$":             {8, 1, 1},
	} {
		if got, err := ReadPasswordCosts(text); got != want || err != nil {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "$", "plain", "$argon2i$v=19$m=19456,t=2,p=1$", "$argon2id$v=16$m=19456,t=2,p=1$", "$argon2id$m=19456,t=2,p=1$", "$argon2id$v=19$m=19456,t=2,p=1",
		" $argon2id$v=19$m=19456,t=2,p=1$", "$argon2id$v=19$m=+9456,t=2,p=1$", "$argon2id$v=19$m=09456,t=2,p=1$", "$argon2id$v=19$m=19456,t=2,p=1,x=1$",
		"$argon2id$v=19$m=65537,t=2,p=1$", "$argon2id$v=19$m=7,t=2,p=1$", "$argon2id$v=19$m=19456,t=11,p=1$", "$argon2id$v=19$m=19456,t=0,p=1$",
		"$argon2id$v=19$m=19456,t=2,p=5$", "$argon2id$v=19$m=19456,t=2,p=0$", "$argon2id$v=19$m=4294967296,t=2,p=1$",
	} {
		if got, err := ReadPasswordCosts(text); err == nil || got != (PasswordCosts{}) {
			t.Errorf("%q is read: %v", text, got)
		}
	}
}

// The bounds themselves are inside.
func TestCheckImported(t *testing.T) {
	for c, want := range map[PasswordCosts]string{
		{19456, 2, 1}: "", {47104, 1, 1}: "", {12288, 3, 1}: "", {9216, 4, 1}: "", {7168, 5, 1}: "", {65536, 4, 4}: "", {35840, 1, 1}: "",
		{7167, 10, 1}: "too weak", {35839, 1, 1}: "too weak", {8, 1, 1}: "too weak", {65536, 5, 1}: "too high", {32768, 9, 1}: "too high", {52429, 5, 1}: "too high",
	} {
		err := c.CheckImported()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", c, err, want)
		}
		if c.Weak() != (want == "too weak") {
			t.Errorf("%v: weak %v", c, c.Weak())
		}
	}
}

// The error tells nothing of the hash.
func TestReadPasswordHash(t *testing.T) {
	const costs = "$argon2id$v=19$m=256,t=2,p=1$"
	const salt, key = "c29tZXNhbHQ", "nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	h, err := ReadPasswordHash(costs + salt + "$" + key)
	if err != nil || string(h.Salt) != "somesalt" || len(h.Key) != 32 || h.PasswordCosts != (PasswordCosts{256, 2, 1}) {
		t.Errorf("%+v %v", h, err)
	}
	for n, want := range map[int]bool{20: false, 22: true, 86: true, 87: false} { // 15, 16, 64 and 65 bytes
		if h, err := ReadPasswordHash(costs + salt + "$" + strings.Repeat("A", n)); (err == nil) != want {
			t.Errorf("a hash of %d bytes: %v", len(h.Key), err)
		}
	}
	long := strings.Repeat("A", 88)
	for _, text := range []string{
		"", strings.Replace(costs, "2id", "2i", 1) + salt + "$" + key, costs, costs + salt, costs + salt + "$", costs + salt + "$" + key + "$", costs + salt + "$" + key + "=", costs + "c2FsdA$" + key, costs + "!$" + key,
		costs + salt + "$" + key[:20], costs + salt + "$" + long, costs + salt + "$" + key[:42] + "5", "$2y$10$abc",
	} {
		h, err := ReadPasswordHash(text)
		if err == nil || h.Salt != nil || h.Key != nil {
			t.Errorf("%q is read", text)
		} else if strings.Contains(err.Error(), "c29t") || strings.Contains(err.Error(), "nf65") {
			t.Errorf("%q: the error tells: %v", text, err)
		}
	}
}
