// Package api is the door for calls: it checks the bearer token or API key of
// each request, counts it toward its organization's limit, and says who it acts for
// (spec 4.5, 5.5 and 5.7). The rest of API v5 is a service's. API v3 and v4 are
// there to refuse OAuth tokens and to say whose an API key is.
//
// [Server.Guard] is the check alone, for any service that wants to stand
// behind it.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// Server is the door for calls. Its fields do not change once it answers.
type Server struct {
	Store     *store.Store
	Ring      *token.Ring
	Log       *slog.Logger                  // nil discards
	Service   string                        // the service's name: the realm of every challenge
	Base      func(*http.Request) string    // {base} of the host that was asked (decision M1)
	Limit     *limit.Names                  // requests of an organization, API keys and OAuth together (decision B6)
	LimitOf   func(organization string) int // requests in the limit's window; 0 is the limit's own; nil is 0 for all
	Resources client.Resources              // that are guarded beside API v5 (decision V60)
	MCP       map[string]http.Handler       // answer MCP endpoints behind the guard, by path; nil is 404
	Connected bool                          // a service answers the rest of /api/v5, before this server is asked
	Checked   func(result Result)           // is told how each check went; nil is nobody
	Rules     func() *rules.Rules           // of the service behind (decision V20); nil is none
	Unnamed   *rules.Tally                  // counts what they deny because they do not name it; nil is not counted
	Activity  *store.Recorder               // keeps what calls do; nil keeps nothing
	// Tell, unless nil, is told who a request acts for, for the log.
	Tell func(w http.ResponseWriter, client string, of approval.ID, fault string)
	// Seen, unless nil, is told of each step of a client that comes by here. It does
	// not wait, and of a client that works it is told once.
	Seen    func(*http.Request, attempt.Observation)
	Limited func() // is told of each request over its organization's limit; nil is nobody

	itemsSaid atomic.Int64 // when it was logged last that items cannot be read, in Unix seconds

	standing func(context.Context, approval.ID) (store.Access, error) // nil is Store.Check; tests make it fail
}

// Handler serves everything under /api, and other MCP endpoints. It routes by itself, because
// http.ServeMux answers an unclean path with a redirect, and here is never one
// (decision B5). It notes the route in the request's Pattern, as that does.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header(), r)
		path := r.URL.Path
		r.Pattern = s.route(r.URL)
		_, guarded := s.Resources.Of(path)
		switch {
		case preflight(w, r):
			s.sawPreflight(r)
		case guarded:
			if a, ok := s.admit(w, r, false); ok {
				s.v5(w, r, a)
			}
		case client.Below(path, "/api/v3"), client.Below(path, "/api/v4"):
			if a, ok := s.admit(w, r, true); ok {
				s.legacy(w, r, a)
			}
		default:
			s.fail(w, r, errNoPath)
		}
	})
}

// v5 answers where no service does.
func (s *Server) v5(w http.ResponseWriter, r *http.Request, a Actor) {
	switch {
	case s.MCP[r.Pattern] != nil:
		s.MCP[r.Pattern].ServeHTTP(w, withActor(r, a))
	case r.Pattern == client.MCPPath:
		s.fail(w, r, notConnected("mcp.upstream"))
	case r.Pattern == mePaths[0]:
		s.me(w, r, a)
	case s.Connected, !client.Below(r.URL.Path, client.APIPath):
		s.fail(w, r, errNoPath)
	default:
		s.fail(w, r, notConnected("api.upstream"))
	}
}

// notConnected says that nobody answers, and what would mend it (decision V46).
func notConnected(setting string) *Fault {
	return &Fault{Status: 404, Code: "not_found", Description: "No service is connected here yet: the operator sets " + setting + "."}
}

// legacy answers API v3 and v4, where API keys alone work (decision B6).
func (s *Server) legacy(w http.ResponseWriter, r *http.Request, a Actor) {
	if r.Pattern == "/api/" {
		s.fail(w, r, errNoPath)
		return
	}
	s.me(w, r, a)
}
