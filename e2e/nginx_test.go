package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/grantkeeper/grantkeeper/identity"
)

// Keys of the gateways that docs/examples/grantkeeper.toml names.
const (
	nginxKey   = "6e67696e782d6b65792d30313233343536373839"
	billingKey = "62696c6c696e672d6b65792d3031323334353637"
	peopleKey  = "70656f706c652d6b65792d303132333435363738"
)

// example reads a file that docs/integrating.md shows, with other values in
// place of its own, given in turn. Each of them has to be there.
func example(t testing.TB, name string, values ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../docs/examples", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(values); i += 2 {
		if !strings.Contains(text, values[i]) {
			t.Fatalf("%s has no %s", name, values[i])
		}
		text = strings.ReplaceAll(text, values[i], values[i+1])
	}
	return text
}

// withGateways runs serve with the gateways of the example, and gives their
// listener's address. Another base URL is for a proxy, on the same port.
func withGateways(t testing.TB, apiLimit string) (h *house, gateways string) {
	t.Helper()
	gateways = "127.0.0.1:" + freePort(t)
	toml := example(t, "grantkeeper.toml", "127.0.0.1:8082", gateways,
		"/etc/grantkeeper/nginx.key", secretFile(t, nginxKey), "/etc/grantkeeper/billing.key", secretFile(t, billingKey),
		"/etc/grantkeeper/people.key", secretFile(t, peopleKey))
	return serve(t, served{hosts: []string{proxied}, trusted: "127.0.0.1", apiLimit: apiLimit, clients: toml}), gateways
}

// proxied is the address of proxies: another one of this machine's.
const proxied = "127.0.0.2"

func secretFile(t testing.TB, secret string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// process starts a program that ends with the test, by SIGTERM.
func process(t testing.TB, c *exec.Cmd) {
	t.Helper()
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		c.Wait()
	})
}

// notesService runs the service of docs/examples, and gives its address.
func notesService(t testing.TB, key string, more ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "notes")
	if out, err := exec.Command("go", "build", "-o", program, "../docs/examples/notes").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := exec.Command(program, append([]string{"-listen", "127.0.0.1:0", "-key-file", secretFile(t, key)}, more...)...)
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	process(t, c)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(strings.TrimSpace(line), "http://")
}

// nginx runs the server of docs/examples/nginx.conf on a listener address, as
// a process of the test's own with a folder of its own.
func nginx(t testing.TB, listen, server, gateways, service string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // not in everybody's path
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatal("this test needs nginx: run scripts/setup-debian.sh")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("key.conf", fmt.Sprintf("proxy_set_header X-Gateway-Key %q;\n", nginxKey))
	write("server.conf", example(t, "nginx.conf", "127.0.0.1:8000", listen, "http://127.0.0.1:8080", "http://"+server,
		"http://127.0.0.1:8082", "http://"+gateways, "http://127.0.0.1:9000", "http://"+service, "/etc/nginx/grantkeeper-key.conf", filepath.Join(dir, "key.conf")))
	temporary := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	write("nginx.conf", fmt.Sprintf(`daemon off;
master_process off;
pid %s;
error_log stderr crit;
events {}
http {
access_log off;
%s
include %s;
}
`, filepath.Join(dir, "pid"), temporary, filepath.Join(dir, "server.conf")))
	process(t, exec.Command(program, "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf")))
	listens(t, listen)
}

