package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grantkeeper/grantkeeper/consent/chromium"
	"github.com/grantkeeper/grantkeeper/server/servertest"
)

// A desktop is a person's own computer: a folder of settings, and a browser that opens
// what a program has it open.
type desktop struct {
	t      *testing.T
	h      *house
	home   string
	opened string // file with an address on each line
	window http.Client
}

func newDesktop(t *testing.T, h *house) *desktop {
	t.Helper()
	home := t.TempDir()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &desktop{t, h, home, filepath.Join(home, "opened"), http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/oauth/authorize" { // press asks for it, signed in
			return http.ErrUseLastResponse
		}
		return nil
	}}}
	script := "#!/bin/sh\necho \"$1\" >>" + d.opened + "\n"
	if err := os.WriteFile(filepath.Join(home, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return d
}

// command is grantkeeper connect as an assistant starts it.
func (d *desktop) command(more ...string) *exec.Cmd {
	c := exec.Command(binary, append([]string{"connect", d.h.base + "/api/v5/mcp"}, more...)...)
	c.Env = []string{"HOME=" + d.home, "XDG_CONFIG_HOME=" + d.home, "PATH=" + d.home + ":/usr/bin:/bin", "GORACE=halt_on_error=1"}
	return c
}

// An assistant is one that speaks with a copy of the program.
type assistant struct {
	*mcp.ClientSession
	command *exec.Cmd
	said    *servertest.Buffer
}

// assistant starts a copy, and gives what came of it, at once or later.
func (d *desktop) assistant(connected chan<- *assistant, o *mcp.ClientOptions) {
	a := &assistant{command: d.command(), said: &servertest.Buffer{}}
	a.command.Stderr = a.said
	client := mcp.NewClient(&mcp.Implementation{Name: "quill", Title: "Quill Desktop", Version: "1"}, o)
	var err error
	if a.ClientSession, err = client.Connect(d.t.Context(), &mcp.CommandTransport{Command: a.command}, nil); err != nil {
		d.t.Errorf("%v\n%s", err, a.said)
		close(connected)
		return
	}
	connected <- a
}

func (d *desktop) start() *assistant {
	d.t.Helper()
	all := make(chan *assistant, 1)
	go d.assistant(all, nil)
	a := <-all
	if a == nil {
		d.t.FailNow()
	}
	d.t.Cleanup(func() { a.Close() })
	return a
}

// browsers are the addresses that were opened, once there are so many.
func (d *desktop) browsers(least int) []string {
	d.t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(d.opened)
		if all := strings.Fields(string(text)); len(all) >= least {
			return all
		}
		if time.Now().After(until) {
			d.t.Fatalf("%d browsers were opened", strings.Count(string(text), "\n"))
		}
	}
}

// press goes from the address that was opened to the page that hands on, and gives
// where its button leads.
func (d *desktop) press(address string, choice ...string) string {
	d.t.Helper()
	begun, err := d.window.Get(address)
	if err != nil {
		d.t.Fatal(err)
	}
	begun.Body.Close()
	to, err := begun.Location()
	if err != nil || !strings.HasPrefix(address, "http://127.0.0.1:") {
		d.t.Fatalf("%s: %v", begun.Status, err)
	}
	b := d.h.signedIn("ada@nordlys.example")
	a := b.page(to.RequestURI()).form("/oauth/authorize").submit(choice...)
	if a.status != 303 || !strings.HasPrefix(a.location(d.t).String(), d.h.base+"/oauth/desktop?") {
		d.t.Fatalf("not approved: %s", a)
	}
	a = b.page(a.location(d.t).RequestURI()).form("/oauth/desktop/press").submit()
	if a.status != 303 {
		d.t.Fatalf("pressed: %s", a)
	}
	return a.location(d.t).String()
}

// brings goes where the button leads.
func (d *desktop) brings(to string) {
	d.t.Helper()
	r, err := d.window.Get(to)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != 200 || strings.Contains(r.Request.URL.String(), "code") {
		d.t.Errorf("%d at %s", r.StatusCode, r.Request.URL)
	}
}

