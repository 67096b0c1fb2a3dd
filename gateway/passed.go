package gateway

import (
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/identity"
)

// What of a request's headers the service behind does not get: credentials and
// cookies, which are ours; what this server says itself; and what some server or
// framework believes about the client's address, the host, path, scheme or method
// that was asked, or who is signed in. Names are in small letters.
var (
	notPassedOn = []string{
		"authorization", "x-auth-token", "cookie", "x-gateway-key", "x-request-id", "expect",
		"connection", "upgrade", "proxy", "via", "forwarded",
		"x-host", "x-url", "x-uri", "x-scheme", "x-url-scheme", "x-server-name", "front-end-https", "script-name", "x-script-name",
	}
	prefixesNotPassedOn = []string{
		strings.ToLower(identity.Prefix), "x-forward", "x-host-", "x-original-", "x-rewrite-", "x-override-", "x-proxy-", "x-remote-", "remote-",
		"x-http-", "x-method-override", "x-accel-", "x-sendfile", "x-envoy-",
	}
	// Parts between hyphens.
	partsNotPassedOn = []string{"ip", "ips", "ipv4", "ipv6", "clientip", "addr", "address"}
)

// passedOn reports whether the service behind gets a header of that name. One with
// anything but letters, digits and hyphens is not passed on either: CGI takes an
// underscore for a hyphen, and some servers take all else for an underscore.
func passedOn(name string) bool {
	name = strings.ToLower(name)
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	if slices.Contains(notPassedOn, name) || slices.ContainsFunc(prefixesNotPassedOn, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return false
	}
	for part := range strings.SplitSeq(name, "-") {
		if slices.Contains(partsNotPassedOn, part) {
			return false
		}
	}
	return true
}
