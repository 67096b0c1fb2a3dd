package grantset

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/org"
	"pgregory.net/rapid"
)

// outline writes the groups as text: circle(role role) circle(role).
func outline(o Offer) string {
	var groups []string
	for _, g := range o.Groups {
		var roles []string
		for _, r := range g.Roles {
			roles = append(roles, r.ID)
		}
		groups = append(groups, g.Circle.ID+"("+strings.Join(roles, " ")+")")
	}
	return strings.Join(groups, " ")
}

// circles reads "id<parent:Name".
func circles(text string) (cs []org.Circle) {
	for _, f := range strings.Fields(text) {
		tree, name, _ := strings.Cut(f, ":")
		id, parent, _ := strings.Cut(tree, "<")
		cs = append(cs, org.Circle{ID: id, Organization: "acme", Parent: parent, Name: name})
	}
	return cs
}

// fills reads "id@circle:Name".
func fills(text string) org.Member {
	var roles []org.Role
	for _, f := range strings.Fields(text) {
		place, name, _ := strings.Cut(f, ":")
		id, circle, _ := strings.Cut(place, "@")
		roles = append(roles, org.Role{ID: id, Organization: "acme", Circle: circle, Name: name})
	}
	return org.NewMember("ann", "acme", false, roles)
}

func TestNewOffer(t *testing.T) {
	tests := []struct {
		name, circles, roles, want string
	}{
		{"no circles, no roles", "", "", ""},
		{"a circle without the person's roles is left out", "a:A b<a:B", "r1@b:R", "b(r1)"},
		{"a parent before its children", "c<b:A b<a:A a:Z", "r1@a:R r2@b:R r3@c:R", "a(r1) b(r2) c(r3)"},
		{"depth first", "a:A b:B a1<a:X b1<b:A", "r1@a:R r2@b:R r3@a1:R r4@b1:R", "a(r1) a1(r3) b(r2) b1(r4)"},
		{"siblings by name", "a:zoo b:Apple c:bee", "r1@a:R r2@b:R r3@c:R", "b(r2) c(r3) a(r1)"},
		{"siblings of one name by ID", "b:X a:x c:X", "r1@a:R r2@b:R r3@c:R", "a(r1) b(r2) c(r3)"},
		{"roles by name", "a:A", "r1@a:zoo r2@a:Apple r3@a:bee", "a(r2 r3 r1)"},
		{"roles of one name by ID", "a:A", "r3@a:X r1@a:x r2@a:X", "a(r1 r2 r3)"},

		{"unknown parent", "a<gone:A b:B", "r1@a:R r2@b:R", "a(r1) b(r2)"},
		{"its own parent", "a<a:A b:B", "r1@a:R r2@b:R", "b(r2) a(r1)"},
		{"a ring", "a<b:A b<a:B c:C", "r1@a:R r2@b:R r3@c:R", "c(r3) a(r1) b(r2)"},
		{"what hangs in a ring", "a<b:A b<a:B c<a:C", "r1@a:R r2@b:R r3@c:R", "a(r1) b(r2) c(r3)"},
		{"a circle twice", "a:A a:A", "r1@a:R", "a(r1)"},
		{"roles of unknown circles", "a:A", "r1@y:R r2@a:R r3@x:R r4@:R", "a(r2) (r4) x(r3) y(r1)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := fills(tt.roles)
			o := NewOffer(org.Organization{ID: "acme"}, m, circles(tt.circles))
			if got := outline(o); got != tt.want {
				t.Errorf("offered %s, want %s", got, tt.want)
			}
			for _, g := range o.Groups {
				known := slices.ContainsFunc(circles(tt.circles), func(c org.Circle) bool { return c.ID == g.Circle.ID })
				if known && !slices.Contains(circles(tt.circles), g.Circle) {
					t.Errorf("circle %+v is none of the organization's", g.Circle)
				}
			}
			if o.Organization.ID != "acme" || o.Member.Person != "ann" {
				t.Errorf("of %+v to %+v", o.Organization, o.Member)
			}
		})
	}
	unknown := NewOffer(org.Organization{ID: "acme"}, fills("r1@x:R"), nil).Groups[0].Circle
	if want := (org.Circle{ID: "x", Organization: "acme", Name: "x"}); unknown != want {
		t.Errorf("an unknown circle stands as %+v, want %+v", unknown, want)
	}
}

