package sample

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// refusals says what the SDK refuses in the form of API v5. The SDK answers in
// plain text, and repeats the body and names its own types when that is JSON
// and no message. Everything else it answers goes through, kept out of caches
// , where the SDK would let it in and ask each time.
type refusals struct {
	http.ResponseWriter
	of    message
	begun bool // something was answered
	fault *fault
	text  bytes.Buffer
}

func (w *refusals) WriteHeader(status int) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if status >= 400 && strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		w.fault = &fault{Status: status, Code: "invalid_request"}
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
	if _, err := w.ResponseWriter.Write(tidy(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Unwrap lets http.ResponseController reach what can flush.
func (w *refusals) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// answer answers what was refused. Where the caller has ended its side of the
// connection, the SDK answers nothing at all, which would go out as 200.
func (w *refusals) answer() {
	if w.fault == nil && !w.begun {
		(&fault{Status: 503, Code: "temporarily_unavailable", Description: "The request was given up by its caller."}).answer(w.ResponseWriter)
	}
	if w.fault == nil {
		return
	}
	w.fault.Description = strings.TrimSpace(w.text.String())
	switch told := w.fault.Description; {
	case w.of.batch:
	case strings.HasPrefix(told, "JSON RPC not handled"):
		w.unknown()
		return
	case strings.HasPrefix(told, "invalid request: unexpected id"): // there is the notification, but no such call
		w.unknown()
		return
	case strings.HasSuffix(told, `missing required "params"`) && !w.of.notification():
		w.wrong(jsonrpc.CodeInvalidParams, "invalid params: they are missing")
		return
	}
	switch told := w.fault.Description; {
	case strings.HasPrefix(told, "JSON RPC not handled"), strings.HasPrefix(told, "invalid request: "):
		w.fault.Description = "A message is not one that this endpoint takes: its method, its ID or its params. Nothing was done."
	case strings.HasPrefix(told, "malformed payload"):
		w.fault.Description = notAMessage
	case strings.HasPrefix(told, "Accept must contain") && !w.of.listens(): // of the two that the SDK names, widen adds the other
		w.fault.Description = "Accept must allow application/json, as which calls are answered."
	}
	if w.fault.Status >= 500 {
		w.fault.Code, w.fault.Description = "server_error", "Something went wrong here."
	}
	w.fault.answer(w.ResponseWriter)
}

// unknown answers a method that there is not, as JSON-RPC 2.0 does: a call with
// an error of its own, which clients tell from a transport that broke, and a
// notification not at all.
func (w *refusals) unknown() {
	if w.of.notification() {
		w.Header().Del("Content-Type")
		w.ResponseWriter.WriteHeader(http.StatusAccepted)
		return
	}
	w.wrong(jsonrpc.CodeMethodNotFound, "method not found")
}

// wrong answers one call with an error of its own.
func (w *refusals) wrong(code int64, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.ResponseWriter.WriteHeader(http.StatusOK)
	fmt.Fprintf(w.ResponseWriter, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, w.of.ID, code, message)
}

// tidy says in our words that the params of a method are of a wrong type. The
// SDK names its own types there, repeats what was sent, and for initialize has
// an error without a code.
func tidy(b []byte) []byte {
	if !bytes.Contains(b, []byte(`"message":"handling '`)) {
		return b
	}
	var many []json.RawMessage
	if json.Unmarshal(b, &many) == nil {
		for i, one := range many {
			many[i] = tidy(one)
		}
		return marshal(many)
	}
	var one struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *jsonrpc.Error  `json:"error"`
	}
	if json.Unmarshal(b, &one) != nil || one.Error == nil || !strings.HasPrefix(one.Error.Message, "handling '") {
		return b
	}
	one.Error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid params: a member is of a wrong type"}
	return marshal(one)
}
