package server

import (
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
)

// What a connection may cost (decision L5). A header has 32 KiB at most, of
// which net/http adds 4 KiB to what it is told.
const (
	maxHeader    = 28 << 10
	readTimeout  = 20 * time.Second // header and body: one deadline costs less than two
	writeTimeout = 60 * time.Second
	idleTimeout  = 2 * time.Minute
	stallTimeout = 30 * time.Second // no byte of anything was taken: HTTP/2 has writeTimeout for each stream alone
)

// server gives one listener's server its bounds.
func (s *Server) server(handler http.Handler) *http.Server {
	if s.TLS != nil {
		handler = answering(handler)
	}
	return &http.Server{
		Handler:           handler,
		ConnContext:       underTLS,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(&serverLog{log: s.log}, "", 0),
		HTTP2:             &http.HTTP2Config{WriteByteTimeout: stallTimeout},

		// Else net/http answers OPTIONS * by itself, whatever the Host
		// (decision M2).
		DisableGeneralOptionsHandler: true,
	}
}

// listen opens a listener, or says why not in an error with code 4. watched is
// for requests that others work on, or that can last: they end when the client
// goes away. g bounds its connections; nil does not.
func listen(address string, watched bool, g *connLimit, hint string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fault.CannotOpen("", "%s is in use. Choose another: %s", address, hint)
	case err != nil:
		return nil, fault.CannotOpen(hint, "cannot listen on %s: %v", address, err)
	}
	return quietListener{l, watched, g, newTurns()}, nil
}

// listeners are those of a server. Each but the public one is nil when it is off.
type listeners struct {
	public, operators, gateways net.Listener
}

func (l listeners) Close() {
	for _, one := range []net.Listener{l.public, l.operators, l.gateways} {
		if one != nil {
			one.Close()
		}
	}
}

// hasServices reports whether requests go on to services.
func (s *Server) hasServices() bool {
	return s.Upstream != nil || s.MCPUpstream != nil || len(s.Guarded) > 0
}

// listen opens what is configured. dev's connections are not bounded.
func (s *Server) listen() (err error) {
	on, command, bound := &s.on, s.options.Command, (*connLimit)(nil)
	if s.options.Dev == nil {
		most, _ := connections(s.hasServices())
		bound = &connLimit{most: most, log: s.log}
	}
	if on.public, err = listen(s.HTTP.Listen, s.hasServices(), bound, command+" --listen 127.0.0.1:9000"); err != nil {
		return err
	}
	if s.TLS != nil {
		// The certificate is asked for at each handshake: it can be reread.
		on.public = tls.NewListener(on.public, &tls.Config{
			MinVersion: s.TLS.MinVersion, NextProtos: []string{"h2", "http/1.1"},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.present().TLS.Certificates[0], nil },
		})
	}
	if s.Operator.Listen != "off" {
		if on.operators, err = listen(s.Operator.Listen, true, nil, command+" --operator-listen 127.0.0.1:9001"); err != nil {
			return err
		}
	}
	if s.options.Dev != nil {
		on.gateways = s.options.Dev.Gateways
	} else if s.Gateway.Listen != "off" {
		if on.gateways, err = listen(s.Gateway.Listen, false, nil, "GRANTKEEPER_GATEWAY_LISTEN=127.0.0.1:9002 "+command); err != nil {
			return err
		}
	}
	return nil
}

// announce writes the start line. It warns of settings that leave the contract, and
// of those that are seldom meant.
func (s *Server) announce() {
	v, on := s.version, s.on
	upstream, mcp := "none", "none"
	if s.Upstream != nil {
		upstream = s.Upstream.String()
	}
	if s.MCPUpstream != nil {
		mcp = s.MCPUpstream.Scheme + "://" + s.MCPUpstream.Host + s.MCPUpstream.Path // a query may be a secret
	}
	s.log.Info("started", "version", v.Version, "commit", v.Commit, "go", v.Go, "schema", v.Schema,
		"listen", addressOf(on.public), "tls", s.TLS != nil, "operator", addressOf(on.operators), "operator_api", s.Password != "",
		"gateway", addressOf(on.gateways), "upstream", upstream, "mcp_upstream", mcp, "base_urls", s.Hosts.List(), "config", s.options.File)
	if s.Upstream == nil {
		s.log.Warn("no service answers API v5 but for /api/v5/me", "setting", "api.upstream")
	}
	if s.MCPUpstream == nil {
		s.log.Warn("no service answers at the MCP endpoint", "setting", "mcp.upstream")
	}
	for _, one := range s.Guarded {
		s.log.Info("a path is guarded beside API v5, which goes beyond the contract", "path", one.Path, "upstream", one.URL.Scheme+"://"+one.URL.Host, "mcp", one.MCP)
	}
	for _, n := range s.Networks {
		s.log.Warn("a network has more than the contract's rate limits", "cidr", n.CIDR.String(), "multiple", n.Multiple)
	}
	if s.TLS == nil && len(s.HTTP.TrustedProxies) == 0 && strings.HasPrefix(s.Hosts.List()[0], "https:") {
		s.log.Warn("no proxy is trusted: everybody behind one shares its rate limits", "setting", "http.trusted_proxies")
	}
	for _, warning := range append(s.IdleWarnings(), s.RuleWarnings()...) {
		s.log.Warn(warning)
	}
	if on.operators != nil && !config.LoopbackListen(addressOf(on.operators)) {
		s.log.Warn("the operators' listener can be reached from other machines, in clear", "setting", "operator.listen")
	}
	if on.gateways != nil && !config.LoopbackListen(addressOf(on.gateways)) {
		s.log.Warn("the gateways' listener can be reached from other machines, in clear", "setting", "gateway.listen")
	}
}

func addrOf(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

func addressOf(l net.Listener) string {
	if l == nil {
		return "off"
	}
	return l.Addr().String()
}
