package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/grantkeeper/grantkeeper/consent/chromium"
)

// consoleFaults gives what axe-core finds on the page, whether it scrolls
// sideways, names that are not shown as they should be, and what it fetched
// elsewhere, as a JSON list.
const consoleFaults = `(async () => {
	document.querySelectorAll("details").forEach(d => d.open = true);
	const result = await axe.run(document, {resultTypes: ["violations"], preload: false, runOnly: RULES});
	const said = result.violations.map(v => v.id + ": " + v.nodes.map(n => n.target + " " + n.failureSummary).join(" | "));
	const root = document.documentElement;
	if (root.scrollWidth > root.clientWidth) said.push("scrolls sideways, " + root.scrollWidth + " px");
	for (const e of document.querySelectorAll("bdi:not(.host)")) {
		const style = getComputedStyle(e), name = e.textContent;
		if (style.overflow !== "clip" || style.display === "inline") said.push("marks on it cover what is beside it: " + name);
		if (e.closest("a") && style.textDecorationLine !== "underline") said.push("no line under a link: " + name);
		if (e.scrollWidth > e.clientWidth || e.getBoundingClientRect().right > e.parentNode.closest("a, span, td, th, p, h2, dd, div").getBoundingClientRect().right + .5) said.push("too wide: " + name);
		if (name.startsWith("Quill") && e.getBoundingClientRect().height > 2 * parseFloat(style.lineHeight) - 1) said.push("broken: " + name);
	}
	for (const e of document.querySelectorAll("table")) {
		const place = e.closest(".card"), inside = place && place.getBoundingClientRect().right - parseFloat(getComputedStyle(place).paddingRight);
		if (place && e.getBoundingClientRect().right > inside + .5) said.push("a table leaves its card: " + e.caption?.textContent);
	}
	const label = document.createElement("span");
	label.style.cssText = "position: absolute; overflow-wrap: normal";
	for (const e of document.querySelectorAll(".cards td[data-label]")) {
		const style = getComputedStyle(e);
		if (style.display === "none" || getComputedStyle(e, "::before").content === "none") continue;
		if (style.display !== "grid" && getComputedStyle(e, "::before").display !== "block") said.push("a label touches what it is for: " + e.dataset.label);
		for (const word of style.display === "grid" ? e.dataset.label.split(" ") : []) {
			label.textContent = word;
			e.append(label);
			if (label.getBoundingClientRect().width > parseFloat(style.gridTemplateColumns) + .5) said.push("a label is broken: " + word);
			label.remove();
		}
	}
	const words = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
	for (let text; (text = words.nextNode());) {
		if (!text.parentElement.closest("table, dl, form") || text.parentElement.closest("bdi, .unseen") || text.parentElement.closest("thead")?.offsetWidth < 2) continue;
		for (const word of text.data.matchAll(text.parentElement.closest("form") ? /\p{L}+/gu : /\S+/g)) {
			if (word[0].length > 40) continue;
			const range = document.createRange();
			range.setStart(text, word.index);
			range.setEnd(text, word.index + word[0].length);
			if (new Set([...range.getClientRects()].map(r => r.top)).size > 1) said.push("broken: " + word[0]);
		}
	}
	for (const e of performance.getEntriesByType("resource")) {
		if (new URL(e.name).host !== location.host) said.push("fetches " + e.name);
	}
	return JSON.stringify(said);
})()`

// lookAt gives what is wrong with the page that is open. In the dark axe-core
// looks for colours alone, because the rest of the stylesheet is the same.
func lookAt(ctx context.Context, width int64, scheme string) (said []string, err error) {
	rules := chromium.EveryRule
	if scheme == "dark" {
		rules = chromium.Colours
	}
	_, err = chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
	if err != nil {
		return nil, err
	}
	_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	if err != nil {
		return nil, err
	}
	found, err := chromedp.Run(ctx, chromedp.Evaluate[string](strings.Replace(consoleFaults, "RULES", rules, 1), chromedp.EvalAwaitPromise))
	if err != nil {
		return nil, err
	}
	return said, json.Unmarshal([]byte(found), &said)
}

