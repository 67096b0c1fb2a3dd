package client

import "net/netip"

// A block of addresses with a purpose of its own. why is "" for a block that
// is reachable from everywhere after all.
type block struct {
	prefix netip.Prefix
	why    string
}

func blockOf(prefix, why string) block {
	return block{netip.MustParsePrefix(prefix), why}
}

// special is the IANA special-purpose address registries of IPv4 and IPv6
// (RFC 6890, RFC 8190), and beside them multicast, space that is reserved or
// was given back, and the forms that carry an IPv4 address inside (decision
// R2). The first block that holds an address decides, so parts stand before
// the whole. A block that is reachable from everywhere and part of no other
// needs no line.
var special = []block{
	// IPv4
	blockOf("0.0.0.0/8", "this network (RFC 791)"),
	blockOf("10.0.0.0/8", "private (RFC 1918)"),
	blockOf("100.64.0.0/10", "shared by carriers (RFC 6598)"),
	blockOf("127.0.0.0/8", "loopback (RFC 1122)"),
	blockOf("169.254.0.0/16", "link-local (RFC 3927)"),
	blockOf("172.16.0.0/12", "private (RFC 1918)"),
	blockOf("192.0.0.9/32", ""),  // PCP anycast, RFC 7723
	blockOf("192.0.0.10/32", ""), // TURN anycast, RFC 8155
	blockOf("192.0.0.0/24", "protocol assignments (RFC 6890)"),
	blockOf("192.0.2.0/24", "documentation (RFC 5737)"),
	blockOf("192.88.99.0/24", "6to4 relays (RFC 7526)"),
	blockOf("192.168.0.0/16", "private (RFC 1918)"),
	blockOf("198.18.0.0/15", "benchmarking (RFC 2544)"),
	blockOf("198.51.100.0/24", "documentation (RFC 5737)"),
	blockOf("203.0.113.0/24", "documentation (RFC 5737)"),
	blockOf("224.0.0.0/4", "multicast (RFC 5771)"),
	blockOf("255.255.255.255/32", "broadcast (RFC 919)"),
	blockOf("240.0.0.0/4", "reserved (RFC 1112)"),

	// IPv6
	blockOf("::/128", "unspecified (RFC 4291)"),
	blockOf("::1/128", "loopback (RFC 4291)"),
	blockOf("::ffff:0:0/96", "IPv4-mapped (RFC 4291)"),
	blockOf("::/96", "IPv4-compatible (RFC 4291)"),
	blockOf("64:ff9b::/96", "NAT64 (RFC 6052)"),
	blockOf("64:ff9b:1::/48", "NAT64 (RFC 8215)"),
	blockOf("100::/64", "discarded (RFC 6666)"),
	blockOf("100:0:0:1::/64", "dummy (RFC 9780)"),
	blockOf("2001::/32", "Teredo (RFC 4380)"),
	blockOf("2001:1::1/128", ""), // PCP anycast, RFC 7723
	blockOf("2001:1::2/128", ""), // TURN anycast, RFC 8155
	blockOf("2001:1::3/128", ""), // DNS-SD SRP anycast, RFC 9665
	blockOf("2001:2::/48", "benchmarking (RFC 5180)"),
	blockOf("2001:3::/32", ""),     // AMT, RFC 7450
	blockOf("2001:4:112::/48", ""), // AS112, RFC 7535
	blockOf("2001:10::/28", "ORCHID (RFC 4843)"),
	blockOf("2001:20::/28", ""), // ORCHIDv2, RFC 7343
	blockOf("2001:30::/28", ""), // drone identifiers, RFC 9374
	blockOf("2001::/23", "protocol assignments (RFC 2928)"),
	blockOf("2001:db8::/32", "documentation (RFC 3849)"),
	blockOf("2002::/16", "6to4 (RFC 3056)"),
	blockOf("3fff::/20", "documentation (RFC 9637)"),
	blockOf("2000::/3", ""), // global unicast, RFC 4291
	blockOf("5f00::/16", "segment routing (RFC 9602)"),
	blockOf("fc00::/7", "private (RFC 4193)"),
	blockOf("fe80::/10", "link-local (RFC 4291)"),
	blockOf("fec0::/10", "site-local (RFC 3879)"),
	blockOf("ff00::/8", "multicast (RFC 4291)"),
	blockOf("::/0", "reserved (RFC 4291)"),
}

// notReachable says why an address, written without a zone, is not the same
// host for everybody, or "".
func notReachable(addr netip.Addr) string {
	for _, b := range special {
		if b.prefix.Contains(addr) {
			return b.why
		}
	}
	return "" // IPv4, and nothing special
}

var nat64 = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052

// IsPublic reports whether an address that a name leads to is the same host for
// everybody. An IPv4 address counts for itself in each of the forms in which IPv6
// carries one to where it is: a network that has IPv6 alone reaches public ones by NAT64.
func IsPublic(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip.IsValid() && notReachable(ip) == ""
}
