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
		"ꜱᴠᴀʟɪɴɴ":                     true, "ᴛʜᴇ ᴏꜰꜰɪᴄɪᴀʟ ᴀᴘᴘ": true, "ᴛʀᴜꜱᴛᴇᴅ": true, "Sᴠᴀʟɪɴɴ Notes": true, "ѕᴠаʟɪɴɴ": true, "𝒮𝓋𝒶ℓ𝒾𝓃𝓃": true, "Svaⅼinn": true,
		"Sva🇳🇴linn": true /* a flag within */, "🅰 Svalinn": true, "🅅🅔🆁Ⓘⓕⓘⓔⓓ": true,
		"Årsmøte 🇳🇴 Bærum": false, "Ærø Øst": false, "Größenwächter": false, "Straße 🅿": false, "Işık Yazılım 🇹🇷": false, "İstanbul Notları": false,
		"Σημειώσεις Ομάδας": false, "Свалка заметок": false, "Заметки команды": false, "笔记本助手": false, "議事録くん": false, "Ꮪequoya Notes": false, "ĸalaallit": false,
	} {
		if got := LooksOurs(client.Client{Name: name}, HostOf("https://connect.quill.example/callback"), "Svalinn", known); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
	for class, first := range map[string][2]rune{ // of its letters, or 0
		"fullwidth": {'Ａ', 'ａ'}, "bold": {'𝐀', '𝐚'}, "sans-serif bold italic": {'𝘼', '𝙖'}, "monospace": {'𝙰', '𝚊'}, "bold script": {'𝓐', '𝓪'},
		"bold fraktur": {'𝕬', '𝖆'}, "circled": {'Ⓐ', 'ⓐ'}, "parenthesized": {'🄐', '⒜'}, "squared": {'🄰', 0},
		"black disc": {'🅐', 0}, "black square": {'🅰', 0}, "flags": {'🇦', 0},
	} {
		for i, from := range []rune{'A', 'a'} {
			drawn := strings.Map(func(r rune) rune { return r - from + first[i] }, []string{"SVALINN", "svalinn"}[i])
			if first[i] != 0 && !LooksOurs(client.Client{Name: "My " + drawn}, HostOf("https://connect.quill.example/callback"), "Svalinn", known) {
				t.Errorf("%s, %s: no warning", class, drawn)
			}
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
