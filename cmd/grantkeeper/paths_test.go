package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/consent"
	"github.com/grantkeeper/grantkeeper/store"
)

var reports = PathConfig{"/reports", "http://127.0.0.1:9200", "api", "Bakery reports"}

// withPaths is a good configuration that guards paths.
func withPaths(t *testing.T, all ...PathConfig) Loaded {
	t.Helper()
	l := good(t)
	l.Service.KeyFile, l.Paths = write(t, "service.key", gatewayKey+"\n", 0o600), all
	return l
}

// [[paths]] are plain text that no reader takes for another's, each with a service
// behind (decision V60).
func TestCheckPaths(t *testing.T) {
	l := withPaths(t, reports, PathConfig{"/reports/mcp", "http://127.0.0.1:9200/mcp?x=1", "mcp", "Report tools"}, PathConfig{"/a-b/c_d/v1.2/E", "https://e.example", "api", "E"},
		PathConfig{"/signing", "http://127.0.0.1:9200", "api", "No page"}, PathConfig{"/reports2", "http://127.0.0.1:9200", "api", "Two"})
	c, err := l.Check()
	if err != nil || len(c.Guarded) != 5 || !c.Guarded[1].MCP || c.Guarded[1].URL.RawQuery != "x=1" || c.Guarded[0].MCP || c.Guarded[0].Name != "Bakery reports" || c.resources()[2].Path != "/a-b/c_d/v1.2/E" {
		t.Fatalf("%+v, %v", c.Guarded, err)
	}
	shown, err := os.ReadFile("../../docs/examples/paths.toml")
	if err != nil {
		t.Fatal(err)
	}
	l = withPaths(t)
	l.Origins = map[string]Origin{}
	if err := l.decode("paths.toml", shown); err != nil {
		t.Fatal(err)
	}
	if c, err := l.Check(); err != nil || len(c.Guarded) != 2 || c.Guarded[1].Path != "/reports/mcp" || c.Ruled.Len() != 1 {
		t.Errorf("what the page shows: %+v, %v", c.Guarded, err)
	}
	spoilt := func(change func(*PathConfig)) PathConfig {
		one := reports
		change(&one)
		return one
	}
	at := func(path string) PathConfig { return spoilt(func(c *PathConfig) { c.Path = path }) }
	refuse := func(want string, all ...PathConfig) {
		t.Helper()
		_, err := withPaths(t, all...).Check()
		if text, code := refused(t, err); code != 3 || !strings.Contains(text, want) || !strings.Contains(text, "paths[") || strings.Contains(text, "hidden") {
			t.Errorf("%+v: code %d, %q, want %q", all, code, text, want)
		}
	}
	for _, path := range []string{
		"", "/", "reports", "//reports", "/reports/", "/reports//x", "/./reports", "/reports/..", "/.reports", "/reports/.x", "/reports.", "/reports/x.", "/re%70orts", "/reports%2Fx", "/reports;x",
		"/reports?x", "/reports#", "/re ports", " /reports", "/reports\n", "/rapport\u00e9", "/report\u017f", "/rep*", "/{x}", `/reports\x`, "/reports/x:y", "http://a/reports", "/" + strings.Repeat("x", 200),
	} {
		refuse("it", at(path))
	}
	for _, twice := range [][]string{{"/reports", "/reports"}, {"/reports", "/Reports"}, {"/reports/x", "/REPORTS/X"}} {
		refuse("guarded already", at(twice[0]), at(twice[1]))
	}
	for _, alike := range [][]string{{"/reports", "/Reports/mcp"}, {"/Reports/mcp", "/reports"}} {
		refuse("in another case", at(alike[0]), at(alike[1]))
	}
	tools := func(path string) PathConfig { return PathConfig{path, "http://127.0.0.1:9200/mcp", "mcp", "Tools"} }
	for mcp, api := range map[string]string{"/tools": "/tools/rest", "/reports/v1": "/reports/v1.json", "/a/b": "/a/b/c/d"} {
		refuse("an MCP endpoint holds no API", tools(mcp), at(api))
		refuse("an MCP endpoint holds no API", at(api), tools(mcp))
		if _, err := withPaths(t, tools(mcp), tools(api), at("/other")).Check(); err != nil {
			t.Errorf("two MCP endpoints: %v", err)
		}
	}
	refuse("kind", spoilt(func(c *PathConfig) { c.Kind = "" }))
	refuse("kind", spoilt(func(c *PathConfig) { c.Kind = "MCP" }))
	refuse("name", spoilt(func(c *PathConfig) { c.Name = "" }))
	refuse("name", spoilt(func(c *PathConfig) { c.Name = "<b>" }))
	for _, kind := range []string{"api", "mcp"} {
		for _, bad := range []string{"", "127.0.0.1:9200", "ftp://127.0.0.1", "http://u:hidden@127.0.0.1", "http://127.0.0.1#x", "http://127.0.0.1:0"} {
			refuse("upstream", spoilt(func(c *PathConfig) { c.Kind, c.Upstream = kind, bad }))
		}
	}
	refuse("upstream", spoilt(func(c *PathConfig) { c.Upstream = "http://127.0.0.1:9200/" }))
	l = withPaths(t, reports)
	l.Service.KeyFile = ""
	if text := wrong(t, l); !strings.Contains(text, "no service.key_file") {
		t.Errorf("without a key: %s", text)
	}
	many := make([]PathConfig, maxPaths+1)
	for i := range many {
		many[i] = at(fmt.Sprintf("/p%d", i))
	}
	if text := wrong(t, withPaths(t, many...)); !strings.Contains(text, "at most 50") {
		t.Errorf("many: %s", text)
	}
	if _, err := withPaths(t, many[1:]...).Check(); err != nil {
		t.Error(err)
	}
}

