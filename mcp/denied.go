package mcp

import (
	"encoding/json"
	"net/http"
)

// Denial is a call that a rule refuses.
type Denial struct {
	Text string `json:"-"` // for the assistant: why, and what would help

	Tool     string `json:"tool,omitempty"`
	Role     string `json:"role,omitempty"`      // ID
	RoleName string `json:"role_name,omitempty"` // as it is now
	Needs    string `json:"needs,omitempty"`     // read or change
	Has      string `json:"has,omitempty"`       // none or read
	Edit     string `json:"edit,omitempty"`      // where the person may allow it
	Reason   string `json:"reason,omitempty"`
	Rule     *int   `json:"rule,omitempty"` // as configured, from 0
}

// Codes of JSON-RPC errors.
const (
	codeNoMethod  = -32601
	codeInternal  = -32603
	codeDenied    = -32000
	codeNoSession = -32001 // with 404: the client begins a new one
	codeMirror    = -32020 // headers and body say two things
)

// newRevision is the first in which results say their type, and unknown methods
// are 404.
const newRevision = "2026-07-28"

type reply struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *replyError     `json:"error,omitempty"`
}

type replyError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data,omitempty"`
}

type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type toolResult struct {
	Content    []content      `json:"content"`
	IsError    bool           `json:"isError"`
	ResultType string         `json:"resultType,omitempty"`
	Meta       map[string]any `json:"_meta,omitempty"`
}

const deniedKey = "grantkeeper/denied"

// told is the answer to a call that is denied (decision V10): a result that the
// assistant reads, where the call is a tool's. It has no structuredContent: some
// clients hold that to the tool's schema even then, and lose the reason.
func (d *Denial) told(m *Message, revision string) reply {
	about := map[string]any{deniedKey: d}
	if m.Method == "tools/call" {
		result := toolResult{Content: []content{{"text", d.Text}}, IsError: true, Meta: about}
		if revision >= newRevision {
			result.ResultType = "complete"
		}
		return reply{Version: "2.0", ID: m.ID, Result: result}
	}
	code := codeDenied
	if !m.known() {
		code = codeNoMethod
	}
	return reply{Version: "2.0", ID: m.ID, Error: &replyError{code, d.Text, about}}
}

// refuse is the answer to a call by an error.
func refuse(id json.RawMessage, code int, text string) reply {
	return reply{Version: "2.0", ID: id, Error: &replyError{Code: code, Message: text}}
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(v))
}
