package identity

import (
	"testing"
	"time"
)

// RFC 6238 appendix B, SHA-1: of its eight digits the last six.
func TestOneTimeCode(t *testing.T) {
	secret := []byte("12345678901234567890")
	for at, want := range map[int64]string{
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130",
	} {
		now := time.Unix(at, 0)
		if got := OneTimeCode(secret, at/30); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
		for away, good := range map[time.Duration]bool{0: true, OneTimeStep: true, -OneTimeStep: true, 2 * OneTimeStep: false, -2 * OneTimeStep: false} {
			if now.Add(away).Unix() < 0 {
				continue
			}
			step, ok := CheckOneTimeCode(secret, want, now.Add(away), 0)
			if ok != good || ok && step != at/30 {
				t.Errorf("at %d, read %v later: %d %v", at, away, step, ok)
			}
		}
		if _, ok := CheckOneTimeCode(secret, want, now, at/30); ok {
			t.Errorf("at %d: it counts twice", at)
		}
		for _, bad := range []string{"", want[1:], want + "0", "000000x", " " + want, "٢٨٧٠٨٢"} {
			if _, ok := CheckOneTimeCode(secret, bad, now, 0); ok {
				t.Errorf("at %d: %q counts", at, bad)
			}
		}
	}
}
