package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// initialize is the first message of an MCP client.
const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"quill","version":"1"}}}`

// mcp posts a message to the MCP endpoint.
func (c *caller) mcp(access, message string, h ...header) answer {
	c.h.t.Helper()
	return c.send("POST", "/api/v5/mcp", message, append(h, header{"Authorization", "Bearer " + access, "Content-Type", jsonType,
		"Accept", "application/json, text/event-stream"})...)
}

// wantChallenge checks a 401 of the API: the one header of decision B2, to the
// letter.
func wantChallenge(t *testing.T, what string, a answer, metadata string, rejected bool) {
	t.Helper()
	want := `Bearer realm="Svalinn"`
	if metadata != "" {
		want += `, resource_metadata="` + metadata + `"`
	}
	if rejected {
		want += `, error="invalid_token"`
	}
	if got := a.header.Values("WWW-Authenticate"); a.status != 401 || len(got) != 1 || got[0] != want {
		t.Errorf("%s: got %d %q\nwant 401 %q", what, a.status, got, want)
	}
	if a.header.Get("Content-Type") != jsonType || a.header.Get("Cache-Control") != "no-store" || a.errorCode() == "" || a.header.Get("Location") != "" {
		t.Errorf("%s: %s", what, a)
	}
}

// The paths of API v5, and the protected-resource document of each (spec 5.7).
var v5Paths = map[string]string{
	"/api/v5": "/api/v5", "/api/v5/": "/api/v5", "/api/v5/me": "/api/v5", "/api/v5/roles/x": "/api/v5", "/api/v5/nothing": "/api/v5",
	"/api/v5/../v4/me": "/api/v5", "/api/v5//me": "/api/v5", "/api/v5/me?access_token=x": "/api/v5",
	"/api/v5/mcpx": "/api/v5", "/api/v5/MCP": "/api/v5", "/api/v5/mcp": "/api/v5/mcp", "/api/v5/mcp/": "/api/v5/mcp", "/api/v5/mcp/x": "/api/v5/mcp",
	"/api/v5/mcp?token=x": "/api/v5/mcp",
}

// Spec 5.7: "On a missing or invalid credential the API answers 401 with a
// WWW-Authenticate challenge"; decision B1: before routing, method and body,
// on everything under /api/v5 and on every host.
func TestSpec57Challenge(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, tk := h.connected("")
	good := "Bearer " + tk.access
	credentials := []struct {
		name     string
		header   header
		rejected bool
	}{
		{"no credential", nil, false},
		{"another scheme", header{"Authorization", "Basic eDp5"}, false},
		{"another scheme with the token", header{"Authorization", "Token " + tk.access}, false},
		{"the token without a scheme", header{"Authorization", tk.access}, false},
		{"a scheme without a token", header{"Authorization", "Bearer"}, false},
		{"an empty header", header{"Authorization", ""}, false},
		{"a cookie", header{"Cookie", "session=x; access_token=" + tk.access}, false},
		{"nonsense", header{"Authorization", "Bearer x"}, true},
		{"an unknown access token", header{"Authorization", "Bearer svo_" + strings.Repeat("x", len(tk.access)-4)}, true},
		{"its last letter gone", header{"Authorization", good[:len(good)-1]}, true},
		{"a letter more", header{"Authorization", good + "0"}, true},
		{"a letter changed", header{"Authorization", changed(good)}, true},
		{"two tokens in one header", header{"Authorization", good + " " + tk.access}, true},
		{"two tokens with a comma", header{"Authorization", good + ", " + good}, true},
		{"quotes", header{"Authorization", `Bearer "` + tk.access + `"`}, true},
		{"in capitals", header{"Authorization", "Bearer " + strings.ToUpper(tk.access)}, true},
		{"ten thousand letters", header{"Authorization", "Bearer " + strings.Repeat("x", 10_000)}, true},
		{"a refresh token", header{"Authorization", "Bearer " + tk.refresh}, true},
		{"an API key as bearer", header{"Authorization", "Bearer " + h.apiKeys["ada@nordlys.example"]}, true},
		{"an OAuth token in X-Auth-Token", header{"X-Auth-Token", tk.access}, true},
		{"a refresh token in X-Auth-Token", header{"X-Auth-Token", tk.refresh}, true},
		{"an unknown API key", header{"X-Auth-Token", "x"}, true},
		{"two credentials: token twice", header{"Authorization", good, "Authorization", good}, true},
		{"two credentials: token and API key", header{"Authorization", good, "X-Auth-Token", h.apiKeys["ada@nordlys.example"]}, true},
		{"two credentials: token in both", header{"Authorization", good, "X-Auth-Token", tk.access}, true},
		{"two credentials: API key twice", header{"X-Auth-Token", h.apiKeys["ada@nordlys.example"], "X-Auth-Token", h.apiKeys["ada@nordlys.example"]}, true},
		{"two credentials: Basic and API key", header{"Authorization", "Basic eDp5", "X-Auth-Token", h.apiKeys["ada@nordlys.example"]}, true},
	}
	c := h.caller()
	for path, document := range v5Paths {
		for _, cr := range credentials {
			for _, method := range []string{"GET", "POST", "DELETE", "BREW"} {
				a := c.send(method, path, `{"jsonrpc":"2.0"`, cr.header, header{"Content-Type", "text/plain", "Origin", "https://evil.example"})
				wantChallenge(t, method+" "+path+": "+cr.name, a, h.base+"/.well-known/oauth-protected-resource"+document, cr.rejected)
			}
		}
	}
	for host, base := range hosts(h) {
		a := c.get("/api/v5/mcp", header{"Host", host})
		wantChallenge(t, host, a, base+"/.well-known/oauth-protected-resource/api/v5/mcp", false)
	}
	if a := c.send("HEAD", "/api/v5/me", ""); a.status != 401 || a.header.Get("WWW-Authenticate") == "" {
		t.Errorf("HEAD: %s", a)
	}
	// Decision B4: what is in the query or the body is not read.
	for _, a := range []answer{
		c.get("/api/v5/me?access_token=" + tk.access), c.get("/api/v5/me?token=" + tk.access + "&bearer=" + tk.access),
		c.postForm("/api/v5/me", "access_token", tk.access), c.postForm("/api/v5/mcp", "access_token", tk.access),
	} {
		wantChallenge(t, "token in query or body", a, a.metadata(), false)
	}
	if !h.works(tk.access) {
		t.Error("the access token no longer works")
	}
}

// metadata is the document that a challenge names.
func (a answer) metadata() string {
	_, rest, _ := strings.Cut(a.header.Get("WWW-Authenticate"), `resource_metadata="`)
	url, _, _ := strings.Cut(rest, `"`)
	return url
}

