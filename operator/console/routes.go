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

// asks is a route of a change: GET asks for the reason, POST carries it out.
func asks(path string, right operator.Rights, f func(*Server, *visit) (change, error)) route {
	return route{path, right, showChange(f), changeIt(f)}
}

// routes are all pages behind a sign-in: the one table of which operation needs
// which right (decision O8). Act ends or mends one thing that somebody can begin
// again; what takes somebody's place away, or lets somebody in, is Administer's.
func routes() []route {
	return []route{
		{"/{$}", operator.Read, (*Server).overview, nil},
		{"/attempts", operator.Read, (*Server).attemptsPage, nil},
		{"/attempts/{id}", operator.Read, (*Server).attemptPage, nil},
		{"/clients", operator.Read, (*Server).clientsPage, nil},
		{"/clients/{id}", operator.Read, (*Server).clientPage, nil},
		{"/clients/{id}/disable", operator.Act, (*Server).confirmDisable, (*Server).disableClient},
		{"/clients/{id}/enable", operator.Act, (*Server).confirmEnable, (*Server).enableClient},
		{"/approvals", operator.Read, (*Server).approvalsPage, nil},
		{"/approvals/{id}/revoke", operator.Act, (*Server).confirmRevoke, (*Server).revokePage},
		{"/events", operator.Read, (*Server).eventsPage, nil},
		{"/events.jsonl", operator.Read, (*Server).eventLines, nil},
		asks("/add-client", operator.Administer, (*Server).addClient),
		asks("/clients/{id}/delete", operator.Administer, (*Server).deleteClient),
		asks("/delete-unapproved", operator.Administer, (*Server).deleteUnapproved),
		{"/approvals/{id}/activity", operator.Read, (*Server).activityPage, nil},
		{"/approvals/{id}/explain", operator.Read, (*Server).explainPage, nil},
		asks("/revoke-many", operator.Administer, (*Server).revokeMany),
		{"/inspect", operator.Read, (*Server).inspectForm, (*Server).inspectToken},
		{"/people", operator.Read, (*Server).peoplePage, nil},
		asks("/add-person", operator.Administer, (*Server).addPerson),
		{"/people/{id}", operator.Read, (*Server).personPage, nil},
		asks("/people/{id}/link", operator.Act, (*Server).sendLink),
		asks("/people/{id}/sign-out", operator.Act, (*Server).signPersonOut),
		asks("/people/{id}/reset-factor", operator.Act, (*Server).resetFactor),
		asks("/people/{id}/deactivate", operator.Administer, (*Server).deactivatePerson),
		asks("/people/{id}/reactivate", operator.Administer, (*Server).reactivatePerson),
		{"/organizations", operator.Read, (*Server).organizationsPage, nil},
		{"/organizations/{id}", operator.Read, (*Server).organizationPage, nil},
		{"/organizations/{id}/members", operator.Read, (*Server).membersPage, nil},
		asks("/organizations/{id}/turn-off", operator.Administer, (*Server).turnOff),
		asks("/organizations/{id}/turn-on", operator.Administer, (*Server).turnOn),
		asks("/organizations/{id}/add-member", operator.Administer, (*Server).addMember),
		asks("/organizations/{id}/members/{person}/remove", operator.Administer, (*Server).removeMember),
		asks("/organizations/{id}/members/{person}/make-admin", operator.Administer, (*Server).makeAdmin),
		asks("/organizations/{id}/members/{person}/take-admin", operator.Administer, (*Server).takeAdmin),
		{"/health", operator.Read, (*Server).healthPage, (*Server).checkHealth},
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
			mux.Handle("POST "+r.path, operator.WithoutWriteDeadline(s.handle(r.right, r.post)))
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
