package signin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/boombuler/barcode/qr"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// modules reads an SVG path of pictureOf back.
func modules(t *testing.T, p *picture) map[[2]int]bool {
	t.Helper()
	dark := map[[2]int]bool{}
	for one := range strings.SplitSeq(strings.TrimSuffix(p.Path, "z"), "z") {
		var x, y, n, back int
		if _, err := fmt.Sscanf(one, "M%d %dh%dv1h-%d", &x, &y, &n, &back); err != nil || n < 1 || n != back {
			t.Fatalf("%q: %v", one, err)
		}
		for i := range n {
			if dark[[2]int{x + i, y}] {
				t.Fatalf("%d %d is drawn twice", x+i, y)
			}
			dark[[2]int{x + i, y}] = true
		}
	}
	return dark
}

// The picture has the code's dark modules and no others, with a margin of four.
func TestPictureIsTheCode(t *testing.T) {
	for _, text := range []string{"a", "otpauth://totp/Svalinn:ada%40nordlys.example?secret=JBSWY3DPEHPK3PXP&issuer=Svalinn", strings.Repeat("é", 500)} {
		p := pictureOf(text)
		code, err := qr.Encode(text, qr.M, qr.Unicode)
		if err != nil || p == nil {
			t.Fatal(p, err)
		}
		dark, side := modules(t, p), code.Bounds().Dx()
		if p.Side != side+8 {
			t.Errorf("%d modules wide, want %d and a margin", p.Side, side)
		}
		for y := range p.Side {
			for x := range p.Side {
				inside := x >= 4 && y >= 4 && x < side+4 && y < side+4
				want := false
				if inside {
					r, g, b, _ := code.At(x-4, y-4).RGBA()
					want = r+g+b == 0
				}
				if dark[[2]int{x, y}] != want {
					t.Fatalf("%.20q: module %d %d: dark is %t", text, x, y, !want)
				}
			}
		}
	}
	if p := pictureOf(strings.Repeat("x", 3000)); p != nil {
		t.Error("what no code can hold has a picture")
	}
}

// Beside the key in text stands the same as a picture, which nobody needs and
// which no page shows later.
func TestKeyOfAnAppAsAPicture(t *testing.T) {
	s := newSite(t)
	p := s.SignedIn("ada").Get("/account/sign-in").Want(200).Press("/account/sign-in/app").Want(200)
	pictures := func(p *pagetest.Shown) (all []string) {
		for n := range p.Doc.Descendants() {
			if n.DataAtom == atom.Svg && pagetest.Attr(n, "class") == "qr" {
				if pagetest.Attr(n, "aria-hidden") != "true" || pagetest.Attr(n, "style") != "" {
					t.Errorf("%v", n.Attr)
				}
				all = append(all, pagetest.Attr(n.FirstChild, "d"))
			}
		}
		return all
	}
	want := pictureOf(p.Link("Open it in an app on this device"))
	if got := pictures(p); len(got) != 1 || got[0] != want.Path {
		t.Errorf("%d pictures, or another", len(got))
	}
	if got := pictures(p.B.Get("/account/sign-in")); len(got) != 0 {
		t.Error("the picture is shown again")
	}
}
