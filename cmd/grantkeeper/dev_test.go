package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/demo"
	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/remote"
)

// A running dev of a test.
type running struct {
	devserver.Ready
	stop   func() error
	stderr *safeBuffer
}

// startDev starts dev on free ports.
func startDev(t *testing.T, o devserver.Options) running {
	t.Helper()
	o.Version, o.Listen, o.OperatorListen, o.LogLevel, o.LogFormat = version, "127.0.0.1:0", "127.0.0.1:0", "info", "json"
	ctx, cancel := context.WithCancel(context.Background())
	r := running{stderr: &safeBuffer{}}
	ready, ended := make(chan devserver.Ready, 1), make(chan error, 1)
	go func() { ended <- devserver.Run(ctx, o, r.stderr, func(told devserver.Ready) { ready <- told }) }()
	select {
	case r.Ready = <-ready:
	case err := <-ended:
		cancel()
		t.Fatalf("dev ended before it was ready: %v\n%s", err, r.stderr)
	}
	r.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("dev ended with %v", err)
		}
	})
	return r
}

// operator does a request of the operator's.
func (r running) operator(t *testing.T, method, path, body string) map[string]any {
	t.Helper()
	req, err := http.NewRequest(method, r.Operator+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(r.OperatorUser, r.OperatorPassword)
	req.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 {
		t.Fatalf("%s %s: %s %s %v", method, path, a.Status, text, err)
	}
	var members map[string]any
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return members
}

func TestDevListensOnLoopbackAlone(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "app.example:0", "[fe80::1]:0", "10.0.0.1:80"} {
		for _, o := range []devserver.Options{
			{Listen: address, OperatorListen: "127.0.0.1:0"}, {Listen: "127.0.0.1:0", OperatorListen: address},
		} {
			text, code := refused(t, devserver.Run(t.Context(), o, io.Discard, func(devserver.Ready) { t.Error("it is ready") }))
			if code != 2 || text != "dev serves demo accounts, so it listens on loopback only. Use 'grantkeeper serve'.\n" {
				t.Errorf("%q: code %d, %q", address, code, text)
			}
		}
	}
}

func TestDevSaysWhatIsNoAddress(t *testing.T) {
	for _, address := range []string{"", "8080", "127.0.0.1", "here", "::1"} {
		for _, o := range []devserver.Options{
			{Listen: address, OperatorListen: "127.0.0.1:0"}, {Listen: "127.0.0.1:0", OperatorListen: address},
		} {
			text, code := refused(t, devserver.Run(t.Context(), o, io.Discard, func(devserver.Ready) { t.Error("it is ready") }))
			if want := fmt.Sprintf("%q is not an address and a port", address); code != 2 || !strings.HasPrefix(text, want) {
				t.Errorf("%q: code %d, %q", address, code, text)
			}
		}
	}
}

