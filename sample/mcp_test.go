package sample_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/sample"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// bearer is a client's transport that carries a token.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// connected gives the official client in a session over real HTTP.
func connected(t *testing.T, h *mcpHouse, token string) *sdk.ClientSession {
	t.Helper()
	server := httptest.NewServer(h.handler)
	t.Cleanup(server.Close)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: server.URL + "/api/v5/mcp", HTTPClient: &http.Client{Transport: bearer{token}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func called[T any](t *testing.T, session *sdk.ClientSession, tool string, arguments any) T {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil || result.IsError {
		t.Fatalf("%s: %v, %+v", tool, err, result)
	}
	structured, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	wantSchema(t, session, tool, structured)
	var v, text T
	if err := json.Unmarshal(structured, &v); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(textOf(t, result)), &text); err != nil || fmt.Sprint(text) != fmt.Sprint(v) {
		t.Errorf("%s: text and structure differ: %v\n%+v\n%+v", tool, err, text, v)
	}
	return v
}

func textOf(t *testing.T, result *sdk.CallToolResult) string {
	t.Helper()
	if len(result.Content) != 1 {
		t.Fatalf("content %+v", result.Content)
	}
	text, ok := result.Content[0].(*sdk.TextContent)
	if !ok {
		t.Fatalf("content %T", result.Content[0])
	}
	return text.Text
}

func TestOfficialClient(t *testing.T) {
	h := newMCPHouse(t)
	session := connected(t, h, h.live("ada", "nordlys", grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer", Change: true}}}))
	if id := session.ID(); id != "" {
		t.Errorf("session ID %q", id)
	}
	me := called[sample.Me](t, session, "whoami", nil)
	if me.Person.ID != "ada" || me.Organization.Name != "Nordlys" || me.Grant.Words != "Only selected roles: Treasurer (change)" || len(me.Roles) != 2 {
		t.Errorf("got %+v", me)
	}
	roles := called[sample.Roles](t, session, "list_roles", nil)
	var access []string
	for _, r := range roles.Items {
		access = append(access, r.ID+"="+r.Access)
	}
	if got := strings.Join(access, " "); got != "host=none secretary=none treasurer=change" || roles.Next != "" {
		t.Errorf("got %s, next %q", got, roles.Next)
	}
}

// G-02: no argument leads out of the organization, and a list goes on where it
// ended.
func TestListRolesPages(t *testing.T) {
	h := newMCPHouse(t)
	session := connected(t, h, h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything}))
	first := called[sample.Roles](t, session, "list_roles", map[string]any{"limit": 2})
	second := called[sample.Roles](t, session, "list_roles", map[string]any{"limit": 2, "after": first.Next})
	if len(first.Items) != 2 || first.Next == "" || len(second.Items) != 1 || second.Items[0].ID != "treasurer" || second.Next != "" {
		t.Errorf("got %+v, then %+v", first, second)
	}
	for name, arguments := range map[string]map[string]any{
		"a cursor made up":     {"after": "host"},
		"a limit below":        {"limit": -1},
		"a limit above":        {"limit": 201},
		"a limit in words":     {"limit": "all"},
		"half a limit":         {"limit": 1.5},
		"a limit too large":    {"limit": 1e300},
		"another organization": {"organization": "fjell"},
	} {
		result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "list_roles", Arguments: arguments})
		if err != nil || !result.IsError || textOf(t, result) == "" {
			t.Errorf("%s: %v, %+v", name, err, result)
		}
	}
}

// A token that ends while the client is connected ends its calls at once.
func TestTokenEnds(t *testing.T) {
	h := newMCPHouse(t)
	session := connected(t, h, h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything}))
	called[sample.Me](t, session, "whoami", nil)
	if err := h.store.RemoveMember(t.Context(), "nordlys", "ada", act); err != nil {
		t.Fatal(err)
	}
	if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "whoami"}); err == nil {
		t.Error("a call after the end")
	}
}

// Requests of two people share one server: each gets their own answer.
func TestActorsAtOnceDoNotMix(t *testing.T) {
	h := newMCPHouse(t)
	tokens := map[string]string{
		"ada": h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything}),
		"tor": h.live("tor", "nordlys", grantset.Set{Kind: grantset.Everything}),
	}
	done := make(chan string, 40)
	for i := range 40 {
		person := []string{"ada", "tor"}[i%2]
		go func() {
			w := h.post(tokens[person], rpc("whoami", `{}`))
			if w.Code != 200 || !strings.Contains(w.Body.String(), `"person":{"id":"`+person+`"`) {
				done <- fmt.Sprintf("%s: %d %s", person, w.Code, w.Body)
				return
			}
			done <- ""
		}()
	}
	for range 40 {
		if fault := <-done; fault != "" {
			t.Error(fault)
		}
	}
}

