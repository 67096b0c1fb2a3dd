package client

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// MaxName is the most code points that a client_name may have, counted as
// sent. spec section 8.
const MaxName = 100

// CheckName says why a name is refused, or nil. spec 2.1 allows no markup and
// no control characters; decision R3 names them. Joiners and variation
// selectors pass: emoji, Persian and Indic scripts need them.
//
// The error never holds a part of the name.
func CheckName(name string) error {
	if !utf8.ValidString(name) {
		return errors.New("it is not valid UTF-8")
	}
	if utf8.RuneCountInString(name) > MaxName {
		return fmt.Errorf("it has more than %d characters", MaxName)
	}
	for _, r := range name {
		if err := checkNameRune(r); err != nil {
			return err
		}
	}
	return nil
}

func checkNameRune(r rune) error {
	switch {
	case r == '<' || r == '>':
		return errors.New("markup is not allowed")
	case unicode.Is(unicode.Cc, r), r == '\u2028', r == '\u2029':
		return errors.New("control characters and line separators are not allowed")
	case unicode.Is(unicode.Bidi_Control, r):
		return errors.New("characters that change the direction of text are not allowed")
	case r == '\uFEFF':
		return errors.New("the byte order mark is not allowed")
	case r >= 0xE0000 && r <= 0xE007F:
		return errors.New("tag characters are not allowed")
	case unicode.Is(unicode.Co, r):
		return errors.New("private use characters are not allowed")
	case unicode.Is(unicode.Cn, r):
		return errors.New("unassigned characters are not allowed")
	}
	return nil
}

// reported is the name that a client has once it has passed CheckName. One
// that shows nothing to a person is none: the redirect host stands in then
// (decision R3).
func reported(name string) string {
	for _, r := range name {
		if visible(r) {
			return name
		}
	}
	return ""
}

// visible says whether a person sees something where this code point stands
// alone. Besides spaces and marks, joiners and fillers show nothing either,
// and a name of them would be as good as none.
func visible(r rune) bool {
	switch {
	case r == '\u2800': // braille pattern with no dot: a space by another name
		return false
	case unicode.In(r, unicode.Z, unicode.M, unicode.Other_Default_Ignorable_Code_Point):
		return false
	case unicode.Is(unicode.Cf, r):
		return unicode.Is(unicode.Prepended_Concatenation_Mark, r) // the Arabic number signs are seen
	}
	return true
}
