package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/fault"
)

// Hosts are the hosts that are believed, each with its {base} (decision M1).
type Hosts struct {
	bases map[string]string // by the Host header, lower case, with and without a default port
	in    []string          // {base} of each, in order
	names []string          // without port
	dev   bool              // every loopback name and address, on any port, is believed
	seen  *seenHosts        // under dev; nil remembers nothing
}

// seenHosts remembers the {base} of hosts that were asked for under dev,
// because reading one takes longer than many an answer does.
type seenHosts struct {
	bases sync.Map // string to string
	count atomic.Int32
}

// maxSeenHosts bounds what strangers can have remembered.
const maxSeenHosts = 100

// ParseHosts reads base URLs: https, or http for a loopback host, and nothing
// but a host and perhaps a port after that. Two with one host are refused.
func ParseHosts(urls []string) (Hosts, error) {
	h := Hosts{bases: map[string]string{}}
	if len(urls) == 0 {
		return Hosts{}, errors.New("there is none")
	}
	for _, s := range urls {
		base, host, name, err := ParseBase(s)
		if err != nil {
			return Hosts{}, fmt.Errorf("%q: %w", s, err)
		}
		if err := askedAs(name); err != nil {
			return Hosts{}, fmt.Errorf("%q: %w", s, err)
		}
		if h.bases[host] != "" {
			return Hosts{}, fmt.Errorf("%q: another one has the host %s", s, host)
		}
		h.bases[host] = base
		h.in = append(h.in, base)
		h.names = append(h.names, name)
	}
	for i, base := range h.in {
		scheme, host, _ := strings.Cut(base, "://")
		if host != hostOf(h.names[i]) {
			continue // it has a port
		}
		host += map[string]string{"https": ":443", "http": ":80"}[scheme]
		if h.bases[host] != "" {
			return Hosts{}, fmt.Errorf("%q: another one has the host %s", base, host)
		}
		h.bases[host] = base
	}
	return h, nil
}

// LoopbackHosts believe every loopback name and address, on any port, as dev does.
func LoopbackHosts() Hosts {
	return Hosts{dev: true, seen: new(seenHosts), names: []string{"localhost", "127.0.0.1"}}
}

// ParseBase gives {base}, its host as it is asked for, and the host's name.
func ParseBase(s string) (base, host, name string, err error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "", "", "", errors.New("not an https URL")
	}
	if u.User != nil || u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.ContainsAny(s, "#") {
		return "", "", "", errors.New("only a host may follow the scheme, and no slash after it")
	}
	name = strings.ToLower(u.Hostname())
	if !hostName(name) {
		return "", "", "", errors.New("not a host name in ASCII, nor an address")
	}
	if u.Scheme == "http" && !client.Loopback(name) {
		return "", "", "", errors.New("plain http is for loopback hosts only")
	}
	host = strings.ToLower(u.Host)
	if port := u.Port(); port == "" && strings.HasSuffix(host, ":") || !validPort(port) {
		return "", "", "", errors.New("the port is not a number from 1 to 65535")
	} else if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return u.Scheme + "://" + host, host, name, nil
}

// askedAs refuses an address in a form in which no client asks for it: the WHATWG
// URL standard has one form of each, and whoever asks by that would get 421.
func askedAs(name string) error {
	if a, err := netip.ParseAddr(name); err == nil {
		if a.String() != name {
			return fmt.Errorf("clients ask for this address as %s", hostOf(a.String()))
		}
		return nil
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return errors.New("clients take this for an IPv4 address: write it as four decimal numbers")
	}
	return nil
}

// hostOf writes a name or an address as it stands in a URL without a port.
func hostOf(name string) string {
	if strings.Contains(name, ":") {
		return "[" + name + "]"
	}
	return name
}

func validPort(port string) bool {
	if port == "" {
		return true
	}
	n := 0
	for _, c := range port {
		if c < '0' || c > '9' || n > 65535 {
			return false
		}
		n = n*10 + int(c-'0')
	}
	return n >= 1 && n <= 65535 && port[0] != '0'
}

func hostName(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return !strings.Contains(name, "%")
	}
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
			label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return true
}

// Base gives {base} for a Host header, or "" for a host that is not believed
// (decisions M1 and M2).
func (h Hosts) Base(host string) string {
	if base := h.bases[host]; base != "" {
		return base
	}
	if h.dev {
		return h.devBase(host)
	}
	return h.bases[strings.ToLower(host)]
}

func (h Hosts) devBase(host string) string {
	if h.seen == nil {
		return devBase(strings.ToLower(host))
	}
	if base, ok := h.seen.bases.Load(host); ok {
		return base.(string)
	}
	base := devBase(strings.ToLower(host))
	if base != "" && h.seen.count.Add(1) <= maxSeenHosts {
		h.seen.bases.Store(host, base)
	}
	return base
}

// devBase believes every loopback name and address, on any port: those are the
// hosts that plain http is for.
func devBase(host string) string {
	base, _, _, err := ParseBase("http://" + host)
	if err != nil {
		return ""
	}
	return base
}

// Names are the hosts without ports: no client may live there (decision R2).
func (h Hosts) Names() []string { return h.names }

// List gives every {base}, in the order of the configuration.
func (h Hosts) List() []string { return h.in }

// parseOperatorHosts reads operator.hosts: names and addresses, each without a
// port, as browsers write them.
func parseOperatorHosts(list []string) (names []string, err error) {
	for _, one := range list {
		name := strings.ToLower(one)
		if !hostName(name) {
			return nil, fmt.Errorf("%q is not a host name in ASCII, nor an address, without a port", one)
		}
		if err := askedAs(name); err != nil {
			return nil, fmt.Errorf("%q: %w", one, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// LoopbackListen reports whether an address to listen on is this machine's
// alone.
func LoopbackListen(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && client.Loopback(strings.ToLower(host)) && !strings.HasSuffix(host, ".localhost")
}

// ListenerURL is where a configured listener is reached from this machine, and
// the name of its host.
func ListenerURL(listen string) (base, name string, err error) {
	if listen == "off" {
		return "", "", fault.BadConfig("set it, or name another server: --operator URL", "operator.listen is off")
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", "", fault.BadConfig("write 127.0.0.1:8081", "operator.listen: %q is not an address and a port", listen)
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = "127.0.0.1"
		if a.Is6() {
			host = "::1"
		}
	}
	return "http://" + net.JoinHostPort(host, port), host, nil
}

// ParseBaseAnywhere is ParseBase, and plain http everywhere: who asks is not
// who serves. A slash at the end is forgiven.
func ParseBaseAnywhere(s string) (base, name string, err error) {
	s = strings.TrimSuffix(s, "/")
	base, _, name, err = ParseBase(strings.Replace(s, "http://", "https://", 1))
	if err == nil && strings.HasPrefix(s, "http://") {
		base = strings.TrimSuffix("http"+strings.TrimPrefix(base, "https"), ":80")
	}
	return base, name, err
}
