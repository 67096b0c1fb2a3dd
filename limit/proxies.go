package limit

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the address blocks whose word about other addresses is believed
// (decision M2). The zero value believes nobody.
type Proxies struct {
	blocks []netip.Prefix
	header string // that they write; "" is X-Forwarded-For, or Forwarded where that is missing
}

// ForwardedHeaders are the values of the setting http.forwarded_header.
var ForwardedHeaders = []string{"X-Forwarded-For", "Forwarded"}

// Writing gives the proxies as those who write one of the ForwardedHeaders, so that
// the other counts for nothing.
func (p Proxies) Writing(header string) Proxies {
	p.header = header
	return p
}

// ParseProxies reads the setting http.trusted_proxies: address blocks (CIDR), or
// single addresses. A block with bits below its mask is refused, and so is one that
// holds every address, because then everybody could take any address.
func ParseProxies(list []string) (Proxies, error) {
	var p Proxies
	for _, s := range list {
		block, err := parseBlock(s)
		if err != nil {
			return Proxies{}, fmt.Errorf("trusted proxy %q: %w", s, err)
		}
		if block.Bits() == 0 {
			return Proxies{}, fmt.Errorf("trusted proxy %q: this would believe everybody; name the proxies", s)
		}
		p.blocks = append(p.blocks, block)
	}
	return p, nil
}

// Trusts reports whether a request came from a trusted proxy.
func (p Proxies) Trusts(r *http.Request) bool { return p.believes(peerAddr(r.RemoteAddr)) }

func (p Proxies) believes(a netip.Addr) bool {
	for _, block := range p.blocks {
		if block.Contains(a) {
			return true
		}
	}
	return false
}

// ClientAddr is the address that a request counts for (decision L2): that of the
// TCP peer, or, when the peer is a trusted proxy, the first one from the right of
// X-Forwarded-For or Forwarded (RFC 7239) that is not a trusted proxy too. Where
// the header is missing or cannot be read, it is the address of the last trusted
// proxy before that, so that nobody gets out of the limit by a broken header.
//
// A proxy writes one of the two headers and may pass the other on as a stranger
// wrote it. So where X-Forwarded-For is there, Forwarded counts for nothing; proxies
// that write Forwarded are those for which [Proxies.Writing] says so.
//
// IPv4-mapped addresses are IPv4, zones are dropped. The address is invalid only
// if r has no TCP peer.
func (p Proxies) ClientAddr(r *http.Request) netip.Addr {
	peer := peerAddr(r.RemoteAddr)
	if !p.believes(peer) {
		return peer
	}
	list, forwarded := r.Header["X-Forwarded-For"], r.Header["Forwarded"]
	if p.header == "Forwarded" || p.header == "" && len(list) == 0 {
		return p.fromForwarded(peer, forwarded)
	}
	return p.fromList(peer, list)
}

// Unsure reports whether a request is from a trusted proxy that writes Forwarded,
// and nothing says so: a client's X-Forwarded-For would be believed.
func (p Proxies) Unsure(r *http.Request) bool {
	return p.header == "" && len(r.Header["Forwarded"]) > 0 && len(r.Header["X-Forwarded-For"]) == 0 && p.Trusts(r)
}

func peerAddr(s string) netip.Addr {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return plain(ap.Addr())
	}
	a, _ := netip.ParseAddr(s) // invalid with the error
	return plain(a)
}

// fromList reads X-Forwarded-For from the right. Several lines are one list. An empty
// member is a broken one: if it were skipped, the next might be a stranger's.
func (p Proxies) fromList(hop netip.Addr, lines []string) netip.Addr {
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			var last string
			if j := strings.LastIndexByte(rest, ','); j >= 0 {
				rest, last = rest[:j], rest[j+1:]
			} else {
				last, more = rest, false
			}
			a, ok := node(strings.Trim(last, " \t"))
			if !ok {
				return hop
			}
			if !p.believes(a) {
				return a
			}
			hop = a
		}
	}
	return hop
}

// fromForwarded reads Forwarded from the right. A line is read whole before any of it is
// believed, because a quotation mark that a stranger opened reaches to the right.
func (p Proxies) fromForwarded(hop netip.Addr, lines []string) netip.Addr {
	for i := len(lines) - 1; i >= 0; i-- {
		nodes, ok := forwardedFor(lines[i])
		if !ok {
			return hop
		}
		for j := len(nodes) - 1; j >= 0; j-- {
			a, ok := node(nodes[j])
			if !ok {
				return hop
			}
			if !p.believes(a) {
				return a
			}
			hop = a
		}
	}
	return hop
}

// forwardedFor gives the value of "for" of each element of a line, empty where there is
// none (RFC 7239 section 4). It is stricter than the RFC in nothing and looser in that an
// address need not be quoted, and in spaces.
func forwardedFor(line string) (nodes []string, ok bool) {
	value, named := "", false
	for rest := line; ; rest = rest[1:] {
		name, v, after, ok := forwardedPair(strings.TrimLeft(rest, " \t"))
		if !ok {
			return nil, false
		}
		if strings.EqualFold(name, "for") {
			if named { // "MUST NOT occur more than once"
				return nil, false
			}
			value, named = v, true
		}
		rest = after
		if rest == "" {
			return append(nodes, value), true
		}
		if rest[0] == ',' {
			nodes = append(nodes, value)
			value, named = "", false
		}
	}
}

// forwardedPair reads one pair, which may be empty. What follows it is nothing or begins
// with a comma or a semicolon.
func forwardedPair(s string) (name, value, after string, ok bool) {
	if s == "" || s[0] == ',' || s[0] == ';' {
		return "", "", s, true
	}
	name, s, found := strings.Cut(s, "=")
	if !found || name == "" || strings.ContainsAny(name, " \t\",;") {
		return "", "", "", false
	}
	if strings.HasPrefix(s, `"`) {
		end := 1
		for end < len(s) && s[end] != '"' {
			if s[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(s) {
			return "", "", "", false
		}
		value, after = s[1:end], strings.TrimLeft(s[end+1:], " \t")
		return name, value, after, after == "" || after[0] == ',' || after[0] == ';'
	}
	end := strings.IndexAny(s, ",;")
	if end < 0 {
		end = len(s)
	}
	value = strings.TrimRight(s[:end], " \t")
	return name, value, s[end:], value != "" && !strings.ContainsAny(value, " \t\"")
}

// node reads an address with or without a port: 192.0.2.1, 192.0.2.1:80, 2001:db8::1,
// [2001:db8::1], [2001:db8::1]:80 (RFC 7239 section 6, and what proxies write).
func node(s string) (netip.Addr, bool) {
	if strings.HasPrefix(s, "[") {
		inner, after, found := strings.Cut(s[1:], "]")
		if !found || after != "" && (after[0] != ':' || !port(after[1:])) {
			return netip.Addr{}, false
		}
		a, err := netip.ParseAddr(inner)
		return plain(a), err == nil && a.Is6()
	}
	if host, after, found := strings.Cut(s, ":"); found && strings.Contains(host, ".") {
		a, err := netip.ParseAddr(host)
		return plain(a), err == nil && port(after)
	}
	if s == "" { // the most common broken one, spared the error's allocation
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	return plain(a), err == nil
}

// port is digits, or an obfuscated one (RFC 7239 section 6.3). It is not used.
func port(s string) bool {
	return s != "" && strings.Trim(s, "0123456789._-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
