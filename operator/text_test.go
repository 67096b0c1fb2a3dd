package operator

import "testing"

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Number(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for n, want := range map[int]string{0: "0 roles", 1: "1 role", 1200: "1,200 roles"} {
		if got := Count(n, "1 role", "%s roles"); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
