package consent

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
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
	"unicode"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/pelletier/go-toml/v2"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// pictures is what make screenshots gives: TestLook then takes pictures of every
// page into that folder, and looks for nothing.
var pictures = flag.String("pictures", "", "take pictures of every page into this folder")

// axeVersion is what scripts/axe.sh fetches.
const axeVersion = "4.14.1"

func axe(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(filepath.Join(cache, "grantkeeper", "axe-"+axeVersion+".min.js"))
	if err != nil {
		t.Fatalf("the browser tests need axe-core: run scripts/setup-debian.sh (%v)", err)
	}
	return string(code)
}

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

// widePages gives everything that others name a name of 100 wide letters, and a
// client a host of 60 labels: the pages that show them are to hold them.
func (s *site) widePages(visit func(name string, p *pagetest.Shown)) {
	wide := strings.Repeat("W", 100)
	long := "https://" + strings.Repeat("a12.", 58) + "co.uk:8443/cb"
	d := store.Directory{
		People:        []store.DirectoryPerson{{Person: org.Person{ID: "ada", Email: wide + "@nordlys.example", Name: wide, Active: true}}},
		Organizations: []org.Organization{{ID: "nordlys", Name: wide, AIIntegration: true}, {ID: "havn", Name: wide}},
		Circles:       []org.Circle{{ID: "n:anchor", Organization: "nordlys", Name: wide}},
		Roles:         []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "n:anchor", Name: wide}},
	}
	s.Do(s.Store.AddDirectory(context.Background(), d, store.Act{Actor: "operator"}))
	s.Register(client.Client{ID: "wide", Name: wide, RedirectURIs: []string{long}})
	ada, ask := s.SignedIn("ada"), pagetest.Authorize("client_id", "wide", "redirect_uri", long)
	visit("wide consent", ada.Get(ask).Want(200))
	visit("wide fault", ada.Get(ask).Approve("organization", "havn").Want(422))
	visit("wide sign-in", s.Browser().Get(ask).Follow().Want(200))
	visit("wide nowhere", s.SignedIn("ola").Get(ask).Want(403))
	visit("wide bad request", ada.Get(ask+"&scope=x").Want(400))
	ada.Get(ask).Approve("grant", "roles", "role:treasurer", "read").Want(303)
	r := s.Recording()
	id := ada.Connect("grant", "roles", "role:treasurer", "change")
	r.Begin().Done(id, pagetest.Deed(identity.Item{ID: "1", Title: wide, Kind: wide, Detail: wide, Role: "treasurer", Did: identity.Changed}, activity.Unanswered),
		activity.Record{Way: activity.MCP, Outcome: activity.Done, Method: "POST", Path: "/" + wide, Tool: wide})
	r.Read(id, identity.Item{Kind: wide, Count: 3_000_000})
	s.Do(r.Flush())
	visit("wide activity", ada.Get(didAt(id)).Want(200))
	visit("wide activity as an admin", ada.Get(adminsAt(id)).Want(200))
	for _, path := range []string{"/", pagetest.NordlysApps, pagetest.NordlysApps + "/clients/wide/revoke", "/organizations/nordlys/leave", pagetest.NordlysSettings} {
		visit("wide "+path, ada.Get(path).Want(200))
	}
}

// An album is every page in one language, as it was answered, and who answered.
type album struct {
	names []string
	pages []*pagetest.Shown
	by    *site
}

var albums = struct {
	mu sync.Mutex
	of map[string]album // by tag
}{of: map[string]album{}}

// everyPageIn visits every page in a language, once for all tests that look at them.
func everyPageIn(t *testing.T, tag string) album {
	t.Helper()
	albums.mu.Lock()
	defer albums.mu.Unlock()
	if _, visited := albums.of[tag]; !visited {
		a := album{by: newSite(t)}
		a.by.Accept = tag
		a.by.items()
		a.by.everyPage(func(name string, _ bool, p *pagetest.Shown) {
			a.names, a.pages = append(a.names, name), append(a.pages, p)
		})
		albums.of[tag] = a
	}
	return albums.of[tag]
}

