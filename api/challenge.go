package api

import "strings"

// challenge is the WWW-Authenticate header of a 401 (RFC 6750 section 3, RFC
// 9728 section 5.1, decision B2). Without metadata the parameter is left out:
// API v3 and v4 take no OAuth token, so there is no server to ask for one
// (decision B1). rejected says that a credential was sent.
func challenge(realm, metadata string, rejected bool) string {
	b := make([]byte, 0, 64+len(realm)+len(metadata))
	b = append(b, `Bearer realm="`...)
	b = appendQuoted(b, realm)
	if metadata != "" {
		b = append(b, `", resource_metadata="`...)
		b = appendURL(b, metadata)
	}
	b = append(b, '"')
	if rejected {
		b = append(b, `, error="invalid_token"`...)
	}
	return string(b)
}

// metadataURL is where the protected resource that answers is described (spec
// 5.7): each has a document of its own.
func (s *Server) metadataURL(base, path string) string {
	of, _ := s.Resources.Of(path)
	return base + "/.well-known/oauth-protected-resource" + of.Path
}

// appendQuoted writes the inside of a quoted-string (RFC 9110 section 5.6.4).
// Control characters have no place in one, escaped or not: each is a space.
func appendQuoted(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c == 0x7f:
			b = append(b, ' ')
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return b
}

// uriMarks are the characters of a URI that are neither letters nor digits
// (RFC 3986 section 2), the percent sign among them.
const uriMarks = "-._~:/?#[]@!$&'()*+,;=%"

// appendURL writes a URL between quotes. Whatever could not stand in one is
// percent-encoded, so that nothing in it can end the quotes.
func appendURL(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(uriMarks, c) >= 0 {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return b
}