// Whatever the tree, sound or damaged, each role stands under its own circle
// exactly once, each circle is one group, and in a sound tree no circle comes
// before its parent.
func TestNewOfferLosesNoRole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sound := rapid.Bool().Draw(t, "sound")
		var cs []org.Circle
		n := rapid.IntRange(0, 8).Draw(t, "circles")
		for i := range n {
			parent := rapid.IntRange(-1, 9).Draw(t, "parent") // 8 and 9 are unknown
			if sound {
				parent = rapid.IntRange(-1, i-1).Draw(t, "earlier")
			}
			c := org.Circle{ID: fmt.Sprint(i), Name: rapid.SampledFrom([]string{"a", "A", "b"}).Draw(t, "name")}
			if parent >= 0 {
				c.Parent = fmt.Sprint(parent)
			}
			cs = append(cs, c)
		}
		cs = rapid.Permutation(cs).Draw(t, "order")
		var roles []org.Role
		for i := range rapid.IntRange(0, 20).Draw(t, "roles") {
			at := rapid.IntRange(0, 9).Draw(t, "circle")
			if sound {
				at = rapid.IntRange(0, max(n-1, 0)).Draw(t, "known circle")
			}
			roles = append(roles, org.Role{ID: fmt.Sprint("r", i), Organization: "acme", Circle: fmt.Sprint(at)})
		}
		m := org.NewMember("ann", "acme", false, roles)
		o := NewOffer(org.Organization{ID: "acme"}, m, cs)

		var found []string
		place := map[string]int{}
		for i, g := range o.Groups {
			if _, twice := place[g.Circle.ID]; twice || len(g.Roles) == 0 {
				t.Fatalf("circle %s twice or empty: %s", g.Circle.ID, outline(o))
			}
			place[g.Circle.ID] = i
			for _, r := range g.Roles {
				if r.Circle != g.Circle.ID {
					t.Fatalf("role %+v under %s", r, g.Circle.ID)
				}
				found = append(found, r.ID)
			}
		}
		slices.Sort(found)
		var want []string
		for _, r := range m.Roles() {
			want = append(want, r.ID)
		}
		if !slices.Equal(found, want) {
			t.Fatalf("roles %v, want %v", found, want)
		}
		for _, c := range cs {
			at, shown := place[c.ID]
			if above, parent := place[c.Parent]; sound && shown && parent && above > at {
				t.Fatalf("%s before its parent: %s", c.ID, outline(o))
			}
		}
	})
}

// The offers of the form tests: acme where ann is a member, boss where she is
// an admin, off without AI integration, and gone where she is no member.
func offers() []Offer {
	offer := func(id string, ai, admin bool, person string, roles ...string) Offer {
		var filled []org.Role
		for _, r := range roles {
			filled = append(filled, org.Role{ID: r, Organization: id, Circle: "c", Name: r})
		}
		return NewOffer(org.Organization{ID: id, Name: id, AIIntegration: ai}, org.NewMember(person, id, admin, filled), nil)
	}
	return []Offer{
		offer("acme", true, false, "ann", "10", "11", "12"),
		offer("boss", true, true, "ann", "20"),
		offer("off", false, true, "ann", "30"),
		offer("gone", true, true, ""),
	}
}

func TestAllows(t *testing.T) {
	want := map[string][]Kind{"acme": {Roles, Everything}, "boss": {Roles, Everything, Organization}, "off": nil, "gone": nil}
	for _, o := range offers() {
		if got := o.Eligible(); got != (want[o.Organization.ID] != nil) {
			t.Errorf("%s eligible: %t", o.Organization.ID, got)
		}
		for _, k := range append([]Kind{"", "all"}, Kinds...) {
			if got := o.Allows(k); got != slices.Contains(want[o.Organization.ID], k) {
				t.Errorf("%s allows %q: %t", o.Organization.ID, k, got)
			}
		}
	}
}

