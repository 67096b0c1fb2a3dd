package main

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/crypto/argon2"

	"github.com/grantkeeper/grantkeeper/identity"
)

// The hash is of the password that came, which is printed nowhere.
func TestOperatorHashPassword(t *testing.T) {
	hash := func(stdin string) (code int, out, err string) {
		var stdout, stderr bytes.Buffer
		code = runOn(strings.NewReader(stdin), []string{"operator", "hash-password"}, &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	const password = "twelve or more ø"
	code, out, said := hash(password + "\n")
	h, wrong := identity.ReadPasswordHash(strings.TrimSuffix(out, "\n"))
	if wrong != nil || !bytes.Equal(argon2.IDKey([]byte(password), h.Salt, h.Passes, h.Memory, h.Lanes, uint32(len(h.Key))), h.Key) {
		t.Errorf("%q is not of the password: %v", out, wrong)
	}
	if code != 0 || said != "" || strings.Contains(out, "twelve") {
		t.Errorf("code %d, %q, %q", code, out, said)
	}
	if _, again, _ := hash(password); again == out {
		t.Error("the same hash twice: the salt is not new")
	}
	for _, bad := range []string{"", "\n", "elevenchars", "two lines of\nit all", strings.Repeat("x", 1001)} {
		if code, out, said := hash(bad); code != 2 || out != "" || said == "" || bad != "" && strings.Contains(said, strings.TrimSpace(bad)) && len(bad) > 1 {
			t.Errorf("%.20q: code %d, %q, %q", bad, code, out, said)
		}
	}
}
