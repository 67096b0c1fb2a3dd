// Package operator is the door for operators, on its own listener: an API in
// JSON to look at people, organizations, clients, approvals and the journal
// and to change them, and the health of the process (decisions O1 to O3).
package operator

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"unicode"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/metrics"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// User is the only name that signs in here (decision O1).
const User = "operator"

// Server answers operators. Set the fields and call Handler once.
type Server struct {
	Store *store.Store
	Log   *slog.Logger // nil discards

	// Address is the client address, for the journal; nil is the TCP peer.
	Address func(*http.Request) netip.Addr
	// Password opens /v1, as it is now. While it is "", /v1 is off: 404.
	Password func() string
	// Version is what /version tells.
	Version Version
	// Draining reports that the process is about to end, so that /readyz
	// sends nobody here any more; nil is never.
	Draining func() bool

	// Metrics answers GET /metrics, and gives the console its numbers; nil is
	// 404, and fewer numbers.
	Metrics *metrics.Metrics

	// Console gives what answers a path of the console, and nil for a path that
	// is not one; nil has no console.
	Console func(path string) http.Handler

	// Limits are counted for all nodes together; nil is each in its memory.
	Limits *limit.Valkey
	// Seen says from where requests came of late; nil does not know.
	Seen func() Seen
	// ReadKeys gives the keys of the key file as it is now; nil where there is
	// no file.
	ReadKeys func() ([]*token.Key, error)

	// Rules are those of the service behind; nil is none, and Unnamed counts the
	// calls that they deny because they do not name them; nil knows of none.
	Rules   func() *rules.Rules
	Unnamed *rules.Tally

	// HashPassword gives the PHC string of a password, for people who are
	// added with one; nil refuses them.
	HashPassword func(password string) string
	// SamePassword reports whether a PHC string is of a password; nil is never.
	SamePassword func(hash, password string) bool

	// ResetLink is the address at which the secret of a reset link is taken;
	// nil makes no links.
	ResetLink func(secret string) string
	// MailReset mails a reset link to a person, and reports whether it will;
	// nil where no mail is sent.
	MailReset func(name, address, link string) bool

	// OwnHosts are the names of this server, which no client's redirect URI
	// may have (decision R2).
	OwnHosts []string
	// Ring opens tokens that somebody asks about; nil opens none.
	Ring *token.Ring

	// Clock moves the server's clock and says where it stands then. It is
	// there under dev alone; nil is 404.
	Clock func(context.Context, ClockMove) (ClockState, error)

	passwords passwordLimits
}

// metricsPattern is the one path here that does not answer in JSON.
const metricsPattern = "GET /metrics"

// Version says what runs. Its members are fixed, others may be added.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	Schema  int    `json:"schema"`
	Mode    string `json:"mode,omitempty"` // dev or serve, of a server
}

// Handler gives every path of this listener.
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
	s.reading(v1)
	s.changing(v1)
	s.installation(v1)
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

// reading are the paths of decision O2, and the question why an approval does
// or does not let its client do something.
func (s *Server) reading(mux *http.ServeMux) {
	mux.Handle("GET /v1/people", s.answer(s.people))
	mux.Handle("GET /v1/people/{id}", s.answer(s.person))
	mux.Handle("GET /v1/organizations", s.answer(s.organizations))
	mux.Handle("GET /v1/organizations/{id}", s.answer(s.organization))
	mux.Handle("GET /v1/directory", s.answer(s.exportDirectory))
	mux.Handle("GET /v1/clients", s.answer(s.clients))
	mux.Handle("GET /v1/clients/{id}", s.answer(s.client))
	mux.Handle("GET /v1/approvals", s.answer(s.approvals))
	mux.Handle("GET /v1/approvals/{id}", s.answer(s.approval))
	mux.Handle("GET /v1/approvals/{id}/explain", s.answer(s.explain))
	mux.Handle("GET /v1/ids", s.answer(s.ids))
	mux.Handle("GET /v1/events", s.answer(s.events))
	mux.Handle("GET /v1/events/{id}", s.answer(s.event))
	mux.Handle("GET /v1/dev/clock", s.answer(s.readClock))
}

// changing are the paths of decision O3, the import of a directory, and the
// clock of dev.
func (s *Server) changing(mux *http.ServeMux) {
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
	mux.Handle("POST /v1/directory", s.answer(s.importDirectory))
	mux.Handle("POST /v1/dev/clock", change(s, s.moveClock))
}

// Call is one request.
type Call struct {
	*http.Request
	Address   netip.Addr
	Reference string // request ID
	Actor     string // operator, or operator:NAME
}

func (s *Server) NewCall(w http.ResponseWriter, r *http.Request) Call {
	return Call{r, s.Address(r), w.Header().Get("X-Request-Id"), actor(r)}
}

// UserHeader names the person at the keyboard: the operating-system user of the
// command. Whoever has the password may write anything there, so it says who
// and proves nothing.
const UserHeader = "X-Operator-User"

// actor is who the journal names. What is no plain name is left out.
func actor(r *http.Request) string {
	name := r.Header.Get(UserHeader)
	plain := func(c rune) bool {
		return c < 0x80 && (unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune("._-@\\", c))
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(c rune) bool { return !plain(c) }) {
		return User
	}
	return User + ":" + name
}

// Act says who makes a change, for the journal.
func (c Call) Act(reason string) store.Act {
	return store.Act{Actor: c.Actor, Address: c.Address.String(), Reference: c.Reference, Reason: reason}
}

// answer turns what a handler returns into JSON. What comes with an error is
// not looked at.
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

// change answers a request whose body is a T.
func change[T interface{ reason() string }](s *Server, f func(Call, T) (any, error)) http.Handler {
	return s.answer(func(c Call) (any, error) {
		var body T
		if err := decode(c, &body); err != nil {
			return nil, err
		}
		return f(c, body)
	})
}

// Guard lets in who knows the password, and no page of another site: browsers
// send a password that they once learned by themselves.
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
			refuse(w, c, &Error{Status: http.StatusForbidden, Code: "cross_site",
				Description: "this request was sent by a page of another site"})
		default:
			next.ServeHTTP(w, r)
		}
	})
}