// The form contract and its faults: what the page did not offer is refused,
// what belongs to another choice is ignored.
func TestParse(t *testing.T) {
	tests := []struct {
		name string
		form string // name=value&name=value; no escapes
		want string // kind picks, then +personal; or the faults
	}{
		{"everything I can access", "organization=acme&grant=everything", "everything"},
		{"everything in this organization, by an admin", "organization=boss&grant=organization", "organization"},
		{"selected roles", "organization=acme&grant=roles&role:10=read&role:11=change&role:12=none", "roles 10=read 11=change"},
		{"selected roles, whatever the order of fields", "role:12=read&role:11=change&grant=roles&role:10=read&organization=acme", "roles 10=read 11=change 12=read"},
		{"personal items alone", "organization=acme&grant=roles&personal=1", "roles +personal"},
		{"personal items too", "organization=acme&grant=roles&role:10=change&personal=1", "roles 10=change +personal"},
		{"personal items alone, by a person without roles", "organization=boss&grant=roles&personal=1&role:20=none", "roles +personal"},

		// Spec 2.4, and the faults of the page.
		{"no organization", "grant=everything", "no_organization"},
		{"empty organization", "organization=&grant=everything", "no_organization"},
		{"no grant", "organization=acme", "no_grant"},
		{"empty grant", "organization=acme&grant=", "no_grant"},
		{"neither", "", "no_organization no_grant"},
		{"nothing but other fields", "role:10=read&personal=1&decision=approve", "no_organization no_grant"},
		{"no role and no personal items", "organization=acme&grant=roles", "nothing_picked"},
		{"every role on none", "organization=acme&grant=roles&role:10=none&role:11=none&role:12=none", "nothing_picked"},
		{"everything in this organization, by a member", "organization=acme&grant=organization", "not_allowed"},
		{"organization without AI integration", "organization=off&grant=everything", "not_eligible"},
		{"organization without AI integration, and no grant", "organization=off", "not_eligible no_grant"},
		{"organization without AI integration, as its admin", "organization=off&grant=organization", "not_eligible"},
		{"organization that the person has left", "organization=gone&grant=everything", "not_eligible"},
		{"forged organization", "organization=evil&grant=everything", "not_allowed"},
		{"forged organization and no grant", "organization=evil", "not_allowed no_grant"},
		{"organization in another case", "organization=Acme&grant=everything", "not_allowed"},
		{"unknown grant", "organization=acme&grant=all", "not_allowed"},
		{"unknown grant and no organization", "grant=all", "no_organization not_allowed"},
		{"grant in another case", "organization=acme&grant=Everything", "not_allowed"},
		{"role that the person does not fill", "organization=acme&grant=roles&role:99=read", "not_allowed"},
		{"the same beside one of the person's", "organization=acme&grant=roles&role:10=read&role:99=change", "not_allowed"},
		{"role that the person does not fill, not picked", "organization=acme&grant=roles&role:10=read&role:99=none", "roles 10=read"},
		{"role without an ID", "organization=acme&grant=roles&role:=read", "not_allowed"},
		{"unknown access", "organization=acme&grant=roles&role:10=write", "not_allowed"},
		{"access in another case", "organization=acme&grant=roles&role:10=Read", "not_allowed"},
		{"empty access", "organization=acme&grant=roles&role:10=&role:11=read", "not_allowed"},
		{"unknown value of personal", "organization=acme&grant=roles&personal=yes", "not_allowed"},
		{"empty personal", "organization=acme&grant=roles&role:10=read&personal=", "not_allowed"},

		// Nothing may be said twice.
		{"role twice, with more the second time", "organization=acme&grant=roles&role:10=read&role:10=change", "not_allowed"},
		{"role twice alike", "organization=acme&grant=roles&role:10=read&role:10=read", "not_allowed"},
		{"role twice, none first", "organization=acme&grant=roles&role:10=none&role:10=read&role:11=read", "not_allowed"},
		{"organization twice", "organization=acme&organization=boss&grant=everything", "not_allowed"},
		{"organization twice alike", "organization=acme&organization=acme&grant=everything", "not_allowed"},
		{"organization twice, both empty", "organization=&organization=&grant=everything", "not_allowed"},
		{"grant twice", "organization=acme&grant=roles&grant=everything", "not_allowed"},
		{"grant twice, both empty", "organization=acme&grant=&grant=", "not_allowed"},
		{"personal twice", "organization=acme&grant=roles&personal=1&personal=1", "not_allowed"},

		// Ignored: of another organization, or under another option.
		{"role in another organization", "organization=acme&grant=roles&role:10=read&role:20=change", "roles 10=read"},
		{"only a role in another organization", "organization=acme&grant=roles&role:20=change", "nothing_picked"},
		{"role in an organization without AI integration", "organization=acme&grant=roles&role:10=read&role:30=change", "roles 10=read"},
		{"role twice in another organization", "organization=acme&grant=roles&role:10=read&role:20=read&role:20=change", "roles 10=read"},
		{"unknown access in another organization", "organization=acme&grant=roles&role:10=read&role:20=admin", "roles 10=read"},
		{"roles under everything", "organization=acme&grant=everything&role:10=change&role:99=change&role:11=odd&personal=1", "everything"},
		{"roles under organization", "organization=boss&grant=organization&role:20=read&personal=odd", "organization"},
		{"fields of something else", "organization=acme&grant=everything&decision=approve&request=x&roles=10&Role:10=read", "everything"},
		{"names that only begin alike", "organization=acme&grant=roles&role:10=read&role=change&rol:11=change&personal2=1", "roles 10=read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fields := map[string][]string{}
			for _, f := range strings.FieldsFunc(tt.form, func(r rune) bool { return r == '&' }) {
				name, value, _ := strings.Cut(f, "=")
				fields[name] = append(fields[name], value)
			}
			for range 10 { // maps have no order
				choice, faults := Parse(fields, offers())
				if got := chosen(choice, faults); got != tt.want {
					t.Fatalf("%s, want %s", got, tt.want)
				}
				if len(faults) > 0 && !reflect.DeepEqual(choice, Choice{}) {
					t.Fatalf("faults, and yet %+v", choice)
				}
				if len(faults) == 0 && choice.Offer.Organization.ID != fields["organization"][0] {
					t.Fatalf("in %s", choice.Offer.Organization.ID)
				}
			}
		})
	}
}