// TestLook looks at every page in Chromium: UX-1 (axe-core finds nothing), UX-3
// (no other host is asked), UX-4 (nothing scrolls sideways, also with the text
// spacing of WCAG 1.4.12), in a left-to-right language and in Arabic. In the
// other languages words have other widths, and that alone is looked at: UX-4.
func TestLook(t *testing.T) {
	t.Parallel()
	g := &gallery{}
	if *pictures == "" {
		g.axe = axe(t)
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
	c := newChrome(t, g.within)
	c.patience = 15 * time.Minute // for some hundred pages, on a busy machine
	const tabs = 3
	next := make(chan int)
	var all sync.WaitGroup
	for range tabs {
		b := c.tab(t)
		all.Go(func() {
			for i := range next {
				if *pictures != "" {
					b.picture(c.At+"/gallery/"+strconv.Itoa(i), g.names[i])
				} else if problems, err := b.look(c.At+"/gallery/"+strconv.Itoa(i), wholly(pagetest.Attr(g.pages[i].All(atom.Html)[0], "lang"))); err != nil {
					t.Errorf("%s: %v", g.names[i], err)
				} else if len(problems) > 0 {
					t.Errorf("%s:\n%s", g.names[i], strings.Join(problems, "\n"))
				}
			}
		})
	}
	seen := map[string]bool{}
	for i, p := range g.pages {
		if key := seenAs(p); !seen[key] { // the same page under other names is looked at once
			seen[key] = true
			next <- i
		}
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

// look opens a page and gives what is wrong with it, or only whether it fits
// where there is least room.
func (b *tab) look(address string, wholly bool) (problems []string, err error) {
	if err := chromedp.Do(b.ctx, chromedp.Navigate(address)); err != nil {
		return nil, err
	}
	if err := b.as(views[2]); err != nil {
		return nil, err
	}
	said, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](clipped))
	if err != nil {
		return nil, err
	} else if said != "" {
		problems = append(problems, said)
	}
	if !wholly {
		if err := b.as(views[4]); err != nil {
			return nil, err
		}
		wide, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelectorAll("main details").forEach(d => d.open = true);`+spacedOut))
		if wide != "" {
			problems = append(problems, wide)
		}
		return problems, err
	}
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](loadAxe, chromedp.EvalAwaitPromise)); err != nil {
		return nil, err
	}
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("main details").forEach(d => d.open = true)`)); err != nil {
		return nil, err
	}
	arabic, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("document.dir === 'rtl'"))
	if err != nil {
		return nil, err
	}
	for _, v := range views {
		if v.dark && (arabic || v.width == narrowest) {
			continue // no colour depends on the direction, or on how narrow it is
		}
		if err := b.as(v); err != nil {
			return nil, err
		}
		rules := everyRule
		switch {
		case v.width == narrowest, arabic && v.width != 390: // it is the same document but for its words
			rules = layout
		case arabic:
			rules += withoutColours
		case v.dark:
			rules = colours // the rest of the stylesheet is the same
		}
		found, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](strings.Replace(axeRun, "RULES", rules, 1), chromedp.EvalAwaitPromise))
		if err != nil {
			return nil, err
		}
		var said []string
		if err := json.Unmarshal([]byte(found), &said); err != nil {
			return nil, err
		}
		for _, s := range said {
			problems = append(problems, fmt.Sprintf("at %d px, dark %t: %s", v.width, v.dark, s))
		}
	}
	wide, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](spacedOut))
	if wide != "" {
		problems = append(problems, wide)
	}
	return problems, err
}

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

// What axe-core looks for: UX-1.
const (
	everyRule = `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`
	colours   = `{type: "rule", values: ["color-contrast", "link-in-text-block"]}`
	// Colours take most of the time, and are alike in both directions.
	withoutColours = `, rules: {"color-contrast": {enabled: false}, "link-in-text-block": {enabled: false}}`

	layout = `{type: "rule", values: ["target-size", "scrollable-region-focusable"]}`
)

// loadAxe loads axe-core from the gallery.
const loadAxe = `new Promise((done, failed) => {
	const script = document.createElement("script");
	script.src = "/gallery/axe.js";
	script.onload = () => { script.remove(); done(true) };
	script.onerror = () => failed(new Error("axe-core is not loaded"));
	document.head.append(script);
})`

// axeRun gives what axe finds, whether the page scrolls sideways, words that
// have no room, targets that are too small (ux 10), and what it fetched
// elsewhere, as a JSON list.
const axeRun = `(async () => {
	const result = await axe.run(document, {resultTypes: ["violations"], preload: false, runOnly: RULES});
	const said = result.violations.map(v => v.id + ": " + v.nodes.map(n => n.target + " " + n.failureSummary).join(" | "));
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
	return JSON.stringify(said);
})()`

// clipped tells of controls that are not whole on the page, and of selects of which some
// choice that can be made is cut off: not where a select has the whole line, in a language
// of longer words than English.
const clipped = `(() => {
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
	return said.join("\n");
})()`

