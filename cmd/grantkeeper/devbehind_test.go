package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/setup"
)

// dev stands before a service of one's own as serve does: it makes the key, runs no
// sample, and where no MCP server is named there is none.
func TestDevBefore(t *testing.T) {
	keyFile := filepath.Join(t.TempDir(), "gk.key")
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := os.ReadFile(keyFile)
		if err != nil {
			t.Error(err)
		}
		who, err := identity.VerifyCall(r.Header, identity.Call{Method: r.Method, Target: r.RequestURI}, time.Now(), bytes.TrimSpace(key))
		if err != nil {
			t.Errorf("the service is told: %v", err)
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"for": who.Person})
	}))
	defer service.Close()
	dev := startDev(t, devserver.Options{Behind: setup.Behind{Upstream: service.URL, KeyFile: keyFile}})
	if info, err := os.Stat(keyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v %v", info, err)
	}
	for path, want := range map[string]string{
		"/api/v5/orders": `{"for":"ada"}`, "/api/v5/notes": `{"for":"ada"}`, "/api/v5/me": `"id":"ada"`, "/api/v5/mcp": "the operator sets mcp.upstream",
	} {
		r, _ := http.NewRequest(http.MethodGet, dev.Server+path, nil)
		r.Header.Set("X-Auth-Token", dev.APIKeys["ada@nordlys.example"])
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		_, _ = body.ReadFrom(a.Body)
		a.Body.Close()
		if !strings.Contains(body.String(), want) {
			t.Errorf("%s: %s %s", path, a.Status, &body)
		}
	}
	said := dev.stderr.String()
	for _, want := range []string{"Behind API   " + service.URL + "\n", "Behind MCP   nothing: --mcp\n", "Rules        none: selected roles give nothing; --rules\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("the banner lacks %q:\n%s", want, said)
		}
	}
	w := newWalk(t, dev.Server)
	w.approve("approve")
	if strings.Contains(w.page, "Read a private item") || !strings.Contains(w.page, "List tools") {
		t.Errorf("the client offers what the sample has:\n%s", w.page)
	}
}

// What the flags cannot mean is said before anything starts, and no file is written.
func TestDevBeforeNothing(t *testing.T) {
	dir := t.TempDir()
	key, bad := filepath.Join(dir, "gk.key"), write(t, "rules.toml", "[[rules]]\ntool = \"a\"\ntouches = \"everything\"\n", 0o600)
	for _, tt := range []struct {
		behind setup.Behind
		want   string
	}{
		{setup.Behind{Upstream: "http://127.0.0.1:9000"}, "there is no --key-file"},
		{setup.Behind{MCP: "http://127.0.0.1:9000/mcp"}, "there is no --key-file"},
		{setup.Behind{KeyFile: key}, "none is named"},
		{setup.Behind{Upstream: "http://127.0.0.1:9000/", KeyFile: filepath.Join(dir, "a")}, "--upstream: "},
		{setup.Behind{MCP: "127.0.0.1:9000", KeyFile: filepath.Join(dir, "b")}, "--mcp: "},
		{setup.Behind{MCP: "http://127.0.0.1:9000/mcp", KeyFile: write(t, "short", "short\n", 0o600)}, "--key-file: "},
		{setup.Behind{Upstream: "http://127.0.0.1:9000", KeyFile: key, Rules: filepath.Join(dir, "none.toml")}, "rules"},
		{setup.Behind{Upstream: "http://127.0.0.1:9000", KeyFile: key, Rules: bad}, "rules"},
	} {
		c := config.Checked{Config: config.Defaults()}
		if got, code := refused(t, tt.behind.Check(&c)); code != 2 && code != 3 || !strings.Contains(got, tt.want) {
			t.Errorf("%+v: code %d, %q", tt.behind, code, got)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("keys were made for nothing: %v, %v", left, err)
	}
}

// A call that no rule names is said once, as a rule to complete.
func TestSuggestRulesWhileCallsCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unnamed, said := new(rules.Tally), &safeBuffer{}
		ctx, cancel := context.WithCancel(t.Context())
		go devserver.SuggestRules(ctx, unnamed, said)
		denied := rules.Decision{Reason: rules.Unlisted}
		for range 2 {
			unnamed.Note(rules.Call{Tool: "create_order"}, denied)
			time.Sleep(2 * devserver.SuggestEvery)
		}
		cancel()
		synctest.Wait()
		if got := said.String(); strings.Count(got, "[[rules]]") != 1 || !strings.Contains(got, `tool = "create_order"`) {
			t.Errorf("said: %q", got)
		}
	})
}

// init names a service in what it writes, which config check takes; the rules are
// copied, and a key that is there stays.
func TestInitBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rulesFile := write(t, "rules.toml", "[[rules]]\ntool = \"create_order\"\nrole_name = \"Orders\"\n", 0o600)
	key := filepath.Join(dir, "gk.key")
	behind := []string{"--upstream", "http://127.0.0.1:9000", "--mcp", "http://127.0.0.1:9000/mcp", "--key-file", key, "--rules", rulesFile}
	started := func(more ...string) []string {
		return append([]string{"init", "--dir", dir, "--base-url", "https://bakery.example"}, more...)
	}
	for _, some := range [][]string{behind[:2], behind[4:], {"--upstream", "bakery", "--key-file", key}, append([]string{"--rules", key}, behind[:6]...)} {
		if _, stderr, code := ran(t, started(some...)...); code != 2 && code != 3 {
			t.Errorf("%v: %d %s", some, code, stderr)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Fatalf("%v left %v, %v", some, left, err)
		}
	}
	var first []byte
	for n, force := range [][]string{nil, {"--force"}} {
		if _, stderr, code := ran(t, started(append(force, behind...)...)...); code != 0 {
			t.Fatalf("%d %s", code, stderr)
		}
		now, err := os.ReadFile(key)
		if err != nil || n == 1 && !bytes.Equal(first, now) {
			t.Errorf("the key: %v", err)
		}
		first = now
	}
	config := filepath.Join(dir, "grantkeeper.toml")
	text, err := os.ReadFile(config)
	for _, want := range []string{"\nkey_file = ", "\n[api]\nupstream = \"http://127.0.0.1:9000\"\n", "\n[mcp]\nupstream = \"http://127.0.0.1:9000/mcp\"\n", "\n[[rules]]\ntool = \"create_order\"\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%v: the configuration lacks %q:\n%s", err, want, text)
		}
	}
	if stdout, stderr, code := ran(t, "config", "check", "-c", config); code != 0 || strings.Contains(stdout, "warn") {
		t.Errorf("config check: %d %s%s", code, stdout, stderr)
	}
}