func chosen(c Choice, faults []Fault) string {
	if len(faults) > 0 {
		return strings.Trim(fmt.Sprint(faults), "[]")
	}
	s := strings.TrimSpace(string(c.Set.Kind) + " " + c.Set.EncodePicks())
	if c.Set.Personal {
		s += " +personal"
	}
	return s
}

// A field without any value, which no form can send, is not a choice.
func TestParseEmptyField(t *testing.T) {
	for name, want := range map[string]Fault{"organization": NoOrganization, "grant": NoGrant, "role:10": NotAllowed} {
		fields := map[string][]string{"organization": {"acme"}, "grant": {"roles"}, "role:11": {"read"}, name: {}}
		if _, faults := Parse(fields, offers()); !slices.Equal(faults, []Fault{want}) {
			t.Errorf("%s without a value: %v, want %s", name, faults, want)
		}
	}
}

// A role whose ID could not be stored cannot be given, even by who fills it.
func TestParseOddID(t *testing.T) {
	o := offers()[0]
	o.Member = org.NewMember("ann", "acme", false, []org.Role{{ID: "a b=read", Organization: "acme"}, {ID: "", Organization: "acme"}})
	for _, role := range []string{"a b=read", ""} {
		fields := map[string][]string{"organization": {"acme"}, "grant": {"roles"}, "role:" + role: {"read"}}
		if c, faults := Parse(fields, []Offer{o}); !slices.Equal(faults, []Fault{NotAllowed}) {
			t.Errorf("%q: %+v, %v", role, c.Set, faults)
		}
	}
}

