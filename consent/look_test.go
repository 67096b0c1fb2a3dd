package consent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/consent/chromium"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// A gallery is pages as they were answered, each under an address of its own,
// so that a browser can look at what a form led to, too.
type gallery struct {
	axe string // the code

	mu    sync.Mutex
	names []string
	pages []*pagetest.Shown
}

func (g *gallery) add(name string, p *pagetest.Shown) {
	if p.Status == http.StatusSeeOther {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.names, g.pages = append(g.names, name), append(g.pages, p)
}

// within serves the gallery under /gallery/, with axe-core, and everything else as
// before.
func (g *gallery) within(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, "/gallery/")
		if ok && name == "axe.js" {
			w.Header().Set("Content-Type", "text/javascript")
			w.Header().Set("Cache-Control", "max-age=3600") // Chromium keeps it, compiled
			io.WriteString(w, g.axe)
			return
		}
		n, err := strconv.Atoi(name)
		if !ok || err != nil {
			next.ServeHTTP(w, r)
			return
		}
		g.mu.Lock()
		p := g.pages[n]
		g.mu.Unlock()
		for name, values := range p.Header {
			if name != "Content-Encoding" && name != "Content-Length" && name != "Set-Cookie" && name != "Refresh" {
				w.Header()[name] = values
			}
		}
		w.Write([]byte(p.Body))
	})
}

// TestLook looks at every page in Chromium: UX-1 (axe-core finds nothing), UX-3
// (no other host is asked), UX-4 (nothing scrolls sideways, also with the text
// spacing of WCAG 1.4.12), in a left-to-right language and, as far as it depends on
// the room, in Arabic. In the other languages words have other widths, and that alone
// is looked at: UX-4.
func TestLook(t *testing.T) {
	t.Parallel()
	g := &gallery{}
	if *pictures == "" {
		g.axe = chromium.Axe(t)
	}
	for _, tag := range page.Languages() {
		if *pictures != "" && !wholly(tag) {
			continue
		}
		every := everyPageIn(t, tag)
		for i, p := range every.pages {
			g.add(every.names[i]+" in "+tag, p)
		}
		if wholly(tag) { // in one long word, languages are alike
			s := newSite(t)
			s.Accept = tag
			s.widePages(func(name string, p *pagetest.Shown) { g.add(name+" in "+tag, p) })
		}
	}
	c := chromeWith(t, []chromedp.ExecAllocatorOption{chromium.Still}, g.within)
	c.patience = 15 * time.Minute // for some hundred pages, on a busy machine
	const tabs = 3
	next := make(chan []glance)
	var all sync.WaitGroup
	for range tabs {
		b := &looker{tab: c.tab(t), gallery: g, page: -1}
		all.Go(func() {
			for some := range next {
				for _, one := range some {
					b.report(one)
				}
			}
		})
	}
	for _, some := range g.glances() {
		next <- some
	}
	close(next)
	all.Wait()
}

// seenAs is what of a page is seen: sealed values differ each time.
func seenAs(p *pagetest.Shown) string {
	var b strings.Builder
	for n := range p.Doc.Descendants() {
		if pagetest.Attr(n, "type") == "hidden" {
			continue
		}
		b.WriteString(n.Data + pagetest.Attr(n, "class") + pagetest.Attr(n, "aria-label"))
	}
	return b.String()
}

// A view is how a page is looked at.
type view struct {
	width  int64
	dark   bool
	height int64 // 0: of a window
}

var views = []view{{width: 1280}, {width: 1280, dark: true}, {width: 390}, {width: 390, dark: true}, {width: narrowest}, {width: narrowest, dark: true}}

// narrowest is where there is least room, in CSS pixels. The same rules of the
// stylesheet are in force there as at 390, see TestNarrowPagesAreAlike: only what
// depends on the room is looked for once more.
const narrowest = 320