// spacedOut sets the text spacing of WCAG 2.2 section 1.4.12 at the width that
// the page has, and then larger text alone, and tells of scrolling sideways and
// of text that is cut off.
const spacedOut = `(() => {
	const sheet = new CSSStyleSheet();
	sheet.replaceSync("* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important } p { margin-block-end: 2em !important }");
	document.adoptedStyleSheets = [sheet];
	const root = document.documentElement;
	if (root.scrollWidth > root.clientWidth) return "with text spacing it scrolls sideways, " + root.scrollWidth + " px";
	for (const e of document.querySelectorAll("main *")) {
		const style = getComputedStyle(e);
		if (style.overflowX !== "visible" && e.scrollWidth > e.clientWidth && !e.matches(".unseen, .unseen *, thead, thead *, input")) {
			return "with text spacing, <" + e.localName + " class=" + e.className + "> cuts off " + e.textContent.slice(0, 40);
		}
	}
	document.adoptedStyleSheets = [];
	root.style.fontSize = "150%";
	const sideways = root.scrollWidth > root.clientWidth ? "with text of 150% it scrolls sideways, " + root.scrollWidth + " px" : "";
	root.style.fontSize = "";
	return sideways;
})()`

// UX-2: no page weighs more than 30 KB on a first visit, compressed, with its
// stylesheet, script and icon, in any language.
func TestWeight(t *testing.T) {
	t.Parallel()
	b := newSite(t).Browser()
	b.Header.Set("Accept-Encoding", "gzip")
	for _, tag := range page.Languages() {
		every := everyPageIn(t, tag)
		for i, p := range every.pages {
			weight := compressed(p.Body)
			var needs []string
			for n := range p.Doc.Descendants() {
				if at := pagetest.Attr(n, "href") + pagetest.Attr(n, "src"); strings.HasPrefix(at, "/assets/") && !slices.Contains(needs, at) {
					needs = append(needs, at)
					size, _ := strconv.Atoi(b.Get(at).Want(200).Header.Get("Content-Length"))
					weight += size
				}
			}
			if weight > 30_000 {
				t.Errorf("%s in %s: %d bytes", every.names[i], tag, weight)
			}
		}
	}
}

// Every page is said in each language: nothing of English is left, in what is
// shown or in what only a screen reader says.
func TestEveryPageInEveryLanguage(t *testing.T) {
	t.Parallel()
	texts := func(tag string) (names []string, all [][]string) {
		every := everyPageIn(t, tag)
		for i, p := range every.pages {
			if p.Status == http.StatusSeeOther {
				continue
			}
			var lines []string
			for n := range p.Doc.Descendants() {
				if within(n, "lang") != tag {
					continue
				}
				for _, a := range []string{"aria-label", "placeholder", "data-label", "title", "alt"} {
					if text := pagetest.Attr(n, a); text != "" {
						lines = append(lines, text)
					}
				}
				if n.Type == html.TextNode && n.Parent != nil && n.Parent.Data != "bdi" && n.Parent.Data != "code" && len(strings.Fields(n.Data)) > 1 &&
					strings.ContainsFunc(n.Data, unicode.IsLetter) { // else others wrote it, or it is numbers
					lines = append(lines, strings.Join(strings.Fields(n.Data), " "))
				}
			}
			names, all = append(names, every.names[i]), append(all, lines)
		}
		return names, all
	}
	names, english := texts("en")
	for _, tag := range page.Languages()[1:] {
		_, theirs := texts(tag)
		alike := alikeIn(t, tag)
		for i := range english {
			for _, line := range english[i] {
				if slices.Contains(theirs[i], line) && !alike[wordsOf(line)] {
					t.Errorf("%s: %s says %q", tag, names[i], line)
				}
			}
		}
	}
}

// compressed is how long a page is when it is sent compressed.
func compressed(body string) int {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, body)
	z.Close()
	return b.Len()
}

// alikeIn gives the words that are the same in English, without numbers.
func alikeIn(t *testing.T, tag string) map[string]bool {
	t.Helper()
	out, english := map[string]bool{}, messagesIn(t, "en")
	for id, text := range messagesIn(t, tag) {
		if text == english[id] {
			out[wordsOf(strings.ReplaceAll(text, "{n}", ""))] = true
		}
	}
	return out
}

var markup = regexp.MustCompile(`<[^>]*>`)

// messagesIn gives the messages of a language by their IDs, without markup.
func messagesIn(t *testing.T, tag string) map[string]string {
	t.Helper()
	file, err := os.ReadFile("../page/words/" + tag + ".toml")
	var tree map[string]any
	if err == nil {
		err = toml.Unmarshal(file, &tree)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var add func(id string, node any)
	add = func(id string, node any) {
		if text, ok := node.(string); ok {
			out[id] = markup.ReplaceAllString(text, "")
			return
		}
		for key, below := range node.(map[string]any) {
			add(id+"."+key, below)
		}
	}
	add("", tree)
	return out
}

func wordsOf(text string) string {
	return strings.Trim(strings.TrimSuffix(strings.Join(strings.Fields(text), " "), " – Svalinn"), "0123456789 ·")
}

// within gives an attribute of the nearest element around a node, or of itself.
func within(n *html.Node, name string) string {
	for ; n != nil; n = n.Parent {
		if value := pagetest.Attr(n, name); value != "" {
			return value
		}
	}
	return ""
}
