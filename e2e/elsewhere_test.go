package e2e

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/grantkeeper/grantkeeper/consent/chromium"
)

// atProvider runs serve with one way to sign in, a real OpenID provider, and
// that provider: npm's oidc-provider, a process of the test's own.
func atProvider(t *testing.T, more string) *house {
	t.Helper()
	port := freePort(t)
	h := serve(t, served{clients: fmt.Sprintf(`
[signin]
passwords = false
[[signin.providers]]
id = "corp"
name = "Example Corp"
issuer = "http://127.0.0.1:%s"
client_id = "grantkeeper"
client_secret_file = %q
%s`, port, secretFile(t, "the-secret-of-grantkeeper-at-the-provider"), more)})
	waitFor(t, exec.Command("node", script(t, "provider"), port, h.base+"/signin/callback/corp", h.base+"/signin/logout/corp"))
	return h
}

// script gives the script e2e/NAME/NAME.js beside its packages.
func script(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(name, name+".js"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".mjs"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(packages(t, name), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name+".mjs")
}

// packages gives the folder of the packages of e2e/NAME, which scripts/packages.sh
// has put into the cache.
func packages(t *testing.T, name string) string {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join(name, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	packages := filepath.Join(cache, "grantkeeper", name+"-"+hex.EncodeToString(sum[:6]), "node_modules")
	if _, err := os.Stat(packages); err != nil {
		t.Fatalf("this test needs node and the packages of e2e/%s: run scripts/setup-debian.sh", name)
	}
	return packages
}

// waitFor starts a process that says a line when it is ready.
func waitFor(t *testing.T, c *exec.Cmd) {
	t.Helper()
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	process(t, c)
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("%s: %v", c.Path, err)
	}
}

// A tab is that of one browser, which is also at home at the client's host.
type tab struct {
	t      *testing.T
	ctx    context.Context
	landed chan url.Values // what the client's callback is called with
}

func newTab(t *testing.T) *tab {
	t.Helper()
	c := &tab{t: t, landed: make(chan url.Values, 8)}
	client := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" {
			c.landed <- r.URL.Query()
		}
		fmt.Fprint(w, `<!doctype html><title>Quill</title><p id="landed">Back at the app`)
	}))
	t.Cleanup(client.Close)
	var stop context.CancelFunc
	c.ctx, stop = context.WithTimeout(chromium.Start(t,
		chromedp.Flag("host-resolver-rules", "MAP connect.quill.example:443 "+client.Listener.Addr().String())), time.Minute)
	t.Cleanup(stop)
	return c
}

func (c *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	c.t.Helper()
	if err := chromedp.Do(c.ctx, actions...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *tab) open(address string) {
	c.t.Helper()
	c.run(chromedp.Navigate(address))
}

func (c *tab) click(css string) {
	c.t.Helper()
	if err := chromium.Press(c.ctx, css); err != nil {
		c.t.Fatal(err)
	}
}

// shows waits until the page says something.
func (c *tab) shows(text string) {
	c.t.Helper()
	last := ""
	for c.ctx.Err() == nil {
		if said, err := chromedp.Run(c.ctx, chromedp.Evaluate[string]("document.body.innerText")); err == nil {
			if last = said; strings.Contains(said, text) {
				return
			}
		}
		chromedp.Do(c.ctx, chromedp.Sleep(20*time.Millisecond))
	}
	c.t.Fatalf("the page never says %q, but %q", text, last)
}

// signInThere goes through the provider's own page.
func (c *tab) signInThere(name string) {
	c.t.Helper()
	c.run(chromedp.WaitVisible(chromedp.CSS("[name=login]")), chromedp.SendKeys(chromedp.CSS("[name=login]"), name),
		chromedp.SendKeys(chromedp.CSS("[name=password]"), "anything"+kb.Enter))
}

// approves chooses everything in Nordlys, and gives what the client is sent.
func (c *tab) approves() url.Values {
	c.t.Helper()
	c.click("[name=organization][value=nordlys]")
	c.click("[name=grant][value=everything]")
	c.click("[value=approve]")
	return c.back()
}

func (c *tab) back() url.Values {
	c.t.Helper()
	c.run(chromedp.WaitVisible(chromedp.ID("landed")))
	return <-c.landed
}

// fetching is a person's browser as the official MCP SDK asks for one.
func (c *tab) fetching(signIn func()) auth.AuthorizationCodeFetcher {
	return func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
		c.open(args.URL)
		signIn()
		c.shows("An app wants to use your Svalinn account")
		q := c.approves()
		return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
	}
}

func authorizeAt(h *house) string {
	return h.base + "/oauth/authorize?" + form("response_type", "code", "client_id", h.register(), "redirect_uri", redirect, "state", "st",
		"code_challenge", strings.Repeat("a", 43), "code_challenge_method", "S256")
}

