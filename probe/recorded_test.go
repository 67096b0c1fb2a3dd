package probe

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorded are servers as they answered on loopback, and each of their rows that is
// neither ok nor none. Each was looked at by hand: it is so.
var recorded = map[string]string{
	// MCP-side of the Go SDK; its authorization server has no metadata of its own, so
	// the example's names what fosite is set up for: no registration.
	"go-sdk-fosite": "server.iss note, server.clients warn, server.registration note, server.cimd note, server.revocation note, server.cors-metadata note, " +
		"server.cors-token note, legacy.root note, mcp.2025-03-26 note, mcp.2025-11-25 note, mcp.2026-07-28 note",
	// Its authorization server is for whoever tries the example to fill in.
	"go-sdk-example": "resource.well-known note, resource.servers fail, legacy.root note, mcp.2025-03-26 note, mcp.2025-06-18 fail, mcp.2025-11-25 fail, mcp.2026-07-28 fail",
	// As it comes, oidc-provider refuses each resource (invalid_target) until
	// getResourceServerInfo knows it: no client of MCP, which must send it, gets in.
	"go-sdk-oidc-provider": "server.cimd note, server.scopes note, server.revocation note, begin.resource fail, legacy.root note, mcp.2025-03-26 note, " +
		"mcp.2025-06-18 fail, mcp.2025-11-25 fail, mcp.2026-07-28 fail",
	// The same, with its features for MCP on: registration, metadata documents of clients,
	// revocation, and resources.
	"go-sdk-oidc-provider-for-mcp": "legacy.root note, mcp.2025-03-26 note",
	"go-sdk-zitadel": "server.rfc8414 note, server.iss note, server.clients warn, server.registration note, server.cimd note, server.scopes note, legacy.root note, " +
		"mcp.2025-03-26 note, mcp.2025-06-18 note, mcp.2025-11-25 note, mcp.2026-07-28 note",
	// Loopback redirects are refused by contract (spec 2.1), and clients are not deleted.
	"grantkeeper": "challenge.scope note, server.cimd note, register.loopback warn, register.left note",
	// Without code_challenge the redirect comes back with error and no state.
	"mcp-typescript-sdk":         "challenge.error note, challenge.scope note, server.iss note, server.cimd note, server.revocation note, register.left note, begin.state warn",
	"mcp-typescript-sdk-issuer":  "server.iss note, server.cimd note, server.revocation note, register.left note, begin.state warn",
	"oidc-provider":              "server.clients warn, server.registration note, server.cimd note, server.revocation note, mcp.2025-11-25 note, mcp.2026-07-28 note",
	"oidc-provider-registration": "server.cimd note, server.revocation note", // and deletes both clients again
	// Its metadata are those of OpenID Connect Discovery alone.
	"zitadel": "server.rfc8414 note, server.iss note, server.clients warn, server.registration note, server.cimd note, mcp.2025-06-18 note, mcp.2025-11-25 note, mcp.2026-07-28 note",
}

// Servers that others wrote are judged as they are, and asked as they were.
func TestRecordedServers(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) != len(recorded) {
		t.Fatalf("%d files, want %d: %v", len(files), len(recorded), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var was struct {
				Server string
				Inquiry
			}
			if err := json.Unmarshal(text, &was); err != nil || was.Server == "" {
				t.Fatal(err)
			}
			q := &Inquiry{URL: was.URL, Register: was.Register}
			for i, e := range was.Exchanges {
				r, more := q.Next()
				if r.Token = ""; !more || r != e.Request {
					t.Fatalf("request %d is\n%+v, and was\n%+v", i, r, e.Request)
				}
				q.Exchanges = append(q.Exchanges, e)
			}
			if r, more := q.Next(); more {
				t.Fatalf("asks %+v as well", r)
			}
			var got []string
			for _, r := range q.Rows() {
				if r.Result != OK && r.Result != None {
					got = append(got, r.Code+" "+r.Result)
				}
			}
			if want := strings.Split(recorded[name], ", "); !slices.Equal(got, want) {
				t.Errorf("%s:\n%s, want\n%s", was.Server, strings.Join(got, ", "), recorded[name])
			}
		})
	}
}
