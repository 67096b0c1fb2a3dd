package consent

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// A neighbour is a site of somebody else, on a host of its own, over https.
type neighbour struct {
	*http.ServeMux
	url string // its host is localhost, which is another site than 127.0.0.1
	ip  string // the same by its address
}

func newNeighbour(t *testing.T) *neighbour {
	t.Helper()
	n := &neighbour{ServeMux: http.NewServeMux()}
	server := httptest.NewTLSServer(n)
	t.Cleanup(server.Close)
	n.ip, n.url = server.URL, strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	return n
}

func (n *neighbour) page(path, body string) {
	n.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, `<!doctype html><title>elsewhere</title><link rel="icon" href="data:,">`+body)
	})
}

// signOut goes through the account's menu.
func (b *tab) signOut() {
	b.t.Helper()
	b.click(".menu > summary")
	b.click(`.menu form[action="/signout"] button`)
}

// signInAs goes through the form, whoever was signed in before.
func (b *tab) signInAs(email string) {
	b.t.Helper()
	if b.open(b.At + "/"); b.is("document.querySelector('form[action=\"/signout\"]') !== null") {
		b.signOut()
	}
	b.run(chromedp.WaitVisible(chromedp.ID("email")), chromedp.SendKeys(chromedp.ID("email"), email),
		chromedp.SendKeys(chromedp.ID("password"), pagetest.Password+kb.Enter))
	b.until("location.pathname === '/'")
}

func (b *tab) chooseAll() {
	b.t.Helper()
	b.click("[name=organization][value=nordlys]")
	b.click("[name=grant][value=everything]")
}

func (b *tab) withoutScript() {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		b.t.Fatal(err)
	}
}

// What ux 1.1 measured, on a Chromium of its own.
func TestBrowserFlows(t *testing.T) {
	t.Parallel()
	c := newChrome(t)
	c.tab(t).signInAs("ada@nordlys.example")
	for name, flow := range map[string]func(*tab){
		"UX-7 onward over https": (*tab).onward, "UX-8 popup": (*tab).popup, "UX-9 two tabs": (*tab).twoTabs, "UX-9 two hours": (*tab).twoHours,
		"UX-9 back after the exchange": (*tab).backAfterExchange, "UX-6 keyboard": (*tab).keyboard, "UX-11 another site's form": (*tab).foreignForm,
		"Lax on a link of another site": (*tab).foreignLink,
	} {
		t.Run(name, func(t *testing.T) { flow(c.tab(t)) })
	}
	// These change who is signed in.
	t.Run("A-14 other person", func(t *testing.T) { c.tab(t).otherPerson() })
	t.Run("A-13 impersonation in another tab", func(t *testing.T) { c.tab(t).actingMeanwhile() })
	t.Run("UX-5 without script", func(t *testing.T) { c.tab(t).allWithoutScript() })
}

// The client's callback is https, and goes on to another https host, as those
// of real assistants do: both are reached, and the console has no word of it.
func (b *tab) onward() {
	app, far := newNeighbour(b.t), newNeighbour(b.t)
	app.HandleFunc("/callback", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, far.url+"/landed?"+r.URL.RawQuery, http.StatusFound)
	})
	far.page("/landed", `<p id="landed">Back at the app</p>`)
	b.Register(client.Client{ID: "onward", Name: "Onward", RedirectURIs: []string{app.ip + "/callback"}})
	for _, button := range []string{"approve", "cancel"} {
		check := b.quiet()
		b.open(b.At + pagetest.Authorize("client_id", "onward", "redirect_uri", app.ip+"/callback"))
		b.chooseAll()
		b.click("[value=" + button + "]")
		b.until("document.getElementById('landed') !== null")
		b.want("location.host === '" + strings.TrimPrefix(far.url, "https://") + "' && /state=st/.test(location.search)")
		check()
	}
}

