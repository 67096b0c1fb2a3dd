package mcp

import (
	"bytes"
	"mime"
	"net/http"
	"strings"

	"github.com/grantkeeper/grantkeeper/api"
)

// checkType takes one media type, JSON, in UTF-8 as far as it says, and
// nothing around it.
func checkType(h http.Header) *api.Fault {
	types := h["Content-Type"]
	if len(types) == 1 && h.Get("Content-Encoding") == "" {
		kind, parameters, err := mime.ParseMediaType(types[0])
		charset, named := parameters["charset"]
		if err == nil && kind == "application/json" && (!named || strings.EqualFold(charset, "utf-8")) {
			return nil
		}
	}
	return &api.Fault{Status: 415, Code: "invalid_request", Description: "Content-Type must be application/json, in UTF-8, and the body not compressed."}
}

// refusals says what the SDK refuses in the form of API v5. The SDK answers in
// plain text, and repeats the body and names its own types when that is JSON
// and no message. Everything else it answers goes through, kept out of caches
// (decision M6), where the SDK would let it in and ask each time.
type refusals struct {
	http.ResponseWriter
	begun bool // something was answered
	fault *api.Fault
	text  bytes.Buffer
}

func (w *refusals) WriteHeader(status int) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if status >= 400 && strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		w.fault = &api.Fault{Status: status, Code: "invalid_request"}
		return
	}
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *refusals) Write(b []byte) (int, error) {
	if w.fault != nil {
		return w.text.Write(b)
	}
	w.begun = true
	w.Header().Set("Cache-Control", "no-store")
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach what can flush.
func (w *refusals) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end answers what was refused. Where the caller has ended its side of the
// connection, the SDK answers nothing at all, which would go out as 200.
func (w *refusals) end() {
	if w.fault == nil && !w.begun {
		(&api.Fault{Status: 503, Code: "temporarily_unavailable", Description: "The request was given up by its caller."}).Answer(w.ResponseWriter)
	}
	if w.fault == nil {
		return
	}
	w.fault.Description = strings.TrimSpace(w.text.String())
	if strings.HasPrefix(w.fault.Description, "malformed payload") {
		w.fault.Description = "The body is not a JSON-RPC message, or not one that this endpoint takes."
	}
	if w.fault.Status >= 500 {
		w.fault.Code, w.fault.Description = "server_error", "Something went wrong here."
	}
	w.fault.Answer(w.ResponseWriter)
}
