package consent

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/consent/chromium"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// A chrome is a Chromium in front of the door, with a client on another origin.
type chrome struct {
	*site
	browser  context.Context
	callback string        // redirect URI of the client "dev"
	patience time.Duration // of a tab

	mu   sync.Mutex
	sent []url.Values // what the client's callback was called with
}

// newChrome starts it. What is given stands around the door.
func newChrome(t *testing.T, around ...func(http.Handler) http.Handler) *chrome {
	t.Helper()
	return chromeWith(t, nil, around...)
}

func chromeWith(t *testing.T, options []chromedp.ExecAllocatorOption, around ...func(http.Handler) http.Handler) *chrome {
	t.Helper()
	c := &chrome{site: newSite(t), patience: 3 * time.Minute}
	handler := c.Answers
	for _, a := range around {
		handler = a(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c.At = server.URL

	// The callback goes on to another host, as those of real assistants do.
	theirs := http.NewServeMux()
	far := httptest.NewServer(theirs)
	t.Cleanup(far.Close)
	theirs.HandleFunc("/callback", func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.sent = append(c.sent, r.URL.Query())
		c.mu.Unlock()
		if ref := r.Header.Get("Referer"); ref != "" {
			t.Errorf("the client is told of %q (case B-09)", ref)
		}
		http.Redirect(w, r, strings.Replace(far.URL, "127.0.0.1", "localhost", 1)+"/landed", http.StatusFound)
	})
	page := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, `<!doctype html><link rel="icon" href="data:,">`+body)
		}
	}
	theirs.HandleFunc("/landed", page(`<p id="landed">Back at the app</p>`))
	c.callback = far.URL + "/callback"
	theirs.HandleFunc("/frame", page(`<iframe src="`+strings.ReplaceAll(c.authorizeURL(), "&", "&amp;")+`"></iframe>`))
	c.Register(client.Client{ID: "dev", Name: "Test client", RedirectURIs: []string{c.callback}, Preregistered: true})

	c.browser = chromium.Start(t, options...)
	return c
}

func (c *chrome) authorizeURL() string {
	return c.At + pagetest.Authorize("client_id", "dev", "redirect_uri", c.callback)
}

// A tab is one page at a time. Its console must stay empty.
type tab struct {
	*chrome
	t   *testing.T
	ctx context.Context
}

// tab opens a tab that gives up when its patience ends.
func (c *chrome) tab(t *testing.T) *tab {
	t.Helper()
	c.AuthorizeLimit = limit.NewAddresses(limit.Authorize, nil)
	ctx, closeTab := chromedp.NewContext(c.browser)
	t.Cleanup(closeTab)
	b := &tab{c, t, ctx}
	b.run()
	var stop context.CancelFunc
	b.ctx, stop = context.WithTimeout(ctx, c.patience)
	t.Cleanup(stop)
	return b
}

// quiet fails the test for every message of the console. It is called before
// the first page, and what it gives at the end.
func (b *tab) quiet() (check func()) {
	messages := chromedp.Console(b.ctx)
	return func() {
		b.t.Helper()
		b.eval("console.debug('the end')")
		for m, err := range messages {
			if err != nil {
				b.t.Fatal(err)
			}
			if m.Text == "the end" {
				return
			}
			b.t.Errorf("console: %s", m)
		}
	}
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) eval(js string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[chromedp.Void](js+";undefined")); err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
}

func (b *tab) is(js string) bool {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](js))
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return v
}

func (b *tab) want(js string) {
	b.t.Helper()
	if !b.is(js) {
		b.t.Errorf("not so: %s", js)
	}
}