// No rule of the stylesheet begins or ends between the two narrow widths.
func TestNarrowPagesAreAlike(t *testing.T) {
	sheet, err := os.ReadFile("../page/assets/app.css")
	if err != nil {
		t.Fatal(err)
	}
	limits := 0
	for _, query := range regexp.MustCompile(`@(?:media|container)[^{]*`).FindAllString(string(sheet), -1) {
		if strings.HasPrefix(query, "@media (max-height:") {
			continue // both are as high
		}
		for _, at := range regexp.MustCompile(`(?:width|inline-size|aspect-ratio|height|block-size)[^)]*`).FindAllString(query, -1) {
			limits++
			var rem float64
			if _, err := fmt.Sscanf(at, "width: %frem", &rem); err != nil {
				t.Errorf("this test does not understand %q", query)
			}
			if px := 16 * rem; px >= narrowest && px < 390 {
				t.Errorf("%s is in force at %d px and not at 390, or the other way about", query, narrowest)
			}
		}
	}
	if limits < 2 {
		t.Errorf("%d limits found", limits)
	}
}

// wholly reports whether pages in a language are looked at for more than their
// width.
func wholly(tag string) bool { return tag == "en" || tag == "ar" }

// A glance is one page looked at in one way: what is asked of it there are scripts, each of
// which gives a list of what is wrong.
type glance struct {
	page int
	view view
	asks []string
}

// glancesAt gives how a page in a language is looked at. The narrow view comes first, because
// clipped sees it as it comes, and all others what can be opened as well. In Arabic it is the
// same document, see TestDocumentsAreAlike, and no colour depends on the direction.
func glancesAt(page int, tag string) []glance {
	at := func(width int64, dark bool, asks ...string) glance {
		return glance{page, view{width: width, dark: dark}, asks}
	}
	least := at(narrowest, false, opened, axeRun(layout), fits, spacedOut)
	switch {
	case tag == "ar":
		return []glance{at(390, false, clipped, opened, axeRun(layout), fits), at(1280, false, opened, axeRun(layout), fits), least}
	case wholly(tag): // in the dark the rest of the stylesheet is the same
		return []glance{
			at(390, false, clipped, opened, axeRun(chromium.EveryRule), fits), at(390, true, opened, axeRun(chromium.Colours), fits),
			at(1280, false, opened, axeRun(chromium.EveryRule), fits), at(1280, true, opened, axeRun(chromium.Colours), fits), least,
		}
	}
	return []glance{at(390, false, clipped), at(narrowest, false, opened, spacedOut)}
}

// glances gives what is looked at by one tab, one after the other: all views of a page that
// has to be opened, or one view of pages that can be put into the place of each other.
func (g *gallery) glances() (all [][]glance) {
	const together = 40
	seen, turning := map[string]bool{}, map[view][]glance{}
	for i, p := range g.pages {
		key := seenAs(p)
		if seen[key] { // the same page under other names is looked at once
			continue
		}
		seen[key] = true
		if *pictures != "" {
			all = append(all, []glance{{page: i}})
			continue
		}
		these := glancesAt(i, pagetest.Attr(p.All(atom.Html)[0], "lang"))
		if _, still := head(p); !still {
			all = append(all, these)
			continue
		}
		for _, one := range these {
			turning[one.view] = append(turning[one.view], one)
		}
	}
	for _, v := range views {
		for some := range slices.Chunk(turning[v], together) {
			all = append(all, some)
		}
	}
	return all
}

// head gives all that stands in a page's head but for the title, and whether the page stays as it
// came: no script of its own changes it.
func head(p *pagetest.Shown) (text string, still bool) {
	var b strings.Builder
	for n := range p.All(atom.Head)[0].ChildNodes() {
		if n.DataAtom != atom.Title {
			html.Render(&b, n)
		}
	}
	scripts := p.All(atom.Script)
	return b.String(), len(scripts) == 1 && strings.Contains(pagetest.Attr(scripts[0], "src"), "/zone.")
}

