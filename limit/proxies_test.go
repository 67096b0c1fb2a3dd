package limit

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

const (
	proxy  = "10.0.0.4:41000"
	proxy2 = "10.0.0.5"
)

func believe(t testing.TB, list ...string) Proxies {
	t.Helper()
	p, err := ParseProxies(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// from is a request of a peer with header lines, each "Name: value".
func from(peer string, lines ...string) *http.Request {
	r := &http.Request{RemoteAddr: peer, Header: http.Header{}}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// The peer is believed about others only where it is a proxy (decision L2).
func TestClientAddr(t *testing.T) {
	p := believe(t, "10.0.0.0/24", "2001:db8:ffff::/48", "127.0.0.1", "::ffff:10.9.0.1")
	const list, fwd = "X-Forwarded-For: ", "Forwarded: "
	for _, c := range []struct {
		name  string
		peer  string
		lines []string
		want  string
	}{
		{"no proxy", "203.0.113.9:1234", nil, "203.0.113.9"},
		{"no proxy, IPv6", "[2001:db8::9]:1234", nil, "2001:db8::9"},
		{"no proxy, IPv4-mapped", "[::ffff:203.0.113.9]:1234", nil, "203.0.113.9"},
		{"no proxy, zone", "[fe80::1%eth0]:1234", nil, "fe80::1"},
		{"no port", "203.0.113.9", nil, "203.0.113.9"},

		{"I-04 rightmost", proxy, []string{list + "1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		{"I-04 one address", proxy, []string{list + "203.0.113.9"}, "203.0.113.9"},
		{"I-04 IPv6", proxy, []string{list + "1.1.1.1, 2001:db8::9"}, "2001:db8::9"},
		{"I-04 IPv4-mapped", proxy, []string{list + "::ffff:203.0.113.9"}, "203.0.113.9"},
		{"I-04 proxy is IPv4-mapped", "[::ffff:10.0.0.4]:1", []string{list + "203.0.113.9"}, "203.0.113.9"},
		{"I-04 proxy is IPv6", "[2001:db8:ffff::1]:1", []string{list + "203.0.113.9"}, "203.0.113.9"},
		{"I-04 proxy is a single address", "127.0.0.1:1", []string{list + "203.0.113.9"}, "203.0.113.9"},
		{"I-04 proxy is a single address, IPv4-mapped", "10.9.0.1:1", []string{list + "203.0.113.9"}, "203.0.113.9"},
		{"I-04 zone", proxy, []string{list + "fe80::1%eth0"}, "fe80::1"},
		{"I-04 port", proxy, []string{list + "203.0.113.9:51000"}, "203.0.113.9"},
		{"I-04 IPv6 and port", proxy, []string{list + "[2001:db8::9]:51000"}, "2001:db8::9"},
		{"I-04 IPv6 in brackets", proxy, []string{list + "[2001:db8::9]"}, "2001:db8::9"},
		{"I-04 no spaces", proxy, []string{list + "1.1.1.1,203.0.113.9"}, "203.0.113.9"},
		{"I-04 tabs", proxy, []string{list + "1.1.1.1\t,\t203.0.113.9\t"}, "203.0.113.9"},
		{"I-04 several lines", proxy, []string{list + "1.1.1.1", list + "2.2.2.2, 203.0.113.9"}, "203.0.113.9"},
		{"I-04 broken on the left", proxy, []string{list + "<script>, 203.0.113.9"}, "203.0.113.9"},
		{"I-04 Forwarded", proxy, []string{fwd + "for=1.1.1.1, for=203.0.113.9"}, "203.0.113.9"},
		{"I-04 Forwarded, all its parts", proxy, []string{fwd + `for=1.1.1.1, by=10.0.0.4;FOR="203.0.113.9:80" ;host="a\"b,c;d"; proto=https;`}, "203.0.113.9"},
		{"I-04 Forwarded, IPv6", proxy, []string{fwd + `for="[2001:db8::9]:80"`}, "2001:db8::9"},
		{"I-04 Forwarded, IPv6 unquoted", proxy, []string{fwd + `for=[2001:db8::9]`}, "2001:db8::9"},
		{"I-04 Forwarded, hidden port", proxy, []string{fwd + `for="203.0.113.9:_x"`}, "203.0.113.9"},
		{"I-04 Forwarded, several lines", proxy, []string{fwd + "for=1.1.1.1", fwd + "for=203.0.113.9"}, "203.0.113.9"},

		{"I-05 missing", proxy, nil, "10.0.0.4"},
		{"I-05 empty", proxy, []string{list}, "10.0.0.4"},
		{"I-05 broken", proxy, []string{list + "banana"}, "10.0.0.4"},
		{"I-05 broken on the right", proxy, []string{list + "1.1.1.1, banana"}, "10.0.0.4"},
		{"I-05 empty on the right", proxy, []string{list + "1.1.1.1,"}, "10.0.0.4"},
		{"I-05 empty line on the right", proxy, []string{list + "1.1.1.1", list}, "10.0.0.4"},
		{"I-05 unknown", proxy, []string{list + "1.1.1.1, unknown"}, "10.0.0.4"},
		{"I-05 a space between", proxy, []string{list + "1.1.1.1 203.0.113.9"}, "10.0.0.4"},
		{"I-05 number too high", proxy, []string{list + "203.0.113.256"}, "10.0.0.4"},
		{"I-05 leading zero", proxy, []string{list + "203.0.113.09"}, "10.0.0.4"},
		{"I-05 bracket open", proxy, []string{list + "[2001:db8::9"}, "10.0.0.4"},
		{"I-05 after the bracket", proxy, []string{list + "[2001:db8::9]x"}, "10.0.0.4"},
		{"I-05 IPv4 in brackets", proxy, []string{list + "[203.0.113.9]"}, "10.0.0.4"},
		{"I-05 empty port", proxy, []string{list + "203.0.113.9:"}, "10.0.0.4"},
		{"I-05 broken port", proxy, []string{list + "203.0.113.9:8 0"}, "10.0.0.4"},
		{"I-05 broken port after the bracket", proxy, []string{list + "[2001:db8::9]:"}, "10.0.0.4"},
		{"I-05 Forwarded empty", proxy, []string{fwd}, "10.0.0.4"},
		{"I-05 Forwarded broken on the right", proxy, []string{fwd + "for=1.1.1.1", fwd + `for="`}, "10.0.0.4"},
		{"I-05 Forwarded unknown", proxy, []string{fwd + "for=1.1.1.1, for=unknown"}, "10.0.0.4"},
		{"I-05 Forwarded hidden", proxy, []string{fwd + "for=_gazonk"}, "10.0.0.4"},
		{"I-05 Forwarded without for", proxy, []string{fwd + "for=1.1.1.1, proto=https"}, "10.0.0.4"},
		{"I-05 Forwarded empty on the right", proxy, []string{fwd + "for=1.1.1.1,"}, "10.0.0.4"},
		{"I-05 Forwarded twice in one", proxy, []string{fwd + "for=1.1.1.1;for=203.0.113.9"}, "10.0.0.4"},
		{"I-05 Forwarded quotation open", proxy, []string{fwd + `for=1.1.1.1;x=", for=203.0.113.9`}, "10.0.0.4"},
		{"I-05 Forwarded escape at the end", proxy, []string{fwd + `for=1.1.1.1;x="\`}, "10.0.0.4"},
		{"I-05 Forwarded quotation swallowed", proxy, []string{fwd + `for=1.1.1.1;x=", for="[2001:db8::9]"`}, "10.0.0.4"},
		{"I-05 Forwarded space in value", proxy, []string{fwd + `for=1.1.1.1 x`}, "10.0.0.4"},
		{"I-05 Forwarded quote in value", proxy, []string{fwd + `for=203.0.113.9;host=a"b"`}, "10.0.0.4"},
		{"I-05 Forwarded more after the quotation", proxy, []string{fwd + `for="203.0.113.9"x`}, "10.0.0.4"},
		{"I-05 Forwarded no name", proxy, []string{fwd + `for=203.0.113.9;=a`}, "10.0.0.4"},
		{"I-05 Forwarded no value", proxy, []string{fwd + `for=203.0.113.9;a=`}, "10.0.0.4"},
		{"I-05 Forwarded no equals", proxy, []string{fwd + `for=203.0.113.9;a`}, "10.0.0.4"},
		{"I-05 Forwarded space in name", proxy, []string{fwd + `for=203.0.113.9;a b=c`}, "10.0.0.4"},

		{"I-06 two proxies", proxy, []string{list + "1.1.1.1, 203.0.113.9, " + proxy2}, "203.0.113.9"},
		{"I-06 two proxies, lines", proxy, []string{list + "1.1.1.1, 203.0.113.9", list + proxy2}, "203.0.113.9"},
		{"I-06 second is IPv4-mapped", proxy, []string{list + "203.0.113.9, ::ffff:" + proxy2}, "203.0.113.9"},
		{"I-06 broken before the second", proxy, []string{list + "1.1.1.1, banana, " + proxy2}, proxy2},
		{"I-06 nobody before the second", proxy, []string{list + proxy2}, proxy2},
		{"I-06 trusted address on the left of a stranger's", proxy, []string{list + "1.1.1.1, 10.0.0.7, 203.0.113.9"}, "203.0.113.9"},
		{"I-06 Forwarded", proxy, []string{fwd + "for=1.1.1.1, for=203.0.113.9, for=" + proxy2}, "203.0.113.9"},
		{"I-06 Forwarded, nobody before the second", proxy, []string{fwd + "for=" + proxy2}, proxy2},

		{"I-07 list", "203.0.113.9:1", []string{list + "1.1.1.1"}, "203.0.113.9"},
		{"I-07 Forwarded", "203.0.113.9:1", []string{fwd + "for=1.1.1.1"}, "203.0.113.9"},
		{"I-07 names a proxy", "203.0.113.9:1", []string{list + "1.1.1.1, 10.0.0.4"}, "203.0.113.9"},
		{"I-07 next to the proxies", "10.0.1.4:1", []string{list + "1.1.1.1"}, "10.0.1.4"},

		{"both agree", proxy, []string{list + "1.1.1.1, 203.0.113.9", fwd + "for=203.0.113.9"}, "203.0.113.9"},
		{"both differ", proxy, []string{list + "203.0.113.9", fwd + "for=1.1.1.1"}, "203.0.113.9"},
		{"both, one broken", proxy, []string{list + "203.0.113.9", fwd + "for=unknown"}, "203.0.113.9"},
		{"both, other broken", proxy, []string{list + "banana", fwd + "for=203.0.113.9"}, "10.0.0.4"},
		{"both, from a stranger", "203.0.113.9:1", []string{list + "1.1.1.1", fwd + "for=1.1.1.1"}, "203.0.113.9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := p.ClientAddr(from(c.peer, c.lines...)); got != addr(c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// Where it is said which header the proxies write, the other counts for nothing.
func TestWriting(t *testing.T) {
	p := believe(t, "10.0.0.0/24")
	both := from(proxy, "X-Forwarded-For: 203.0.113.9", "Forwarded: for=198.51.100.7")
	one, other := from(proxy, "X-Forwarded-For: 203.0.113.9"), from(proxy, "Forwarded: for=198.51.100.7")
	for _, c := range []struct {
		header           string
		both, one, other string
		unsure           bool
	}{
		{"", "203.0.113.9", "203.0.113.9", "198.51.100.7", true},
		{"X-Forwarded-For", "203.0.113.9", "203.0.113.9", "10.0.0.4", false},
		{"Forwarded", "198.51.100.7", "10.0.0.4", "198.51.100.7", false},
	} {
		w := p.Writing(c.header)
		if got := w.ClientAddr(both); got != addr(c.both) {
			t.Errorf("%q, both: %s, want %s", c.header, got, c.both)
		}
		if got := w.ClientAddr(one); got != addr(c.one) {
			t.Errorf("%q, X-Forwarded-For: %s, want %s", c.header, got, c.one)
		}
		if got := w.ClientAddr(other); got != addr(c.other) {
			t.Errorf("%q, Forwarded: %s, want %s", c.header, got, c.other)
		}
		if w.Unsure(other) != c.unsure || w.Unsure(one) || w.Unsure(both) || w.Unsure(from("203.0.113.9:1", "Forwarded: for=1.1.1.1")) {
			t.Errorf("%q: unsure", c.header)
		}
	}
}

func TestClientAddrWithoutPeer(t *testing.T) {
	p := believe(t, "10.0.0.0/24", "::/1", "128.0.0.0/1")
	for _, peer := range []string{"", "@", "/run/socket", "10.0.0.4:x:y"} {
		if got := p.ClientAddr(from(peer, "X-Forwarded-For: 1.1.1.1")); got.IsValid() {
			t.Errorf("peer %q counts for %s", peer, got)
		}
	}
}

func TestNobodyIsTrustedAtFirst(t *testing.T) {
	for _, p := range []Proxies{{}, believe(t)} {
		if got := p.ClientAddr(from("127.0.0.1:1", "X-Forwarded-For: 1.1.1.1")); got != addr("127.0.0.1") {
			t.Errorf("%s, want the peer", got)
		}
	}
}

func TestParseProxiesRefuses(t *testing.T) {
	for s, says := range map[string]string{
		"":                    "not an address block",
		"proxy.example":       "not an address block",
		"10.0.0.0/33":         "not an address block",
		"10.0.0.0/":           "not an address block",
		"fe80::1%eth0":        "not an address block",
		"fe80::%eth0/64":      "not an address block",
		"10.0.0.4/24":         "the block is 10.0.0.0/24",
		"2001:db8::1/48":      "the block is 2001:db8::/48",
		"::ffff:10.0.0.4/120": "the block is 10.0.0.0/24",
		"0.0.0.0/0":           "believe everybody",
		"::/0":                "believe everybody",
		"::ffff:0.0.0.0/96":   "believe everybody",
	} {
		p, err := ParseProxies([]string{"127.0.0.1/32", s})
		if err == nil || len(p.blocks) != 0 {
			t.Errorf("ParseProxies(%q) = %v, %v; want an error alone", s, p, err)
		} else if !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), `"`+s+`"`) {
			t.Errorf("ParseProxies(%q) says %q, want it to name the block and %q", s, err, says)
		}
	}
}

func TestClientAddrAllocatesNothing(t *testing.T) {
	p := believe(t, "10.0.0.0/24")
	for _, lines := range [][]string{
		nil,
		{"X-Forwarded-For: 203.0.113.9"},
		{"X-Forwarded-For: 2001:db8::9"},
		{"X-Forwarded-For: 1.1.1.1, 203.0.113.9, " + proxy2},
	} {
		r := from(proxy, lines...)
		if n := testing.AllocsPerRun(100, func() { p.ClientAddr(r) }); n != 0 {
			t.Errorf("%q: %v allocations", lines, n)
		}
	}
}

// Whatever a stranger writes: from an untrusted peer it changes nothing; through a trusted proxy that
// appends the stranger's true address, the request counts for that address or for the proxy's.
func FuzzClientAddr(f *testing.F) {
	for _, list := range []string{"", "1.1.1.1", "1.1.1.1, 10.0.0.5", "banana,", "[::1]:80", ",,", "::ffff:1.1.1.1", `"1.1.1.1`} {
		for _, forwarded := range []string{
			"", "for=1.1.1.1", `for="[2001:db8::1]:80";proto=https, for=10.0.0.5`, `for=1.1.1.1;x="`, `for=1.1.1.1;x="\`, ";;,", "for=1.1.1.1,", `x="a\"b"`,
		} {
			f.Add(list, forwarded)
		}
	}
	p := believe(f, "10.0.0.0/24", "2001:db8:ffff::/48")
	f.Fuzz(func(t *testing.T, list, forwarded string) {
		r := from(proxy)
		try := func(peer string, lists, forwardeds []string, allowed ...string) {
			t.Helper()
			r.RemoteAddr = peer
			r.Header["X-Forwarded-For"], r.Header["Forwarded"] = lists, forwardeds
			got := p.ClientAddr(r)
			for _, a := range allowed {
				if got == addr(a) {
					return
				}
			}
			t.Fatalf("peer %s, X-Forwarded-For %q, Forwarded %q: %s, want one of %v", peer, lists, forwardeds, got, allowed)
		}
		try("203.0.113.9:1", []string{list}, []string{forwarded}, "203.0.113.9")
		try("203.0.113.9:1", []string{list}, nil, "203.0.113.9")
		try("203.0.113.9:1", nil, []string{forwarded}, "203.0.113.9")

		try(proxy, []string{list + ", 203.0.113.9"}, nil, "203.0.113.9")
		try(proxy, []string{list, "203.0.113.9"}, nil, "203.0.113.9")
		try(proxy, []string{list + ", 203.0.113.9, " + proxy2}, nil, "203.0.113.9")
		try(proxy, []string{list, "203.0.113.9"}, []string{forwarded}, "203.0.113.9")
		unsaid := p
		p = unsaid.Writing("X-Forwarded-For")
		try(proxy, []string{list, "203.0.113.9"}, []string{forwarded}, "203.0.113.9")
		try(proxy, nil, []string{forwarded}, "10.0.0.4")
		p = unsaid.Writing("Forwarded")
		try(proxy, []string{list}, []string{forwarded, "for=203.0.113.9"}, "203.0.113.9")
		try(proxy, []string{list}, nil, "10.0.0.4")
		p = unsaid
		for _, honest := range []string{
			"for=203.0.113.9", `for="203.0.113.9:80"`, `proto=https;for=203.0.113.9;by="10.0.0.4:80"`, `for="203.0.113.9", for="10.0.0.5"`,
		} {
			try(proxy, nil, []string{forwarded + ", " + honest}, "203.0.113.9", "10.0.0.4")
			try(proxy, nil, []string{forwarded, honest}, "203.0.113.9")
		}

		r.RemoteAddr = list
		if got := p.ClientAddr(r); got.Is4In6() || got.Zone() != "" {
			t.Fatalf("%s is not in its one form", got)
		}
		r.RemoteAddr, r.Header = proxy, http.Header{"X-Forwarded-For": {list}}
		if got := p.ClientAddr(r); !got.IsValid() || got.Is4In6() || got.Zone() != "" {
			t.Fatalf("%s is not in its one form", got)
		}
	})
}

// What is accepted is written back the same: a block has one meaning.
func FuzzParseProxies(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "127.0.0.1", "::1/128", "::ffff:10.0.0.0/104", "fe80::%1/10", "0/0", "10.0.0.1/8"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseProxies([]string{s})
		if err != nil {
			return
		}
		again, err := ParseProxies([]string{p.blocks[0].String()})
		if err != nil || again.blocks[0] != p.blocks[0] {
			t.Fatalf("%q is %s, and that is %v, %v", s, p.blocks[0], again, err)
		}
		if a := p.blocks[0].Addr(); a != netip.Addr(plain(a)) || !p.believes(a) {
			t.Fatalf("%q is %s, which does not hold its own first address", s, p.blocks[0])
		}
	})
}

func BenchmarkClientAddr(b *testing.B) {
	p := believe(b, "127.0.0.1/32", "10.0.0.0/8")
	for _, lines := range [][]string{nil, {"X-Forwarded-For: 203.0.113.9"}, {"Forwarded: for=203.0.113.9;proto=https"}} {
		b.Run(fmt.Sprint(lines), func(b *testing.B) {
			r := from(proxy, lines...)
			b.ReportAllocs()
			for b.Loop() {
				p.ClientAddr(r)
			}
		})
	}
}