// until waits for something to become true, on whatever page is there.
func (b *tab) until(js string) {
	b.t.Helper()
	for {
		if v, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](js)); err == nil && v {
			return
		}
		if b.ctx.Err() != nil {
			ctx, stop := context.WithTimeout(context.WithoutCancel(b.ctx), time.Minute)
			defer stop()
			page, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location.pathname + ': ' + document.body.innerText"))
			b.t.Fatalf("never so: %s, on %q (%v)", js, page, err)
		}
		chromedp.Do(b.ctx, chromedp.Sleep(20*time.Millisecond))
	}
}

func (b *tab) open(address string) {
	b.t.Helper()
	b.run(chromedp.Navigate(address))
}

func (b *tab) click(css string) {
	b.t.Helper()
	if err := chromium.Press(b.ctx, css); err != nil {
		b.t.Fatal(err)
	}
}

// signIn goes through the form, and waits for what follows.
func (b *tab) signIn() {
	b.t.Helper()
	b.run(chromedp.WaitVisible(chromedp.ID("email")), chromedp.SendKeys(chromedp.ID("email"), "ada@nordlys.example"),
		chromedp.SendKeys(chromedp.ID("password"), pagetest.Password+kb.Enter))
}

// landed waits until the browser is at the client, and gives what came there.
func (b *tab) landed() url.Values {
	b.t.Helper()
	b.until("document.getElementById('landed') !== null")
	return b.last()
}

func (c *chrome) last() url.Values {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent[len(c.sent)-1]
}

