package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/consent"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/gateway"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/mcp"
	"github.com/grantkeeper/grantkeeper/metrics"
	"github.com/grantkeeper/grantkeeper/oauth"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/operator/console"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
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

// sweepEvery is how often what has expired is deleted. Nothing depends on it:
// expiry is asked and never written.
const sweepEvery = time.Minute

// A house is all doors, wired, before and behind its listeners.
type house struct {
	config.Checked
	store    *store.Store
	limits   *limit.Valkey // nil counts in memory
	log      *slog.Logger
	level    *slog.LevelVar // of log; nil is info
	requests io.Writer      // as newLogger gives it
	metrics  *metrics.Metrics
	traces   *traces // nil without a collector
	mail     *mailer // nil sends none
	draining atomic.Bool
	page     *consent.Server        // for pages in its look
	calls    *api.Server            // whose guard gateways ask
	proxies  map[string]*mcp.Server // of MCP endpoints, by their path
	seen     *seenAddresses         // of requests to public
	unnamed  rules.Tally            // calls that no rule names
	unsure   sync.Once              // that a trusted proxy writes Forwarded was logged

	reread    atomic.Pointer[config.Checked] // the configuration since SIGHUP; nil before
	networked []*limit.Addresses             // the contract's limits, whose networks can change

	// Under dev alone.
	dev      *devClient
	demoKeys []store.DirectoryAPIKey // of this start
	clock    func(context.Context, operator.ClockMove) (operator.ClockState, error)
}

// openStore opens the database of a house.
func openStore(ctx context.Context, c config.Checked, path string, now func() time.Time, log *slog.Logger, m *metrics.Metrics, told ...func(store.Event)) (*store.Store, error) {
	s, err := store.Open(ctx, store.Options{
		Path: path, URL: c.Postgres, Migrate: c.Database.AutoMigrate, Release: version, MaxStaleness: time.Duration(c.Database.MaxStaleness),
		Ring: c.Ring, Now: now, Log: log,
		Impersonal:  !c.Service.PersonalItems,
		SessionIdle: time.Duration(c.Session.Idle), SessionMax: time.Duration(c.Session.Max),
		EndUnusedAfter: time.Duration(c.Approvals.EndUnusedAfter), JournalRetention: time.Duration(c.Journal.Retention),
		Journaled: journaled(m, told...), Took: m.Query, Swept: swept(m),
	})
	if err != nil {
		return nil, openError(err)
	}
	return s, nil
}

// public is what the public listener answers with.
func (h *house) public() http.Handler {
	base := func(r *http.Request) string { return h.base(r.Host) }
	authorize, tokens := h.limits.Addresses("authorize", limit.Authorize, h.Networks), h.limits.Addresses("token", limit.Token, h.Networks)
	registrations := h.limits.Addresses("register", limit.Register, h.Networks)
	networks := h.limits.Blocks("register-network", limit.Register, h.Networks)
	h.networked = []*limit.Addresses{authorize, tokens, registrations, networks}
	site := &page.Site{
		Store: h.store, Ring: h.Ring, Log: h.log, Service: h.Service.Name, Nouns: h.Nouns, Branding: h.Brand, Base: base, Address: h.address,
		Limits: h.limits, Count: countPages(h.metrics), NoPasswords: !h.SignIn.Passwords,
	}
	h.page = &consent.Server{
		Site: site, SignIn: h.signIn(site), Preview: h.preview(), NoPersonal: !h.Service.PersonalItems,
		Rules: func() *rules.Rules { return h.present().Ruled }, Tool: h.tool, Resources: h.Resources(), AuthorizeLimit: authorize, Tell: tell,
	}
	clients := &oauth.Server{
		Store: h.store, Ring: h.Ring, Log: h.log, Service: h.Service.Name, Base: base, Address: h.address,
		OwnHosts: func() []string { return h.present().Hosts.Names() }, TokenLimit: tokens,
		Resources: h.Resources(), RegisterLimit: registrations, NetworkLimit: networks, Count: h.metrics.OAuth, Tell: tell,
	}
	calls := &api.Server{
		Store: h.store, Ring: h.Ring, Log: h.log, Service: h.Service.Name, Base: base, Address: h.address,
		Limit:   h.limits.Names("api", h.API.RateLimit.Limit),
		LimitOf: func(organization string) int { return h.present().APILimits[organization] },
		Rules:   func() *rules.Rules { return h.present().Ruled }, Unnamed: &h.unnamed,
		Checked: checked(h.metrics), Limited: func() { h.metrics.Limited("api") }, Tell: tell,
	}
	h.calls = calls
	calls.Connected, calls.Resources = h.Upstream != nil, h.Resources()
	if h.dev != nil {
		site.Demo = &page.Demo{Client: devClientPath, People: h.dev.people, Password: demoPassword}
	}
	doors := dispatch{oauth: clients.Handler(), consent: h.page.Handler(), api: calls.Handler(), more: calls.Resources, upstreams: h.behind(calls, base)}
	if h.dev != nil {
		doors.dev = h.dev.handler(site)
	}
	h.seen = newSeenAddresses()
	return &Gate{Next: doors, Base: h.base, Address: h.address, Seen: h.seen.request, Log: h.log, Level: h.level, JSON: h.requests, Draining: &h.draining, Count: h.metrics.Request,
		Traces: h.traces, Trusts: func(r *http.Request) bool { return h.present().Proxies.Trusts(r) }}
}

