package connect

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/grantkeeper/grantkeeper/strictjson"
)

// The revision of MCP from which on there are no sessions, a message names its revision
// itself, and headers repeat what it says.
const stateless = "2026-07-28"

// lastWithHello is the last revision that begins with initialize.
const lastWithHello = "2025-11-25"

// depth is how deep a message may be: what the server takes (decision V3).
const depth = 128

// maxMessage is the most bytes that a message may have, either way: what the server
// passes on of its service (decision V13).
const maxMessage = 16 << 20

var errLong = errors.New("a message has more than 16 MiB")

// readLine reads a line without its end. io.EOF comes alone: a line that is cut off is
// none.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			return nil, errLong
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), err
		}
	}
}

// A message is what of a JSON-RPC message decides how it is passed on.
type message struct {
	id      string // its JSON, as it was sent; "" is none
	method  string // "" of an answer
	name    string // of the tool, prompt or resource that it is about
	version string // revision that it names itself
	program string // what the client calls itself
	asked   string // revision that initialize asks for
	cancels string // ID of the request that it cancels
}

func (m message) isRequest() bool { return m.id != "" && m.method != "" }

// readMessages reads a line: one message, or a batch.
func readMessages(line []byte) ([]message, error) {
	if line[0] != '[' {
		m, err := readMessage(line)
		return []message{m}, err
	}
	if err := strictjson.Check(line, depth); err != nil {
		return nil, err
	}
	each := elements(line)
	if len(each) == 0 {
		return nil, errors.New("it is no batch of messages")
	}
	var all []message
	for _, one := range each {
		m, err := readMessage(one)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func readMessage(text []byte) (m message, err error) {
	members, err := strictjson.Object(text, depth)
	if err != nil {
		return message{}, err
	}
	m.id, m.method = string(members["id"]), textOf(members["method"])
	if m.id == "null" {
		m.id = ""
	}
	params := inside(members, "params")
	meta := inside(params, "_meta")
	client := inside(meta, "io.modelcontextprotocol/clientInfo")
	m.version = textOf(meta["io.modelcontextprotocol/protocolVersion"])
	switch m.method {
	case "initialize":
		m.asked, client = textOf(params["protocolVersion"]), inside(params, "clientInfo")
	case "tools/call", "prompts/get":
		m.name = textOf(params["name"])
	case "resources/read":
		m.name = textOf(params["uri"])
	case "notifications/cancelled":
		m.cancels = string(params["requestId"])
	}
	if m.program = textOf(client["title"]); m.program == "" {
		m.program = textOf(client["name"])
	}
	return m, nil
}

// inside gives the members of an object in another; none where it is no object.
func inside(m strictjson.Members, name string) strictjson.Members {
	if m[name] == nil {
		return nil
	}
	in, err := strictjson.Object(m[name], depth)
	if err != nil {
		return nil
	}
	return in
}

// textOf is a JSON string's text; "" of anything else.
func textOf(raw json.RawMessage) (s string) {
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return s
	}
	return ""
}

// answerTo is what an answer of the server's is to, by the ID's JSON, and which revision
// an answer to initialize settles on. Of what is no answer both are empty.
func answerTo(text []byte) (id, version string) {
	members, err := strictjson.Object(text, depth)
	if err != nil || members["method"] != nil {
		return "", ""
	}
	return string(members["id"]), textOf(inside(members, "result")["protocolVersion"])
}

// header writes a name as a header has it: in base64 where its own characters could be
// lost on the way.
func header(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) && strings.TrimSpace(name) == name && !strings.HasPrefix(name, "=?base64?") {
		return name
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
}

// oneLine puts a message on a line of its own. In JSON a line break stands between
// values only: inside a string it is escaped.
func oneLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
	return append(text, '\n')
}

// refusal is the JSON-RPC error to a request, in words for people.
func refusal(id string, code int, words string) []byte {
	if id == "" {
		id = "null"
	}
	return written(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "error": map[string]any{"code": code, "message": words}})
}

// result is the answer to a request.
func result(id string, v any) []byte {
	return written(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "result": v})
}

// notice is a notification.
func notice(method string) []byte {
	return written(map[string]any{"jsonrpc": "2.0", "method": method})
}

func written(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // of what is written here, and IDs that were read
	}
	return text
}

// The JSON-RPC codes of what connect answers itself.
const (
	codeUnreadable = -32700
	codeRefused    = -32000
)

// approveTool is what an assistant is offered while nobody has approved: so that it can
// say what is to be done.
const approveTool = "approve_access"

// meanwhile answers a request while nobody has approved. words say so. Of what it does
// not know it gives an error.
func meanwhile(m message, version, words string) []byte {
	switch m.method {
	case "initialize":
		settled := lastWithHello
		if m.asked < settled && m.asked >= "2024-11-05" {
			settled = m.asked
		}
		changes := map[string]any{"listChanged": true}
		return result(m.id, map[string]any{
			"protocolVersion": settled, "serverInfo": map[string]any{"name": "grantkeeper connect", "version": version}, "instructions": words,
			"capabilities": map[string]any{"tools": changes, "resources": changes, "prompts": changes},
		})
	case "ping", "logging/setLevel":
		return result(m.id, map[string]any{})
	case "tools/list":
		return result(m.id, map[string]any{"tools": []any{map[string]any{
			"name": approveTool, "description": words + " Call this tool for the address, and to see whether it has been approved.",
			"inputSchema": map[string]any{"type": "object"}, "annotations": map[string]any{"readOnlyHint": true},
		}}})
	case "resources/list":
		return result(m.id, map[string]any{"resources": []any{}})
	case "resources/templates/list":
		return result(m.id, map[string]any{"resourceTemplates": []any{}})
	case "prompts/list":
		return result(m.id, map[string]any{"prompts": []any{}})
	case "tools/call":
		return toolSays(m.id, words, m.name != approveTool)
	}
	return refusal(m.id, codeRefused, words)
}

func toolSays(id, words string, wrong bool) []byte {
	return result(id, map[string]any{"content": []any{map[string]any{"type": "text", "text": words}}, "isError": wrong})
}

// elements gives the elements of a batch; none of what is no batch.
func elements(text []byte) []json.RawMessage {
	var each []json.RawMessage
	if json.Unmarshal(text, &each) != nil {
		return nil
	}
	return each
}
