package api

import (
	"net/http"

	"github.com/grantkeeper/grantkeeper/limit"
)

// Decide checks and counts a request that somebody else will answer, as
// [Server.Handler] would at its path: API v3 and v4 refuse OAuth tokens, and
// outside API v3 to v5 there is nothing. It gives what the request may do at this
// moment, or answers it. It reads nothing of r but method, host, path and the headers with
// credentials.
func (s *Server) Decide(w http.ResponseWriter, r *http.Request) (Rights, bool) {
	setHeaders(w.Header(), r)
	switch path := r.URL.Path; {
	case below(path, v5Path):
		a, ok := s.admit(w, r, false)
		return s.rights(a, a.first), ok
	case below(path, "/api/v3"), below(path, "/api/v4"):
		a, ok := s.admit(w, r, true)
		return s.rights(a, a.first), ok
	}
	s.fail(w, r, errNoPath)
	return Rights{}, false
}

// Left says how many requests an organization may make in any window, and how
// many of them it has left now (decision B6). It takes none.
func (s *Server) Left(organization string) (of limit.Limit, remaining int) {
	of = s.Limit.Limit()
	of.N = s.limitOf(organization)
	return of, s.Limit.Remaining(organization, of.N, s.Store.Now())
}
