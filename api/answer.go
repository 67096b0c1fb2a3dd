package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

// Fault is a refusal that the caller is told about. Any other error is ours:
// logged once, and told to no one.
type Fault struct {
	Status      int    `json:"-"`
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
	Reason      string `json:"reason,omitempty"` // of a 403, in words for the person (decision B3)
}

func (f *Fault) Error() string {
	if f.Reason != "" {
		return f.Reason
	}
	return f.Description
}

// ErrEnded is a credential that was good when the request began.
var ErrEnded = &Fault{Status: 401, Code: "invalid_token", Description: "The credential has expired, or was revoked, before the request was answered. Nothing was changed after that."}

// errEndedUnder is that, of what a service may have done.
var errEndedUnder = &Fault{Status: 401, Code: "invalid_token", Description: "The credential has expired, or was revoked, before the request was answered. What was asked may have been done."}

var (
	errNoPath      = &Fault{Status: 404, Code: "not_found", Description: "There is nothing at this path."}
	errNoObject    = &Fault{Status: 404, Code: "not_found", Description: "There is no such object in this organization."}
	errLimited     = &Fault{Status: 429, Code: "rate_limited", Description: "The organization has used up its requests for now. Retry-After says in how many seconds the next one is answered."}
	errUnavailable = &Fault{Status: 503, Code: "temporarily_unavailable", Description: "The server cannot answer now. Try again."}
	errInternal    = &Fault{Status: 500, Code: "server_error", Description: "Something went wrong here. It is in the log under the reference."}
)

// Forbidden is what the grant set does not allow. The reason names the role;
// the code is never insufficient_scope, on which clients loop (decision B3).
func Forbidden(reason string) *Fault {
	return &Fault{Status: 403, Code: "forbidden", Reason: reason}
}

func badRequest(description string) *Fault {
	return &Fault{Status: 400, Code: "invalid_request", Description: description}
}

// Header values that every answer has. They are assigned, not set, because
// this is the hot path; nobody may write to them.
var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"} // decision M6
	anyone   = []string{"*"}        // decision M5: without credentials, so harmless
	exposed  = []string{"WWW-Authenticate, Retry-After, MCP-Protocol-Version, Mcp-Session-Id"}

	preflightMethods = []string{"GET, HEAD, POST, PUT, PATCH, DELETE"}
	preflightAge     = []string{"3600"} // seconds
)

const preflightHeaders = "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Session-Id, " +
	"Mcp-Method, Mcp-Name, Last-Event-ID, X-Auth-Token"

// setHeaders is for every answer. What a page of another origin may read is
// told where one asks, and with a refusal: the ninth name of a header makes its
// map twice as dear, and this is the hot path.
func setHeaders(h http.Header, r *http.Request) {
	h["Cache-Control"] = noStore
	h["Access-Control-Allow-Origin"] = anyone
	if len(r.Header["Origin"]) > 0 {
		h["Access-Control-Expose-Headers"] = exposed
	}
}

// preflight answers a browser's question whether a page may call. It carries
// no credential, so it comes before the check and is not counted (decision
// M5). Any other OPTIONS request is a request like every other.
func preflight(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h := w.Header()
	h["Access-Control-Allow-Methods"] = preflightMethods
	h["Access-Control-Allow-Headers"] = []string{allowedHeaders(r)}
	h["Access-Control-Max-Age"] = preflightAge
	w.WriteHeader(http.StatusNoContent)
	return true
}

// allowedHeaders are what a page may send: of those that repeat an argument of a tool (MCP
// 2026-07-28), whose names are the service's, what it asks for.
func allowedHeaders(r *http.Request) string {
	allowed := []string{preflightHeaders}
	for _, list := range r.Header["Access-Control-Request-Headers"] {
		for name := range strings.SplitSeq(list, ",") {
			name = strings.Trim(name, " \t")
			if of, ok := strings.CutPrefix(strings.ToLower(name), "mcp-param-"); ok && httpguts.ValidHeaderFieldName(of) {
				allowed = append(allowed, name)
			}
		}
	}
	return strings.Join(allowed, ", ")
}

// unauthorized answers 401 (spec 5.7). What was wrong with a token is not told
// apart beyond what its holder can see by itself.
func (s *Server) unauthorized(w http.ResponseWriter, r *http.Request, legacy bool, why Result) {
	metadata := ""
	if !legacy {
		metadata = s.metadataURL(s.Base(r), r.URL.Path)
	}
	w.Header().Set("WWW-Authenticate", challenge(s.Service, metadata, why != Missing))
	f := &Fault{Status: 401, Code: "invalid_token"}
	switch {
	case why == Missing && legacy:
		f.Code, f.Description = "unauthorized", "Send an API key in the header X-Auth-Token."
	case why == Missing:
		f.Code, f.Description = "unauthorized", "Send an access token in the header Authorization: Bearer."
	case why == WrongHeader && legacy:
		f.Description = "API v3 and v4 take one API key, in the header X-Auth-Token, and no OAuth token."
	case why == WrongHeader:
		f.Description = "Send one credential: an access token in Authorization: Bearer, or an API key in X-Auth-Token."
	case why == WrongKind:
		f.Description = "This is not an access token. Refresh tokens and authorization codes go to the token endpoint."
	default:
		f.Description = "The credential has expired, was revoked, or was not given here."
	}
	s.fail(w, r, f)
}

// Told gives what a caller is told of an error. What is not meant for them is
// told as little of as possible, and to be logged.
func Told(err error) (f *Fault, log bool) {
	switch {
	case errors.As(err, &f):
		return f, false
	case errors.Is(err, store.ErrNotFound):
		return errNoObject, false
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return errUnavailable, false
	}
	return errInternal, true
}

// Fail answers an error as the API does: a credential that has ended with a
// challenge, and what is not meant for the caller with a reference alone.
func (s *Server) Fail(w http.ResponseWriter, r *http.Request, err error) { s.fail(w, r, err) }

// fail answers an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	f, log := Told(err)
	if log {
		s.logError(w, r, err)
	}
	w.Header()["Access-Control-Expose-Headers"] = exposed
	switch {
	case f.Status == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "2")
	case f == ErrManyOfOne:
		w.Header().Set("Retry-After", "1")
	}
	if f == ErrEnded || f == errEndedUnder { // as if the check had come later
		w.Header().Set("WWW-Authenticate", challenge(s.Service, s.metadataURL(s.Base(r), r.URL.Path), true))
	}
	s.Answer(w, f)
}

// Answer writes a refusal as JSON, with the request's ID to quote, and tells the log
// its code.
func (s *Server) Answer(w http.ResponseWriter, f *Fault) {
	s.TellFault(w, f.Code)
	body, err := json.Marshal(struct {
		*Fault
		Reference string `json:"reference,omitempty"`
	}{f, w.Header().Get("X-Request-Id")})
	if err != nil {
		panic(err) // strings are always JSON
	}
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(f.Status)
	w.Write(body)
}

// TellFault tells the log the error code of an answer.
func (s *Server) TellFault(w http.ResponseWriter, code string) {
	if s.Tell != nil {
		s.Tell(w, "", approval.ID{}, code)
	}
}

func (s *Server) logError(w http.ResponseWriter, r *http.Request, err error) {
	if s.Log != nil {
		s.Log.ErrorContext(r.Context(), "api", "request_id", w.Header().Get("X-Request-Id"), "err", err)
	}
}
