package connect

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/server/servertest"
)

// A fake is an authorization server with an MCP endpoint, as the real one answers them,
// and as a broken or hostile one could: any path can be answered otherwise.
type fake struct {
	*httptest.Server
	t *testing.T

	mu         sync.Mutex
	instead    map[string]http.HandlerFunc // by path
	challenges map[string]string           // by code
	refresh    string                      // the current refresh token
	access     map[string]bool             // that are good
	made       int
	lifetime   int64
	sessions   map[string]bool // that live
	counts     map[string]int  // of requests: a path, a grant type, an MCP method
	sent       []string        // bodies of MCP messages
	reused     int
	browser    http.Client // of the person
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, instead: map[string]http.HandlerFunc{}, challenges: map[string]string{}, access: map[string]bool{}, sessions: map[string]bool{}, counts: map[string]int{}, lifetime: 1800}
	f.Server = httptest.NewServer(f)
	f.browser = newBrowser(t)
	t.Cleanup(f.Close)
	return f
}

// newBrowser is one that keeps cookies, and shows where it is led.
func newBrowser(t *testing.T) http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasSuffix(r.URL.Path, "/authorize") {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

// answers has a path answered otherwise.
func (f *fake) answers(path string, by http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instead[path] = by
}

func (f *fake) count(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[what]
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	by := f.instead[r.URL.Path]
	f.counts[r.URL.Path]++
	f.mu.Unlock()
	if by != nil {
		by(w, r)
		return
	}
	f.asIs(w, r)
}

func (f *fake) asIs(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/mcp":
		f.mcp(w, r)
	case "/resource":
		says(w, 200, map[string]any{"resource": f.URL + "/mcp", "authorization_servers": []string{f.URL}})
	case "/.well-known/oauth-authorization-server":
		says(w, 200, map[string]any{"issuer": f.URL, "authorization_endpoint": f.URL + "/authorize", "token_endpoint": f.URL + "/token",
			"revocation_endpoint": f.URL + "/revoke", "grantkeeper_desktop_endpoint": f.URL + "/oauth/desktop"})
	case "/oauth/desktop":
		r.ParseForm()
		says(w, 200, map[string]any{"state": "sealed." + r.PostForm.Get("port") + "." + r.PostForm.Get("path") + "." + newSecret(), "expires_in": 600})
	case "/api/v5/me":
		f.mu.Lock()
		good := f.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		f.mu.Unlock()
		if !good {
			w.WriteHeader(401)
			return
		}
		says(w, 200, map[string]any{"person": map[string]any{"id": "ada", "name": "Ada Berg"}, "organization": map[string]any{"id": "nordlys", "name": "Nordlys"}, "roles": []any{}})
	case "/token":
		f.token(w, r)
	case "/revoke":
		r.ParseForm()
		f.mu.Lock()
		f.refresh, f.access = "", map[string]bool{}
		f.mu.Unlock()
		w.WriteHeader(200)
	default:
		w.WriteHeader(404)
	}
}

func says(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// gives makes new tokens; the lock is the caller's.
func (f *fake) gives() map[string]any {
	f.made++
	f.refresh = fmt.Sprint("refresh-", f.made)
	access := fmt.Sprint("access-", f.made)
	f.access[access] = true
	return map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": f.lifetime, "refresh_token": f.refresh, "scope": "api"}
}

func (f *fake) token(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[r.PostForm.Get("grant_type")]++
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		code := r.PostForm.Get("code")
		if c := f.challenges[code]; c == "" || c != base64.RawURLEncoding.EncodeToString(sum[:]) || r.PostForm.Get("redirect_uri") != f.URL+"/oauth/desktop" {
			says(w, 400, map[string]any{"error": "invalid_grant"})
			return
		}
		delete(f.challenges, code)
		says(w, 200, f.gives())
	case "refresh_token":
		if sent := r.PostForm.Get("refresh_token"); sent != f.refresh || sent == "" {
			if strings.HasPrefix(sent, "refresh-") && f.refresh != "" {
				f.reused++
			}
			f.refresh, f.access = "", map[string]bool{}
			says(w, 400, map[string]any{"error": "invalid_grant"})
			return
		}
		says(w, 200, f.gives())
	}
}