// A page in Arabic has the parts that it has in English; what they say decides on their order in a
// sentence, and in a list.
func TestDocumentsAreAlike(t *testing.T) {
	t.Parallel()
	numbers := regexp.MustCompile(`[0-9]+`) // of rows
	parts := func(p *pagetest.Shown) (all []string) {
		for n := range p.Doc.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			what := n.Parent.Data + " " + n.Data
			for _, a := range n.Attr {
				switch what += " " + a.Key; a.Key {
				case "class", "type", "role", "for", "id", "aria-hidden", "aria-labelledby", "aria-describedby", "aria-current", "scope", "autocomplete", "inputmode":
					what += "=" + numbers.ReplaceAllString(a.Val, "")
				}
			}
			all = append(all, what)
		}
		slices.Sort(all)
		return all
	}
	english, arabic := everyPageIn(t, "en"), everyPageIn(t, "ar")
	if !slices.Equal(english.names, arabic.names) || len(english.names) < 100 {
		t.Fatalf("pages in English: %q, in Arabic: %q", english.names, arabic.names)
	}
	for i, name := range english.names {
		one, other := parts(english.pages[i]), parts(arabic.pages[i])
		if slices.Equal(one, other) {
			continue
		}
		at := 0
		for at < min(len(one), len(other)) && one[at] == other[at] {
			at++
		}
		t.Errorf("%s has %d parts, in Arabic %d: %q there is %q", name, len(one), len(other), one[at:min(at+2, len(one))], other[at:min(at+2, len(other))])
	}
}

// What takes the place of another page is what would have been opened.
func TestTurnedPagesAreThePages(t *testing.T) {
	t.Parallel()
	g := &gallery{}
	every := everyPageIn(t, "ar")
	for i, p := range every.pages {
		g.add(every.names[i], p)
	}
	b := &looker{tab: newChrome(t, g.within).tab(t), gallery: g, page: -1}
	const all = `() => [document.documentElement.outerHTML, document.title, String(document.adoptedStyleSheets.length)]`
	turned := 0
	for i := range g.pages {
		before := b.head
		shown, err := b.look(glance{i, view{width: 390}, []string{all}})
		if err != nil {
			t.Fatal(err)
		}
		if before == "" || b.head != before {
			continue
		}
		if turned++; turned%5 > 0 {
			continue
		}
		fresh := &looker{tab: b.tab, gallery: g, page: -1}
		if opened, err := fresh.look(glance{i, view{width: 390}, []string{all}}); err != nil || !slices.Equal(opened, shown) {
			t.Errorf("%s: %v\n%s\n%s", g.names[i], err, shown, opened)
		}
	}
	if turned < len(g.pages)/2 {
		t.Errorf("%d of %d pages take the place of another", turned, len(g.pages))
	}
}

// A looker is a tab that looks at pages of a gallery. What takes a browser's time is to open a
// page and to have the window of another size. So it puts one page into the place of another
// where their heads are the same, and looks at many in one view.
type looker struct {
	*tab
	*gallery
	page int    // that is shown
	head string // of a page that another may take the place of
	view view
}

// report looks, and says what is wrong.
func (b *looker) report(one glance) {
	name := b.names[one.page]
	if *pictures != "" {
		b.picture(b.at(one.page), name)
	} else if problems, err := b.look(one); err != nil {
		b.t.Errorf("%s: %v", name, err)
	} else if len(problems) > 0 {
		b.t.Errorf("%s, at %d px, dark %t:\n%s", name, one.view.width, one.view.dark, strings.Join(problems, "\n"))
	}
}

func (b *looker) at(page int) string { return b.At + "/gallery/" + strconv.Itoa(page) }

func (b *looker) look(one glance) (problems []string, err error) {
	if b.view != one.view {
		if err := b.as(one.view); err != nil {
			return nil, err
		}
		b.view = one.view
	}
	script := ""
	if b.page != one.page {
		p := b.pages[one.page]
		head, still := head(p)
		if still && head == b.head {
			body, err := json.Marshal(p.Body)
			if err != nil {
				return nil, err
			}
			script = "await (" + turn + ")(" + string(body) + ");"
		} else if err := chromedp.Do(b.ctx, chromedp.Navigate(b.at(one.page))); err != nil {
			return nil, err
		}
		b.page, b.head = one.page, ""
		if still {
			b.head = head
		}
	}
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](asked(script, one.asks...), chromedp.EvalAwaitPromise))
	if err != nil {
		return nil, err
	}
	return problems, json.Unmarshal([]byte(found), &problems)
}

