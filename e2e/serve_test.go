package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/server/servertest"
)

// served is a configuration of serve with a few people.
type served struct {
	clients  string // TOML of preregistered clients
	trusted  string // CIDR of the trusted proxy
	apiLimit string
	hosts    []string // names of further base URLs, on the same port
	bounded  int64    // bytes that any file may have; 0 is no bound
	files    int      // that may be open at once; 0 is no bound
}

// serve runs `serve` with a configuration file and a small directory: Ada and
// Tor in Nordlys, with one role each.
func serve(t testing.TB, s served) *house {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := make([]byte, 32)
	rand.Read(key)
	public, operator := freePort(t), freePort(t)
	h := &house{t: t, base: "http://127.0.0.1:" + public, operator: "http://127.0.0.1:" + operator, password: "correct-horse-battery"}
	bases := fmt.Sprintf("%q", h.base)
	for _, name := range s.hosts {
		bases += fmt.Sprintf(", %q", "http://"+name+":"+public)
	}
	config := fmt.Sprintf(`
base_urls = [%s]
secret_key_file = %q
[http]
listen = "127.0.0.1:%s"
trusted_proxies = [%s]
[operator]
listen = "127.0.0.1:%s"
password_file = %q
[database]
url = "sqlite://%s"
%s
%s`, bases, write("secret.key", base64.StdEncoding.EncodeToString(key)), public, quoted(s.trusted), operator,
		write("operator.password", h.password), filepath.Join(dir, "grantkeeper.db"), s.apiLimit, s.clients)
	h.args = []string{"serve", "--config", write("grantkeeper.toml", config)}
	h.files = s.files
	h.serve(s.bounded)
	t.Cleanup(h.stop)
	h.furnish()
	return h
}

func quoted(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}

func freePort(t testing.TB) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(servertest.FreePort(t))
	return port
}

// serve starts the process and waits until it is ready.
func (h *house) serve(bounded int64) {
	h.t.Helper()
	h.stderr = new(servertest.Buffer)
	h.command = exec.Command(program(h.t), h.args...)
	var limits []string // prlimit sets them for this process alone
	if bounded > 0 {
		limits = append(limits, fmt.Sprintf("--fsize=%d:unlimited", bounded))
	}
	if h.files > 0 {
		limits = append(limits, fmt.Sprintf("--nofile=%d:%d", h.files, h.files))
	}
	if len(limits) > 0 {
		h.command = exec.Command("prlimit", append(append(limits, program(h.t)), h.args...)...)
	}
	h.command.Stderr = h.stderr
	h.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := h.command.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.exited = make(chan error, 1)
	go func() { h.exited <- h.command.Wait() }()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if a, err := http.Get(h.operator + "/readyz"); err == nil {
			if a.Body.Close(); a.StatusCode == 200 {
				return
			}
		}
		select {
		case err := <-h.exited:
			h.exited <- err
			h.t.Fatalf("serve ended before it was ready: %v\n%s", err, h.stderr)
		default:
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("not ready within a minute\n%s", h.stderr)
		}
	}
}

