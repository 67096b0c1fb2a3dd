package oauth

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestQuoted(t *testing.T) {
	for name, want := range map[string]string{
		"Svalinn":       `"Svalinn"`,
		"":              `""`,
		`a"b\c`:         `"a\"b\\c"`,
		"a\r\nb: c\x7f": `"a  b: c "`,
		"Åse & Co, x=y": `"Åse & Co, x=y"`,
		"\xff":          `" "`,
	} {
		if got := quoted(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// Whatever the service is called, its challenge is one header with one
// parameter, whose value is the name but for what no header can hold.
func FuzzChallenge(f *testing.F) {
	for _, s := range []string{"Svalinn", `"`, `\`, "\r\nSet-Cookie: a=b", `a", error="b`, "\xff\xfe", "Åse", "\t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, service string) {
		got := challenge(service)
		rest, ok := strings.CutPrefix(got, `Basic realm="`)
		if !ok || !utf8.ValidString(got) {
			t.Fatalf("%q", got)
		}
		var name []byte
		for {
			if rest == "" {
				t.Fatalf("%q does not end", got)
			}
			c := rest[0]
			rest = rest[1:]
			if c == '"' {
				break
			}
			if c == '\\' {
				c, rest = rest[0], rest[1:]
			}
			if c < 0x20 || c == 0x7F {
				t.Fatalf("%q holds %q", got, c)
			}
			name = append(name, c)
		}
		if rest != "" {
			t.Fatalf("%q goes on after its end", got)
		}
		clean := strings.Map(func(r rune) rune {
			if r < 0x20 || r == 0x7F || r == utf8.RuneError {
				return ' '
			}
			return r
		}, service)
		if string(name) != clean {
			t.Fatalf("reads back as %q, want %q", name, clean)
		}
	})
}
