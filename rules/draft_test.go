package rules_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/rules"
)

// written reads back what a drafted rule names. Its escapes are Go's as well.
func written(t *testing.T, rule, key string) string {
	t.Helper()
	lines := strings.Split(rule, "\n")
	if len(lines) != 4 || lines[0] != "[[rules]]" || !strings.HasPrefix(lines[2], `role = "ROLE" #`) || lines[3] != "" {
		t.Fatalf("drafted %q", rule)
	}
	quoted, ok := strings.CutPrefix(lines[1], key+" = ")
	text, err := strconv.Unquote(quoted)
	if !ok || err != nil || strings.ContainsFunc(quoted, func(c rune) bool { return c < ' ' || c > '~' }) {
		t.Fatalf("drafted %q: %v", rule, err)
	}
	return text
}

// What a tool needs is said with the rule and with the annotation that it is from.
func TestNeeded(t *testing.T) {
	all := []rules.Rule{
		{Tool: "list_*", Touches: "open"}, {Tool: "create", Role: "r"}, {Tool: "look", Role: "r", Access: "read"},
		{Tool: "close", Touches: "admin"}, {Tool: "ping", Touches: "nothing"}, {Tool: "any", Touches: "service"}, {Tool: "own", Touches: "personal"},
	}
	for _, tt := range []struct {
		unlisted, tool string
		reads          rules.Known
		want           rules.Needed
	}{
		{"", "list_a", rules.Yes, rules.Needed{Rule: 0, Name: "list_*", Touches: "open", Access: "read", Hinted: true}},
		{"", "create", rules.Unknown, rules.Needed{Rule: 1, Name: "create", Touches: "role", Access: "change", Hinted: true}},
		{"", "look", rules.No, rules.Needed{Rule: 2, Name: "look", Touches: "role", Access: "read"}},
		{"", "close", rules.Yes, rules.Needed{Rule: 3, Name: "close", Touches: "admin", Access: "admin"}},
		{"", "ping", rules.Yes, rules.Needed{Rule: 4, Name: "ping", Touches: "nothing"}},
		{"", "any", rules.Yes, rules.Needed{Rule: 5, Name: "any", Touches: "service"}},
		{"", "own", rules.No, rules.Needed{Rule: 6, Name: "own", Touches: "personal", Access: "change", Hinted: true}},
		{"", "else", rules.Yes, rules.Needed{Rule: -1, Unlisted: "deny"}},
		{"service", "else", rules.Yes, rules.Needed{Rule: -1, Unlisted: "service"}},
		{"read", "else", rules.Yes, rules.Needed{Rule: -1, Unlisted: "read", Access: "read", Hinted: true}},
		{"read", "else", rules.No, rules.Needed{Rule: -1, Unlisted: "read", Access: "change", Hinted: true}},
	} {
		r, err := rules.Compile(all, tt.unlisted)
		if err != nil || r.Len() != len(all) {
			t.Fatal(err)
		}
		if got := r.Needed(rules.Call{Tool: tt.tool, Reads: tt.reads}); got != tt.want {
			t.Errorf("%s of %q: %+v, want %+v", tt.tool, tt.unlisted, got, tt.want)
		}
	}
	if got := new(rules.Rules).Needed(rules.Call{Tool: "x", Reads: rules.Yes}); got != (rules.Needed{Rule: -1, Unlisted: "deny"}) {
		t.Errorf("of no rules: %+v", got)
	}
}

