package consent

import (
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

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
