package grantset

import (
	"testing"

	"pgregory.net/rapid"
)

// A ceiling that limits nothing leaves everything as it is without one, and is said
// to be none; every other one is said to be one (decision P16).
func TestZeroCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, s := someMember().Draw(t, "member"), someSet().Draw(t, "set")
		before := s.Narrow(m, nil)
		for _, c := range []*Ceiling{{}, {Widest: Organization}} {
			a := s.Narrow(m, c)
			atMost(t, "under no ceiling", a, before)
			atMost(t, "without a ceiling", before, a)
			if !c.Zero() || a.Kind() != before.Kind() {
				t.Fatalf("%+v limits something", c)
			}
		}
	})
	for _, c := range []*Ceiling{{Widest: Roles}, {Widest: Everything}, {Widest: "all"}, {ReadOnly: true}, {NoPersonal: true}, {Never: []string{"r1"}}} {
		if c.Zero() {
			t.Errorf("%+v limits nothing", c)
		}
	}
	if !(*Ceiling)(nil).Zero() {
		t.Error("none limits something")
	}
}