// behind connects the services: MCP servers to the door of calls, and gives the
// others by their path.
func (h *house) behind(calls *api.Server, base func(*http.Request) string) map[string]http.Handler {
	h.proxies, calls.MCP = map[string]*mcp.Server{}, map[string]http.Handler{}
	upstreams, all := map[string]http.Handler{}, h.Guarded
	if h.Upstream != nil {
		all = append(slices.Clip(all), config.GuardedPath{Resource: client.Resource{Path: config.UpstreamPath}, URL: h.Upstream})
	}
	if h.MCPUpstream != nil {
		all = append(slices.Clip(all), h.OwnMCP())
	}
	for _, one := range all {
		if !one.MCP {
			to := &gateway.Upstream{URL: one.URL, Key: h.serviceKey, API: calls, Base: base, Address: h.address, Log: h.log}
			upstreams[one.Path] = calls.Guard(to.Handler())
			continue
		}
		h.proxies[one.Path] = &mcp.Server{
			Path: config.RuledAt(one.Path), URL: one.URL, Key: h.serviceKey, API: calls, Base: base, Address: h.address, Log: h.log,
			Wait: time.Duration(h.MCP.Wait), MaxBody: int64(h.MCP.MaxBody), Streams: h.MCP.Streams,
		}
		calls.MCP[one.Path] = h.proxies[one.Path].Handler()
	}
	return upstreams
}

// preview asks the service what choices would give; nil where it does not say.
func (h *house) preview() func(context.Context, string, []grantset.Authority) (identity.PreviewAnswer, bool) {
	if h.PreviewURL == nil {
		return nil
	}
	return (&gateway.Previews{URL: h.PreviewURL, Key: h.serviceKey, Now: h.store.Now, Log: h.log}).Ask
}

// tool is what an organization was told of a tool of the MCP endpoint at a path, ""
// the contract's.
func (h *house) tool(organization, at, name string) (title string, reads rules.Known) {
	proxy := h.proxies[cmp.Or(at, config.MCPPath)]
	if proxy == nil {
		return "", rules.Unknown
	}
	return proxy.Tool(organization, name)
}

// dispatch sends each path to its door.
type dispatch struct {
	oauth, consent, api http.Handler
	more                client.Resources
	upstreams           map[string]http.Handler // services, by the path of their resource
	dev                 http.Handler            // /dev/client, under dev alone
}

func (d dispatch) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	of, guarded := d.more.Of(path)
	switch {
	case path == "/oauth/authorize", path == "/oauth/authorize/preview":
		d.consent.ServeHTTP(w, r)
	case strings.HasPrefix(path, config.OAuthRoot+"/"), strings.HasPrefix(path, config.WellKnownRoot+"/"):
		d.oauth.ServeHTTP(w, r)
	case guarded && d.upstreams[of.Path] != nil && path != config.MePath:
		r.Pattern = of.Path + "/"
		d.upstreams[of.Path].ServeHTTP(w, r)
	case guarded, config.Below(path, config.APIRoot):
		r.Pattern = "/api/" // until the door says more
		d.api.ServeHTTP(w, r)
	case d.dev != nil && path == devClientPath:
		r.Pattern = devClientPath
		d.dev.ServeHTTP(w, r)
	default:
		d.consent.ServeHTTP(w, r)
	}
}

// operators is what the operators' listener answers with.
func (h *house) operators() http.Handler {
	running := thisVersion()
	if running.Mode = "serve"; h.dev != nil {
		running.Mode = "dev"
	}
	door := &operator.Server{
		Store: h.store, Log: h.log, Password: func() string { return h.present().Password }, Version: running, OwnHosts: h.Hosts.Names(), Ring: h.Ring,
		Draining: h.draining.Load, HashPassword: signin.Hash, SamePassword: signin.Matches, Clock: h.clock,
		Metrics: h.metrics, ReadKeys: h.readKeys, Seen: h.seen.seen, Limits: h.limits,
		ResetLink: h.resetLink(), MailReset: h.mailReset(),
		Rules: func() *rules.Rules { return h.present().Ruled }, Unnamed: &h.unnamed,
	}
	door.Console = (&console.Server{API: door, Service: h.Service.Name, Hosts: h.shownHosts}).Router()
	h.metrics.Gauges = h.gauges
	// No proxy is believed here: the peer is the operator.
	return &Gate{Next: h.onlyOperatorHosts(door.Handler()), Address: limit.Proxies{}.ClientAddr, Log: h.log, Level: h.level, JSON: h.requests,
		Count: h.metrics.Request, Traces: h.traces}
}

