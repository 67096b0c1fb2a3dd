package consent

import (
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// Decision V52: a service's nouns stand in every sentence of their language, and of no other.
func TestNouns(t *testing.T) {
	s := newSite(t)
	s.items()
	s.Nouns = map[string]page.Nouns{"en": {Items: "orders", Count: map[string]string{"one": "{n} order", "other": "{n} orders"}}}
	s.Rebrand(s.Branding)
	ada := s.SignedIn("ada")
	p := ada.Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", "nordlys", "grant", "roles", "role:buddy", "change", "personal", "1", "action", "preview").
		Says("It may change 1 order as Buddy, and 5 orders of your own.", "It may read, but not change, 53 orders.", "Also my personal orders")
	if !strings.Contains(p.Body, "Your personal orders in {organization}") || strings.Contains(p.Body, "entries") {
		t.Error(p.Body)
	}
	s.Preview = nil
	ada.Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", "nordlys", "grant", "organization", "action", "preview").
		Says("It gets nothing of personal orders, yours included.")
	ada.Header.Set("Accept-Language", "de")
	if p := ada.Get(pagetest.Authorize()).Says("Auch meine persönlichen Einträge"); strings.Contains(p.Body, "orders") {
		t.Error(p.Body)
	}
}
