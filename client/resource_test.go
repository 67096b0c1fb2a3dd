package client

import "testing"

const (
	base      = "https://auth.example"
	otherBase = "https://eu.auth.example"
)

// decision A7
func TestServedAt(t *testing.T) {
	tests := []struct {
		base, resource string
		want           bool
	}{
		{base, base, true},
		{base, base + "/", true},
		{base, base + "/api/v5", true},
		{base, base + "/api/v5/", true},
		{base, base + "/api/v5/mcp", true},
		{base, base + "/api/v5/mcp/", true},
		{base, base + "/api/v5/circles/7", true},
		{base, "HTTPS://AUTH.Example/api/v5", true},
		{base, "https://auth.example:443/api/v5/mcp", true},
		{base, "https://auth.example:443", true},
		{"http://127.0.0.1", "http://127.0.0.1:80/api/v5", true},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080/api/v5", true},
		{"https://auth.example:8443", "https://AUTH.example:8443/api/v5/mcp", true},

		{base, "", false},
		{base, "auth.example", false},
		{base, "//auth.example/api/v5", false},
		{base, "http://auth.example/api/v5", false},
		{base, "https://auth.example:80/api/v5", false},
		{base, "https://auth.example:8443/api/v5", false},
		{base, "https://auth.example.evil.example/api/v5", false},
		{base, "https://auth.example@evil.example/api/v5", false},
		{base, "https://me@auth.example/api/v5", false},
		{base, otherBase + "/api/v5", false},
		{base, base + "/api", false},
		{base, base + "/api/v4", false},
		{base, base + "/api/v55", false},
		{base, base + "/API/v5", false},
		{base, base + "/api/v5?a=b", false},
		{base, base + "//", false},
		{base, base + "/api/v5/mcp#top", false}, // RFC 8707 section 2
		{base, base + "#", false},
		{"http://127.0.0.1:8080", "http://127.0.0.1/api/v5", false},
		{"http://127.0.0.1", "http://127.0.0.1:443/api/v5", false},
	}
	for _, tt := range tests {
		if got := Resources(nil).ServedAt(tt.base, tt.resource); got != tt.want {
			t.Errorf("at %s, %s: %v, want %v", tt.base, tt.resource, got, tt.want)
		}
	}
}

func TestServedAtNothingElse(t *testing.T) {
	for _, r := range []string{
		"", "/api/v5", "auth.example", "http://auth.example", base + "/api/v4", base + "/api", base + "/api/v55",
		base + "/API/v5", base + "//api/v5", base + "/api/v5#f", base + ":8443", base + ":80", base + "@evil.example/api/v5",
		base + ".evil.example", base + "/?x", base + "?", "https://auth.example\\/api/v5", base + "/api/v5?x=1", base + "///",
	} {
		if Resources(nil).ServedAt(base, r) {
			t.Errorf("%q counts as ours", r)
		}
	}
	if Resources(nil).ServedAt("https://kin.example", "https://\u212Ain.example/api/v5") {
		t.Error("a Kelvin sign is a k")
	}
	if !Resources(nil).ServedAt("http://127.0.0.1:8080", "HTTP://127.0.0.1:8080/api/v5") || !Resources(nil).ServedAt("http://localhost", "http://localhost:80") {
		t.Error("a base over http is not ours")
	}
}

// decision V60: what a server has more is as good a resource, and nothing beside it.
func TestMoreResources(t *testing.T) {
	more := Resources{{Path: "/reports", Name: "Reports"}, {Path: "/reports/mcp", MCP: true}, {Path: "/a/b"}}
	for path, want := range map[string]string{
		"/reports": "/reports", "/reports/": "/reports", "/reports/x": "/reports", "/reports/mcpx": "/reports", "/reports/x/mcp": "/reports",
		"/reports/mcp": "/reports/mcp", "/reports/mcp/x": "/reports/mcp", "/a/b/c": "/a/b",
		"/api/v5": "/api/v5", "/api/v5/reports": "/api/v5", "/api/v5/mcp": "/api/v5/mcp",
		"/reportsx": "", "/Reports": "", "/a": "", "/a/bc": "", "//reports": "", "/reports;x": "", "/x/reports": "", "": "", "/api": "",
	} {
		of, ok := more.Of(path)
		if !ok && of.Path != "/api/v5" {
			t.Errorf("%s is nowhere: %+v", path, of)
		}
		if ok != (want != "") || ok && of.Path != want {
			t.Errorf("%s: %+v, %v, want %q", path, of, ok, want)
		}
		for _, end := range []string{"", "/"} {
			if got := more.ServedAt(base, base+path+end); got != (want != "" || path == "") {
				t.Errorf("resource %s%s: %v", path, end, got)
			}
		}
	}
	if !more.ServedAt(base, "HTTPS://AUTH.example:443/reports") || more.ServedAt(base, otherBase+"/reports") || more.ServedAt(base, base+"/reports#x") || Resources(nil).ServedAt(base, base+"/reports") {
		t.Error("another host's, or with a fragment")
	}
	if of, _ := more.Of("/reports/mcp"); !of.MCP {
		t.Error("the longest is not the MCP endpoint")
	}
	all := more.All()
	if len(all) != 5 || all[0].Path != "/api/v5" || all[1].Path != "/api/v5/mcp" || all[4].Path != "/a/b" || len(Resources(nil).All()) != 2 {
		t.Errorf("all: %+v", all)
	}
}
