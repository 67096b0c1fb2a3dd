package attempt

import (
	"cmp"
	"slices"
	"strings"
)

// Differs says how a redirect URI that was sent differs from the one of a client's
// that is most like it, and at which character, from 1 on; 0 where there are no two
// to compare.
func Differs(sent string, registered []string) (how What, at int) {
	if sent == "" || len(registered) == 0 {
		return NothingSent, 0
	}
	best := slices.MaxFunc(registered, func(a, b string) int { return cmp.Compare(alike(sent, a), alike(sent, b)) })
	at = alike(sent, best) + 1
	switch {
	case strings.TrimRight(sent, "/") == strings.TrimRight(best, "/"):
		return Slash, at
	case strings.EqualFold(sent, best):
		return Case, at
	}
	s, b := parts(sent), parts(best)
	switch {
	case s.scheme != b.scheme:
		return Scheme, at
	case s.host != b.host:
		return HostDiffers, at
	case s.port != b.port:
		return Port, at
	case at == max(len(sent), len(best)):
		return LastCharacter, at
	case s.path != b.path:
		return Path, at
	}
	return Query, at
}

// alike is how many bytes two texts begin with alike.
func alike(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

type uriParts struct{ scheme, host, port, path string }

// parts cuts an address, whatever it is.
func parts(uri string) (p uriParts) {
	p.scheme, uri, _ = strings.Cut(uri, "://")
	authority := uri
	if i := strings.IndexAny(uri, "/?#"); i >= 0 {
		authority, uri = uri[:i], uri[i:]
	} else {
		uri = ""
	}
	p.host, p.port, _ = strings.Cut(authority, ":")
	p.path, _, _ = strings.Cut(uri, "?")
	return p
}

// ResourceDiffers says how a resource that was sent is none of a server's: by its host,
// port, scheme or query, a slash, capitals, or its path; "" is one.
func ResourceDiffers(sent, base string) What {
	s, b := parts(sent), parts(base)
	switch {
	case sent == "":
		return NothingSent
	case sent == base:
		return ""
	case !strings.EqualFold(s.host, b.host):
		return HostDiffers
	case s.port != b.port:
		return Port
	case !strings.EqualFold(s.scheme, b.scheme):
		return Scheme
	case s.path == b.path:
		return Query
	case strings.TrimRight(s.path, "/") == strings.TrimRight(b.path, "/"):
		return Slash
	case strings.EqualFold(s.path, b.path):
		return Case
	}
	return Path
}

// VerifierWrong says how a text is no code_verifier, and N of it, its length; "" is
// one (RFC 7636 section 4.1).
func VerifierWrong(s string) (how What, n int) {
	if strings.TrimRight(s, "=") != s {
		return PaddedBase64, len(s)
	}
	if len(s) < 43 || len(s) > 128 {
		return WrongLength, len(s)
	}
	if strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~", r)
	}) {
		return WrongAlphabet, len(s)
	}
	return "", len(s)
}

// ChallengeWrong says how a text is no code_challenge of S256; "" is one.
func ChallengeWrong(s string) (how What, n int) {
	switch {
	case s == "":
		return NothingSent, 0
	case strings.TrimRight(s, "=") != s:
		return PaddedBase64, len(s)
	case len(s) != 43:
		return WrongLength, len(s)
	}
	if strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) {
		return WrongAlphabet, len(s)
	}
	return "", len(s)
}

// RegistrationReason finds the reason in the words with which a registration is
// refused (RFC 7591 section 3.2.2). Package client has them, and a test of oauth
// (TestRegistrationReasons) holds the two together.
func RegistrationReason(code, description string) Reason {
	says := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(description, p) })
	}
	uri := code == "invalid_redirect_uri"
	switch {
	case uri && says("also on loopback", "loopback name", "private networks", "not reachable from everywhere", "at least two labels"):
		return RedirectLoopback
	case uri && says("must begin with https://"):
		return RedirectScheme
	case uri:
		return RedirectInvalid
	case says("grant_types", "response_types"):
		return RegistrationGrants
	case says("client_name"):
		return RegistrationName
	}
	return RegistrationBody
}

// HeadersAllowed reports whether each header of a list, as a browser asks before a
// script sends them, is in another one (Fetch, section "CORS protocol").
func HeadersAllowed(asked, allowed string) bool {
	const most = 50 // of a list that anybody has written
	for n, name := range strings.SplitN(asked, ",", most+1) {
		name = strings.Trim(name, " \t")
		if n == most || name != "" && !slices.ContainsFunc(strings.Split(allowed, ", "), func(a string) bool { return strings.EqualFold(a, name) }) {
			return false
		}
	}
	return true
}
