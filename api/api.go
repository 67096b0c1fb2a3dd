// Package api is the door for calls: it checks the bearer token or API key of
// each request, counts it toward its organization's limit, and answers a
// reference API v5 (spec 4.5, 5.5 and 5.7). API v3 and v4 are there to refuse
// OAuth tokens and to say whose an API key is.
//
// [Server.Guard] is the check alone, for any service that wants to stand
// behind it.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// Server is the door for calls. Its fields do not change once it answers.
type Server struct {
	Store   *store.Store
	Ring    *token.Ring
	Log     *slog.Logger                  // nil discards
	Service string                        // the service's name: the realm of every challenge
	Base    func(*http.Request) string    // {base} of the host that was asked (decision M1)
	Limit   *limit.Names                  // requests of an organization, API keys and OAuth together (decision B6)
	LimitOf func(organization string) int // requests in the limit's window; 0 is the limit's own; nil is 0 for all
	MCP     http.Handler                  // answers /api/v5/mcp behind the guard; nil is 404
	Checked func(result Result)           // is told how each check went; nil is nobody

	standing func(context.Context, approval.ID) (store.Access, error) // nil is Store.Check; tests make it fail
}

// Handler serves everything under /api. It routes by itself, because
// http.ServeMux answers an unclean path with a redirect, and here is never one
// (decision B5). It notes the route in the request's Pattern, as that does.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		path := r.URL.Path
		r.Pattern = pattern(path)
		switch {
		case preflight(w, r):
		case below(path, v5Path):
			if a, ok := s.admit(w, r, false); ok {
				s.v5(w, r, a, path)
			}
		case below(path, "/api/v3"), below(path, "/api/v4"):
			if a, ok := s.admit(w, r, true); ok {
				s.legacy(w, r, a)
			}
		default:
			s.fail(w, r, errNoPath)
		}
	})
}

// pattern is the route of a path. Those with {id} take what is one segment.
func pattern(path string) string {
	switch path {
	case "/api/v5/me", "/api/v5/people", "/api/v5/circles", "/api/v5/roles", mcpPath, "/api/v4/me", "/api/v3/me":
		return path
	}
	for _, of := range []string{"/api/v5/people/{id}", "/api/v5/circles/{id}", "/api/v5/roles/{id}"} {
		if id, ok := strings.CutPrefix(path, strings.TrimSuffix(of, "{id}")); ok && id != "" && !strings.Contains(id, "/") {
			return of
		}
	}
	return "/api/"
}

// v5 answers the reference API.
func (s *Server) v5(w http.ResponseWriter, r *http.Request, a Actor, path string) {
	id := path[strings.LastIndexByte(path, '/')+1:]
	switch r.Pattern {
	case "/api/v5/me":
		s.get(w, r, a, s.me)
	case "/api/v5/people":
		s.get(w, r, a, list(s.People))
	case "/api/v5/people/{id}":
		s.get(w, r, a, one(id, s.Person))
	case "/api/v5/circles":
		s.get(w, r, a, list(s.Circles))
	case "/api/v5/circles/{id}":
		s.get(w, r, a, one(id, s.Circle))
	case "/api/v5/roles":
		s.get(w, r, a, list(s.Roles))
	case "/api/v5/roles/{id}":
		s.get(w, r, a, one(id, s.Role))
	case mcpPath:
		if s.MCP == nil {
			s.fail(w, r, errNoPath)
			return
		}
		s.MCP.ServeHTTP(w, withActor(r, a))
	default:
		s.fail(w, r, errNoPath)
	}
}

// legacy answers API v3 and v4, where API keys alone work (decision B6).
func (s *Server) legacy(w http.ResponseWriter, r *http.Request, a Actor) {
	if r.Pattern == "/api/" {
		s.fail(w, r, errNoPath)
		return
	}
	s.get(w, r, a, s.me) // /api/v4/me, /api/v3/me
}
