package consent

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// blocks is the rule for the host of the app that asks.
func blocks(why string) policy.App {
	return policy.App{Host: "quill.example", Name: "Quill Assistant", Rule: policy.Block, Reason: why}
}

// The only organization blocks the app: who, when, why, whom to write to, and what
// everybody may connect instead. The app learns nothing but that there is no access.
func TestBlocked(t *testing.T) {
	s := newSite(t)
	rules := policy.Policy{Apps: []policy.App{blocks("It keeps <b>copies</b> ”\u202e.")}}
	for _, name := range []string{"One", "Two", "Three", "Four", "Five", "Six"} {
		rules.Apps = append(rules.Apps, policy.App{Host: strings.ToLower(name) + ".example", Name: name, Rule: policy.Allow})
	}
	rules.Apps = append(rules.Apps, policy.App{Host: "alone.example", Name: "Alone", Person: "ada", Rule: policy.Allow})
	s.rulesFor("nordlys", "person:ada", rules)
	tor := s.SignedIn("tor")
	p := tor.Get(pagetest.Authorize()).Want(403).Says("Your organization blocks this app", "Nordlys Cooperative does not let anybody connect this app.",
		"Ada Lindqvist decided it on 21 November 2026: “It keeps <b>copies</b>", "Nothing was shared, and the app has not been told anything yet.",
		"write to an admin of Nordlys Cooperative: Ada Lindqvist.", "Apps that everybody in Nordlys Cooperative may connect: ", "Five (five.example)")
	if text := p.Text(); strings.Contains(text, "Alone") || strings.Count(text, ".example)") != 6 || len(p.All(atom.Select))+len(p.All(atom.Textarea)) > 0 {
		t.Errorf("says too much: %s", text)
	}
	for _, decision := range []string{"approve", "ask"} {
		p.Press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "decision", decision).Says("Your organization blocks this app")
	}
	if len(s.Approvals("tor")) != 0 {
		t.Error("approved all the same")
	}
	if back := p.Press("/oauth/authorize", "decision", "cancel").Sent(pagetest.Callback); back.Get("error") != "access_denied" || back.Has("error_uri") {
		t.Errorf("the app is told %v", back)
	}
}

// Who decided may be nobody, the service, or gone.
func TestBlockedBy(t *testing.T) {
	s := newSite(t)
	tor := s.SignedIn("tor")
	s.rulesFor("nordlys", "person:ada", policy.Policy{Unknown: policy.Block})
	tor.Get(pagetest.Authorize()).Want(403).Says("Its rules let in only apps that its admins have allowed.")
	s.rulesFor("nordlys", "operator", policy.Policy{Apps: []policy.App{blocks("")}})
	tor.Get(pagetest.Authorize()).Want(403).Says("Svalinn decided it on 21 November 2026.")
	s.rulesFor("nordlys", "person:gone", policy.Policy{Apps: []policy.App{blocks("once more")}})
	tor.Get(pagetest.Authorize()).Want(403).Says("Nordlys Cooperative decided it on")
	s.Do(s.Store.SetAdmin(context.Background(), "nordlys", "ada", false, store.Act{Actor: "operator"}))
	tor.Get(pagetest.Authorize()).Want(403).Says("Nordlys Cooperative has no admin who could allow it.")
}

// Among several organizations those that block are named, and cannot be chosen.
func TestBlockedAmongSeveral(t *testing.T) {
	s := newSite(t)
	s.rulesFor("fjell", "person:ada", policy.Policy{Apps: []policy.App{blocks("")}})
	ada := s.SignedIn("ada")
	p := ada.Get(pagetest.Authorize()).Want(200).Says("Fjell Foundation blocks this app. Ada Lindqvist decided it on 21 November 2026.")
	for _, n := range p.All(atom.Input) {
		if pagetest.Attr(n, "value") == "fjell" && !pagetest.Has(n, "disabled") {
			t.Error("it can be chosen")
		}
	}
	p.Approve("organization", "fjell", "grant", "everything").Want(422).Says("Fjell Foundation blocks this app. Choose another organization.")
	p.Approve("organization", "nordlys", "grant", "roles", "role:treasurer", "read").Want(303)
	s.rulesFor("nordlys", "person:ada", policy.Policy{Unknown: policy.Block})
	ada.Get(pagetest.Authorize()).Want(403).Says("Fjell Foundation does not let anybody", "Nordlys Cooperative does not let anybody")
}

// A block that comes while the page is open holds.
func TestBlockedMeanwhile(t *testing.T) {
	s := newSite(t)
	p := s.SignedIn("tor").Get(pagetest.Authorize()).Want(200)
	s.rulesFor("nordlys", "person:ada", policy.Policy{Apps: []policy.App{blocks("")}})
	p.Approve("grant", "everything").Want(422).Says("Your organization blocks this app")
	if len(s.Approvals("tor")) != 0 {
		t.Error("approved")
	}
}
