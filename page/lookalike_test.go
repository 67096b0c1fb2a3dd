package page

import (
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
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
		if got := LooksOurs(client.Client{Name: name}, HostOf("https://connect.quill.example/callback"), "Svalinn", known); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
	same := client.Client{Name: "Assistant Connector"}
	if LooksOurs(same, HostOf("https://eu.assistant.example/other"), "Svalinn", known) {
		t.Error("a client at the known client's own host is warned of")
	}
	if !LooksOurs(same, HostOf("https://eu.assistant.example:8443/"), "Svalinn", known) {
		t.Error("a client at another port of that host is not warned of")
	}
	if LooksOurs(client.Client{Name: "Svalinn", Preregistered: true}, HostOf("https://connect.quill.example/callback"), "Svalinn", known) {
		t.Error("the service's own client is warned of")
	}
	for service, want := range map[string]bool{"AB": false, "Table": true, "": false, "!": false, "Com": true, "Corn": true} {
		if got := LooksOurs(client.Client{Name: "TabIe corn AB"}, HostOf("https://connect.quill.example/callback"), service, nil); got != want {
			t.Errorf("service %q: %v, want %v", service, got, want)
		}
	}
	if !LooksOurs(client.Client{Name: "a.b"}, HostOf("https://connect.quill.example/callback"), "AB", nil) {
		t.Error("a short service's whole name is not noticed")
	}
}