// changed gives a token with one letter changed.
func changed(s string) string {
	i := len(s) - 20
	c := byte('0')
	if s[i] == c {
		c = '1'
	}
	return s[:i] + string(c) + s[i+1:]
}

// "error="invalid_token" is added only when a credential was sent and rejected
// (for example an expired access token). The client then refreshes and
// retries." A code is never a bearer credential either.
func TestSpec57ExpiredAndRevoked(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, code := h.issued("")
	document := h.base + "/.well-known/oauth-protected-resource/api/v5"
	wantChallenge(t, "a code", h.caller().me(code), document, true)
	tk := tokensOf(t, f.exchange(code))
	h.sleep(1800 * second)
	expired := h.caller().me(tk.access)
	wantChallenge(t, "expired", expired, document, true)
	tk = tokensOf(t, f.refresh(tk.refresh))
	if !h.works(tk.access) {
		t.Error("refreshed, but refused")
	}
	f.revoke(tk.access)
	revoked := h.caller().me(tk.access)
	wantChallenge(t, "revoked", revoked, document, true)
	wantChallenge(t, "revoked, MCP", h.caller().mcp(tk.access, initialize), document+"/mcp", true)
	strip := func(a answer) any { v := a.json(t); delete(v, "reference"); return fmt.Sprint(v) }
	if strip(expired) != strip(revoked) {
		t.Errorf("an expired and a revoked token are told apart: %s, %s", expired.body, revoked.body)
	}
}

