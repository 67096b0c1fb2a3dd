package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/strictjson"
)

// Bounds of what a client sends.
const (
	maxDepth = 128 // of objects and arrays in each other
	maxBatch = 16  // messages: each is a call
)

// Known is what the proxy knows of a tool: its annotation readOnlyHint.
type Known = rules.Known

const (
	Unknown = rules.Unknown // no list has named the tool lately
	Reads   = rules.Yes     // it says that it changes nothing
	Changes = rules.No      // it says that it does, or nothing
)

// Message is one message of a client, as far as somebody decides by it. Of Tool,
// Resource and Prompt one at most is set.
type Message struct {
	ID     json.RawMessage // in the client's own bytes; nil where nobody waits for an answer
	Method string          // empty of a response

	Tool      string          // the name of tools/call
	Resource  string          // the URI that is read, subscribed to or completed
	Prompt    string          // the name that is got or completed
	Arguments json.RawMessage // of a tool or prompt, as they came
	Reads     Known           // of a tool

	by rules.Decision // that let it pass; of none where no rules hold

	meta   json.RawMessage // _meta of its params
	listen []string        // the resources that subscriptions/listen names
}

// names are the members whose spelling decides: one in another case would be
// another message to a reader that does not look at case.
var (
	envelope   = []string{"jsonrpc", "id", "method", "params", "result", "error"}
	parameters = []string{"name", "arguments", "uri", "ref", "notifications", "_meta"}
	reference  = []string{"type", "name", "uri"}
	listening  = []string{"resourceSubscriptions"}
)

// readMessages reads a body strictly: where two readers could see two messages,
// it is refused (decision V3). batch says that the body is an array.
func readMessages(body []byte) (all []Message, batch bool, err error) {
	if err := strictjson.Check(body, maxDepth); err != nil {
		return nil, false, fmt.Errorf("the body cannot be taken: %w", err)
	}
	if api.HasLoneSurrogate(body) {
		return nil, false, errors.New("the JSON has half of a surrogate pair")
	}
	// A nil slice: one that held the body would be decoded into its memory.
	var parts []json.RawMessage
	if batch = bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")); !batch {
		parts = []json.RawMessage{body}
	} else if err := json.Unmarshal(body, &parts); err != nil {
		return nil, true, err
	}
	if batch && (len(parts) == 0 || len(parts) > maxBatch) {
		return nil, true, fmt.Errorf("a batch has 1 to %d messages", maxBatch)
	}
	for _, part := range parts {
		m, err := readMessage(part)
		if err != nil {
			return nil, batch, err
		}
		all = append(all, m)
	}
	return all, batch, nil
}

func readMessage(text []byte) (m Message, err error) {
	o, err := object(text, envelope)
	if err != nil {
		return m, fmt.Errorf("a message %w", err)
	}
	method, asks := o["method"]
	_, result := o["result"]
	_, failed := o["error"]
	id, named := o["id"]
	if asks == (result || failed) {
		return m, errors.New("the body is not a JSON-RPC message: it has either a method, or a result or error")
	}
	if named && id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		return m, errors.New("an ID is a string or a number")
	}
	if !asks {
		return m, nil
	}
	m.ID = id
	if m.Method, err = str(method, "method"); err != nil {
		return m, err
	}
	if named && strings.HasPrefix(m.Method, "notifications/") {
		return m, errors.New("a notification has no ID")
	}
	if params, sent := o["params"]; sent && string(params) != "null" {
		err = m.readParams(params)
	}
	return m, err
}

// readParams finds what the call is about.
func (m *Message) readParams(params json.RawMessage) (err error) {
	o, err := object(params, parameters)
	if err != nil {
		return fmt.Errorf("params %w", err)
	}
	m.meta = o["_meta"]
	at, name := map[string]*string{
		"tools/call": &m.Tool, "prompts/get": &m.Prompt, "resources/read": &m.Resource, "resources/subscribe": &m.Resource,
	}[m.Method], "name"
	switch m.Method {
	case "resources/read", "resources/subscribe":
		name = "uri"
	case "completion/complete":
		return m.readReference(o["ref"])
	case "subscriptions/listen":
		return m.readListen(o["notifications"])
	case "tools/call", "prompts/get":
		m.Arguments = o["arguments"]
	default:
		return nil
	}
	*at, err = str(o[name], name)
	return err
}

