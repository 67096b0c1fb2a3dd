package page

import (
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/grantset"
)

// Access is said by up to three roles, those that may change first, and never
// with a number of nothing.
func TestAccessInWords(t *testing.T) {
	some := func(personal bool, picks ...string) Access {
		a := Access{Kind: grantset.Roles, Personal: personal}
		for _, p := range picks {
			role, kind, _ := strings.Cut(p, " ")
			a.Roles = append(a.Roles, RolePick{Role: role, Access: kind})
		}
		return a
	}
	for _, c := range []struct {
		tongue string
		a      Access
		want   string
	}{
		{"en", some(false, "A read", "B change"), "Only selected roles: B (change), A (read)"},
		{"en", some(true, "A read", "Left "), "Only selected roles: A (read); personal entries included"},
		{"en", some(true, "Left "), "Only personal entries"},
		{"en", some(false, "Left "), "Only selected roles"},
		{"en", some(false, "A change", "B change", "C change"), "Only selected roles: A (change), B (change), C (change)"},
		{"en", some(false, "A read", "B read", "C read", "D read"), "Only selected roles: A (read), B (read), C (read) and 1 more"},
		{"en", some(false, "A read", "B read", "C read", "D change", "E change", "F read"), "Only selected roles: D (change), E (change), A (read) and 3 more"},
		{"de", some(false, "A read", "B read", "C change", "D read", "E read"), "Nur ausgewählte Rollen: C (ändern), A (lesen), B (lesen) und 2 weitere"},
		{"fr", some(false, "A read", "B read", "C read", "D read"), "Certains rôles seulement : A (lire), B (lire), C (lire) et 1 autre"},
		{"fr", some(false, "A read", "B read", "C read", "D read", "E read"), "Certains rôles seulement : A (lire), B (lire), C (lire) et 2 autres"},
		{"es", some(false, "A change"), "Solo los roles elegidos: A (modificar)"},
		{"nl", some(false, "A read", "B read", "C read", "D read"), "Alleen gekozen rollen: A (lezen), B (lezen), C (lezen) en nog 1"},
		{"ar", some(false, "A read", "B read", "C read", "D read", "E read"), "أدوار مختارة فقط: A (قراءة)، B (قراءة)، C (قراءة) ودوران آخران"},
		{"en", Access{Kind: grantset.Everything}, "Everything I can access"},
		{"en", Access{Kind: grantset.Organization}, "Everything in this organization"},
	} {
		c.a.words = speaking(c.tongue)
		got := strings.NewReplacer("\u00a0", " ", "\u202f", " ").Replace(c.a.Says().String())
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.tongue, got, c.want)
		}
	}
}
