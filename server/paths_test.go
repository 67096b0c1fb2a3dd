package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
)

// opened gives what a configuration answers in public, with ada.
func opened(t *testing.T, l config.Loaded) http.Handler {
	t.Helper()
	checked, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	return withAda(t, checked, Options{}).public()
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
	l := good(t)
	l.Service.KeyFile = write(t, "service.key", gatewayKey+"\n", 0o600)
	l.Paths = []config.Path{{Path: "/reports", Upstream: service("reports"), Kind: "api", Name: "Bakery reports"}, {Path: "/reports/mcp", Upstream: service("tools") + "/endpoint", Kind: "mcp", Name: "Report tools"},
		{Path: "/reports/old", Upstream: service("old"), Kind: "api", Name: "Old"}}
	l.API.Upstream = service("v5")
	public := opened(t, l)
	key := adasKey
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
	alone := opened(t, l)
	if w := get(alone, "https://app.example/reports/mcp/x", func(r *http.Request) { r.Header.Set("X-Auth-Token", adasKey) }); w.Code != 404 || strings.Contains(w.Body.String(), "api.upstream") {
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

// A call of a path ends with its client, also where no service answers API v5 or MCP.
func TestClientsOfPathsGoAway(t *testing.T) {
	begun, ended := make(chan bool), make(chan bool, 1)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun <- true
		<-r.Context().Done()
		ended <- true
	}))
	t.Cleanup(service.Close)
	t.Cleanup(service.CloseClientConnections) // else a call that goes on is waited for
	l := good(t)
	l.HTTP.Listen, l.Gateway.Listen, l.Operator.Listen = "127.0.0.1:0", "off", "off"
	l.Database.URL = "sqlite://" + t.TempDir() + "/paths.db"
	l.Service.KeyFile = write(t, "service.key", gatewayKey+"\n", 0o600)
	l.Paths = []config.Path{{Path: "/reports", Upstream: service.URL, Kind: "api", Name: "Reports"}}
	checked, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), checked, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	addAda(t, s)
	c, err := net.Dial("tcp", s.PublicAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "GET /reports/x HTTP/1.1\r\nHost: app.example\r\nX-Auth-Token: "+adasKey+"\r\n\r\n")
	<-begun
	c.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the call goes on without its client")
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
		public := opened(t, l)
		for _, path := range []string{
			"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/api/v5", "/.well-known/oauth-protected-resource/api/v5/mcp", "/.well-known/oauth-authorization-server",
			"/.well-known/oauth-protected-resource/reports", "/.well-known", "/api", "/api/", "/api/v5", "/api/v5/", "/api/v5/x", "/api/v5/me", "/api/v5/me/x", "/api/v5/mcp", "/api/v5/mcp/", "/api/v5/mcp/x",
			"/api/v5/mcp%2Fx", "/api/v5%2Fmcp", "/api/v5/%6dcp", "/api/v5/../x", "/api/v5x", "/api/v6", "/api/v4/me", "/api/v3/x", "/oauth/x", "/oauth/token",
		} {
			var one strings.Builder
			var codes []int
			for _, with := range []string{"GET", "OPTIONS", "POST", "HEAD", "GET Authorization: Bearer x", "GET X-Auth-Token: " + adasKey} {
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
