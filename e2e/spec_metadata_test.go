package e2e

import (
	"strings"
	"testing"
)

// hosts are names of one server, and {base} of each (decisions M1 and M2).
func hosts(h *house) map[string]string {
	port := h.base[strings.LastIndexByte(h.base, ':'):]
	return map[string]string{
		"127.0.0.1" + port:    "http://127.0.0.1" + port,
		"localhost" + port:    "http://localhost" + port,
		"LocalHost" + port:    "http://localhost" + port,
		"[::1]" + port:        "http://[::1]" + port,
		"eu.localhost" + port: "http://eu.localhost" + port,
		"127.0.0.9:7":         "http://127.0.0.9:7",
		"localhost:80":        "http://localhost",
		"localhost":           "http://localhost",
	}
}

func wantOpenDocument(t *testing.T, path string, a answer) {
	t.Helper()
	if a.status != 200 || a.header.Get("Content-Type") != jsonType {
		t.Errorf("%s: %s", path, a)
	}
	if got := a.header.Get("Cache-Control"); !strings.Contains(got, "max-age=3600") {
		t.Errorf("%s: Cache-Control %q; want at most an hour (decision M6)", path, got)
	}
	if a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%s: CORS: %v (decision M5)", path, a.header)
	}
}

// "Lists the endpoints, supported grant types, response types, PKCE methods
// and scopes. Every URL in these documents is built from the host that was
// asked." Decision M3 has the members: these and no others.
func TestSpec4AuthorizationServerMetadata(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.caller()
	const path = "/.well-known/oauth-authorization-server"
	for host, base := range hosts(h) {
		a := c.get(path, header{"Host", host})
		wantOpenDocument(t, host, a)
		wantMembers(t, host, a.json(t), map[string]any{
			"issuer":                                         base,
			"authorization_endpoint":                         base + "/oauth/authorize",
			"token_endpoint":                                 base + "/oauth/token",
			"registration_endpoint":                          base + "/oauth/register",
			"revocation_endpoint":                            base + "/oauth/revoke",
			"scopes_supported":                               []any{"api"},
			"response_types_supported":                       []any{"code"},
			"response_modes_supported":                       []any{"query"},
			"grant_types_supported":                          []any{"authorization_code", "refresh_token"},
			"token_endpoint_auth_methods_supported":          []any{"none"},
			"revocation_endpoint_auth_methods_supported":     []any{"none"},
			"code_challenge_methods_supported":               []any{"S256"},
			"authorization_response_iss_parameter_supported": true,
			"dpop_signing_alg_values_supported":              []any{"ES256", "Ed25519", "EdDSA", "PS256", "RS256"},
			"grantkeeper_desktop_endpoint":                   base + "/oauth/desktop", // dev lets programs on one's own computer connect (decision A15)
		})
		if head := c.send("HEAD", path, "", header{"Host", host}); head.status != 200 || head.body != "" ||
			head.header.Get("Content-Length") != a.header.Get("Content-Length") {
			t.Errorf("HEAD: %s", head)
		}
	}
}

// "Describes the API as the protected resource and names the authorization
// server" / "Same for the MCP endpoint." / decision M4: the root form is the
// MCP endpoint's.
func TestSpec4ProtectedResourceMetadata(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.caller()
	for path, resource := range map[string]string{
		"/.well-known/oauth-protected-resource/api/v5":     "/api/v5",
		"/.well-known/oauth-protected-resource/api/v5/mcp": "/api/v5/mcp",
		"/.well-known/oauth-protected-resource":            "/api/v5/mcp",
	} {
		for host, base := range hosts(h) {
			a := c.get(path, header{"Host", host})
			wantOpenDocument(t, path, a)
			v := a.json(t)
			if name, _ := v["resource_name"].(string); !strings.Contains(name, "Svalinn") {
				t.Errorf("%s: resource_name %v does not name the service", path, v["resource_name"])
			}
			delete(v, "resource_name")
			wantMembers(t, path+" at "+host, v, map[string]any{
				"resource":                 base + resource,
				"authorization_servers":    []any{base},
				"scopes_supported":         []any{"api"},
				"bearer_methods_supported": []any{"header"},
			})
		}
	}
}

// "Public JSON": no credential, and one that is sent does not matter; what is
// not there is 404 with JSON (decision M4), and other methods are 405.
func TestSpec4WellKnowns(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.caller()
	const good = "/.well-known/oauth-authorization-server"
	if a := c.get(good+"?x=1", header{"Authorization", "Bearer x", "X-Auth-Token", "y"}); a.status != 200 {
		t.Errorf("with a credential: %s", a)
	}
	for _, path := range []string{
		"openid-configuration", "oauth-authorization-server/", "oauth-authorization-server/api/v5", "oauth-authorization-server/api/v5/mcp",
		"oauth-protected-resource/", "oauth-protected-resource/api", "oauth-protected-resource/api/v5/", "oauth-protected-resource/api/v5/mcp/",
		"oauth-protected-resource/api/v3", "oauth-protected-resource/api/v4", "OAuth-Authorization-Server", "jwks.json", "nothing", "", "%00",
	} {
		wantJSONError(t, path, c.get("/.well-known/"+path), 404, "not_found")
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"} {
		a := c.send(method, good, "")
		wantJSONError(t, method, a, 405, "invalid_request")
		if a.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: Allow %q", method, a.header.Get("Allow"))
		}
	}
}

