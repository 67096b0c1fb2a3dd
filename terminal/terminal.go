// Package terminal writes what commands say to people: counts, sizes, times, and the
// names that others gave.
package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Printable keeps what others wrote on its line of a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// Plural counts something whose plural ends in s.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// UTC writes a time in Unix seconds.
func UTC(seconds int64) string { return time.Unix(seconds, 0).UTC().Format("2006-01-02 15:04:05 UTC") }

// Size writes bytes for people.
func Size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GB", n>>30)
	case n >= 1<<20:
		return fmt.Sprintf("%d MB", (n+1<<19)>>20)
	}
	return fmt.Sprintf("%d kB", (n+1023)>>10)
}

// Numbers writes them with commas.
func Numbers(of []int) string {
	var all []string
	for _, n := range of {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, ", ")
}

// Several are a few of the names, and how many more there are.
func Several(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
}

// CutTo leaves so many characters of a text, the last of which says that there are more.
func CutTo(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:most-1]), " ") + "…"
}

// MostShown bounds how much of a name is shown, in characters.
const MostShown = 100

// ShownName is a name that somebody else gave. One that is not plain is quoted, and
// what is not ASCII in it is escaped: two that look alike do not.
func ShownName(name string) string {
	shown := strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/*{}") == ""
	if name = CutTo(name, MostShown); shown && name != "" {
		return name
	}
	return strconv.QuoteToASCII(name)
}