// signsIn approves, in a terminal.
func (d *desktop) signsIn() {
	d.t.Helper()
	c := d.command("--sign-in")
	said := &servertest.Buffer{}
	c.Stderr = said
	before := 0
	if text, err := os.ReadFile(d.opened); err == nil {
		before = strings.Count(string(text), "\n")
	}
	if err := c.Start(); err != nil {
		d.t.Fatal(err)
	}
	all := d.browsers(before + 1)
	d.brings(d.press(all[len(all)-1], append(everything, "decision", "approve")...))
	if err := c.Wait(); err != nil {
		d.t.Fatalf("%v\n%s", err, said)
	}
}

func (a *assistant) calls(t *testing.T) {
	t.Helper()
	r, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: "whoami", Arguments: map[string]any{}})
	if err != nil || r.IsError || !strings.Contains(r.Content[0].(*mcp.TextContent).Text, "nordlys") {
		t.Fatalf("whoami: %v %+v\n%s", err, r, a.said)
	}
}

// Two copies that an assistant starts at once have one browser opened, and both are
// connected by one approval; an access token that ends is renewed once between them.
func TestConnect(t *testing.T) {
	t.Parallel()
	h := start(t)
	d := newDesktop(t, h)
	all := make(chan *assistant, 2)
	go d.assistant(all, nil)
	go d.assistant(all, nil)
	opened := d.browsers(1)
	to := d.press(opened[0], append(everything, "decision", "approve")...)
	began := time.Now()
	d.brings(to)
	one, two := <-all, <-all
	if one == nil || two == nil {
		t.FailNow()
	}
	for _, a := range []*assistant{one, two} {
		tools, err := a.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) < 6 {
			t.Fatalf("%v %+v\n%s", err, tools, a.said)
		}
		a.calls(t)
	}
	if took := time.Since(began); took > 10*time.Second { // with the race detector, and beside other tests
		t.Errorf("from approval to the lists of two it took %s", took)
	}
	if n := len(d.browsers(1)); n != 1 {
		t.Errorf("%d browsers", n)
	}
	list := h.items("/v1/approvals?state=live")
	if len(list) != 1 || list[0]["client_id"] != "grantkeeper-connect" {
		t.Fatalf("%v", list)
	}
	h.sleep(31 * time.Minute) // the access token ends
	one.calls(t)
	two.calls(t)
	one.calls(t)
	if n := len(h.journaled("refresh_reused")); n != 0 {
		t.Errorf("a refresh token was sent twice: %d", n)
	}
	one.Close()
	two.Close()
	if err := one.command.ProcessState; err == nil || !err.Success() {
		t.Errorf("it ended with %v\n%s", err, one.said)
	}
	for _, secret := range []string{"svo_", "svr_", "svc_"} {
		if strings.Contains(one.said.String()+two.said.String(), secret) {
			t.Errorf("a secret is told: %s", one.said)
		}
	}
	// The next start needs no browser.
	d.start().calls(t)
	if n := len(d.browsers(1)); n != 1 {
		t.Errorf("%d browsers", n)
	}
}

// What was revoked is said in plain words, the browser is opened again, and the same
// session goes on once the person has approved.
func TestConnectAfterTheEnd(t *testing.T) {
	t.Parallel()
	h := start(t)
	d := newDesktop(t, h)
	d.signsIn()
	a := d.start()
	a.calls(t)
	for _, one := range h.items("/v1/approvals?state=live") {
		h.change("/v1/approvals/"+one["id"].(string)+"/revoke", `{"reason":"test"}`)
	}
	time.Sleep(2100 * time.Millisecond)
	if err := d.later(time.Hour); err != nil { // so that a browser may be opened again
		t.Fatal(err)
	}
	ended, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	_, err := a.CallTool(ended, &mcp.CallToolParams{Name: "whoami", Arguments: map[string]any{}})
	if err == nil || !strings.Contains(err.Error(), "the access has ended: it was revoked, or its time is over") || !strings.Contains(err.Error(), "open this address: http://127.0.0.1:") {
		t.Errorf("%v", err)
	}
	opened := d.browsers(2)
	d.brings(d.press(opened[1], append(treasurer, "decision", "approve")...))
	a.calls(t)
	if n := len(d.browsers(2)); n != 2 {
		t.Errorf("%d browsers", n)
	}
	out, err := d.command("--sign-out").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "The access has ended.") || len(h.items("/v1/approvals?state=live")) != 0 {
		t.Errorf("%v %s", err, out)
	}
}

