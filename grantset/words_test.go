package grantset

import (
	"strings"
	"testing"
)

// What was approved is said by names, three at most and those to change first,
// and never by a number that is none.
func TestInWords(t *testing.T) {
	pick := func(roles ...string) (picks []Pick) {
		for _, r := range roles {
			id, change := strings.CutSuffix(r, "!")
			picks = append(picks, Pick{id, change})
		}
		return picks
	}
	for want, set := range map[string]Set{
		"Everything they can access":                                                {Kind: Everything},
		"Everything in this organization":                                           {Kind: Organization},
		"Only personal items":                                                       {Kind: Roles, Personal: true},
		"Selected roles: The a (read)":                                              {Kind: Roles, Picks: pick("a")},
		"Selected roles: The b (change), The a (read)":                              {Kind: Roles, Picks: pick("a", "b!")},
		"Selected roles: The b (change), The a (read); personal items included":     {Kind: Roles, Picks: pick("a", "b!"), Personal: true},
		"Selected roles: The a (change), The b (change), The c (change)":            {Kind: Roles, Picks: pick("a!", "b!", "c!")},
		"Selected roles: The d (change), The a (read), The b (read) and 4 more":     {Kind: Roles, Picks: pick("a", "b", "c", "d!", "e", "f", "g")},
		"Selected roles: The b (change), The c (change), The d (change) and 1 more": {Kind: Roles, Picks: pick("a", "b!", "c!", "d!")},
	} {
		if got := set.InWords(func(role string) string { return "The " + role }); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A ceiling says what it leaves, and nothing where it takes nothing.
func TestCeilingInWords(t *testing.T) {
	name := func(role string) string { return "the " + role }
	for want, c := range map[string]*Ceiling{
		"": nil, "no admin rights": {Widest: Everything}, "selected roles at most": {Widest: Roles}, "to read only": {Widest: Organization, ReadOnly: true},
		"no personal items": {NoPersonal: true}, "never through the a, never through the b, never through the c": {Never: []string{"a", "b", "c"}},
		"selected roles at most, to read only, never through the a, never through the b, never through the c, nor through 2 more": {Widest: Roles, ReadOnly: true, Never: []string{"a", "b", "c", "d", "e"}},
		"never through the a, never through the b, never through the c, nor through 1 more":                                       {Never: []string{"a", "b", "c", "d"}},
	} {
		if got := c.InWords(name); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
