package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/client/document"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/consent"
	"github.com/grantkeeper/grantkeeper/gateway"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/mcp"
	"github.com/grantkeeper/grantkeeper/oauth"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/operator/console"
	"github.com/grantkeeper/grantkeeper/orgadmin"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// public is what the public listener answers with.
func (s *Server) public() http.Handler {
	base := func(r *http.Request) string { return s.base(r.Host) }
	authorize, tokens := s.limits.Addresses("authorize", limit.Authorize, s.Networks), s.limits.Addresses("token", limit.Token, s.Networks)
	registrations := s.limits.Addresses("register", limit.Register, s.Networks)
	networks := s.limits.Blocks("register-network", limit.Register, s.Networks)
	s.networked = []*limit.Addresses{authorize, tokens, registrations, networks}
	seen := s.observe(s.address)
	site := &page.Site{
		Store: s.store, Ring: s.Ring, Log: s.log, Service: s.Service.Name, Nouns: s.Nouns, Branding: s.Brand, Base: base, Address: s.address,
		Limits: s.limits, Count: countPages(s.metrics), NoPasswords: !s.SignIn.Passwords, NoPersonal: !s.Service.PersonalItems, Mails: s.mail != nil,
	}
	s.page = &consent.Server{
		Site: site, SignIn: s.signIn(site), Preview: s.preview(), MaxDays: s.Approvals.MaxDays,
		Rules: func() *rules.Rules { return s.present().Ruled }, Tool: s.tool, Resources: s.Resources(), AuthorizeLimit: authorize, Tell: tell, Seen: seen,
		Documents: document.New(s.options.Documents), DocumentHosts: s.documentHosts, OwnHosts: s.ownHosts, NewClients: s.newClients(registrations, networks),
	}
	clients := &oauth.Server{
		Store: s.store, Ring: s.Ring, Log: s.log, Service: s.Service.Name, Base: base, Address: s.address,
		OwnHosts: s.ownHosts, TakesDocuments: func() bool { return len(s.documentHosts()) > 0 }, TokenLimit: tokens,
		Desktop: s.desktop, Resources: s.Resources(), RegisterLimit: registrations, NetworkLimit: networks, Count: s.metrics.OAuth, Tell: tell, Seen: seen,
	}
	calls := &api.Server{
		Store: s.store, Ring: s.Ring, Log: s.log, Service: s.Service.Name, Base: base,
		Limit:   s.limits.Names("api", s.API.RateLimit.Limit),
		LimitOf: func(organization string) int { return s.present().APILimits[organization] },
		Rules:   func() *rules.Rules { return s.present().Ruled }, Unnamed: &s.unnamed,
		Activity: s.activity,
		Checked:  countChecks(s.metrics), Limited: func() { s.metrics.Limited("api") }, Tell: tell, Seen: seen,
	}
	s.calls = calls
	calls.Connected, calls.Resources = s.Upstream != nil, s.Resources()
	var dev http.Handler
	if s.options.Dev != nil {
		dev = s.options.Dev.Pages(site) // before pages are shown: it says what they show
	}
	admins := &orgadmin.Server{Site: site, SignIn: s.page.SignIn}
	doors := dispatch{desktop: s.desktop, oauth: clients.Handler(), consent: s.page.Handler(admins.Pages()), api: calls.Handler(), more: calls.Resources, upstreams: s.behind(calls, base), dev: dev}
	s.seen = newSeenAddresses()
	return &Gate{Next: doors, Base: s.base, Address: s.address, Seen: s.seen.request, Log: s.log, Level: s.options.Level, JSON: s.options.Requests, Draining: &s.draining, Count: s.metrics.Request,
		Traces: s.traces, Trusts: func(r *http.Request) bool { return s.present().Proxies.Trusts(r) }}
}

// documentHosts are those whose client ID metadata documents are believed now.
func (s *Server) documentHosts() []string { return s.present().Clients.MetadataDocuments }

// newClients counts clients that come by their metadata documents as registrations: of
// their networks too, whether or not many wait, since each has this server ask another one.
func (s *Server) newClients(registrations, networks *limit.Addresses) func(netip.Addr, time.Time) (store.Origin, bool, time.Duration) {
	return func(a netip.Addr, now time.Time) (from store.Origin, ok bool, wait time.Duration) {
		from = store.Origin{Network: limit.Block(a), Multiple: networks.Multiple(a)}
		if ok, wait = registrations.Allow(a, now); ok {
			ok, wait = networks.Allow(a, now)
		}
		return from, ok, wait
	}
}