// Whatever Parse accepts was offered to this person in this organization and
// asked for in the form, and it is stored and read back unchanged.
func TestParseAcceptsOnlyWhatIsOffered(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		fields := map[string][]string{}
		for name, values := range map[string][]string{
			"organization": {"acme", "acme", "boss", "off", "gone", "evil", ""},
			"grant":        {"roles", "roles", "roles", "everything", "organization", "all", ""},
			"personal":     {"1", "1", "", "x"},
			"role:10":      {"none", "read", "change", "read", "change", "x"},
			"role:11":      {"none", "read", "change", "read", "change", ""},
			"role:20":      {"none", "read", "change", "x"},
			"role:30":      {"none", "read", "change"},
			"role:99":      {"none", "none", "none", "none", "read"},
		} {
			n := rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 0, 0, 0, 2}).Draw(t, "how often "+name)
			for range n {
				fields[name] = append(fields[name], rapid.SampledFrom(values).Draw(t, name))
			}
		}
		c, faults := Parse(fields, offers())
		if len(faults) > 0 {
			if !reflect.DeepEqual(c, Choice{}) {
				t.Fatalf("faults %v, and yet %+v", faults, c)
			}
			return
		}
		accepted++
		o, s := c.Offer, c.Set
		if !o.Eligible() || !o.Allows(s.Kind) || o.Organization.ID != fields["organization"][0] || string(s.Kind) != fields["grant"][0] {
			t.Fatalf("not offered or not asked for: %+v", c)
		}
		if s.Personal && (s.Kind != Roles || !slices.Equal(fields["personal"], []string{"1"})) {
			t.Fatalf("personal items not asked for: %+v", s)
		}
		for _, p := range s.Picks {
			if !o.Member.Fills(p.Role) || !slices.Equal(fields["role:"+p.Role], []string{p.access()}) || s.Kind != Roles {
				t.Fatalf("pick %+v not offered or not asked for", p)
			}
		}
		for _, r := range o.Member.Roles() {
			if v := fields["role:"+r.ID]; s.Kind == Roles && len(v) == 1 && v[0] != s.Access(r.ID) {
				t.Fatalf("asked for %s as %s, got %s", v[0], r.ID, s.Access(r.ID))
			}
		}
		back, err := Decode(string(s.Kind), s.EncodePicks(), s.Personal)
		if err != nil || !back.Equal(s) {
			t.Fatalf("%+v read back as %+v, %v", s, back, err)
		}
	})
	if accepted == 0 {
		t.Error("nothing was accepted: the property said nothing")
	}
}

// Whatever a page can offer is accepted as it was chosen.
func TestParseAcceptsWhatIsOffered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := rapid.SampledFrom(offers()[:2]).Draw(t, "offer")
		want := Set{Kind: rapid.SampledFrom(Kinds).Draw(t, "kind")}
		if !o.Allows(want.Kind) {
			return
		}
		fields := map[string][]string{"organization": {o.Organization.ID}, "grant": {string(want.Kind)}}
		for _, other := range offers() { // the page holds the roles of all
			for _, r := range other.Member.Roles() {
				what := rapid.SampledFrom([]string{"none", "read", "change"}).Draw(t, r.ID)
				fields["role:"+r.ID] = []string{what}
				if want.Kind == Roles && r.Organization == o.Organization.ID && what != "none" {
					want.Picks = append(want.Picks, Pick{r.ID, what == "change"})
				}
			}
		}
		if rapid.Bool().Draw(t, "personal") {
			fields["personal"] = []string{"1"}
			want.Personal = want.Kind == Roles
		}
		c, faults := Parse(fields, offers())
		if want.Kind == Roles && len(want.Picks) == 0 && !want.Personal {
			if !slices.Equal(faults, []Fault{NothingPicked}) {
				t.Fatalf("nothing picked: %v", faults)
			}
			return
		}
		if len(faults) > 0 || !c.Set.Equal(want) {
			t.Fatalf("%+v, %v, want %+v", c.Set, faults, want)
		}
	})
}

// Decision P4: personal items of a service that has none are refused.
func TestParseWithoutPersonalItems(t *testing.T) {
	all := offers()
	all[0].Member.Impersonal = true
	fields := map[string][]string{"organization": {"acme"}, "grant": {"roles"}, "role:10": {"change"}, "personal": {"1"}}
	if _, faults := Parse(fields, all); !slices.Equal(faults, []Fault{NotAllowed}) {
		t.Errorf("%v", faults)
	}
	delete(fields, "personal")
	if c, faults := Parse(fields, all); len(faults) > 0 || c.Set.Personal {
		t.Errorf("%+v, %v", c.Set, faults)
	}
}

func BenchmarkParse(b *testing.B) {
	m, _ := manyRoles()
	o := NewOffer(org.Organization{ID: "acme", AIIntegration: true}, m, nil)
	fields := map[string][]string{"organization": {"acme"}, "grant": {"roles"}}
	for i, r := range m.Roles() {
		fields["role:"+r.ID] = []string{[]string{"none", "read", "change"}[i%3]}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, faults := Parse(fields, []Offer{o}); faults != nil {
			b.Fatal(faults)
		}
	}
}

func BenchmarkNewOffer(b *testing.B) {
	m, _ := manyRoles()
	var cs []org.Circle
	for i := range 25 {
		cs = append(cs, org.Circle{ID: fmt.Sprintf("circle-%02d", i), Name: fmt.Sprint("Circle ", i*7%25)})
	}
	b.ReportAllocs()
	for b.Loop() {
		NewOffer(org.Organization{ID: "acme"}, m, cs)
	}
}
