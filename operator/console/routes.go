package console

import (
	"net/http"
	"strings"

	"github.com/grantkeeper/grantkeeper/operator"
)

// A route is one path of the console: which right it needs, and who answers. A path
// that has both is a change: GET asks for the reason, POST carries it out.
type route struct {
	path  string // of http.ServeMux, without a method
	right operator.Rights
	get   func(*Server, *visit) error
	post  func(*Server, *visit) error
}

// routes are all pages behind a sign-in: the one table of which operation needs
// which right (decision O8). Act ends or mends one thing that somebody can begin
// again; what takes somebody's place away, or lets somebody in, is Administer's.
func routes() []route {
	return []route{
		{"/{$}", operator.Read, (*Server).overview, nil},
		{"/clients", operator.Read, (*Server).clientsPage, nil},
		{"/clients/{id}", operator.Read, (*Server).clientPage, nil},
		{"/clients/{id}/disable", operator.Act, (*Server).confirmDisable, (*Server).disableClient},
		{"/clients/{id}/enable", operator.Act, (*Server).confirmEnable, (*Server).enableClient},
		{"/approvals", operator.Read, (*Server).approvalsPage, nil},
		{"/approvals/{id}/revoke", operator.Act, (*Server).confirmRevoke, (*Server).revokePage},
		{"/events", operator.Read, (*Server).eventsPage, nil},
		{"/events.jsonl", operator.Read, (*Server).eventLines, nil},
		{"/signout", operator.Read, nil, (*Server).signOut},
	}
}

// rightFor gives the right of each path.
func rightFor() map[string]operator.Rights {
	rights := map[string]operator.Rights{}
	for _, r := range routes() {
		rights[r.path] = r.right
	}
	return rights
}

// handleRoutes puts the table into a mux.
func (s *Server) handleRoutes(mux *http.ServeMux) {
	for _, r := range routes() {
		if r.get != nil {
			mux.Handle("GET "+r.path, s.handle(r.right, r.get))
		}
		if r.post != nil {
			mux.Handle("POST "+r.path, s.handle(r.right, r.post))
		}
	}
}

// firstParts are the first parts of all paths of the console.
func (s *Server) firstParts() map[string]bool {
	first := map[string]bool{"signin": true}
	for _, r := range routes() {
		part, _, _ := strings.Cut(strings.TrimPrefix(r.path, "/"), "/")
		first[part] = true
	}
	return first
}

// errNoRight refuses what an operator may not do.
var errNoRight = &operator.Error{Status: http.StatusForbidden, Code: "no_right",
	Description: "Your rights do not let you do this. Whoever installed this server gives them, in its configuration."}
