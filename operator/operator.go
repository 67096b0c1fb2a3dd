// Package operator is the door for operators, on its own listener: an API in JSON
// that lists and changes people, organizations, clients and approvals and reads the
// journal, the metrics, and the health of the process (decisions O1 to O3). Its
// console is the package below it.
package operator

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/metrics"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// User is the only user name of HTTP Basic here (decision O1).
const User = "operator"

// Server answers operators. Set the fields and call Handler once.
type Server struct {
	Store *store.Store
	Log   *slog.Logger // nil discards
	// Tell, unless nil, is told the error code of a refusal, for the log.
	Tell func(w http.ResponseWriter, client string, of approval.ID, fault string)

	// Address returns the client address, for the journal and the limit on wrong
	// passwords; nil is the TCP peer.
	Address func(*http.Request) netip.Addr
	// Password returns the password of /v1 as it is now. While it is "", /v1 and
	// the console are off: 404.
	Password func() string
	// Operators returns those who sign in at the console by name, as they are now;
	// nil has none.
	Operators func() []Named
	// MatchPassword reports whether a PHC string is of a password. It costs the same
	// whichever of all it is, and for "". ErrBusy: as many are compared as may be.
	MatchPassword func(ctx context.Context, hash string, all []string, password string) (bool, error)
	// ConsoleURL returns where browsers reach the console, without a path; "", or nil,
	// is unknown.
	ConsoleURL func() string
	// Ways are the providers by which operators sign in at the console, issuers by ID.
	// The console sets it.
	Ways map[string]string
	// Version is the answer to /version.
	Version Version
	// Draining reports that the process is about to end, which makes /readyz
	// answer 503; nil is never.
	Draining func() bool

	// Metrics answers GET /metrics and counts for the console; nil is 404, and a
	// console with fewer numbers.
	Metrics *metrics.Metrics

	// Console returns the handler of a path of the console, and nil for any other
	// path; nil has no console.
	Console func(path string) http.Handler

	// Limits counts wrong passwords for all nodes together; nil counts in memory.
	Limits *limit.Valkey
	// Seen says from which addresses the public listener had requests; nil says
	// nothing.
	Seen func() Seen
	// ReadKeys reads the key file as it is now; nil where there is none.
	ReadKeys func() ([]*token.Key, error)

	// Rules returns the rules of the service behind, nil without rules. Unnamed
	// counts the calls that were denied because no rule names them. Both may be nil.
	Rules   func() *rules.Rules
	Unnamed *rules.Tally

	// HashPassword returns the PHC string of a password; nil refuses requests that
	// set a password.
	HashPassword func(password string) string
	// SamePassword reports whether a PHC string is of a password; nil reports
	// false.
	SamePassword func(hash, password string) bool

	// ResetLink returns the URL of a reset link with a secret; nil makes no links.
	ResetLink func(secret string) string
	// MailReset queues the mail of a reset link, and reports whether the queue took
	// it; nil where no mail is sent.
	MailReset func(name, address, link string) bool

	// OwnHosts gives the host names of this server, which no redirect URI may have
	// (decision R2).
	OwnHosts func() []string
	// Ring opens the tokens of POST /v1/tokens/inspect; nil opens none.
	Ring *token.Ring

	// Clock moves the server's clock and returns its state after that. Only dev
	// has one; nil is 404.
	Clock func(context.Context, ClockMove) (ClockState, error)

	passwords passwordLimits
}

// metricsPattern is the only path of the API that does not answer in JSON.
const metricsPattern = "GET /metrics"

// Version says what runs. Later releases add members and rename none.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	Schema  int    `json:"schema"`
	Mode    string `json:"mode,omitempty"` // dev or serve; "" for a command
}

// Handler answers every path of this listener.
func (s *Server) Handler() http.Handler {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Address == nil {
		s.Address = limit.Proxies{}.ClientAddr
	}
	s.passwords.start(s.Limits)

	open := http.NewServeMux()
	open.Handle("GET /livez", s.answer(s.live))
	open.Handle("GET /readyz", s.answer(s.ready))
	open.Handle("GET /healthz", s.answer(s.ready))
	open.Handle("GET /version", s.answer(s.version))
	if s.Metrics != nil {
		open.Handle(metricsPattern, s.Metrics.Handler())
	}

	v1 := http.NewServeMux()
	s.readRoutes(v1)
	s.changeRoutes(v1)
	s.installationRoutes(v1)
	closed := s.Guard(s.WithNotFound(v1, s.notFound), s.refuse)
	public := s.WithNotFound(open, s.notFound)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.URL.Path == "/v1" || strings.HasPrefix(r.URL.Path, "/v1/") {
			closed.ServeHTTP(w, r)
			return
		}
		if s.Console != nil {
			if page := s.Console(r.URL.Path); page != nil {
				page.ServeHTTP(w, r)
				return
			}
		}
		public.ServeHTTP(w, r)
	})
}