func TestBrowser(t *testing.T) {
	t.Parallel()
	c := newChrome(t)

	// Cases B-01 and B-09, UX-7: with the policy in force the browser arrives
	// at the client on another origin, and goes on from there.
	t.Run("sign in and approve", func(t *testing.T) {
		b := c.tab(t)
		check := b.quiet()
		b.open(c.authorizeURL())
		b.want("(e => getComputedStyle(e).fontWeight > 600 && getComputedStyle(e).color !== getComputedStyle(e.parentNode).color)(document.querySelector('p > .called'))")
		b.signIn()
		b.run(chromedp.WaitVisible(chromedp.ID("consent")))
		b.want("document.activeElement === document.body")
		b.click("[name=organization][value=nordlys]")
		b.click("[name=grant][value=everything]")
		b.want("document.querySelector('.gets .says-everything').getClientRects().length === 1 && document.querySelector('.act').textContent.includes('All that you can access in Nordlys Cooperative')")
		b.want("![...document.querySelectorAll('.says-roles')].some(e => e.getClientRects().length)")
		b.want("document.querySelector('.ifroles').getClientRects().length === 0")
		b.click("[value=approve]")
		q := b.landed()
		if q.Get("state") != "st" || q.Get("iss") != c.At || q.Get("code") == "" {
			t.Errorf("the client was sent %v", q)
		}
		check()
	})
	if t.Failed() {
		t.FailNow() // nobody is signed in
	}

	t.Run("cancel", func(t *testing.T) {
		b := c.tab(t)
		check := b.quiet()
		b.open(c.authorizeURL())
		b.click("[value=cancel]") // although nothing is chosen
		if q := b.landed(); q.Get("error") != "access_denied" {
			t.Errorf("the client was sent %v", q)
		}
		check()
	})

	// Case B-08, ux 5.5.
	t.Run("Enter never approves", func(t *testing.T) {
		b := c.tab(t)
		check := b.quiet()
		before := len(c.Approvals("ada"))
		for _, field := range []string{"[name=organization][value=nordlys]", "[name=grant][value=everything]", "[name=personal]",
			"[name='role:treasurer'][value=change]"} {
			b.open(c.authorizeURL())
			b.click("[name=organization][value=nordlys]")
			b.eval("document.querySelectorAll('details').forEach(d => d.open = true); document.body.id = 'before'")
			b.eval(`document.querySelector("` + field + `").focus(); document.activeElement.checked = true`)
			b.run(chromedp.KeyEvent(kb.Enter), chromedp.WaitReady(chromedp.CSS("body:not(#before) #consent")))
			b.want(`document.querySelector("` + field + `").checked && document.querySelector("[value=nordlys]").checked`)
			b.want("location.pathname === '/oauth/authorize' && !document.querySelector('[role=alert]')")
		}
		b.open(c.authorizeURL())
		b.click("[name=organization][value=nordlys]")
		b.run(chromedp.SendKeys(chromedp.ID("find"), "captain"+kb.Enter))
		b.until("document.querySelector('#found').textContent === '1 role matches'") // the page is still there
		if n := len(c.Approvals("ada")); n != before {
			t.Errorf("%d approvals, want %d", n, before)
		}
		check()
	})

	// ux 5.3: what the script adds.
	t.Run("script", func(t *testing.T) {
		b := c.tab(t)
		check := b.quiet()
		b.open(c.authorizeURL())
		b.want("document.querySelector('.needorg').getClientRects().length === 1 && !document.querySelector('.then').getClientRects().length && !document.querySelector('.approve').getClientRects().length")
		b.want("document.querySelector('[value=organization]').getClientRects().length === 0")
		b.click("[name=organization][value=nordlys]")
		b.want("document.querySelector('.needorg').getClientRects().length === 0")
		b.want("[...document.querySelectorAll('.block')].filter(e => e.getClientRects().length).length === 1")
		b.want("document.querySelector('#bar').textContent === 'No role chosen yet'")
		b.click("[name=bulk][value='n:anchor:read']")
		b.want("document.querySelector('#bar').textContent === '3 of your 9 roles in Nordlys Cooperative'")
		b.want("document.querySelector('.org-2 details[open] summary').textContent.replace(/\\s+/g, ' ').includes('3 chosen · 3 roles')")
		b.run(chromedp.SendKeys(chromedp.ID("find"), "PRODUCT"))
		b.until("document.querySelector('#found').textContent === '5 roles match'")
		b.want("[...document.querySelectorAll('.circle')].filter(e => e.getClientRects().length && e.open).length === 2")
		b.eval("document.getElementById('find').value = ''")
		b.run(chromedp.SendKeys(chromedp.ID("find"), "facilitator"))
		b.click("[name=bulk][value='n:anchor:change']") // of what is seen: nobody gives away what they do not see
		b.until("document.querySelector('#allows li').textContent.startsWith('It may change what Facilitator may change.')")
		b.click("[name=bulk][value='n:anchor:none']") // of all: nothing is left behind
		b.until("document.querySelector('#bar').textContent === 'No role chosen yet'")
		b.click("[name=grant][value=organization]")
		b.click("[name=organization][value=fjell]") // where Ada is no admin
		b.want("document.querySelector('[name=grant][value=roles]').checked")
		b.want("document.querySelector('[value=organization]').getClientRects().length === 0")
		check()
	})

	// Case B-03, ux 5.6: one of the answers arrives, and its code works.
	t.Run("double click", func(t *testing.T) {
		b := c.tab(t)
		check := b.quiet()
		before := len(c.Approvals("ada"))
		b.open(c.authorizeURL())
		b.click("[name=organization][value=nordlys]")
		b.click("[name=grant][value=everything]")
		b.run(chromedp.ScrollIntoView(chromedp.CSS("[value=approve]")), chromedp.DoubleClick(chromedp.CSS("[value=approve]")))
		c.works(t, b.landed())
		if n := len(c.Approvals("ada")); n != before+1 {
			t.Errorf("%d approvals, want %d", n, before+1)
		}
		check()
	})

	// Case B-04, ux 5.6: the browser brings the page back without asking us.
	t.Run("back and approve", func(t *testing.T) {
		b := c.tab(t)
		check := b.quiet()
		before := len(c.Approvals("ada"))
		b.open(c.authorizeURL())
		b.click("[name=organization][value=nordlys]")
		b.click("[name=grant][value=everything]")
		b.click("[value=approve]")
		first := b.landed()
		b.eval("setTimeout(() => history.back())") // this page may not live to answer
		b.until("document.getElementById('consent') !== null && document.readyState === 'complete'")
		restored := b.is("document.querySelector('[value=nordlys]').checked")
		b.eval("document.querySelector('[name=organization][value=nordlys]').checked = document.querySelector('[name=grant][value=everything]').checked = true")
		b.eval("setTimeout(() => document.querySelector('[value=approve]').click())")
		b.until("location.pathname === '/landed'")
		second := b.last()
		if restored && first.Get("code") != second.Get("code") {
			t.Error("the same page gives another code")
		}
		if n := len(c.Approvals("ada")); restored && n != before+1 {
			t.Errorf("%d approvals, want %d", n, before+1)
		}
		c.works(t, second)
		check()
	})

	// Decision P1: an approval ends earlier ones of its own organization alone,
	// so nothing else is offered.
	t.Run("replace what is there", func(t *testing.T) {
		b := c.tab(t)
		check := b.quiet()
		b.open(c.authorizeURL())
		offered := "document.querySelector('[name=replace]').getClientRects().length === "
		b.want(offered + "0")
		b.click("[name=organization][value=nordlys]")
		b.want(offered + "1")
		b.click("[name=organization][value=fjell]")
		b.want(offered + "0")
		check()
	})

	// Case B-02.
	t.Run("in a frame", func(t *testing.T) {
		b := c.tab(t)
		messages := chromedp.Console(b.ctx)
		b.open(strings.TrimSuffix(c.callback, "/callback") + "/frame")
		for m, err := range messages {
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(m.Text, "frame-ancestors") {
				return
			}
		}
	})

	// Case B-05, UX-5.
	t.Run("without script", func(t *testing.T) {
		b := c.tab(t)
		if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
			t.Fatal(err)
		}
		b.open(c.authorizeURL())
		b.click("[name=organization][value=nordlys]")
		b.click("[name=bulk][value='n:anchor:change']")
		b.run(chromedp.WaitVisible(chromedp.CSS("[name='role:treasurer'][value=change][checked]")))
		b.click("[value=approve]")
		c.works(t, b.landed())
		if g := c.Approvals("ada"); !containsGrant(g, "circle-rep-product=change facilitator=change treasurer=change") {
			t.Errorf("approved %+v", g)
		}
	})

	// UX-4 and UX-13: nothing is cut off and nothing scrolls sideways.
	t.Run("narrow", func(t *testing.T) {
		long := "https://" + strings.Repeat("a-long-label.", 18) + "co.uk:8443/cb"
		c.Register(client.Client{ID: "wide", Name: strings.Repeat("W", 100), RedirectURIs: []string{long}})
		b := c.tab(t)
		check := b.quiet()
		if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 320, Height: 800, DeviceScaleFactor: 1}); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{pagetest.Authorize("client_id", "wide", "redirect_uri", long), "/", pagetest.NordlysApps, "/organizations/nordlys/leave"} {
			b.open(c.At + path)
			b.eval("document.querySelectorAll('details').forEach(d => d.open = true)")
			b.want("document.documentElement.scrollWidth <= 320")
		}
		check()
	})
}

func containsGrant(rows []store.ApprovalRow, picks string) bool {
	for _, r := range rows {
		if r.Grant.EncodePicks() == picks {
			return true
		}
	}
	return false
}

// works exchanges the code that the client was sent.
func (c *chrome) works(t *testing.T, q url.Values) {
	t.Helper()
	claim := c.Claim(q.Get("code"))
	_, v, err := c.Store.Apply(context.Background(), approval.ID(claim.Handle.ID()),
		approval.Exchange("dev", c.At, c.callback, pagetest.Verifier, claim.Time, 1, c.Store.Now()), store.Act{Actor: "client:dev"})
	c.Do(err)
	if v != approval.OK {
		t.Errorf("exchange: %v", v)
	}
}