// What dev prints is the page that newcomers read; every line of it is true.
func TestDevSaysWhereEverythingIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready.json")
	if err := os.WriteFile(file, []byte("of a server that is gone"), 0o600); err != nil {
		t.Fatal(err)
	}
	dev := startDev(t, devserver.Options{ReadyFile: file})
	want := `grantkeeper 0.1.0  development mode: loopback only, demo data, http. Not for production.

  Server       {server}
  Metadata     {server}/.well-known/oauth-authorization-server
  MCP          {server}/api/v5/mcp
  Passkeys     {named}           (they need a name)
  Operator     {operator}           (user operator, password as below)
  Data         in memory, gone at exit          (keep it: --data ./dev-data)

  People       password for all: demo-demo-demo
    ada@nordlys.example     admin of Nordlys, member of Fjell; 9 + 2 roles
    tor@nordlys.example     member of Nordlys; 3 roles
    mei@storhavn.example    member of Storhavn; 300 roles
    ola@havn.example        only Havn: AI integration is off
    support@svalinn.example     may impersonate

  API keys     X-Auth-Token; new at each start
    ada@nordlys.example     {ada@nordlys.example}
    tor@nordlys.example     {tor@nordlys.example}
    mei@storhavn.example    {mei@storhavn.example}
    ola@havn.example        {ola@havn.example}

  Try it
    in a browser    {server}/dev/client
    in a terminal   grantkeeper demo --base-url {server}
    an assistant    grantkeeper connect {server}/api/v5/mcp
    by hand         curl -s {server}/.well-known/oauth-authorization-server

Ready in `
	got := regexp.MustCompile(` +\((user operator|they need)`).ReplaceAllString(dev.stderr.String(), "           ($1")
	want = strings.NewReplacer("{named}", strings.Replace(dev.Server, "127.0.0.1", "localhost", 1), "{server}", dev.Server, "{operator}", dev.Operator).Replace(want)
	for email, key := range dev.APIKeys {
		want = strings.Replace(want, "{"+email+"}", key, 1)
	}
	if !strings.HasPrefix(got, want) || !regexp.MustCompile(`\nReady in \d+ ms. Stop with Ctrl-C.\n`).MatchString(got) {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	text, err := os.ReadFile(file)
	var told devserver.Ready
	if err != nil || json.Unmarshal(text, &told) != nil || fmt.Sprint(told) != fmt.Sprint(dev.Ready) || len(told.People) != 5 || len(told.APIKeys) != 4 {
		t.Errorf("ready file: %v %s", err, text)
	}
	for _, member := range []string{"server", "operator", "operator_user", "operator_password", "people", "password", "api_keys"} {
		if !strings.Contains(string(text), `"`+member+`":`) {
			t.Errorf("ready file without %s: %s", member, text)
		}
	}
	if left, _ := filepath.Glob(file + "*"); len(left) != 1 {
		t.Errorf("beside the ready file: %v", left)
	}
	for email, key := range told.APIKeys {
		for _, version := range []string{"v3", "v4", "v5"} {
			r, _ := http.NewRequest("GET", told.Server+"/api/"+version+"/me", nil)
			r.Header.Set("X-Auth-Token", key)
			a, err := http.DefaultClient.Do(r)
			if err != nil || a.StatusCode != 200 {
				t.Fatalf("API key of %s on %s: %v %v", email, version, a, err)
			}
			a.Body.Close()
		}
	}
}

