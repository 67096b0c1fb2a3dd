package operator

import (
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

// Error is a refusal as the operator sees it. Any other error is internal: it is
// logged, and the answer has only its reference.
type Error struct {
	Status      int
	Code        string
	Description string
}

func (e *Error) Error() string { return e.Code + ": " + e.Description }

func BadRequest(description string) *Error {
	return &Error{http.StatusBadRequest, "invalid_request", description}
}

func NotFound(what string) *Error {
	return &Error{http.StatusNotFound, "not_found", "there is no such " + what}
}

// objectOf names the object of a route, for a route whose path names only one; those of a list
// are what its filter can name.
func objectOf(pattern string) string {
	_, route, _ := strings.Cut(pattern, "/v1/")
	kind, rest, ofOne := strings.Cut(route, "/{id}")
	if kind, _, _ := strings.Cut(kind, "/"); !ofOne {
		switch kind {
		case "approvals", "events", "activity", "attempts":
			return "client, person or organization"
		case "people":
			return "organization"
		}
	}
	switch rest {
	case "", "/activity", "/disable", "/enable", "/delete", "/revoke", "/deactivate", "/reactivate", "/password", "/reset-link", "/reset-signin", "/ai-integration",
		"/policy", "/requests", "/connections", "/connections/reviewed", "/connections/exported", "/connections/end":
		switch kind {
		case "people":
			return "person"
		case "organizations", "clients", "approvals", "events":
			return strings.TrimSuffix(kind, "s")
		}
	}
	return "object"
}

// errorBody is the JSON of every refusal. The log has the same reference.
type errorBody struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
	Reference   string `json:"reference"`
}

func (s *Server) refuse(w http.ResponseWriter, c Call, err error) {
	e := s.Refusal(c, err)
	if e.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	s.TellFault(w, e)
	writeJSON(w, e.Status, errorBody{e.Code, e.Description, c.Reference})
}

// TellFault tells the log the error code of an answer.
func (s *Server) TellFault(w http.ResponseWriter, e *Error) {
	if s.Tell != nil {
		s.Tell(w, "", approval.ID{}, e.Code)
	}
}

func (s *Server) Refusal(c Call, err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, new(TooMany)):
		return &Error{http.StatusTooManyRequests, "rate_limited", "too many wrong passwords, wait for the seconds of Retry-After"}
	case errors.Is(err, store.ErrNotFound):
		return NotFound(objectOf(c.Pattern))
	case errors.Is(err, store.ErrConflict):
		return &Error{http.StatusConflict, "conflict", "it exists already, or was changed meanwhile"}
	case errors.Is(err, store.ErrNotAllowed):
		return &Error{http.StatusConflict, "not_allowed", "something that this change stands on is not there"}
	case errors.Is(err, store.ErrUnavailable), c.Context().Err() != nil:
		text := "the database cannot answer now"
		if why := s.Store.WhyNot(err); why != "" {
			text += " (" + why + ")"
		}
		if c.Method != http.MethodGet { // the connection may have broken at the commit
			text += ": repeat it, it counts once"
		}
		return &Error{http.StatusServiceUnavailable, "temporarily_unavailable", text}
	}
	s.Log.ErrorContext(c.Context(), "request failed", "request_id", c.Reference, "route", c.Pattern, "err", err)
	return &Error{http.StatusInternalServerError, "server_error", "something went wrong here"}
}

// withStatus is a body with a status other than 200.
type withStatus struct {
	status int
	body   any
}

// writeJSON writes an answer.
func writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // body is always a struct of this package
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may have closed the connection
}

// WithNotFound calls notFound for a request that no pattern of mux matches, which
// ServeMux itself answers in plain text. allow lists the methods that the path
// takes, and is "" where the path is unknown. A path that ServeMux would clean and
// redirect is unknown too: the redirect would be in HTML.
func (s *Server) WithNotFound(mux *http.ServeMux, notFound func(w http.ResponseWriter, c Call, allow string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refusal, pattern := mux.Handler(r)
		if at := r.URL.EscapedPath(); pattern != "" && path.Clean(at) == at {
			mux.ServeHTTP(w, r)
			return
		}
		p := headerRecorder{header: http.Header{}}
		refusal.ServeHTTP(&p, r)
		allow := ""
		if p.status == http.StatusMethodNotAllowed {
			allow = p.header.Get("Allow")
			w.Header().Set("Allow", allow)
		}
		notFound(w, s.NewCall(w, r), allow)
	})
}

// notFound refuses an unknown path or method, in JSON.
func (s *Server) notFound(w http.ResponseWriter, c Call, allow string) {
	e := &Error{http.StatusNotFound, "not_found", "there is nothing at this path"}
	if allow != "" {
		e = &Error{http.StatusMethodNotAllowed, "method_not_allowed", "this path takes only " + allow}
	}
	s.refuse(w, c, e)
}

// headerRecorder keeps the status and the header of an answer, and drops the body.
type headerRecorder struct {
	header http.Header
	status int
}

func (p *headerRecorder) Header() http.Header         { return p.header }
func (p *headerRecorder) WriteHeader(status int)      { p.status = status }
func (p *headerRecorder) Write(b []byte) (int, error) { return len(b), nil }