// behind connects the services: MCP servers to the door of calls, and gives the
// others by their path.
func (s *Server) behind(calls *api.Server, base func(*http.Request) string) map[string]http.Handler {
	s.proxies, calls.MCP = map[string]*mcp.Server{}, map[string]http.Handler{}
	upstreams, all := map[string]http.Handler{}, s.Guarded
	if s.Upstream != nil {
		all = append(slices.Clip(all), config.GuardedPath{Resource: client.Resource{Path: config.UpstreamPath}, URL: s.Upstream})
	}
	if s.MCPUpstream != nil {
		all = append(slices.Clip(all), s.OwnMCP())
	}
	_, most := connections(s.hasServices())
	ofAPI, ofMCP := gateway.NewStreams(calls, most), mcp.NewStreams(calls, min(s.MCP.Streams, most), int64(s.MCP.MaxBody))
	for _, one := range all {
		if !one.MCP {
			to := &gateway.Upstream{URL: one.URL, Key: s.serviceKey, API: calls, Streams: ofAPI, Base: base, Address: s.address, Log: s.log}
			upstreams[one.Path] = calls.Guard(to.Handler())
			continue
		}
		s.proxies[one.Path] = &mcp.Server{
			Path: config.RuledAt(one.Path), URL: one.URL, Key: s.serviceKey, API: calls, Base: base, Address: s.address, Log: s.log,
			Wait: time.Duration(s.MCP.Wait), MaxBody: int64(s.MCP.MaxBody), Streams: ofMCP,
		}
		calls.MCP[one.Path] = s.proxies[one.Path].Handler()
	}
	return upstreams
}

// preview asks the service what choices would give; nil where it does not say.
func (s *Server) preview() func(context.Context, string, []grantset.Authority) (identity.PreviewAnswer, bool) {
	if s.PreviewURL == nil {
		return nil
	}
	return (&gateway.Previews{URL: s.PreviewURL, Key: s.serviceKey, Now: s.store.Now, Log: s.log}).Ask
}

// tool is what an organization was told of a tool of the MCP endpoint at a path, ""
// the contract's.
func (s *Server) tool(organization, at, name string) (title string, reads rules.Known) {
	proxy := s.proxies[cmp.Or(at, client.MCPPath)]
	if proxy == nil {
		return "", rules.Unknown
	}
	return proxy.Tool(organization, name)
}

// pagesOfOAuth are the paths among those of the authorization server that answer people.
var pagesOfOAuth = func() map[string]bool {
	all := map[string]bool{}
	for _, pattern := range consent.Patterns() {
		if _, path, _ := strings.Cut(pattern, " "); client.Below(path, config.OAuthRoot) && !client.Below(path, client.DesktopPath) {
			all[path] = true
		}
	}
	return all
}()

// dispatch sends each path to its door.
type dispatch struct {
	desktop             func() bool
	oauth, consent, api http.Handler
	more                client.Resources
	upstreams           map[string]http.Handler // services, by the path of their resource
	dev                 http.Handler            // /dev/client, under dev alone
}

func (d dispatch) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	of, guarded := d.more.Of(path)
	switch {
	case pagesOfOAuth[path], client.Below(path, client.DesktopPath) && d.desktop():
		d.consent.ServeHTTP(w, r)
	case strings.HasPrefix(path, config.OAuthRoot+"/"), strings.HasPrefix(path, config.WellKnownRoot+"/"):
		d.oauth.ServeHTTP(w, r)
	case guarded && d.upstreams[of.Path] != nil && path != config.MePath:
		r.Pattern = of.Path + "/"
		d.upstreams[of.Path].ServeHTTP(w, r)
	case guarded, client.Below(path, config.APIRoot):
		r.Pattern = "/api/" // until the door says more
		d.api.ServeHTTP(w, r)
	case d.dev != nil && path == DevPath:
		r.Pattern = DevPath
		d.dev.ServeHTTP(w, r)
	default:
		d.consent.ServeHTTP(w, r)
	}
}

// operators is what the operators' listener answers with.
func (s *Server) operators() http.Handler {
	running := s.version
	if running.Mode = "serve"; s.options.Dev != nil {
		running.Mode = "dev"
	}
	door := &operator.Server{
		Store: s.store, Log: s.log, Tell: tell, Password: func() string { return s.present().Password }, Version: running, OwnHosts: s.ownHosts, Ring: s.Ring,
		Draining: s.draining.Load, HashPassword: signin.Hash, SamePassword: signin.Matches, Clock: s.clock(),
		Metrics: s.metrics, ReadKeys: s.readKeys, Seen: s.seen.seen, Limits: s.limits,
		ResetLink: s.resetLink(), MailReset: s.mailReset(),
		Rules: func() *rules.Rules { return s.present().Ruled }, Unnamed: &s.unnamed,
		Operators: func() []operator.Named { return s.present().Named }, MatchPassword: matchOperators(),
		ConsoleURL: func() string { return s.present().ConsoleURL },
	}
	door.Console = (&console.Server{API: door, Service: s.Service.Name, Hosts: s.shownHosts, Providers: s.page.SignIn.Providers, Doctor: s.doctor(), Calls: s.organizationCalls}).Router()
	s.metrics.Gauges = s.gauges
	// No proxy is believed here: the peer is the operator.
	return &Gate{Next: s.onlyOperatorHosts(door.Handler()), Address: limit.Proxies{}.ClientAddr, Log: s.log, Level: s.options.Level, JSON: s.options.Requests,
		Count: s.metrics.Request, Traces: s.traces}
}

