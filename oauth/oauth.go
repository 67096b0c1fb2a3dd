// Package oauth is the door for clients: metadata, registration, token and
// revocation (spec sections 4.2 to 4.4). It reads requests and writes answers;
// what they mean is decided in the rooms below.
package oauth

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/dpop"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// Server answers clients. Set the fields and call Handler once.
type Server struct {
	Store   *store.Store
	Ring    *token.Ring
	Log     *slog.Logger
	Service string // name of the protected service; also the realm

	// Base gives {base}, the configured base URL whose host was asked, without
	// a trailing slash (decision M1). It is never empty: other hosts do not
	// get here.
	Base func(*http.Request) string
	// Address gives the address that the request counts for (decision L2).
	Address func(*http.Request) netip.Addr
	// Resources are those that have a document and may be asked for beside the
	// contract's (decision V60).
	Resources client.Resources
	// TakesDocuments, unless nil, says whether client ID metadata documents are believed now.
	TakesDocuments func() bool
	// OwnHosts gives the hosts of the service, lower case and without port, at
	// which no client may live (decision R2).
	OwnHosts func() []string

	// Desktop says whether programs on people's own computers may connect now
	// (decision A15). Nil is no.
	Desktop func() bool

	// The limits per address of spec section 8. A nil one is made, as the
	// contract has it. TokenLimit is of /oauth/token and /oauth/revoke together.
	TokenLimit, RegisterLimit *limit.Addresses
	// NetworkLimit is RegisterLimit of a whole /24 or /48: it counts while too many
	// clients wait for their first approval (decision L1). A nil one is made.
	NetworkLimit *limit.Addresses

	// Count, unless nil, is told the outcome of every request that was not a
	// preflight, for the metrics. endpoint is "register", "token" or "revoke".
	// result is "ok" or the error code. reason is one of few words that say
	// more, or empty: with "ok" the grant type, with a refused token the
	// verdict. Nothing of the request itself is in them.
	Count func(endpoint, result, reason string)

	// Tell, unless nil, is told what the log says of a request beside its answer:
	// the client, once it is known to be one, the approval, and the error code.
	// What is empty says nothing.
	Tell func(w http.ResponseWriter, client string, of approval.ID, fault string)

	// Seen, unless nil, is told of each step of a client that comes by here. It does
	// not wait.
	Seen func(*http.Request, attempt.Observation)

	networks budget       // of registrations under pressure
	opens    func() error // nil is Store.Opens; tests make it fail

	holders dpop.Keys // of clients that sent proofs of late

	bases sync.Map     // from documentsAt to documents
	known atomic.Int32 // how many of them
}

// Handler gives the endpoints of this door. It answers every path, with 404
// where it has nothing; /oauth/authorize and all pages are another door's.
// Paths are compared as they are: nobody is redirected to another spelling, and
// a slash that is escaped is no slash (RFC 3986 section 2.2).
func (s *Server) Handler() http.Handler {
	if s.TokenLimit == nil {
		s.TokenLimit = limit.NewAddresses(limit.Token, nil)
	}
	if s.RegisterLimit == nil {
		s.RegisterLimit = limit.NewAddresses(limit.Register, nil)
	}
	if s.NetworkLimit == nil {
		s.NetworkLimit = limit.NewBlocks(limit.Register, nil)
	}
	tokens := newBudget(s.TokenLimit, limit.NewAddresses, limit.Token)
	registrations := newBudget(s.RegisterLimit, limit.NewAddresses, limit.Register)
	s.networks = newBudget(s.NetworkLimit, limit.NewBlocks, limit.Register)

	routes := map[string]http.HandlerFunc{
		"/.well-known/oauth-authorization-server": s.metadata(authorizationServer),
		"/.well-known/oauth-protected-resource":   s.metadata(mcpResource), // decision M4

		"/oauth/register": s.post(registrations, s.register),
		tokenPath:         s.post(tokens, s.token),
		"/oauth/revoke":   s.post(tokens, s.revoke),
	}
	for i, of := range s.Resources.All() {
		routes["/.well-known/oauth-protected-resource"+of.Path] = s.metadata(apiResource + i)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := routes[r.URL.Path]
		if !ok || escapedSlash(r.URL) {
			s.sawMetadata(r, "", false)
			nothing(w, r)
			return
		}
		r.Pattern = r.URL.Path // as a ServeMux would, for whoever logs the request
		answer(w, r)
	})
}

// escapedSlash reports whether the path has a slash that came as %2F.
func escapedSlash(u *url.URL) bool {
	return u.RawPath != "" && strings.Count(u.RawPath, "/") != strings.Count(u.Path, "/")
}

