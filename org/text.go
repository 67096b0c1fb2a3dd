package org

import (
	"errors"
	"fmt"
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
// or role: it is one line that is not empty.
func CheckName(name string) error {
	if strings.TrimSpace(name) == "" {
		return errors.New("it is missing")
	}
	return checkLine(name, MaxName)
}

// CheckEmail says what is wrong with an email address, as far as a directory
// has to know: the person signs in with it and mail goes there.
func CheckEmail(email string) error {
	local, domain, ok := strings.Cut(email, "@")
	if !ok || local == "" || domain == "" || strings.Contains(domain, "@") || len(email) > MaxEmail ||
		strings.ContainsAny(email, " \t<>\"(),;:\\") || checkLine(email, MaxEmail) != nil {
		return errors.New("it is not an email address")
	}
	return nil
}

// checkLine refuses what cannot be shown on one line.
func checkLine(s string, most int) error {
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