// dev's API keys cannot be guessed, and are new at each start: those of the start
// before are good for nothing, and one that was taken away stays away.
func TestDevsAPIKeysAreNewAtEachStart(t *testing.T) {
	o := devserver.Options{Data: t.TempDir()}
	ask := func(dev running, key string) int {
		t.Helper()
		r, _ := http.NewRequest("GET", dev.Server+"/api/v5/me", nil)
		r.Header.Set("X-Auth-Token", key)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	first := startDev(t, o)
	seen := map[string]bool{}
	for email, key := range first.APIKeys {
		if len(key) < 26 || seen[key] || ask(first, key) != 200 {
			t.Errorf("%s: %q", email, key)
		}
		seen[key] = true
	}
	first.operator(t, "POST", "/v1/people/tor/deactivate", `{}`)
	first.operator(t, "POST", "/v1/people/tor/reactivate", `{}`)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	second := startDev(t, o)
	if len(first.APIKeys) != 4 || len(second.APIKeys) != 3 || second.APIKeys["tor@nordlys.example"] != "" {
		t.Errorf("first %v, then %v", first.APIKeys, second.APIKeys)
	}
	for email, key := range first.APIKeys {
		if ask(second, key) != 401 {
			t.Errorf("%s: the key of the first start works at the second", email)
		}
	}
	for email, key := range second.APIKeys {
		if seen[key] || ask(second, key) != 200 {
			t.Errorf("%s: %q at the second start", email, key)
		}
	}
	_, log, _ := strings.Cut(second.stderr.String(), "Stop with Ctrl-C.\n")
	for _, key := range second.APIKeys {
		if strings.Contains(log, key) {
			t.Errorf("the log has an API key:\n%s", log)
		}
	}
}

// Everybody knows dev's password. A web page that uses it from the browser of
// whoever runs dev changes nothing: the operators' listener takes no change of
// another site and sends no CORS, sign-in takes no form of another site, and the
// API, whose CORS is open, has no secret that everybody knows.
func TestNoWebPageChangesDevsData(t *testing.T) {
	dev := startDev(t, devserver.Options{})
	const person = `{"id":"eve","email":"eve@evil.example","name":"Eve"}`
	for _, c := range []struct {
		name, method, url, media, body, key string
		basic                               bool
		want                                int
	}{
		{"a form to the operators' listener", "POST", dev.Operator + "/v1/people", "text/plain", person, "", true, 403},
		{"a script there", "POST", dev.Operator + "/v1/people", "application/json", person, "", true, 403},
		{"a form to its console", "POST", dev.Operator + "/clients", "application/x-www-form-urlencoded", "reason=x", "", true, 403},
		{"a preflight there", "OPTIONS", dev.Operator + "/v1/people", "", "", "", false, 401},
		{"a form to sign in", "POST", dev.Server + "/signin", "application/x-www-form-urlencoded", "email=ada%40nordlys.example&password=" + remote.DevPassword, "", false, 403},
		{"the API with a key like those that were fixed once", "PATCH", dev.Server + "/api/v5/people/tor", "application/json", `{"admin":true}`, "dev-api-key-of-ada-nordlys", false, 401},
		{"the API with the password", "PATCH", dev.Server + "/api/v5/people/tor", "application/json", `{"admin":true}`, remote.DevPassword, false, 401},
	} {
		r, err := http.NewRequest(c.method, c.url, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "Content-Type": c.media, "X-Auth-Token": c.key} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if c.method == "OPTIONS" {
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
		}
		if c.basic {
			r.SetBasicAuth(dev.OperatorUser, remote.DevPassword)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != c.want || len(a.Cookies()) > 0 && strings.HasPrefix(a.Cookies()[0].Name, "session") {
			t.Errorf("%s: %d and cookies %v, want %d", c.name, a.StatusCode, a.Cookies(), c.want)
		}
		if strings.HasPrefix(c.url, dev.Operator) && a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: CORS", c.name)
		}
	}
	if people := dev.operator(t, "GET", "/v1/people", ""); strings.Contains(fmt.Sprint(people), "evil.example") {
		t.Errorf("somebody was added: %v", people)
	}
}

func TestDevEmpty(t *testing.T) {
	dev := startDev(t, devserver.Options{Empty: true})
	if got := dev.operator(t, "GET", "/v1/people", ""); len(got["items"].([]any)) != 0 {
		t.Errorf("people: %v", got)
	}
	if out := dev.stderr.String(); strings.Contains(out, "ada@") || !strings.Contains(out, "(user operator, password demo-demo-demo)") || len(dev.People) != 0 {
		t.Errorf("printed: %s", out)
	}
}

// Who is told that dev is ready may end it at once, and it ends as a server that
// is ready does: until then a signal ends the process.
func TestDevIsReadyBeforeItSaysSo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready.json")
	stderr, signals := &safeBuffer{}, make(chan os.Signal, 1)
	asked := 0
	o := devserver.Options{
		Listen: "127.0.0.1:0", OperatorListen: "127.0.0.1:0", ReadyFile: file, LogLevel: "info", LogFormat: "json",
		Signals: signals,
		Ready: func() {
			asked++
			if said := stderr.String(); said != "" {
				t.Errorf("it has said:\n%s", said)
			}
			if left, _ := filepath.Glob(file + "*"); len(left) != 0 {
				t.Errorf("it has written %v", left)
			}
			signals <- syscall.SIGTERM
		},
	}
	err := devserver.Run(t.Context(), o, stderr, func(devserver.Ready) {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("ready file: %v", err)
		}
	})
	if err != nil || asked != 1 || !strings.Contains(stderr.String(), `"stopping"`) {
		t.Errorf("ended with %v, ready %d times\n%s", err, asked, stderr)
	}
	if left, _ := filepath.Glob(file + "*"); len(left) != 0 {
		t.Errorf("at the end there is %v", left)
	}
}

