package page

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.mau.fi/util/confusable"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/grantkeeper/grantkeeper/client"
)

// assuring are words by which a name claims to speak for the service (ux 2.3),
// and the same in the other languages of the pages: a name need not be English
// to deceive.
var assuring = []string{
	"official", "verified", "trusted", "security", "support",
	"offiziell", "verifiziert", "vertrauenswürdig", "sicherheit",
	"officiel", "vérifié", "de confiance", "sécurité",
	"oficial", "verificad", "de confianza", "seguridad", "soporte",
	"officieel", "geverifieerd", "vertrouwd", "beveiliging", "ondersteuning",
	"رسمي", "موثوق", "الأمان", "الدعم",
}

// LooksOurs reports whether a client's name could be taken for the service's
// own (ux 2.3, warning W2): of the service, of a client that the service set
// up, or of somebody who assures. Such a name is warned of and not refused.
func LooksOurs(c client.Client, at Host, service string, known []client.Client) bool {
	if c.Preregistered || c.Name == "" {
		return false
	}
	if likens(c.Name, service) || slices.ContainsFunc(assuring, func(word string) bool { return likens(c.Name, word) }) {
		return true
	}
	return slices.ContainsFunc(known, func(k client.Client) bool {
		theirs := slices.ContainsFunc(k.RedirectURIs, func(uri string) bool { return HostOf(uri) == at })
		return !theirs && likens(c.Name, k.Name)
	})
}

// likens reports whether a name has another name in it, to the eye. Capital
// letters are confused as they are and as small ones: "I" looks like "l", and
// "i" does not. A name of one or two letters is in too many others to count.
func likens(name, other string) bool {
	for _, fold := range []func(string) string{
		foldFirst, foldLast,
		func(s string) string { return foldFirst(undrawn(s)) }, func(s string) string { return foldLast(undrawn(s)) },
	} {
		want := fold(other)
		switch got := fold(name); {
		case want == "":
		case utf8.RuneCountInString(want) < 3 && got == want, utf8.RuneCountInString(want) >= 3 && strings.Contains(got, want):
			return true
		}
	}
	return false
}

func foldFirst(s string) string { return bare(confusable.Skeleton(lower(norm.NFKC.String(s)))) }

func foldLast(s string) string { return bare(confusable.Skeleton(norm.NFKC.String(s))) }

// smallCapitals are letters of phonetic alphabets that look like capitals, in the order
// of these.
var smallCapitals = []rune("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡxʏᴢ")

// undrawn gives the letters for those that compatibility leaves as they are: small capitals,
// and those of black discs, black squares and flags, which are symbols to it. A symbol
// among letters may be none of them, so that names are looked at without this too.
func undrawn(s string) string {
	return strings.Map(func(r rune) rune {
		if i := slices.Index(smallCapitals, r); i >= 0 {
			return 'a' + rune(i)
		}
		for _, first := range []rune{'\U0001F150', '\U0001F170', '\U0001F1E6'} {
			if r >= first && r < first+26 {
				return 'A' + r - first
			}
		}
		return r
	}, s)
}

// lower folds case as Unicode does (section 3.13), whatever the language.
func lower(s string) string { return cases.Fold().String(s) }

// bare leaves letters and digits.
func bare(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, lower(s))
}
