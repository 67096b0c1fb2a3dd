package consent

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/language"
)

// tongueFor is for how long a browser keeps the language that was chosen:
// seconds, a year.
const tongueFor = 365 * 24 * 60 * 60

// maxAccept is how much of Accept-Language is read: bytes. Browsers send some
// dozen; reading it all would let a header cost more than its page.
const maxAccept = 1000

// wordsFor gives the language of a visit: what was chosen on a page, else the
// first that the browser asks for and that there is, else English.
func (s *Server) wordsFor(v *visit) *words {
	if c, err := v.r.Cookie(cookieName(v, "language")); err == nil {
		if w := s.look.Load().wording.named(c.Value); w != nil {
			return w
		}
	}
	accept := strings.Join(v.r.Header.Values("Accept-Language"), ",")
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

func (w *wording) named(tag string) *words {
	if i := slices.IndexFunc(w.all, func(w *words) bool { return w.Tag == tag }); i >= 0 {
		return w.all[i]
	}
	return nil
}

// speak changes the language when a form asks for one.
func (s *Server) speak(v *visit, form url.Values) {
	w := s.look.Load().wording.named(one(form, "language"))
	if w == nil {
		return
	}
	v.words = w
	http.SetCookie(v.w, &http.Cookie{Name: cookieName(v, "language"), Value: w.Tag, Path: "/", MaxAge: tongueFor,
		Secure: secure(v), HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// changeTongue is POST /language: the page again, in another language. It
// needs no form token, as it changes nothing but that. Where it leads is
// sealed. Pages with choices that would be lost send them to themselves.
func (s *Server) changeTongue(v *visit) error {
	form, err := posted(v, otherBytes, otherFields)
	if err != nil {
		return err
	}
	s.speak(v, form)
	return v.see(s.returnPath(one(form, "return")))
}

// here is the address of the page that was asked for, to come back to: by GET,
// or by HEAD, which has the length of the same page (RFC 9110 section 8.6). A
// path that would be no page, or be taken for another host, has none.
func (v *visit) here() string {
	at := v.r.URL.EscapedPath()
	if v.r.Method != http.MethodGet && v.r.Method != http.MethodHead || path.Clean(at) != at || !strings.HasPrefix(at, "/") {
		return ""
	}
	if v.r.URL.RawQuery != "" {
		at += "?" + v.r.URL.RawQuery
	}
	return at
}