// asked is a script that does what comes first and gives what all that is asked say, as a JSON list.
func asked(first string, asks ...string) string {
	return "(async () => {" + first + "const said = []; for (const ask of [" + strings.Join(asks, ",") + "]) said.push(...await ask()); return JSON.stringify(said) })()"
}

// turn puts a page into the place of one that has the same head.
const turn = `async html => {
	const root = document.documentElement, page = new DOMParser().parseFromString(html, "text/html");
	for (const a of [...root.attributes]) root.removeAttribute(a.name);
	for (const a of page.documentElement.attributes) root.setAttribute(a.name, a.value);
	document.adoptedStyleSheets = [];
	performance.clearResourceTimings();
	document.title = page.title;
	document.body.replaceWith(document.adoptNode(page.body));
	scrollTo(0, 0);
	await Promise.allSettled([...document.images].map(i => i.decode()));
}`

// as sets the size of the window and the scheme.
func (b *tab) as(v view) error {
	_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: v.width, Height: cmp.Or(v.height, 900), DeviceScaleFactor: 1})
	if err != nil {
		return err
	}
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	_, err = chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	return err
}

// documented are the pictures that the documents show: page, width and file.
var documented = []struct {
	question string
	width    int64
	file     string
}{
	{"consent with choices in en", 800, "consent.png"},
	{"consent with choices in ar", 390, "consent-ar.png"},
}

// picture takes pictures of a page.
func (b *tab) picture(address, name string) {
	take := func(v view, file ...string) {
		at := filepath.Join(append([]string{*pictures}, file...)...)
		var shot cdppage.CaptureScreenshotResult
		err := b.as(v)
		if err == nil {
			err = chromedp.Do(b.ctx, chromedp.Navigate(address))
		}
		var height int64
		if err == nil {
			height, err = chromedp.Run(b.ctx, chromedp.Evaluate[int64]("Math.ceil(document.body.getBoundingClientRect().height)"))
		}
		if err == nil {
			v.height = height
			err = b.as(v)
		}
		if err == nil {
			shot, err = chromedp.Call(b.ctx, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{})
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(at), 0o755)
		}
		if err == nil {
			err = os.WriteFile(at, shot.Data, 0o644)
		}
		if err != nil {
			b.t.Errorf("%s: %v", name, err)
		}
	}
	plain := strings.Trim(regexp.MustCompile(`[^a-zA-Z0-9]+`).ReplaceAllString(name, "-"), "-")
	for _, v := range views[:4] {
		scheme := "light"
		if v.dark {
			scheme = "dark"
		}
		take(v, fmt.Sprintf("%s-%d-%s.png", plain, v.width, scheme))
	}
	for _, d := range documented {
		if d.question == name {
			take(view{width: d.width}, "docs", d.file)
		}
	}
}

// layout is what axe-core is asked of that depends on the room.
const layout = `{type: "rule", values: ["target-size", "scrollable-region-focusable"]}`

// axeRun gives what axe-core finds by these rules, and loads it from the gallery first.
func axeRun(rules string) string { return axeWithin("document", rules) }

func axeWithin(part, rules string) string {
	return `async () => {
	if (!window.axe) await new Promise((done, failed) => {
		const script = document.createElement("script");
		script.src = "/gallery/axe.js";
		script.onload = () => { script.remove(); done() };
		script.onerror = () => failed(new Error("axe-core is not loaded"));
		document.head.append(script);
	});
	const result = await axe.run(` + part + `, {resultTypes: ["violations"], preload: false, runOnly: ` + rules + `});
	return result.violations.map(v => v.id + ": " + v.nodes.map(n => n.target + " " + n.failureSummary).join(" | "));
}`
}