// wrong is what is said of a configuration that is refused.
func wrong(t *testing.T, l Loaded) string {
	t.Helper()
	_, err := l.Check()
	text, _ := refused(t, err)
	return text
}

// Where this server answers itself nothing else is guarded: as its routes say, and
// whatever the case (decision V60).
func TestOwnPathsAreNotGuarded(t *testing.T) {
	own := []string{"/api", "/api/v5", "/api/v5/mcp", "/api/v5/x", "/api/v6", "/oauth/token", "/oauth/x", "/API/x", "/OAuth", "/reset", "/organizations", "/organizations/x", "/organizations/x/settings/y", "/assets", "/Assets/x", "/signin/with", "/signin/reports"}
	for _, pattern := range consent.Patterns() {
		_, path, _ := strings.Cut(pattern, " ")
		if path != "/{$}" {
			own = append(own, strings.NewReplacer("{", "", "}", "").Replace(path))
		}
	}
	if len(own) < 50 {
		t.Fatalf("pages answer at %q alone", own)
	}
	for _, path := range own {
		for _, path := range []string{path, path + "/below", "/" + strings.ToUpper(path[1:])} {
			one := reports
			one.Path = path
			if text := wrong(t, withPaths(t, one)); !strings.Contains(text, "this server answers itself") {
				t.Errorf("%s: %s", path, text)
			}
		}
	}
}

// A rule's path is an MCP endpoint that there is (decision V62).
func TestRulesOfPaths(t *testing.T) {
	tools := PathConfig{"/reports/mcp", "http://127.0.0.1:9200/mcp", "mcp", "Report tools"}
	for path, ok := range map[string]bool{"": true, "/api/v5/mcp": true, "/reports/mcp": true, "/reports": false, "/api/v5": false, "/Reports/mcp": false, "/reports/mcp/": false} {
		l := withPaths(t, reports, tools)
		l.Rules = []RuleConfig{{Tool: "t", Touches: "open", Path: path}}
		c, err := l.Check()
		if ok != (err == nil) || ok && c.Ruled.Empty() {
			t.Errorf("%q: %v", path, err)
		}
	}
	l := withPaths(t, tools)
	c, err := l.Check()
	if err != nil || !slices.Contains(c.warnings(), untold) || slices.Contains(c.warnings(), trusting) && c.Gateway.Listen == "off" {
		t.Errorf("an MCP server without rules: %v, %q", err, c.warnings())
	}
	l.Gateway.Listen, l.Paths[0] = "off", reports
	if c, err = l.Check(); err != nil || !slices.Contains(c.warnings(), trusting) || slices.Contains(c.warnings(), untold) {
		t.Errorf("an API without rules: %v, %q", err, c.warnings())
	}
}

