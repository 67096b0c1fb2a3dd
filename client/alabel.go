package client

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isALabel says whether what follows xn-- in a lower-case label can be the
// code of an internationalized one (RFC 5891 section 4.4): well-formed
// Punycode, of characters that such a label may hold.
//
// The tables of RFC 5892 and UTS #46 are not here, so a few labels pass that a
// browser refuses, such as one that is not normalized. A browser then goes
// nowhere; it never goes to another host, because it maps nothing inside an
// A-label.
func isALabel(coded string) bool {
	runes, ok := decodePunycode(coded)
	if !ok || runes[0] == '-' || runes[len(runes)-1] == '-' || unicode.Is(unicode.M, runes[0]) {
		return false // RFC 5891 sections 4.2.3.1, 4.2.3.2
	}
	foreign := false
	for _, r := range runes {
		if r < utf8.RuneSelf {
			continue // letters, digits and hyphens, checked with the label
		}
		foreign = true
		if !inULabel(r) {
			return false
		}
	}
	return foreign
}

func inULabel(r rune) bool {
	switch r {
	case '\u200C', '\u200D', // joiners
		'\u00B7', '\u05F3', '\u05F4', '\u30FB': // the punctuation of RFC 5892 appendix A
		return true
	}
	if unicode.ToLower(r) != r && !unicode.Is(unicode.Cherokee, r) { // whose capital letters are the ones that stand
		return false
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.S)
}

// The parameters of RFC 3492 section 5.
const (
	punyBase, punyMin, punyMax = 36, 1, 26
	punySkew, punyDamp         = 38, 700
	punyBias, punyFirst        = 72, 128
)

// decodePunycode is RFC 3492 section 6.2 for lower-case input. It gives at
// least one rune when ok.
func decodePunycode(coded string) (runes []rune, ok bool) {
	if i := strings.LastIndexByte(coded, '-'); i > 0 { // a delimiter after nothing is not one
		runes, coded = []rune(coded[:i]), coded[i+1:]
	}
	r, at, bias := int64(punyFirst), int64(0), int64(punyBias)
	for first := true; coded != ""; first = false {
		delta, rest, ok := punyDelta(coded, bias)
		if !ok {
			return nil, false
		}
		count := int64(len(runes)) + 1
		bias = punyAdapt(delta, count, first)
		coded, at = rest, at+delta
		r, at = r+at/count, at%count
		if r > unicode.MaxRune {
			return nil, false
		}
		runes = slices.Insert(runes, int(at), rune(r))
		at++
	}
	return runes, len(runes) > 0
}

// punyDelta reads one number of variable length.
func punyDelta(coded string, bias int64) (delta int64, rest string, ok bool) {
	weight := int64(1)
	for k := int64(punyBase); coded != ""; k += punyBase {
		digit := punycodeDigit(coded[0])
		if digit < 0 || weight > 1<<31 {
			return 0, "", false // RFC 3492 section 6.4: no overflow
		}
		coded = coded[1:]
		delta += digit * weight
		t := min(max(k-bias, punyMin), punyMax)
		if digit < t {
			return delta, coded, true
		}
		weight *= punyBase - t
	}
	return 0, "", false
}

// punyAdapt is RFC 3492 section 6.1.
func punyAdapt(delta, count int64, first bool) (bias int64) {
	if first {
		delta /= punyDamp
	} else {
		delta /= 2
	}
	k := int64(0)
	for delta += delta / count; delta > (punyBase-punyMin)*punyMax/2; k += punyBase {
		delta /= punyBase - punyMin
	}
	return k + (punyBase-punyMin+1)*delta/(delta+punySkew)
}

func punycodeDigit(c byte) int64 {
	switch {
	case 'a' <= c && c <= 'z':
		return int64(c - 'a')
	case '0' <= c && c <= '9':
		return int64(c-'0') + 26
	}
	return -1
}