// mcp answers messages of one session, as a service with sessions does.
func (f *fake) mcp(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
		w.Header().Set("WWW-Authenticate", `Bearer realm="Svalinn", resource_metadata="`+f.URL+`/resource"`)
		says(w, 401, map[string]any{"error": "invalid_token"})
		return
	}
	if r.Method == http.MethodGet {
		w.WriteHeader(405)
		return
	}
	if r.Method == http.MethodDelete {
		f.counts["DELETE"]++
		delete(f.sessions, r.Header.Get("Mcp-Session-Id"))
		return
	}
	f.sent = append(f.sent, string(body))
	var m struct {
		ID     json.RawMessage
		Method string
	}
	json.Unmarshal(body, &m)
	f.counts[m.Method]++
	if m.Method != "initialize" && !f.sessions[r.Header.Get("Mcp-Session-Id")] {
		says(w, 404, map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32001, "message": "Session not found"}})
		return
	}
	switch {
	case m.ID == nil:
		w.WriteHeader(202)
	case m.Method == "initialize":
		f.made++
		session := fmt.Sprint("session-", f.made)
		f.sessions[session] = true
		w.Header().Set("Mcp-Session-Id", session)
		says(w, 200, map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": map[string]any{"protocolVersion": "2025-06-18", "serverInfo": map[string]any{"name": "fake"}}})
	case m.Method == "tools/list":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\ndata:  \"id\":%s,\"result\":{\"tools\":[{\"name\":\"whoami\"}]}}\n\n", m.ID)
	default:
		says(w, 200, map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": map[string]any{"method": m.Method, "version": r.Header.Get("MCP-Protocol-Version")}})
	}
}

// person is a browser that opens an address, and approves, or presses what it is told
// to: it brings the answer to where the state says.
func (f *fake) person(address string, answer url.Values) (*http.Response, error) {
	r, err := f.browser.Get(address)
	if err != nil {
		return nil, err
	}
	r.Body.Close()
	u, err := r.Location()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Status, err)
	}
	return f.browser.Get(f.brings(u, answer))
}

// brings is the address by which an answer comes.
func (f *fake) brings(u *url.URL, answer url.Values) string {
	q := u.Query()
	state := strings.Split(q.Get("state"), ".")
	answer.Set("state", q.Get("state"))
	answer.Set("iss", f.URL)
	f.mu.Lock()
	if code := answer.Get("code"); code != "" {
		f.challenges[code] = q.Get("code_challenge")
	}
	f.mu.Unlock()
	return "http://127.0.0.1:" + state[1] + "/" + state[2] + "?" + answer.Encode()
}

// A desk is one copy of the program, and its assistant.
type desk struct {
	t   *testing.T
	f   *fake
	in  *io.PipeWriter
	err *servertest.Buffer
	out *servertest.Buffer
	end chan error
}

// options are those of a copy, with browsers that approve when a test says so.
func (f *fake) options(t *testing.T, opened func(address string) error) Options {
	return Options{URL: f.URL + "/mcp", Store: filepath.Join(t.TempDir(), "kept.json"), Version: "v1", Err: &servertest.Buffer{}, Open: opened}
}

func approves(f *fake) func(string) error {
	return func(address string) error {
		go func() {
			if r, err := f.person(address, url.Values{"code": {newSecret()}}); err == nil {
				r.Body.Close()
			}
		}()
		return nil
	}
}

func start(t *testing.T, f *fake, o Options) *desk {
	t.Helper()
	r, w := io.Pipe()
	d := &desk{t: t, f: f, in: w, err: o.Err.(*servertest.Buffer), out: &servertest.Buffer{}, end: make(chan error, 1)}
	o.In, o.Out = r, d.out
	go func() { d.end <- Serve(t.Context(), o) }()
	t.Cleanup(func() { w.Close() })
	return d
}

func (d *desk) says(line string) {
	d.t.Helper()
	if _, err := io.WriteString(d.in, line+"\n"); err != nil {
		d.t.Fatal(err)
	}
}

// hears waits for a line with a text in it, and gives it.
func (d *desk) hears(text string) string {
	d.t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		for line := range strings.Lines(d.out.String()) {
			if strings.Contains(line, text) {
				return line
			}
		}
	}
	d.t.Fatalf("never heard: %s\n%s\n%s", text, d.out, d.err)
	return ""
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"quill","title":"Quill Desktop","version":"1"}}}`

// begins goes as far as a session.
func (d *desk) begins() {
	d.t.Helper()
	d.says(hello)
	d.hears(`"id":1`)
	n := d.f.count("notifications/initialized")
	d.says(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for until := time.Now().Add(time.Minute); d.f.count("notifications/initialized") == n && time.Now().Before(until); {
		time.Sleep(5 * time.Millisecond)
	}
}

// ends closes the assistant's side.
func (d *desk) ends() {
	d.t.Helper()
	d.in.Close()
	select {
	case err := <-d.end:
		if err != nil {
			d.t.Error(err)
		}
	case <-time.After(time.Minute):
		d.t.Fatal("it does not end")
	}
}
