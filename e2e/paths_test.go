package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// heard is a service that knows nothing of OAuth: an API, and an MCP server at /mcp
// with sessions. It notes what it gets.
type heard struct {
	*httptest.Server
	mu   sync.Mutex
	last *http.Request
}

func listening(t *testing.T) *heard {
	t.Helper()
	s := &heard{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.last = r
		s.mu.Unlock()
		switch {
		case strings.HasSuffix(r.URL.Path, "/away"):
			http.Redirect(w, r, "http://"+r.Host+"/reports/there", http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "/challenge"):
			w.Header().Set("WWW-Authenticate", `Bearer realm="elsewhere"`)
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/mcp":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mcp-Session-Id", "s1")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"heard":%q}}`, body)
		default:
			w.Header().Set("Set-Cookie", "stolen=1")
			fmt.Fprint(w, "service")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// got is what the service got since it was asked last; nil is nothing.
func (s *heard) got() *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.last
	s.last = nil
	return r
}

// guarding runs serve with two APIs and two MCP endpoints that have one server behind.
func guarding(t *testing.T, more string) (*house, *heard) {
	t.Helper()
	s := listening(t)
	paths := fmt.Sprintf("[service]\nkey_file = %q\n[api]\nupstream = %q\n%s\n[mcp]\nupstream = %q\n", secretFile(t, nginxKey), s.URL, more, s.URL+"/mcp")
	for _, one := range [][3]string{{"/reports", "api", ""}, {"/reports/mcp", "mcp", "/mcp"}, {"/tools", "mcp", "/mcp"}} {
		paths += fmt.Sprintf("[[paths]]\npath = %q\nkind = %q\nupstream = %q\nname = \"At %s\"\n", one[0], one[1], s.URL+one[2], one[0])
	}
	return serve(t, served{apiLimit: paths}), s
}

// No spelling of a path reaches a service that it is not guarded for, and what is
// refused nobody behind hears of (decisions V60 and V61).
func TestHostilePaths(t *testing.T) {
	t.Parallel()
	h, service := guarding(t, "")
	_, tokens := h.connected("", "organization", "nordlys", "grant", "everything")
	c, bearer := h.caller(), header{"Authorization", "Bearer " + tokens.access}
	for path, want := range map[string]int{
		"/reports": 200, "/reports/": 200, "/reports/x?y=/../": 200, "/reports/me": 200, "/reports/a%2Fb": 200, "/api/v5/reports": 200,
		"/reports/..%2f": 400, "/reports/..%2fapi%2fv5": 400, "/reports/../api/v5": 400, "/reports/%2e%2e/api/v5/x": 400, "/reports/%2e": 400, "/reports/..;/x": 400, "/reports/%252e%252e/x": 400,
		"/reports%2Fx": 400, "/%72eports/x": 400, "/reports//mcp": 400, "/reports/;/mcp": 400, "/api/v5/../reports": 400, "/api/v5/..%2freports": 400, `/reports\..\x`: 404, `/reports/..\x`: 400,
		"//reports": 404, "/Reports": 404, "/REPORTS/x": 404, "/reportsx": 404, "/reports;x": 404, "/reports;/x": 404, "/./reports": 404, "/x/../reports": 404, "/reports.": 404, "/report": 404,
		"/reports/mcp/x": 404, "/reports%2Fmcp": 404, "/tools/": 404, "/tools%2F": 404, "/Tools": 404, "/toolsx": 404,
	} {
		a := h.raw("GET " + path + " HTTP/1.1\r\nHost: " + h.host() + "\r\nAuthorization: Bearer " + tokens.access + "\r\nConnection: close\r\n\r\n")
		got := service.got()
		if a.status != want || (got != nil) != (want == 200) || got != nil && (got.RequestURI != path || got.Header.Get("X-Grantkeeper-Organization") != "nordlys" || got.Header.Get("Authorization") != "") {
			t.Errorf("%s: %d, want %d; the service got %v: %s", path, a.status, want, got, a.body)
		}
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
		if a := c.send(method, "/reports/x", "{}", bearer); a.status != 200 || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %s %v", method, a, a.header)
		}
		if got := service.got(); got == nil || got.Method != method {
			t.Errorf("%s: the service got %v", method, got)
		}
		if a := c.send(method, "/tools", "{}", bearer); (method == "PUT" || method == "OPTIONS" || method == "PATCH") && a.status != 405 {
			t.Errorf("%s of an MCP endpoint: %s", method, a)
		}
		service.got()
	}
	for _, path := range []string{"/reports/x", "/reports/mcp", "/tools"} {
		a := c.send("OPTIONS", path, "", header{"Origin", "https://page.example", "Access-Control-Request-Method", "POST"})
		if a.status != 204 || a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("preflight of %s: %s %v", path, a, a.header)
		}
		document := strings.TrimSuffix(path, "/x")
		want := `Bearer realm="Svalinn", resource_metadata="` + h.base + `/.well-known/oauth-protected-resource` + document + `"`
		for name, sent := range map[string]header{
			"none": {}, "refresh": {"Authorization", "Bearer " + tokens.refresh}, "in the other header": {"X-Auth-Token", tokens.access},
			"two": {"Authorization", "Bearer " + tokens.access, "X-Auth-Token", "api-key-of-ada-in-nordlys"}, "a cookie": {"Cookie", "session=" + tokens.access},
		} {
			a := c.get(path+"?access_token="+tokens.access, sent)
			if got := a.header.Get("Www-Authenticate"); a.status != 401 || !strings.HasPrefix(got, want) || (name == "none" || name == "a cookie") != (got == want) {
				t.Errorf("%s with %s: %s %q", path, name, a, got)
			}
		}
		if a := c.get("/.well-known/oauth-protected-resource" + document); a.json(t)["resource"] != h.base+document || a.json(t)["resource_name"] != "At "+document {
			t.Errorf("document of %s: %s", path, a)
		}
	}
	if got := service.got(); got != nil {
		t.Errorf("what is refused came to the service: %v", got)
	}
	if a := c.get("/reports/away", bearer); a.status != 302 || a.header.Get("Location") != h.base+"/reports/there" {
		t.Errorf("a redirect: %s %v", a, a.header)
	}
	for _, path := range []string{"/reports/challenge"} {
		if a := c.get(path, bearer); a.status != 502 || a.header.Get("Www-Authenticate") != "" {
			t.Errorf("a service's challenge: %s %v", a, a.header)
		}
	}
	for _, key := range []string{"/reports/x", "/tools"} {
		if a := c.postJSON(key, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header{"X-Auth-Token", "api-key-of-ada-in-nordlys"}); a.status != 200 {
			t.Errorf("an API key at %s: %s", key, a)
		}
	}
}

// A client asks for any of the resources, and for nothing beside them, and its token
// works on all (decisions A7 and V60).
func TestResourcesOfMorePaths(t *testing.T) {
	t.Parallel()
	h, _ := guarding(t, "")
	b := h.signedIn("ada@nordlys.example")
	for resource, good := range map[string]bool{
		"/reports": true, "/reports/": true, "/reports/mcp": true, "/tools": true, "/reports/x": true, "/api/v5/mcp": true, "": true,
		"/reportsx": false, "/Reports": false, "/reports#x": false, "//reports": false, "/reports/../x#": false, "/signin": false, "/api": false,
	} {
		f := h.flow("")
		asked := "&resource=" + url.QueryEscape(h.base+resource)
		a := b.get("/oauth/authorize?" + f.query() + asked)
		if (a.status == 200) != good || !good && !strings.Contains(a.body, "invalid_target") {
			t.Errorf("authorize for %q: %s", resource, a)
		}
		code := b.approve(f, treasurer...)
		a = f.exchange(code, "resource", h.base+resource)
		if good {
			access := tokensOf(t, a).access
			for _, path := range []string{"/reports", "/api/v5/x"} {
				if a := f.get(path, header{"Authorization", "Bearer " + access}); a.status != 200 {
					t.Errorf("for %q at %s: %s", resource, path, a)
				}
			}
		} else if a.status != 400 || a.json(t)["error"] != "invalid_target" {
			t.Errorf("exchange for %q: %s", resource, a)
		}
	}
}

// A session of one MCP endpoint is none at another, though one server is behind both
// and the client is the same (decision V63).
func TestSessionsOfMorePaths(t *testing.T) {
	t.Parallel()
	h, service := guarding(t, "")
	_, tokens := h.connected("", "organization", "nordlys", "grant", "everything")
	c, bearer := h.caller(), header{"Authorization", "Bearer " + tokens.access}
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	sessions := map[string]string{"raw": "s1"}
	for _, path := range []string{"/api/v5/mcp", "/reports/mcp", "/tools"} {
		a := c.postJSON(path, ping, bearer)
		if sessions[path] = a.header.Get("Mcp-Session-Id"); a.status != 200 || !strings.HasPrefix(sessions[path], "s1.") {
			t.Fatalf("%s: %s %v", path, a, a.header)
		}
	}
	service.got()
	for of, session := range sessions {
		for _, at := range []string{"/api/v5/mcp", "/reports/mcp", "/tools"} {
			a := c.postJSON(at, ping, bearer, header{"Mcp-Session-Id", session})
			got := service.got()
			if of == at && (a.status != 200 || got == nil || got.Header.Get("Mcp-Session-Id") != "s1") || of != at && (a.status != 404 || !strings.Contains(a.body, "-32001") || got != nil) {
				t.Errorf("session of %s at %s: %s, the service got %v", of, at, a, got)
			}
		}
	}
}

// One limit of the organization counts all paths together (decision B6).
func TestLimitOfMorePaths(t *testing.T) {
	t.Parallel()
	h, service := guarding(t, `rate_limit = "6/1h"`)
	_, tokens := h.connected("", "organization", "nordlys", "grant", "everything")
	c, bearer := h.caller(), header{"Authorization", "Bearer " + tokens.access}
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for i, path := range []string{"/reports/x", "/tools", "/api/v5/x", "/reports/mcp", "/api/v5/mcp", "/reports"} {
		if a := c.postJSON(path, ping, bearer); a.status != 200 || !strings.Contains(a.header.Get("Ratelimit"), fmt.Sprintf("r=%d", 5-i)) {
			t.Fatalf("%s: %s %q", path, a, a.header["Ratelimit"])
		}
	}
	service.got()
	for _, path := range []string{"/reports/x", "/tools", "/api/v5/x"} {
		if a := c.postJSON(path, ping, bearer); a.status != 429 || service.got() != nil {
			t.Errorf("%s: %s", path, a)
		}
	}
}

// A token says its own organization at every path, whoever the person is elsewhere:
// its limit, sessions and roles are not those of another one's.
func TestOrganizationsOfMorePaths(t *testing.T) {
	t.Parallel()
	h, service := guarding(t, `rate_limit = "8/1h"
