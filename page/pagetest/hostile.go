package pagetest

import (
	"maps"
	"net/url"
	"strings"
)

// Hostile sends a form that would change something in every way in which no
// page of ours sends it. Each is refused with a page that says so, and
// unchanged, which is asked after each, says that nothing happened. form is
// what would be right but for its form token; at is where it is posted to.
func (s *Site) Hostile(person, at string, form url.Values, unchanged func() bool) {
	s.T.Helper()
	s.HostileOwn(person, at, form, unchanged)
	stranger := s.SignedIn("eve")
	form.Set("csrf", s.Ring.FormToken(stranger.Cookies[stranger.CookieName("session")]))
	if p := stranger.Post(at, form); p.Status != 404 || !unchanged() {
		s.T.Errorf("%s, of another person: %d", at, p.Status)
	}
}

// HostileOwn is hostile for what everybody has of their own.
func (s *Site) HostileOwn(person, at string, form url.Values, unchanged func() bool) {
	t := s.T
	t.Helper()
	b, other, stranger := s.SignedIn(person), s.SignedIn(person), s.SignedIn("eve")
	token := func(b *Browser) string { return b.Site.Ring.FormToken(b.Cookies[b.CookieName("session")]) }
	with := func(csrf string) url.Values {
		f := url.Values{}
		maps.Copy(f, form)
		f.Del("csrf")
		if csrf != "" {
			f.Set("csrf", csrf)
		}
		return f
	}
	check := func(name string, p *Shown, status int, says string) {
		t.Helper()
		if p.Status != status {
			t.Errorf("%s, %s: %d, want %d: %s", at, name, p.Status, status, p.Text())
		}
		if says != "" && !strings.Contains(p.Text(), says) {
			t.Errorf("%s, %s: the page does not say %q: %s", at, name, says, p.Text())
		}
		if !unchanged() {
			t.Fatalf("%s, %s: something has changed", at, name)
		}
	}
	sent := func(b *Browser, header, value string, f url.Values) *Shown {
		b.Header.Set(header, value)
		defer b.Header.Del(header)
		return b.Post(at, f)
	}
	const earlier = "Nothing was changed. Open the page again and repeat what you did."
	check("no form token", b.Post(at, with("")), 403, earlier)
	check("a made-up form token", b.Post(at, with("forged")), 403, earlier)
	check("a form token of an earlier session", b.Post(at, with(token(other))), 403, earlier)
	check("a form token of another person", b.Post(at, with(token(stranger))), 403, earlier)
	check("two form tokens", func() *Shown {
		f := with(token(b))
		f["csrf"] = append(f["csrf"], token(b))
		return b.Post(at, f)
	}(), 403, earlier)
	check("from another origin", sent(b, "Origin", "https://evil.example", with(token(b))), 403, "This form came from another site.")
	check("from no origin", sent(b, "Origin", "null", with(token(b))), 403, "This form came from another site.")
	check("from another site", sent(b, "Sec-Fetch-Site", "cross-site", with(token(b))), 403, "This form came from another site.")
	check("from a sister site", sent(b, "Sec-Fetch-Site", "same-site", with(token(b))), 403, "This form came from another site.")
	check("another media type", sent(b, "Content-Type", "text/plain", with(token(b))), 400, "This form could not be read.")
	check("too large", b.Post(at, Many(with(token(b)), 100)), 413, "Nothing was changed.")
	check("of nobody", s.Browser().Post(at, with(token(b))), 303, "")
	s.Do(s.Store.EndSession(t.Context(), b.Cookies[b.CookieName("session")]))
	if p := b.Post(at, with(token(b))); p.Status != 303 || !strings.HasPrefix(p.Header.Get("Location"), "/signin?return=") || !unchanged() {
		t.Errorf("%s, of a session that has ended: %d to %q", at, p.Status, p.Header.Get("Location"))
	}
}