// With --data, what happened is there after a restart, and only one dev works
// on a folder.
func TestDevKeepsItsData(t *testing.T) {
	data := filepath.Join(t.TempDir(), "dev-data")
	dev := startDev(t, devserver.Options{Data: data})
	dev.operator(t, "POST", "/v1/people/tor/deactivate", "")
	dev.operator(t, "POST", "/v1/dev/clock", `{"advance_seconds":86400}`)
	info, err := os.Stat(filepath.Join(data, "secret.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v %v", info.Mode(), err)
	}
	err = devserver.Run(t.Context(), devserver.Options{Listen: "127.0.0.1:0", OperatorListen: "127.0.0.1:0", Data: data, LogLevel: "info", LogFormat: "json"}, io.Discard, nil)
	if _, code := refused(t, err); code != 6 {
		t.Errorf("a second dev on the same folder: %v, code %d", err, code)
	}
	if err := dev.stop(); err != nil {
		t.Fatal(err)
	}
	again := startDev(t, devserver.Options{Data: data})
	if got := again.operator(t, "GET", "/v1/people/tor", ""); got["active"] != false {
		t.Errorf("after a restart: %v", got)
	}
	// Time that has passed stays passed, and goes on.
	if got := again.operator(t, "GET", "/v1/dev/clock", ""); got["advance_seconds"].(float64) < 86000 {
		t.Errorf("clock after a restart: %v", got)
	}
	if got := again.operator(t, "GET", "/v1/clients/dev-client", ""); fmt.Sprint(got["redirect_uris"]) !=
		fmt.Sprintf("[%s/dev/client %s/dev/client]", again.Server, strings.Replace(again.Server, "127.0.0.1", "localhost", 1)) {
		t.Errorf("the client's redirect URIs are of the run before: %v", got)
	}
}

// A client that nobody approves is deleted when its 14 days have passed, at
// once.
func TestDevClock(t *testing.T) {
	dev := startDev(t, devserver.Options{})
	a, err := http.Post(dev.Server+"/oauth/register", "application/json", strings.NewReader(`{"redirect_uris":["https://a.example/cb"]}`))
	if err != nil || a.StatusCode != 201 {
		t.Fatalf("%v %v", a, err)
	}
	a.Body.Close()
	count := func() int { return len(dev.operator(t, "GET", "/v1/clients?state=registered", "")["items"].([]any)) }
	before := dev.operator(t, "GET", "/v1/dev/clock", "")["now"].(float64)
	dev.operator(t, "POST", "/v1/dev/clock", `{"advance_seconds":1209000}`)
	if count() != 1 {
		t.Error("deleted too early")
	}
	after := dev.operator(t, "POST", "/v1/dev/clock", `{"advance_seconds":600}`)["now"].(float64)
	if count() != 0 || after < before+1209600 {
		t.Errorf("not deleted; the clock went from %.0f to %.0f", before, after)
	}
	events := dev.operator(t, "GET", "/v1/events?kind=client_expired", "")["items"].([]any)
	if len(events) != 1 {
		t.Errorf("journal: %v", events)
	}
	back := dev.operator(t, "POST", "/v1/dev/clock", `{"advance_seconds":-1209600}`)
	if back["now"].(float64) < after {
		t.Errorf("time went back: %v", back)
	}
	for i, want := range []int{200, 400} { // a hundred years, and a hundred more
		r, _ := http.NewRequest("POST", dev.Operator+"/v1/dev/clock", strings.NewReader(`{"advance_seconds":3153600000}`))
		r.SetBasicAuth("operator", remote.DevPassword)
		r.Header.Set("Content-Type", "application/json")
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != want {
			t.Errorf("advance number %d: %s, want %d", i+1, a.Status, want)
		}
	}
}

// walk is a browser on dev's client page.
type walk struct {
	*testing.T
	browser *http.Client
	base    string
	page    string
	at      string
}

func (w *walk) do(r *http.Request) {
	w.Helper()
	a, err := w.browser.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		w.Fatal(err)
	}
	w.page, w.at = html.UnescapeString(string(text)), a.Request.URL.String()
}

