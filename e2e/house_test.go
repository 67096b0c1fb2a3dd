// Package e2e holds the contract as tests from outside: the real binary, real
// HTTP, real clients. Tests are named after what they show: a section of
// docs/protocol.md, or a case such as T-01.
package e2e

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/grantkeeper/grantkeeper/server/servertest"
)

// binary is the program under test, and detecting the same with the race detector, under which a
// request takes twice as long.
var binary, detecting string

// several are tests that do several things at once, or end processes half-way.
// Those that measure memory are not among them: the detector keeps some for all that it has seen.
var several = regexp.MustCompile(`AtOnce|During|Under|Kill|Crash|Nodes|Process|Held|Idle|Once|Edit|Limit`)

// program is what a server of a test's is started from.
func program(t testing.TB) string {
	if several.MatchString(t.Name()) {
		return detecting
	}
	return binary
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "grantkeeper-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary, detecting = filepath.Join(dir, "grantkeeper"), filepath.Join(dir, "detecting")
		for _, args := range [][]string{{"-o", binary}, {"-race", "-o", detecting}} {
			build := exec.Command("go", append(append([]string{"build"}, args...), "../cmd/grantkeeper")...)
			if out, err := build.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
				return 1
			}
		}
		return m.Run()
	}())
}

// redirect is where a test's client lives. Nobody goes there.
const redirect = "https://connect.quill.example/callback"

// house is one running server with the demo people.
type house struct {
	t        testing.TB
	base     string // {base} of the contract
	operator string // of the operator listener
	password string // of every demo person
	apiKeys  map[string]string
	metadata string // URL of a client's metadata document; "" has clients register
	command  *exec.Cmd
	args     []string
	files    int // that the process may have open at once; 0 is no bound
	exited   chan error
	stderr   *servertest.Buffer
}

// start runs a server of the test's own: `dev` on free ports, in memory unless
// the arguments say otherwise. Each stands on its own, so tests may run in
// parallel.
func start(t testing.TB, args ...string) *house {
	t.Helper()
	h := &house{t: t, args: args}
	h.run()
	t.Cleanup(h.stop)
	return h
}

// run starts the process and waits until it answers.
func (h *house) run() {
	h.t.Helper()
	ready := filepath.Join(h.t.TempDir(), "ready.json")
	h.stderr = new(servertest.Buffer)
	args := append([]string{"dev", "--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0", "--ready-file", ready}, h.args...)
	h.command = exec.Command(program(h.t), args...)
	h.command.Stderr = h.stderr
	h.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := h.command.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.exited = make(chan error, 1)
	go func() { h.exited <- h.command.Wait() }()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		b, err := os.ReadFile(ready)
		if err == nil {
			h.readReady(b)
			return
		}
		select {
		case err := <-h.exited:
			h.exited <- err
			h.t.Fatalf("the server ended before it was ready: %v\n%s", err, h.stderr)
		default:
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("not ready within a minute\n%s", h.stderr)
		}
	}
}

func (h *house) readReady(b []byte) {
	h.t.Helper()
	var ready struct {
		Server   string            `json:"server"`
		Operator string            `json:"operator"`
		Password string            `json:"password"`
		APIKeys  map[string]string `json:"api_keys"`
	}
	if err := json.Unmarshal(b, &ready); err != nil {
		h.t.Fatal(err)
	}
	h.base, h.operator, h.password, h.apiKeys = ready.Server, ready.Operator, ready.Password, ready.APIKeys
}

// log is what it wrote after the banner, which tells API keys on purpose.
func (h *house) log() string {
	h.t.Helper()
	_, log, found := strings.Cut(h.stderr.String(), "Stop with Ctrl-C.\n")
	if !found {
		h.t.Fatalf("no banner:\n%s", h.stderr)
	}
	return log
}

// kill ends the process as a crash does.
func (h *house) kill() {
	h.t.Helper()
	if err := h.command.Process.Kill(); err != nil {
		h.t.Fatal(err)
	}
	<-h.exited
	h.command = nil
}

// stop ends the process as an operator does, and fails the test when it does
// not end well or when it raced.
func (h *house) stop() {
	if h.command == nil {
		return
	}
	h.command.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-h.exited:
		if err != nil {
			h.t.Errorf("the server ended with %v\n%s", err, tail(h.stderr.String()))
		}
	case <-time.After(30 * time.Second):
		h.command.Process.Kill()
		h.t.Errorf("the server did not end within 30 s of SIGTERM")
	}
	h.command = nil
	if strings.Contains(h.stderr.String(), "DATA RACE") {
		h.t.Errorf("the server raced:\n%s", h.stderr)
	}
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// --- HTTP

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %v %s", a.status, a.header, a.body) }

