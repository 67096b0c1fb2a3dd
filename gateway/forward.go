package gateway

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/rules"
)

// headerStatus says what a proxy should answer where the status cannot, because
// the proxy knows 401 and 403 alone.
const headerStatus = identity.Prefix + "Status"

// forwardAuth answers for a proxy that passes the original request's headers
// on: 200 with the signed headers for the service behind, or what the guard
// answers at the original's path, which Envoy appends to ours. The method is the
// proxy's, or the original's; no preflight passes here, because a proxy may leave
// the header that would make one to the client.
func (s *Server) forwardAuth(w http.ResponseWriter, r *http.Request, appended string) {
	if appended == "" { // else the query is the original's
		switch r.URL.RawQuery {
		case "":
		case "deny=403":
			w = &denier{ResponseWriter: w}
		default:
			s.API.Answer(w, &api.Fault{Status: 400, Code: "invalid_request", Description: "The query is deny=403, or none."})
			return
		}
	}
	key, ok := s.keyed(w, r, ForwardAuth)
	if !ok {
		return
	}
	target, _ := agreed(r.Header["X-Original-Uri"], r.Header["X-Forwarded-Uri"], []string{appended}) // empty when they differ
	host, alike := agreed(r.Header["X-Original-Host"], r.Header["X-Forwarded-Host"])
	if !alike || target == "" {
		s.API.Answer(w, &api.Fault{Status: 400, Code: "invalid_request", Description: "Send the original's path once, in X-Original-URI or X-Forwarded-Uri, and its host once."})
		return
	}
	path, _, _ := strings.Cut(target, "?")
	if appended != "" && (r.URL.RawQuery != "" || r.URL.ForceQuery) {
		target += "?" + r.URL.RawQuery
	}
	o, fault := s.request(r.Context(), original{host, target, withCredentials(r.Header)})
	if by := s.API.RuledBy(); fault == nil && by != nil && !by.Empty() && takenForMCP(s.API.Resources.All(), path) != "" {
		fault = noTool
	}
	if fault != nil {
		s.API.Answer(w, fault)
		return
	}
	call := identity.Call{Target: target, Unread: true}
	if call.Method, _ = agreed(r.Header["X-Original-Method"], r.Header["X-Forwarded-Method"]); appended != "" {
		call.Method = r.Method
	}
	if a, ok := s.guard(w, o); ok && s.ruled(w, r, a, call, host) {
		s.tell(w, r, key, a, call)
	}
}

// takenForMCP gives the MCP endpoint that some router may take a path to be under; ""
// is none. What is called there is in the body, where forward-auth and the service of
// an API see no tool (decision V29).
func takenForMCP(all []client.Resource, path string) string {
	for _, of := range all {
		if of.MCP && rules.Under(path, of.Path) {
			return of.Path
		}
	}
	return ""
}

var noTool = &api.Fault{Status: 404, Code: "not_found", Description: "Send MCP to Grantkeeper itself: what is called there is in the body."}

func otherMCP(at string) *api.Fault {
	return &api.Fault{Status: 404, Code: "not_found", Description: "MCP is at " + at + ", in these letters."}
}

// headerDenied has the reason of a denial by the rules, for proxies that pass on
// no body of it.
const headerDenied = identity.Prefix + "Denied"

// ruled asks the rules, or answers the call that they deny.
func (s *Server) ruled(w http.ResponseWriter, r *http.Request, a api.Rights, call identity.Call, host string) bool {
	path, query, _ := strings.Cut(call.Target, "?")
	c := rules.Call{Method: call.Method, Path: path, Query: query, Unread: true}
	d, err := s.API.Ruled(r.Context(), a, c)
	record := activity.Record{Way: activity.Gateway, Method: call.Method, Path: path}
	switch {
	case err != nil:
		s.API.Fail(w, r, err)
	case d.Allowed:
		s.API.Passed(a, record, d, s.API.RuledBy().Reads(c), call.Method == "")
	default:
		s.API.Refused(a, record, string(d.Reason), d.Role)
		w.Header().Set(headerDenied, string(d.Reason))
		s.API.Deny(w, api.Denied(a, d, s.Base(cmp.Or(host, s.Host()))))
	}
	return err == nil && d.Allowed
}

// agreed gives the one value of several headers that say the same thing, empty
// when none is there. A proxy writes one of them and may pass another on as a
// stranger wrote it, so two that differ are believed neither.
func agreed(headers ...[]string) (value string, ok bool) {
	for _, values := range headers {
		switch {
		case len(values) > 1:
			return "", false
		case len(values) == 0, values[0] == "", values[0] == value:
		case value != "":
			return "", false
		default:
			value = values[0]
		}
	}
	return value, true
}

// tell answers 200 with who it is, for the proxy to hand on. Which call it is for
// is signed where the proxy says its method.
func (s *Server) tell(w http.ResponseWriter, r *http.Request, key Key, a api.Rights, call identity.Call) {
	headers, err := signed([]byte(key.Secret), s.API, a)
	if err != nil {
		fail(w, r, s.API, s.Log, err)
		return
	}
	_ = identity.SignCall([]byte(key.Secret), headers, call) // what cannot be signed is told without
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(http.StatusOK)
}

// denier turns every refusal but 401 into 403, for proxies that know these two
// alone and take any other status for a fault (nginx).
type denier struct {
	http.ResponseWriter
}

func (d *denier) WriteHeader(status int) {
	if status >= 300 && status != http.StatusUnauthorized {
		d.Header().Set(headerStatus, strconv.Itoa(status))
		status = http.StatusForbidden
	}
	d.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (d *denier) Unwrap() http.ResponseWriter { return d.ResponseWriter }
