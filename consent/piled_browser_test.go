package consent

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// atConsent is a tab with the consent page, of somebody who has just signed in.
func atConsent(t *testing.T) *tab {
	t.Helper()
	c := newChrome(t)
	b := c.tab(t)
	b.open(c.authorizeURL())
	b.signIn()
	b.run(chromedp.WaitVisible(chromedp.ID("consent")))
	return b
}

// Case B-06: marks that pile up on a letter, and a row of them that no line can
// break, cover nothing beside the name. The page is looked at with the name and
// without it, and is the same but where the name stands.
func TestNamesCoverNothing(t *testing.T) {
	t.Parallel()
	b := atConsent(t)
	c := b.chrome
	for id, name := range map[string]string{
		"above":  "Quill" + strings.Repeat("\u0302\u030d\u0311\u0306", 23),
		"below":  "Quill" + strings.Repeat("\u0323\u0331\u032d\u0330", 23),
		"around": "A" + strings.Repeat("\u20dd\u20de\u20e3", 33),
		"many":   strings.Repeat("g"+strings.Repeat("\u0331", 9), 10),
	} {
		at := "https://connect.quill.example/" + id
		c.Register(client.Client{ID: id, Name: name, RedirectURIs: []string{at}})
		b.open(c.At + pagetest.Authorize("client_id", id, "redirect_uri", at))
		if n := outside(b); n != 0 {
			t.Errorf("%s: the name covers %d pixels of the consent page", id, n)
		}
		b.open(c.At + pagetest.Authorize("client_id", id, "redirect_uri", at, "scope", "x"))
		if n := outside(b); n != 0 {
			t.Errorf("%s: the name covers %d pixels of the page about a fault", id, n)
		}
	}
}

// What a person, an organization, a circle or a role is called covers as little.
func TestOurNamesCoverNothing(t *testing.T) {
	t.Parallel()
	c := newChrome(t)
	piled := func(letter string) string { return letter + strings.Repeat("\u033f\u035e\u0360", 33) }
	c.Do(c.Store.AddDirectory(context.Background(), store.Directory{
		People: []store.DirectoryPerson{{Person: org.Person{ID: "pia", Email: "pia@nordlys.example", Name: piled("P"), Active: true}, PasswordHash: pagetest.PasswordHash}},
		Organizations: []org.Organization{{ID: "one", Name: piled("O"), AIIntegration: true}, {ID: "two", Name: piled("T"), AIIntegration: true},
			{ID: "off", Name: piled("F")}},
		Circles: []org.Circle{{ID: "c", Organization: "one", Name: piled("C")}},
		Roles:   []org.Role{{ID: "r1", Organization: "one", Circle: "c", Name: piled("R")}, {ID: "r2", Organization: "one", Circle: "c", Name: piled("S")}},
		Fillers: []store.Filler{{Role: "r1", Person: "pia"}, {Role: "r2", Person: "pia"}},
		Members: []store.DirectoryMember{{Person: "pia", Organization: "one", Admin: true}, {Person: "pia", Organization: "two"}, {Person: "pia", Organization: "off"}},
	}, store.Act{Actor: "system"}))
	approve := func() approval.ID {
		code := c.SignedIn("pia").Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", "one", "role:r1", "read", "decision", "approve").Sent(pagetest.Callback).Get("code")
		if v := c.Exchange(code); v != approval.OK {
			t.Fatalf("exchange: %v", v)
		}
		return approval.ID(c.Claim(code).Handle.ID())
	}
	c.Do(c.Store.EndApproval(context.Background(), approve(), approval.RevokedByAdmin, store.Act{Actor: "system"}))
	id := approve().String()

	b := c.tab(t)
	b.open(c.At + "/signin")
	b.run(chromedp.WaitVisible(chromedp.ID("email")), chromedp.SendKeys(chromedp.ID("email"), "pia@nordlys.example"),
		chromedp.SendKeys(chromedp.ID("password"), pagetest.Password+kb.Enter))
	b.until("location.pathname === '/' && document.readyState === 'complete'")
	for _, path := range []string{pagetest.Authorize(), "/", "/organizations/one/profile/api", "/organizations/one/profile/api/" + id + "/edit",
		"/organizations/one/settings/ai-integration", "/organizations/one/settings/ai-integration/" + id, "/organizations/one/leave"} {
		b.open(c.At + path)
		b.eval("document.querySelectorAll('details').forEach(d => d.open = true); document.querySelectorAll('[value=one]').forEach(e => e.checked = true)")
		for _, width := range []int64{1280, 390} {
			b.wide(width)
			if n := outside(b); n != 0 {
				t.Errorf("%s, %d px wide: names cover %d pixels", path, width, n)
			}
		}
	}
}

