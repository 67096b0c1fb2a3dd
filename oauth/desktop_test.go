package oauth

import (
	"strings"
	"testing"
)

// Clients learn from the metadata whether programs on people's own computers may connect
// (decision M3), and not before.
func TestDesktopEndpoint(t *testing.T) {
	on := false
	s := &Server{Service: "Svalinn", Desktop: func() bool { return on }}
	holds := func() bool {
		return strings.Contains(string(s.documentsOf("https://a.example")[authorizationServer].body), `"grantkeeper_desktop_endpoint":"https://a.example/oauth/desktop"`)
	}
	if holds() {
		t.Error("it is told while it is off")
	}
	if on = true; !holds() {
		t.Error("it is not told while it is on")
	}
	if on = false; holds() {
		t.Error("it is told once it is off again")
	}
	if never := (&Server{Service: "Svalinn"}).documentsOf("https://a.example")[authorizationServer].body; strings.Contains(string(never), "desktop") {
		t.Errorf("%s", never)
	}
}