// The recipe of docs/integrating.md, with a real nginx: the whole flow goes
// through it, it asks about each call of API v5, and a service behind it reads
// who calls.
func TestNginxRecipe(t *testing.T) {
	t.Parallel()
	h, gateways := withGateways(t, "[api]\nrate_limit = \"40/10m\"")
	direct := h.host()
	front := h.at(proxied)
	service := notesService(t, nginxKey, "-forward-auth")
	nginx(t, front.host(), direct, gateways, service)
	f, tk := front.connected("", treasurer...)
	_, reads := front.connected("", "organization", "nordlys", "grant", "roles", "role:nordlys-treasurer", "read")
	bearer := header{"Authorization", "Bearer " + tk.access}
	c := front.caller()
	metadata := front.base + "/.well-known/oauth-protected-resource/api/v5"
	missing := `Bearer realm="Svalinn", resource_metadata="` + metadata + `"`

	t.Run("a state of 4,096 bytes, on the way through sign-in", func(t *testing.T) {
		f := front.flow("")
		f.state = strings.Repeat(`"<>\`, 1024)
		back, err := approving(front, treasurer...)(t.Context(), &auth.AuthorizationArgs{URL: front.base + "/oauth/authorize?" + f.query()})
		if err != nil || back.State != f.state {
			t.Errorf("%.300v", err)
		}
	})
	t.Run("a call that may pass, and who the service sees", func(t *testing.T) {
		a := c.get("/api/v5/notes?x=1", bearer, header{"X-Grantkeeper-Person", "tor", "X-Grantkeeper-Authority", "admin", "X-Original-URI", "/api/v3/x",
			"X-Forwarded-Uri", "/api/v3/x", "X-Forwarded-Host", "evil.example", "X-Gateway-Key", "x"})
		var who identity.Identity
		if err := json.Unmarshal([]byte(a.body), &who); err != nil || a.status != 200 {
			t.Fatalf("%v: %s", err, a)
		}
		approvals := h.approvalsOf(f.client)
		if who.Person != "ada" || who.Organization != "nordlys" || who.Client != f.client || who.Grant != "roles" || who.Admin || who.Personal ||
			fmt.Sprint(who.Roles) != "[{nordlys-treasurer true}]" || len(approvals) != 1 || who.Approval != approvals[0]["id"] {
			t.Errorf("it sees %+v", who)
		}
		if a := c.postJSON("/api/v5/notes", "{}", bearer); a.status != 201 {
			t.Errorf("a change: %s", a)
		}
		if a := c.get("/api/v5/notes", header{"X-Auth-Token", "api-key-of-ada-in-nordlys"}); a.status != 200 || !strings.Contains(a.body, `"Client":""`) {
			t.Errorf("an API key: %s", a)
		}
	})
	t.Run("a refusal of the service's own stays as it is", func(t *testing.T) {
		if a := c.postJSON("/api/v5/notes", "{}", header{"Authorization", "Bearer " + reads.access}); a.status != 403 || !strings.Contains(a.body, "treasurer") {
			t.Errorf("%s", a)
		}
		if a := c.get("/api/v5/nothing", bearer); a.status != 404 || !strings.Contains(a.body, "page not found") {
			t.Errorf("%s", a)
		}
	})
	t.Run("401 with the challenge", func(t *testing.T) {
		for _, tt := range []struct {
			headers header
			want    string
		}{
			{nil, missing},
			{header{"Authorization", "Bearer garbage"}, missing + `, error="invalid_token"`},
			{header{"X-Auth-Token", tk.access}, missing + `, error="invalid_token"`},
			{header{"Authorization", "Bearer " + tk.access, "X-Auth-Token", "api-key-of-ada-in-nordlys"}, missing + `, error="invalid_token"`},
		} {
			a := c.get("/api/v5/notes", tt.headers)
			if got := a.header["Www-Authenticate"]; a.status != 401 || len(got) != 1 || got[0] != tt.want || a.errorCode() != "invalid_token" || a.header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%v: %s", tt.headers, a)
			}
		}
	})
	t.Run("preflights and the rest of the server", func(t *testing.T) {
		a := c.send("OPTIONS", "/api/v5/notes", "", header{"Origin", "https://quill.example", "Access-Control-Request-Method", "POST"})
		if a.status != 204 || a.header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("preflight: %s", a)
		}
		if a := c.send("OPTIONS", "/api/v5/notes", ""); a.status != 401 {
			t.Errorf("OPTIONS that is none: %s", a)
		}
		if a := c.get("/api/v5/mcp", bearer); a.status != 404 || !strings.Contains(a.body, "mcp.upstream") { // is the server's own
			t.Errorf("MCP: %s", a)
		}
		if a := c.get("/api/v5/me", bearer); a.status != 200 || a.json(t)["organization"] == nil { // and so is this
			t.Errorf("me: %s", a)
		}
		if a := c.get("/api/v4/me", bearer); a.status != 401 || a.header.Get("WWW-Authenticate") != `Bearer realm="Svalinn", error="invalid_token"` {
			t.Errorf("v4: %s", a)
		}
		if a := c.get("/_grantkeeper", bearer); a.status != 404 {
			t.Errorf("the question from outside: %s", a)
		}
	})
	t.Run("no path leads the service astray", func(t *testing.T) {
		for path, want := range map[string]int{
			"/api/v5/..;/v3/notes": 404, "/api/v5/%252e%252e/v3/notes": 404, "/api/v5/../v3/notes": 404, "/api/v5/%2e%2e/v3/notes": 404, "/api/v5/..%2fv3": 404, "//api/v5/notes": 404,
		} {
			a := front.raw("GET " + path + " HTTP/1.1\r\nHost: " + front.host() + "\r\nAuthorization: Bearer " + tk.access + "\r\nConnection: close\r\n\r\n")
			if a.status != want || strings.Contains(a.body, "page not found") || strings.Contains(a.body, "Person") {
				t.Errorf("%s: %s", path, a)
			}
		}
	})
	t.Run("403 becomes 429 over the limit", func(t *testing.T) {
		var last answer
		for range 41 {
			if last = c.get("/api/v5/notes", bearer); last.status != 200 {
				break
			}
		}
		if wait := last.header.Get("Retry-After"); last.status != 429 || last.errorCode() != "rate_limited" || wait == "" || wait == "0" {
			t.Errorf("%s", last)
		}
		if a := c.get("/api/v5/notes"); a.status != 401 {
			t.Errorf("without a credential: %s", a)
		}
	})
	t.Run("nothing passes while nobody can be asked", func(t *testing.T) {
		h.stop()
		if a := c.get("/api/v5/notes", bearer); a.status != 500 || strings.Contains(a.body, "Person") {
			t.Errorf("%s", a)
		}
	})
}

// The shell examples of docs/integrating.md.
func TestIntegratingByShell(t *testing.T) {
	t.Parallel()
	h, gateways := withGateways(t, "")
	f, tk := h.connected("", treasurer...)
	answer := h.caller().get("http://"+gateways+"/v1/forward-auth", header{"X-Gateway-Key", nginxKey, "X-Original-URI", "/api/v5/notes", "X-Original-Method", "POST", "Authorization", "Bearer " + tk.access})
	if answer.status != 200 {
		t.Fatal(answer)
	}
	var env []string // as a CGI program gets it
	for name, values := range answer.header {
		if strings.HasPrefix(name, identity.Prefix) {
			env = append(env, "HTTP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+values[0])
		}
	}
	sh := func(name string, env ...string) (string, error) {
		c := exec.Command("sh", filepath.Join("../docs/examples", name))
		c.Env = append(os.Environ(), env...)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	key := "KEY_FILE=" + secretFile(t, nginxKey)
	if out, err := sh("verify.sh", append(env, key)...); err != nil {
		t.Errorf("signed: %v %s", err, out)
	}
	call := append(append([]string{}, env...), key, "CALL=1", "REQUEST_METHOD=POST", "REQUEST_URI=/api/v5/notes")
	if out, err := sh("verify.sh", call...); err != nil {
		t.Errorf("signed for this call: %v %s", err, out)
	}
	stale, err := identity.Identity{Person: "ada", Organization: "nordlys", Grant: "everything"}.Sign([]byte(nginxKey), time.Now().Add(-2*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for why, changed := range map[string][]string{
		"not signed":               {key},
		"not signed by this key":   append(append([]string{}, env...), key, "HTTP_X_GRANTKEEPER_PERSON=tor"),
		"not signed by":            append(append([]string{}, env...), "KEY_FILE="+secretFile(t, billingKey)),
		"not signed for this call": append(append([]string{}, call...), "REQUEST_METHOD=DELETE"),
		"not signed for this":      append(append([]string{}, call...), "REQUEST_URI=/api/v5/actions"),
		"not signed for":           append(append([]string{}, call...), "HTTP_X_GRANTKEEPER_CALL_SIGNATURE="),
		"at another time": {key, "HTTP_X_GRANTKEEPER_PERSON=ada", "HTTP_X_GRANTKEEPER_ORGANIZATION=nordlys", "HTTP_X_GRANTKEEPER_GRANT=everything",
			"HTTP_X_GRANTKEEPER_SIGNATURE=" + stale[identity.HeaderSignature]},
	} {
		if out, err := sh("verify.sh", changed...); err == nil || !strings.Contains(out, why) {
			t.Errorf("%s: %v %s", why, err, out)
		}
	}

	ask := func(token string) map[string]any {
		t.Helper()
		// The example asks for a host that is not this test's.
		text := example(t, "ask.sh", "app.example.com", h.host())
		c := exec.Command("sh", "-c", text)
		c.Env = append(os.Environ(), "GATEWAY=http://"+gateways, "KEY_FILE="+secretFile(t, billingKey), "TOKEN="+token)
		out, err := c.Output()
		var v map[string]any
		if err := json.Unmarshal(out, &v); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := ask(tk.access); v["allowed"] != true || v["actor"].(map[string]any)["client"] != f.client {
		t.Errorf("a good token: %v", v)
	}
	if v := ask(tk.refresh); v["allowed"] != false || v["status"] != 401.0 || !strings.Contains(v["www_authenticate"].(string), "invalid_token") {
		t.Errorf("a refresh token: %v", v)
	}
	if a := f.revoke(tk.refresh); a.status != 200 {
		t.Fatal(a)
	}
	if v := ask(tk.access); v["allowed"] != false || v["error"] != "invalid_token" {
		t.Errorf("after the revocation: %v", v)
	}
}

// A service of its own behind the server, without any proxy: api.upstream.
func TestServiceBehind(t *testing.T) {
	t.Parallel()
	service := notesService(t, nginxKey)
	h := serve(t, served{apiLimit: example(t, "upstream.toml", "127.0.0.1:9000", service, "/etc/grantkeeper/service.key", secretFile(t, nginxKey))})
	f, tk := h.connected("", treasurer...)
	bearer := header{"Authorization", "Bearer " + tk.access}
	c := h.caller()
	a := c.get("/api/v5/notes", bearer)
	if a.status != 200 || a.json(t)["Client"] != f.client || a.json(t)["Person"] != "ada" {
		t.Errorf("read: %s", a)
	}
	if a := c.postJSON("/api/v5/notes", "{}", bearer); a.status != 201 {
		t.Errorf("change: %s", a)
	}
	if a := c.get("/api/v5/mcp", bearer); a.status != 404 || !strings.Contains(a.body, "mcp.upstream") { // nothing of that service
		t.Errorf("MCP: %s", a)
	}
	if a := f.revoke(tk.refresh); a.status != 200 {
		t.Fatal(a)
	}
	if a := c.get("/api/v5/notes", bearer); a.status != 401 || a.errorCode() != "invalid_token" {
		t.Errorf("after the revocation: %s", a)
	}
}

// Whatever a client says about itself or about what it asked, nginx passes on
// only what it says itself: to Grantkeeper, in each place, and to the service.
func TestNginxPassesNoClientsWord(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]http.Header{}
	echo := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			seen[name+" "+r.URL.Path] = r.Header
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	listen := "127.0.0.1:" + freePort(t)
	nginx(t, listen, echo("server"), echo("gateways"), echo("service"))
	for _, path := range []string{"/signin", "/api/v5/mcp", "/api/v5/me", "/api/v5/notes"} {
		for _, method := range []string{"GET", "OPTIONS"} {
			r, err := http.NewRequest(method, "http://"+listen+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				r.Header.Set(name, "for=192.0.2.1")
			}
			if a, err := http.DefaultClient.Do(r); err != nil {
				t.Fatal(err)
			} else {
				a.Body.Close()
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for at, h := range seen {
		if got := h.Get("X-Forwarded-For"); got != "127.0.0.1" {
			t.Errorf("%s: X-Forwarded-For %q", at, got)
		}
		for _, name := range []string{"Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto"} {
			if got := h.Values(name); len(got) != 0 {
				t.Errorf("%s: %s %q", at, name, got)
			}
		}
	}
	if len(seen) != 6 { // three places of the server, one for two paths, with the preflight, the gateways' and the service
		t.Errorf("seen: %v", slices.Sorted(maps.Keys(seen)))
	}
}
