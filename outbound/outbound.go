// Package outbound connects to hosts that strangers name. A name is looked up once, and
// what is dialled is an address that was allowed: never the name again, which may lead
// elsewhere by then (DNS rebinding).
package outbound

import (
	"context"
	"errors"
	"net"
	"net/netip"
)

// ErrPrivate says that a host has no address that may be asked.
var ErrPrivate = errors.New("a private address")

// A Dialer connects to addresses that it may. Its nil functions are the system's.
type Dialer struct {
	May    func(host string, ip netip.Addr) bool
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error) // an IP address and a port
}

// DialContext connects to the first of the host's addresses that may be asked and
// answers. Its error is ErrPrivate where none may be asked.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	lookup, dial := d.Lookup, d.Dial
	if lookup == nil {
		lookup = net.DefaultResolver.LookupNetIP
	}
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	ips, err := lookup(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	err = ErrPrivate
	for _, ip := range ips {
		if !d.May(host, ip) {
			continue
		}
		conn, failed := dial(ctx, network, net.JoinHostPort(ip.Unmap().String(), port))
		if failed == nil {
			return conn, nil
		}
		err = failed
	}
	return nil, err
}
