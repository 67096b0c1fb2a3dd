package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/consent"
	"github.com/grantkeeper/grantkeeper/orgadmin"
)

var reports = Path{"/reports", "http://127.0.0.1:9200", "api", "Bakery reports"}

// withPaths is a good configuration that guards paths.
func withPaths(t *testing.T, all ...Path) Loaded {
	t.Helper()
	l := good(t)
	l.Service.KeyFile, l.Paths = write(t, "service.key", gatewayKey+"\n", 0o600), all
	return l
}

// [[paths]] are plain text that no reader takes for another's, each with a service
// behind (decision V60).
func TestCheckPaths(t *testing.T) {
	l := withPaths(t, reports, Path{"/reports/mcp", "http://127.0.0.1:9200/mcp?x=1", "mcp", "Report tools"}, Path{"/a-b/c_d/v1.2/E", "https://e.example", "api", "E"},
		Path{"/signing", "http://127.0.0.1:9200", "api", "No page"}, Path{"/reports2", "http://127.0.0.1:9200", "api", "Two"})
	c, err := l.Check()
	if err != nil || len(c.Guarded) != 5 || !c.Guarded[1].MCP || c.Guarded[1].URL.RawQuery != "x=1" || c.Guarded[0].MCP || c.Guarded[0].Name != "Bakery reports" || c.Resources()[2].Path != "/a-b/c_d/v1.2/E" {
		t.Fatalf("%+v, %v", c.Guarded, err)
	}
	shown, err := os.ReadFile("../docs/examples/paths.toml")
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
	spoilt := func(change func(*Path)) Path {
		one := reports
		change(&one)
		return one
	}
	at := func(path string) Path { return spoilt(func(c *Path) { c.Path = path }) }
	refuse := func(want string, all ...Path) {
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
	tools := func(path string) Path { return Path{path, "http://127.0.0.1:9200/mcp", "mcp", "Tools"} }
	for mcp, api := range map[string]string{"/tools": "/tools/rest", "/reports/v1": "/reports/v1.json", "/a/b": "/a/b/c/d"} {
		refuse("an MCP endpoint holds no API", tools(mcp), at(api))
		refuse("an MCP endpoint holds no API", at(api), tools(mcp))
		if _, err := withPaths(t, tools(mcp), tools(api), at("/other")).Check(); err != nil {
			t.Errorf("two MCP endpoints: %v", err)
		}
	}
	refuse("kind", spoilt(func(c *Path) { c.Kind = "" }))
	refuse("kind", spoilt(func(c *Path) { c.Kind = "MCP" }))
	refuse("name", spoilt(func(c *Path) { c.Name = "" }))
	refuse("name", spoilt(func(c *Path) { c.Name = "<b>" }))
	for _, kind := range []string{"api", "mcp"} {
		for _, bad := range []string{"", "127.0.0.1:9200", "ftp://127.0.0.1", "http://u:hidden@127.0.0.1", "http://127.0.0.1#x", "http://127.0.0.1:0"} {
			refuse("upstream", spoilt(func(c *Path) { c.Kind, c.Upstream = kind, bad }))
		}
	}
	refuse("upstream", spoilt(func(c *Path) { c.Upstream = "http://127.0.0.1:9200/" }))
	l = withPaths(t, reports)
	l.Service.KeyFile = ""
	if text := wrong(t, l); !strings.Contains(text, "no service.key_file") {
		t.Errorf("without a key: %s", text)
	}
	many := make([]Path, maxPaths+1)
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
	for _, pattern := range slices.Concat(consent.Patterns(), orgadmin.Patterns()) {
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
	tools := Path{"/reports/mcp", "http://127.0.0.1:9200/mcp", "mcp", "Report tools"}
	for path, ok := range map[string]bool{"": true, "/api/v5/mcp": true, "/reports/mcp": true, "/reports": false, "/api/v5": false, "/Reports/mcp": false, "/reports/mcp/": false} {
		l := withPaths(t, reports, tools)
		l.Rules = []Rule{{Tool: "t", Touches: "open", Path: path}}
		c, err := l.Check()
		if ok != (err == nil) || ok && c.Ruled.Empty() {
			t.Errorf("%q: %v", path, err)
		}
	}
	l := withPaths(t, tools)
	c, err := l.Check()
	if err != nil || !slices.Contains(c.Warnings(), untold) || slices.Contains(c.Warnings(), Trusting) && c.Gateway.Listen == "off" {
		t.Errorf("an MCP server without rules: %v, %q", err, c.Warnings())
	}
	l.Gateway.Listen, l.Paths[0] = "off", reports
	if c, err = l.Check(); err != nil || !slices.Contains(c.Warnings(), Trusting) || slices.Contains(c.Warnings(), untold) {
		t.Errorf("an API without rules: %v, %q", err, c.Warnings())
	}
}
