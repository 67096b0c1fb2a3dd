package rules_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/grantkeeper/grantkeeper/rules"
)

// smallWorld are calls of all that drawRule names, for every role.
func smallWorld(reads rules.Known) (all []rules.Call) {
	ids := []string{"r-orders", "r-stock", "r-wages", "r-board", "r-east", "r-none"}
	for _, x := range ids {
		for _, y := range ids {
			body := []byte(fmt.Sprintf(`{"x":%q,"y":{"z":%q}}`, x, y))
			for _, tool := range []string{"a", "b", "ax", "x"} {
				all = append(all, rules.Call{Tool: tool, Reads: reads, Arguments: json.RawMessage(body)})
			}
			for _, path := range []string{"/o", "/o/" + x, "/" + x + "/p", "/x/p", "/o/x", "/x", "/o/p/" + x + "/x", "/o/p/x/x"} {
				for _, method := range []string{"GET", "POST"} {
					all = append(all, rules.Call{Method: method, Path: path, Query: "x=" + y, Body: body})
				}
			}
		}
	}
	return append(all, rules.Call{Resource: "a:b"}, rules.Call{Resource: "a:x"})
}

// What is said to pass passes for some call, and what is said not to for none.
func TestSurveySaysWhatIsDecided(t *testing.T) {
	worlds := map[rules.Known][]rules.Call{rules.Yes: smallWorld(rules.Yes), rules.No: smallWorld(rules.No)}
	rapid.Check(t, func(t *rapid.T) {
		all, r := drawRules(t, rapid.SampledFrom([]string{"deny", "read", "service"}).Draw(t, "unlisted"))
		reads := rapid.SampledFrom([]rules.Known{rules.Yes, rules.No}).Draw(t, "reads")
		a := drawSet(t).Narrow(ada(rapid.Bool().Draw(t, "admin")), nil)
		s := r.Survey(a, roles, func(string, string) rules.Known { return reads })
		passed, any, changed := map[string]bool{}, false, false // by name and need
		for _, known := range []rules.Known{rules.Yes, rules.No} {
			for _, c := range worlds[known] {
				d := r.Decide(a, roles, c)
				name := ""
				if d.Rule >= 0 {
					name = all[d.Rule].Tool + all[d.Rule].Call + all[d.Rule].Resource
				}
				if !d.Allowed || c.Tool != "" && name == c.Tool && known != reads {
					continue // of that tool the other is known
				}
				any, changed = true, changed || d.Needs == "change"
				passed[name+" "+d.Needs], passed[name] = true, true
			}
		}
		for _, n := range s.Change {
			if !passed[n.Name+" change"] {
				t.Fatalf("%s is said to change, and nothing passes", n.Name)
			}
		}
		for _, n := range s.Read {
			if !passed[n.Name+" read"] || slices.Contains(s.Change, n) {
				t.Fatalf("%s is said to read, and nothing passes, or it changes", n.Name)
			}
		}
		for _, n := range s.Not {
			if passed[n.Name] {
				t.Fatalf("%s is said not to pass, and does", n.Name)
			}
		}
		if any && !s.Passes || changed && !s.Changes {
			t.Fatalf("something passes: %t, changes: %t; %+v", any, changed, s)
		}
	})
}

// What a bakery's rules let through, in the order of its rules, tools first.
func TestSurvey(t *testing.T) {
	r, err := rules.Compile([]rules.Rule{
		{Call: "POST /orders/{role}", RoleFrom: []string{"path:role"}},
		{Tool: "list_orders", Touches: "open"},
		{Tool: "take_order", RoleFrom: []string{"argument:/role"}},
		{Tool: "delete_order", Touches: "admin"},
		{Tool: "mine", Touches: "personal"},
		{Tool: "take_order", Touches: "admin"}, // never reached
		{Tool: "*", Touches: "admin"},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	reads := func(_, tool string) rules.Known { return map[string]rules.Known{"list_orders": rules.Yes}[tool] }
	s := r.Survey(selected(t, "r-orders=change"), roles, reads)
	if got := fmt.Sprint(s); got != "{[{take_order take_order } { POST /orders/{role} }] [{list_orders list_orders }] [{delete_order delete_order } {mine mine }] true true false}" {
		t.Error(got)
	}
	for touches, want := range map[string]rules.Survey{"nothing": {Passes: true}, "service": {Passes: true, Changes: true, Unsaid: true}} {
		one := compiled(t, "", rules.Rule{Tool: "t", Touches: touches})
		if s := one.Survey(selected(t, "r-orders=change"), roles, reads); s.Passes != want.Passes || s.Changes != want.Changes || s.Unsaid != want.Unsaid || len(s.Read)+len(s.Change)+len(s.Not) > 0 {
			t.Errorf("%s: %+v", touches, s)
		}
	}
	s = r.Survey(selected(t, "r-orders=read personal"), roles, reads)
	if got := fmt.Sprint(s); got != "{[{mine mine }] [{list_orders list_orders }] [{delete_order delete_order } { POST /orders/{role} }] true true false}" {
		t.Error(got)
	}
}