// later has what is kept say that browsers were opened earlier.
func (d *desktop) later(by time.Duration) error {
	files, err := filepath.Glob(filepath.Join(d.home, "grantkeeper", "*.json"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("kept: %v %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"opened"`) {
			line = fmt.Sprintf("  \"opened\": %d,\n", time.Now().Add(-by).Unix())
		}
		lines = append(lines, line)
	}
	return os.WriteFile(files[0], []byte(strings.Join(lines, "")), 0o600)
}

// The assistant's first copy is killed while the person is in the browser, as some
// assistants do; the person's answer reaches the next one.
func TestConnectWhenACopyIsKilled(t *testing.T) {
	t.Parallel()
	h := start(t)
	d := newDesktop(t, h)
	first := d.command("--sign-in")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	opened := d.browsers(1)
	to := d.press(opened[0], append(everything, "decision", "approve")...)
	first.Process.Kill()
	first.Wait()
	all := make(chan *assistant, 1)
	go d.assistant(all, nil)
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if r, err := d.window.Get(to); err == nil {
			r.Body.Close()
			break
		} else if time.Now().After(until) {
			t.Fatal(err)
		}
	}
	a := <-all
	if a == nil {
		t.FailNow()
	}
	defer a.Close()
	a.calls(t)
	if n := len(d.browsers(1)); n != 1 {
		t.Errorf("%d browsers", n)
	}
}

// The person says no: the program is told, and says so.
func TestConnectCancelled(t *testing.T) {
	t.Parallel()
	h := start(t)
	d := newDesktop(t, h)
	c := d.command("--sign-in")
	said := &servertest.Buffer{}
	c.Stderr = said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	d.brings(d.press(d.browsers(1)[0], "decision", "cancel"))
	if err := c.Wait(); err == nil || !strings.Contains(said.String(), "the person did not approve") {
		t.Errorf("%v %s", err, said)
	}
	if len(h.items("/v1/approvals")) != 0 {
		t.Error("something was approved")
	}
}