// nothing answers the paths that are not here: client management (decision
// R5), OpenID's configuration and other well-knowns (decision M4).
func nothing(w http.ResponseWriter, r *http.Request) {
	r.Pattern = "/oauth/"
	if strings.HasPrefix(r.URL.Path, "/.well-known/") {
		r.Pattern = "/.well-known/"
		allowEveryOrigin(w.Header())
		if preflight(w, r, "GET, HEAD") {
			return
		}
	}
	(&Error{Status: http.StatusNotFound, Code: "not_found", Description: "there is nothing at this path"}).write(w)
}

// call is one request to an endpoint.
type call struct {
	*http.Request
	address   netip.Addr
	reference string // request ID
	w         http.ResponseWriter
	seen      *seen
}

// act says who makes a change with this call, for the journal.
func (c call) act(clientID string) store.Act {
	return store.Act{Actor: "client:" + clientID, Address: c.address.String(), Reference: c.reference}
}

// answer is a success in JSON.
type answer struct {
	status int
	body   []byte
	reason string // for Server.Count
}

// post gives the handler of an endpoint that takes POST alone. A preflight is
// answered first, and uncounted (decision M5). Then every request counts,
// whatever its method and outcome (decision L1).
func (s *Server) post(b budget, endpoint func(call) (answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		allowEveryOrigin(w.Header())
		if r.URL.Path == tokenPath {
			w.Header()["Access-Control-Expose-Headers"] = exposedAtToken
		}
		if preflight(w, r, http.MethodPost) {
			s.sawPreflight(r, stepAt(r.URL.Path))
			return
		}
		c := call{r, s.Address(r), w.Header().Get("X-Request-Id"), w, &seen{step: stepAt(r.URL.Path)}}
		a, err := s.answer(c, b, endpoint)
		if err != nil {
			e := s.outward(c, err)
			s.count(c, e.Code, e.reason)
			s.tell(c, "", approval.ID{}, e.Code)
			s.saw(c, e)
			e.write(w)
			return
		}
		s.count(c, "ok", a.reason)
		s.saw(c, nil)
		writeJSON(w, a.status, a.body)
	}
}

func (s *Server) answer(c call, b budget, endpoint func(call) (answer, error)) (answer, error) {
	if err := s.spend(c, b); err != nil {
		return answer{}, err
	}
	if c.Method != http.MethodPost {
		return answer{}, methodNotAllowed(http.MethodPost)
	}
	return endpoint(c)
}

// outward gives what the client is told of an error, and logs it if it is
// ours.
func (s *Server) outward(c call, err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, store.ErrOutcome):
		return uncertain
	case errors.Is(err, store.ErrUnavailable),
		c.Context().Err() != nil && errors.Is(err, c.Context().Err()): // the client has gone
		return unavailable
	}
	s.Log.ErrorContext(c.Context(), "request failed", "request_id", c.reference, "route", c.Pattern, "err", err)
	return refuse(http.StatusInternalServerError, "server_error", "something went wrong here, reference "+c.reference)
}

func (s *Server) tell(c call, client string, of approval.ID, fault string) {
	c.seen.know(client, of)
	if s.Tell != nil {
		s.Tell(c.w, client, of, fault)
	}
}

func (s *Server) count(c call, result, reason string) {
	if s.Count != nil {
		s.Count(strings.TrimPrefix(c.Pattern, "/oauth/"), result, reason)
	}
}

// budget is what each address may ask of an endpoint.
type budget struct {
	requests *limit.Addresses
	events   *limit.Addresses // rate_limited: once per address, or network, and window (decision J1)
}

func newBudget(requests *limit.Addresses, counter func(limit.Limit, limit.Networks) *limit.Addresses, of limit.Limit) budget {
	return budget{requests, counter(limit.Limit{N: 1, Window: of.Window}, nil)}
}

// spend takes one request from the address's budget.
func (s *Server) spend(c call, b budget) error {
	now := s.Store.Now()
	ok, wait := b.requests.Allow(c.address, now)
	if ok {
		return nil
	}
	if first, _ := b.events.Allow(c.address, now); first {
		s.Store.Record(store.Event{
			Kind: journal.RateLimited, Address: c.address.String(), Detail: c.Pattern, Reference: c.reference,
		})
	}
	return &Error{
		Status: http.StatusTooManyRequests, Code: "temporarily_unavailable", reason: "limited",
		Description: "too many requests from this address, wait for the seconds of Retry-After",
		header:      "Retry-After", value: limit.RetryAfter(wait),
	}
}