// readRoutes are the paths of decision O2, and the explanation of an approval.
func (s *Server) readRoutes(mux *http.ServeMux) {
	mux.Handle("GET /v1/people", s.answer(s.people))
	mux.Handle("GET /v1/people/{id}", s.answer(s.person))
	mux.Handle("GET /v1/organizations", s.answer(s.organizations))
	mux.Handle("GET /v1/organizations/{id}", s.answer(s.organization))
	mux.Handle("GET /v1/organizations/{id}/policy", s.answer(s.policy))
	mux.Handle("GET /v1/organizations/{id}/requests", s.answer(s.requests))
	mux.Handle("GET /v1/organizations/{id}/connections", s.answer(s.connections))
	mux.Handle("GET /v1/directory", s.answer(s.exportDirectory))
	mux.Handle("GET /v1/clients", s.answer(s.clients))
	mux.Handle("GET /v1/clients/{id}", s.answer(s.client))
	mux.Handle("GET /v1/approvals", s.answer(s.approvals))
	mux.Handle("GET /v1/approvals/{id}", s.answer(s.approval))
	mux.Handle("GET /v1/approvals/{id}/activity", s.answer(s.activity))
	mux.Handle("GET /v1/approvals/{id}/explain", s.answer(s.explain))
	mux.Handle("GET /v1/ids", s.answer(s.ids))
	mux.Handle("GET /v1/events", s.answer(s.events))
	mux.Handle("GET /v1/events/{id}", s.answer(s.event))
	mux.Handle("GET /v1/events/anchor", s.answer(s.anchor))
	mux.Handle("GET /v1/events/blocks", s.answer(s.blocks))
	mux.Handle("GET /v1/events/proof", http.HandlerFunc(s.proof))
	mux.Handle("GET /v1/activity/export", http.HandlerFunc(s.exportActivity))
	mux.Handle("GET /v1/attempts", s.answer(s.attempts))
	mux.Handle("GET /v1/attempts/reasons", s.answer(s.attemptReasons))
	mux.Handle("GET /v1/attempts/{id}", s.answer(s.attempt))
	mux.Handle("GET /v1/dev/clock", s.answer(s.readClock))
}

// changeRoutes are the paths of decision O3, the import of a directory, and dev's
// clock.
func (s *Server) changeRoutes(mux *http.ServeMux) {
	mux.Handle("POST /v1/people", change(s, s.addPerson))
	mux.Handle("POST /v1/people/{id}/password", change(s, s.setPassword))
	mux.Handle("POST /v1/people/{id}/reset-link", change(s, s.createResetLink))
	mux.Handle("POST /v1/people/{id}/reset-signin", change(s, s.resetSignIn))
	mux.Handle("POST /v1/people/{id}/deactivate", change(s, s.setActive(false)))
	mux.Handle("POST /v1/people/{id}/reactivate", change(s, s.setActive(true)))
	mux.Handle("POST /v1/organizations/{id}/members", change(s, s.setMember))
	mux.Handle("POST /v1/organizations/{id}/members/{person}/remove", change(s, s.removeMember))
	mux.Handle("POST /v1/organizations/{id}/members/{person}/admin", change(s, s.setAdmin))
	mux.Handle("POST /v1/organizations/{id}/ai-integration", change(s, s.setIntegration))
	mux.Handle("PUT /v1/organizations/{id}/policy", s.answer(s.setPolicy))
	mux.Handle("DELETE /v1/organizations/{id}/policy", change(s, s.clearPolicy))
	mux.Handle("POST /v1/organizations/{id}/requests/{request}/decision", change(s, s.decideRequest))
	mux.Handle("POST /v1/organizations/{id}/connections/reviewed", change(s, s.reviewConnections))
	mux.Handle("POST /v1/organizations/{id}/connections/exported", change(s, s.connectionsExported))
	mux.Handle("POST /v1/organizations/{id}/connections/end", change(s, s.endConnections))
	mux.Handle("POST /v1/roles/{id}/fillers", change(s, s.setFiller(true)))
	mux.Handle("POST /v1/roles/{id}/fillers/remove", change(s, s.setFiller(false)))
	mux.Handle("POST /v1/clients", change(s, s.addClient))
	mux.Handle("POST /v1/clients/delete", change(s, s.deleteUnapproved))
	mux.Handle("POST /v1/clients/{id}/delete", change(s, s.deleteClient))
	mux.Handle("POST /v1/clients/{id}/disable", change(s, s.setEnabled(false)))
	mux.Handle("POST /v1/clients/{id}/enable", change(s, s.setEnabled(true)))
	mux.Handle("POST /v1/approvals/{id}/revoke", change(s, s.revoke))
	mux.Handle("POST /v1/approvals/revoke", change(s, s.revokeMany))
	mux.Handle("POST /v1/tokens/inspect", change(s, s.inspect))
	mux.Handle("POST /v1/directory", WithoutWriteDeadline(s.answer(s.importDirectory)))
	mux.Handle("POST /v1/dev/clock", change(s, s.moveClock))
}

