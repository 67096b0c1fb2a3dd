package consent

import (
	"net/url"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// A page that ends a visit speaks of the app only where one asks: who changes
// a password is not sent to it.
func TestRefusedElsewhere(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	away := s.SignedIn("ada")
	away.Header.Set("Sec-Fetch-Site", "cross-site")
	broken := s.SignedIn("ada")
	broken.Header.Set("Content-Type", "text/plain")
	const repeat = "What you can do: open the page again and repeat what you did."

	for name, p := range map[string]*pagetest.Shown{
		"foreign": away.Post("/account/password", url.Values{}).Want(403).Says("This form came from another site.", repeat),
		"form":    broken.Post("/account/password", url.Values{}).Want(400).Says("This form could not be read.", repeat),
	} {
		if strings.Contains(p.Text(), "the app") {
			t.Errorf("%s speaks of an app: %s", name, p.Text())
		}
	}
	away.Post("/oauth/authorize", url.Values{}).Want(403).Says("start again from the app")
	broken.Post("/oauth/authorize", url.Values{}).Want(400).Says("go back to the app and connect it again from the start")

	s.Do(s.Store.Close())
	p := ada.Get(pagetest.NordlysApps).Want(503).Says("Something went wrong here.", "look first whether it was changed. Reference 01JD7Q2M8Y.")
	if strings.Contains(p.Text(), "approved") {
		t.Errorf("a page of no app says: %s", p.Text())
	}
}