// opened gives what a configuration answers in public, with the demo's people.
func opened(t *testing.T, l Loaded) (http.Handler, store.Directory) {
	t.Helper()
	checked, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	h := &house{Checked: checked, log: slog.New(slog.DiscardHandler), metrics: newMetrics(time.Now)}
	if h.store, err = openStore(t.Context(), checked, "", time.Now, h.log, h.metrics); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.store.Close() })
	demo := demoDirectory("hash")
	if err := h.store.AddDirectory(t.Context(), demo, store.Act{}); err != nil {
		t.Fatal(err)
	}
	return h.public(), demo
}

// Each path has its own service, document and challenge; the longest wins, and what is
// beside is not there (decision V60).
func TestPathsAreGuarded(t *testing.T) {
	service := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `"`+name+" "+r.RequestURI+`"`)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	l := withPaths(t, PathConfig{"/reports", service("reports"), "api", "Bakery reports"}, PathConfig{"/reports/mcp", service("tools") + "/endpoint", "mcp", "Report tools"},
		PathConfig{"/reports/old", service("old"), "api", "Old"})
	l.API.Upstream = service("v5")
	public, demo := opened(t, l)
	key := demo.APIKeys[0].Key
	for path, want := range map[string]string{
		"/reports": "reports /reports", "/reports/": "reports /reports/", "/reports/x?y=1": "reports /reports/x?y=1", "/reports/me": "reports /reports/me", "/reports/mcpx": "reports /reports/mcpx",
		"/reports/old": "old /reports/old", "/reports/old/x": "old /reports/old/x", "/reports/older": "reports /reports/older", "/reports/a%2Fb": "reports /reports/a%2Fb", "/reports/OLD": "reports /reports/OLD",
		"/reports/mcp": "tools /endpoint", "/api/v5/x": "v5 /api/v5/x", "/api/v5/reports": "v5 /api/v5/reports",
		"/api/v5/me": "200", "/reports/mcp/": "404", "/reports/mcp/x": "404", "/reports%2Fmcp": "404", "/reports/mcp%2Fx": "404",
		"/reportsx": "404", "/Reports": "404", "/reports;x": "404", "/report": "404", "//reports": "404", "/x/../reports": "404", "/%2e/reports": "404", "/reports;/x": "404",
		"/reports/../api/v5": "400", "/reports/..%2fapi/v5": "400", "/reports/%2e%2e/x": "400", "/reports/..;/x": "400", "/reports/.": "400", "/reports%2Fx": "400", "/%72eports/x": "400",
		"/reports/;/mcp": "400", "/reports//mcp": "400", "/reports/%6dcp": "tools /endpoint", "/reports/ol%64/x": "400", "/reports//old": "400", "/reports/old/../x": "400", "/reports/%252e%252e/x": "400",
		"/api/v5/../reports": "400", "/api/v5/..%2Freports": "400",
	} {
		w := get(public, "https://app.example"+path, func(r *http.Request) { r.Header.Set("X-Auth-Token", key) })
		if got := w.Body.String(); got != `"`+want+`"` && fmt.Sprint(w.Code) != want {
			t.Errorf("%s: %d %s, want %s", path, w.Code, got, want)
		}
	}
	l.API.Upstream = ""
	alone, demo := opened(t, l)
	if w := get(alone, "https://app.example/reports/mcp/x", func(r *http.Request) { r.Header.Set("X-Auth-Token", demo.APIKeys[0].Key) }); w.Code != 404 || strings.Contains(w.Body.String(), "api.upstream") {
		t.Errorf("below an MCP endpoint: %d %s", w.Code, w.Body)
	}
	for path, document := range map[string]string{
		"/reports": "/reports", "/reports/x": "/reports", "/reports/mcp": "/reports/mcp", "/reports/mcp/x": "/reports/mcp", "/reports/old": "/reports/old", "/reports/..%2fx": "/reports",
		"/api/v5/x": "/api/v5", "/api/v5/mcp": "/api/v5/mcp",
	} {
		w := get(public, "https://app.example"+path)
		if want := `Bearer realm="Svalinn", resource_metadata="https://app.example/.well-known/oauth-protected-resource` + document + `"`; w.Code != 401 || w.Header().Get("Www-Authenticate") != want {
			t.Errorf("%s: %d %q", path, w.Code, w.Header())
		}
	}
	for path, name := range map[string]string{"/reports": "Bakery reports", "/reports/mcp": "Report tools", "/reports/x": "", "/Reports": "", "/reports/": "", "/reports%2Fmcp": "", "/api/v5": "Svalinn API v5", "": "Svalinn MCP"} {
		w := get(public, "https://app.example/.well-known/oauth-protected-resource"+path)
		want := `{"resource":"https://app.example` + cmp.Or(path, "/api/v5/mcp") + `","authorization_servers":["https://app.example"],"scopes_supported":["api"],"bearer_methods_supported":["header"],"resource_name":"` + name + `"}`
		if (w.Code == 200) != (name != "") || name != "" && w.Body.String() != want {
			t.Errorf("document of %s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/reports/x", "/reports/mcp"} {
		w := get(public, "https://app.example"+path, func(r *http.Request) {
			r.Method = "OPTIONS"
			r.Header.Set("Origin", "https://page.example")
			r.Header.Set("Access-Control-Request-Method", "POST")
		})
		if w.Code != 204 || w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("preflight of %s: %d %v", path, w.Code, w.Header())
		}
		for _, sent := range [][2]string{{"Authorization", "Bearer svr_x"}, {"X-Auth-Token", "wrong"}, {"Cookie", "session=x"}, {"Authorization", "Basic x"}} {
			if w := get(public, "https://app.example"+path, func(r *http.Request) { r.Header.Set(sent[0], sent[1]) }); w.Code != 401 {
				t.Errorf("%s with %q: %d", path, sent, w.Code)
			}
		}
	}
}