// The client opens us in a popup: its handle and the popup's opener live
// through sign-in, consent and redirect.
func (b *tab) popup() {
	app := newNeighbour(b.t)
	at := app.ip + "/callback"
	b.Register(client.Client{ID: "popup", Name: "Popup", RedirectURIs: []string{at}})
	link := b.At + pagetest.Authorize("client_id", "popup", "redirect_uri", at)
	app.page("/app", `<button id="go" onclick="w = open('`+html.EscapeString(link)+`', 'consent', 'width=600,height=700')">Connect</button>`)
	app.page("/callback", `<p id="landed">Done</p>`)
	b.open(app.ip + "/app")
	opened := chromedp.WaitNewTarget(b.ctx, func(i *target.Info) bool { return i.Type == "page" })
	b.click("#go")
	ctx, closePopup := chromedp.NewContext(b.ctx, chromedp.WithTargetID(<-opened))
	defer closePopup()
	p := &tab{b.chrome, b.t, ctx}
	p.until("document.getElementById('consent') !== null && document.readyState === 'complete'")
	b.want("w !== null && !w.closed")
	p.chooseAll()
	p.click("[value=approve]")
	p.until("document.getElementById('landed') !== null")
	p.want("window.opener !== null && !window.opener.closed && window.opener.location.pathname === '/app'")
	b.want("!w.closed && w.location.pathname === '/callback'")
}

// Each tab has its own request, and each approval stands for itself.
func (b *tab) twoTabs() {
	other := b.chrome.tab(b.t)
	before := len(b.Approvals("ada"))
	for _, at := range []*tab{b, other} {
		at.open(b.authorizeURL())
		at.chooseAll()
	}
	other.click("[value=approve]")
	first := other.landed()
	b.click("[value=approve]")
	second := b.landed()
	if first.Get("code") == second.Get("code") {
		b.t.Error("two tabs, one code")
	}
	for _, q := range []url.Values{first, second} {
		b.works(b.t, q)
	}
	if n := len(b.Approvals("ada")); n != before+2 {
		b.t.Errorf("%d approvals, want %d", n, before+2)
	}
}

// A page that was left for two hours asks again, with everything kept.
func (b *tab) twoHours() {
	check := b.quiet()
	before := len(b.Approvals("ada"))
	b.open(b.authorizeURL())
	b.chooseAll()
	b.Pass(2 * time.Hour)
	b.click("[value=approve]")
	b.until("/This page was open for a long time/.test(document.body.textContent)")
	b.want("document.querySelector('[value=nordlys]').checked && document.querySelector('[value=everything]').checked")
	b.until("document.activeElement.getAttribute('role') === 'status'") // the browser moves it there when it has drawn
	if n := len(b.Approvals("ada")); n != before {
		b.t.Errorf("%d approvals, want %d", n, before)
	}
	b.click("[value=approve]")
	b.works(b.t, b.landed())
	check()
}

// Once the code is exchanged there is nothing left to decide.
func (b *tab) backAfterExchange() {
	before := len(b.Approvals("ada"))
	b.open(b.authorizeURL())
	b.chooseAll()
	b.click("[value=approve]")
	b.works(b.t, b.landed())
	b.eval("setTimeout(() => history.back())")
	b.until("document.getElementById('consent') !== null && document.readyState === 'complete'")
	restored := b.is("document.querySelector('[value=nordlys]').checked")
	b.eval("document.querySelector('[name=organization][value=nordlys]').checked = document.querySelector('[name=grant][value=everything]').checked = true")
	b.eval("setTimeout(() => document.querySelector('[value=approve]').click())")
	if restored {
		b.until("/You have already decided/.test(document.body.textContent)")
		if n := len(b.Approvals("ada")); n != before+1 {
			b.t.Errorf("%d approvals, want %d", n, before+1)
		}
		return
	}
	b.works(b.t, b.landed()) // another page, and so another approval
}

