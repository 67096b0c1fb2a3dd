package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/client"
)

// Branding is how an installation's pages look like its service. The zero value
// is the look of Grantkeeper itself.
type Branding struct {
	Logo       []byte // an SVG or PNG file of at most MaxLogo bytes
	Accent     string // #rrggbb: of links, the chosen and the first button, on light pages
	AccentDark string // the same on dark ones
	Support    string // https or mailto URL: where people get help
	Links      []Link // to legal pages
}

// A Link stands at the foot of every page.
type Link struct{ Name, URL string }

// MaxLogo is how many bytes a logo may have: with it the heaviest page stays
// below 30 KB.
const MaxLogo = 10 << 10

// Check finds what is wrong with a branding. What passes cannot run anything in
// a page, nor make it hard to read.
func (b Branding) Check() error {
	if len(b.Logo) > 0 {
		if _, err := logoKind(b.Logo); err != nil {
			return fmt.Errorf("logo_file: %w", err)
		}
	}
	if (b.Accent == "") != (b.AccentDark == "") {
		return errors.New("accent: it needs both colours, for light and for dark pages")
	}
	if b.Accent != "" {
		if err := lightPages.check(b.Accent); err != nil {
			return fmt.Errorf("accent: %w", err)
		}
		if err := darkPages.check(b.AccentDark); err != nil {
			return fmt.Errorf("accent_dark: %w", err)
		}
	}
	if b.Support != "" && !leadsOut(b.Support, "https", "mailto") {
		return fmt.Errorf("support_url: %q is neither an https nor a mailto URL", b.Support)
	}
	for i, l := range b.Links {
		if strings.TrimSpace(l.Name) == "" || utf8.RuneCountInString(l.Name) > 60 || client.CheckName(l.Name) != nil {
			return fmt.Errorf("links[%d]: the name is empty, too long, or has markup or control characters", i)
		}
		if !leadsOut(l.URL, "https") {
			return fmt.Errorf("links[%d]: %q is no https URL", i, l.URL)
		}
	}
	return nil
}

func leadsOut(address string, schemes ...string) bool {
	u, err := url.Parse(address)
	return err == nil && slices.Contains(schemes, u.Scheme) && u.Host+u.Opaque != "" && u.User == nil
}

// A colour is red, green and blue, 0 to 255.
type colour [3]float64

var colourText = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

func readColour(text string) (c colour, err error) {
	if !colourText.MatchString(text) {
		return c, fmt.Errorf("%q is no colour such as #0a6557", text)
	}
	n, err := strconv.ParseUint(text[1:], 16, 32)
	return colour{float64(n >> 16), float64(n >> 8 & 255), float64(n & 255)}, err
}

func (c colour) String() string {
	return fmt.Sprintf("#%02x%02x%02x", int(math.Round(c[0])), int(math.Round(c[1])), int(math.Round(c[2])))
}

// in gives c thinned: so much of it in another colour.
func (c colour) in(other colour, share float64) (out colour) {
	for i := range c {
		out[i] = math.Round(c[i]*share + other[i]*(1-share))
	}
	return out
}

