package client

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// HostOf is the host of a redirect URI, as an organization's rules name it: in
// lower case, without its port, an IPv6 address in brackets and in the one form
// that netip writes. It is "" of what is no URI with a host.
func HostOf(redirectURI string) string {
	u, err := url.Parse(redirectURI)
	if err != nil {
		return ""
	}
	host := strings.ToLower(u.Hostname())
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is6() {
		return "[" + addr.String() + "]"
	}
	return host
}

// Loopback says whether a host name, lower case and without port, can only
// mean this machine (RFC 6761 section 6.3).
func Loopback(name string) bool {
	if a, err := netip.ParseAddr(name); err == nil {
		return a.Unmap().IsLoopback() && a.Zone() == ""
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// Hosts are those of an app, in the form of HostOf. App is what pages show as what can be
// trusted of it, and what an organization's rules name it by: the host of its metadata
// document, which alone can change what it is, or else of its redirect URI. Back is the
// host of the redirect URI where that is another, and else "".
type Hosts struct{ App, Back string }

// HostsOf gives them for the ID of a client that is known. One that is preregistered is
// what its operator says, whatever its ID.
func HostsOf(id, redirectURI string, preregistered bool) Hosts {
	h := Hosts{App: HostOf(redirectURI)}
	if IsURL(id) && !preregistered {
		if at := HostOf(id); at != h.App {
			h = Hosts{at, h.App}
		}
	}
	return h
}

// CheckRuleHost says why a rule cannot name a host: it is not one that a redirect
// URI may have, or not in the form of HostOf, in which all of them are compared.
func CheckRuleHost(host string) error {
	for _, r := range host {
		if r >= utf8.RuneSelf {
			return errors.New("only ASCII is allowed: write it in A-labels, which begin with xn--")
		}
	}
	if name, _, hasPort := splitPort(host); hasPort || strings.Contains(name, "/") {
		return errors.New("it is a host alone, with neither a scheme, nor a port, nor a path")
	}
	if err := checkHost(host, nil); err != nil {
		return err
	}
	if form := HostOf("https://" + host + "/"); form != host {
		return fmt.Errorf("write it as %s", form)
	}
	return nil
}

// NameKey is what makes one name of two in an organization's rules: its letters,
// marks, digits and symbols, in any case. A client chooses its name, so this is
// never asked without the host. It is "" of a name that has none of them.
func NameKey(name string) string {
	return strings.Map(func(r rune) rune {
		if !visible(r) && !unicode.IsMark(r) || unicode.Is(unicode.Variation_Selector, r) || !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.S) {
			return -1
		}
		return foldCase(r)
	}, name)
}

// foldCase gives one code point for all that differ in case alone.
func foldCase(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}
