package client

import (
	"strings"
	"testing"
)

// RFC 3492 section 7.1 has most of these; the last ones stand at the bounds.
func TestPunycode(t *testing.T) {
	for coded, want := range map[string]string{
		"egbpdaj6bu4bxfgehfvwxn":           "ليهمابتكلموشعربي؟",
		"ihqwcrb4cv8a8dqg056pqjye":         "他们为什么不说中文",
		"b1abfaaepdrnnbgefbadotcwatmq2g4l": "почемужеонинеговорятпорусски",
		"3b-ww4c5e180e575a65lsy2b":         "3年b組金八先生",
		"maji-koi5-783h4e2r8737a1v9e":      "maji-でkoiする5秒前",
		"de-jg4avhby1noc0d":                "パフィーdeルンバ",
		"d9juau41awczczp":                  "そのスピードで",
		"andandandand-8gbddd8leee":         "ñandúñandúñandúñandú",
		"abc-qh33bbab":                     "😀a😀b😀c",
		"zrich-genve-69a5w":                "zürich-genève",
		"a-b-joa":                          "a-bü",
		"tda":                              "ü",
		"a":                                "\u0080",
		"2n7c":                             "\U00010000",
		"dn32g":                            "\U0010FFFF",
		"a-h023p":                          "a\U0010FFFF",
		"abc-":                             "abc",
		"lda63d5b":                         "ôȫɁ",   // one a little more, which is
		"vptzt":                            "嶍年",    // a first delta that another damp would read otherwise
		"ab-tia24ef9h":                     "abãƙя", // a delta of exactly 455, which is not divided
	} {
		if got, ok := decodePunycode(coded); !ok || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", coded, string(got), ok, want)
		}
	}
}

func TestPunycodeRefused(t *testing.T) {
	for _, coded := range []string{
		"", "-", "-tda", "A", "TDA", "t!a", "abc-é", "b", "zz", "bcher-kv", "0",
		"en32g", // U+110000
		"99999999999999999999a",
	} {
		if got, ok := decodePunycode(coded); ok {
			t.Errorf("%q: %q", coded, string(got))
		}
	}
	for n := range 60 { // whatever the length, nothing overflows
		for _, digit := range []string{"9", "z", "s", "1"} {
			for _, end := range []string{"", "a", "b"} {
				if got, ok := decodePunycode(strings.Repeat(digit, n) + end); ok && n > 8 && digit == "9" {
					t.Errorf("%d of %s and %q: %q", n, digit, end, string(got))
				}
			}
		}
	}
}

// A label of ASCII alone is written without xn--. RFC 5890 section 2.3.2.1.
func TestALabelOfASCII(t *testing.T) {
	if isALabel("abc-") {
		t.Fatal("abc- is the code of nothing foreign")
	}
}