// Decision M2: any other Host gets 421 and no echo of it; what a proxy that
// nobody configured says is ignored.
func TestDecisionM2ForeignHosts(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.caller()
	before := h.rows()
	port := h.base[strings.LastIndexByte(h.base, ':'):]
	for _, host := range []string{
		"evil.example", "evil.example" + port, "app.example", "localhost.evil.example" + port, "127.0.0.1.evil.example",
		"localhost." + port[1:], "1.2.3.4" + port, "[2001:db8::1]" + port, "0.0.0.0" + port, "127.1" + port, "2130706433", "localhost:99999",
		"localhost:x", "evil.example:80", "localhost" + port + "@evil.example", "-", "::1", "xn--lcalhost-54a" + port,
	} {
		for _, request := range [][2]string{
			{"GET", "/.well-known/oauth-authorization-server"}, {"GET", "/.well-known/oauth-protected-resource/api/v5"},
			{"POST", "/oauth/register"}, {"POST", "/oauth/token"}, {"POST", "/oauth/revoke"}, {"GET", "/oauth/authorize"},
			{"POST", "/oauth/authorize"}, {"GET", "/signin"}, {"GET", "/api/v5/me"}, {"POST", "/api/v5/mcp"}, {"GET", "/api/v3/me"},
			{"GET", "/"}, {"GET", "/nothing"}, {"OPTIONS", "/oauth/token"},
		} {
			a := c.send(request[0], request[1], `{"redirect_uris":["https://connect.quill.example/x"]}`,
				header{"Host", host, "Content-Type", jsonType, "Origin", "https://connect.quill.example", "Access-Control-Request-Method", "POST"})
			if a.status != 421 {
				t.Errorf("%s %s at %q: got %d, want 421", request[0], request[1], host, a.status)
			}
			if all := a.String(); len(host) > 3 && strings.Contains(all, host) || a.header.Get("Location") != "" {
				t.Errorf("%s %s at %q: the host comes back: %s", request[0], request[1], host, all)
			}
		}
	}
	h.unchanged(t, before)
	forwarded := header{"X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "https", "X-Forwarded-Port", "443",
		"Forwarded", `for=1.1.1.1;host=evil.example;proto=https`, "X-Original-Host", "evil.example", "X-Rewrite-URL", "/"}
	if a := c.get("/.well-known/oauth-authorization-server", forwarded); a.json(t)["issuer"] != h.base {
		t.Errorf("a stranger's forwarding headers are believed: %s", a)
	}
	if a := c.get("/api/v5/me", forwarded); !strings.Contains(a.header.Get("WWW-Authenticate"), `"`+h.base+"/") {
		t.Errorf("a stranger's forwarding headers are believed: %s", a)
	}
}

// Decision M5: scripts of every origin may read the endpoints for clients and
// the API, without credentials; never what is for people. A preflight is
// answered first, uncounted and without a credential.
func TestDecisionM5CORS(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.caller()
	origin := header{"Origin", "https://app.quill.example"}
	preflight := append(header{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization, content-type, mcp-protocol-version"}, origin...)
	open := []string{
		"/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/api/v5",
		"/.well-known/oauth-protected-resource/api/v5/mcp", "/.well-known/openid-configuration", "/oauth/register", "/oauth/token",
		"/oauth/revoke", "/api/v5/me", "/api/v5/mcp", "/api/v5/nothing", "/api/v4/me", "/api/v3/me",
	}
	for _, path := range open {
		a := c.send("OPTIONS", path, "", preflight)
		if a.status != 204 || a.body != "" || a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("preflight of %s: %s", path, a)
		}
		allowed := ", " + strings.ToLower(a.header.Get("Access-Control-Allow-Headers")) + ","
		for _, name := range []string{"Authorization", "Content-Type", "Accept", "MCP-Protocol-Version", "Mcp-Session-Id", "Mcp-Method",
			"Mcp-Name", "Last-Event-ID", "X-Auth-Token"} {
			if !strings.Contains(allowed, " "+strings.ToLower(name)+",") {
				t.Errorf("preflight of %s: %s is not allowed: %s", path, name, allowed)
			}
		}
		want := "POST"
		if strings.HasPrefix(path, "/.well-known/") {
			want = "GET"
		}
		if !strings.Contains(a.header.Get("Access-Control-Allow-Methods"), want) {
			t.Errorf("preflight of %s: methods %q", path, a.header.Get("Access-Control-Allow-Methods"))
		}
		for _, method := range []string{"GET", "POST"} { // refused or not
			a := c.send(method, path, "", origin)
			exposed := a.header.Get("Access-Control-Expose-Headers")
			if a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("Access-Control-Allow-Credentials") != "" ||
				!strings.Contains(exposed, "WWW-Authenticate") || !strings.Contains(exposed, "Retry-After") || !strings.Contains(exposed, "MCP-Protocol-Version") {
				t.Errorf("%s %s: %s", method, path, a)
			}
		}
	}
	for _, path := range []string{"/oauth/authorize", "/oauth/authorize?" + h.flow("").query(), "/signin", "/", "/organizations/nordlys/profile/api"} {
		for _, method := range []string{"OPTIONS", "GET", "POST"} {
			a := c.send(method, path, "", preflight)
			for name := range a.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s: %s", method, path, name)
				}
			}
		}
	}
}

// "The authorization server, its endpoints and its metadata documents live
// outside /api/v5."
func TestSpec9OutsideAPIv5(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, tk := h.connected("")
	for _, path := range []string{"/oauth/register", "/oauth/token", "/oauth/authorize", "/.well-known/oauth-authorization-server"} {
		if a := h.caller().get("/api/v5"+path, header{"Authorization", "Bearer " + tk.access}); a.status != 404 {
			t.Errorf("/api/v5%s: %s", path, a)
		}
	}
	for name, v := range h.caller().get("/.well-known/oauth-authorization-server").json(t) {
		if s, ok := v.(string); ok && strings.Contains(s, "/api/") {
			t.Errorf("%s: %s", name, s)
		}
	}
}
