package rules_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/grantkeeper/grantkeeper/rules"
)

// Calls that no rule names are counted by the rule that would name them, as many
// as there is room for, and the rest together (decision V30).
func TestTally(t *testing.T) {
	var all rules.Tally
	unlisted := rules.Decision{Reason: rules.Unlisted}
	note := func(tool string) { all.Note(rules.Call{Tool: tool}, unlisted) }
	rule := func(tool string) string { return rules.Suggest(rules.Call{Tool: tool}) }
	if got := all.News(); got != nil {
		t.Errorf("an empty tally has %v", got)
	}
	note("b")
	note("a")
	note("b")
	note("no*name")
	all.Note(rules.Call{Tool: "c"}, rules.Decision{Reason: rules.Unlisted, Allowed: true})
	all.Note(rules.Call{Tool: "c"}, rules.Decision{Reason: rules.NotGiven})
	want := []rules.Unnamed{{Rule: rule("b"), Count: 2}, {Count: 1}, {Rule: rule("a"), Count: 1}}
	if got := all.News(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	note("a")
	if got, want := all.News(), []rules.Unnamed{{Rule: rule("a"), Count: 1}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for i := range 200 {
		note("t" + strconv.Itoa(i))
	}
	got := all.All()
	if len(got) != 101 || got[0] != (rules.Unnamed{Count: 103}) {
		t.Errorf("%d entries, the first %v", len(got), got[0])
	}
}
