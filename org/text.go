package org

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of a directory's texts, in characters.
const (
	MaxName  = 200
	MaxEmail = 254
)

// CheckName says what is wrong with the name of a person, organization, circle
// or role: it is one line that shows something, on pages where others decide by
// it, and it turns no text around (ux 2.3). Names in all scripts pass, with the
// joiners, variation selectors and direction marks that they need, and emoji.
func CheckName(name string) error {
	if strings.TrimSpace(name) == "" {
		return errors.New("it is missing")
	}
	if err := CheckLine(name, MaxName); err != nil {
		return err
	}
	if strings.ContainsFunc(name, turns) {
		return errors.New("it has a character that turns the text around it")
	}
	if strings.ContainsRune(name, '\uFEFF') {
		return errors.New("it has a byte order mark")
	}
	if strings.ContainsFunc(flagTags.ReplaceAllString(name, ""), func(r rune) bool { return r >= 0xE0000 && r <= 0xE007F }) {
		return errors.New("it has tag characters")
	}
	if !strings.ContainsFunc(name, visible) {
		return errors.New("it shows nothing")
	}
	return nil
}

// turns is for embeddings, overrides and isolates: what follows them is shown
// in another order than it is written in, beyond the name too. The marks U+200E,
// U+200F and U+061C only say of themselves which way they are written, and names
// in Arabic and Hebrew have them.
func turns(r rune) bool { return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 }

// flagTags are the tags of the flag of a part of a country, such as Wales. Other
// tags are text that nobody sees.
var flagTags = regexp.MustCompile(`\x{1F3F4}[\x{E0030}-\x{E0039}\x{E0061}-\x{E007A}]{3,6}\x{E007F}`)

// visible says whether a person sees something where this code point stands
// alone: not of a space, mark, joiner, filler or blank.
func visible(r rune) bool {
	switch {
	case r == '\u2800': // braille pattern with no dot
		return false
	case unicode.In(r, unicode.Z, unicode.M, unicode.Other_Default_Ignorable_Code_Point):
		return false
	case unicode.Is(unicode.Cf, r):
		return unicode.Is(unicode.Prepended_Concatenation_Mark, r)
	}
	return true
}

// CheckEmail says what is wrong with an email address, as far as a directory
// has to know: the person signs in with it and mail goes there. Nothing in it is
// invisible, so that two that look alike are one.
func CheckEmail(email string) error {
	local, domain, ok := strings.Cut(email, "@")
	if !ok || local == "" || domain == "" || strings.Contains(domain, "@") || len(email) > MaxEmail ||
		strings.ContainsAny(email, " \t<>\"(),;:\\") || strings.ContainsFunc(email, unseen) || CheckLine(email, MaxEmail) != nil {
		return errors.New("it is not an email address")
	}
	return nil
}

// unseen is for what no address needs: what is not visible but for marks, which
// letters of some scripts have, and private or unassigned code points.
func unseen(r rune) bool {
	return !visible(r) && !unicode.Is(unicode.M, r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Cn, unicode.Variation_Selector)
}

// Storable reports whether a text is UTF-8 without NUL. PostgreSQL holds nothing else, and
// what is written together with another text fails as a whole; SQLite would hold it, until
// the installation moves. Where such a text comes from outside it is refused, or nobody's,
// at the door.
func Storable(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }

// Legible reports whether what people write to each other, such as a reason, is UTF-8
// without control characters; where it may have lines, they may end.
func Legible(s string, lines bool) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && !(lines && r == '\n') })
}

// CheckLine says why a text cannot be shown on one line of at most so many characters.
func CheckLine(s string, most int) error {
	if utf8.RuneCountInString(s) > most {
		return fmt.Errorf("it has more than %d characters", most)
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError {
			return errors.New("it has a control character")
		}
	}
	return nil
}