func rpc(tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

// Decision B3: what the authority does not give is a tool result with isError
// and the reason.
func TestForbiddenIsAResult(t *testing.T) {
	h := newMCPHouse(t)
	token := h.live("tor", "nordlys", grantset.Set{Kind: grantset.Everything})
	var answer struct {
		Result struct {
			IsError           bool
			Content           []struct{ Text string }
			StructuredContent any
		}
	}
	w := h.post(token, rpc("create_circle", `{"name":"New"}`))
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	if x := answer.Result; !x.IsError || len(x.Content) != 1 || !strings.Contains(x.Content[0].Text, "not an admin") || x.StructuredContent != nil {
		t.Errorf("got %s", w.Body)
	}
}

// Decision B5.
func TestTransport(t *testing.T) {
	h := newMCPHouse(t)
	token := h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything})
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		contains                 string
	}{
		{"initialize", "POST", "", initialize, nil, 200, `"protocolVersion":"2025-06-18"`},
		{"a session ID that is sent", "POST", "", rpc("whoami", "{}"), []string{"Mcp-Session-Id", "made-up"}, 200, `"id":"ada"`},
		{"a foreign origin", "POST", "", rpc("whoami", "{}"), []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 200, `"id":"ada"`},
		{"an old revision", "POST", "", rpc("whoami", "{}"), []string{"MCP-Protocol-Version", "2024-11-05"}, 200, `"id":"ada"`},
		{"an unknown revision", "POST", "", rpc("whoami", "{}"), []string{"MCP-Protocol-Version", "1999-01-01"}, 400, "Unsupported protocol version"},
		{"GET", "GET", "", "", nil, 405, ""},
		{"GET for a stream", "GET", "", "", []string{"Accept", "text/event-stream"}, 405, ""},
		{"DELETE", "DELETE", "", "", []string{"Mcp-Session-Id", "made-up"}, 405, ""},
		{"PUT", "PUT", "", initialize, nil, 405, ""},
		{"HEAD", "HEAD", "", "", nil, 405, ""},
		{"OPTIONS without preflight", "OPTIONS", "", "", nil, 405, ""},
		{"a slash behind", "POST", "/", initialize, nil, 404, "not_found"},
		{"something behind", "POST", "/x", initialize, nil, 404, "not_found"},
		{"no body", "POST", "", "", nil, 400, "not JSON"},
		{"not JSON", "POST", "", "hello", nil, 400, "not JSON"},
		{"half a JSON", "POST", "", initialize[:40], nil, 400, "not JSON"},
		{"two objects", "POST", "", initialize + initialize, nil, 400, "not JSON"},
		{"null", "POST", "", "null", nil, 400, ""},
		{"a number", "POST", "", "7", nil, 400, ""},
		{"an empty batch", "POST", "", "[]", nil, 400, ""},
		{"an empty object", "POST", "", "{}", nil, 400, ""},
		{"no version", "POST", "", `{"id":1,"method":"ping"}`, nil, 400, ""},
		{"an unknown method", "POST", "", `{"jsonrpc":"2.0","id":1,"method":"nope"}`, nil, 200, "-32601"},
		{"params of a wrong type", "POST", "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":7}`, nil, 200, `"error"`},
		{"no tool name", "POST", "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, nil, 200, `"error"`},
		{"a call without params", "POST", "", `{"jsonrpc":"2.0","id":"a","method":"tools/call"}`, nil, 200, `"id":"a","error":{"code":-32602`},
		{"a notification without params", "POST", "", `{"jsonrpc":"2.0","method":"notifications/progress"}`, nil, 400, "params"},
		{"a notification as a call", "POST", "", `{"jsonrpc":"2.0","id":4,"method":"notifications/initialized"}`, nil, 200, `"id":4,"error":{"code":-32601`},
		{"an unknown tool", "POST", "", rpc("drop_table", "{}"), nil, 200, "unknown tool"},
		{"NUL", "POST", "", rpc("whoami\x00", "{}"), nil, 400, ""},
		{"a body of 64 KiB", "POST", "", padded(64 << 10), nil, 200, `"id":"ada"`},
		{"one byte more", "POST", "", padded(64<<10 + 1), nil, 413, "65536 bytes"},
		{"another media type", "POST", "", initialize, []string{"Content-Type", "text/plain"}, 415, ""},
		{"an answer nobody can read", "POST", "", initialize, []string{"Accept", "text/html"}, 400, "Accept"},
		{"a batch of an old revision", "POST", "", "[" + rpc("whoami", "{}") + "]", nil, 200, `"id":"ada"`},
		{"a batch with one ID twice", "POST", "", "[" + rpc("whoami", "{}") + "," + rpc("whoami", "{}") + "]", nil, 400, "two calls with one ID"},
		{"a batch of 16", "POST", "", "[" + pings(15) + "," + rpc("whoami", "{}") + "]", nil, 200, `"id":"ada"`},
		{"a batch of 17", "POST", "", " [" + pings(16) + "," + rpc("whoami", "{}") + "]", nil, 400, "at most 16"},
		{"a batch of a new revision", "POST", "", "[" + rpc("whoami", "{}") + "]", []string{"MCP-Protocol-Version", "2025-11-25"}, 400, ""},
		{"a notification", "POST", "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 202, ""},
		{"an answer to nothing", "POST", "", `{"jsonrpc":"2.0","id":9,"result":{}}`, nil, 202, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			headers := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token}
			for i := 0; i < len(c.headers); i += 2 {
				headers[c.headers[i]] = c.headers[i+1]
			}
			w := post(h.handler, c.method, "/api/v5/mcp"+c.path, c.body, headers)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.contains) {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if c.status == 405 && w.Header().Get("Allow") != "POST" {
				t.Errorf("Allow %q", w.Header().Get("Allow"))
			}
			if c.status == 200 && w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("Content-Type %q", w.Header().Get("Content-Type"))
			}
			if w.Header().Get("Mcp-Session-Id") != "" || w.Header().Get("Location") != "" || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("headers %v", w.Header())
			}
			delete(headers, "Authorization")
			if w := post(h.handler, c.method, "/api/v5/mcp"+c.path, c.body, headers); w.Code != 401 {
				t.Errorf("without a token: %d %s", w.Code, w.Body)
			}
		})
	}
}

// pings are n calls, for a batch, under IDs of their own.
func pings(n int) string {
	calls := make([]string, n)
	for i := range calls {
		calls[i] = fmt.Sprintf(`{"jsonrpc":"2.0","id":"ping %d","method":"ping"}`, i)
	}
	return strings.Join(calls, ",")
}

// padded is a good call of whoami of n bytes.
func padded(n int) string {
	s := rpc("whoami", "{}")
	return s + strings.Repeat(" ", n-len(s))
}

// Every revision that the SDK speaks, with what each asks of a request.
func TestRevisions(t *testing.T) {
	h := newMCPHouse(t)
	token := h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything})
	for _, revision := range sdk.SupportedProtocolVersions() {
		t.Run(revision, func(t *testing.T) {
			meta := ""
			headers := map[string]string{
				"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
				"Authorization": "Bearer " + token, "MCP-Protocol-Version": revision,
			}
			if revision >= "2026-07-28" {
				headers["Mcp-Method"], headers["Mcp-Name"] = "tools/call", "whoami"
				meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + revision + `","io.modelcontextprotocol/clientCapabilities":{}}`
			}
			body := `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"whoami"` + meta + `}}`
			w := post(h.handler, "POST", "/api/v5/mcp", body, headers)
			if w.Code != 200 || !strings.Contains(w.Body.String(), `"person":{"id":"ada"`) {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

// A stream would outlive the token that opened it, so none stays open: nothing
// here changes, so there is nothing to listen to.
func TestNothingToListenTo(t *testing.T) {
	h := newMCPHouse(t)
	token := h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything})
	const revision = "2026-07-28"
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"` + revision + `","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for accept, want := range map[string]int{"application/json, text/event-stream": 200, "application/json": 400} { // it is a stream
		w := post(h.handler, "POST", "/api/v5/mcp", body, map[string]string{
			"Content-Type": "application/json", "Accept": accept, "Authorization": "Bearer " + token,
			"MCP-Protocol-Version": revision, "Mcp-Method": "subscriptions/listen",
		})
		if w.Code != want || strings.Contains(w.Body.String(), `"result"`) != (want == 200) {
			t.Errorf("%s: got %d %s", accept, w.Code, w.Body)
		}
	}
}

