package consent

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/consent/chromium"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// menu gives where the account's menu of a page leads to and posts to.
func menu(p *pagetest.Shown) (out []string) {
	p.T.Helper()
	for _, d := range p.All(atom.Details) {
		if pagetest.Attr(d, "class") != "menu" {
			continue
		}
		for n := range d.Descendants() {
			if to := pagetest.Attr(n, "href") + pagetest.Attr(n, "action"); to != "" {
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
	s.WithSupport()
	ada, nils, own := s.SignedIn("ada"), s.SignedIn("nils"), []string{"/", "/connected-apps", "/account", "/account/sign-in"}
	for name, tt := range map[string]struct {
		question *pagetest.Shown
		want     []string
	}{
		"home":       {ada.Get("/").Want(200), append(own, "/signout")},
		"no page":    {ada.Get("/nowhere").Want(404), append(own, "/signout")},
		"fault":      {ada.Get(pagetest.Authorize("scope", "x")).Want(400), append(own, "/signout")},
		"staff":      {nils.Get("/").Want(200), []string{"/", "/connected-apps", "/account", "/support", "/signout"}}, // with no password here
		"again":      {ada.Get("/signin/again").Want(200), []string{"/signout"}},
		"consent":    {ada.Get(pagetest.Authorize()).Want(200), []string{"/signout"}},
		"nowhere":    {s.SignedIn("ola").Get(pagetest.Authorize()).Want(403), []string{"/signout"}},
		"acting":     {s.Acting().Get("/").Want(200), []string{"/", "/connected-apps", "/signout"}},
		"acting, E3": {s.Acting().Get(pagetest.Authorize()).Want(403), []string{"/signout"}},
		"nobody":     {s.Browser().Get("/signin").Want(200), nil},
		"nobody, E1": {s.Browser().Get("/oauth/authorize").Want(400), nil},
	} {
		if got := menu(tt.question); !slices.Equal(got, tt.want) {
			t.Errorf("%s: the menu leads to %v, want %v", name, got, tt.want)
		}
	}
	other := ada.Get(pagetest.Authorize()).Press("/signout").Follow().Want(200).Says("To decide about an app")
	pagetest.SignIn(other, "tor@nordlys.example", pagetest.Password).Follow().Want(200).Says("An app wants", "Signed in as Tor Haugen")
	// Another account goes on to what was to be done.
	b := s.SignedIn("ada")
	again := page.WithQuery("/signin/again", "return", s.SealPath("/account/sign-in"))
	other = b.Get(again).Want(200).Says("Use another account").Press("/signout").Follow().Want(200)
	if to := pagetest.SignIn(other, "tor@nordlys.example", pagetest.Password).Want(303).Header.Get("Location"); to != "/account/sign-in" {
		t.Errorf("another account goes on to %q", to)
	}
	for _, hostile := range []string{"https://evil.example/", "/account", s.SealPath("/account") + "x"} {
		if got := s.SignedIn("ada").Get("/").Press("/signout", "return", hostile).Want(303).Header.Get("Location"); got != "/signin" {
			t.Errorf("signing out with the return %q leads to %q", hostile, got)
		}
	}
	if got := s.SignedIn("ada").Get("/").Press("/signout").Want(303).Header.Get("Location"); got != "/signin" {
		t.Errorf("signing out leads to %q", got)
	}
}

// Where people sign in elsewhere alone, nothing offers a password or a factor.
func TestMenuWithoutPasswords(t *testing.T) {
	s := newSite(t)
	s.NoPasswords = true
	p := s.SignedIn("ada").Get("/")
	if got := menu(p); !slices.Equal(got, []string{"/", "/connected-apps", "/account", "/signout"}) || strings.Contains(p.Text(), "Password") {
		t.Errorf("the menu leads to %v: %s", got, p.Text())
	}
}

// Whoever is in one organization comes to its Connected apps; others choose.
func TestEveryApp(t *testing.T) {
	s := newSite(t)
	s.WithSupport()
	ada := s.SignedIn("ada")
	ada.Connect()
	ada.Connect()
	ada.Get("/connected-apps").Want(200).Says("Nordlys Cooperative 1 app acts for you here", "No app acts for you here")
	if got := s.SignedIn("tor").Get("/connected-apps").Want(303).Header.Get("Location"); got != pagetest.NordlysApps {
		t.Errorf("tor comes to %q", got)
	}
	if got := s.Acting().Get("/connected-apps").Want(303).Header.Get("Location"); got != pagetest.NordlysApps {
		t.Errorf("who acts as ada in one organization comes to %q", got)
	}
	s.Browser().Get("/connected-apps").Want(303)
}

// The open menu fits, and axe-core finds nothing in it.
func TestOpenMenu(t *testing.T) {
	t.Parallel()
	c := newChrome(t, (&gallery{axe: chromium.Axe(t)}).within)
	b := c.tab(t)
	b.open(c.At + "/")
	b.signIn()
	b.until("location.pathname === '/'")
	for _, tag := range []string{"en", "ar"} {
		b.eval("document.querySelector('[name=language][value=" + tag + "]')?.click()")
		b.until("document.documentElement.lang === '" + tag + "' && document.readyState === 'complete'")
		b.click(".menu > summary")
		b.run(chromedp.WaitVisible(chromedp.CSS(".panel")))
		for _, v := range views {
			if err := b.as(v); err != nil {
				t.Fatal(err)
			}
			found, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](asked("", axeWithin("'.menu'", chromium.EveryRule), fits), chromedp.EvalAwaitPromise))
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
