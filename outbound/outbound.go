// Package outbound connects to hosts that strangers name. A name is looked up once, and
// what is dialled is an address that was allowed: never the name again, which may lead
// elsewhere by then (DNS rebinding).
package outbound

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"
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
	lookup := d.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupNetIP
	}
	ips, err := lookup(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	ips = slices.DeleteFunc(ips, func(ip netip.Addr) bool { return !d.May(host, ip) })
	err = ErrPrivate
	for i, ip := range ips {
		conn, failed := d.dialOne(ctx, network, net.JoinHostPort(ip.Unmap().String(), port), len(ips)-i)
		if failed == nil {
			return conn, nil
		}
		err = failed
	}
	return nil, err
}

// dialOne gives one of so many addresses its share of the time that is left: one that
// swallows what it is sent leaves some to the others.
func (d Dialer) dialOne(ctx context.Context, network, address string, left int) (net.Conn, error) {
	if ends, ok := ctx.Deadline(); ok {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Until(ends)/time.Duration(left))
		defer stop()
	}
	dial := d.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return dial(ctx, network, address)
}
