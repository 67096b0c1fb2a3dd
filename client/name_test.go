package client_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/client"
)

const (
	invalidUTF8 = "it is not valid UTF-8"
	longName    = "it has more than 100 characters"
	markup      = "markup is not allowed"
	controls    = "control characters and line separators are not allowed"
	direction   = "characters that change the direction of text are not allowed"
	byteOrder   = "the byte order mark is not allowed"
	tags        = "tag characters are not allowed"
	privateUse  = "private use characters are not allowed"
	unassigned  = "unassigned characters are not allowed"
)

func TestNameAccepted(t *testing.T) {
	for _, name := range []string{
		"", "Quill", "Quill & Söhne (2.0) \"beta\" 'x' / \\ %00", "O'Brien", "  padded  ", "аpple", "Svalinn Security",
		"نامه\u200Cای",                          // a zero-width non-joiner
		"क्\u200Dष",                             // a zero-width joiner
		"👩\u200D👩\u200D👧", "❤\uFE0F", "☎\uFE0E", // joiners and variation selectors
		"語\U000E0100", // an ideographic variation
		"日本語", "עברית", "العربية", "e\u0301",
		"a\u00ADb", "a\u2060b", "\uFFFD", // a soft hyphen, a word joiner, a replacement character that was sent as one
		strings.Repeat("W", 100), strings.Repeat("語", 100), strings.Repeat("😀", 100), strings.Repeat("e\u0301", 50),
	} {
		if err := client.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestNameRefused(t *testing.T) {
	for _, row := range []struct {
		want  string
		names []string
	}{
		{longName, []string{strings.Repeat("W", 101), strings.Repeat("語", 101), strings.Repeat(" ", 101), strings.Repeat("e\u0301", 51)}},
		{markup, []string{"<b>x</b>", "a < b", "a > b", `"><script>`, "<", ">"}},
		{controls, []string{"\x00", "a\x00b", "a\nb", "\t", "a\rb", "\x1b[31m", "\x7f", "\u0080", "\u0085", "\u009f", "a\u2028b", "a\u2029b"}},
		{direction, []string{
			"\u202Amoc", "\u202B", "\u202C", "\u202D", "elpmaxe\u202E", "\u2066", "\u2067", "\u2068", "\u2069", "a\u200Eb", "a\u200Fb", "a\u061Cb",
		}},
		{byteOrder, []string{"\uFEFF", "Quill\uFEFF"}},
		{tags, []string{"a\U000E0000", "a\U000E0001", "a\U000E0020", "🏴\U000E0067\U000E007F"}},
		{privateUse, []string{"\uE000", "\uF8FF", "\U000F0000", "\U0010FFFD"}},
		{unassigned, []string{"\u0378", "\uFFFE", "\uFFFF", "\uFDD0", "\U0001FFFE", "\U0010FFFF", "\U000E0080"}},
		{invalidUTF8, []string{"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80"}},
	} {
		for _, name := range row.names {
			err := client.CheckName(name)
			if err == nil || err.Error() != row.want {
				t.Errorf("%q: %v, want %s", name, err, row.want)
			}
		}
	}
}

// Every code point alone: refused exactly where decision R3 names it.
func TestNameEveryCodePoint(t *testing.T) {
	among := func(r rune, bounds ...rune) bool {
		for i := 0; i < len(bounds); i += 2 {
			if bounds[i] <= r && r <= bounds[i+1] {
				return true
			}
		}
		return false
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue // surrogates: not in any valid string
		}
		want := !among(r, 0, 0x1F, 0x7F, 0x9F, '<', '<', '>', '>', 0x61C, 0x61C, 0x200E, 0x200F, 0x2028, 0x202E, 0x2066, 0x2069, 0xFEFF, 0xFEFF, 0xE0000, 0xE007F,
			0xE000, 0xF8FF, 0xF0000, 0x10FFFF) && unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cf)
		if got := client.CheckName(string(r)) == nil; got != want {
			t.Fatalf("U+%04X: accepted is %v, want %v", r, got, want)
		}
	}
}

// Decision R3: a name that shows nothing counts as not sent.
func TestNameThatShowsNothing(t *testing.T) {
	for name, want := range map[string]string{
		"":                         "",
		" ":                        "",
		"   \u00A0\u2003\u3000":    "",
		"\u0301":                   "",
		" \u0301\u0308 ":           "",
		"\u200D\u200C":             "", // joiners
		"\uFE0F":                   "", // a variation selector
		"\u00AD\u2060":             "", // a soft hyphen, a word joiner
		"\u3164\u115F\u1160\uFFA0": "", // Hangul fillers
		"\u2800":                   "", // a braille blank
		" a ":                      " a ",
		"\u0301a":                  "\u0301a",
		".":                        ".",
		"😀":                        "😀",
		"\u0600":                   "\u0600", // the Arabic number sign is seen
	} {
		m, refusal := client.ParseMetadata(body(`"client_name":`+quote(name)), nil)
		if refusal != nil || m.Name != want {
			t.Errorf("%q became %q (%+v), want %q", name, m.Name, refusal, want)
		}
	}
}
