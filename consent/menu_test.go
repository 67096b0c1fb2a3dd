package consent

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html/atom"

	"github.com/chromedp/chromedp"
)

// menu gives where the account's menu of a page leads to and posts to.
func (p *shown) menu() (out []string) {
	p.t.Helper()
	for _, d := range p.all(atom.Details) {
		if attr(d, "class") != "menu" {
			continue
		}
		for n := range d.Descendants() {
			if to := attr(n, "href") + attr(n, "action"); to != "" {
				out = append(out, to)
			}
		}
	}
	return out
}

// Whoever is signed in finds the account in the header of every page, and ways
// off the page only where it is not on the way to an approval.
func TestMenu(t *testing.T) {
	s := newSite(t)
	s.withSupport()
	ada, nils, own := s.signedIn("ada"), s.signedIn("nils"), []string{"/", "/connected-apps", "/account", "/account/sign-in"}
	for name, tt := range map[string]struct {
		page *shown
		want []string
	}{
		"home":       {ada.get("/").want(200), append(own, "/signout")},
		"no page":    {ada.get("/nowhere").want(404), append(own, "/signout")},
		"fault":      {ada.get(authorize("scope", "x")).want(400), append(own, "/signout")},
		"staff":      {nils.get("/").want(200), []string{"/", "/connected-apps", "/account", "/support", "/signout"}}, // with no password here
		"again":      {ada.get("/signin/again").want(200), []string{"/signout"}},
		"consent":    {ada.get(authorize()).want(200), []string{"/signout"}},
		"nowhere":    {s.signedIn("ola").get(authorize()).want(403), []string{"/signout"}},
		"acting":     {s.acting().get("/").want(200), []string{"/", "/connected-apps", "/signout"}},
		"acting, E3": {s.acting().get(authorize()).want(403), []string{"/signout"}},
		"nobody":     {s.browser().get("/signin").want(200), nil},
		"nobody, E1": {s.browser().get("/oauth/authorize").want(400), nil},
	} {
		if got := tt.page.menu(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: the menu leads to %v, want %v", name, got, tt.want)
		}
	}
	other := ada.get(authorize()).press("/signout").follow().want(200).says("To decide about an app")
	signin(other, "tor@nordlys.example", password).follow().want(200).says("An app wants", "Signed in as Tor Haugen")
	// Another account goes on to what was to be done.
	b := s.signedIn("ada")
	again := withQuery("/signin/again", "return", s.sealPath("/account/sign-in"))
	other = b.get(again).want(200).says("Use another account").press("/signout").follow().want(200)
	if to := signin(other, "tor@nordlys.example", password).want(303).header.Get("Location"); to != "/account/sign-in" {
		t.Errorf("another account goes on to %q", to)
	}
	for _, hostile := range []string{"https://evil.example/", "/account", s.sealPath("/account") + "x"} {
		if got := s.signedIn("ada").get("/").press("/signout", "return", hostile).want(303).header.Get("Location"); got != "/signin" {
			t.Errorf("signing out with the return %q leads to %q", hostile, got)
		}
	}
	if got := s.signedIn("ada").get("/").press("/signout").want(303).header.Get("Location"); got != "/signin" {
		t.Errorf("signing out leads to %q", got)
	}
}

// Where people sign in elsewhere alone, nothing offers a password or a factor.
func TestMenuWithoutPasswords(t *testing.T) {
	s := newSite(t)
	s.Ways.NoPasswords = true
	p := s.signedIn("ada").get("/")
	if got := p.menu(); !slices.Equal(got, []string{"/", "/connected-apps", "/account", "/signout"}) || strings.Contains(p.text(), "Password") {
		t.Errorf("the menu leads to %v: %s", got, p.text())
	}
}

// Whoever is in one organization comes to its Connected apps; others choose.
func TestEveryApp(t *testing.T) {
	s := newSite(t)
	s.withSupport()
	ada := s.signedIn("ada")
	ada.connect()
	ada.connect()
	ada.get("/connected-apps").want(200).says("Nordlys Cooperative 1 app acts for you here", "No app acts for you here")
	if got := s.signedIn("tor").get("/connected-apps").want(303).header.Get("Location"); got != nordlysApps {
		t.Errorf("tor comes to %q", got)
	}
	if got := s.acting().get("/connected-apps").want(303).header.Get("Location"); got != nordlysApps {
		t.Errorf("who acts as ada in one organization comes to %q", got)
	}
	s.browser().get("/connected-apps").want(303)
}

func TestInitials(t *testing.T) {
	for name, want := range map[string]string{"Ada Lindqvist": "AL", "ada": "A", "Ada Maria van Lindqvist": "AL", "": "•", "\u0301\u0302": "•",
		"a\u0301b c\u0302d": "AC", "Åse Ødegård": "ÅØ", "42 Nils": "N", "علي حسن": "عح", "\uFFFD": "•"} {
		if got := initials(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// The open menu fits, and axe-core finds nothing in it.
func TestOpenMenu(t *testing.T) {
	t.Parallel()
	c := newChrome(t, (&gallery{axe: axe(t)}).within)
	b := c.tab(t)
	b.open(c.base + "/")
	b.signIn()
	b.until("location.pathname === '/'")
	for _, tag := range []string{"en", "ar"} {
		b.eval("document.querySelector('[name=language][value=" + tag + "]')?.click()")
		b.until("document.documentElement.lang === '" + tag + "' && document.readyState === 'complete'")
		b.click(".menu > summary")
		b.run(chromedp.WaitVisible(chromedp.CSS(".panel")))
		if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](loadAxe, chromedp.EvalAwaitPromise)); err != nil {
			t.Fatal(err)
		}
		for _, v := range views {
			if err := b.as(v); err != nil {
				t.Fatal(err)
			}
			found, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](strings.Replace(strings.Replace(axeRun, "RULES", everyRule, 1),
				"axe.run(document", "axe.run('.menu'", 1), chromedp.EvalAwaitPromise))
			var said []string
			if err == nil {
				err = json.Unmarshal([]byte(found), &said)
			}
			if err != nil || len(said) > 0 {
				t.Errorf("%s at %d px, dark %t: %v %v", tag, v.width, v.dark, said, err)
			}
			b.want("(r => r.left >= 0 && r.right <= innerWidth)(document.querySelector('.panel').getBoundingClientRect())")
		}
	}
}
