package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
)

// Tool is one that the service lists.
type Tool struct {
	Name  string
	Title string // for people; may be empty
	Reads Known  // never Unknown

	Hinted bool // it says itself whether it reads
}

// How long an annotation counts, and how many tools are remembered.
const (
	annotationsLast = 10 * time.Minute
	maxTools        = 20_000
	maxToolName     = 1024 // bytes; of a longer one nothing is remembered
)

// annotations are what lists of tools said lately (decision V8).
type annotations struct {
	mu    sync.Mutex
	tools map[toolKey]annotation
}

// toolKey: a service may list other tools for each organization, or title them so.
type toolKey struct{ organization, name string }

type annotation struct {
	reads Known
	title string
	until time.Time
}

// note remembers a tool as a list has it. Where two lists differ the stricter
// holds, for as long as it would have.
func (a *annotations) note(organization string, t Tool, now time.Time) {
	if len(t.Name) > maxToolName {
		return
	}
	if !identity.Title(t.Title) { // which nobody will speak of it by
		t.Title = ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	at := toolKey{organization, strings.Clone(t.Name)}
	was, ok := a.tools[at]
	switch {
	case ok && was.until.After(now) && was.reads == Changes && t.Reads == Reads:
		return
	case !ok && len(a.tools) >= maxTools, a.tools == nil:
		a.tools = map[toolKey]annotation{}
	}
	a.tools[at] = annotation{t.Reads, t.Title, now.Add(annotationsLast)}
}

func (a *annotations) of(organization, tool string, now time.Time) Known {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, ok := a.tools[toolKey{organization, tool}]; ok && at.until.After(now) {
		return at.reads
	}
	return Unknown
}

// Tool is what the service last said of a tool to clients of an organization, however
// long ago: to speak of it, not to decide. One of which it said nothing is Unknown.
func (s *Server) Tool(organization, name string) (title string, reads Known) {
	s.tools.mu.Lock()
	defer s.tools.mu.Unlock()
	at := s.tools.tools[toolKey{organization, name}]
	return at.title, at.reads
}

// readTool reads an entry of a list. What is no tool has no name.
func readTool(text json.RawMessage) Tool {
	var t struct {
		Name        string `json:"name"`
		Title       string `json:"title"`
		Annotations struct {
			Title        string `json:"title"`
			ReadOnlyHint *bool  `json:"readOnlyHint"`
		} `json:"annotations"`
	}
	if json.Unmarshal(text, &t) != nil {
		return Tool{Reads: Changes}
	}
	out := Tool{Name: t.Name, Title: t.Title, Reads: Changes} // the hint's own default
	if out.Title == "" {
		out.Title = t.Annotations.Title
	}
	if hint := t.Annotations.ReadOnlyHint; hint != nil {
		out.Hinted = true
		if *hint {
			out.Reads = Reads
		}
	}
	return out
}

// answer is what is known of a message that the service sends.
type answer struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		URI string `json:"uri"` // of a notice
	} `json:"params"`
	Result map[string]json.RawMessage `json:"result"`
	Error  json.RawMessage            `json:"error"`
}

// responds reports whether it answers a call.
func (a *answer) responds() bool { return a.Method == "" && len(a.ID) > 0 }

// updated is the notice that a resource has changed.
const updated = "notifications/resources/updated"

// holds reports whether a message of the service answers a call, and whether it is a
// notice that a resource has changed. A batch may be both.
func holds(data []byte) (answer, notice bool) {
	var m struct { // copies nothing long
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(data, &m) != nil {
		batch := bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("["))
		return batch, batch
	}
	return m.Method == "" && len(m.ID) > 0, m.Method == updated
}

// readAnswers reads one message of the service or, in a batch, several. What is
// neither gives none.
func readAnswers(data []byte) (all []answer, parts []json.RawMessage) {
	parts = []json.RawMessage{data}
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("[")) {
		parts = nil
		if json.Unmarshal(data, &parts) != nil {
			return nil, nil
		}
	}
	all = make([]answer, len(parts))
	for i, part := range parts {
		_ = json.Unmarshal(part, &all[i]) // what is of another kind stays zero
	}
	return all, parts
}

// rewrite gives a message of the service, or a batch, as a client may see it: of a
// list of tools those that keep lets through, and no result for others to cache. It
// gives nil where nothing changes.
func rewrite(data []byte, keep func(Tool) bool) []byte {
	if !bytes.Contains(data, []byte(`"tools"`)) && !bytes.Contains(data, []byte(`"cacheScope"`)) {
		return nil
	}
	all, parts := readAnswers(data)
	changed := false
	for i := range all {
		if all[i].Method != "" || !narrow(all[i].Result, keep) {
			continue
		}
		var whole map[string]json.RawMessage
		if json.Unmarshal(parts[i], &whole) != nil {
			continue
		}
		whole["result"] = encode(all[i].Result)
		parts[i], changed = encode(whole), true
	}
	switch {
	case !changed:
		return nil
	case bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("[")):
		return encode(parts)
	}
	return parts[0]
}

// narrow changes a result, and reports whether it did.
func narrow(result map[string]json.RawMessage, keep func(Tool) bool) (changed bool) {
	if scope, ok := result["cacheScope"]; ok && string(scope) != `"private"` {
		result["cacheScope"], changed = json.RawMessage(`"private"`), true
	}
	var tools []json.RawMessage
	if list, ok := result["tools"]; !ok || json.Unmarshal(list, &tools) != nil || tools == nil {
		return changed
	}
	kept := make([]json.RawMessage, 0, len(tools))
	for _, one := range tools {
		if keep(readTool(one)) {
			kept = append(kept, one)
		}
	}
	if len(kept) < len(tools) {
		result["tools"], changed = encode(kept), true
	}
	return changed
}

// encode writes JSON in one line, and escapes nothing that was not.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // what was JSON, and our own structs
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