// Without [[paths]] nothing is answered otherwise than before there were any, to the
// byte.
func TestAnswersWithoutPaths(t *testing.T) {
	l := good(t)
	l.Service.KeyFile, l.API.Upstream, l.MCP.Upstream = write(t, "service.key", gatewayKey+"\n", 0o600), "http://127.0.0.1:1", "http://127.0.0.1:1/mcp"
	var all strings.Builder
	for _, connected := range []bool{false, true} {
		l := l
		if !connected {
			l.API.Upstream, l.MCP.Upstream = "", ""
		}
		public, demo := opened(t, l)
		for _, path := range []string{
			"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/api/v5", "/.well-known/oauth-protected-resource/api/v5/mcp", "/.well-known/oauth-authorization-server",
			"/.well-known/oauth-protected-resource/reports", "/.well-known", "/api", "/api/", "/api/v5", "/api/v5/", "/api/v5/x", "/api/v5/me", "/api/v5/me/x", "/api/v5/mcp", "/api/v5/mcp/", "/api/v5/mcp/x",
			"/api/v5/mcp%2Fx", "/api/v5%2Fmcp", "/api/v5/%6dcp", "/api/v5/../x", "/api/v5x", "/api/v6", "/api/v4/me", "/api/v3/x", "/oauth/x", "/oauth/token",
		} {
			var one strings.Builder
			var codes []int
			for _, with := range []string{"GET", "OPTIONS", "POST", "HEAD", "GET Authorization: Bearer x", "GET X-Auth-Token: " + demo.APIKeys[0].Key} {
				method, header, _ := strings.Cut(with, " ")
				w := get(public, "https://app.example"+path, func(r *http.Request) {
					r.Method = method
					if name, value, ok := strings.Cut(header, ": "); ok {
						r.Header.Set(name, value)
					}
				})
				for _, changing := range []string{"X-Request-Id", "Date", "Ratelimit", "Ratelimit-Policy"} {
					w.Header().Del(changing)
				}
				text := w.Body.String()
				if before, _, ok := strings.Cut(text, `"reference":`); ok {
					text = before
				}
				if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
					text = "a page"
					w.Header().Del("Content-Security-Policy")
				}
				fmt.Fprintf(&one, "%s %.12s %d %v\n%s\n", method, header, w.Code, w.Header(), text)
				codes = append(codes, w.Code)
			}
			fmt.Fprintf(&all, "%s, connected %t: %d, %x\n", path, connected, codes, sha256.Sum256([]byte(one.String())))
		}
	}
	const golden = "testdata/without-paths.txt"
	was, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(all.String(), "\n"), strings.Split(string(was), "\n")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("line %d of %s:\ngot  %s\nwant %s", i+1, golden, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d lines, and %s has %d", len(got), golden, len(want))
	}
}