// readReference finds what is to be completed.
func (m *Message) readReference(ref json.RawMessage) error {
	o, err := object(ref, reference)
	if err != nil {
		return fmt.Errorf("ref %w", err)
	}
	_, prompt := o["name"]
	_, resource := o["uri"]
	switch {
	case prompt == resource:
		return errors.New("ref has a name or a uri")
	case prompt:
		m.Prompt, err = str(o["name"], "name")
	default:
		m.Resource, err = str(o["uri"], "uri")
	}
	return err
}

func (m *Message) readListen(to json.RawMessage) error {
	o, err := object(to, listening)
	if err != nil {
		return fmt.Errorf("notifications %w", err)
	}
	if uris, sent := o["resourceSubscriptions"]; sent {
		if err := json.Unmarshal(uris, &m.listen); err != nil || slices.Contains(m.listen, "") { // null is one
			return errors.New("resourceSubscriptions is a list of URIs")
		}
	}
	return nil
}

// object reads an object, none of whose members has a name that differs from one
// of these in case alone.
func object(text json.RawMessage, names []string) (strictjson.Members, error) {
	if len(text) == 0 {
		return nil, errors.New("is missing")
	}
	o, err := strictjson.Object(text, maxDepth)
	if err == nil {
		err = o.Only(names...)
	}
	switch {
	case errors.Is(err, strictjson.ErrObject):
		return nil, errors.New("is not a JSON object")
	case err != nil:
		return nil, fmt.Errorf("cannot be taken: %w", err)
	}
	return o, nil
}

func str(raw json.RawMessage, name string) (s string, err error) {
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", errors.New(name + " is a string")
	}
	return s, nil
}

// notice reports whether a message asks for nothing. What has no ID and is not
// called a notification may be done all the same by a service that does not look.
func (m *Message) notice() bool {
	return m.Method == "" || m.ID == nil && strings.HasPrefix(m.Method, "notifications/")
}

// passes reports whether a message asks for nothing that a rule could refuse.
func (m *Message) passes() bool {
	switch {
	case m.Method == "subscriptions/listen":
		return len(m.listen) == 0
	case strings.HasPrefix(m.Method, "notifications/"):
		return m.notice()
	}
	return m.notice() || m.Method == "resources/unsubscribe" || rules.Passes(m.Method)
}

// known reports whether MCP has a method of that name that a client calls.
func (m *Message) known() bool {
	switch m.Method {
	case "tools/call", "resources/read", "resources/subscribe", "prompts/get", "completion/complete", "subscriptions/listen":
		return true
	}
	return m.passes()
}

// parts are what is decided by itself: of a subscription, each resource.
func (m *Message) parts() []Message {
	if m.Method != "subscriptions/listen" {
		return []Message{*m}
	}
	all := make([]Message, len(m.listen))
	for i, uri := range m.listen {
		all[i] = Message{ID: m.ID, Method: m.Method, Resource: uri}
	}
	return all
}

// changes reports whether doing it may have changed something, so that its answer
// has to be told whatever becomes of the right (decision B7).
func (m *Message) changes() bool {
	return m.Method == "tools/call" && m.Reads != Reads || !m.known()
}

// mirrored compares the headers that repeat what the body says: whoever stands in
// between may have gone by them. Missing ones are the service's to miss.
func mirrored(h http.Header, all []Message, batch bool) bool {
	methods, names := h["Mcp-Method"], h["Mcp-Name"]
	if len(methods) == 0 && len(names) == 0 {
		return true
	}
	if batch || len(methods) > 1 || len(names) > 1 {
		return false
	}
	m := &all[0]
	if len(methods) == 1 && methods[0] != m.Method {
		return false
	}
	if len(names) == 0 || !slices.Contains([]string{"tools/call", "prompts/get", "resources/read"}, m.Method) {
		return true
	}
	name, ok := headerText(names[0])
	return ok && name == m.Tool+m.Prompt+m.Resource
}

// headerText reads the form in which a header carries any text.
func headerText(s string) (string, bool) {
	inner, ok := strings.CutPrefix(s, "=?base64?")
	if ok {
		inner, ok = strings.CutSuffix(inner, "?=")
	}
	if !ok {
		return s, true
	}
	text, err := base64.StdEncoding.Strict().DecodeString(inner)
	return string(text), err == nil
}
