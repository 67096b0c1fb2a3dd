package accounts

import "testing"

// Costs are what a PHC string of argon2id begins with, and no other hash has some.
func TestCostsOf(t *testing.T) {
	const costs = "$argon2id$v=19$m=65536,t=3,p=4$"
	if got := costsOf(costs + "c2FsdA$aGFzaA"); got != costs {
		t.Errorf("%q", got)
	}
	for _, s := range []string{"", "plain", "$2a$10$abcdefghijklmnopqrstuv", "$argon2id$x", costs + "c2FsdA$aGFzaA$"} {
		if got := costsOf(s); got != "" {
			t.Errorf("costs of %q: %q", s, got)
		}
	}
}
