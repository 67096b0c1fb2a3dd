package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/rules"
)

var more = client.Resources{{Path: "/reports", Name: "Reports"}, {Path: "/reports/mcp", MCP: true}}

// A path is under one root for every reader, or refused, whatever roots there are
// (decision V60).
func TestSettleMorePaths(t *testing.T) {
	all := rootsOf(more)
	for target, want := range map[string]string{
		"/reports": "/reports", "/reports/a%2Fb": "/reports", "/reports//a": "/reports", "/reports/mcp": "/reports/mcp", "/reports/mcp/x;y": "/reports/mcp", "/reports/mcpx": "/reports",
		"/reportsx": "", "/Reports": "", "/api/v5/reports": "/api/v5", "/api/v4": "/api/v4",
	} {
		if got, ok := all.settle(target); !ok || all.of(got) != want {
			t.Errorf("%s: %q, %v", target, got, ok)
		}
	}
	for _, target := range []string{
		"/reports/..", "/reports/../api/v5", "/reports/..%2fapi/v5", "/reports/%2e%2e/api/v5", "/api/v5/..;/reports", "//reports", "/reports;x", "/reports%2Fx", "/%72eports", "/x/../reports",
		"/reports//mcp", "/reports/%6dcp", "/reports/;x/mcp", "/reports/mcp;x", "/reports%2Fmcp", "/reports/mcp%2F..", `/reports\mcp`, "/reports/%256dcp", "/reports/x%2F..%2Fmcp",
	} {
		if got, ok := all.settle(target); ok {
			t.Errorf("%s was taken as %q", target, got)
		}
	}
	if got, ok := rootsOf(nil).settle("/reports//mcp"); !ok || rootsOf(nil).of(got) != "" {
		t.Error("what is not guarded is refused")
	}
}

// Gateways are told of the other paths as of API v5, and of their tools by the rules of
// their endpoint (decisions V60 and V62).
func TestGatewaysGuardMorePaths(t *testing.T) {
	h := newHouse(t)
	h.api.Resources = more
	for path, status := range map[string]int{
		"/reports": 200, "/reports/x": 200, "/reports/mcp": 200, "/reports/me": 200, "/reportsx": 404, "/Reports": 404, "/reports/../x": 400, "/reports//mcp": 400, "/reports/%6dcp": 400,
	} {
		if w := h.forward("X-Original-URI", path, "X-Auth-Token", adaKey); w.Code != status {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for path, document := range map[string]string{"/reports/x": "/reports", "/reports/mcp": "/reports/mcp"} {
		if w := h.forward("X-Original-URI", path); w.Code != 401 || !strings.Contains(w.Header().Get("Www-Authenticate"), `resource_metadata="`+base+`/.well-known/oauth-protected-resource`+document+`"`) {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		if d := h.decided(`{"path":"` + path + `"}`); d.Status != 401 || !strings.Contains(d.WWWAuthenticate, document+`"`) {
			t.Errorf("%s: %+v", path, d)
		}
	}
	h.rule("", rules.Rule{Tool: "list", Touches: "open", Access: "read"}, rules.Rule{Tool: "list", Path: "/reports/mcp", Touches: "admin"}, rules.Rule{Call: "GET /reports/x", Touches: "open"})
	access := h.live("ada", selected).access
	for path, status := range map[string]int{"/reports/x": 200, "/reports/y": 403, "/reports/mcp": 404, "/reports/mcp/x": 404, "/reports/MCP": 404, "/api/v5/mcp": 404} {
		if w := h.forward("X-Original-URI", path, "X-Original-Method", "GET", "Authorization", "Bearer "+access); w.Code != status {
			t.Errorf("ruled %s: %d %s", path, w.Code, w.Body)
		}
	}
	for path, allowed := range map[string]bool{"": true, "/api/v5/mcp": true, "/api/v5": true, "/reports/mcp": false, "/reports": false, "/reports/mcp?x": false} {
		d := h.decided(`{"token":"` + access + `","path":"` + path + `","tool":"list"}`)
		if d.Allowed != allowed || d.Ruled == nil || d.Ruled.Allowed != allowed {
			t.Errorf("list at %q: %+v", path, d)
		}
	}
	if d := h.decided(`{"token":"` + access + `","path":"/reports/mcp","method":"POST"}`); d.Status != 404 {
		t.Errorf("no tool: %+v", d)
	}
}

// The service behind another path gets it as it is, and never what is another's.
func TestUpstreamOfAnotherPath(t *testing.T) {
	h := newHouse(t)
	h.api.Resources = more
	var got string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.RequestURI }))
	defer service.Close()
	to, err := url.Parse(service.URL)
	if err != nil {
		t.Fatal(err)
	}
	u := &Upstream{URL: to, Key: func() []byte { return []byte(both) }, API: h.api, Base: h.api.Base, Address: limit.Proxies{}.ClientAddr}
	h.api.Base = func(*http.Request) string { return base }
	front := h.api.Guard(u.Handler())
	for path, want := range map[string]string{
		"/reports/a%2Fb?x=..": "/reports/a%2Fb?x=..", "/reports/mcpx": "/reports/mcpx", "/reports/x/mcp": "/reports/x/mcp", "/api/v5/reports/mcp": "/api/v5/reports/mcp",
		"/reports/;x/mcp": "", "/reports//mcp": "", "/reports/%6dcp": "", "/reports/..%2fmcp": "",
	} {
		got = ""
		w := send(t, front, "GET", path, "", "X-Auth-Token", adaKey)
		if got != want || (w.Code == 200) != (want != "") {
			t.Errorf("%s: %d, the service got %q", path, w.Code, got)
		}
	}
	// What some server takes for an MCP endpoint reaches no API, and is told where that is.
	for path, at := range map[string]string{
		"/reports/MCP": "/reports/mcp", "/reports/mcp": "/reports/mcp", "/reports/Mcp/x": "/reports/mcp", "/reports/mcp.json": "/reports/mcp", "/reports/mcp%20": "/reports/mcp", "/api/v5/MCP": "/api/v5/mcp",
	} {
		got = ""
		w := send(t, front, "GET", path, "", "X-Auth-Token", adaKey)
		if got != "" || w.Code != 404 || !strings.Contains(w.Body.String(), `"MCP is at `+at+`, in these letters."`) {
			t.Errorf("%s: %d %s, the service got %q", path, w.Code, w.Body, got)
		}
	}
}
