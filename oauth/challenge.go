package oauth

import (
	"strings"
	"unicode/utf8"
)

// challenge asks for the scheme that the client tried. RFC 6749 section 5.2
// wants a challenge in answer to an Authorization header, and Basic is the one
// scheme that it has for clients.
func challenge(service string) string { return "Basic realm=" + quoted(service) }

// quoted gives a quoted-string (RFC 9110 section 5.6.4) of any name.
func quoted(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range name {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7F || r == utf8.RuneError:
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