// gateways is what the gateways' listener answers with, after public.
func (h *house) gateways() http.Handler {
	_, host, _ := strings.Cut(h.Hosts.List()[0], "://")
	door := &gateway.Server{API: h.calls, Keys: func() []gateway.Key { return h.present().Gateways }, Base: h.base, Host: host, Log: h.log}
	// Whatever host is asked: a proxy may pass on the original's, and what
	// counts is in its question.
	return &Gate{Next: door.Handler(), Address: limit.Proxies{}.ClientAddr, Log: h.log, Level: h.level, JSON: h.requests, Count: h.metrics.Request,
		Traces: h.traces, Trusts: func(*http.Request) bool { return true }}
}

// server gives one listener's server its bounds.
func (h *house) server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(&serverLog{log: h.log}, "", 0),
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

// sweeping deletes what has expired, now and every minute, until ctx ends.
func (h *house) sweeping(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		h.sweep(ctx)
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

func (h *house) sweep(ctx context.Context) {
	swept, err := h.store.Sweep(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		h.log.Warn("expired rows cannot be deleted", "err", err)
	case swept != store.Swept{}:
		h.log.Info("swept", "clients", swept.Clients, "ended", swept.Ended,
			"approvals", swept.Approvals, "sessions", swept.Sessions, "resets", swept.Resets, "events", swept.Events)
	}
}

// serving says how a house stops.
type serving struct {
	linger  time.Duration // how long the listener stays open after the signal, while /readyz says 503
	drain   time.Duration // how long requests under way may take then
	signals <-chan os.Signal
	ready   func() // is called when requests are answered

	again  <-chan os.Signal // the configuration is to be reread; nil is never
	reread func()
}

// listeners are those of a house. Each but the public one is nil when it is off.
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

// serve answers on the listeners until a signal comes or ctx ends, and then
// lets what was accepted finish. A second signal ends it at once. The error
// then says how it ended.
func (h *house) serve(ctx context.Context, on listeners, s serving) error {
	failed := make(chan error, 3)
	var servers []*http.Server
	listen := func(l net.Listener, handler http.Handler) {
		server := h.server(handler)
		for _, proxy := range h.proxies {
			server.RegisterOnShutdown(proxy.Drain)
		}
		servers = append(servers, server)
		go func() { failed <- server.Serve(l) }()
	}
	listen(on.public, h.public())
	if on.gateways != nil {
		if h.dev != nil {
			listen(on.gateways, h.forSample())
		} else {
			listen(on.gateways, h.gateways())
		}
	}
	if on.operators != nil {
		listen(on.operators, h.operators())
	}
	sweepCtx, stopSweeping := context.WithCancel(ctx)
	swept := make(chan struct{})
	go func() { h.sweeping(sweepCtx); close(swept) }()
	go h.metrics.Run(sweepCtx)
	go h.watchNodes(sweepCtx)
	go h.watchUnnamed(sweepCtx)
	defer func() { stopSweeping(); <-swept }()

	if s.ready != nil {
		s.ready()
	}
	for {
		select {
		case err := <-failed:
			closeAll(servers)
			return fault.CannotOpen("", "the listener failed: %v", err)
		case <-s.again:
			s.reread()
			continue
		case got := <-s.signals:
			h.log.Info("stopping", "signal", got.String(), "drain", s.drain.String())
		case <-ctx.Done():
			h.log.Info("stopping", "drain", s.drain.String())
		}
		return h.stop(servers, s)
	}
}

// stop drains: /readyz says 503 at once, so that no balancer sends more; the
// listener stays open for a while for those who have not noticed; then no
// connection is taken and those under way end.
func (h *house) stop(servers []*http.Server, s serving) error {
	h.draining.Store(true)
	lingered := time.NewTimer(s.linger)
	defer lingered.Stop()
	select {
	case <-lingered.C:
	case got := <-s.signals:
		closeAll(servers)
		return interrupted(got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.drain)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		var errs []error
		for _, server := range servers { // the operators' last: /readyz answers longest
			errs = append(errs, server.Shutdown(ctx))
		}
		done <- errors.Join(errs...)
	}()
	select {
	case err := <-done:
		if err != nil {
			h.log.Warn("requests were cut off", "after", s.drain.String())
			closeAll(servers)
		}
		return nil
	case got := <-s.signals:
		closeAll(servers)
		return interrupted(got)
	}
}

func closeAll(servers []*http.Server) {
	for _, s := range servers {
		_ = s.Close()
	}
}

// interrupted is the end by a signal, before ready or by a second one.
func interrupted(by os.Signal) error {
	if by == syscall.SIGTERM {
		return &fault.Error{Code: fault.Terminate, What: "terminated"}
	}
	return &fault.Error{Code: fault.Interrupt, What: "interrupted"}
}
