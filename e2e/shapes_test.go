package e2e

import (
	"strings"
	"testing"
)

// What assistants ask for before they know the server, in their order: those that end up
// at an answer that they do not expect give up, or try the next one on a 404 alone.
func TestShapesOfDiscovery(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.caller()
	const (
		resource     = "/.well-known/oauth-protected-resource"
		server       = "/.well-known/oauth-authorization-server"
		openid       = "/.well-known/openid-configuration"
		mcp          = "/api/v5/mcp"
		found, not   = 200, 404
		protocol     = "Mcp-Protocol-Version"
		browsersLike = "https://assistant.example"
	)
	for _, one := range []struct {
		who    string
		path   string
		status int
		with   header
	}{
		{"an SDK of 2025-06-18 and later", resource + mcp, found, header{protocol, "2025-06-18"}},
		{"the same, at its second step", server, found, header{protocol, "2025-06-18"}},
		{"one that knows the root alone", resource, found, header{protocol, "2025-11-25"}},
		{"an SDK of 2025-03-26, which knows no resource", server, found, header{protocol, "2025-03-26"}},
		{"one that puts the resource's path behind", server + mcp, not, header{protocol, "2025-11-25"}},
		{"one that tries OpenID", openid, not, header{protocol, "2025-11-25"}},
		{"the same, with the path behind", openid + mcp, not, header{protocol, "2025-11-25"}},
		{"a page in a browser", resource + mcp, found, header{"Origin", browsersLike}},
		{"a page in a browser, at its second step", server, found, header{"Origin", browsersLike}},
	} {
		if a := c.get(one.path, one.with); a.status != one.status {
			t.Errorf("%s: %s", one.who, a)
		}
	}
	for _, method := range []string{"GET", "POST", "HEAD"} { // what begins it all
		a := c.send(method, mcp, "", header{"Accept", "application/json, text/event-stream"})
		if got := a.header.Get("WWW-Authenticate"); a.status != 401 || !strings.Contains(got, `resource_metadata="`+h.base+resource+mcp+`"`) {
			t.Errorf("%s without a token: %s", method, a)
		}
	}
}

// The first requests of assistants of each revision, once they have a token, in the bytes
// that threads and sources show, and the revision that they are answered with.
func TestShapesOfInitialization(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, has := h.connected(h.register(redirect), everything...)
	c := h.caller()
	first := func(body string, more ...header) answer {
		return c.postJSON("/api/v5/mcp", body, append(more, header{"Authorization", "Bearer " + has.access}, header{"Accept", "application/json, text/event-stream"})...)
	}
	for _, one := range []struct{ who, revision, body string }{
		{"Claude", "2025-06-18", `{"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"claude-ai","version":"0.1.0"}},"jsonrpc":"2.0","id":0}`},
		{"ChatGPT", "2025-03-26", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"openai-mcp","version":"1.0.0"}}}`},
		{"Cursor", "2025-06-18", `{"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"tools":true,"prompts":true,"resources":true,"logging":false,"elicitation":{},"roots":{"listChanged":false}},"clientInfo":{"name":"cursor-vscode","version":"1.0.0"}},"jsonrpc":"2.0","id":0}`},
		{"VS Code", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}},"tasks":{"list":{},"cancel":{}}},"clientInfo":{"name":"Visual Studio Code","version":"1.107.0"}}}`},
		{"an SDK of the first revision", "2024-11-05", `{"jsonrpc":"2.0","id":"1","method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"mcp","version":"0.1.0"}}}`},
		{"one of a revision to come", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2099-01-01","capabilities":{},"clientInfo":{"name":"later","version":"9"}}}`},
	} {
		a := first(one.body)
		if a.status != 200 || !strings.Contains(a.body, `"protocolVersion":"`+one.revision) || !strings.Contains(a.body, `"serverInfo"`) {
			t.Errorf("%s: %s", one.who, a)
			continue
		}
		with := []header{{"Mcp-Protocol-Version", one.revision}}
		if id := a.header.Get("Mcp-Session-Id"); id != "" {
			with = append(with, header{"Mcp-Session-Id", id})
		}
		if a := first(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, with...); a.status != 202 {
			t.Errorf("%s, initialized: %s", one.who, a)
		}
	}
	// From 2026-07-28 on nothing is initialized: each request says what it needs.
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"later","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	for method, says := range map[string]string{"server/discover": `"2026-07-28"`, "tools/list": `"whoami"`} {
		a := first(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+meta+`}}`, header{"Mcp-Protocol-Version", "2026-07-28"}, header{"Mcp-Method", method})
		if a.status != 200 || !strings.Contains(a.body, says) {
			t.Errorf("%s: %s", method, a)
		}
	}
}
