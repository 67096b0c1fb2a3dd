package consent

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"golang.org/x/net/html"
	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// allows reads what the page says that its choice gives, as shown.allows does.
func (b *tab) allows() []string {
	b.t.Helper()
	lines, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](`[...document.querySelectorAll(".lines > li")].filter(e => e.getClientRects().length).map(e => {
		const copy = e.cloneNode(true);
		copy.querySelectorAll("details, [hidden]").forEach(e => e.remove());
		return copy.textContent.split(/\s+/).filter(w => w).join(" ");
	})`))
	if err != nil {
		b.t.Fatal(err)
	}
	return lines
}

// choose sets radios and checkboxes as somebody does who clicks them: name,
// value, ... It waits until the page says what that gives.
func (b *tab) choose(fields ...string) {
	b.t.Helper()
	b.eval("document.querySelectorAll('details').forEach(d => d.open = true)")
	for i := 0; i < len(fields); i += 2 {
		b.click("[name='" + fields[i] + "'][value='" + fields[i+1] + "']")
	}
	b.answered()
}

func (b *tab) answered() {
	b.t.Helper()
	b.until("!document.querySelector('.moved') || !new FormData(document.getElementById('consent')).get('organization')")
}

// The preview follows the choice, and the script's words are the server's.
func TestPreviewInBrowser(t *testing.T) {
	t.Parallel()
	c := newChrome(t)
	c.items()
	ada := c.SignedIn("ada")
	id := ada.Connect("grant", "roles", "role:treasurer", "read")
	edit := editPath("nordlys", id)

	t.Run("sign in", func(t *testing.T) {
		b := c.tab(t)
		b.open(c.At + edit)
		b.signIn()
		b.run(chromedp.WaitVisible(chromedp.ID("consent")))
	})
	if t.Failed() {
		t.FailNow() // nobody is signed in
	}

	// agree compares the page with what the server says of the same choice.
	agree := func(b *tab, what, action string, ask func() *pagetest.Shown, choice ...string) {
		b.t.Helper()
		got := b.allows()
		p := ask()
		want := allows(p.Press(action, append(choice, "action", "preview")...).Want(200))
		if len(want) == 0 || !slices.Equal(got, want) {
			b.t.Errorf("%s: the script says\n%s\nthe server\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}

	t.Run("consent follows the choice", func(t *testing.T) {
		b := c.tab(t)
		check := b.quiet()
		b.open(c.authorizeURL())
		ask := func() *pagetest.Shown { return ada.Get(pagetest.Authorize()) }
		b.want("!document.querySelector('[name=action][value=preview]').getClientRects().length > 0") // nothing to press
		if got := b.allows(); len(got) != 0 {
			t.Errorf("before an organization is chosen: %q", got)
		}
		choice := []string{}
		for _, step := range [][]string{
			{"organization", "nordlys"}, {"role:treasurer", "change"}, {"role:facilitator", "read"}, {"role:facilitator", "change"},
			{"role:buddy", "change"}, {"role:workspace-host", "read"}, {"role:circle-rep-product", "change"}, {"personal", "1"},
			{"role:release-captain", "change"}, {"role:roadmap-steward", "change"}, {"role:treasurer", "none"}, {"role:buddy", "none"},
			{"grant", "everything"}, {"grant", "organization"}, {"grant", "roles"}, {"organization", "fjell"}, {"role:reviewer", "change"},
			{"grant", "everything"}, {"organization", "nordlys"},
		} {
			b.choose(step...)
			choice = append(choice, step...)
			agree(b, strings.Join(step, "="), "/oauth/authorize", ask, choice...)
		}
		b.choose("grant", "roles")
		b.click("[name=bulk][value='n:product:change']")
		b.answered()
		form := append(choice, "grant", "roles")
		for _, role := range []string{"roadmap-steward", "api-documentation", "release-captain", "customer-interviews"} {
			form = append(form, "role:"+role, "change")
		}
		agree(b, "bulk", "/oauth/authorize", ask, form...)
		b.want("[...document.querySelectorAll('.titles')].some(e => e.getClientRects().length) && !document.querySelector('[name=action][value=preview]').getClientRects().length")
		// What holds is said once, after the last change.
		b.want("document.getElementById('said').textContent.startsWith('It may change ')")
		check()
	})

	// What the page said of an earlier choice is not seen beside another, and an
	// answer that comes after a newer choice is dropped.
	t.Run("late and refused", func(t *testing.T) {
		b := c.tab(t)
		stale := "[...document.querySelectorAll('.gets .stale')].some(e => e.getClientRects().length) && !document.getElementById('allows').getClientRects().length"
		b.open(c.authorizeURL())
		b.choose("organization", "nordlys", "role:treasurer", "change")
		b.eval(`window.asked = []; window.fetch = (to, with_) => new Promise(done => asked.push([with_.body.get("role:treasurer"), done]))`)
		answer := "({ok: %t, text: async () => '<div id=summary><p id=%s></div>'})"
		click := func(access string) { b.click("[name='role:treasurer'][value=" + access + "]") }
		click("read")
		b.want(stale)
		b.until("asked.length === 1")
		click("none")
		b.want("document.getElementById('bar').textContent === 'No role chosen yet'")
		b.eval("asked[0][1](" + fmt.Sprintf(answer, true, "old") + ")")
		b.until("asked.length === 2 && asked[1][0] === 'none'")
		b.want("!document.getElementById('old')")
		b.want(stale)
		b.eval("asked[1][1](" + fmt.Sprintf(answer, false, "refused") + ")")
		click("change")
		b.until("asked.length === 3")
		b.want(stale + " && !document.getElementById('refused')")
		b.eval("asked[2][1](" + fmt.Sprintf(answer, true, "new") + ")")
		b.until("document.getElementById('new') && !document.querySelector('.moved')")
	})

	t.Run("edit follows the choice", func(t *testing.T) {
		b := c.tab(t)
		check := b.quiet()
		b.open(c.At + edit)
		ask := func() *pagetest.Shown { return ada.Get(edit) }
		agree(b, "at first", edit, ask)
		choice := []string{}
		for _, step := range [][]string{{"role:treasurer", "change"}, {"role:buddy", "read"}, {"personal", "1"}, {"grant", "organization"}, {"grant", "everything"}} {
			b.choose(step...)
			choice = append(choice, step...)
			agree(b, strings.Join(step, "="), edit, ask, choice...)
		}
		b.choose("grant", "roles")
		b.eval("document.body.title = 'kept'; addEventListener('submit', () => { document.body.title = 'sent' })")
		b.run(chromedp.SendKeys(chromedp.ID("find"), "captain"+kb.Enter))
		b.want("document.body.title === 'kept'")
		b.until("document.querySelector('#found').textContent === '1 role matches'")
		b.eval("document.body.id = 'before'; document.querySelector('[name=grant][value=roles]').focus()")
		b.run(chromedp.KeyEvent(kb.Enter), chromedp.WaitReady(chromedp.CSS("body:not(#before) #consent")))
		if got := c.gives(id); got != "roles treasurer=read" {
			t.Errorf("Enter saves: gives %q", got)
		}
		b.click("[name=decision][value=save]")
		b.until("document.querySelector('.note.good') !== null")
		if got := c.gives(id); got != "roles buddy=read treasurer=change personal" {
			t.Errorf("gives %q", got)
		}
		check()
	})

	t.Run("the button without script", func(t *testing.T) {
		b := c.tab(t)
		if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
			t.Fatal(err)
		}
		preview := chromedp.CSS("[name=action][value=preview]")
		for path, ask := range map[string]func() *pagetest.Shown{
			pagetest.Authorize("client_id", "dev", "redirect_uri", c.callback): func() *pagetest.Shown { return ada.Get(pagetest.Authorize()) },
			edit: func() *pagetest.Shown { return ada.Get(edit) },
		} {
			b.open(c.At + path)
			choice := []string{"role:treasurer", "read", "role:circle-rep-product", "read", "role:facilitator", "change"}
			if path != edit {
				b.click("[name=organization][value=nordlys]")
				choice = append(choice, "organization", "nordlys")
			}
			b.click("[name=bulk][value='n:anchor:read']")
			b.run(chromedp.WaitVisible(chromedp.CSS("[name='role:facilitator'][value=read][checked]")))
			b.click("[name='role:facilitator'][value=change]")
			b.run(chromedp.ScrollIntoView(preview), chromedp.Click(preview), chromedp.WaitVisible(chromedp.CSS("[role=status][autofocus] #allows")))
			p := b.html()
			want := allows(ask().Press(actionOf(path), append(choice, "action", "preview")...).Want(200))
			if got := allows(p); len(want) == 0 || !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
	})

	t.Run("narrow", func(t *testing.T) {
		b := c.tab(t)
		check := b.quiet()
		if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 320, Height: 800, DeviceScaleFactor: 1}); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{pagetest.Authorize("client_id", "dev", "redirect_uri", c.callback), edit, pagetest.NordlysApps} {
			b.open(c.At + path)
			b.eval("document.querySelectorAll('details').forEach(d => d.open = true); document.querySelector('[name=organization]')?.click()")
			b.eval("document.querySelectorAll('[hidden]').forEach(e => e.hidden = false)")
			b.want("document.documentElement.scrollWidth <= 320")
		}
		check()
	})

	// The switch keeps what is chosen, and the script counts in Arabic as the
	// server does: six forms, chosen by Intl.PluralRules and by x/text.
	t.Run("in Arabic", func(t *testing.T) {
		b := c.tab(t)
		check := b.quiet()
		b.open(c.authorizeURL())
		b.choose("organization", "nordlys", "role:treasurer", "change")
		b.click("[name=language][value=ar]")
		b.until("document.documentElement.dir === 'rtl' && document.readyState === 'complete'")
		b.want("document.querySelector('[value=nordlys]').checked && document.querySelector(\"[name='role:treasurer'][value=change]\").checked")
		arab := c.SignedIn("ada")
		arab.Header.Set("Accept-Language", "ar")
		ask := func() *pagetest.Shown { return arab.Get(pagetest.Authorize()) }
		choice := []string{"organization", "nordlys", "role:treasurer", "change"}
		agree(b, "switched", "/oauth/authorize", ask, choice...)
		for _, step := range [][]string{
			{"role:treasurer", "read"}, {"role:facilitator", "change"}, {"role:buddy", "change"}, {"role:circle-rep-product", "change"},
			{"role:release-captain", "read"}, {"personal", "1"}, {"grant", "everything"}, {"grant", "organization"}, {"organization", "fjell"},
		} {
			b.choose(step...)
			choice = append(choice, step...)
			if step[0] != "organization" {
				agree(b, strings.Join(step, "="), "/oauth/authorize", ask, choice...)
			}
		}
		forms, categories := []string{}, map[plural.Form]string{plural.Zero: "zero", plural.One: "one", plural.Two: "two", plural.Few: "few", plural.Many: "many", plural.Other: "other"}
		for _, n := range []int{0, 1, 2, 3, 10, 11, 99, 100, 102, 103, 1000, 1234567} {
			forms = append(forms, strconv.Itoa(n)+":"+categories[plural.Cardinal.MatchPlural(language.Arabic, n, 0, 0, 0, 0)])
		}
		b.want("[" + strings.Join(numbersOf(forms), ",") + "].map(n => n + ':' + new Intl.PluralRules('ar').select(n)).join() === '" + strings.Join(forms, ",") + "'")
		check()
	})
}

// actionOf is where the form of a page posts to.
func actionOf(path string) string {
	u, err := url.Parse(path)
	if err != nil {
		panic(err)
	}
	return u.Path
}

// html is the page as it stands in the browser.
func (b *tab) html() *pagetest.Shown {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.OuterHTML(chromedp.CSS("html")))
	if err != nil {
		b.t.Fatal(err)
	}
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		b.t.Fatal(err)
	}
	return &pagetest.Shown{T: b.t, Body: text, Doc: doc}
}

func numbersOf(forms []string) (out []string) {
	for _, f := range forms {
		n, _, _ := strings.Cut(f, ":")
		out = append(out, n)
	}
	return out
}