// UX-1, UX-3 and UX-4 for the operators' console: axe-core finds nothing, no
// other host is asked, and nothing scrolls sideways, in light and dark, also
// with names of 100 wide letters and hosts of 60 labels.
func TestConsoleInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, f := h.whole()
	wide := h.caller().postJSON("/oauth/register", fmt.Sprintf(`{"client_name":%q,"redirect_uris":["https://%sexample.com:8443/cb"]}`,
		strings.Repeat("W", 100), strings.Repeat("a12.", 58))).json(t)["client_id"].(string)
	h.caller().postJSON("/oauth/register", `{"client_name":"Quill","redirect_uris":["https://quill.example/cb"]}`)
	h.change("/v1/directory", fmt.Sprintf(`{"reason":"test","roles":[{"id":"long","organization":"nordlys","circle":"nordlys-anchor","name":%q,"fillers":["ada"]}]}`, strings.Repeat("lang", 24)))
	h.connected("", "organization", "nordlys", "grant", "roles", "role:long", "read") // a living one
	approval := h.items("/v1/approvals?state=live")[0]["id"].(string)
	person, organization := h.items("/v1/approvals?state=live")[0]["person"].(string), h.items("/v1/approvals?state=live")[0]["organization"].(string)
	var attempt string
	for until := time.Now().Add(time.Minute); attempt == "" && time.Now().Before(until); time.Sleep(100 * time.Millisecond) { // written some seconds later
		if list := h.items("/v1/attempts"); len(list) > 0 {
			attempt = list[0]["id"].(string)
		}
	}
	for range 25 { // over the limit
		h.callerFrom("127.9.9.9").postJSON("/oauth/register", "{}")
	}
	ctx, code := chromium.Start(t, chromium.Still), chromium.Axe(t)
	base := strings.Replace(h.operator, "http://", "http://"+url.UserPassword("operator", h.password).String()+"@", 1)
	for _, path := range []string{
		"/", "/?range=30d", "/clients", "/clients/" + wide, "/clients/" + wide + "/disable", "/clients/" + f.client, "/clients/" + f.client + "/enable",
		"/approvals", "/approvals?person=nobody", "/approvals/" + approval + "/revoke", "/events",
		"/approvals/" + approval + "/explain", "/approvals/" + approval + "/activity", "/revoke-many", "/inspect", "/add-client", "/delete-unapproved", "/clients/" + f.client + "/delete",
		"/people", "/people?q=nobody", "/people/" + person, "/people/" + person + "/deactivate", "/people/" + person + "/link", "/add-person",
		"/organizations", "/organizations/" + organization, "/organizations/" + organization + "/members", "/organizations/" + organization + "/turn-off", "/organizations/" + organization + "/add-member",
		"/health", "/attempts", "/attempts?range=week", "/attempts/" + attempt, "/clients/none",
	} {
		err := chromedp.Do(ctx, chromedp.Navigate(base+path))
		if err == nil {
			_, err = chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void](code+";undefined"))
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, width := range []int64{1280, 900, 390, 320} {
			for _, scheme := range []string{"light", "dark"} {
				said, err := lookAt(ctx, width, scheme)
				if err != nil || len(said) > 0 {
					t.Errorf("%s at %d px, %s: %v\n%s", path, width, scheme, err, strings.Join(said, "\n"))
				}
			}
		}
	}
	title, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.title"))
	if err != nil || title != "Not possible – Operator – Svalinn" {
		t.Errorf("the last page is %q: %v", title, err)
	}
}

// UX-5 and UX-6 for the console: a client is disabled with the keyboard alone,
// and without script, since there is none.
func TestConsoleByKeyboard(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, _ := h.connected("")
	ctx := chromium.Start(t)
	base := strings.Replace(h.operator, "http://", "http://"+url.UserPassword("operator", h.password).String()+"@", 1)
	where := ""
	step := func(keys string) {
		t.Helper()
		if err := chromedp.Do(ctx, chromedp.KeyEvent(keys)); err != nil {
			t.Fatal(err)
		}
		var err error
		const active = `document.activeElement ? document.activeElement.localName + " " + document.activeElement.textContent.trim() : ""`
		if where, err = chromedp.Run(ctx, chromedp.Evaluate[string](active)); err != nil {
			t.Fatal(err)
		}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(base+"/clients/"+f.client+"/disable")); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if step("\t"); where == "textarea " {
			break
		}
	}
	step("imitates us")
	if step("\t"); where != "button Disable" {
		t.Fatalf("after the reason comes %q", where)
	}
	if err := chromedp.Do(ctx, chromedp.KeyEvent("\r")); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.WaitVisible("[role=status]")); err != nil {
		t.Fatal(err)
	}
	if got := h.operate("/v1/clients/" + f.client).json(t)["state"]; got != "disabled" {
		t.Errorf("the client is %v", got)
	}
	for range 3000 { // autofocus comes with the end of the page
		if where, _ = chromedp.Run(ctx, chromedp.Evaluate[string]("document.activeElement?.getAttribute('role') ?? ''")); where == "status" {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("the focus is on %q", where)
}
