package probe

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/client"
)

// parse reads an absolute http or https URL with a host, without user information or
// fragment.
func parse(raw string) (*url.URL, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || strings.HasSuffix(raw, "#") {
		return nil, false
	}
	return u, true
}

// Check says what is wrong with a URL that somebody wants to be asked.
func Check(raw string) error {
	if _, ok := parse(raw); !ok {
		return errors.New("it is no http or https URL with a host, without user information and fragment")
	}
	return nil
}

// wellKnown inserts a well-known name between host and path (RFC 8414 section 3.1,
// RFC 9728 section 3.1).
func wellKnown(u *url.URL, name, path string) string {
	address := origin(u) + "/.well-known/" + name + path
	if u.RawQuery != "" {
		address += "?" + u.RawQuery
	}
	return address
}

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// resourceDocuments are where a client looks for metadata of a resource that names
// none: at its path, then at the root of its host, which is MCP's addition.
func resourceDocuments(u *url.URL) []string {
	path := u.EscapedPath()
	if path == "/" {
		path = ""
	}
	all := []string{wellKnown(u, "oauth-protected-resource", path)}
	if path != "" || u.RawQuery != "" {
		all = append(all, origin(u)+"/.well-known/oauth-protected-resource")
	}
	return all
}

// issuerDocuments are where a client looks for metadata of an issuer, in the order of
// MCP 2025-11-25.
func issuerDocuments(u *url.URL) []string {
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	all := []string{origin(u) + "/.well-known/oauth-authorization-server" + path, origin(u) + "/.well-known/openid-configuration" + path}
	if path != "" {
		all = append(all, origin(u)+path+"/.well-known/openid-configuration")
	}
	return all
}

// IsPrivate reports whether an address is none of the public internet.
func IsPrivate(ip netip.Addr) bool { return !client.IsPublic(ip) }

// privateName reports whether a host is private by its name alone.
func privateName(host string) bool {
	ip, err := netip.ParseAddr(host)
	return client.Loopback(host) || err == nil && IsPrivate(ip)
}

// sameButSlash reports whether two addresses differ in a slash at the end alone.
func sameButSlash(a, b string) bool {
	return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// most is how much of a text that others wrote is shown.
const most = 120

// shown is a text that others wrote: an address or a plain word as it is, all else
// quoted, and what is not ASCII escaped.
func shown(s string) string {
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "..."
	}
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&*+;=%"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return strconv.QuoteToASCII(s)
}

// severally shows a few of them.
func severally(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, s := range all {
		if i == 6 {
			b.WriteString(" and " + strconv.Itoa(len(all)-i) + " more")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(shown(s))
	}
	return b.String()
}
