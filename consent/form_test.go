package consent

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// What no form of ours sends is refused as a whole, and nothing is approved.
func TestFormsOfOthers(t *testing.T) {
	s := newSite(t)
	b := s.SignedIn("ada")
	page := b.Get(pagetest.Authorize())
	good := page.Fill("/oauth/authorize")
	good.Set("organization", "nordlys")
	good.Set("grant", "everything")
	good.Set("decision", "approve")
	const form = "application/x-www-form-urlencoded"
	send := func(body string, headers map[string][]string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", pagetest.Base+"/oauth/authorize", strings.NewReader(body))
		for name, value := range b.Cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		r.Header["Content-Type"] = []string{form}
		maps.Copy(r.Header, headers)
		w := httptest.NewRecorder()
		s.Answers.ServeHTTP(w, r)
		return w
	}
	type header = map[string][]string
	for name, w := range map[string]*httptest.ResponseRecorder{
		"no media type":       send(good.Encode(), header{"Content-Type": nil}),
		"another media type":  send(good.Encode(), header{"Content-Type": {"text/plain"}}),
		"a broken media type": send(good.Encode(), header{"Content-Type": {form + "; charset"}}),
		"two media types":     send(good.Encode(), header{"Content-Type": {form, form}}),
		"another charset":     send(good.Encode(), header{"Content-Type": {form + "; charset=utf-16"}}),
		"compressed":          send(good.Encode(), header{"Content-Encoding": {"gzip"}}),
		"a broken escape":     send(good.Encode()+"&x=%zz", nil),
	} {
		if w.Code != 400 {
			t.Errorf("%s: %d, want 400", name, w.Code)
		}
	}
	s.Nothing("ada")
	for _, kind := range []string{form, "Application/X-WWW-Form-Urlencoded ; Charset=UTF-8"} {
		if w := send(good.Encode(), header{"Content-Type": {kind}}); w.Code != 303 {
			t.Errorf("%s: %d, want 303", kind, w.Code)
		}
	}
}