// opened opens what can be opened, and finds nothing.
const opened = `() => {
	document.querySelectorAll("main details").forEach(d => d.open = true);
	return [];
}`

// fits tells whether the page scrolls sideways, of words that have no room, of targets that
// are too small (ux 10), and of what was fetched elsewhere.
const fits = `() => {
	const said = [];
	const root = document.documentElement;
	if (root.scrollWidth > root.clientWidth) said.push("scrolls sideways, " + root.scrollWidth + " px");
	const main = document.querySelector("main").getBoundingClientRect();
	if (main.left < 0 || main.right > root.clientWidth) said.push("stands from " + main.left + " to " + main.right);
	for (const e of document.querySelectorAll("summary .soft, .cards thead th, .whole")) {
		if (e.closest("thead")?.offsetWidth < 2) continue; // columns are cards there
		const text = document.createRange();
		text.selectNodeContents(e);
		if (text.getBoundingClientRect().height > 6 * parseFloat(getComputedStyle(e).lineHeight)) said.push("letters under each other: " + e.textContent);
	}
	for (const e of document.querySelectorAll(".ways > a, .foot nav a, .cards a, button, summary")) {
		const r = e.getBoundingClientRect();
		if (r.height && r.height < 24 && !e.matches(".unseen")) said.push(r.height + " px high: " + e.textContent);
	}
	for (const e of performance.getEntriesByType("resource")) {
		if (!e.name.startsWith(location.origin + "/")) said.push("fetches " + e.name);
	}
	return said;
}`

// clipped tells of controls that are not whole on the page, and of selects of which some
// choice that can be made is cut off: not where a select has the whole line, in a language
// of longer words than English.
const clipped = `() => {
	const said = [], edge = document.documentElement.clientWidth;
	for (const e of document.querySelectorAll("main :is(select, button, input, textarea)")) {
		const r = e.getBoundingClientRect();
		if (!r.width || e.matches(".unseen, .unseen *")) continue;
		if (r.left < 0 || r.right > edge || e.localName === "button" && e.scrollWidth > e.clientWidth) said.push("cut off: " + (e.name || e.id || e.textContent));
		if (e.localName !== "select") continue;
		const whole = e.cloneNode(true);
		whole.querySelectorAll("option:disabled").forEach(o => o.remove());
		Object.assign(whole.style, {position: "absolute", inlineSize: "max-content", minInlineSize: "0", maxInlineSize: "none"});
		e.after(whole);
		const needs = whole.getBoundingClientRect().width;
		whole.remove();
		const line = document.documentElement.lang === "en" ? Infinity : e.closest(".set, .filter, .inline").getBoundingClientRect().width;
		if (needs > r.width + 1 && r.width + 1 < line) said.push("cut off at " + edge + " px: select " + e.name + " has " + r.width + " of " + needs + " px");
	}
	return said;
}`

// spacedOut sets the text spacing of WCAG 2.2 section 1.4.12 at the width that
// the page has, and then larger text alone, and tells of scrolling sideways and
// of text that is cut off.
const spacedOut = `() => {
	const said = [], sheet = new CSSStyleSheet();
	sheet.replaceSync("* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important } p { margin-block-end: 2em !important }");
	document.adoptedStyleSheets = [sheet];
	const root = document.documentElement;
	if (root.scrollWidth > root.clientWidth) said.push("with text spacing it scrolls sideways, " + root.scrollWidth + " px");
	for (const e of document.querySelectorAll("main *")) {
		const style = getComputedStyle(e);
		if (style.overflowX !== "visible" && e.scrollWidth > e.clientWidth && !e.matches(".unseen, .unseen *, thead, thead *, input")) {
			said.push("with text spacing, <" + e.localName + " class=" + e.className + "> cuts off " + e.textContent.slice(0, 40));
		}
	}
	document.adoptedStyleSheets = [];
	root.style.fontSize = "150%";
	if (root.scrollWidth > root.clientWidth) said.push("with text of 150% it scrolls sideways, " + root.scrollWidth + " px");
	root.style.fontSize = "";
	return said;
}`