[[rules]]
tool = "add"
path = "/tools"
role = "nordlys-treasurer"
[[rules]]
call = "GET /reports/{role}"
role_from = ["path:role"]
private = true
`)
	h.change("/v1/directory", `{"reason":"test","organizations":[{"id":"fjell","name":"Fjell","ai_integration":true}],"members":[{"person":"ada","organization":"fjell"}],
		"circles":[{"id":"grants","organization":"fjell","name":"Grants"}],"roles":[{"id":"fjell-reviewer","organization":"fjell","circle":"grants","name":"Reviewer","fillers":["ada"]}]}`)
	client, ping := h.flow("").client, `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	_, nordlys := h.connected(client, treasurer...)
	_, fjell := h.connected(client, "organization", "fjell", "grant", "roles", "role:fjell-reviewer", "change")
	c, session := h.caller(), ""
	for path, want := range map[string][2]int{"/reports/nordlys-treasurer": {200, 403}, "/reports/fjell-reviewer": {403, 200}} {
		for i, access := range []string{nordlys.access, fjell.access} {
			a := c.get(path, header{"Authorization", "Bearer " + access})
			if got := service.got(); a.status != want[i] || (got != nil) != (want[i] == 200) || got != nil && got.Header.Get("X-Grantkeeper-Organization") != []string{"nordlys", "fjell"}[i] {
				t.Errorf("%s: %s, the service got %v", path, a, got)
			}
		}
	}
	for i, access := range []string{nordlys.access, fjell.access} {
		a := c.postJSON("/tools", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{}}}`, header{"Authorization", "Bearer " + access})
		if denied := strings.Contains(a.body, "grantkeeper/denied"); a.status != 200 || denied != (i == 1) {
			t.Errorf("a tool of nordlys' role: %s", a)
		}
		if i == 0 {
			session = a.header.Get("Mcp-Session-Id")
		}
	}
	service.got()
	if a := c.postJSON("/tools", ping, header{"Authorization", "Bearer " + fjell.access}, header{"Mcp-Session-Id", session}); a.status != 404 || service.got() != nil {
		t.Errorf("nordlys' session in fjell: %s", a)
	}
	for range 5 {
		c.get("/reports/x", header{"Authorization", "Bearer " + nordlys.access})
	}
	for access, want := range map[string]int{nordlys.access: 429, fjell.access: 200} {
		if a := c.get("/reports/fjell-reviewer", header{"Authorization", "Bearer " + access}); a.status != want {
			t.Errorf("one organization is at its limit: %s, want %d", a, want)
		}
	}
}

// Under selected roles each path and tool needs its own rule, also after SIGHUP; the
// paths themselves stay until a restart (decisions V61 and V62).
func TestRulesOfMorePaths(t *testing.T) {
	t.Parallel()
	rules := `
