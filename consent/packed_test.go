package consent

import (
	"net/url"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// Two pages of one session have nothing of a form token in common, and both
// of their forms are accepted.
func TestFormTokensAreMasked(t *testing.T) {
	s := newSite(t)
	b := s.SignedIn("ada")
	for _, path := range []string{"/", "/account", pagetest.NordlysApps, pagetest.Authorize()} {
		var texts []string
		for range 2 {
			p := b.Get(path).Want(200)
			_, rest, _ := strings.Cut(p.Body, `name="csrf" value="`)
			text, _, _ := strings.Cut(rest, `"`)
			if len(text) < 40 {
				t.Fatalf("%s: form token %q", path, text)
			}
			if !s.Ring.CheckFormToken(b.Cookies[b.CookieName("session")], text) {
				t.Errorf("%s: form token %q is refused", path, text)
			}
			texts = append(texts, text)
		}
		first, second := strings.TrimPrefix(texts[0], "1."), strings.TrimPrefix(texts[1], "1.")
		for i := 0; i+6 <= len(first); i++ {
			if strings.Contains(second, first[i:i+6]) {
				t.Errorf("%s: %s and %s both have %s", path, first, second, first[i:i+6])
			}
		}
	}
}

// What a page repeats of its address finds nothing of an earlier page's form
// token to be compressed with: a right guess is as long as a wrong one.
func TestGuessesOfFormTokens(t *testing.T) {
	s := newSite(t)
	b := s.SignedIn("ada")
	b.Connect()
	token := b.Get(pagetest.NordlysSettings).Fill("/signout").Get("csrf")
	p := b.Get(pagetest.NordlysSettings + "?find=" + url.QueryEscape(`name="csrf" value="`+token)).Want(200)
	if n := strings.Count(p.Body, token); n != 1 { // the search field
		t.Errorf("the page has the guessed form token %d times, want once", n)
	}
}

// A page is compressed when the person or a page of ours led to it, and never
// when another site did or the browser does not say.
func TestPackedOnlyFromHere(t *testing.T) {
	s := newSite(t)
	b := s.SignedIn("ada")
	b.Header.Set("Accept-Encoding", "gzip")
	for _, path := range []string{"/", pagetest.NordlysApps, pagetest.NordlysSettings + "?find=a", pagetest.Authorize()} {
		for site, want := range map[string]string{"same-origin": "gzip", "none": "gzip", "same-site": "", "cross-site": "", "": ""} {
			b.Header.Del("Sec-Fetch-Site")
			if site != "" {
				b.Header.Set("Sec-Fetch-Site", site)
			}
			if got := b.Get(path).Want(200).Header.Get("Content-Encoding"); got != want {
				t.Errorf("%s, led to by %q: Content-Encoding %q, want %q", path, site, got, want)
			}
		}
	}
}
