package org

import (
	"strings"
	"testing"
)

// Emails that Unicode's rules for case, width or composition make one of
// somebody else's.
var lookAlikes = []string{
	"me\u0130@storhavn.example", "me\u0131@storhavn.example", "\u212aim@firm.example", "kim@f\u0130rm.example",
	"kim@firm.e\u017fample", "kim@firm.example\u200b", "kim@\uff46irm.example", "k\u0456m@firm.example", " kim@firm.example",
	"stra\u00dfe@x.example", "STRASSE@x.example", "e\u0301@x.example", "\u00e9@x.example", "\u00c9@x.example",
}

func TestEmailKey(t *testing.T) {
	for email, want := range map[string]string{
		"Kim@Firm.Example": "kim@firm.example", "kim@firm.example": "kim@firm.example", "": "",
		"AZaz[`{@x": "azaz[`{@x", "Zo\u00cb@X.Example": "zo\u00cb@x.example", "me\u0130@x": "me\u0130@x", "\u212aIM@x": "\u212aim@x",
	} {
		if got := EmailKey(email); got != want {
			t.Errorf("%q: %q, want %q", email, got, want)
		}
	}
	for _, one := range lookAlikes {
		for _, other := range append(lookAlikes, "mei@storhavn.example", "kim@firm.example", "strasse@x.example") {
			if one != other && EmailKey(one) == EmailKey(other) && strings.Contains(one+other, "\u0130") {
				t.Errorf("%q and %q are one", one, other)
			}
		}
	}
}

func TestVouchedEmail(t *testing.T) {
	for _, tt := range []struct {
		here, said string
		want       bool
	}{
		{"kim@firm.example", "Kim@FIRM.example", true},
		{"Kim@Firm.Example", "kim@firm.example", true},
		{"zo\u00eb@firm.example", "zo\u00eb@firm.example", true},
		{"zo\u00eb@firm.example", "Zo\u00eb@firm.example", false},
		{"zo\u00eb@firm.example", "zoe\u0308@firm.example", false},
		{"kim@firm.example", "kim@f\u0130rm.example", false},
		{"kim@firm.example", "\u212aim@firm.example", false},
		{"kim@firm.example\u0080", "Kim@firm.example\u0080", false},
		{"kim@firm.example", "", false},
	} {
		if got := VouchedEmail(tt.here, tt.said); got != tt.want {
			t.Errorf("%q said of %q: %t", tt.said, tt.here, got)
		}
	}
}

// Two emails have one key exactly when they are equal but for the case of ASCII
// letters, which this compares byte by byte.
func FuzzEmailKey(f *testing.F) {
	f.Add("Kim@Firm.example", "kim@firm.EXAMPLE")
	for _, one := range lookAlikes {
		f.Add(one, strings.ToLower(one))
		f.Add(strings.ToUpper(one), one)
	}
	f.Add("@x", "`x")
	f.Add("[x", "{x")
	f.Fuzz(func(t *testing.T, a, b string) {
		same := len(a) == len(b)
		for i := 0; same && i < len(a); i++ {
			letter := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZ", a[i]&^0x20) >= 0
			same = a[i] == b[i] || letter && a[i]^b[i] == 0x20
		}
		if got := EmailKey(a) == EmailKey(b); got != same {
			t.Errorf("%q and %q: one key %t, want %t", a, b, got, same)
		}
		if k := EmailKey(a); EmailKey(k) != k {
			t.Errorf("%q: its key has another key", a)
		}
		if VouchedEmail(a, b) && !same {
			t.Errorf("%q is vouched for as %q", a, b)
		}
	})
}
