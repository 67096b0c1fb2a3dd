package terminal

import "testing"

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
