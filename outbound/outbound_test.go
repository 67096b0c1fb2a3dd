package outbound

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errLookup = errors.New("no such host")
	errSilent = errors.New("no answer")
)

// TestDialContext: what is dialled is an address that was allowed, of one look-up, and
// never a name.
func TestDialContext(t *testing.T) {
	for _, tt := range []struct {
		what, address string
		ips           string // of the look-up
		may           string // addresses that may be asked
		answer        string // of those that are dialled, which answer
		dialled       string
		err           error
	}{
		{"the first that may be asked and answers", "a.example:443", "192.0.2.1 192.0.2.2", "192.0.2.1 192.0.2.2", "192.0.2.1:443 192.0.2.2:443", "192.0.2.1:443", nil},
		{"one that may not be asked before it", "a.example:443", "10.0.0.1 192.0.2.2", "192.0.2.2", "10.0.0.1:443 192.0.2.2:443", "192.0.2.2:443", nil},
		{"none that may be asked", "a.example:443", "10.0.0.1 10.0.0.2", "", "10.0.0.1:443 10.0.0.2:443", "", ErrPrivate},
		{"no address at all", "a.example:443", "", "", "", "", ErrPrivate},
		{"one that does not answer before it", "a.example:443", "192.0.2.1 192.0.2.2", "192.0.2.1 192.0.2.2", "192.0.2.2:443", "192.0.2.1:443 192.0.2.2:443", nil},
		{"one that does not answer, and one that may not be asked", "a.example:443", "192.0.2.1 10.0.0.1", "192.0.2.1", "10.0.0.1:443", "192.0.2.1:443", errSilent},
		{"none that answers", "a.example:443", "192.0.2.1 192.0.2.2", "192.0.2.1 192.0.2.2", "", "192.0.2.1:443 192.0.2.2:443", errSilent},
		{"IPv6", "a.example:8443", "2001:db8::1", "2001:db8::1", "[2001:db8::1]:8443", "[2001:db8::1]:8443", nil},
		{"IPv4 in the form of IPv6: judged as it came, dialled as what it is", "a.example:443", "::ffff:192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1:443", "192.0.2.1:443", nil},
		{"a look-up that fails", "nowhere.example:443", "", "", "", "", errLookup},
	} {
		t.Run(tt.what, func(t *testing.T) {
			var asked, dialled []string
			d := Dialer{
				May: func(host string, ip netip.Addr) bool {
					if host != "a.example" {
						t.Errorf("asked whether %s of %q may be asked", ip, host)
					}
					return slices.Contains(strings.Fields(tt.may), ip.String())
				},
				Lookup: func(_ context.Context, network, host string) (ips []netip.Addr, err error) {
					asked = append(asked, network+" "+host)
					if host == "nowhere.example" {
						return nil, errLookup
					}
					for _, ip := range strings.Fields(tt.ips) {
						ips = append(ips, netip.MustParseAddr(ip))
					}
					return ips, nil
				},
				Dial: func(_ context.Context, network, address string) (net.Conn, error) {
					dialled = append(dialled, address)
					if network != "tcp" || !slices.Contains(strings.Fields(tt.answer), address) {
						return nil, errSilent
					}
					conn, other := net.Pipe()
					t.Cleanup(func() { conn.Close(); other.Close() })
					return conn, nil
				},
			}
			conn, err := d.DialContext(t.Context(), "tcp", tt.address)
			if !errors.Is(err, tt.err) || (conn == nil) != (tt.err != nil) {
				t.Errorf("a connection: %t, %v; want %v", conn != nil, err, tt.err)
			}
			if host, _, _ := net.SplitHostPort(tt.address); !slices.Equal(asked, []string{"ip " + host}) {
				t.Errorf("looked up %q", asked)
			}
			if !slices.Equal(dialled, strings.Fields(tt.dialled)) {
				t.Errorf("dialled %q, want %s", dialled, tt.dialled)
			}
		})
	}
}

// TestDialContextOfNoAddress: without a port nothing is looked up.
func TestDialContextOfNoAddress(t *testing.T) {
	d := Dialer{Lookup: func(context.Context, string, string) ([]netip.Addr, error) {
		t.Error("looked up")
		return nil, errLookup
	}}
	if conn, err := d.DialContext(t.Context(), "tcp", "a.example"); conn != nil || err == nil {
		t.Errorf("a connection: %t, %v", conn != nil, err)
	}
}

// TestDialContextBySystem: the functions that are nil are the system's.
func TestDialContextBySystem(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := Dialer{May: func(string, netip.Addr) bool { return true }}
	conn, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// An address that swallows what it is sent leaves time to the others.
func TestEachAddressHasItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialled []string
		d := Dialer{
			May: func(string, netip.Addr) bool { return true },
			Lookup: func(context.Context, string, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("2600::1"), netip.MustParseAddr("2600::2"), netip.MustParseAddr("192.0.2.1")}, nil
			},
			Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
				dialled = append(dialled, address)
				if len(dialled) < 3 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return nil, ctx.Err()
			},
		}
		ctx, stop := context.WithTimeout(t.Context(), 6*time.Second)
		defer stop()
		began := time.Now()
		if _, err := d.DialContext(ctx, "tcp", "app.example:443"); err != nil || len(dialled) != 3 {
			t.Errorf("%v, dialled %v", err, dialled)
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("the third was dialled after %v", took)
		}
	})
}
