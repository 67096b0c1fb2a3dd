package consent

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/grantkeeper/grantkeeper/client"
)

// Case B-06: marks that pile up on a letter, and a row of them that no line can
// break, cover nothing beside the name. The page is looked at with the name and
// without it, and is the same but where the name stands.
func TestNamesCoverNothing(t *testing.T) {
	t.Parallel()
	c := newChrome(t)
	b := c.tab(t)
	b.open(c.authorizeURL())
	b.signIn()
	b.run(chromedp.WaitVisible(chromedp.ID("consent")))
	for id, name := range map[string]string{
		"above":  "Quill" + strings.Repeat("\u0302\u030d\u0311\u0306", 23),
		"below":  "Quill" + strings.Repeat("\u0323\u0331\u032d\u0330", 23),
		"around": "A" + strings.Repeat("\u20dd\u20de\u20e3", 33),
		"many":   strings.Repeat("g"+strings.Repeat("\u0331", 9), 10),
	} {
		at := "https://connect.quill.example/" + id
		c.register(client.Client{ID: id, Name: name, RedirectURIs: []string{at}})
		b.open(c.base + authorize("client_id", id, "redirect_uri", at))
		if n := outside(b); n != 0 {
			t.Errorf("%s: the name covers %d pixels of the consent page", id, n)
		}
		b.open(c.base + authorize("client_id", id, "redirect_uri", at, "scope", "x"))
		if n := outside(b); n != 0 {
			t.Errorf("%s: the name covers %d pixels of the page about a fault", id, n)
		}
	}
}

// outside counts the pixels that a client's name gives another colour to beside
// the place where it stands, which may be a few pixels higher than its lines.
func outside(b *tab) (n int) {
	b.t.Helper()
	b.until("document.querySelector('.called') !== null && document.fonts.status === 'loaded'")
	box, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]float64]("(r => [r.left, r.top, r.right, r.bottom])(document.querySelector('.called').getBoundingClientRect())"))
	if err != nil {
		b.t.Fatal(err)
	}
	place := image.Rect(int(box[0])-1, int(box[1])-1, int(box[2])+2, int(box[3])+2)
	with := b.seen()
	b.eval("document.querySelector('.called').style.visibility = 'hidden'")
	without := b.seen()
	if with.Bounds() != without.Bounds() || !place.In(with.Bounds()) {
		b.t.Fatalf("pictures of %v and %v, and the name is at %v", with.Bounds(), without.Bounds(), place)
	}
	inside := 0
	for y := range with.Bounds().Dy() {
		for x := range with.Bounds().Dx() {
			switch p := image.Pt(x, y); {
			case alike(with.At(x, y), without.At(x, y)):
			case p.In(place):
				inside++
			default:
				n++
			}
		}
	}
	if inside == 0 {
		b.t.Fatal("the name is not to be seen at all")
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
func (b *tab) seen() image.Image {
	b.t.Helper()
	shot, err := chromedp.Call(b.ctx, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{})
	if err != nil {
		b.t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		b.t.Fatal(err)
	}
	return picture
}
