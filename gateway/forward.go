package gateway

import (
	"net/http"
	"strconv"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/identity"
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
			(&api.Fault{Status: 400, Code: "invalid_request", Description: "The query is deny=403, or none."}).Answer(w)
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
		(&api.Fault{Status: 400, Code: "invalid_request", Description: "Send the original's path once, in X-Original-URI or X-Forwarded-Uri, and its host once."}).Answer(w)
		return
	}
	o, fault := s.request(r.Context(), original{host, target, withCredentials(r.Header)})
	if fault != nil {
		fault.Answer(w)
		return
	}
	call := identity.Call{Target: target, Unread: true}
	if call.Method, _ = agreed(r.Header["X-Original-Method"], r.Header["X-Forwarded-Method"]); appended != "" {
		call.Method = r.Method
		if r.URL.RawQuery != "" || r.URL.ForceQuery {
			call.Target += "?" + r.URL.RawQuery
		}
	}
	if a, ok := s.guard(w, o); ok {
		s.tell(w, r, key, a, call)
	}
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
		fail(w, r, s.Log, err)
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
