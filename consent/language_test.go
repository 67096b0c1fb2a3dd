package consent

import (
	"strings"
	"testing"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// Which language a page is in: the one chosen on a page, else the browser's.
func TestTongue(t *testing.T) {
	s := newSite(t)
	for _, tt := range []struct{ accept, cookie, want string }{
		{"", "", "en"}, {"de", "", "de"}, {"de-AT, en;q=0.8", "", "de"}, {"en-GB, de;q=0.9", "", "en"}, {"ca, en;q=0.5", "", "en"},
		{"pt-BR, es-419;q=0.9, en;q=0.5", "", "es"}, {"ar-EG", "", "ar"}, {"zh", "", "en"}, {"*", "", "en"}, {"de;q=0, nl;q=0.1", "", "nl"},
		{"de", "nl", "nl"}, {"de", "xx", "de"}, {"de", "../de", "de"}, {strings.Repeat("a-", 5000), "", "en"}, {"de;q=x", "", "en"},
		{"zh, de, " + strings.Repeat("nl;q=0.1,", 3000), "", "de"}, {strings.Repeat("zh,", 3000) + "de", "", "en"}, {strings.Repeat("zh", 3000), "", "en"}, {"nb, sv", "fr", "fr"}, {"\x00\xff", "", "en"},
	} {
		b := s.Browser()
		b.Header["Accept-Language"] = []string{tt.accept}
		if tt.cookie != "" {
			b.Cookies["__Host-language"] = tt.cookie
		}
		root := b.Get("/signin").Want(200).All(atom.Html)[0]
		dir := "ltr"
		if tt.want == "ar" {
			dir = "rtl"
		}
		if pagetest.Attr(root, "lang") != tt.want || pagetest.Attr(root, "dir") != dir {
			t.Errorf("Accept-Language %.40q and cookie %q: <html> has %v, want %s", tt.accept, tt.cookie, root.Attr, tt.want)
		}
	}
}

// The switch works without script, keeps the pending request, and leads nowhere else.
func TestSwitch(t *testing.T) {
	s := newSite(t)
	b := s.Browser()
	p := b.Get(pagetest.Authorize("state", "a b")).Follow().Want(200).Press("/language", "language", "de")
	p = p.Follow().Want(200).Says("Anmelden", "die sich „Quill Assistant“ nennt")
	if c := b.Cookies["__Host-language"]; c != "de" {
		t.Errorf("cookie %q", c)
	}
	p = pagetest.SignIn(p, "ada@nordlys.example", "wrong").Want(422).Says("Fehler: Anmelden")
	p = p.Press("/language", "language", "fr").Follow().Want(200).Says("qui se présente comme « Quill Assistant »")
	p = pagetest.SignIn(p, "ada@nordlys.example", pagetest.Password).Follow().Want(200)
	// The consent page keeps what was chosen.
	p = p.Press("/oauth/authorize", "organization", "nordlys", "role:treasurer", "change", "personal", "1", "language", "nl").Want(200)
	if b.Cookies["__Host-language"] != "nl" || pagetest.Attr(p.All(atom.Html)[0], "lang") != "nl" {
		t.Error("the consent page does not change its language")
	}
	form := p.Fill("/oauth/authorize")
	if form.Get("organization") != "nordlys" || form.Get("role:treasurer") != "change" || form.Get("personal") != "1" {
		t.Errorf("kept %v", form)
	}
	if got := p.Press("/oauth/authorize", "decision", "approve").Sent(pagetest.Callback); got.Get("state") != "a b" {
		t.Errorf("sent %v", got)
	}
	for _, at := range []string{"//evil.example/", "/x//evil.example", "/../evil", "/x/"} {
		for _, f := range b.Get(at).All(atom.Form) {
			if pagetest.Attr(f, "action") == "/language" {
				t.Errorf("a page at %s leads back there", at)
			}
		}
	}
	for _, to := range []string{"", "https://evil.example/", "//evil.example", "/signin", s.Ring.SealPage(sealedPage, []byte("//evil.example"))} {
		got := b.Post("/language", map[string][]string{"language": {"de"}, "return": {to}}).Want(303)
		if to := got.Header.Get("Location"); to != "/" {
			t.Errorf("leads to %q", to)
		}
	}
	b.Cookies["__Host-language"] = "nl"
	b.Post("/language", map[string][]string{"language": {"xx"}}).Want(303)
	b.Header.Set("Sec-Fetch-Site", "cross-site")
	b.Post("/language", map[string][]string{"language": {"ar"}}).Want(403)
	if b.Cookies["__Host-language"] != "nl" {
		t.Error("another site changes the language")
	}
}
