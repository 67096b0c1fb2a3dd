package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
)

// lingering is how long the listener stays open after SIGTERM, while /readyz
// says 503: so long a balancer may take to notice.
const lingering = 2 * time.Second

func serveCommand(g *global) *cobra.Command {
	var baseURLs []string
	drain := 15 * time.Second
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run it",
		Example: `  grantkeeper serve
  grantkeeper serve -c ./grantkeeper.toml
  GRANTKEEPER_BASE_URLS=https://app.example.com grantkeeper serve`,
		Long: `A flag wins over the environment, the environment over the file, the file over
the default.

SIGHUP rereads base_urls, http.trusted_proxies, the certificate, clients,
limiter.networks, api.limits, branding, operator.hosts, the operators' password, the
gateways' keys, log.level and the secret keys; when something is not valid, what was in force stays so,
and the log says why. Other settings need a restart, and the log names those that changed.
SIGTERM lets what was accepted finish.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper demo --base-url URL --steps 1-2"},
		RunE:        func(c *cobra.Command, _ []string) error { return g.serve(c, baseURLs, drain) },
	}
	f := c.Flags()
	f.String("listen", "", "address of the public listener (default :8080)")
	f.String("operator-listen", "", "address of the operators' listener, or off (default 127.0.0.1:8081)")
	f.Bool("migrate", false, "take an older schema forward first")
	f.StringArrayVar(&baseURLs, "base-url", nil, "a host that is served, as a URL; can be repeated")
	f.DurationVar(&drain, "drain-timeout", drain, "how long requests under way may take at the end")
	return c
}

// serve reads the configuration, which SIGHUP does again, and runs the server.
func (g *global) serve(c *cobra.Command, baseURLs []string, drain time.Duration) error {
	flags, err := g.settings(c)
	if err != nil {
		return err
	}
	if c.Flag("base-url").Changed {
		flags["base_urls"] = strings.Join(baseURLs, ",")
	}
	read := func() (config.Checked, string, error) {
		loaded, err := config.Load(g.config, os.Environ(), flags)
		if err != nil {
			return config.Checked{}, "", err
		}
		checked, err := loaded.Check()
		return checked, loaded.File, err
	}
	signal.Ignore(syscall.SIGPIPE) // who reads the log may go away
	checked, file, err := read()
	if err != nil {
		return err
	}
	if checked.Postgres == "" {
		tuneMemory(leastHeap, 0)
	} else {
		tuneMemory(sharedHeap, sharedRoom)
	}
	ch, ready := signals()
	return runServe(c.Context(), serveOptions{
		checked: checked, file: file, drain: drain, signals: ch, ready: ready, again: hangUp(), read: read,
	}, c.ErrOrStderr())
}

// serveOptions are what the command line of serve came to.
type serveOptions struct {
	checked config.Checked
	file    string
	drain   time.Duration
	signals <-chan os.Signal
	ready   func()

	again <-chan os.Signal // to reread the configuration, with read
	read  func() (config.Checked, string, error)
}

func runServe(ctx context.Context, o serveOptions, stderr io.Writer) error {
	checked := o.checked
	if ctx == nil {
		ctx = context.Background()
	}
	out := newLines(stderr)
	defer out.Close()
	h := &house{Checked: checked, metrics: newMetrics(time.Now)}
	h.logTo(out, stderr, false)

	var err error
	if h.traces, err = newTraces(ctx, h.log); err != nil {
		return err
	}
	defer h.traces.close()
	on, err := h.listen()
	if err != nil {
		return err
	}
	defer on.Close()
	h.mail = newMailer(checked.MailServer, h.log)
	if h.store, err = openStore(ctx, checked, checked.Path, machineClock(), h.log, h.metrics, h.noticing()); err != nil {
		return err
	}
	defer h.store.Close()
	defer h.mail.Close() // before the store, which letters are made from
	if checked.Counters != nil {
		h.limits = limit.Connect(checked.Counters, limit.ValkeyOptions{Log: h.log, Nodes: h.store.LiveNodes})
		defer h.limits.Close()
	}
	act := store.Act{Actor: "system", Reason: "configuration"}
	if err := h.store.SyncPreregistered(ctx, checked.Preregistered, act); errors.Is(err, store.ErrUnavailable) {
		hint := "see that there is room for the database"
		if why := h.store.WhyNot(err); why != "" {
			hint = mendDatabase(why)
		}
		return fault.CannotOpen(hint, "clients: %v", err)
	} else if err != nil {
		return fault.BadConfig("take another id", "clients: %v", err)
	}
	o.ready() // before anybody is answered: a signal that comes then shall drain
	return h.serve(ctx, on, serving{linger: lingering, drain: o.drain, signals: o.signals, ready: func() {
		h.announce(o.file, on)
		out.Start()
		forgetStart()
	}, again: o.again, reread: func() { h.rereadWith(ctx, o.read) }})
}

// listen opens what is configured, or nothing.
func (h *house) listen() (on listeners, err error) {
	defer func() {
		if err != nil {
			on.Close()
		}
	}()
	if on.public, err = listen(h.HTTP.Listen, h.Upstream != nil || h.MCPUpstream != nil, newConnLimit(h.log), "grantkeeper serve --listen 127.0.0.1:9000"); err != nil {
		return on, err
	}
	if h.TLS != nil {
		// The certificate is asked for at each handshake: it can be reread.
		on.public = tls.NewListener(on.public, &tls.Config{
			MinVersion: h.TLS.MinVersion, NextProtos: []string{"h2", "http/1.1"},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &h.present().TLS.Certificates[0], nil },
		})
	}
	if h.Operator.Listen != "off" {
		if on.operators, err = listen(h.Operator.Listen, true, nil, "grantkeeper serve --operator-listen 127.0.0.1:9001"); err != nil {
			return on, err
		}
	}
	if h.Gateway.Listen != "off" {
		if on.gateways, err = listen(h.Gateway.Listen, false, nil, "GRANTKEEPER_GATEWAY_LISTEN=127.0.0.1:9002 grantkeeper serve"); err != nil {
			return on, err
		}
	}
	return on, nil
}

// announce writes the start line. It warns of settings that leave the contract, and
// of those that are seldom meant.
func (h *house) announce(file string, on listeners) {
	v := thisVersion()
	upstream, mcp := "none", "none"
	if h.Upstream != nil {
		upstream = h.Upstream.String()
	}
	if h.MCPUpstream != nil {
		mcp = h.MCPUpstream.Scheme + "://" + h.MCPUpstream.Host + h.MCPUpstream.Path // a query may be a secret
	}
	h.log.Info("started", "version", v.Version, "commit", v.Commit, "go", v.Go, "schema", v.Schema,
		"listen", addressOf(on.public), "tls", h.TLS != nil, "operator", addressOf(on.operators), "operator_api", h.Password != "",
		"gateway", addressOf(on.gateways), "upstream", upstream, "mcp_upstream", mcp, "base_urls", h.Hosts.List(), "config", file)
	if h.Upstream == nil {
		h.log.Warn("no service answers API v5 but for /api/v5/me", "setting", "api.upstream")
	}
	if h.MCPUpstream == nil {
		h.log.Warn("no service answers at the MCP endpoint", "setting", "mcp.upstream")
	}
	for _, one := range h.Guarded {
		h.log.Info("a path is guarded beside API v5, which goes beyond the contract", "path", one.Path, "upstream", one.URL.Scheme+"://"+one.URL.Host, "mcp", one.MCP)
	}
	for _, n := range h.Networks {
		h.log.Warn("a network has more than the contract's rate limits", "cidr", n.CIDR.String(), "multiple", n.Multiple)
	}
	if h.TLS == nil && len(h.HTTP.TrustedProxies) == 0 && strings.HasPrefix(h.Hosts.List()[0], "https:") {
		h.log.Warn("no proxy is trusted: everybody behind one shares its rate limits", "setting", "http.trusted_proxies")
	}
	for _, warning := range h.RuleWarnings() {
		h.log.Warn(warning)
	}
	if on.operators != nil && !loopbackListen(addressOf(on.operators)) {
		h.log.Warn("the operators' listener can be reached from other machines, in clear", "setting", "operator.listen")
	}
	if on.gateways != nil && !loopbackListen(addressOf(on.gateways)) {
		h.log.Warn("the gateways' listener can be reached from other machines, in clear", "setting", "gateway.listen")
	}
}

func addressOf(l net.Listener) string {
	if l == nil {
		return "off"
	}
	return l.Addr().String()
}

// clockAhead is how far the clock is ahead in a binary that tests link
// (-ldflags "-X main.clockAhead=5m"). What is shipped has the machine's clock.
var clockAhead string

// machineClock is nil for the machine's clock as it is.
func machineClock() func() time.Time {
	ahead, err := time.ParseDuration(clockAhead)
	if err != nil || ahead == 0 {
		return nil
	}
	return func() time.Time { return time.Now().Add(ahead) }
}
