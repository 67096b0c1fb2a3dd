package sample_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/sample"
)

// A world is one organization, one member of it, and what that one gave.
type world struct {
	member org.Member
	set    grantset.Set
	roles  []org.Role
}

func someWorld() *rapid.Generator[world] {
	return rapid.Custom(func(t *rapid.T) world {
		w := world{set: grantset.Set{Kind: rapid.SampledFrom(grantset.Kinds).Draw(t, "kind")}}
		var filled []org.Role
		for n := range 6 {
			r := org.Role{ID: fmt.Sprint("r", n), Organization: "acme", Circle: fmt.Sprint("c", rapid.IntRange(0, 2).Draw(t, "circle")), Name: fmt.Sprint("Role ", n)}
			w.roles = append(w.roles, r)
			if rapid.Bool().Draw(t, "filled") {
				filled = append(filled, r)
			}
			if w.set.Kind == grantset.Roles && rapid.Bool().Draw(t, "picked") {
				w.set.Picks = append(w.set.Picks, grantset.Pick{Role: r.ID, Change: rapid.Bool().Draw(t, "change")})
			}
		}
		if w.set.Kind == grantset.Roles {
			w.set.Personal = rapid.Bool().Draw(t, "personal") || len(w.set.Picks) == 0
		}
		w.member = org.NewMember("ann", "acme", rapid.Bool().Draw(t, "admin"), filled)
		return w
	})
}

// directory is what GET /v1/directory says of a world.
func (w world) directory() []byte {
	type m = map[string]any
	var roles, circles []m
	for n := range 3 {
		circles = append(circles, m{"id": fmt.Sprint("c", n), "name": "Circle"})
	}
	for _, r := range w.roles {
		fillers := []string{"bob"}
		if w.member.Fills(r.ID) {
			fillers = append(fillers, "ann")
		}
		roles = append(roles, m{"id": r.ID, "name": r.Name, "circle": r.Circle, "fillers": fillers})
	}
	people := []m{{"id": "ann", "name": "Ann", "admin": w.member.Admin}, {"id": "bob", "name": "Bob", "admin": true}}
	b, err := json.Marshal(m{"organization": m{"id": "acme", "name": "Acme"}, "people": people, "circles": circles, "roles": roles})
	if err != nil {
		panic(err)
	}
	return b
}

// everyItem is one item of each sort there is in a world.
func (w world) everyItem() (all []org.Item) {
	for _, private := range []bool{false, true} {
		for _, r := range w.roles {
			all = append(all, org.Item{Organization: "acme", Role: r.ID, Circle: r.Circle, Private: private})
		}
	}
	return append(all, org.Item{Organization: "acme", Person: "ann"}, org.Item{Organization: "acme", Person: "bob"})
}

// Decision V43: by signed headers and directory alone, the sample decides what the
// rules of the grant set decide, and says why not in the same words.
func TestDecidesAsTheGrantSet(t *testing.T) {
	key, now := []byte(serviceKey), time.Unix(1_800_000_000, 0)
	rapid.Check(t, func(t *rapid.T) {
		w := someWorld().Draw(t, "world")
		a := w.set.Narrow(w.member, nil)
		headers, err := saidOf(a, "ann", "acme").Sign(key, now)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		for name, value := range headers {
			h.Set(name, value)
		}
		who, err := identity.Verify(h, now, key)
		if err != nil {
			t.Fatal(err)
		}
		d, err := sample.Decide(who, w.directory())
		if err != nil {
			t.Fatal(err)
		}
		some := false
		for _, i := range w.everyItem() {
			there := sample.Item{Role: i.Role, Person: i.Person, Private: i.Private}
			role := ""
			for _, r := range w.roles {
				if r.ID == i.Role {
					role = r.Name
				}
			}
			some = some || a.MayChange(i)
			if d.MayRead(there) != a.MayRead(i) || d.MayChange(there) != a.MayChange(i) || d.Why(there) != a.ExplainPut(i, role) {
				t.Fatalf("%+v: read %t, change %t, %q; want %t, %t, %q", i, d.MayRead(there), d.MayChange(there), d.Why(there), a.MayRead(i), a.MayChange(i), a.ExplainPut(i, role))
			}
		}
		for _, r := range w.roles {
			if d.Acts(r.ID) != a.Acts(r.ID) {
				t.Fatalf("%s: %s, want %s", r.ID, d.Acts(r.ID), a.Acts(r.ID))
			}
		}
		if d.MayChangeSome() != some || d.MayReadAnything() != a.MayReadOrganization() || d.WhyNotAdminister() != a.ExplainAdminister() {
			t.Fatalf("some %t, anything %t, %q; want %t, %t, %q", d.MayChangeSome(), d.MayReadAnything(), d.WhyNotAdminister(), some, a.MayReadOrganization(), a.ExplainAdminister())
		}
	})
}

// Who is an admin no more when the directory is read does nothing as one, though
// the headers were signed a moment before.
func TestDecidesNothingForFormerAdmins(t *testing.T) {
	w := someWorld().Example(1)
	w.set, w.member = grantset.Set{Kind: grantset.Everything}, org.NewMember("ann", "acme", false, nil)
	who := saidOf(w.set.Narrow(w.member, nil), "ann", "acme")
	who.Admin = true
	d, err := sample.Decide(who, w.directory())
	if err != nil || d.WhyNotAdminister() == "" || d.MayChange(sample.Item{Role: "r0"}) || d.MayRead(sample.Item{Role: "r0", Private: true}) {
		t.Errorf("%+v, %v", d, err)
	}
}

// Who is no member any more when the directory is read may do nothing of it.
func TestDecidesNothingForStrangers(t *testing.T) {
	w := world{member: org.NewMember("ann", "acme", false, nil), set: grantset.Set{Kind: grantset.Everything}}
	who := saidOf(w.set.Narrow(w.member, nil), "eve", "acme")
	who.Personal = true
	d, err := sample.Decide(who, w.directory())
	if err != nil || d.MayReadAnything() || d.MayRead(sample.Item{Person: "eve"}) || d.MayChange(sample.Item{Person: "eve"}) || d.Why(sample.Item{Person: "eve"}) == "" {
		t.Errorf("%+v, %v", d, err)
	}
}
