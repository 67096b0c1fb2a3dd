package dpop

import (
	"net/url"
	"strings"
)

// names reports whether htu is the address of the request, without its query and
// fragment. Alike is what differs in the case of scheme and host, in the port that the
// scheme has by itself, or in letters that need no escape, and nothing else (RFC 9449
// section 4.3; RFC 3986 sections 6.2.2.1, 6.2.2.2 and 6.2.3).
func names(htu, uri string) bool {
	if htu == uri {
		return true
	}
	a, okA := normal(htu)
	b, okB := normal(uri)
	return okA && okB && a == b
}

// normal gives scheme, host with port, and path, each in one spelling.
func normal(text string) (parts [3]string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Opaque != "" {
		return parts, false
	}
	if strings.ContainsFunc(u.Host, func(r rune) bool { return r > 0x7e }) { // of which some lower to ASCII
		return parts, false
	}
	scheme, host := u.Scheme, strings.ToLower(u.Host) // Parse has lowered the scheme
	switch scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	default:
		return parts, false
	}
	// A slash that is escaped is none (RFC 3986 section 2.2), so paths with one have no
	// other spelling here.
	if strings.Count(u.EscapedPath(), "/") != strings.Count(u.Path, "/") {
		return parts, false
	}
	return [3]string{scheme, host, u.Path}, true
}