// luminance is the relative luminance of WCAG 2.2.
func (c colour) luminance() float64 {
	linear := func(v float64) float64 {
		if v /= 255; v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

// contrast is the contrast ratio of two colours (WCAG 2.2), 1 to 21.
func contrast(a, b colour) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// textContrast is what text needs (WCAG 2.2 section 1.4.3). The borders of
// controls and the ring of focus have the accent too, and would do with 3.
const textContrast = 4.5

// A scheme is what an accent is seen with, of the stylesheet.
type scheme struct {
	page, card, ink colour
	tint            float64 // how much of the accent is in what is chosen
}

var (
	lightPages = scheme{colour{0xf3, 0xf4, 0xf6}, colour{255, 255, 255}, colour{0x15, 0x18, 0x1c}, 0.1}
	darkPages  = scheme{colour{0x0e, 0x11, 0x14}, colour{0x17, 0x1b, 0x20}, colour{0xe9, 0xec, 0xef}, 0.18}
)

// with gives what an accent brings: its tint, and what is written on it.
func (s scheme) with(accent colour) (tint, on colour) {
	tint, on = accent.in(s.card, s.tint), colour{255, 255, 255}
	if dark := (colour{0x0b, 0x0e, 0x11}); contrast(dark, accent) > contrast(on, accent) {
		on = dark
	}
	return tint, on
}

func (s scheme) check(text string) error {
	accent, err := readColour(text)
	if err != nil {
		return err
	}
	tint, on := s.with(accent)
	for _, pair := range []struct {
		what string
		a, b colour
	}{
		{"on the page", accent, s.page}, {"on a card", accent, s.card}, {"on what is chosen", accent, tint},
		{"of text on what is chosen", s.ink, tint}, {"of a button's text", on, accent},
	} {
		if c := contrast(pair.a, pair.b); c < textContrast {
			return fmt.Errorf("%s has a contrast of %.1f %s, and at least %.1f is needed", text, math.Floor(c*10)/10, pair.what, textContrast)
		}
	}
	return nil
}

// rules sets the colours of a scheme in the stylesheet.
func (s scheme) rules(text string) string {
	accent, _ := readColour(text) // checked
	tint, on := s.with(accent)
	return fmt.Sprintf(":root{--accent:%s;--accent-tint:%s;--on-accent:%s}", accent, tint, on)
}

// assets are the embedded ones, with this branding's stylesheet and logo.
func (b Branding) assets() *assetSet {
	files := embedded()
	if b.Accent != "" {
		files["app.css"] = slices.Concat(files["app.css"], []byte("\n"+lightPages.rules(b.Accent)+
			"@media(prefers-color-scheme:dark){"+darkPages.rules(b.AccentDark)+"}\n"))
	}
	if kind, err := logoKind(b.Logo); err == nil {
		files["logo"+kind] = b.Logo
	}
	return newAssets(files)
}

// logoName is the logo among the assets, or "".
func (b Branding) logoName() string {
	if kind, err := logoKind(b.Logo); err == nil {
		return "logo" + kind
	}
	return ""
}

// logoKind tells what a logo is by its content: .svg or .png.
func logoKind(file []byte) (string, error) {
	switch {
	case len(file) > MaxLogo:
		return "", fmt.Errorf("it has %d bytes, more than %d", len(file), MaxLogo)
	case bytes.HasPrefix(file, []byte("\x89PNG\r\n\x1a\n")):
		c, err := png.DecodeConfig(bytes.NewReader(file))
		if err != nil {
			return "", fmt.Errorf("as PNG: %w", err)
		}
		if c.Width > 2048 || c.Height > 2048 {
			return "", fmt.Errorf("it is %d by %d, more than 2048 by 2048", c.Width, c.Height)
		}
		return ".png", nil
	}
	if err := checkSVG(file); err != nil {
		return "", fmt.Errorf("it is no PNG, and as SVG: %w", err)
	}
	return ".svg", nil
}

// svgElements are those that only draw.
var svgElements = []string{"svg", "g", "path", "circle", "ellipse", "rect", "line", "polyline", "polygon", "defs", "title", "desc",
	"linearGradient", "radialGradient", "stop", "clipPath", "mask", "use", "text", "tspan", "symbol"}

// checkSVG refuses a drawing that could do anything but be drawn: elements
// that are not for drawing, handlers, addresses and entities.
func checkSVG(file []byte) error {
	if !utf8.Valid(file) {
		return errors.New("it is not UTF-8")
	}
	d := xml.NewDecoder(bytes.NewReader(file))
	first := true
	for {
		t, err := d.Token()
		if err == io.EOF && !first {
			return nil
		} else if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.Directive:
			return errors.New("it has a document type: take it out")
		case xml.ProcInst:
			if t.Target != "xml" {
				return fmt.Errorf("it has <?%s>: take it out", t.Target)
			}
		case xml.StartElement:
			if err := checkDrawing(t, first); err != nil {
				return err
			}
			first = false
		}
	}
}

func checkDrawing(t xml.StartElement, first bool) error {
	if first && t.Name.Local != "svg" {
		return fmt.Errorf("it begins with <%s>", t.Name.Local)
	}
	if !slices.Contains(svgElements, t.Name.Local) || t.Name.Space != "http://www.w3.org/2000/svg" {
		return fmt.Errorf("<%s> is refused: a logo is shapes, gradients and text", t.Name.Local)
	}
	for _, a := range t.Attr {
		name, value := strings.ToLower(a.Name.Local), strings.ToLower(a.Value)
		switch local := strings.ReplaceAll(value, "url(#", ""); {
		case a.Name.Space == "xmlns" || a.Name.Local == "xmlns":
		case strings.HasPrefix(name, "on"), name == "style" && strings.ContainsAny(value, `\@`):
			return fmt.Errorf("attribute %s is refused", a.Name.Local)
		case name == "href" && !strings.HasPrefix(value, "#"), strings.Contains(local, "url("), strings.Contains(value, "javascript:"):
			return fmt.Errorf("attribute %s leads out of the drawing", a.Name.Local)
		}
	}
	return nil
}