// Odd bodies get a 4xx or a JSON-RPC error, and the server lives on.
func FuzzBody(f *testing.F) {
	h := newMCPHouse(f)
	token := h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything})
	for _, seed := range []string{
		initialize, rpc("whoami", "{}"), rpc("list_roles", `{"limit":1,"after":"x"}`), "[" + rpc("whoami", "null") + "]",
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, `{"jsonrpc":"2.0","id":1,"error":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize"}`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":null}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}`, `{"jsonrpc":"2.0","id":1,"method":"prompts/get"}`,
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`, `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"x"}}`, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`,
		rpc("list_items", `{"kind":"note","mine":true}`), rpc("create_item", `{"kind":"note","title":"x","personal":true}`), rpc("change_item", `{"kind":"note","id":"x","title":"\ud83d"}`),
		rpc("delete_item", `{"kind":"note","id":null}`), rpc("set_filler", `{"role":"host","person":"ada","fills":1}`),
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"svalinn://nordlys/notes/x"}}`, `{"jsonrpc":"2.0","id":1,"method":"resources/templates/list"}`,
		strings.Repeat("[", 5000), `{"a":` + strings.Repeat(`{"a":`, 5000), "\xff\xfe", "\x00",
	} {
		for _, revision := range []string{"", "2025-03-26", "2025-11-25", "2026-07-28", "9999-99-99", "x"} {
			f.Add(seed, revision)
		}
	}
	f.Fuzz(func(t *testing.T, body, revision string) {
		headers := map[string]string{"Content-Type": "application/json", "Accept": "*/*", "Authorization": "Bearer " + token}
		if revision != "" {
			headers["MCP-Protocol-Version"] = revision
		}
		w := post(h.handler, "POST", "/api/v5/mcp", body, headers)
		if w.Code >= 500 || w.Code != 202 && w.Body.Len() == 0 {
			t.Fatalf("got %d %q for %q", w.Code, w.Body, body)
		}
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("headers %v", w.Header())
		}
	})
}
