package org

import "strings"

// EmailKey is what an email is stored, looked up and counted under. It lowers
// A-Z and changes nothing else: Unicode's own rules make an ASCII letter of
// U+0130 and of U+212A, so that the email of another domain would be found as
// somebody's here. Two emails have the same key exactly when they are equal but
// for the case of ASCII letters.
func EmailKey(email string) string { return LowerASCII(email) }

// VouchedEmail reports whether the email that another server vouches for is the
// one of a person here: equal but for the case of A-Z, and byte for byte where
// it has anything beyond ASCII.
func VouchedEmail(here, said string) bool {
	return here == said || isASCII(said) && EmailKey(here) == EmailKey(said)
}

// LowerASCII lowers A-Z and leaves every other byte as it is.
func LowerASCII(s string) string {
	for i := range len(s) {
		if upper(s[i]) {
			b := []byte(s)
			for ; i < len(b); i++ {
				if upper(b[i]) {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

func upper(c byte) bool { return 'A' <= c && c <= 'Z' }

func isASCII(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) }