// A rule that is drafted for a tool is visible ASCII, compiles, and names that tool
// and no other.
func FuzzDraftTool(f *testing.F) {
	for _, name := range []string{"list_orders", `a"b\`, "a\n[[rules]]", "a*", "*", "а", "x\u202e", "\x00\x7f", "😀", "", strings.Repeat("x", 200), strings.Repeat("x", 201)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		rule, ok := rules.DraftTool("", name)
		if want := name != "" && len(name) <= 200 && !strings.Contains(name, "*"); ok != want || !ok && rule != "" {
			t.Fatalf("%q: %v %q", name, ok, rule)
		}
		if !ok || !utf8.ValidString(name) { // as JSON has none
			return
		}
		text := written(t, rule, "tool")
		r, err := rules.Compile([]rules.Rule{{Tool: text, Role: "ROLE"}}, "")
		if err != nil || text != name {
			t.Fatalf("%q became %q: %v", name, text, err)
		}
		for other, want := range map[string]int{name: 0, name + "x": -1, "x" + name: -1} {
			if got := r.Needed(rules.Call{Tool: other, Reads: rules.No}).Rule; got != want {
				t.Errorf("%q: %q is named by rule %d, want %d", name, other, got, want)
			}
		}
	})
}

// Rules for an API name each operation once, so that each of them is reached.
func TestDraftCalls(t *testing.T) {
	had, err := rules.Compile([]rules.Rule{{Call: "* /wages/**", Touches: "admin"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	var all []rules.Operation
	for _, call := range []string{
		"GET /orders/{id}", "GET /orders/mine", "HEAD /orders/{other}", "POST /orders/{id}", "GET /wages/{id}", "GET /", "GET /orders/{id}/lines/{id}",
		"GET /orders/{id}.json", "GET /days/{from}-{to}/", "GET /a%20b", "GET /a%2fb", "GET /**", "GET /x/{rest*}", "GET /x/{+rest}", "GET /x/{id", "GET /x/}", "GET /x/{}",
		"GET orders", "get /orders", "M-SEARCH /x", "GET /../x", "GET /x?y=1", "GET /%zz", "GET /" + strings.Repeat("x", 200), "GET /Orders/Mine",
		"GET /days/now/z", "GET /days/{from}/a",
	} {
		method, path, _ := strings.Cut(call, " ")
		all = append(all, rules.Operation{Method: method, Path: path})
	}
	var got, none []string
	for _, d := range had.DraftCalls(all) {
		if d.Rule == "" {
			none = append(none, d.Method+" "+d.Path+": "+d.Why)
		} else {
			got = append(got, written(t, d.Rule, "call"))
		}
	}
	if want := []string{"GET /", "GET /a b", "GET /days/now/z", "GET /days/{from}", "GET /days/{from}/a", "GET /Orders/Mine", "GET /orders/{id}", "POST /orders/{id}", "GET /orders/{id}/lines/{id2}", "GET /x/{id}"}; !slices.Equal(got, want) {
		t.Errorf("drafted %q,\nwant %q", got, want)
	}
	for call, why := range map[string]string{
		"GET /orders/{id}.json": `the rule of "GET /orders/{id}" names it`, "HEAD /orders/{other}": `the rule of "GET /orders/{id}" names it`,
		"GET /orders/mine": `"GET /Orders/Mine" names it`, "GET /a%2fb": "no plain text", "GET /**": "no plain text", "GET /x/{rest*}": "more than one segment",
		"GET /x/{+rest}": "more than one segment", "GET /x/{id": "no end", "GET /x/}": "a segment", "GET orders": "begins with a slash", "get /orders": "capitals",
		"M-SEARCH /x": "capitals", "GET /../x": "a segment", "GET /x?y=1": "a segment", "GET /%zz": "no plain text", "GET /" + strings.Repeat("x", 200): "200 bytes",
	} {
		if !slices.ContainsFunc(none, func(s string) bool { return strings.HasPrefix(s, call+": ") && strings.Contains(s, why) }) {
			t.Errorf("%s has another fault than %q: %q", call, why, none)
		}
	}
	if len(none) != 16 {
		t.Errorf("without a rule: %q", none)
	}
}

// There are never more than a configuration takes.
func TestDraftCallsAreBounded(t *testing.T) {
	had, err := rules.Compile([]rules.Rule{{Call: "GET /had", Touches: "open"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	var all []rules.Operation
	for i := range rules.MaxRules + 2 {
		all = append(all, rules.Operation{Method: "GET", Path: fmt.Sprint("/x", i)})
	}
	drafted := 0
	for _, d := range had.DraftCalls(all) {
		if d.Rule != "" {
			drafted++
		} else if !strings.Contains(d.Why, "1000 rules") {
			t.Errorf("%+v", d)
		}
	}
	if drafted != rules.MaxRules-1 {
		t.Errorf("%d are drafted", drafted)
	}
}

// Whatever paths there are, the rules compile, and each is reached.
func FuzzDraftCalls(f *testing.F) {
	f.Add("GET /a/{b}\nGET /A/c\nHEAD /a/{d}\nPOST /ſ/{x}\nPOST /s/y\nGET /{a}{b}/%41")
	f.Fuzz(func(t *testing.T, text string) {
		var all []rules.Operation
		for line := range strings.Lines(text) {
			method, path, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			all = append(all, rules.Operation{Method: method, Path: path})
		}
		var made []rules.Rule
		for _, d := range new(rules.Rules).DraftCalls(all) {
			if d.Rule != "" {
				made = append(made, rules.Rule{Call: written(t, d.Rule, "call"), Role: "ROLE"})
			} else if d.Why == "" {
				t.Errorf("%+v", d)
			}
		}
		r, err := rules.Compile(made, "")
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if never := r.Unreachable(); len(never) > 0 {
			t.Errorf("%q: %v", text, never)
		}
	})
}
