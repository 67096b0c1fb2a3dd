package api

import (
	"net/http"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/limit"
)

// Decide checks and counts a request that somebody else will answer, as
// [Server.Handler] would at its path: API v3 and v4 refuse OAuth tokens, and
// outside API v3 to v5 and Server.Resources there is nothing. It gives what the request may do at this
// moment, or answers it. It reads nothing of r but method, host, path and the headers with
// credentials.
func (s *Server) Decide(w http.ResponseWriter, r *http.Request) (Rights, bool) {
	setHeaders(w.Header(), r)
	legacy := client.Below(r.URL.Path, "/api/v3") || client.Below(r.URL.Path, "/api/v4")
	if _, ok := s.Resources.Of(r.URL.Path); !legacy && !ok {
		s.fail(w, r, errNoPath)
		return Rights{}, false
	}
	a, ok := s.admit(w, r, legacy)
	if !ok {
		return Rights{}, false
	}
	return s.exact(w, r, a)
}

// exact gives what an actor may do for somebody else to refuse by, who cannot ask
// again: by nothing that is remembered (decision B8). Or it answers the request.
func (s *Server) exact(w http.ResponseWriter, r *http.Request, a Actor) (Rights, bool) {
	if !a.first.remembered {
		return s.rights(a, a.first), true
	}
	now, err := s.Now(r.Context(), a)
	if err != nil {
		s.fail(w, r, err)
		return Rights{}, false
	}
	return now, true
}

// Left says how many requests an organization may make in any window, and how
// many of them it has left now (decision B6). It takes none.
func (s *Server) Left(organization string) (of limit.Limit, remaining int) {
	of = s.Limit.Limit()
	of.N = s.limitOf(organization)
	return of, s.Limit.Remaining(organization, of.N, s.Store.Now())
}