// Call is one request to the API or the console.
type Call struct {
	*http.Request
	Address   netip.Addr
	Reference string // the request ID, which the log has too
	Actor     string // for the journal: operator, or operator:NAME
	Who       Who    // behind a guard; zero before it
}

// NewCall reads who sent a request, and from where.
func (s *Server) NewCall(w http.ResponseWriter, r *http.Request) Call {
	c := Call{Request: r, Address: s.Address(r), Reference: w.Header().Get("X-Request-Id"), Actor: s.actor(r)}
	c.Who, _ = r.Context().Value(whoKey{}).(Who)
	if c.Who.Name != "" {
		c.Actor = User + ":" + c.Who.Name
	}
	return c
}

// UserHeader is the header in which the command sends the name of its
// operating-system user. A caller with the password may send any name, so it proves
// nothing; that of a named operator is not taken from it.
const UserHeader = "X-Operator-User"

// actor is the actor that the journal names. A header that is no plain name is left
// out.
func (s *Server) actor(r *http.Request) string {
	name := r.Header.Get(UserHeader)
	if !PlainName(name) || s.someNamed(name) {
		return User
	}
	return User + ":" + name
}

// Act is what the journal says of a change by this request.
func (c Call) Act(reason string) store.Act {
	return store.Act{Actor: c.Actor, Address: c.Address.String(), Reference: c.Reference, Reason: reason}
}

// answer writes what a handler returns as JSON. It ignores the body that comes with
// an error.
func (s *Server) answer(f func(Call) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := s.NewCall(w, r)
		body, err := f(c)
		if err != nil {
			s.refuse(w, c, err)
			return
		}
		if as, ok := body.(withStatus); ok {
			writeJSON(w, as.status, as.body)
			return
		}
		writeJSON(w, http.StatusOK, body)
	})
}

// change decodes the body of a request as a T before it calls the handler.
func change[T interface{ reason() string }](s *Server, f func(Call, T) (any, error)) http.Handler {
	return WithoutWriteDeadline(s.answer(func(c Call) (any, error) {
		var body T
		if err := decode(c, &body); err != nil {
			return nil, err
		}
		return f(c, body)
	}))
}

// Guard requires the operators' password, and refuses a request that a page of
// another site sent: a browser that knows the password adds it by itself. refuse
// writes the refusal.
func (s *Server) Guard(next http.Handler, refuse func(http.ResponseWriter, Call, error)) http.Handler {
	crossSite := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := s.NewCall(w, r)
		known, wait := s.checkPassword(c)
		switch {
		case s.Password() == "":
			refuse(w, c, &Error{Status: http.StatusNotFound, Code: "api_off",
				Description: "the operator API is off, because operator.password_file is not set"})
		case wait > 0:
			w.Header().Set("Retry-After", limit.RetryAfter(wait))
			refuse(w, c, &Error{Status: http.StatusTooManyRequests, Code: "rate_limited",
				Description: "too many wrong passwords from this address, wait for the seconds of Retry-After"})
		case !known:
			w.Header().Set("WWW-Authenticate", `Basic realm="Grantkeeper operator", charset="UTF-8"`)
			refuse(w, c, &Error{Status: http.StatusUnauthorized, Code: "unauthorized",
				Description: "sign in as operator, with the operators' password (HTTP Basic)"})
		case crossSite.Check(r) != nil:
			refuse(w, c, ErrCrossSite)
		default: // who knows the password may do everything
			serveAs(next, w, r, Who{Named: Named{Rights: Administer}})
		}
	})
}
