package consent

import (
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// ux 2.3, UX-12.
func TestLooksOurs(t *testing.T) {
	known := []client.Client{
		{ID: "assistant", Name: "Assistant Connector", RedirectURIs: []string{"https://assistant.example/cb", "https://eu.assistant.example/cb"}, Preregistered: true},
		{ID: "nameless", RedirectURIs: []string{"https://nameless.example/cb"}, Preregistered: true},
	}
	for name, want := range map[string]bool{
		"Svalinn": true, "svalinn security": true, "The SVALINN App": true, "S v a l i n n": true, "s-v.a_l:i!n?n": true,
		"Ѕvаlinn": true /* Cyrillic */, "SvaIinn": true /* capital I */, "Sva1inn": true, "SVAlINN": true, "Ｓｖａｌｉｎｎ": true, "𝕊𝕧𝕒𝕝𝕚𝕟𝕟": true,
		"Sválïnñ": true, "Sva\u200dlinn": true, "ꓢ𝚟𝖆𝓁ｉ𝘯𝙣": true, "⚡Svalinn⚡": true,
		"Official App": true, "VERIFIED ✅": true, "Trusted Tool": true, "Security Team": true, "Customer Support": true, "Оfficial": true,
		"Offizielle App": true, "Sicherheitsdienst": true, "Équipe de sécurité": true, "Soporte técnico": true, "Aplicación verificada": true,
		"Klantenondersteuning": true, "فريق الدعم": true, "Offizin": false, "Sichere Ablage": false, "Assistance": false,
		"Assistant Connector": true, "assistant-connector 2": true, "Assistаnt Cоnnector": true, "Assistant Connectοr": true,
		"Quill Assistant": false, "Savlinn": false, "Svalin": false, "Assistant": false, "": false, "   ": false, "…": false, "日本語": false, "مساعد": false, "😀": false,
		"W" + strings.Repeat("W", 99): false,
	} {
		if got := looksOurs(client.Client{Name: name}, page.HostOf(pagetest.Callback), "Svalinn", known); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
	same := client.Client{Name: "Assistant Connector"}
	if looksOurs(same, page.HostOf("https://eu.assistant.example/other"), "Svalinn", known) {
		t.Error("a client at the known client's own host is warned of")
	}
	if !looksOurs(same, page.HostOf("https://eu.assistant.example:8443/"), "Svalinn", known) {
		t.Error("a client at another port of that host is not warned of")
	}
	if looksOurs(client.Client{Name: "Svalinn", Preregistered: true}, page.HostOf(pagetest.Callback), "Svalinn", known) {
		t.Error("the service's own client is warned of")
	}
	for service, want := range map[string]bool{"AB": false, "Table": true, "": false, "!": false, "Com": true, "Corn": true} {
		if got := looksOurs(client.Client{Name: "TabIe corn AB"}, page.HostOf(pagetest.Callback), service, nil); got != want {
			t.Errorf("service %q: %v, want %v", service, got, want)
		}
	}
	if !looksOurs(client.Client{Name: "a.b"}, page.HostOf(pagetest.Callback), "AB", nil) {
		t.Error("a short service's whole name is not noticed")
	}
}

// W2 stands before W1, on the page of a client that is not ours alone.
func TestLookAlikeIsWarnedOf(t *testing.T) {
	s := newSite(t)
	s.Register(client.Client{ID: "fake", Name: "Svаlinn Sеcurity", RedirectURIs: []string{"https://login.xn--svalnn-q4a.example/cb"}})
	b := s.SignedIn("ada")
	text := b.Get(pagetest.Authorize("client_id", "fake", "redirect_uri", "https://login.xn--svalnn-q4a.example/cb")).Want(200).Says("Not checked by Svalinn").Text()
	w2 := strings.Index(text, "This name looks like Svalinn's own, but the app is not ours. Svalinn never asks you to approve an app to keep your access.")
	w1 := strings.Index(text, "Did you start this yourself, just now, at xn--svalnn-q4a.example?")
	if w2 < 0 || w1 < w2 {
		t.Errorf("W2 at %d, W1 at %d: %s", w2, w1, text)
	}
	for _, path := range []string{pagetest.Authorize(), pagetest.Authorize("client_id", "assistant", "redirect_uri", "https://assistant.example/cb")} {
		if strings.Contains(b.Get(path).Text(), "looks like") {
			t.Errorf("%s: warned of", path)
		}
	}
}
