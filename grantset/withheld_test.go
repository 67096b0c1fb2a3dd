package grantset

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/org"
	"pgregory.net/rapid"
)

func TestWithheld(t *testing.T) {
	change, read := Set{Kind: Roles, Picks: []Pick{{"r1", false}, {"r2", true}}}, Set{Kind: Roles, Picks: []Pick{{"r1", false}}, Personal: true}
	everything, whole := Set{Kind: Everything}, Set{Kind: Organization}
	for name, tt := range map[string]struct {
		ceiling                         *Ceiling
		change, read, everything, whole Withheld
	}{
		"none":              {nil, "", "", "", ""},
		"zero":              {&Ceiling{}, "", "", "", ""},
		"the widest":        {&Ceiling{Widest: Organization}, "", "", "", ""},
		"selected roles":    {&Ceiling{Widest: Roles}, "", "", RolesOnly, RolesOnly},
		"an unknown widest": {&Ceiling{Widest: "all"}, "", "", RolesOnly, RolesOnly},
		"no admin":          {&Ceiling{Widest: Everything}, "", "", "", NoAdmin},
		"read only":         {&Ceiling{ReadOnly: true}, ReadsOnly, "", "", ""},
		"no personal items": {&Ceiling{NoPersonal: true}, "", KeepPersonal, "", ""},
		"the first role":    {&Ceiling{Never: []string{"r1"}, ReadOnly: true}, NeverGiven, NeverGiven, "", ""},
		"the last role":     {&Ceiling{Never: []string{"r2"}, NoPersonal: true}, NeverGiven, KeepPersonal, "", ""},
	} {
		for n, want := range []Withheld{tt.change, tt.read, tt.everything, tt.whole} {
			if got := tt.ceiling.Withholds([]Set{change, read, everything, whole}[n]); got != want {
				t.Errorf("%s: choice %d: %q, want %q", name, n, got, want)
			}
		}
	}
}

// The form takes what the ceiling offers, and nothing else; and selected roles that it
// takes are left as they are by it.
func TestParseTakesWhatIsOffered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := org.NewMember("ann", "acme", rapid.Bool().Draw(t, "admin"), someRoles().Draw(t, "filled"))
		c, s := someCeiling().Draw(t, "ceiling"), someSet().Draw(t, "set")
		fields := map[string][]string{"organization": {"acme"}, "grant": {string(s.Kind)}}
		fills := true
		for _, p := range s.Picks {
			fields["role:"+p.Role] = []string{p.access()}
			fills = fills && m.Fills(p.Role)
		}
		if s.Personal {
			fields["personal"] = []string{"1"}
		}
		offer := Offer{Organization: org.Organization{ID: "acme", AIIntegration: true}, Member: m, Ceiling: c}
		choice, faults := Parse(fields, []Offer{offer})
		if want := c.Withholds(s) == "" && fills && (s.Kind != Organization || m.Admin); (len(faults) == 0) != want {
			t.Fatalf("%+v under %+v: %v, withheld %q", s, c, faults, c.Withholds(s))
		}
		if len(faults) > 0 {
			return
		}
		if offered := offer.Allows(s.Kind); !offered || !choice.Set.Equal(s) {
			t.Fatalf("%+v is read as %+v, offered %t", s, choice.Set, offered)
		}
		if s.Kind == Roles {
			a, b := s.Narrow(m, c), s.Narrow(m, nil)
			atMost(t, "under the ceiling", a, b)
			if !a.ReadOnly() || !s.Personal {
				atMost(t, "without it", b, a)
			}
		}
	})
}
