package store

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/org"
)

// A search finds the same on both engines, in any case of any script, and the
// nearest first.
func TestSearchOfPeople(t *testing.T) {
	h := furnished(t)
	for id, p := range map[string]org.Person{"aa": {Name: "Mei", Email: "mei@storhavn.example"}, "bb": {Name: "\u00d6zg\u00fcr Tor", Email: "o@x.example"}, "cc": {Name: "Tor 100%_", Email: "t@x.example"}} {
		p.ID, p.Active = id, true
		if _, err := h.AddPerson(ctx, p, "", Act{}); err != nil {
			t.Fatal(err)
		}
	}
	ids := func(all []org.Person) (out string) {
		for _, p := range all {
			out += p.ID + " "
		}
		return out
	}
	for find, want := range map[string]string{"STOR": "aa ", "\u00f6ZG\u00dcR": "bb ", "100%_": "cc ", "%": "cc ", "mei@": "aa "} {
		if got, _, err := h.People(ctx, PeopleFilter{Query: find}); ids(got) != want || err != nil {
			t.Errorf("%q: %s, %v; want %s", find, ids(got), err, want)
		}
	}
	first, next, err := h.People(ctx, PeopleFilter{Query: "@x.example", Limit: 1})
	if rest, end, _ := h.People(ctx, PeopleFilter{Query: "@x.example", Limit: 1, After: next}); ids(first) != "bb " || next != "bb" || ids(rest) != "cc " || end != "" || err != nil {
		t.Errorf("%s then %s, %q, %v", ids(first), ids(rest), end, err)
	}
	near, _, err := h.FindPeople(ctx, "tor", 2)
	if len(near) != 2 || near[0].Name == "Mei" || near[1].Name == "Mei" || err != nil {
		t.Errorf("nearest: %s, %v", ids(near), err)
	}
}
