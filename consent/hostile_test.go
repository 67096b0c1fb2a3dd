package consent

import (
	"net/url"
	"strings"
)

// hostile sends a form that would change something in every way in which no
// page of ours sends it. Each is refused with a page that says so, and
// unchanged, which is asked after each, says that nothing happened. form is
// what would be right but for its form token; at is where it is posted to.
func (s *site) hostile(person, at string, form url.Values, unchanged func() bool) {
	s.t.Helper()
	s.hostileOwn(person, at, form, unchanged)
	stranger := s.signedIn("eve")
	form.Set("csrf", s.Ring.FormToken(stranger.cookies[stranger.cookieName("session")]))
	if p := stranger.post(at, form); p.status != 404 || !unchanged() {
		s.t.Errorf("%s, of another person: %d", at, p.status)
	}
}

// hostileOwn is hostile for what everybody has of their own.
func (s *site) hostileOwn(person, at string, form url.Values, unchanged func() bool) {
	t := s.t
	t.Helper()
	b, other, stranger := s.signedIn(person), s.signedIn(person), s.signedIn("eve")
	token := func(b *browser) string { return b.s.Ring.FormToken(b.cookies[b.cookieName("session")]) }
	with := func(csrf string) url.Values {
		f := url.Values{}
		for name, values := range form {
			f[name] = values
		}
		f.Del("csrf")
		if csrf != "" {
			f.Set("csrf", csrf)
		}
		return f
	}
	check := func(name string, p *shown, status int, says string) {
		t.Helper()
		if p.status != status {
			t.Errorf("%s, %s: %d, want %d: %s", at, name, p.status, status, p.text())
		}
		if says != "" && !strings.Contains(p.text(), says) {
			t.Errorf("%s, %s: the page does not say %q: %s", at, name, says, p.text())
		}
		if !unchanged() {
			t.Fatalf("%s, %s: something has changed", at, name)
		}
	}
	sent := func(b *browser, header, value string, f url.Values) *shown {
		b.header.Set(header, value)
		defer b.header.Del(header)
		return b.post(at, f)
	}
	const earlier = "Nothing was changed. Open the page again and repeat what you did."
	check("no form token", b.post(at, with("")), 403, earlier)
	check("a made-up form token", b.post(at, with("forged")), 403, earlier)
	check("a form token of an earlier session", b.post(at, with(token(other))), 403, earlier)
	check("a form token of another person", b.post(at, with(token(stranger))), 403, earlier)
	check("two form tokens", func() *shown {
		f := with(token(b))
		f["csrf"] = append(f["csrf"], token(b))
		return b.post(at, f)
	}(), 403, earlier)
	check("from another origin", sent(b, "Origin", "https://evil.example", with(token(b))), 403, "This form came from another site.")
	check("from no origin", sent(b, "Origin", "null", with(token(b))), 403, "This form came from another site.")
	check("from another site", sent(b, "Sec-Fetch-Site", "cross-site", with(token(b))), 403, "This form came from another site.")
	check("from a sister site", sent(b, "Sec-Fetch-Site", "same-site", with(token(b))), 403, "This form came from another site.")
	check("another media type", sent(b, "Content-Type", "text/plain", with(token(b))), 400, "This form could not be read.")
	check("too large", b.post(at, many(with(token(b)), 100)), 413, "Nothing was changed.")
	check("of nobody", s.browser().post(at, with(token(b))), 303, "")
	s.do(s.Store.EndSession(t.Context(), b.cookies[b.cookieName("session")]))
	if p := b.post(at, with(token(b))); p.status != 303 || !strings.HasPrefix(p.header.Get("Location"), "/signin?return=") || !unchanged() {
		t.Errorf("%s, of a session that has ended: %d to %q", at, p.status, p.header.Get("Location"))
	}
}