// json gives the body as an object.
func (a answer) json(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("not a JSON object: %v: %s", err, a)
	}
	return v
}

// errorCode is the member error of a JSON body, or "".
func (a answer) errorCode() string {
	var v struct {
		Error string `json:"error"`
	}
	json.Unmarshal([]byte(a.body), &v)
	return v.Error
}

// location parses the Location header.
func (a answer) location(t testing.TB) *url.URL {
	t.Helper()
	u, err := url.Parse(a.header.Get("Location"))
	if err != nil || a.header.Get("Location") == "" {
		t.Fatalf("no Location: %s", a)
	}
	return u
}

// caller sends requests from one address of the loopback network. It follows
// no redirects.
type caller struct {
	h *house
	*http.Client
	address string
}

var addresses atomic.Uint32

// caller makes a caller with an address of its own, so that no test eats
// another's rate limit.
func (h *house) caller() *caller {
	n := addresses.Add(1)
	return h.callerFrom(fmt.Sprintf("127.%d.%d.%d", 1+n>>16&0x7f, n>>8&0xff, n&0xff))
}

func (h *house) callerFrom(address string) *caller {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64, DisableCompression: true}
	h.t.Cleanup(transport.CloseIdleConnections)
	return &caller{h: h, address: address, Client: &http.Client{
		Transport:     transport,
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// header is a list of names and values, in turn.
type header []string

// send makes one request. The path may be a whole URL.
func (c *caller) send(method, path, body string, h ...header) answer {
	c.h.t.Helper()
	a, err := c.try(method, path, body, h...)
	if err != nil {
		c.h.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// try is send for tests that stop the server meanwhile.
func (c *caller) try(method, path, body string, headers ...header) (answer, error) {
	if strings.HasPrefix(path, "/") {
		path = c.h.base + path
	}
	r, err := http.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for _, h := range headers {
		for pair := range slices.Chunk(h, 2) {
			if strings.EqualFold(pair[0], "Host") {
				r.Host = pair[1]
			} else {
				r.Header.Add(pair[0], pair[1])
			}
		}
	}
	resp, err := c.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b)}, err
}

func (c *caller) get(path string, h ...header) answer {
	c.h.t.Helper()
	return c.send("GET", path, "", h...)
}

// postForm posts fields, given as names and values in turn.
func (c *caller) postForm(path string, fields ...string) answer {
	c.h.t.Helper()
	return c.send("POST", path, form(fields...), header{"Content-Type", "application/x-www-form-urlencoded"})
}

func form(fields ...string) string {
	v := url.Values{}
	for pair := range slices.Chunk(fields, 2) {
		v.Add(pair[0], pair[1])
	}
	return v.Encode()
}

func (c *caller) postJSON(path, body string, h ...header) answer {
	c.h.t.Helper()
	return c.send("POST", path, body, append(h, header{"Content-Type", "application/json"})...)
}

// --- clients

// register registers a client and gives its ID.
func (h *house) register(redirects ...string) string {
	h.t.Helper()
	if len(redirects) == 0 {
		redirects = []string{redirect}
	}
	b, _ := json.Marshal(map[string]any{"client_name": "Quill Assistant", "redirect_uris": redirects})
	a := h.caller().postJSON("/oauth/register", string(b))
	if a.status != 201 {
		h.t.Fatalf("register: %s", a)
	}
	return a.json(h.t)["client_id"].(string)
}

// flow is one authorization request of a client.
type flow struct {
	h        *house
	client   string
	redirect string
	verifier string
	state    string
	*caller  // the client's own requests
}

// flow prepares an authorization request; an empty client is registered first.
func (h *house) flow(client string) *flow {
	h.t.Helper()
	if client == "" {
		client = h.register()
	}
	return &flow{h: h, client: client, redirect: redirect, verifier: random(), state: random(), caller: h.caller()}
}

func random() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// query gives the parameters of the authorization request. Changes are names
// and values in turn; an empty value takes the parameter out.
func (f *flow) query(changes ...string) string {
	sum := sha256.Sum256([]byte(f.verifier))
	v := url.Values{
		"response_type": {"code"}, "client_id": {f.client}, "redirect_uri": {f.redirect}, "state": {f.state},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	for pair := range slices.Chunk(changes, 2) {
		if v.Del(pair[0]); pair[1] != "" {
			v.Set(pair[0], pair[1])
		}
	}
	return v.Encode()
}

// exchange sends the code; changes as in query.
func (f *flow) exchange(code string, changes ...string) answer {
	f.h.t.Helper()
	return f.token(append([]string{"grant_type", "authorization_code", "code", code,
		"redirect_uri", f.redirect, "client_id", f.client, "code_verifier", f.verifier}, changes...)...)
}

func (f *flow) refresh(refreshToken string, changes ...string) answer {
	f.h.t.Helper()
	return f.token(append([]string{"grant_type", "refresh_token", "refresh_token", refreshToken, "client_id", f.client}, changes...)...)
}

// token posts to the token endpoint; a later pair takes the place of an
// earlier one of the same name, an empty value takes it out.
func (f *flow) token(fields ...string) answer {
	f.h.t.Helper()
	v := url.Values{}
	for pair := range slices.Chunk(fields, 2) {
		if v.Del(pair[0]); pair[1] != "" {
			v.Set(pair[0], pair[1])
		}
	}
	return f.send("POST", "/oauth/token", v.Encode(), header{"Content-Type", "application/x-www-form-urlencoded"})
}

func (f *flow) revoke(token string) answer {
	f.h.t.Helper()
	return f.postForm("/oauth/revoke", "token", token, "client_id", f.client)
}

// tokens are what the token endpoint gave.
type tokens struct{ access, refresh string }

// tokensOf reads a 200 of the token endpoint.
func tokensOf(t testing.TB, a answer) tokens {
	t.Helper()
	if a.status != 200 {
		t.Fatalf("no tokens: %s", a)
	}
	v := a.json(t)
	access, _ := v["access_token"].(string)
	refresh, _ := v["refresh_token"].(string)
	if access == "" || refresh == "" {
		t.Fatalf("no tokens: %s", a)
	}
	return tokens{access, refresh}
}

// me calls the API with an access token.
func (c *caller) me(access string) answer {
	c.h.t.Helper()
	return c.get("/api/v5/me", header{"Authorization", "Bearer " + access})
}

// works says whether the API takes the access token. Anything but 200 and a
// 401 with error="invalid_token" fails the test.
func (h *house) works(access string) bool {
	h.t.Helper()
	a := h.caller().me(access)
	if a.status == 401 && strings.Contains(a.header.Get("WWW-Authenticate"), `error="invalid_token"`) {
		return false
	}
	if a.status != 200 {
		h.t.Fatalf("GET /api/v5/me: %s", a)
	}
	return true
}

// --- people

// browser is a person's, with cookies.
type browser struct {
	*caller
	email string
}

// browser makes one in which nobody is signed in.
func (h *house) browser() *browser {
	c := h.caller()
	c.Jar, _ = cookiejar.New(nil)
	return &browser{caller: c}
}

// signedIn gives a person's browser.
func (h *house) signedIn(email string) *browser {
	h.t.Helper()
	b := h.browser()
	p := b.page("/signin")
	a := p.form("/signin").submit("email", email, "password", h.password)
	if a.status != 303 {
		h.t.Fatalf("sign in as %s: %s", email, a)
	}
	b.email = email
	return b
}

// page is an HTML answer.
type page struct {
	answer
	b    *browser
	root *html.Node
}

// page gets an address and reads its HTML.
func (b *browser) page(path string) *page {
	b.h.t.Helper()
	return b.read(b.get(path))
}

func (b *browser) read(a answer) *page {
	b.h.t.Helper()
	root, err := html.Parse(strings.NewReader(a.body))
	if err != nil {
		b.h.t.Fatal(err)
	}
	return &page{a, b, root}
}

// all gives the elements of a name, in the order of the document.
func (p *page) all(name string) []*html.Node {
	var out []*html.Node
	for n := range p.root.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			out = append(out, n)
		}
	}
	return out
}

// attr is an element's attribute, or "".
func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

// text gives what a person reads, white space folded.
func (p *page) text() string { return textOf(p.root) }

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode && d.Parent.Data != "style" && d.Parent.Data != "script" {
			b.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// pageForm is a form as a browser would send it.
type pageForm struct {
	b      *browser
	action string
	values url.Values
}

// form gives the form with this action, filled as the page has it.
func (p *page) form(action string) *pageForm {
	p.b.h.t.Helper()
	for _, n := range p.all("form") {
		if a := attr(n, "action"); a == action || a == "" && attr(n, "method") == "post" {
			return &pageForm{p.b, action, fields(n)}
		}
	}
	p.b.h.t.Fatalf("no form to %s on the page: %d %s", action, p.status, p.text())
	return nil
}

// fields are what a form sends without any button.
func fields(form *html.Node) url.Values {
	v := url.Values{}
	for n := range form.Descendants() {
		if n.Type != html.ElementNode || n.Data != "input" || attr(n, "name") == "" || has(n, "disabled") {
			continue
		}
		switch attr(n, "type") {
		case "radio", "checkbox":
			if has(n, "checked") {
				v.Add(attr(n, "name"), attr(n, "value"))
			}
		case "submit", "button", "image":
		default:
			v.Add(attr(n, "name"), attr(n, "value"))
		}
	}
	return v
}

// with sets fields, given as names and values in turn; an empty value takes
// the field out.
func (f *pageForm) with(changes ...string) *pageForm {
	for pair := range slices.Chunk(changes, 2) {
		if f.values.Del(pair[0]); pair[1] != "" {
			f.values.Set(pair[0], pair[1])
		}
	}
	return f
}

// submit sends the form as the person's browser does from the same site.
func (f *pageForm) submit(changes ...string) answer {
	f.b.h.t.Helper()
	f.with(changes...)
	return f.b.send("POST", f.action, f.values.Encode(),
		header{"Content-Type", "application/x-www-form-urlencoded", "Origin", f.b.h.base, "Sec-Fetch-Site", "same-origin"})
}

// consent opens the consent page of an authorization request.
func (b *browser) consent(f *flow, changes ...string) *page {
	b.h.t.Helper()
	p := b.page("/oauth/authorize?" + f.query(changes...))
	if p.status != 200 {
		b.h.t.Fatalf("no consent page: %s", p.answer)
	}
	return p
}

// treasurer is a choice that Ada can make: one role in one organization.
var treasurer = []string{"organization", "nordlys", "grant", "roles", "role:nordlys-treasurer", "change"}

// everything is a choice that Ada can make.
var everything = []string{"organization", "nordlys", "grant", "everything"}

// approve opens the consent page, makes the choice and gives the code.
func (b *browser) approve(f *flow, choice ...string) string {
	b.h.t.Helper()
	a := b.consent(f).form("/oauth/authorize").submit(append(choice, "decision", "approve")...)
	return codeOf(b.h.t, a, f)
}

// codeOf reads the redirect that carries a code.
func codeOf(t testing.TB, a answer, f *flow) string {
	t.Helper()
	if a.status != 303 {
		t.Fatalf("not approved: %s", a)
	}
	u := a.location(t)
	if !strings.HasPrefix(u.String(), f.redirect) || u.Query().Get("code") == "" || u.Query().Get("state") != f.state {
		t.Fatalf("not approved: %s", a)
	}
	return u.Query().Get("code")
}

// connected goes the whole way for Ada, and gives the flow with its tokens.
func (h *house) connected(client string, choice ...string) (*flow, tokens) {
	h.t.Helper()
	return h.connectedBy("ada@nordlys.example", client, choice...)
}

// connectedBy is connected for anybody.
func (h *house) connectedBy(email, client string, choice ...string) (*flow, tokens) {
	h.t.Helper()
	if len(choice) == 0 {
		choice = treasurer
	}
	f := h.flow(client)
	code := h.signedIn(email).approve(f, choice...)
	return f, tokensOf(h.t, f.exchange(code))
}

// --- operators

// operate calls the operator API; a body makes it a POST.
func (h *house) operate(path string, body ...string) answer {
	h.t.Helper()
	a, err := h.tryOperate(path, body...)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

func (h *house) tryOperate(path string, body ...string) (answer, error) {
	method, text := "GET", ""
	if len(body) > 0 {
		method, text = "POST", body[0]
	}
	basic := base64.StdEncoding.EncodeToString([]byte("operator:" + h.password))
	return h.caller().try(method, h.operator+path, text,
		header{"Authorization", "Basic " + basic, "Content-Type", "application/json"})
}

// change makes a change through the operator API, which must be taken.
func (h *house) change(path, body string) {
	h.t.Helper()
	if a := h.operate(path, body); a.status != 200 {
		h.t.Fatalf("POST %s: %s", path, a)
	}
}

// items lists through the operator API.
func (h *house) items(path string) []map[string]any {
	h.t.Helper()
	a := h.operate(path)
	var list struct {
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.status != 200 {
		h.t.Fatalf("GET %s: %v: %s", path, err, a)
	}
	return list.Items
}

// journaled gives the entries of a kind as soon as there is one: a refusal is answered
// before its entry is written.
func (h *house) journaled(kind string) (all []map[string]any) {
	h.t.Helper()
	for range 3000 {
		if all = h.items("/v1/events?kind=" + kind); len(all) > 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return all
}

// sleep moves the server's clock, by whole seconds.
func (h *house) sleep(d time.Duration) {
	h.t.Helper()
	h.change("/v1/dev/clock", fmt.Sprintf(`{"advance_seconds":%d}`, int64(d/time.Second)))
}

// approvalsOf lists a client's approvals, newest first.
func (h *house) approvalsOf(client string) []map[string]any {
	h.t.Helper()
	return h.items("/v1/approvals?client=" + url.QueryEscape(client))
}
