package consent

import (
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/rules"
)

// ruled holds calls against rules about the treasurer.
func (s *site) ruled(unlisted string, more ...rules.Rule) {
	s.T.Helper()
	r, err := rules.Compile(append([]rules.Rule{
		{Tool: "take_order", Role: "treasurer"}, {Tool: "list_orders", Touches: "open"}, {Tool: "delete_order", Touches: "admin"},
		{Call: "POST /orders", Role: "treasurer"},
	}, more...), unlisted)
	s.Do(err)
	s.Rules = func() *rules.Rules { return r }
	s.Tool = func(organization, _, name string) (string, rules.Known) {
		if organization != "nordlys" {
			return "of " + organization, rules.Unknown
		}
		switch name {
		case "take_order":
			return "Take an order", rules.No
		case "list_orders":
			return "List orders", rules.Yes
		case "delete_order":
			return "turned \u202e around", rules.No
		}
		return "", rules.Unknown
	}
}

// Decision V55: where there are rules, the page says what they let pass, and a
// number of what changes only where something does.
func TestWhatRulesLetPass(t *testing.T) {
	many := make([]rules.Rule, 6)
	for i := range many {
		many[i] = rules.Rule{Tool: string(rune('a' + i)), Touches: "open", Access: "read"}
	}
	for _, tt := range []struct {
		name, unlisted, access string
		more                   []rules.Rule
		preview                bool
		want                   []string
	}{
		{"change", "", "change", nil, false, []string{"It may change: Take an order, POST /orders.", "It may read: List orders.", "Not: delete_order."}},
		{"read", "", "read", nil, false, []string{"It may read: List orders.", "Not: Take an order, delete_order, POST /orders."}},
		{"many", "", "read", many, false, []string{"It may read: List orders, a, b, c, d and 2 more.", "Not: Take an order, delete_order, POST /orders."}},
		{"the service decides the rest", "service", "read", nil, false, []string{"It may read: List orders.", "Not: Take an order, delete_order, POST /orders.",
			"It may read what Treasurer can see, and what every member can see."}},
		{"numbers of what is read", "", "read", nil, true, []string{"It may read: List orders.", "Not: Take an order, delete_order, POST /orders."}},
		{"numbers of what changes", "", "change", nil, true, []string{"It may change: Take an order, POST /orders.", "It may read: List orders.", "Not: delete_order.", "It may change 12 entries as Treasurer."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			if tt.preview {
				s.items()
			}
			s.ruled(tt.unlisted, tt.more...)
			p := s.SignedIn("ada").Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", "nordlys", "grant", "roles", "role:treasurer", tt.access, "action", "preview").Want(200)
			if got := allows(p); !slices.Equal(got[:min(len(got), len(tt.want))], tt.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

// "Nothing" stands only where every rule denies, and nothing else is let through.
func TestRulesThatLetNothingPass(t *testing.T) {
	for unlisted, want := range map[string]bool{"": true, "deny": true, "read": false, "service": false} {
		s := newSite(t)
		r, err := rules.Compile([]rules.Rule{{Tool: "delete_order", Touches: "admin"}}, unlisted)
		s.Do(err)
		s.items()
		s.ruled("")
		s.Rules = func() *rules.Rules { return r }
		p := s.SignedIn("ada").Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", "nordlys", "grant", "roles", "role:treasurer", "change", "action", "preview").Want(200)
		if got := slices.Contains(allows(p), "Nothing: the service lets this choice do nothing."); got != want {
			t.Errorf("%q: %q", unlisted, allows(p))
		}
		changes := func(line string) bool { return strings.HasPrefix(line, "It may change") }
		if got := slices.ContainsFunc(allows(p), changes); got != (unlisted == "service") {
			t.Errorf("%q: %q", unlisted, allows(p))
		}
	}
}
