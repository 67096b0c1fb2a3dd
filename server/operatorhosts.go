package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
)

// operatorHost reports whether the operators' listener answers for a Host
// (decision O1): a loopback name or address, the address at which the request
// arrived, or one of names, on any port. A page whose own name comes to lead
// here is of one origin with this listener, and only its Host tells it apart
// (DNS rebinding). Every browser sends a Host; what has none is no page.
func operatorHost(host string, local net.Addr, names []string) bool {
	if host == "" {
		return true
	}
	_, _, name, err := config.ParseBase("https://" + host)
	if err != nil {
		return false
	}
	if client.Loopback(name) || slices.Contains(names, name) {
		return true
	}
	asked, err := netip.ParseAddr(name)
	at, ok := local.(*net.TCPAddr)
	return err == nil && ok && asked.Unmap() == at.AddrPort().Addr().Unmap().WithZone("")
}

// onlyOperatorHosts answers 421 for every other Host.
func (s *Server) onlyOperatorHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if !operatorHost(r.Host, local, s.present().OperatorHosts) {
			misdirected(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}
