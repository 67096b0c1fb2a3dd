package connect

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"net/url"
	"strings"

	"github.com/grantkeeper/grantkeeper/fault"
)

// An endpoint is the MCP endpoint that a person has named.
type endpoint struct {
	url    string
	origin string // scheme, host and port
	host   string // with its port
}

const exampleURL = "grantkeeper connect https://app.example.com/api/v5/mcp"

// parseEndpoint takes https, and http on loopback alone: a token that goes over a
// network in the clear is anybody's.
func parseEndpoint(text string) (endpoint, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Host == "", u.Opaque != "":
		return endpoint{}, fault.WrongUse(exampleURL, "%q is no URL of an MCP server", text)
	case u.User != nil, u.Fragment != "", u.RawQuery != "":
		return endpoint{}, fault.WrongUse(exampleURL, "the URL must have neither a user, nor a query, nor a fragment")
	case u.Scheme == "https", u.Scheme == "http" && onLoopback(u.Hostname()):
		return endpoint{url: text, origin: u.Scheme + "://" + u.Host, host: u.Host}, nil
	case u.Scheme == "http":
		return endpoint{}, fault.WrongUse(exampleURL, "%s is not encrypted: http is for 127.0.0.1 alone", text)
	}
	return endpoint{}, fault.WrongUse(exampleURL, "%q is no https URL", text)
}

func onLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// fileName is that of what is kept of an endpoint: two endpoints have two.
func (e endpoint) fileName() string {
	sum := sha256.Sum256([]byte(e.url))
	host := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, e.host)
	return host + "-" + hex.EncodeToString(sum[:6]) + ".json"
}
