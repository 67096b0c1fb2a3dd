package terminal

import (
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Printable("a\nb\x1b[31mc\u202e"), "a b [31mc "}, {Printable("Grüße, 日本"), "Grüße, 日本"},
		{Plural(0, "key"), "0 keys"}, {Plural(1, "key"), "1 key"}, {Plural(2, "key"), "2 keys"},
		{Size(0), "0 kB"}, {Size(1), "1 kB"}, {Size(1<<20 - 1), "1024 kB"}, {Size(1 << 20), "1 MB"}, {Size(3 << 19), "2 MB"}, {Size(10<<30 - 1), "10240 MB"}, {Size(10 << 30), "10 GB"},
		{UTC(1_800_000_000), "2027-01-15 08:00:00 UTC"},
		{Numbers(nil), ""}, {Numbers([]int{1, 20}), "1, 20"},
		{Several([]string{"a", "b", "c", "d", "e"}), "a, b, c, d, e"}, {Several([]string{"a", "b", "c", "d", "e", "f", "g"}), "a, b, c, d, e and 2 more"},
		{CutTo("abc", 3), "abc"}, {CutTo("äöüß", 3), "äö…"}, {CutTo("a  cd", 4), "a…"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

// Of a token or verifier as much is shown as tells it from another one, wherever it stands.
func TestSecretsAreShort(t *testing.T) {
	for text, want := range map[string]string{
		"gko_12345678":               "gko_12345678", // too short to be one
		"gko_123456789":              "gko_12…789",
		"gkr_abcdefghijk and others": "gkr_ab…ijk and others",
		"gkx_abcdefghijk":            "gkx_abcdefghijk",
		"state=1&code_verifier=abcdefghijklmnop&code=gkc_ABCDEFGHIJKLMNOP": "state=1&code_verifier=abcdef…nop&code=gkc_AB…NOP",
		"code_verifier=abcdefghijkl":                                       "code_verifier=abcdefghijkl",
	} {
		if got := ShortenSecrets(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A name that could be taken for another one, or for words around it, is quoted.
func TestShownName(t *testing.T) {
	for name, want := range map[string]string{
		"list_users": "list_users", "files/*.{a}-Z9": "files/*.{a}-Z9", "": `""`, "two words": `"two words"`, "p\u0430y": `"p\u0430y"`,
		strings.Repeat("a", 100): strings.Repeat("a", 100), strings.Repeat("a", 101): strings.Repeat("a", 99) + "…",
		strings.Repeat("a", 200) + " ": `"` + strings.Repeat("a", 99) + `\u2026"`,
	} {
		if got := ShownName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
