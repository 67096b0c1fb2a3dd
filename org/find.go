package org

import (
	"strings"
	"unicode"
)

// Finds reports whether a text has another in it, in any case of any script. It
// is for lists that people look through: it decides nothing, and the database is
// not asked, whose engines lower letters differently.
func Finds(text, find string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(find))
}

// Find ranks a person among those that a search finds, 0 first: by the beginning
// of the name, of a word in it, or of the email, then by the middle of the name,
// then by the rest of the email, whose domain everybody of a firm has. It is
// negative for whom the search does not find.
func (p Person) Find(find string) int {
	find = strings.ToLower(find)
	name, email := strings.ToLower(p.Name), strings.ToLower(p.Email)
	switch {
	case strings.HasPrefix(name, find):
		return 0
	case beginsWord(name, find):
		return 1
	case strings.HasPrefix(email, find):
		return 2
	case strings.Contains(name, find):
		return 3
	case strings.Contains(email, find):
		return 4
	}
	return -1
}

func beginsWord(text, find string) bool {
	letter := true // before the text
	for i, r := range text {
		now := unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
		if now && !letter && strings.HasPrefix(text[i:], find) {
			return true
		}
		letter = now
	}
	return false
}
