package org

import (
	"strings"
	"unicode"
)

// Cell keeps a text that others wrote from being a formula where a spreadsheet opens a
// file of CSV: an apostrophe goes before what begins like one, behind any white space,
// and in its full width too, which some take for the same. A spreadsheet that parts cells
// at semicolons finds none that begins like one either.
func Cell(text string) string {
	all := strings.Split(text, ";")
	for i := range all {
		all[i] = cell(all[i])
	}
	return strings.Join(all, ";")
}

func cell(text string) string {
	begins := strings.TrimLeftFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
	if begins != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(begins)[0]) || text != "" && strings.ContainsRune("\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}
