package consent

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// ux 10: with forced colours it still shows where the focus is, what is chosen
// and which tab is open.
func TestForcedColours(t *testing.T) {
	c := newChrome(t)
	b := c.tab(t)
	check := b.quiet()
	b.open(c.authorizeURL())
	b.signIn()
	b.run(chromedp.WaitVisible(chromedp.ID("consent")))
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}, {Name: "prefers-reduced-motion", Value: "reduce"}}}); err != nil {
		t.Fatal(err)
	}
	b.click("[name=organization][value=nordlys]")
	b.eval("document.querySelector('.org-2 details').open = true; document.querySelector(\"[name='role:treasurer'][value=none]\").focus()")
	for key, chosen := range map[string]string{kb.ArrowRight: "read", kb.ArrowLeft: "none"} {
		b.eval("document.querySelector(\"[name='role:treasurer'][value=" + map[string]string{"read": "none", "none": "read"}[chosen] + "]\").focus()")
		b.run(chromedp.KeyEvent(key))
		b.want("document.activeElement.checked && document.activeElement.value === '" + chosen + "'")
		b.eval("var one = getComputedStyle(document.activeElement.parentNode), other = getComputedStyle(document.activeElement.parentNode.nextElementSibling)")
		b.want("one.backgroundColor !== other.backgroundColor")
		b.want("one.outlineStyle === 'solid' && one.outlineColor === one.color && one.outlineColor !== one.backgroundColor")
		b.eval("Object.assign(document.body.appendChild(document.createElement('i')).style, {color: 'HighlightText', backgroundColor: 'Highlight', forcedColorAdjust: 'none'})")
		b.want("(s => s.color === one.color && s.backgroundColor === one.backgroundColor)(getComputedStyle(document.body.lastChild))")
	}
	b.open(c.At + pagetest.NordlysApps)
	b.want("[...document.querySelectorAll('.tabs > *')].every(e => getComputedStyle(e).borderBlockEndWidth === (e.ariaCurrent ? '3px' : '0px'))")
	check()
}