func (h *house) furnish() {
	h.t.Helper()
	var people, members []map[string]any
	for _, id := range []string{"ada", "tor"} {
		people = append(people, map[string]any{"id": id, "email": id + "@nordlys.example", "name": id, "password": h.password})
		members = append(members, map[string]any{"person": id, "organization": "nordlys", "admin": id == "ada"})
	}
	b, err := json.Marshal(map[string]any{
		"reason": "test", "people": people, "members": members,
		"organizations": []map[string]any{{"id": "nordlys", "name": "Nordlys", "ai_integration": true}},
		"circles":       []map[string]any{{"id": "anchor", "organization": "nordlys", "name": "Nordlys"}},
		"roles":         []map[string]any{{"id": "nordlys-treasurer", "organization": "nordlys", "circle": "anchor", "name": "Treasurer", "fillers": []string{"ada"}}},
		"api_keys":      []map[string]any{{"key": "api-key-of-ada-in-nordlys", "person": "ada", "organization": "nordlys", "name": "script"}},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.change("/v1/directory", string(b))
}

const connector = `
[[clients]]
id = "assistant-connector"
name = "Assistant Connector"
redirect_uris = ["https://connect.quill.example/callback"]`

// P-01 to P-07: the preregistered client of the contract's section 1.
func TestD_PreregisteredClient(t *testing.T) {
	t.Parallel()
	h := serve(t, served{clients: connector})
	f := h.flow("assistant-connector")
	b := h.signedIn("ada@nordlys.example")

	t.Run("P-01 fixed client ID, blank secret, PKCE", func(t *testing.T) {
		code := b.approve(f, treasurer...)
		first := tokensOf(t, f.send("POST", "/oauth/token", form("grant_type", "authorization_code", "code", code,
			"redirect_uri", f.redirect, "client_id", f.client, "code_verifier", f.verifier, "client_secret", ""),
			header{"Content-Type", "application/x-www-form-urlencoded"}))
		if !h.works(first.access) {
			t.Error("the access token does not work")
		}
	})
	t.Run("P-02 without PKCE back with invalid_request", func(t *testing.T) {
		a := b.get("/oauth/authorize?" + f.query("code_challenge", "", "code_challenge_method", ""))
		if a.status != 303 || a.location(t).Query().Get("error") != "invalid_request" || a.location(t).Query().Get("state") != f.state {
			t.Errorf("got %s", a)
		}
	})
	t.Run("P-04 registration never gives the fixed ID, in any case", func(t *testing.T) {
		for _, id := range []string{"assistant-connector", "Assistant-Connector"} {
			a := h.caller().postJSON("/oauth/register", `{"client_id":"`+id+`","redirect_uris":["https://thief.example/cb"]}`)
			if a.status != 201 || strings.EqualFold(a.json(t)["client_id"].(string), id) {
				t.Errorf("%s: %s", id, a)
			}
		}
		if p := b.page("/oauth/authorize?" + f.query("redirect_uri", "https://thief.example/cb")); p.status != 400 {
			t.Errorf("a stranger's redirect URI: %d", p.status)
		}
		if p := b.page("/oauth/authorize?" + f.query("client_id", "ASSISTANT-CONNECTOR")); p.status != 400 {
			t.Errorf("in upper case: %d, want an unknown client", p.status)
		}
	})
	t.Run("P-06 one is known, the other is not checked", func(t *testing.T) {
		if text := b.consent(f).text(); !strings.Contains(text, "Known app") || strings.Contains(text, "Not checked") {
			t.Errorf("the preregistered client: %s", text)
		}
		a := h.caller().postJSON("/oauth/register", `{"client_name":"Assistant Connector","redirect_uris":["`+redirect+`"]}`)
		if text := b.consent(h.flow(a.json(t)["client_id"].(string))).text(); strings.Contains(text, "Known app") || !strings.Contains(text, "Not checked by Svalinn") {
			t.Errorf("its imitation: %s", text)
		}
	})
	t.Run("P-07 it can be disabled", func(t *testing.T) {
		g := h.flow("assistant-connector")
		tk := tokensOf(t, g.exchange(b.approve(g, treasurer...)))
		h.change("/v1/clients/assistant-connector/disable", `{"reason":"test"}`)
		h.over(t, "disabled", g, tk)
		h.stop()
		h.serve(0)
		if p := h.signedIn("ada@nordlys.example").page("/oauth/authorize?" + f.query()); p.status != 400 {
			t.Errorf("after a restart: %d, want it to stay disabled", p.status)
		}
	})
}

// P-03: the 14 days never touch a preregistered client.
func TestP03PreregisteredClientStays(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.sleep(100 * day)
	f := h.flow("dev-client")
	f.redirect = h.base + "/dev/client"
	h.signedIn("ada@nordlys.example").consent(f)
}

// P-05: a redirect URI that the grammar refuses stops the start.
func TestP05BadConfigurationStopsTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, secret := filepath.Join(dir, "secret.key"), make([]byte, 32)
	rand.Read(secret)
	if err := os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString(secret)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{"http://assistant.example/cb", "https://localhost/cb", "https://assistant.example/cb#x", "https://10.0.0.1/cb"} {
		config := filepath.Join(dir, "grantkeeper.toml")
		text := fmt.Sprintf("base_urls = [\"http://127.0.0.1:1\"]\nsecret_key_file = %q\n[http]\nlisten = \"127.0.0.1:0\"\n[operator]\nlisten = \"off\"\n[database]\nurl = \"sqlite://%s\"\n[[clients]]\nid = \"a\"\nredirect_uris = [%q]\n",
			key, filepath.Join(dir, "x.db"), uri)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(binary, "serve", "--config", config).CombinedOutput()
		if code := exitCode(err); code != 3 || !strings.Contains(string(out), "redirect") {
			t.Errorf("%s: exit %d, %s; want 3 and a word about it", uri, code, out)
		}
	}
}

func exitCode(err error) int {
	if e, ok := err.(*exec.ExitError); ok {
		return e.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// I-01 to I-07: whose request it is, behind a trusted proxy and without one.
// The register limit of 20 an hour tells which address was counted.
func TestD_Addresses(t *testing.T) {
	t.Parallel()
	h := serve(t, served{trusted: "127.0.0.0/9"})
	proxy, stranger := h.callerFrom("127.99.0.1"), h.callerFrom("127.200.0.1")
	register := func(c *caller, forwarded ...string) int {
		var hs header
		for _, f := range forwarded {
			hs = append(hs, "X-Forwarded-For", f)
		}
		return c.postJSON("/oauth/register", `{}`, hs).status
	}
	// counted spends what is left of an address's 20 and tells how much it was.
	counted := func(c *caller, forwarded ...string) (n int) {
		for ; register(c, forwarded...) == 400; n++ {
			if n > 30 {
				t.Fatal("unlimited")
			}
		}
		return n
	}
	for _, tt := range []struct {
		name      string
		first     []string
		then      []string
		thenLeft  int
		from      *caller
		afterward *caller
	}{
		{"I-01 one /64 is one address", []string{"2001:db8:1:1::1"}, []string{"2001:db8:1:1:ffff::2"}, 0, proxy, proxy},
		{"another /64 is another", []string{"2001:db8:1:2::1"}, []string{"2001:db8:1:3::1"}, 20, proxy, proxy},
		{"I-03 IPv4-mapped is IPv4", []string{"::ffff:203.0.113.9"}, []string{"203.0.113.9"}, 0, proxy, proxy},
		{"I-04 the last of the list counts", []string{"1.1.1.1, 203.0.113.10"}, []string{"203.0.113.10"}, 0, proxy, proxy},
		{"I-04 the first of the list does not", nil, []string{"1.1.1.1"}, 20, proxy, proxy},
		{"I-06 two trusted proxies in a row", []string{"203.0.113.11, 127.98.0.1"}, []string{"203.0.113.11"}, 0, proxy, proxy},
		{"I-07 an untrusted peer's header is ignored", []string{"203.0.113.12"}, []string{"203.0.113.13"}, 0, stranger, stranger},
		{"I-07 and costs nobody else", nil, []string{"203.0.113.12"}, 20, proxy, proxy},
	} {
		if tt.first != nil {
			if n := counted(tt.from, tt.first...); n != 20 {
				t.Errorf("%s: %d of 20 at first", tt.name, n)
			}
		}
		if n := counted(tt.afterward, tt.then...); n != tt.thenLeft {
			t.Errorf("%s: %d left, want %d", tt.name, n, tt.thenLeft)
		}
	}
	// I-05: without a header, or with a broken one, the proxy itself is counted.
	lonely := h.callerFrom("127.97.0.1")
	for range 10 {
		register(lonely)
		register(lonely, "not an address")
	}
	if register(lonely) != 429 || register(lonely, "%%%") != 429 {
		t.Error("I-05: the proxy's own address is not limited")
	}
}

// I-14: each endpoint says 429 in its own form.
func TestI14TooManyRequests(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.stopClock()
	c := h.caller()
	for range 20 {
		c.postJSON("/oauth/register", `{}`)
	}
	a := c.postJSON("/oauth/register", `{}`)
	wantError(t, "register", a, 429, "temporarily_unavailable")
	for range 300 {
		c.postForm("/oauth/token")
	}
	for _, path := range []string{"/oauth/token", "/oauth/revoke"} {
		a := c.postForm(path)
		wantError(t, path, a, 429, "temporarily_unavailable")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
	for range 150 {
		c.get("/oauth/authorize")
	}
	p := (&browser{caller: c}).page("/oauth/authorize")
	if p.status != 429 || p.header.Get("Retry-After") == "" || !strings.HasPrefix(p.header.Get("Content-Type"), "text/html") {
		t.Errorf("authorize: %s", p.answer)
	}
	// I-08, I-10: after the wait that was told it is let through, one second
	// before it is not.
	var wait int
	fmt.Sscan(p.header.Get("Retry-After"), &wait)
	h.sleep(time.Duration(wait-1) * time.Second)
	if a := c.get("/oauth/authorize"); a.status != 429 {
		t.Errorf("before the wait is over: %d", a.status)
	}
	h.sleep(time.Second)
	if a := c.get("/oauth/authorize"); a.status == 429 {
		t.Errorf("after the wait: %s", a)
	}
}

// The contract on a full disk: 503 with Retry-After, nothing half-done, and on
// with it when there is room (case T-23). The bound is on the size of files of
// the process, so that the disk of the machine stays as it is.
func TestT23FullDisk(t *testing.T) {
	t.Parallel()
	const bound = 1 << 20
	h := serve(t, served{bounded: bound, trusted: "127.0.0.0/8"})
	f, tk := h.connected("")
	full := false
	var last answer
	big := strings.Repeat("x", 1900)
	for n := range 2000 {
		last = h.caller().postJSON("/oauth/register",
			fmt.Sprintf(`{"redirect_uris":["https://filler.example/%d/%s"]}`, n, big),
			header{"X-Forwarded-For", fmt.Sprintf("198.18.%d.%d", n/250, n%250+1)})
		if full = last.status != 201; full {
			break
		}
	}
	if !full || last.status != 503 || last.errorCode() != "temporarily_unavailable" || last.header.Get("Retry-After") == "" {
		t.Fatalf("on a full disk: %s; want 503 with Retry-After", last)
	}
	if !h.works(tk.access) {
		t.Error("a read fails")
	}
	current := tk
	a := f.refresh(tk.refresh) // it grows nothing, so it may still go through
	switch a.status {
	case 200:
		current = tokensOf(t, a)
	case 503:
		wantError(t, "refresh on a full disk", a, 503, "temporarily_unavailable")
	default:
		t.Errorf("refresh on a full disk: %s", a)
	}
	if err := exec.Command("prlimit", "--pid", fmt.Sprint(h.command.Process.Pid), "--fsize=unlimited:unlimited").Run(); err != nil {
		t.Fatal(err)
	}
	if a := f.refresh(current.refresh); a.status != 200 {
		t.Errorf("refresh with room again: %s", a)
	}
	h.register()
}
