package page

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/language"
)

// languageFor is for how long a browser keeps the language that was chosen:
// seconds, a year.
const languageFor = 365 * 24 * 60 * 60

// maxAccept is how much of Accept-Language is read: bytes. Browsers send some
// dozen; reading it all would let a header cost more than its page.
const maxAccept = 1000

// wordsFor gives the language of a visit: what was chosen on a page, else the
// first that the browser asks for and that there is, else English.
func (s *Site) wordsFor(v *Visit) *Words {
	if c, err := v.R.Cookie(cookieName(v, "language")); err == nil {
		if w := s.look.Load().wording.named(c.Value); w != nil {
			return w
		}
	}
	accept := strings.Join(v.R.Header.Values("Accept-Language"), ",")
	if len(accept) > maxAccept {
		accept = accept[:max(0, strings.LastIndexByte(accept[:maxAccept], ','))]
	}
	wanted, _, err := language.ParseAcceptLanguage(accept)
	if err != nil {
		return s.look.Load().wording.all[0]
	}
	for _, tag := range wanted {
		base, _ := tag.Base()
		if w := s.look.Load().wording.named(base.String()); w != nil {
			return w
		}
	}
	return s.look.Load().wording.all[0]
}

func (w *wording) named(tag string) *Words {
	if i := slices.IndexFunc(w.all, func(w *Words) bool { return w.Tag == tag }); i >= 0 {
		return w.all[i]
	}
	return nil
}

// Speak changes the language when a form asks for one.
func (s *Site) Speak(v *Visit, form url.Values) {
	w := s.look.Load().wording.named(One(form, "language"))
	if w == nil {
		return
	}
	v.Words = w
	http.SetCookie(v.W, &http.Cookie{Name: cookieName(v, "language"), Value: w.Tag, Path: "/", MaxAge: languageFor,
		Secure: secure(v), HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// changeLanguage is POST /language: the page again, in another language. It
// needs no form token, as it changes nothing but that. Where it leads is
// sealed. Pages with choices that would be lost send them to themselves.
func (s *Site) changeLanguage(v *Visit) error {
	form, err := Posted(v, OtherBytes, OtherFields)
	if err != nil {
		return err
	}
	s.Speak(v, form)
	return v.See(s.ReturnPath(One(form, "return")))
}

// here is the address of the page that was asked for, to come back to: by GET,
// or by HEAD, which has the length of the same page (RFC 9110 section 8.6). A
// path that would be no page, or be taken for another host, has none.
func (v *Visit) here() string {
	at := v.R.URL.EscapedPath()
	if v.R.Method != http.MethodGet && v.R.Method != http.MethodHead || path.Clean(at) != at || !strings.HasPrefix(at, "/") {
		return ""
	}
	if v.R.URL.RawQuery != "" {
		at += "?" + v.R.URL.RawQuery
	}
	return at
}
