package client

import (
	"strings"
	"unicode"
)

// ServedAt reports whether a resource (RFC 8707 section 2) is this server at
// {base}, its API, the MCP endpoint or something below the API. decision A7.
// It narrows nothing, so a broad reading costs nothing.
func ServedAt(base, resource string) bool {
	api := base + "/api/v5"
	r := strings.TrimSuffix(normalOrigin(resource), "/")
	if strings.ContainsRune(r, '#') { // RFC 8707 section 2
		return false
	}
	return r == base || r == api || strings.HasPrefix(r, api+"/")
}

// normalOrigin lower-cases scheme and host of a URI and drops the port that is
// its scheme's default.
func normalOrigin(uri string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return uri
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if strings.ContainsFunc(authority, func(r rune) bool { return r > unicode.MaxASCII }) {
		return uri // U+212A lowers to k: it is no host of ours
	}
	scheme, authority = strings.ToLower(scheme), strings.ToLower(authority)
	switch scheme {
	case "https":
		authority = strings.TrimSuffix(authority, ":443")
	case "http":
		authority = strings.TrimSuffix(authority, ":80")
	}
	return scheme + "://" + authority + path
}
