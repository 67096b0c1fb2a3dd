package server

import (
	"net"
	"net/netip"
	"testing"
)

// The operators' listener answers for loopback, for the address at which it is
// asked and for operator.hosts, however these are spelt, and for nothing else.
func TestOperatorHost(t *testing.T) {
	four := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.1.2.3:8081"))
	mapped := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[::ffff:10.1.2.3]:8081"))
	six := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[2001:db8::7]:8081"))
	names := []string{"ops.example", "2001:db8::99"}
	for _, c := range []struct {
		host  string
		local net.Addr
		want  bool
	}{
		{"127.0.0.1:8081", four, true}, {"127.0.0.1", four, true}, {"127.9.9.9:1", four, true}, {"[::1]:8081", four, true}, {"[::1]", six, true},
		{"localhost:8081", four, true}, {"LocalHost", four, true}, {"a.localhost:8081", four, true}, {"[::ffff:127.0.0.1]:8081", four, true},
		{"10.1.2.3:8081", four, true}, {"10.1.2.3", mapped, true}, {"10.1.2.3:80", four, true}, {"[::ffff:10.1.2.3]", four, true},
		{"[2001:db8::7]:8081", six, true}, {"[2001:DB8:0::7]", six, true},
		{"ops.example", four, true}, {"OPS.example:8443", six, true}, {"[2001:db8::99]:8081", four, true}, {"", four, true},

		{"rebind.example:8081", four, false}, {"rebind.example", nil, false}, {"10.1.2.3", nil, false}, {"10.1.2.4:8081", four, false},
		{"[2001:db8::8]:8081", six, false}, {"[2001:db8::7%25eth0]:8081", six, false}, {"2001:db8::7", six, false},
		{"localhost.:8081", four, false}, {"ops.example.", four, false}, {"ops.example.:8081", four, false}, {"127.0.0.1.:8081", four, false},
		{"localhost.rebind.example", four, false}, {"127.0.0.1.rebind.example:8081", four, false}, {"xops.example", four, false}, {"x.ops.example", four, false},
		{"localhost@rebind.example", four, false}, {"rebind.example@localhost", four, false}, {"operator:x@127.0.0.1:8081", four, false}, {"@localhost", four, false},
		{"localhost:0", four, false}, {"localhost:99999", four, false}, {"localhost:", four, false}, {"localhost:80:80", four, false}, {"localhost:x", four, false},
		{"localhost/", four, false}, {"localhost?x", four, false}, {"localhost#x", four, false}, {"localhost\\x", four, false}, {" localhost", four, false},
		{"127.1", four, false}, {"0x7f000001", four, false}, {"2130706433", four, false}, {"0.0.0.0:8081", four, false}, {"[::]:8081", six, false}, {"[]", four, false}, {"*", four, false},
	} {
		if got := operatorHost(c.host, c.local, names); got != c.want {
			t.Errorf("Host %q at %v: %v, want %v", c.host, c.local, got, c.want)
		}
	}
}
