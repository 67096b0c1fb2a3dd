package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/identity"
)

// caddy runs the server of docs/examples/Caddyfile in front of a host.
func caddy(t testing.TB, listen, server, gateways, service string) {
	t.Helper()
	program, err := exec.LookPath("caddy")
	if err != nil {
		t.Fatal("this test needs caddy: run scripts/setup-debian.sh")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "Caddyfile")
	text := "{\n\tadmin off\n}\n" + example(t, "Caddyfile", "app.example.com {", "http://"+listen+" {\n\tbind "+proxied,
		"127.0.0.1:8080", server, "127.0.0.1:8082", gateways, "127.0.0.1:9000", service)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "run", "--config", config, "--adapter", "caddyfile")
	c.Env = append(os.Environ(), "GATEWAY_KEY="+nginxKey, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	process(t, c)
	listens(t, listen)
}

// The recipe of docs/integrating.md, with a real Caddy: it asks about each call
// of API v5, and nothing that a client says reaches the service as ours.
func TestCaddyRecipe(t *testing.T) {
	t.Parallel()
	h, gateways := withGateways(t, "[api]\nrate_limit = \"12/10m\"")
	direct := h.host()
	front := h.at(proxied)
	caddy(t, front.host(), direct, gateways, notesService(t, nginxKey, "-forward-auth"))
	f, tk := front.connected("", treasurer...)
	bearer := header{"Authorization", "Bearer " + tk.access}
	c := front.caller()
	challenge := `Bearer realm="Svalinn", resource_metadata="` + front.base + `/.well-known/oauth-protected-resource/api/v5"`

	forged := header{"X-Original-URI", "/api/v3/x", "X-Original-Host", "evil.example", "X-Forwarded-Uri", "/api/v3/x",
		"X-Forwarded-Host", "evil.example", "Forwarded", "for=192.0.2.1;host=evil.example", "X-Gateway-Key", "x"}
	for _, name := range []string{"Person", "Organization", "Approval", "Client", "Grant", "Authority", "Signature", "Something"} {
		forged = append(forged, identity.Prefix+name, "forged")
	}
	a := c.get("/api/v5/notes?x=1", append(forged, bearer...))
	var who identity.Identity
	if err := json.Unmarshal([]byte(a.body), &who); err != nil || a.status != 200 || who.Person != "ada" || who.Client != f.client || who.Admin || strings.Contains(a.body, "forged") {
		t.Fatalf("a call that may pass: %v %s", err, a)
	}
	// With an API key the answer names neither client nor approval: those of the
	// client stay out as well, or the signature does not hold.
	if a := c.get("/api/v5/notes", append(forged, "X-Auth-Token", "api-key-of-ada-in-nordlys")); a.status != 200 || !strings.Contains(a.body, `"Client":""`) {
		t.Errorf("an API key: %s", a)
	}
	for _, tt := range []struct {
		headers header
		want    string
	}{
		{nil, challenge},
		{header{"Authorization", "Bearer garbage"}, challenge + `, error="invalid_token"`},
	} {
		a := c.get("/api/v5/notes", tt.headers)
		if got := a.header["Www-Authenticate"]; a.status != 401 || len(got) != 1 || got[0] != tt.want {
			t.Errorf("%v: %s", tt.headers, a)
		}
	}
	if a := c.postJSON("/api/v5/notes", "{}", bearer); a.status != 201 {
		t.Errorf("a change: %s", a)
	}
	if a := c.send("OPTIONS", "/api/v5/notes", "", header{"Origin", "https://quill.example", "Access-Control-Request-Method", "POST"}); a.status != 204 {
		t.Errorf("preflight: %s", a)
	}
	if a := c.get("/api/v5/mcp", bearer); a.status != 404 || !strings.Contains(a.body, "mcp.upstream") { // is the server's own
		t.Errorf("MCP: %s", a)
	}
	if a := c.get("/api/v5/me", bearer); a.status != 200 || a.json(t)["organization"] == nil { // and so is this
		t.Errorf("me: %s", a)
	}
	for path, want := range map[string]int{
		"/api/v5/..;/v3/notes": 400, "/api/v5/%252e%252e/v3/notes": 400, "/api/v5/../v3/notes": 404, "/api/v5/%2e%2e/v3/notes": 404, "//api/v5/notes": 400, "/API/V5/notes": 404,
	} {
		a := front.raw("GET " + path + " HTTP/1.1\r\nHost: " + front.host() + "\r\nAuthorization: Bearer " + tk.access + "\r\nConnection: close\r\n\r\n")
		if a.status != want || strings.Contains(a.body, "Person") {
			t.Errorf("%s: %s", path, a)
		}
	}
	for range 13 {
		if a = c.get("/api/v5/notes", bearer); a.status != http.StatusOK {
			break
		}
	}
	if wait := a.header.Get("Retry-After"); a.status != 429 || wait == "" || wait == "0" {
		t.Errorf("over the limit: %s", a)
	}
	h.stop()
	if a := c.get("/api/v5/notes", bearer); a.status < 500 || strings.Contains(a.body, "Person") {
		t.Errorf("while nobody can be asked: %s", fmt.Sprint(a))
	}
}
