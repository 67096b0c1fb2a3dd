package main

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

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

// operatorHost reports whether the operators' listener answers for a Host
// (decision O1): a loopback name or address, the address at which the request
// arrived, or one of names, on any port. A page whose own name comes to lead
// here is of one origin with this listener, and only its Host tells it apart
// (DNS rebinding). Every browser sends a Host; what has none is no page.
func operatorHost(host string, local net.Addr, names []string) bool {
	if host == "" {
		return true
	}
	_, _, name, err := parseBase("https://" + host)
	if err != nil {
		return false
	}
	if loopback(name) || slices.Contains(names, name) {
		return true
	}
	asked, err := netip.ParseAddr(name)
	at, ok := local.(*net.TCPAddr)
	return err == nil && ok && asked.Unmap() == at.AddrPort().Addr().Unmap().WithZone("")
}

// onlyOperatorHosts answers 421 for every other Host.
func (h *house) onlyOperatorHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if !operatorHost(r.Host, local, h.present().OperatorHosts) {
			misdirected(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}