// Spec 4.5 and 5.5: "an OAuth access token is accepted only as Authorization:
// Bearer". Spec 4: "a token works on both".
func TestSpec45BearerToken(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, tk := h.connected("")
	c := h.caller()
	for _, value := range []string{"Bearer " + tk.access, "bearer " + tk.access, "BEARER " + tk.access, "Bearer  " + tk.access} {
		a := c.get("/api/v5/me", header{"Authorization", value})
		if a.status != 200 || a.header.Get("Cache-Control") != "no-store" || a.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%.8q: %s", value, a)
		}
	}
	v := c.me(tk.access).json(t)
	if fmt.Sprint(v["person"]) != "map[id:ada name:Ada Aasen]" || fmt.Sprint(v["organization"]) != "map[id:nordlys name:Nordlys]" || v["client_id"] != f.client {
		t.Errorf("acts as %v", v)
	}
	a := c.mcp(tk.access, initialize)
	if a.status != 200 || !strings.Contains(a.body, `"serverInfo"`) || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("MCP: %s", a)
	}
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/api/v5/nothing", 404}, {"GET", "/api/v5", 404}, {"GET", "/api/v5/", 404}, {"GET", "/api/v5/me/", 404}, {"GET", "/api/v5//me", 404}, {"GET", "/api/v5/ME", 404},
		{"POST", "/api/v5/mcp/", 404}, {"POST", "/api/v5/mcp/x", 404}, {"POST", "/api/v5/MCP", 404}, {"DELETE", "/api/v5/nothing", 404}, {"GET", "/api/v5/roles/fjell-grants-reviewer", 404},
		{"POST", "/api/v5/me", 405}, {"DELETE", "/api/v5/me", 405}, {"BREW", "/api/v5/roles", 405}, {"OPTIONS", "/api/v5/me", 405},
	} {
		a := c.send(tt.method, tt.path, "{", header{"Authorization", "Bearer " + tk.access})
		if a.status != tt.status || a.errorCode() == "" || a.header.Get("WWW-Authenticate") != "" || a.header.Get("Location") != "" {
			t.Errorf("%s %s: got %s; want %d", tt.method, tt.path, a, tt.status)
		}
	}
}

// "API v3 and v4 do not accept OAuth tokens" (spec 5.5, 9): 401, without
// resource_metadata (decision B1). API keys work on v3, v4 and v5 (decision
// B6) and act as their person.
func TestSpec55APIv3AndV4(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, tk := h.connected("")
	c := h.caller()
	for _, path := range []string{"/api/v3/me", "/api/v4/me", "/api/v3", "/api/v4/", "/api/v4/nothing", "/api/v3/mcp", "/api/v4/mcp"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			send := func(headers ...string) answer { return c.send(method, path, "", headers) }
			wantChallenge(t, path+": no credential", send(), "", false)
			wantChallenge(t, path+": OAuth token", send("Authorization", "Bearer "+tk.access), "", true)
			wantChallenge(t, path+": refresh token", send("Authorization", "Bearer "+tk.refresh), "", true)
			wantChallenge(t, path+": OAuth token in X-Auth-Token", send("X-Auth-Token", tk.access), "", true)
			wantChallenge(t, path+": two credentials", send("Authorization", "Bearer "+tk.access, "X-Auth-Token", h.apiKeys["ada@nordlys.example"]), "", true)
			wantChallenge(t, path+": unknown API key", send("X-Auth-Token", "x"), "", true)
		}
	}
	for email, organization := range map[string]string{"ada@nordlys.example": "nordlys", "tor@nordlys.example": "nordlys", "mei@storhavn.example": "storhavn"} {
		for _, version := range []string{"v3", "v4", "v5"} {
			a := c.get("/api/"+version+"/me", header{"X-Auth-Token", h.apiKeys[email]})
			if a.status != 200 || !strings.Contains(a.body, `"organization":{"id":"`+organization+`"`) || !strings.Contains(a.body, `"id":"`+email[:3]+`"`) {
				t.Errorf("%s of %s: %s", version, email, a)
			}
			if a := c.get("/api/"+version+"/nothing", header{"X-Auth-Token", h.apiKeys[email]}); a.status != 404 {
				t.Errorf("%s: %s", version, a)
			}
		}
	}
	if a := c.send("POST", "/api/v5/mcp", initialize, header{"X-Auth-Token", h.apiKeys["ada@nordlys.example"], "Content-Type", jsonType, "Accept", "application/json, text/event-stream"}); a.status != 200 {
		t.Errorf("API key on MCP: %s", a)
	}
	h.change("/v1/people/ada/deactivate", `{"reason":"test"}`)
	wantChallenge(t, "API key of a deactivated person", c.get("/api/v4/me", header{"X-Auth-Token", h.apiKeys["ada@nordlys.example"]}), "", true)
	for _, path := range []string{"/api", "/api/", "/api/v2/me", "/api/v6", "/api/v55"} {
		if a := c.get(path, header{"Authorization", "Bearer " + tk.access}); a.status != 404 || a.errorCode() == "" {
			t.Errorf("%s: %s", path, a)
		}
	}
}

