package page

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"regexp"
	"strings"
	"testing"
)

const drawing = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><defs><linearGradient id="g"><stop offset="0" stop-color="#123456"/></linearGradient></defs><rect width="8" height="8" fill="url(#g)"/></svg>`

func drawn(t *testing.T, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBrandingCheck(t *testing.T) {
	svg := func(inside string) []byte {
		return []byte(`<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">` + inside + `</svg>`)
	}
	for name, tt := range map[string]struct {
		b    Branding
		says string // of the error; empty: none
	}{
		"nothing":               {Branding{}, ""},
		"drawing":               {Branding{Logo: []byte(drawing)}, ""},
		"picture":               {Branding{Logo: pngOf(t)}, ""},
		"colours":               {Branding{Accent: "#7a1fa2", AccentDark: "#d8a8ee"}, ""},
		"links":                 {Branding{Support: "mailto:help@svalinn.example", Links: []Link{{"Impressum", "https://svalinn.example/imprint"}}}, ""},
		"one colour":            {Branding{Accent: "#7a1fa2"}, "both colours"},
		"no colour":             {Branding{Accent: "red", AccentDark: "#d8a8ee"}, "no colour"},
		"colour with more":      {Branding{Accent: "#7a1fa2;}", AccentDark: "#d8a8ee"}, "no colour"},
		"pale on light":         {Branding{Accent: "#ffcc00", AccentDark: "#ffcc00"}, "accent: #ffcc00 has a contrast of 1.3 on the page, and at least 4.5 is needed"},
		"grey on light":         {Branding{Accent: "#808080", AccentDark: "#d8a8ee"}, "contrast of 3.5"},
		"dark on dark":          {Branding{Accent: "#7a1fa2", AccentDark: "#7a1fa2"}, "accent_dark: #7a1fa2 has a contrast of"},
		"script":                {Branding{Logo: svg(`<script>alert(1)</script>`)}, "<script> is refused"},
		"handler":               {Branding{Logo: svg(`<rect onload="alert(1)"/>`)}, "onload is refused"},
		"another handler":       {Branding{Logo: svg(`<rect OnClick="alert(1)"/>`)}, "OnClick is refused"},
		"handler on the root":   {Branding{Logo: []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`)}, "onload is refused"},
		"foreign object":        {Branding{Logo: svg(`<foreignObject/>`)}, "is refused"},
		"picture from outside":  {Branding{Logo: svg(`<image href="https://evil.example/x.png"/>`)}, "is refused"},
		"use from outside":      {Branding{Logo: svg(`<use xlink:href="https://evil.example/x.svg#a"/>`)}, "leads out"},
		"link":                  {Branding{Logo: svg(`<a href="javascript:alert(1)"/>`)}, "is refused"},
		"fill from outside":     {Branding{Logo: svg(`<rect fill="url(https://evil.example/x.svg#a)"/>`)}, "leads out"},
		"style from outside":    {Branding{Logo: svg(`<rect style="fill:u\72l(x)"/>`)}, "style is refused"},
		"stylesheet":            {Branding{Logo: svg(`<style>@import "x"</style>`)}, "is refused"},
		"animation":             {Branding{Logo: svg(`<set attributeName="href" to="javascript:alert(1)"/>`)}, "is refused"},
		"entities":              {Branding{Logo: []byte(`<!DOCTYPE svg [<!ENTITY a "b">]>` + drawing)}, "document type"},
		"stylesheet before it":  {Branding{Logo: []byte(`<?xml-stylesheet href="x.css"?>` + drawing)}, "take it out"},
		"HTML":                  {Branding{Logo: []byte(`<html><body/></html>`)}, "begins with <html>"},
		"SVG of no namespace":   {Branding{Logo: []byte(`<svg><path/></svg>`)}, "is refused"},
		"cut off":               {Branding{Logo: []byte(drawing[:50])}, "XML syntax error"},
		"text":                  {Branding{Logo: []byte("logo")}, "EOF"},
		"no UTF-8":              {Branding{Logo: []byte("\xff" + drawing)}, "not UTF-8"},
		"too large":             {Branding{Logo: svg(strings.Repeat(" ", MaxLogo))}, "more than 10240"},
		"PNG cut off":           {Branding{Logo: []byte("\x89PNG\r\n\x1a\nxx")}, "as PNG"},
		"PNG of too many dots":  {Branding{Logo: drawn(t, 2049, 1)}, "2049 by 1"},
		"support by script":     {Branding{Support: "javascript:alert(1)"}, "support_url"},
		"support without TLS":   {Branding{Support: "http://svalinn.example"}, "support_url"},
		"link without host":     {Branding{Links: []Link{{"x", "https:///x"}}}, "links[0]"},
		"link with a password":  {Branding{Links: []Link{{"x", "https://a:b@svalinn.example"}}}, "links[0]"},
		"link without a name":   {Branding{Links: []Link{{" ", "https://svalinn.example"}}}, "links[0]"},
		"link named by markup":  {Branding{Links: []Link{{"<b>", "https://svalinn.example"}}}, "links[0]"},
		"link named by RLO":     {Branding{Links: []Link{{"a\u202eb", "https://svalinn.example"}}}, "links[0]"},
		"link with a long name": {Branding{Links: []Link{{strings.Repeat("x", 61), "https://svalinn.example"}}}, "links[0]"},
	} {
		switch err := tt.b.Check(); {
		case tt.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}

func pngOf(t *testing.T) []byte { return drawn(t, 64, 64) }

// UX-17: what the stylesheet writes on what, in both schemes.
func TestContrast(t *testing.T) {
	css := string(embedded()["app.css"])
	blocks := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(css, 2)
	if len(blocks) != 2 {
		t.Fatal("the stylesheet has no two schemes")
	}
	for i, pages := range []scheme{lightPages, darkPages} {
		c := map[string]colour{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{3,6});`).FindAllStringSubmatch(blocks[i][1], -1) {
			text := m[2]
			if len(text) == 4 {
				text = fmt.Sprintf("#%c%c%c%c%c%c", text[1], text[1], text[2], text[2], text[3], text[3])
			}
			var err error
			if c[m[1]], err = readColour(text); err != nil {
				t.Fatal(err)
			}
		}
		if c["page"] != pages.page || c["card"] != pages.card || c["ink"] != pages.ink {
			t.Errorf("scheme %d: an accent is checked against %v, the stylesheet has %v", i, pages, c)
		}
		for pair, least := range map[string]float64{
			"ink page": 4.5, "ink card": 4.5, "ink well": 4.5, "soft page": 4.5, "soft card": 4.5, "soft well": 4.5,
			"accent page": 4.5, "accent card": 4.5, "accent well": 4.5, "accent accent-tint": 4.5, "ink accent-tint": 4.5, "soft accent-tint": 4.5,
			"on-accent accent": 4.5, "care care-tint": 4.5, "ink stop-tint": 4.5, "soft stop-tint": 4.5, "stop stop-tint": 4.5, "stop card": 4.5, "on-stop stop": 4.5,
			"edge page": 3, "edge card": 3, "edge well": 3, "edge accent-tint": 3, "stop page": 3,
		} {
			a, b, _ := strings.Cut(pair, " ")
			if got := contrast(c[a], c[b]); c[a] == c[b] || got < least {
				t.Errorf("scheme %d: %s has a contrast of %.2f, want %.1f", i, pair, got, least)
			}
		}
	}
}
