package e2e

import (
	"strings"
	"testing"
)

// Decision V43: the sample behind dev keeps its items in dev's folder, by itself;
// an operator's change of the directory counts at its next call.
func TestSampleBehindDev(t *testing.T) {
	t.Parallel()
	h := start(t, "--data", t.TempDir())
	key := func() header { return header{"X-Auth-Token", h.apiKeys["tor@nordlys.example"]} }
	made := h.caller().postJSON("/api/v5/notes", `{"title":"Kept","role":"nordlys-secretary"}`, key())
	if made.status != 201 {
		t.Fatal(made)
	}
	at := made.header.Get("Location")
	h.stop()
	h.run()
	if a := h.caller().get(at, key()); a.status != 200 || !strings.Contains(a.body, `"title":"Kept"`) || !strings.Contains(a.body, `"access":"change"`) {
		t.Errorf("after a restart: %s", a)
	}
	h.change("/v1/roles/nordlys-secretary/fillers/remove", `{"person":"tor","reason":"test"}`)
	if a := h.caller().get(at, key()); a.status != 200 || !strings.Contains(a.body, `"access":"read"`) {
		t.Errorf("without the role: %s", a)
	}
	a := h.caller().send("POST", "/api/v5/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_item","arguments":{"kind":"note","title":"x","role":"nordlys-secretary"}}}`,
		key(), header{"Content-Type", "application/json", "Accept", "application/json"})
	if a.status != 200 || !strings.Contains(a.body, "does not fill Secretary") {
		t.Errorf("by MCP: %s", a)
	}
}