// What stands after a name in our sentences stays with it, however wide the page is.
func TestNamesKeepWhatFollows(t *testing.T) {
	t.Parallel()
	b := atConsent(t)
	b.items()
	b.open(b.authorizeURL())
	b.choose("organization", "nordlys", "role:treasurer", "change")
	b.want(`(() => {
		const name = document.querySelector("#allows li bdi")
		const mark = document.createRange(), where = name.parentNode
		mark.setStart(name.nextSibling, 0)
		mark.setEnd(name.nextSibling, 1)
		for (let width = 100; width < 300; width++) {
			where.style.inlineSize = width + "px"
			const last = [...name.getClientRects()].at(-1)
			if (mark.getBoundingClientRect().top >= last.bottom - 2) return false
		}
		return true
	})()`)
}

// wide gives the page that width, and the height that it then needs.
func (b *tab) wide(width int64) {
	b.t.Helper()
	resize := func(height int64) {
		_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	resize(400)
	height, err := chromedp.Run(b.ctx, chromedp.Evaluate[int64]("document.documentElement.scrollHeight"))
	if err != nil {
		b.t.Fatal(err)
	}
	resize(height)
}

// outside counts the pixels that names give another colour to beside the places
// where they stand, which may be a few pixels larger than their lines.
func outside(b *tab) (n int) {
	b.t.Helper()
	b.until("document.querySelector('bdi:not(.host)') !== null && document.fonts.status === 'loaded'")
	boxes, err := chromedp.Run(b.ctx, chromedp.Evaluate[[][]float64](`[...document.querySelectorAll("bdi:not(.host)")].flatMap(e => [...e.getClientRects()]).map(r => [r.left, r.top, r.right, r.bottom])`))
	if err != nil {
		b.t.Fatal(err)
	}
	var places []image.Rectangle
	for _, box := range boxes {
		places = append(places, image.Rect(int(box[0])-2, int(box[1])-2, int(box[2])+3, int(box[3])+3))
	}
	with := b.seen()
	b.eval("document.querySelectorAll('bdi:not(.host)').forEach(e => e.style.visibility = 'hidden')")
	without := b.seen()
	b.eval("document.querySelectorAll('bdi:not(.host)').forEach(e => e.style.visibility = '')")
	if with.Bounds() != without.Bounds() {
		b.t.Fatalf("pictures of %v and %v", with.Bounds(), without.Bounds())
	}
	inside := 0
	for y := range with.Bounds().Dy() {
		if row := y * with.Stride; bytes.Equal(with.Pix[row:row+with.Stride], without.Pix[row:row+with.Stride]) {
			continue // nearly all: to look at each pixel takes ten times as long
		}
		for x := range with.Bounds().Dx() {
			p := image.Pt(x, y)
			switch {
			case alike(with.At(x, y), without.At(x, y)):
			case slices.ContainsFunc(places, p.In):
				inside++
			default:
				n++
			}
		}
	}
	if inside == 0 {
		b.t.Fatal("the names are not to be seen at all")
	}
	return n
}

// alike takes what is drawn anew, such as the edge of a round mark, for the
// same: it comes out a shade apart now and then.
func alike(a, b color.Color) bool {
	one, other := color.GrayModel.Convert(a).(color.Gray).Y, color.GrayModel.Convert(b).(color.Gray).Y
	return max(one, other)-min(one, other) < 64
}

// seen is what of the page is in view.
func (b *tab) seen() *image.RGBA {
	b.t.Helper()
	shot, err := chromedp.Call(b.ctx, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{})
	if err != nil {
		b.t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		b.t.Fatal(err)
	}
	all := image.NewRGBA(picture.Bounds())
	draw.Draw(all, all.Bounds(), picture, all.Bounds().Min, draw.Src)
	return all
}
