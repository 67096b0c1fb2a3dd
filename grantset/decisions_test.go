package grantset

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/org"
)

var update = flag.Bool("update", false, "write testdata/decisions.txt anew, to be read before it is committed")

// The world of testdata/decisions.txt.
var (
	roleNames = map[string]string{"editor": "Editor", "designer": "Designer", "seller": "Seller", "counsel": "Counsel", "clerk": "Clerk"}
	roleHome  = map[string]string{"editor": "web", "designer": "web", "seller": "sales", "counsel": "legal"}
)

func member(person string, admin bool, roles ...string) org.Member {
	var filled []org.Role
	for _, id := range roles {
		filled = append(filled, org.Role{ID: id, Organization: "acme", Circle: roleHome[id], Name: roleNames[id]})
	}
	return org.NewMember(person, "acme", admin, filled)
}

var decisionPeople = []struct {
	who    string
	member org.Member
}{
	{"Ann fills Editor and Seller", member("ann", false, "editor", "seller")},
	{"Ann has lost Seller", member("ann", false, "editor")},
	{"Bob fills Designer", member("bob", false, "designer")},
	{"Cyd fills no role", member("cyd", false)},
	{"Dan fills Editor and is an admin", member("dan", true, "editor")},
	{"Eve is no longer a member", org.Member{}},
}

var decisionSets = []struct {
	column, chosen string
	set            Set
}{
	{"E", "Everything I can access", Set{Kind: Everything}},
	{"O", "Everything in this organization", Set{Kind: Organization}},
	{"R", "Only selected roles: Editor (change) and Seller (read)", Set{Kind: Roles, Picks: []Pick{{"editor", true}, {"seller", false}}}},
	{"RP", "Only selected roles: Editor (read); personal items too", Set{Kind: Roles, Picks: []Pick{{"editor", false}}, Personal: true}},
	{"P", "Only selected roles: none; personal items", Set{Kind: Roles, Personal: true}},
}

// decisionItems gives the items that a person meets.
func decisionItems(person string) []struct {
	what string
	item org.Item
} {
	item := func(role string, private bool) org.Item {
		return org.Item{Organization: "acme", Role: role, Circle: roleHome[role], Private: private}
	}
	return []struct {
		what string
		item org.Item
	}{
		{"of Editor", item("editor", false)},
		{"of Editor, private to Web", item("editor", true)},
		{"of Designer", item("designer", false)},
		{"of Designer, private to Web", item("designer", true)},
		{"of Seller", item("seller", false)},
		{"of Seller, private to Sales", item("seller", true)},
		{"of Counsel", item("counsel", false)},
		{"of Counsel, private to Legal", item("counsel", true)},
		{"the person's own", org.Item{Organization: "acme", Person: person}},
		{"another person's own", org.Item{Organization: "acme", Person: "zoe"}},
		{"of Clerk, in another organization", org.Item{Organization: "other", Role: "clerk", Circle: "front"}},
		{"the person's own, in another organization", org.Item{Organization: "other", Person: person}},
	}
}

// Every decision about one organization, in a file that a person can check
// against spec 2.4 line by line.
func TestDecisions(t *testing.T) {
	const file = "testdata/decisions.txt"
	got := decisions()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gots, wants := strings.Split(got, "\n"), strings.Split(string(b), "\n")
	for i := range min(len(gots), len(wants)) {
		if gots[i] != wants[i] {
			t.Fatalf("%s:%d\ngot  %s\nwant %s", file, i+1, gots[i], wants[i])
		}
	}
	if len(gots) != len(wants) {
		t.Fatalf("%d lines, want %d", len(gots), len(wants))
	}
}

func decisions() string {
	var table strings.Builder
	var reasons []string
	number := func(why string) string {
		if why == "" {
			return ""
		}
		if !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
		return fmt.Sprint(" ", slices.Index(reasons, why)+1)
	}
	line := func(cells ...string) {
		var b strings.Builder
		fmt.Fprintf(&b, "%-44s%-8s", cells[0], cells[1])
		for _, c := range cells[2:] {
			fmt.Fprintf(&b, "%-9s", c)
		}
		fmt.Fprintln(&table, strings.TrimRight(b.String(), " "))
	}
	for _, p := range decisionPeople {
		head := []string{p.who, "self"}
		ways := []Authority{}
		for _, s := range decisionSets {
			head = append(head, s.column)
			ways = append(ways, s.set.Narrow(p.member, nil))
		}
		fmt.Fprintln(&table)
		line(head...)
		for _, i := range decisionItems(strings.ToLower(strings.Fields(p.who)[0])) {
			cells := []string{"  " + i.what, may(p.member.MayRead(i.item), p.member.MayChange(i.item))}
			for _, a := range ways {
				why := a.ExplainRead(i.item, "{role}")
				if why == "" {
					why = a.ExplainChange(i.item, "{role}")
				}
				cells = append(cells, may(a.MayRead(i.item), a.MayChange(i.item))+number(why))
			}
			line(cells...)
		}
		cells := []string{"  the organization", may(p.member.Exists(), p.member.MayAdminister())}
		for _, a := range ways {
			cells = append(cells, may(a.MayReadOrganization(), a.MayAdminister())+number(a.ExplainAdminister()))
		}
		line(cells...)
	}

	var b strings.Builder
	b.WriteString(`What a client may do (spec 2.4): each person, with each item, under each grant set.

Circle Web holds the roles Editor and Designer, Sales holds Seller, Legal holds
Counsel. A private item is for who fills a role in its circle, and for admins.
"change" includes reading; the number is the reason why it is not more. The
last line of each block is the organization itself: its circles, roles, fillers
and members. "self" is the person without a client; the columns are:

`)
	for _, s := range decisionSets {
		fmt.Fprintf(&b, "  %-3s %s\n", s.column, s.chosen)
	}
	b.WriteString("\n")
	for i, why := range reasons {
		fmt.Fprintf(&b, "  %2d  %s\n", i+1, why)
	}
	return b.String() + table.String()
}

func may(read, change bool) string {
	switch {
	case change && !read:
		return "change without reading"
	case change:
		return "change"
	case read:
		return "read"
	}
	return "no"
}
