package rules_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/rules"
)

// A rule is about one MCP endpoint: what it names at another is not named (decision
// V62).
func TestRulesOfMCPEndpoints(t *testing.T) {
	r := compiled(t, "",
		rules.Rule{Tool: "list*", Touches: "open", Access: "read"},
		rules.Rule{Tool: "list", Path: "/reports/mcp", Touches: "admin"},
		rules.Rule{Prompt: "sum", Path: "/reports/mcp", Touches: "open"},
		rules.Rule{Resource: "a:*", Path: "/reports/mcp", Touches: "open"},
		rules.Rule{Method: "x/y", Path: "/reports/mcp", Touches: "nothing"},
		rules.Rule{Tool: "list", Path: "/other/mcp", Touches: "nothing"},
		rules.Rule{Call: "GET /reports/**", Touches: "open"})
	if all := r.Unreachable(); len(all) != 0 {
		t.Errorf("an endpoint's rules hide another's: %v", all)
	}
	a := selected(t, "r-orders=change")
	for name, tt := range map[string]struct {
		call    rules.Call
		allowed bool
		rule    int
	}{
		"the contract's":        {rules.Call{Tool: "list"}, true, 0},
		"the same name":         {rules.Call{Tool: "list", At: "/reports/mcp"}, false, 1},
		"a prefix":              {rules.Call{Tool: "list_wages", At: "/reports/mcp"}, false, -1},
		"a third endpoint":      {rules.Call{Tool: "list", At: "/other/mcp"}, true, 5},
		"of none":               {rules.Call{Tool: "list", At: "/else"}, false, -1},
		"in another case":       {rules.Call{Tool: "list", At: "/Reports/mcp"}, false, -1},
		"a prompt":              {rules.Call{Prompt: "sum", At: "/reports/mcp"}, true, 2},
		"the contract's prompt": {rules.Call{Prompt: "sum"}, false, -1},
		"a resource":            {rules.Call{Resource: "a:b", At: "/reports/mcp"}, true, 3},
		"another resource":      {rules.Call{Resource: "a:b"}, false, -1},
		"a method":              {rules.Call{RPC: "x/y", At: "/reports/mcp"}, true, 4},
		"another's method":      {rules.Call{RPC: "x/y"}, false, -1},
		"HTTP":                  {rules.Call{Method: "GET", Path: "/reports/x"}, true, 6},
	} {
		if d := r.Decide(a, roles, tt.call); d.Allowed != tt.allowed || d.Rule != tt.rule {
			t.Errorf("%s: %+v", name, d)
		}
		if c := tt.call; c.Tool != "" && r.Lists(a, roles, c) != tt.allowed {
			t.Errorf("%s is listed otherwise than decided", name)
		}
	}
	s := r.Survey(a, roles, func(at, tool string) rules.Known {
		return map[string]rules.Known{"/reports/mcp": rules.Yes, "": rules.No}[at]
	})
	if !slices.Contains(s.Not, rules.Named{Tool: "list", At: "/reports/mcp", Name: "list"}) || !slices.Contains(s.Read, rules.Named{Name: "list*"}) {
		t.Errorf("survey: %+v", s)
	}
	var tally rules.Tally
	tally.Note(rules.Call{Tool: "wages", At: "/reports/mcp"}, rules.Decision{Reason: rules.Unlisted})
	if got := tally.All(); len(got) != 1 || !strings.HasPrefix(got[0].Rule, "[[rules]]\ntool = \"wages\"\npath = \"/reports/mcp\"\nrole = ") {
		t.Errorf("to paste: %+v", got)
	}
	var faults rules.Faults
	if _, err := rules.Compile([]rules.Rule{{Call: "GET /x", Path: "/reports/mcp", Touches: "open"}}, ""); !errors.As(err, &faults) || !strings.Contains(faults[0].What, "path") {
		t.Errorf("path beside call: %v", err)
	}
}

// What is known of a tool is known of its own endpoint's.
func TestSurveyAsksTheEndpoint(t *testing.T) {
	r := compiled(t, "", rules.Rule{Tool: "get", Path: "/m", Role: "r-orders"})
	s := r.Survey(selected(t, "r-orders=change"), roles, func(at, _ string) rules.Known {
		if at == "/m" {
			return rules.Yes
		}
		return rules.No
	})
	if len(s.Read) != 1 || len(s.Change) != 0 {
		t.Errorf("%+v", s)
	}
}