func (w *walk) get(address string) {
	w.Helper()
	r, err := http.NewRequest("GET", address, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.do(r)
}

func (w *walk) post(path string, form url.Values) {
	w.Helper()
	r, err := http.NewRequest("POST", w.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	w.do(r)
}

func (w *walk) find(pattern string) string {
	w.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(w.page)
	if m == nil {
		w.Fatalf("nothing like %s at %s:\n%s", pattern, w.at, w.page)
	}
	return m[1]
}

func (w *walk) statuses() string {
	var all []string
	for _, m := range regexp.MustCompile(`<p class="note (?:good|bad)"><b>([^<]*)</b>`).FindAllStringSubmatch(w.page, -1) {
		all = append(all, m[1])
	}
	return strings.Join(all, "; ")
}

func newWalk(t *testing.T, base string) *walk {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &walk{T: t, browser: &http.Client{Jar: jar}, base: base}
}

// approve goes from the start of dev's client to its end.
func (w *walk) approve(decision string) {
	w.Helper()
	w.post("/dev/client", url.Values{"do": {"start"}})
	w.get(w.find(`href="([^"]*/oauth/authorize[^"]*)"`))
	f, err := demo.FormWith(strings.NewReader(w.page), "password")
	if err != nil {
		w.Fatalf("%v at %s", err, w.at)
	}
	form := f.Values()
	form.Set("email", "ada@nordlys.example")
	form.Set("password", remote.DevPassword)
	w.post("/signin", form)
	if f, err = demo.FormWith(strings.NewReader(w.page), "organization"); err != nil {
		w.Fatalf("%v at %s", err, w.at)
	}
	form = f.Values()
	if _, err := demo.Choose(f, form); err != nil {
		w.Fatal(err)
	}
	form.Set("decision", decision)
	w.post("/oauth/authorize", form)
}

// Dev's own client goes through every step in a browser without script.
func TestDevClientWalk(t *testing.T) {
	dev := startDev(t, devserver.Options{})
	w := newWalk(t, dev.Server)
	w.get(dev.Server + "/dev/client")
	if !strings.Contains(w.page, "Start</button>") {
		t.Fatalf("the first page: %s", w.page)
	}
	w.approve("approve")
	if !strings.HasPrefix(w.at, dev.Server+"/dev/client?flow=") {
		t.Fatalf("after the approval at %s:\n%s", w.at, w.page)
	}
	flow := url.Values{"flow": {w.find(`name="flow" value="([^"]*)"`)}}
	for _, do := range []string{"call", "read", "change", "refresh", "call", "reuse", "read", "call", "refresh", "revoke"} {
		flow.Set("do", do)
		w.post("/dev/client", flow)
	}
	want := "200 OK; state and iss are right; 200 OK; 200 OK; 200 OK; 200 OK; 200 OK; 200 OK; 400 Bad Request; 401 Unauthorized; 401 Unauthorized; 400 Bad Request; 200 OK"
	if got := w.statuses(); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	whole := regexp.MustCompile(`sv[orc]_[A-Za-z0-9]{20}|code_verifier=[A-Za-z0-9_-]{20}`)
	if found := whole.FindAllString(w.page, -1); len(found) > 0 {
		t.Errorf("whole secrets on the page: %v", found)
	}
	if !strings.Contains(w.page, "Salary bands under discussion") || !regexp.MustCompile(`"status":\s*"done"`).MatchString(strings.ReplaceAll(w.page, "\u00a0", " ")) {
		t.Errorf("no item was read and changed:\n%s", w.page)
	}
	if !strings.Contains(w.page, "svo_") || !strings.Contains(w.page, `error="invalid_token"`) {
		t.Errorf("answers are missing:\n%s", w.page)
	}
	if err := dev.stop(); err != nil {
		t.Fatal(err)
	}
	_, log, ok := strings.Cut(dev.stderr.String(), "Stop with Ctrl-C.\n")
	if found := regexp.MustCompile(`sv[orc]_|code=|state=|flow=|demo-demo|@nordlys`).FindString(log); !ok || found != "" || !strings.Contains(log, `"route":"/dev/client"`) {
		t.Errorf("the log has %q:\n%s", found, log)
	}
}

// Dev's client lists the tools of the MCP endpoint and calls one, as an assistant
// does; what is not listed is refused by the server.
func TestDevClientCallsTools(t *testing.T) {
	dev := startDev(t, devserver.Options{})
	w := newWalk(t, dev.Server)
	w.approve("approve")
	before := w.statuses()
	flow := url.Values{"flow": {w.find(`name="flow" value="([^"]*)"`)}, "do": {"tool"}, "tool": {""}, "arguments": {"{}"}}
	w.post("/dev/client", flow) // names none
	w.post("/dev/client", url.Values{"flow": flow["flow"], "do": {"tools"}})
	flow.Set("tool", "whoami")
	w.post("/dev/client", flow)
	for _, bad := range []string{"", "[]", "null", `{"a":`} {
		flow.Set("arguments", bad)
		w.post("/dev/client", flow)
	}
	flow.Set("tool", "read_item")
	flow.Set("arguments", `{"kind":"note","id":"none"}`)
	w.post("/dev/client", flow)
	want := before + "; Listed; Done" + strings.Repeat("; Arguments are a JSON object, such as {}", 4) + "; Refused"
	if got := w.statuses(); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if !strings.Contains(w.page, "<option>whoami</option>") || !strings.Contains(w.page, `value="read_item"`) || !strings.Contains(w.page, "Ada Aasen") {
		t.Errorf("tools or the answer are missing:\n%s", w.page)
	}
	flow.Set("tool", "no_such_tool")
	w.post("/dev/client", flow)
	if strings.HasSuffix(w.statuses(), "Done") || w.statuses() == want {
		t.Errorf("a tool that there is not: %s", w.statuses())
	}
	if found := regexp.MustCompile(`sv[orc]_[A-Za-z0-9]{20}`).FindAllString(w.page, -1); len(found) > 0 {
		t.Errorf("whole secrets on the page: %v", found)
	}
}

// What the approval does not give is refused, in words that name the role; in
// another organization the items are not there at all.
func TestDevClientIsRefused(t *testing.T) {
	dev := startDev(t, devserver.Options{})
	dev.operator(t, "POST", "/v1/roles/nordlys-treasurer/fillers/remove", `{"person":"ada"}`)
	for _, want := range []string{"404 Not Found; 404 Not Found", "200 OK; 403 Forbidden"} { // in Fjell, in Nordlys
		w := newWalk(t, dev.Server)
		w.approve("approve")
		flow := url.Values{"flow": {w.find(`name="flow" value="([^"]*)"`)}}
		for _, do := range []string{"read", "change"} {
			flow.Set("do", do)
			w.post("/dev/client", flow)
		}
		if got := w.statuses(); got != "200 OK; state and iss are right; 200 OK; "+want {
			t.Errorf("got %s, want %s", got, want)
		}
		if strings.Contains(w.page, "The person does not fill Treasurer, and this approval carries no admin rights.") != strings.Contains(want, "403") {
			t.Errorf("the reason:\n%s", w.page)
		}
		dev.operator(t, "POST", "/v1/organizations/fjell/members/ada/remove", "")
	}
}

func TestDevClientTakesNothingFromStrangers(t *testing.T) {
	dev := startDev(t, devserver.Options{})
	w := newWalk(t, dev.Server)
	w.get(dev.Server + "/dev/client?code=svc_x&state=made-up&iss=" + url.QueryEscape(dev.Server))
	if !strings.Contains(w.page, "a state that this client did not make") {
		t.Errorf("a strange state: %s", w.page)
	}
	w.get(dev.Server + "/dev/client?flow=made-up")
	if !strings.Contains(w.page, "Begin a new one") {
		t.Errorf("a strange walk: %s", w.page)
	}
	w.post("/dev/client", url.Values{"do": {"revoke"}, "flow": {"made-up"}})
	if !strings.Contains(w.page, "Begin a new one") {
		t.Errorf("a strange walk: %s", w.page)
	}
	r, _ := http.NewRequest("POST", dev.Server+"/dev/client", strings.NewReader("do=start"))
	r.Header.Set("Origin", "https://evil.example")
	a, err := http.DefaultClient.Do(r)
	if err != nil || a.StatusCode != 403 {
		t.Errorf("a page of another site: %v %v", a, err)
	}
	a.Body.Close()
	// A cancelled walk and one that another server answered bring no tokens.
	w.approve("cancel")
	if got := w.statuses(); got != "200 OK; no code: access_denied" {
		t.Errorf("cancelled: %s", got)
	}
	w.post("/dev/client", url.Values{"do": {"start"}})
	to, err := url.Parse(w.find(`href="([^"]*/oauth/authorize[^"]*)"`))
	if err != nil {
		t.Fatal(err)
	}
	w.get(dev.Server + "/dev/client?code=svc_x&iss=https://evil.example&state=" + to.Query().Get("state"))
	if got := w.statuses(); got != "200 OK; iss is not this server: a client stops here" {
		t.Errorf("another issuer: %s", got)
	}
	// Another loopback name is sent to one that the client is registered for.
	_, port, _ := strings.Cut(strings.TrimPrefix(dev.Server, "http://"), ":")
	r, _ = http.NewRequest("GET", dev.Server+"/dev/client", nil)
	r.Host = "x.localhost:" + port
	a, err = (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil || a.StatusCode != 303 || a.Header.Get("Location") != dev.Server+"/dev/client" {
		t.Errorf("another name: %v %v", a, err)
	}
	a.Body.Close()
}

// Who writes a client watches it: its latest attempt step by step, what to do where it
// stops, and the ones before. What others wrote stays text.
func TestDevWatchesAClient(t *testing.T) {
	dev := startDev(t, devserver.Options{})
	w := newWalk(t, dev.Server)
	w.get(dev.Server + "/dev/client")
	for _, want := range []string{`name="watch"`, "Watch a client of yours"} {
		if !strings.Contains(w.page, want) {
			t.Errorf("no %q", want)
		}
	}
	w.get(dev.Server + "/dev/client?watch=nobody.example.com")
	if !strings.Contains(w.page, "Nothing was seen of it so far.") || !strings.Contains(w.page, "Be the client myself") {
		t.Errorf("of nobody: %s", w.page)
	}
	register := func(name, uri string) string {
		t.Helper()
		body, err := json.Marshal(map[string]any{"client_name": name, "redirect_uris": []string{uri}})
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.Post(dev.Server+"/oauth/register", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		var registered struct {
			ID string `json:"client_id"`
		}
		if err := json.NewDecoder(a.Body).Decode(&registered); err != nil {
			t.Fatal(err)
		}
		return registered.ID
	}
	id := register(`"Mine" & co`, "https://mine.example.com/cb")
	for _, redirect := range []string{"https://mine.example.com/cb/", "https://mine.example.com/CB"} {
		w.get(dev.Server + "/oauth/authorize?" + url.Values{"client_id": {id}, "redirect_uri": {redirect}, "response_type": {"code"}}.Encode())
	}
	register("", "com.example.mine:/cb")
	for deadline := time.Now().Add(time.Minute); !strings.Contains(w.page, "redirect_uri_mismatch") && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		w.get(dev.Server + "/dev/client?watch=mine.example.com")
	}
	for _, want := range []string{"Failed at step 4", "\"Mine\" & co", "3. Registration", "It registered, with 1 redirect URI.", "Capitals are the difference.", "Reason: <code>redirect_uri_mismatch</code>",
		"What to do (client):", "10. Refresh", "Not reached", `href="/dev/client?watch=mine.example.com">Try again`, "Be the client myself"} {
		if !strings.Contains(w.page, want) {
			t.Errorf("no %q on\n%s", want, w.page)
		}
	}
	w.get(dev.Server + "/dev/client?watch=127.0.0.1")
	if !strings.Contains(w.page, "redirect_uri_scheme") || !strings.Contains(w.page, "Other attempts") {
		t.Errorf("by address: %s", w.page)
	}
	w.get(dev.Server + "/dev/client?watch=" + id)
	w.get(dev.Server + "/dev/client?watch=127.0.0.1&attempt=none")
	if !strings.Contains(w.page, "There is no such attempt.") {
		t.Errorf("none: %s", w.page)
	}
	a, err := http.Get(dev.Server + "/dev/client?watch=" + url.QueryEscape(`"><script>x`) + "&attempt=%00")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if text, err := io.ReadAll(a.Body); err != nil || a.StatusCode != 400 || !strings.Contains(string(text), "&lt;script&gt;x") || strings.Contains(string(text), "<script>x") {
		t.Errorf("what was looked for: %v %d %s", err, a.StatusCode, text)
	}
	w.get(dev.Server + "/dev/client?watch=" + strings.Repeat("x", 5000))
}

// The sign-in page of dev says whom to sign in as, and its pages lead to the client;
// nobody is named where there are no such people.
func TestDevSaysWhomToSignInAs(t *testing.T) {
	get := func(address string) string {
		t.Helper()
		a, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode != 200 {
			t.Fatalf("%s %v", a.Status, err)
		}
		return string(text)
	}
	dev := startDev(t, devserver.Options{})
	for _, base := range []string{dev.Server, strings.Replace(dev.Server, "127.0.0.1", "localhost", 1)} {
		page := get(base + "/")
		for _, want := range append(dev.People, remote.DevPassword, `<a href="/dev/client">`) {
			if !strings.Contains(page, want) {
				t.Errorf("the sign-in page at %s lacks %q", base, want)
			}
		}
	}
	page := get(startDev(t, devserver.Options{Empty: true}).Server + "/signin")
	if strings.Contains(page, "@nordlys.example") || strings.Contains(page, remote.DevPassword) || !strings.Contains(page, `<a href="/dev/client">`) {
		t.Errorf("without demo people: %s", page)
	}
}

// dev names each variable that it does not read, and no value; -q says nothing.
func TestDevSaysWhatItDoesNotRead(t *testing.T) {
	t.Parallel()
	says := func(args ...string) string {
		c := command(t, append([]string{"dev", "--listen", "0.0.0.0:1"}, args...)...) // which ends it
		c.Env = append(c.Env, "GRANTKEEPER_SERVICE_NAME=hush", "GRANTKEEPER_DATABASE_URL=postgres://hush")
		var b strings.Builder
		c.Stderr = &b
		if err := c.Run(); err == nil {
			t.Error("it serves on every address")
		}
		return b.String()
	}
	if got := says(); !strings.Contains(got, "count for nothing: GRANTKEEPER_DATABASE_URL, GRANTKEEPER_SERVICE_NAME\n") || strings.Contains(got, "hush") {
		t.Error(got)
	}
	if got := says("-q"); strings.Contains(got, "GRANTKEEPER") {
		t.Errorf("-q: %s", got)
	}
	if names := ofGrantkeeper([]string{"PATH=x", "GRANTKEEPER=x", "MY_GRANTKEEPER_X=y", "GRANTKEEPER_B", "GRANTKEEPER_A=1=2", "GRANTKEEPER_\x1b=x"}); strings.Join(names, "|") != "GRANTKEEPER_ |GRANTKEEPER_A|GRANTKEEPER_B" {
		t.Errorf("%q", names)
	}
}

// The pages are those of the service that --name gives.
func TestDevTakesAName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "Svalinn", "Verksted": "Verksted"} {
		dev := startDev(t, devserver.Options{Name: name})
		a, err := http.Get(dev.Server + "/.well-known/oauth-protected-resource/api/v5")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if !strings.Contains(string(text), `"resource_name":"`+want) {
			t.Errorf("%q: %s", name, text)
		}
	}
	if _, stderr, code := ran(t, "dev", "--listen", "127.0.0.1:0", "--name", "a <b>"); code != 2 || !strings.Contains(stderr, "--name: ") {
		t.Errorf("%d %s", code, stderr)
	}
}