// doctor runs the checks for the console; nil where nobody has said how.
func (s *Server) doctor() func(context.Context) []operator.Finding {
	if s.options.Doctor == nil {
		return nil
	}
	return func(ctx context.Context) []operator.Finding {
		return s.options.Doctor(ctx, s.OperatorAddr(), s.present().Password)
	}
}

// organizationCalls says how many calls an organization has made in the window of its
// limit, and how many it may.
func (s *Server) organizationCalls(organization string) (made, most int) {
	most = s.API.RateLimit.N
	if own := s.present().APILimits[organization]; own > 0 {
		most = own
	}
	return most - s.calls.Limit.Remaining(organization, most, s.store.Now()), most
}

// matchOperators compares the passwords of operators who sign in by name.
func matchOperators() func(ctx context.Context, hash string, all []string, password string) (bool, error) {
	passwords := signin.NewPasswords()
	return func(ctx context.Context, hash string, all []string, password string) (bool, error) {
		right, err := passwords.Matches(ctx, hash, all, password)
		if errors.Is(err, signin.ErrBusy) {
			err = operator.ErrBusy
		}
		return right, err
	}
}

// clock moves the clock of dev; nil where it is the machine's.
func (s *Server) clock() func(context.Context, operator.ClockMove) (operator.ClockState, error) {
	if s.options.Dev == nil {
		return nil
	}
	return func(ctx context.Context, m operator.ClockMove) (operator.ClockState, error) {
		state, ok := s.options.Dev.Clock(m)
		if !ok {
			return state, operator.ErrAhead
		}
		if m.By != 0 {
			s.sweep(ctx) // what the new time has ended goes at once
		}
		return state, nil
	}
}

// gateways is what the gateways' listener answers with, after public.
func (s *Server) gateways() http.Handler {
	door := &gateway.Server{API: s.calls, Keys: func() []gateway.Key { return s.present().Gateways }, Base: s.base, Host: s.firstHost, Log: s.log}
	// Whatever host is asked: a proxy may pass on the original's, and what
	// counts is in its question.
	return &Gate{Next: door.Handler(), Address: limit.Proxies{}.ClientAddr, Log: s.log, Level: s.options.Level, JSON: s.options.Requests, Count: s.metrics.Request,
		Traces: s.traces, Trusts: func(*http.Request) bool { return true }}
}

// signIn is how people sign in to the pages of a site.
func (s *Server) signIn(site *page.Site) *signin.Server {
	door := &signin.Server{Site: site, HandOff: s.HandOff, Fresh: time.Duration(s.SignIn.Fresh), Forgotten: s.forgotten()}
	if s.SignIn.Strong != "off" {
		door.Strong = signin.Strength(s.SignIn.Strong)
	}
	for _, c := range s.Providers {
		door.Providers = append(door.Providers, provider.New(c, func() time.Time { return s.store.Now() }))
	}
	return door
}

// readKeys gives the key file of this process as it is now.
func (s *Server) readKeys() ([]*token.Key, error) {
	if s.SecretKeyFile == "" {
		return nil, nil // dev in memory has none
	}
	return config.ReadKeys(s.SecretKeyFile)
}

// forSample is what dev's listener for the sample answers with, after public. A
// call would stand in the log twice and thrice: what the sample asks does not.
func (s *Server) forSample() http.Handler {
	door := &gateway.Server{API: s.calls, Keys: func() []gateway.Key { return s.Gateways }, Base: s.base, Host: func() string { return "127.0.0.1" }, Log: s.log}
	return &Gate{Next: door.Handler(), Address: limit.Proxies{}.ClientAddr, Log: s.log, JSON: io.Discard,
		Count: func(string, string, int, time.Duration) {}, Trusts: func(*http.Request) bool { return true }}
}

// HashPassword gives the PHC string of a password, for the operators of a
// configuration.
func HashPassword(password string) string { return signin.Hash(password) }
