package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/grantkeeper/grantkeeper/rules"
)

// What the bare process can be, as the argument after bareWord says. Each is a
// process of its own, so that each pays for its own work.
const (
	asBare    = "bare"    // 300 bytes of JSON, whatever is asked
	asService = "service" // the service behind: an API, and an MCP server that answers in JSON
	asProxy   = "proxy"   // no more than a reverse proxy before the address that follows
)

func bareServer(kind, upstream string) (http.Handler, error) {
	switch kind {
	case asBare:
		return http.HandlerFunc(bareHandler), nil
	case asService:
		return http.HandlerFunc(serviceHandler), nil
	case asProxy:
		return reverseProxy(&url.URL{Scheme: "http", Host: upstream}), nil
	}
	return nil, fmt.Errorf("%s: there is no %q", bareWord, kind)
}

// reverseProxy is what Go has, with as many connections kept as the guarded one
// keeps, and nothing else.
func reverseProxy(to *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second, DisableCompression: true},
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(to) },
	}
}

// tools are those of the service: two that read and four that change.
var tools = []string{"list_orders", "show_order", "move_order", "close_order", "add_note", "set_price"}

// serviceHandler answers whatever the API is asked, tool calls and the question
// for tools; GET of the MCP endpoint is a stream that stays silent after its
// first event.
func serviceHandler(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/api/v5/mcp":
		bareHandler(w, r)
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || m.ID == nil {
			http.Error(w, "no call", http.StatusBadRequest)
			return
		}
		result := `{"content":[{"type":"text","text":"taken"}],"padding":"` + bareAnswer[len(bareAnswer)-202:len(bareAnswer)-2] + `"}`
		if m.Method == "tools/list" {
			result = toolList()
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
}

func toolList() string {
	var list []map[string]any
	for i, name := range tools {
		list = append(list, map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"},
			"annotations": map[string]any{"readOnlyHint": i < 2}})
	}
	text, err := json.Marshal(map[string]any{"tools": list})
	if err != nil {
		panic(err) // strings alone
	}
	return string(text)
}

// A behind is the service that a server under measurement stands before, and the
// reverse proxy that is measured beside it.
type behind struct {
	service, proxy string // addresses
	end            func() error
}

func startBehind(ctx context.Context) (*behind, error) {
	service, endService, err := startBare(ctx, asService)
	if err != nil {
		return nil, err
	}
	proxy, endProxy, err := startBare(ctx, asProxy, service)
	if err != nil {
		return nil, errors.Join(err, endService())
	}
	return &behind{service, proxy, func() error { return errors.Join(endProxy(), endService()) }}, nil
}

// settings writes the key of the service into the folder, and gives the settings
// that put it behind: its API, its MCP server and, where ruled is true, a rule for
// each of its tools, the one that is called being the fourth.
func (b *behind) settings(folder string, ruled bool) (string, error) {
	key := filepath.Join(folder, "service.key")
	if err := os.WriteFile(key, bytes.Repeat([]byte("of-the-bench-123"), 3), 0o600); err != nil {
		return "", err
	}
	text := fmt.Sprintf("\n[service]\nkey_file = %q\n\n[api]\nupstream = \"http://%s\"\n\n[mcp]\nupstream = \"http://%[2]s/api/v5/mcp\"\n", key, b.service)
	if ruled {
		for _, r := range toolRules() {
			text += fmt.Sprintf("\n[[rules]]\ntool = %q\nrole_from = [%q]\naccess = %q\n", r.Tool, r.RoleFrom[0], r.Access)
		}
	}
	return text, nil
}

// toolRules are a rule for each tool, whose role its argument names. To read is
// enough, because half of an approval's roles give no more.
func toolRules() (all []rules.Rule) {
	for _, name := range tools {
		all = append(all, rules.Rule{Tool: name, RoleFrom: []string{"argument:/role"}, Access: "read"})
	}
	return all
}

// proxyPlayer calls the service's API with access tokens that were made before.
func proxyPlayer(s *stock, connection, connections int) player {
	p := verifyPlayer(s, connection, connections).(*verifies)
	p.request = func(b []byte, number int, bearer []byte) []byte {
		p.needed = append(p.needed[:0], bareAnswer[:20]...)
		return appendGet(b, "/api/v5/orders/7?of="+strconv.Itoa(number), addressOf(number), bearer)
	}
	return p
}

// mcpPlayer calls a tool for a role that the approval has.
func mcpPlayer(s *stock, connection, connections int) player {
	p := verifyPlayer(s, connection, connections).(*verifies)
	p.request = func(b []byte, number int, bearer []byte) []byte {
		p.needed = fmt.Appendf(p.needed[:0], `"id":%d,"result":{"content"`, number)
		person := number % s.people
		p.body = fmt.Appendf(p.body[:0], `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"role":%q,"order":7}}}`,
			number, tools[3], roleID(person/membersEach, person%membersEach))
		b = appendLine(b, "POST ", "/api/v5/mcp", addressOf(number))
		b = fmt.Appendf(b, "Authorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
			"Mcp-Protocol-Version: 2025-06-18\r\nContent-Length: %d\r\n\r\n%s", bearer, len(p.body), p.body)
		return b
	}
	return p
}

func addressOf(number int) uint32 { return uint32(firstAddress + number%addresses) }
