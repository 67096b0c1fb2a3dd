package org

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestCheckNameAndEmail(t *testing.T) {
	for name, ok := range map[string]bool{
		"Ada": true, "Ada Åsen 氏": true, strings.Repeat("é", 200): true, "R&D <new>": true, "Nordlys \uF8FF": true,
		"": false, " \t": false, strings.Repeat("é", 201): false, "a\nb": false, "a\u2028b": false, "a\u2029b": false, "a\x00": false, "a\xff": false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for email, ok := range map[string]bool{
		"ada@nordlys.example": true, "Å.b+c@x": true, "दीपक@उदाहरण.example": true, strings.Repeat("a", 252) + "@b": true,
		"": false, "ada": false, "@x": false, "a@": false, "a@b@c": false, "a b@c": false, "<a@b>": false, "a@b,c@d": false,
		"a\n@b": false, strings.Repeat("a", 253) + "@b": false, "a\xff@b": false,
		"a\u200Bb@c": false, "a\u00A0b@c": false, "a\u202Eb@c": false, "a\u200Fb@c": false, "a\u00ADb@c": false, "a\uFE0Fb@c": false, "a\u3164@c": false,
		"a\U000E0061@c": false, "a\uFEFF@c": false, "a\uE000@c": false, "a@b\u2060c": false,
	} {
		if err := CheckEmail(email); (err == nil) != ok {
			t.Errorf("email %q: %v", email, err)
		}
	}
}

func TestStorable(t *testing.T) {
	for s, want := range map[string]bool{
		"": true, "a": true, "a\n\x01\x7f": true, "é神\uFFFD\U0010FFFF": true, "\u2400": true,
		"\x00": false, "a\x00b": false, "\xff": false, "a\xc3": false, "\xc0\x80": false, "\xed\xa0\x80": false,
	} {
		if Storable(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}

func TestLegible(t *testing.T) {
	for s, want := range map[string][2]bool{ // in one line, and in several
		"": {true, true}, "é 神\u2028": {true, true}, "a\nb\n": {false, true},
		"a\r\nb": {false, false}, "a\tb": {false, false}, "\x00": {false, false}, "\x7f": {false, false}, "\u0085": {false, false}, "\xff": {false, false},
	} {
		if got := [2]bool{Legible(s, false), Legible(s, true)}; got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}

// Legitimate names of every kind pass: joiners, variation selectors, direction
// marks, and the flags that are written with tags.
func TestNamesOfAllScripts(t *testing.T) {
	for _, name := range []string{
		"مجلس الإدارة", "נורדליס בע״מ", "دایره\u200Cها", "क्\u200Dष समिति", "ශ්\u200Dරී ලංකා", "东亚 組織", "ทีมขาย", "한국 팀", "Đội \u0323", "e\u0301quipe",
		"נורדליס (2020)\u200F", "\u200Eacme\u200E \u061Cعمل", // direction marks, as other programs write them
		"👩\u200D👩\u200D👧 Families", "❤\uFE0F Care", "☎\uFE0E", "#\uFE0F\u20E3", "🇳🇴 Norge", "👍🏽", "語\U000E0100",
		"🏴\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F England", "🏴\U000E0067\U000E0062\U000E0077\U000E006C\U000E0073\U000E007F", "🏴 Pirates",
		"Co\u00ADoperative", "a\u2060b", "\u0600 12",
	} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// What could make a page say another thing than it means is refused, and says
// what it is.
func TestNamesThatDeceive(t *testing.T) {
	const missing, around, tags, mark, nothing = "it is missing", "it has a character that turns the text around it", "it has tag characters", "it has a byte order mark", "it shows nothing"
	for name, want := range map[string]string{
		"": missing, " \t": missing, "elpmaxe\u202E": around, "\u202Amoc": around, "\u202Ba": around, "a\u202C": around, "\u202Da": around,
		"\u2066a": around, "\u2067a": around, "\u2068a\u2069": around, "a\u2069": around,
		"a\U000E0061": tags, "Treasurer\U000E0001\U000E0061": tags, "🏴\U000E007F": tags, "🏴\U000E0067\U000E0062": tags, "\U000E0020a": tags,
		"🏴\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F\U000E0061": tags, "🏴" + strings.Repeat("\U000E0061", 7) + "\U000E007F": tags,
		"👍\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F": tags,
		"\uFEFFNordlys": mark, "Nord\uFEFFlys": mark,
		"\u200B": nothing, "\u200F": nothing, "\u3164": nothing, "\u2800 ": nothing, "\u0301": nothing, "\u200D\uFE0F": nothing, "\u00AD": nothing,
	} {
		if err := CheckName(name); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

// Every code point, between two letters: a name may have all but those that are
// refused here, and these only.
func TestNameEveryCodePoint(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		refused := unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 ||
			r == 0xFEFF || r == utf8.RuneError || r >= 0xE0000 && r <= 0xE007F
		if got := CheckName("a"+string(r)+"b") != nil; got != refused {
			t.Fatalf("U+%04X: refused is %v, want %v", r, got, refused)
		}
	}
}