// The whole decision by keyboard: Tab, Space and the arrows; Approve is last.
func (b *tab) keyboard() {
	check := b.quiet()
	b.open(b.authorizeURL())
	press := func(keys string) { b.t.Helper(); b.run(chromedp.KeyEvent(keys)) }
	to := func(is string) {
		b.t.Helper()
		for range 60 {
			if b.is("(e => " + is + ")(document.activeElement)") {
				b.want("document.activeElement === document.body || document.activeElement.getClientRects().length > 0")
				return
			}
			press(kb.Tab)
		}
		b.t.Fatalf("Tab never comes to where %s", is)
	}
	to("e.name === 'organization'")
	press(" ")
	for range 5 {
		if b.is("document.querySelector('[value=nordlys]').checked") {
			break
		}
		press(kb.ArrowDown)
	}
	b.want("document.querySelector('[value=nordlys]').checked")
	to("e.name === 'grant'")
	press(kb.ArrowDown)
	b.want("document.querySelector('[name=grant][value=everything]').checked")
	press(kb.Enter) // never approves: it shows the page again
	b.until("document.querySelector('[name=grant][value=everything][checked]') !== null && document.readyState === 'complete'")
	to("e.value === 'approve'")
	press(" ")
	b.works(b.t, b.landed())
	check()
}

// Another site posts a form that would be right if it were ours: the browser
// sends no session with it, and says where it comes from.
func (b *tab) foreignForm() {
	evil := newNeighbour(b.t)
	page := b.SignedIn("ada")
	form := page.Get(pagetest.Authorize("client_id", "dev", "redirect_uri", b.callback)).Fill("/oauth/authorize")
	form.Set("organization", "nordlys")
	form.Set("grant", "everything")
	form.Set("decision", "approve")
	var fields strings.Builder
	for name := range form {
		fields.WriteString(`<input type="hidden" name="` + html.EscapeString(name) + `" value="` + html.EscapeString(form.Get(name)) + `">`)
	}
	evil.page("/form", `<form method="post" action="`+b.At+`/oauth/authorize">`+fields.String()+`</form><script>document.forms[0].submit()</script>`)
	before := len(b.Approvals("ada"))
	b.open(evil.url + "/form")
	b.until("/This form came from another site/.test(document.body.textContent)")
	b.want("!/Signed in as/.test(document.body.textContent)")
	if n := len(b.Approvals("ada")); n != before {
		b.t.Errorf("%d approvals, want %d", n, before)
	}
}

// A link of another site finds the person signed in: SameSite is Lax, for with
// Strict everybody would look signed out. In a frame nobody is.
func (b *tab) foreignLink() {
	app := newNeighbour(b.t)
	app.page("/app", `<a id="go" href="`+html.EscapeString(b.authorizeURL())+`">Connect</a>`)
	b.open(app.url + "/app")
	b.click("#go")
	b.until("document.getElementById('consent') !== null")
	b.want("/Signed in as/.test(document.querySelector('.who').textContent)")
}

// Somebody else signs in in another tab: never approve for a person who did
// not see the page.
func (b *tab) otherPerson() {
	b.open(b.authorizeURL())
	b.chooseAll()
	before := len(b.Approvals("ada"))
	b.chrome.tab(b.t).signInAs("tor@nordlys.example")
	b.click("[value=approve]")
	b.until("/You are now signed in as/.test(document.body.textContent)")
	b.want("/Tor Haugen/.test(document.querySelector('.who').textContent) && !/Ada/.test(document.body.textContent)")
	b.want("!document.querySelector('[value=everything]').checked")
	if n := len(b.Approvals("ada")) + len(b.Approvals("tor")); n != before {
		b.t.Errorf("%d approvals, want %d", n, before)
	}
}

