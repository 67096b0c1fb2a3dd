package consent

import (
	"net/url"
	"strings"
	"testing"
)

// A page that ends a visit speaks of the app only where one asks: who changes
// a password is not sent to it.
func TestRefusedElsewhere(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	away := s.signedIn("ada")
	away.header.Set("Sec-Fetch-Site", "cross-site")
	broken := s.signedIn("ada")
	broken.header.Set("Content-Type", "text/plain")
	const repeat = "What you can do: open the page again and repeat what you did."

	for name, p := range map[string]*shown{
		"foreign": away.post("/account/password", url.Values{}).want(403).says("This form came from another site.", repeat),
		"form":    broken.post("/account/password", url.Values{}).want(400).says("This form could not be read.", repeat),
	} {
		if strings.Contains(p.text(), "the app") {
			t.Errorf("%s speaks of an app: %s", name, p.text())
		}
	}
	away.post("/oauth/authorize", url.Values{}).want(403).says("start again from the app")
	broken.post("/oauth/authorize", url.Values{}).want(400).says("go back to the app and connect it again from the start")

	s.do(s.Store.Close())
	p := ada.get(nordlysApps).want(503).says("Something went wrong here.", "look first whether it was changed. Reference 01JD7Q2M8Y.")
	if strings.Contains(p.text(), "approved") {
		t.Errorf("a page of no app says: %s", p.text())
	}
}