// A whole walk in Chromium: sign in, approve, press, and the window that says so.
func TestConnectInChromium(t *testing.T) {
	t.Parallel()
	h := start(t)
	d := newDesktop(t, h)
	c := d.command("--sign-in")
	said := &servertest.Buffer{}
	c.Stderr = said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(chromium.Start(t), 3*time.Minute)
	defer stop()
	err := chromedp.Do(ctx, chromedp.Navigate(d.browsers(1)[0]),
		chromedp.WaitVisible(chromedp.ID("email")), chromedp.SendKeys(chromedp.ID("email"), "ada@nordlys.example"),
		chromedp.SendKeys(chromedp.ID("password"), h.password+kb.Enter),
		chromedp.WaitVisible(chromedp.CSS("[name=organization][value=nordlys]")))
	if err == nil {
		err = chromium.Press(ctx, "[name=organization][value=nordlys]", "[name=grant][value=everything]", "[value=approve]",
			`form[action="/oauth/desktop/press"] button`)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for {
		at, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location.protocol + location.hostname + location.search + ' ' + document.body.innerText"))
		if err == nil && strings.HasPrefix(at, "http:127.0.0.1 Connected as Ada ") {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("it ends at %q: %v\n%s", at, err, said)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// The small binary, as a release has it: from the press to the first list of tools it
// takes less than 2 seconds, and it needs at most 20 MB of memory.
func TestConnectFigures(t *testing.T) {
	t.Parallel()
	h := start(t)
	d := newDesktop(t, h)
	small := filepath.Join(d.home, "grantkeeper-connect")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", small, "../cmd/grantkeeper-connect")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := exec.Command(small, h.base+"/api/v5/mcp")
	c.Env = d.command().Env
	connected := make(chan error, 1)
	var session *mcp.ClientSession
	go func() {
		var err error
		session, err = mcp.NewClient(&mcp.Implementation{Name: "quill", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: c}, nil)
		connected <- err
	}()
	to := d.press(d.browsers(1)[0], append(everything, "decision", "approve")...)
	began := time.Now()
	d.brings(to)
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
	if _, err := session.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	for range 200 {
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "whoami", Arguments: map[string]any{}}); err != nil {
			t.Fatal(err)
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var peak int // KiB
	for line := range strings.Lines(string(status)) {
		fmt.Sscanf(line, "VmHWM: %d kB", &peak)
	}
	t.Logf("from the press to the first list of tools %s, at most %d KiB after 200 calls", took.Round(time.Millisecond), peak)
	if took > 2*time.Second || peak == 0 || peak > 20<<10 {
		t.Errorf("it took %s and %d KiB", took, peak)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// Where the setting is off, the program says so and no browser is opened; where it is
// turned off later, what was approved through it has ended.
func TestConnectIsOff(t *testing.T) {
	t.Parallel()
	d := newDesktop(t, serve(t, served{}))
	out, err := d.command("--sign-in").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "does not let assistants on a person's own computer connect this way") || !strings.Contains(string(out), "clients.desktop = true") {
		t.Errorf("%v %s", err, out)
	}
	if a := d.h.caller().postForm("/oauth/desktop", "port", "40000"); a.status != 404 {
		t.Errorf("asked: %s", a)
	}
	if a := d.h.caller().get("/oauth/desktop?code=x"); a.status != 404 {
		t.Errorf("the page: %s", a)
	}
	if text, err := os.ReadFile(d.opened); err == nil {
		t.Errorf("opened: %s", text)
	}
}

// Another SDK's reference server behind the bridge and the proxy: progress in streams,
// resources, prompts, and a second organization's rules are none of the program's
// business. The end of the approval is said in words.
func TestConnectToAnotherMCPServer(t *testing.T) {
	t.Parallel()
	h := serve(t, served{clients: "[clients]\ndesktop = true\n",
		apiLimit: fmt.Sprintf("[service]\nkey_file = %q\nunlisted = \"service\"\n[mcp]\nupstream = %q", secretFile(t, nginxKey), everythingServer(t))})
	d := newDesktop(t, h)
	d.signsIn()
	progress := make(chan string, 99)
	all := make(chan *assistant, 1)
	go d.assistant(all, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		progress <- fmt.Sprint(r.Params.ProgressToken)
	}})
	a := <-all
	if a == nil {
		t.FailNow()
	}
	defer a.Close()
	params := &mcp.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 1, "steps": 2}}
	params.SetProgressToken("p1")
	if r, err := a.CallTool(t.Context(), params); err != nil || r.IsError || !strings.Contains(r.Content[0].(*mcp.TextContent).Text, "completed") {
		t.Fatalf("%v %+v\n%s", err, r, a.said)
	}
	if len(progress) == 0 || <-progress != "p1" {
		t.Error("no progress is told")
	}
	resources, err := a.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) == 0 {
		t.Fatalf("%v %+v", err, resources)
	}
	if r, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: resources.Resources[0].URI}); err != nil || len(r.Contents) == 0 {
		t.Errorf("%v %+v", err, r)
	}
	if p, err := a.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "simple-prompt"}); err != nil || len(p.Messages) == 0 {
		t.Errorf("%v %+v", err, p)
	}
	for _, one := range h.items("/v1/approvals?state=live") {
		h.change("/v1/approvals/"+one["id"].(string)+"/revoke", `{"reason":"test"}`)
	}
	time.Sleep(2100 * time.Millisecond)
	ended, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if _, err := a.CallTool(ended, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": "x"}}); err == nil || !strings.Contains(err.Error(), "the access has ended") {
		t.Errorf("after the end: %v", err)
	}
}