// Support staff begin to act as somebody in another tab: the page that was
// open approves nothing, for nobody.
func (b *tab) actingMeanwhile() {
	b.WithSupport()
	b.Do(b.Store.SetMember(context.Background(), "nordlys", "nils", false, store.Act{}))
	b.Do(b.Store.SetPassword(context.Background(), "nils", pagetest.PasswordHash, store.Act{}))
	b.signInAs("nils@svalinn.example")
	b.open(b.authorizeURL())
	b.chooseAll()
	before := len(b.Approvals("ada"))
	other := b.chrome.tab(b.t)
	other.open(b.At + pagetest.AsAda)
	other.run(chromedp.SendKeys(chromedp.ID("reason"), "ticket 17"))
	other.click("main .primary")
	other.until("document.querySelector('.acting') !== null")
	b.click("[value=approve]")
	b.until("/Only Ada Lindqvist can approve apps for this account/.test(document.body.textContent)")
	if n := len(b.Approvals("ada")); n != before || len(b.Approvals("nils")) != 0 {
		b.t.Errorf("%d approvals of Ada and %d of Nils, want %d and none", n, len(b.Approvals("nils")), before)
	}
	b.click("[value=stop_impersonating]")
	b.until("document.getElementById('consent') !== null")
	b.want("document.querySelector('.acting') === null && /Nils Dahl/.test(document.querySelector('.who').textContent)")
}

// Everything that people can do, with script switched off.
func (b *tab) allWithoutScript() {
	b.withoutScript()
	b.signInAs("ada@nordlys.example")
	b.open(b.authorizeURL())
	b.click("[value=cancel]")
	if q := b.landed(); q.Get("error") != "access_denied" {
		b.t.Errorf("the client was sent %v", q)
	}
	b.open(b.authorizeURL())
	b.chooseAll()
	b.click("[value=approve]")
	b.works(b.t, b.landed())
	b.open(b.At + pagetest.NordlysApps)
	b.click(`a[href$="/clients/dev/revoke"]`)
	b.until("location.pathname.endsWith('/clients/dev/revoke') && document.readyState === 'complete'")
	b.click("main form .danger")
	b.until("/Access of .* is revoked/.test(document.body.textContent)")
	b.open(b.At + pagetest.NordlysSettings)
	b.click(`a[href$="/off"]`)
	b.until("location.pathname.endsWith('/off') && document.readyState === 'complete'")
	b.click("main form .danger")
	b.until("/Nobody can connect apps here/.test(document.body.textContent)")
	b.until("document.readyState === 'complete'")
	b.click(`form[action$="/on"] button`)
	b.until("/Turned on by Ada Lindqvist/.test(document.body.textContent)")
	b.open(b.At + "/account")
	for id, text := range map[string]string{"current": pagetest.Password, "new": pagetest.NewWord, "again": pagetest.NewWord} {
		b.run(chromedp.SendKeys(chromedp.ID(id), text))
	}
	b.click("main .primary")
	b.until("/Your password is changed/.test(document.body.textContent)")
	b.open(b.At + "/organizations/fjell/leave")
	b.click("main form .danger")
	b.until("location.pathname === '/' && /You have left Fjell Foundation/.test(document.body.textContent) && !document.querySelector('main a[href*=fjell]')")
}

// UX-3 and UX-19 of the pages themselves: nothing secret is in any.
func TestUX19PagesHoldNoSecret(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var mu sync.Mutex
	secrets := map[string]bool{pagetest.Password: true, pagetest.NewWord: true, pagetest.Verifier: true}
	s.everyPage(func(name string, _ bool, p *pagetest.Shown) {
		mu.Lock()
		defer mu.Unlock()
		for _, value := range p.B.Cookies {
			secrets[value] = true
		}
		for secret := range secrets {
			if len(secret) > 8 && strings.Contains(p.Body, secret) {
				t.Errorf("%s: a secret is in the page", name)
			}
		}
		for _, prefix := range []string{"svo_", "svr_", "svc_"} {
			if strings.Contains(p.Body, prefix) {
				t.Errorf("%s: %s is in the page", name, prefix)
			}
		}
	})
}