// Decision B5: the sample's MCP endpoint is stateless; POST alone, after a good
// token; a session that was never issued is unknown; never a redirect; Origin is
// not checked.
func TestDecisionB5MCPEndpoint(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, tk := h.connected("")
	c := h.caller()
	for _, method := range []string{"GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"} {
		a := c.send(method, "/api/v5/mcp", "", header{"Authorization", "Bearer " + tk.access, "Accept", "text/event-stream"})
		allow := "POST"
		if method != "GET" && method != "DELETE" { // no service hears of these
			allow = "GET, POST, DELETE"
		}
		if a.status != 405 || a.header.Get("Allow") != allow {
			t.Errorf("%s: %s", method, a)
		}
	}
	if a := c.mcp(tk.access, initialize, header{"Mcp-Session-Id", "never-issued"}); a.status != 404 || !strings.Contains(a.body, "-32001") {
		t.Errorf("a session that was never issued: %s", a)
	}
	for _, extra := range []header{
		nil, {"Origin", "https://evil.example"}, {"Origin", "null"}, {"Cookie", "session=x"}, {"Sec-Fetch-Site", "cross-site"},
	} {
		a := c.mcp(tk.access, initialize, extra)
		if a.status != 200 || a.header.Get("Mcp-Session-Id") != "" || a.header.Get("Set-Cookie") != "" || a.header.Get("Location") != "" {
			t.Errorf("%v: %s", extra, a)
		}
		var v struct {
			Result struct {
				Tools []struct{ Name string } `json:"tools"`
			} `json:"result"`
		}
		a = c.mcp(tk.access, `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`, extra, header{"MCP-Protocol-Version", "2025-06-18"})
		if err := json.Unmarshal([]byte(a.body), &v); err != nil || a.status != 200 || len(v.Result.Tools) == 0 {
			t.Errorf("%v: tools: %v %s", extra, err, a)
		}
	}
	a := c.mcp(tk.access, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"whoami","arguments":{}}}`, header{"MCP-Protocol-Version", "2025-06-18"})
	if a.status != 200 || !strings.Contains(a.body, "nordlys") || strings.Contains(a.body, `"isError":true`) {
		t.Errorf("whoami: %s", a)
	}
}

// Spec 2.4: "A token's authority is its grant set, never its OAuth scope":
// what the token may do is the same with and without scope, on every refresh.
func TestSpec24AuthorityIsNotTheScope(t *testing.T) {
	t.Parallel()
	h := start(t)
	ada := h.signedIn("ada@nordlys.example")
	client := h.register()
	want := ""
	for _, scope := range []string{"", "api"} {
		f := h.flow(client)
		a := ada.consent(f, "scope", scope).form("/oauth/authorize").submit(append(treasurer, "decision", "approve")...)
		tk := tokensOf(t, f.exchange(codeOf(t, a, f), "scope", scope))
		for _, again := range []string{"", "api"} {
			me := h.caller().me(tk.access)
			if want == "" {
				want = me.body
			}
			if me.status != 200 || me.body != want {
				t.Errorf("scope %q, %q: %s\nwant %s", scope, again, me.body, want)
			}
			tk = tokensOf(t, f.refresh(tk.refresh, "scope", again, "grant", "everything", "organization", "fjell"))
		}
	}
	if !strings.Contains(want, `"kind":"roles"`) {
		t.Errorf("the grant set is not the chosen one: %s", want)
	}
}

// Spec 2.4: "The person always sees a consent screen", "chooses exactly one
// organization, from those where AI integration is enabled", "chooses the
// grant set, one of"; who it is offered to. What is not offered is refused.
func TestSpec24Consent(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	ada := h.signedIn("ada@nordlys.example")
	for range 3 { // also for a client that she approved before
		ada.approve(h.flow(client), everything...)
	}
	options := func(p *page, name string) (values []string) {
		for _, n := range p.all("input") {
			if attr(n, "name") == name && attr(n, "type") == "radio" {
				values = append(values, attr(n, "value"))
			}
		}
		return values
	}
	for _, tt := range []struct{ email, organizations, grants string }{
		{"ada@nordlys.example", "[fjell nordlys]", "[roles everything organization]"},
		{"tor@nordlys.example", "[nordlys]", "[roles everything]"},
		{"mei@storhavn.example", "[storhavn]", "[roles everything]"},
	} {
		p := h.signedIn(tt.email).consent(h.flow(client))
		if got := fmt.Sprint(options(p, "organization")); got != tt.organizations {
			t.Errorf("%s: organizations %s, want %s", tt.email, got, tt.organizations)
		}
		if got := fmt.Sprint(options(p, "grant")); got != tt.grants {
			t.Errorf("%s: grants %s, want %s", tt.email, got, tt.grants)
		}
	}
	if p := h.signedIn("ola@havn.example").page("/oauth/authorize?" + h.flow(client).query()); p.status == 200 && len(options(p, "grant")) > 0 || p.header.Get("Location") != "" {
		t.Errorf("Ola has no organization with AI integration, and is asked: %d", p.status)
	}
	before := h.rows()
	for _, tt := range []struct {
		name, email string
		choice      []string
	}{
		{"no organization", "ada@nordlys.example", []string{"organization", "", "grant", "everything"}},
		{"an unknown organization", "ada@nordlys.example", []string{"organization", "x", "grant", "everything"}},
		{"another's organization", "ada@nordlys.example", []string{"organization", "storhavn", "grant", "everything"}},
		{"no grant", "tor@nordlys.example", []string{"organization", "nordlys", "grant", ""}},
		{"an unknown grant", "tor@nordlys.example", []string{"organization", "nordlys", "grant", "all"}},
		{"as an admin, who is none", "tor@nordlys.example", []string{"organization", "nordlys", "grant", "organization"}},
		{"as an admin, where she is none", "ada@nordlys.example", []string{"organization", "fjell", "grant", "organization"}},
		{"no role", "ada@nordlys.example", []string{"organization", "nordlys", "grant", "roles"}},
		{"a role of another", "ada@nordlys.example", []string{"organization", "nordlys", "grant", "roles", "role:nordlys-secretary", "read"}},
		{"an unknown access", "ada@nordlys.example", []string{"organization", "nordlys", "grant", "roles", "role:nordlys-treasurer", "admin"}},
	} {
		f := h.flow(client)
		a := h.signedIn(tt.email).consent(f).form("/oauth/authorize").submit(append(tt.choice, "decision", "approve")...)
		wantPage(t, tt.name, a, 422)
	}
	f := ada.consent(h.flow(client)).form("/oauth/authorize").with("grant", "everything", "decision", "approve")
	f.values["organization"] = []string{"nordlys", "fjell"}
	wantPage(t, "two organizations", f.submit(), 422)
	f.with("organization", "nordlys").values["grant"] = []string{"roles", "everything"}
	wantPage(t, "two grants", f.submit(), 422)
	h.unchanged(t, before)
}
