package grantset

import (
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/org"
	"pgregory.net/rapid"
)

// Whatever may be done has grounds and no refusal, and the other way round.
func TestGroundsOrRefusal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := someSet().Draw(t, "set").Narrow(someMember().Draw(t, "member"), someCeiling().Draw(t, "ceiling"))
		for _, i := range everyItem {
			read, change := a.ReadGrounds(i), a.ChangeGrounds(i, "Role")
			if (read != "") != a.MayRead(i) || (read == "") == (a.ExplainRead(i, "Role") == "") {
				t.Fatalf("reading %+v: grounds %q, refusal %q", i, read, a.ExplainRead(i, "Role"))
			}
			if (change != "") != a.MayChange(i) || (change == "") == (a.ExplainChange(i, "Role") == "") {
				t.Fatalf("changing %+v: grounds %q, refusal %q", i, change, a.ExplainChange(i, "Role"))
			}
			for _, said := range []string{read, change} {
				if said != "" && (!strings.HasSuffix(said, ".") || strings.HasPrefix(said, ",")) {
					t.Fatalf("%q", said)
				}
			}
		}
	})
}

func TestGrounds(t *testing.T) {
	treasurer := org.Role{ID: "t", Organization: "acme", Circle: "anchor", Name: "Treasurer"}
	host := org.Role{ID: "h", Organization: "acme", Circle: "anchor", Name: "Host"}
	away := org.Role{ID: "a", Organization: "acme", Circle: "away", Name: "Envoy"} // picked first, of another circle
	member := org.NewMember("ann", "acme", false, []org.Role{treasurer, host, away})
	admin := org.NewMember("ann", "acme", true, []org.Role{treasurer})
	item := org.Item{Organization: "acme", Role: "t", Circle: "anchor"}
	private := org.Item{Organization: "acme", Role: "t", Circle: "anchor", Private: true}
	elsewhere := org.Item{Organization: "acme", Role: "x", Circle: "other", Private: true}
	own := org.Item{Organization: "acme", Person: "ann"}
	some := Set{Kind: Roles, Picks: []Pick{{"a", true}, {"h", false}, {"t", true}}, Personal: true}
	for _, tt := range []struct {
		name         string
		set          Set
		member       org.Member
		item         org.Item
		read, change string
	}{
		{"what every member sees", some, member, item,
			"Every member of the organization can read the item, and so can every approval of a member.",
			"The person fills Treasurer, and this approval gives change access to it."},
		{"private, by another role of the circle", some, member, private,
			"Host, a role of the item's circle, is part of this approval.",
			"The person fills Treasurer, and this approval gives change access to it."},
		{"one's own, picked", some, member, own,
			"The item is the person's own, and personal items are part of this approval.",
			"The item is the person's own, and personal items are part of this approval."},
		{"private, everything", Set{Kind: Everything}, member, private,
			"The person fills a role of the item's circle, and this approval gives everything that the person can access.",
			"The person fills Treasurer, and this approval gives everything that the person can access."},
		{"one's own, everything", Set{Kind: Everything}, member, own,
			"The item is the person's own, and this approval gives everything that the person can access.",
			"The item is the person's own, and this approval gives everything that the person can access."},
		{"of another circle, as admin", Set{Kind: Everything}, admin, elsewhere,
			"The person is an admin, and this approval gives everything that the person can access.",
			"The person is an admin, and this approval gives everything that the person can access."},
		{"of another circle, whole organization", Set{Kind: Organization}, admin, elsewhere,
			"The person is an admin, and this approval gives what an organization admin may do, as far as the person still may.",
			"The person is an admin, and this approval gives what an organization admin may do, as far as the person still may."},
		{"own role, whole organization of one who is no admin any more", Set{Kind: Organization}, member, private,
			"The person fills a role of the item's circle, and this approval gives what an organization admin may do, as far as the person still may.",
			"The person fills Treasurer, and this approval gives what an organization admin may do, as far as the person still may."},
		{"one's own, whole organization", Set{Kind: Organization}, admin, own, "", ""},
		{"nothing", some, org.Member{}, item, "", ""},
	} {
		a := tt.set.Narrow(tt.member, nil)
		if got := a.ReadGrounds(tt.item); got != tt.read {
			t.Errorf("%s: reading\n got %q\nwant %q", tt.name, got, tt.read)
		}
		if got := a.ChangeGrounds(tt.item, "Treasurer"); got != tt.change {
			t.Errorf("%s: changing\n got %q\nwant %q", tt.name, got, tt.change)
		}
	}
}

// An admin reads what is private to a circle as somebody who fills a role in it where the
// organization lets apps act through one of these, and else as an admin.
func TestGroundsUnderCeilings(t *testing.T) {
	dan := member("dan", true, "editor")
	item := org.Item{Organization: "acme", Role: "designer", Circle: "web", Private: true}
	for never, want := range map[string]string{
		"counsel": "The person fills a role of the item's circle, and this approval gives everything that the person can access.",
		"editor":  "The person is an admin, and this approval gives everything that the person can access.",
	} {
		if got := (Set{Kind: Everything}).Narrow(dan, &Ceiling{Never: []string{never}}).ReadGrounds(item); got != want {
			t.Errorf("never through %s: %q, want %q", never, got, want)
		}
	}
}
