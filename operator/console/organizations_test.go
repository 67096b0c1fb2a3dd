package console

import (
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/policy"
)

// An organization's page says who decides there and by which rules, and its members;
// each change is asked for a reason, ends what it says, and may be repeated.
func TestOrganizationsInTheConsole(t *testing.T) {
	o, _, _ := withNamed(t)
	b := o.signedIn("ingrid")
	b.asks("GET", "/organizations?q=NORD", nil).want(200).says("Nordlys", "On", "None")
	b.asks("GET", "/organizations?q=nordlys&ai=off", nil).want(200).says("No organization matches.")
	b.asks("GET", "/organizations?ai=x", nil).want(400)
	b.asks("GET", "/organizations/nordlys", nil).want(200).says("AI integration on", "2 members, 2 approvals", "Ada", "Tor", "None: members may connect every app", "Rules are its admins’ to change.", "Make admin…", "Remove…")
	b.asks("GET", "/organizations/nordlys/members", nil).want(200).says("Ada", "Admin, 0 roles")
	b.asks("GET", "/organizations/nordlys/members?limit=1", nil).want(200).says("Ada", "Next").saysNot("Tor")
	b.asks("GET", "/organizations/nordlys/members?after=x%20y", nil).want(400)

	b.goesThrough("/organizations/nordlys/members/tor/make-admin", "reason", "asked").want(303)
	b.goesThrough("/organizations/nordlys/members/tor/make-admin", "reason", "asked").want(303)
	b.asks("GET", "/organizations/nordlys?done=admin", nil).says("They are an admin now.", "No admin…")
	b.goesThrough("/organizations/nordlys/members/tor/take-admin", "reason", "no more").want(303)
	b.goesThrough("/organizations/nordlys/members/tor/remove", "reason", "left").want(303)
	b.goesThrough("/organizations/nordlys/members/tor/remove", "reason", "left").want(303) // again: harmless
	b.asks("GET", "/organizations/nordlys?done=removed", nil).says("They are no member any more.", "1 member, 1 approval", "left", "by operator ingrid")
	b.goesThrough("/organizations/nordlys/add-member", "person", "nobody", "reason", "x").want(422).says("No person has this email or ID.")
	b.goesThrough("/organizations/nordlys/add-member", "person", "TOR@nordlys.example", "admin", "yes", "reason", "back").want(303)
	b.asks("GET", "/organizations/nordlys?done=member", nil).says("They are a member now.", "2 members", "No admin…")

	p := b.goesThrough("/organizations/nordlys/turn-off", "reason", "incident").want(303)
	b.asks("GET", p.head.Get("Location"), nil).says("AI integration is off.", "2 members, 0 approvals", "Turn AI integration on…")
	b.asks("GET", "/organizations/nordlys?done=on", nil).saysNot("AI integration is on.")
	b.goesThrough("/organizations/nordlys/turn-on", "reason", "over").want(303)
	b.asks("GET", "/organizations/nordlys?done=on", nil).says("AI integration is on.", "0 approvals")
	for _, path := range []string{"/organizations/none", "/organizations/none/turn-off", "/organizations/none/members", "/organizations/nordlys/members/nobody/remove", "/organizations/nordlys/members/tor@nordlys.example/remove"} {
		b.asks("GET", path, nil).want(404)
	}
}

// What rules let apps do is said in words, and nothing where there are none.
func TestRulesInWords(t *testing.T) {
	said := strings.Join(rulesInWords(&policy.Policy{Unknown: policy.Ask, MaxDays: 14, ReviewDays: 90,
		Apps:    []policy.App{{Rule: policy.Block}, {Rule: policy.Allow}, {Rule: policy.Allow}, {Rule: policy.Ask}},
		Ceiling: grantset.Ceiling{Widest: grantset.Everything, ReadOnly: true, NoPersonal: true, Never: []string{"a", "b"}}}), ". ")
	if said != "An admin decides about new apps. 2 apps allowed. 1 app to ask about. 1 app blocked. Apps get at most what the member can access. Apps read only. No personal items. 2 roles are never given. 14 days at most. Reviewed every 90 days" {
		t.Errorf("said %q", said)
	}
	if said := rulesInWords(nil); said != nil {
		t.Errorf("no rules: %q", said)
	}
	if said := rulesInWords(&policy.Policy{}); len(said) != 1 || said[0] != "Members may connect every app" {
		t.Errorf("rules of nothing: %q", said)
	}
}
