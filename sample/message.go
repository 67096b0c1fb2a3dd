package sample

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"unicode/utf8"
)

// maxBatch is how many messages a batch may hold. Revision 2025-03-26 alone
// has batches, and gives no bound.
const maxBatch = 16

// maxID is the greatest number that every reader of JSON gives back as it came
// (RFC 8259 section 6).
const maxID = 1<<53 - 1

// A message is what is known of a body before the SDK reads it.
type message struct {
	ID, Method json.RawMessage // nil when not sent
	batch      bool
}

// notAMessage refuses JSON that is no message, as the SDK's refusal is told.
const notAMessage = "The body is not a JSON-RPC message, or not one that this endpoint takes."

// notification reports whether nobody waits for an answer (JSON-RPC 2.0
// section 4.1).
func (m message) notification() bool { return len(m.ID) == 0 && len(m.Method) > 0 }

// listens reports whether the answer is a stream of events.
func (m message) listens() bool { return string(m.Method) == `"subscriptions/listen"` }

// readMessage refuses what is too long, not JSON, or a batch of too many
// messages, whose calls would all run at once. The body is read, and put back.
func readMessage(r *http.Request) (message, *fault) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case len(body) > maxBody:
		return message{}, &fault{Status: 413, Code: "invalid_request", Description: fmt.Sprintf("A body has at most %d bytes.", maxBody)}
	case err != nil:
		return message{}, refused("The body cannot be read.")
	}
	if !utf8.Valid(body) || !json.Valid(body) { // so that the SDK's reader cannot see another batch in it than this one
		return message{}, refused("The body is not JSON in UTF-8.")
	}
	m, fault := split(body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return m, fault
}

// split looks at the messages of a body, and refuses those whose answer would
// be lost: the SDK lets them through. What else is none is left to the SDK.
func split(body []byte) (message, *fault) {
	var whole message
	var parts []json.RawMessage
	if whole.batch = json.Unmarshal(body, &parts) == nil; !whole.batch {
		parts = []json.RawMessage{body}
	}
	if len(parts) > maxBatch {
		return message{}, refused(fmt.Sprintf("A batch has at most %d messages.", maxBatch))
	}
	calls := map[any]bool{} // by ID
	for _, part := range parts {
		var members map[string]json.RawMessage // no struct, which would take "ID" for "id": the SDK does not
		if json.Unmarshal(part, &members) != nil {
			continue
		}
		m := message{ID: members["id"], Method: members["method"]}
		id := m.call()
		switch {
		case !returns(m.ID):
			return message{}, refused(fmt.Sprintf("An ID is a string without half a surrogate pair, or a whole number of at most %d.", int64(maxID)))
		case len(m.Method) == 0 && len(members["result"]) == 0 && len(members["error"]) == 0:
			return message{}, refused(notAMessage)
		case id != nil && calls[id]:
			return message{}, refused("A batch has two calls with one ID.")
		}
		calls[id] = true
		if !whole.batch {
			whole = m
		}
	}
	return whole, nil
}

func refused(why string) *fault {
	return &fault{Status: 400, Code: "invalid_request", Description: why}
}

// call gives the ID of a call, equal for all ways to write it (1 and 1.0, "a"
// and "\u0061"), because one answer comes back for them. Of what is no call, or
// has an ID that nothing takes, it is nil.
func (m message) call() any {
	var id any
	if len(m.Method) == 0 || json.Unmarshal(m.ID, &id) != nil {
		return nil
	}
	switch id.(type) {
	case string, float64:
		return id
	}
	return nil // not to be compared
}

// returns reports whether an ID comes back as it was sent. MCP takes strings
// and whole numbers; of other numbers, and of half a surrogate pair, the SDK
// would answer under another ID, for which nobody waits. What is neither string
// nor number is left to the SDK.
func returns(id json.RawMessage) bool {
	switch {
	case len(id) == 0:
		return true
	case id[0] == '"':
		return !hasLoneSurrogate(id)
	case id[0] != '-' && (id[0] < '0' || id[0] > '9'):
		return true
	}
	var n float64
	return json.Unmarshal(id, &n) == nil && n == math.Trunc(n) && math.Abs(n) <= maxID
}

// widen takes two things out of the SDK's way that it is stricter about than
// anybody needs here. Every answer to a call is JSON and no stream is ever
// resumed, so it is enough that a client reads JSON, and an event that it has
// seen last means nothing.
func widen(h http.Header, m message) {
	h.Del("Last-Event-ID")
	if !m.listens() && readsJSON(h["Accept"]) {
		h.Set("Accept", "application/json, text/event-stream")
	}
}

// readsJSON reads an Accept header as far as it goes for JSON (RFC 9110
// section 12.5.1).
func readsJSON(accept []string) bool {
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			kind, parameters, _ := strings.Cut(strings.ToLower(part), ";")
			switch strings.TrimSpace(kind) {
			case "application/json", "application/*", "*/*":
				if !never(parameters) {
					return true
				}
			}
		}
	}
	return len(accept) == 0
}

// never reports whether a weight is that of what is not wanted at all.
func never(parameters string) bool {
	for p := range strings.SplitSeq(parameters, ";") {
		if weight, ok := strings.CutPrefix(strings.TrimSpace(p), "q="); ok {
			return strings.Trim(weight, "0.") == ""
		}
	}
	return false
}