// The whole MCP flow with sign-in through a real OpenID provider: the page
// goes there by itself and comes back to what the app has asked; who acts for
// somebody there approves nothing here; whoever is signed out there is here.
func TestMCPFlowThroughAnOpenIDProvider(t *testing.T) {
	t.Parallel()
	h := atProvider(t, mcpService(t))
	c := newTab(t)
	session, _ := connectMCP(t, h, &seen{}, &auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: registering(), AuthorizationCodeFetcher: c.fetching(func() { c.signInThere("ada") }),
	})
	whoami(t, session)

	// In a second tab the person is signed in already.
	c.open(authorizeAt(h))
	c.shows("An app wants to use your")
	// Signing out stays out, until the person goes on; there they still are.
	c.click(".menu > summary")
	c.click(".menu button")
	c.shows("Continue with Example Corp")
	c.click("main a.button")
	c.signInThere("ada")
	c.shows("An app wants to use your")
	if q := c.approves(); q.Get("state") != "st" || q.Get("code") == "" {
		t.Errorf("the client is sent %v", q)
	}

	// Signed out there, in a window of its own: the session here is over.
	issuer := h.issuer()
	c.open(issuer + "/session/end")
	c.click("[name=logout]")
	c.shows("Sign-out Success")

	c.open(authorizeAt(h))
	c.run(chromedp.WaitVisible(chromedp.CSS("[name=login]")))

	// Support staff who act as Ada there.
	h.caller().get(issuer + "/acting")
	c.signInThere("ada")
	c.shows("Only ada can approve apps for this account.")
	c.shows("support-7")
	c.click("[name=decision][value=cancel]")
	if q := c.back(); q.Get("error") != "access_denied" || q.Get("code") != "" {
		t.Errorf("the client is sent %v", q)
	}
	if events := h.journaled("approval_refused"); len(events) == 0 || events[0]["reason"] != "impersonating" {
		t.Errorf("events %v", events)
	}
}

// issuer gives the provider's, as the server sends people there.
func (h *house) issuer() string {
	h.t.Helper()
	to := h.caller().get("/signin/with/corp").location(h.t)
	return to.Scheme + "://" + to.Host
}

// Who is unknown here, or has no verified email there, is told what to do, and
// two redirects of ours lie between the sign-in page and what was asked for.
func TestPeopleOfTheProviderWhoAreNotHere(t *testing.T) {
	t.Parallel()
	h := atProvider(t, "")
	for name, says := range map[string]string{"nobody": "Svalinn does not know you.", "eve": "Example Corp has not verified your email."} {
		c := newTab(t)
		c.open(authorizeAt(h))
		c.signInThere(name)
		c.shows(says)
		c.shows("What you can do:")
		if people := h.items("/v1/people?query=" + name); len(people) != 0 {
			t.Errorf("created: %v", people)
		}
	}
}

// The hand-off, by both examples of docs/signin.md: the whole MCP flow through
// the service's own session, and one in which somebody acts for the person.
func TestMCPFlowThroughTheHandOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := filepath.Join(dir, "handoff.pem")
	for _, args := range [][]string{{"genpkey", "-algorithm", "ed25519", "-out", key}, {"pkey", "-in", key, "-pubout", "-out", key + ".pub"}} {
		if out, err := exec.Command("openssl", args...).CombinedOutput(); err != nil {
			t.Fatalf("openssl: %v: %s", err, out)
		}
	}
	secret := secretFile(t, "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978")
	program := filepath.Join(dir, "handoff")
	if out, err := exec.Command("go", "build", "-o", program, "../docs/examples/handoff").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	port := freePort(t)
	for name, service := range map[string]func(h *house) *exec.Cmd{
		"Go": func(h *house) *exec.Cmd { return exec.Command(program, key, h.base, "127.0.0.1:"+port) },
		"Python": func(h *house) *exec.Cmd {
			return exec.Command("python3", "../docs/examples/handoff.py", secret, h.base, port)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := serve(t, served{apiLimit: mcpService(t), clients: fmt.Sprintf("[signin]\npasswords = false\n[signin.handoff]\nurl = \"http://localhost:%s/grantkeeper\"\nkey_files = [%q, %q]\n", port, key+".pub", secret)})
			process(t, service(h))
			listens(t, "127.0.0.1:"+port)
			c := newTab(t)
			c.open("http://localhost:" + port + "/nothing")
			c.run(chromedp.Evaluate[chromedp.Void](`document.cookie = "service=session-of-ada"; undefined`))
			session, _ := connectMCP(t, h, &seen{}, &auth.AuthorizationCodeHandlerConfig{
				DynamicClientRegistrationConfig: registering(), AuthorizationCodeFetcher: c.fetching(func() {}),
			})
			whoami(t, session)
		})
	}
}

// listens waits until somebody takes connections at an address.
func listens(t testing.TB, address string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