[[rules]]
tool = "list"
touches = "nothing"
[[rules]]
tool = "add"
path = "/tools"
role = "nordlys-treasurer"
[[rules]]
call = "GET /reports/**"
touches = "open"
`
	h, service := guarding(t, rules)
	_, tokens := h.connected("", treasurer...)
	c, bearer := h.caller(), header{"Authorization", "Bearer " + tokens.access}
	passes := func(path, tool string) bool {
		t.Helper()
		service.got()
		a := c.postJSON(path, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{}}}`, bearer)
		if denied := strings.Contains(a.body, "grantkeeper/denied"); a.status != 200 || denied != strings.Contains(a.body, "isError") {
			t.Fatalf("%s at %s: %s", tool, path, a)
		}
		return !strings.Contains(a.body, "grantkeeper/denied")
	}
	for _, tt := range []struct {
		path, tool string
		want       bool
	}{{"/api/v5/mcp", "list", true}, {"/tools", "list", false}, {"/reports/mcp", "list", false}, {"/tools", "add", true}, {"/api/v5/mcp", "add", false}, {"/reports/mcp", "add", false}} {
		if got := passes(tt.path, tt.tool); got != tt.want {
			t.Errorf("%s at %s: %t", tt.tool, tt.path, got)
		}
	}
	for path, want := range map[string]int{"/reports/x": 200, "/api/v5/x": 403} {
		if a := c.get(path, bearer); a.status != want {
			t.Errorf("%s: %s", path, a)
		}
	}
	if a := c.postJSON("/reports/x", "{}", bearer); a.status != 403 {
		t.Errorf("a change by a rule that reads: %s", a)
	}
	file := h.args[2]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	without, _, _ := strings.Cut(string(text), "[[paths]]")
	without = strings.Replace(without, "tool = \"add\"\npath = \"/tools\"\n", "tool = \"add\"\n", 1)
	if err := os.WriteFile(file, []byte(without), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.command.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(h.stderr.String(), "only after a restart"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not reread\n%s", h.stderr)
		}
	}
	if !strings.Contains(h.stderr.String(), "paths") || passes("/tools", "add") || !passes("/api/v5/mcp", "add") {
		t.Errorf("after SIGHUP the rules are the old ones\n%s", h.stderr)
	}
	if a := c.get("/reports/x"); a.status != 401 {
		t.Errorf("a path that was taken out is open before a restart: %s", a)
	}
}
