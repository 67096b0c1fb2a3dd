package gateway

import (
	"net/http"
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
		"x-user", "x-user-id", "x-user-name", "x-user-email", "x-user-groups", "x-user-roles", "x-username", "x-email", "x-groups", "x-roles", "x-auth-user",
	}
	prefixesNotPassedOn = []string{
		strings.ToLower(identity.Prefix), "x-forward", "x-host-", "x-original-", "x-rewrite-", "x-override-", "x-proxy-", "x-remote-", "remote-",
		"x-http-", "x-method-override", "x-accel-", "x-sendfile", "x-envoy-",
		"x-auth-request-", "x-webauth-", "x-authenticated-", "x-vouch-", "x-pomerium-", "x-goog-authenticated-", "x-amzn-oidc-", "x-ms-client-principal", "cf-access-",
		"client-cert", "x-client-cert", "x-client-dn", "x-client-verify", "x-ssl-", "ssl-",
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

// Headers of the service's answer that this server says itself; that would have others
// keep it; that would act on this server's pages, which have the same host; or that
// would have a client sign in elsewhere, or a proxy in front send a file.
var (
	notPassedBack = []string{
		"cache-control", "expires", "pragma", "surrogate-control", "strict-transport-security", "x-content-type-options", "x-request-id", "ratelimit", "ratelimit-policy",
		"set-cookie", "clear-site-data", "service-worker-allowed", "alt-svc", "nel", "report-to", "accept-ch", "set-login",
		"www-authenticate", "authentication-info", "x-accel-redirect", "x-accel-expires", "x-sendfile", "x-lighttpd-send-file", "x-reproxy-url",
	}
	prefixesNotPassedBack = []string{"access-control-", strings.ToLower(identity.Prefix)}
)

// onlyPassedBack takes out of the headers, or trailers, of an answer what the client
// does not get.
func onlyPassedBack(h http.Header) {
	for name := range h {
		small := strings.ToLower(name)
		if slices.Contains(notPassedBack, small) || strings.HasSuffix(small, "-cache-control") ||
			slices.ContainsFunc(prefixesNotPassedBack, func(p string) bool { return strings.HasPrefix(small, p) }) {
			delete(h, name)
		}
	}
}
