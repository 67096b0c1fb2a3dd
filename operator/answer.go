package operator

import (
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/grantkeeper/grantkeeper/store"
)

// Error is what an operator is told. Every other error is ours: it is logged,
// and told as a reference alone.
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

// objectOf names the object that a route is about, where it names one alone.
func objectOf(pattern string) string {
	_, route, _ := strings.Cut(pattern, "/v1/")
	kind, rest, _ := strings.Cut(route, "/{id}")
	switch rest {
	case "", "/disable", "/enable", "/delete", "/revoke", "/deactivate", "/reactivate", "/password", "/reset-link", "/reset-signin", "/ai-integration":
		switch kind {
		case "people":
			return "person"
		case "organizations", "clients", "approvals", "events":
			return strings.TrimSuffix(kind, "s")
		}
	}
	return "object"
}

// errorBody is the JSON of every refusal. The reference is in the log too.
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
	writeJSON(w, e.Status, errorBody{e.Code, e.Description, c.Reference})
}

func (s *Server) Refusal(c Call, err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
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
		if c.Method != http.MethodGet { // its connection may have broken at the commit
			text += ": repeat it, it counts once"
		}
		return &Error{http.StatusServiceUnavailable, "temporarily_unavailable", text}
	}
	s.Log.ErrorContext(c.Context(), "request failed", "request_id", c.Reference, "route", c.Pattern, "err", err)
	return &Error{http.StatusInternalServerError, "server_error", "something went wrong here"}
}

// withStatus is a body with another status than 200.
type withStatus struct {
	status int
	body   any
}

// writeJSON writes an answer that nobody may keep.
func writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // only our own structs come here
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the operator may have gone
}

// WithNotFound lets nothing answer what no pattern matches, which ServeMux does in
// plain text; allow is for a path that takes other methods. No path is
// corrected: the redirect would be in HTML.
func (s *Server) WithNotFound(mux *http.ServeMux, nothing func(w http.ResponseWriter, c Call, allow string)) http.Handler {
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
		nothing(w, s.NewCall(w, r), allow)
	})
}

// notFound answers in JSON.
func (s *Server) notFound(w http.ResponseWriter, c Call, allow string) {
	e := &Error{http.StatusNotFound, "not_found", "there is nothing at this path"}
	if allow != "" {
		e = &Error{http.StatusMethodNotAllowed, "method_not_allowed", "this path takes only " + allow}
	}
	s.refuse(w, c, e)
}

// headerRecorder takes an answer for its status and header alone.
type headerRecorder struct {
	header http.Header
	status int
}

func (p *headerRecorder) Header() http.Header         { return p.header }
func (p *headerRecorder) WriteHeader(status int)      { p.status = status }
func (p *headerRecorder) Write(b []byte) (int, error) { return len(b), nil }
