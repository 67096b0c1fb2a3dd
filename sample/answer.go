package sample

import (
	"encoding/json"
	"net/http"
)

// A fault is a refusal that the caller is told about. Any other error is ours:
// logged once, and told to no one.
type fault struct {
	Status      int    `json:"-"`
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
	Reason      string `json:"reason,omitempty"` // of a 403, in words for the person
}

func (f *fault) Error() string {
	if f.Reason != "" {
		return f.Reason
	}
	return f.Description
}

var (
	errNoPath      = &fault{Status: 404, Code: "not_found", Description: "There is nothing at this path."}
	errNoObject    = &fault{Status: 404, Code: "not_found", Description: "There is no such object in this organization."}
	errStale       = &fault{Status: 412, Code: "precondition_failed", Description: "The object is not as If-Match or If-None-Match wants it. Read it again."}
	errNothingSent = badRequest("Send at least one member to change.")
	errUnavailable = &fault{Status: 503, Code: "temporarily_unavailable", Description: "The server cannot answer now. Try again."}
	errInternal    = &fault{Status: 500, Code: "server_error", Description: "Something went wrong here. It is in the log under the reference."}
)

// forbidden is what the grant set does not allow. The reason names the role.
func forbidden(reason string) *fault { return &fault{Status: 403, Code: "forbidden", Reason: reason} }

func badRequest(description string) *fault {
	return &fault{Status: 400, Code: "invalid_request", Description: description}
}

func conflict(description string) *fault {
	return &fault{Status: 409, Code: "conflict", Description: description}
}

// answer is what an operation gives when it refuses nothing.
type answer struct {
	status   int
	body     []byte // JSON; nil with status 204
	tag      string // of a single object, without quotes
	location string // of what was made: a path
}

// object answers one object, with its tag.
func object(status int, v any) (answer, error) {
	body, err := json.Marshal(v)
	return answer{status: status, body: body, tag: tagOf(body)}, err
}

// write answers a request. A client that has the object already, by
// If-None-Match, gets 304 instead.
func (s *Server) write(w http.ResponseWriter, r *http.Request, x answer) {
	h := w.Header()
	if x.tag != "" {
		h.Set("ETag", `"`+x.tag+`"`)
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		when, err := conditionsOf(r.Header)
		switch {
		case err == nil && when.stale(x.tag):
			err = errStale
		case err == nil && when.unmodified(x.tag):
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if err != nil {
			h.Del("ETag")
			s.fail(w, r, err)
			return
		}
	}
	if x.location != "" {
		h.Set("Location", x.location)
	}
	if x.body != nil {
		h.Set("Content-Type", "application/json")
	}
	w.WriteHeader(x.status)
	_, _ = w.Write(x.body)
}

// fail answers an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	f, log := told(err)
	if log {
		s.o.Log.ErrorContext(r.Context(), "sample", "request_id", w.Header().Get("X-Request-Id"), "err", err)
	}
	if f.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "2")
	}
	f.answer(w)
}

// answer writes the refusal as JSON, with the request's ID to quote.
func (f *fault) answer(w http.ResponseWriter) {
	body, err := json.Marshal(struct {
		*fault
		Reference string `json:"reference,omitempty"`
	}{f, w.Header().Get("X-Request-Id")})
	if err != nil {
		panic(err) // strings are always JSON
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_, _ = w.Write(body)
}
