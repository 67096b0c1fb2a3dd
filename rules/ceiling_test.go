package rules_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/rules"
)

// What an organization lets no app do is refused whatever was approved and whatever
// the rules say, and its person is not asked to allow it (decision V65).
func TestCeilings(t *testing.T) {
	everything, whole := grantset.Set{Kind: grantset.Everything}, grantset.Set{Kind: grantset.Organization}
	some := grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "r-orders", Change: true}, {Role: "r-wages"}}, Personal: true}
	readOnly, wages := &grantset.Ceiling{ReadOnly: true}, &grantset.Ceiling{Never: []string{"r-wages"}}
	own, member := &grantset.Ceiling{NoPersonal: true}, &grantset.Ceiling{Widest: grantset.Everything}
	all := []rules.Rule{
		{Tool: "look", Role: "r-wages", Access: "read", Private: true}, {Tool: "pay", Role: "r-wages"}, {Tool: "sign", Role: "r-board"}, {Tool: "order", Role: "r-orders"},
		{Tool: "note", Touches: rules.TouchesPersonal}, {Tool: "hire", Touches: rules.TouchesAdmin}, {Tool: "ping", Touches: rules.TouchesNothing},
		{Tool: "ask", Touches: rules.TouchesService}, {Tool: "see", Touches: rules.TouchesOpen, Access: ""},
	}
	by := map[string]*rules.Rules{"none": rules.ServiceDecides, "rules": compiled(t, "", all...)}
	tool := func(name string, reads rules.Known) rules.Call {
		return rules.Call{Tool: name, Reads: reads, Arguments: json.RawMessage(`{}`)}
	}
	for _, tt := range []struct {
		name    string
		rules   string
		set     grantset.Set
		admin   bool
		ceiling *grantset.Ceiling
		call    rules.Call
		want    rules.Reason
		allowed bool
	}{
		{"everything, a call that reads", "none", everything, false, readOnly, http("GET", "/o"), rules.Whole, true},
		{"everything, a head", "none", everything, true, readOnly, http("HEAD", "/o"), rules.Whole, true},
		{"everything, a preflight", "none", everything, false, readOnly, http("OPTIONS", "/o"), rules.Whole, true},
		{"everything, a call that changes", "none", everything, false, readOnly, http("POST", "/o"), rules.ReadsOnly, false},
		{"an admin's everything, one that changes", "none", everything, true, readOnly, http("DELETE", "/o"), rules.ReadsOnly, false},
		{"the organization, one that changes", "none", whole, true, readOnly, http("PUT", "/o"), rules.ReadsOnly, false},
		{"a method in small letters", "none", whole, true, readOnly, http("get", "/o"), rules.ReadsOnly, false},
		{"picked roles, one that reads", "none", some, false, readOnly, http("GET", "/o"), rules.Unlisted, true},
		{"picked roles, one that changes", "none", some, false, readOnly, http("PATCH", "/o"), rules.ReadsOnly, false},
		{"a tool that reads", "none", everything, false, readOnly, tool("x", rules.Yes), rules.Whole, true},
		{"a tool that changes", "none", everything, false, readOnly, tool("x", rules.No), rules.ReadsOnly, false},
		{"a tool of which nothing is known", "none", everything, false, readOnly, tool("x", rules.Unknown), rules.ReadsOnly, false},
		{"a tool that says OPTIONS", "none", everything, false, readOnly, rules.Call{Tool: "x", Method: "OPTIONS"}, rules.ReadsOnly, false},
		{"a resource", "none", some, false, readOnly, rules.Call{Resource: "a:b"}, rules.Unlisted, true},
		{"what MCP needs", "none", everything, false, readOnly, rules.Call{RPC: "tools/list"}, rules.Always, true},
		{"an MCP method that nobody knows", "none", everything, false, readOnly, rules.Call{RPC: "orders/cancel"}, rules.ReadsOnly, false},
		{"no rule names it, reading", "rules", everything, false, readOnly, http("GET", "/o"), rules.Whole, true},
		{"no rule names it, reading by picked roles", "rules", some, false, readOnly, http("GET", "/o"), rules.Unlisted, false},
		{"no rule names it, changing", "rules", everything, true, readOnly, http("POST", "/o"), rules.ReadsOnly, false},
		{"a rule says that it reads", "rules", everything, false, readOnly, tool("look", rules.No), rules.Whole, true},
		{"a rule says that it changes", "rules", everything, true, readOnly, tool("pay", rules.Unknown), rules.ReadsOnly, false},
		{"a role that nobody gave", "rules", some, false, readOnly, tool("sign", rules.No), rules.ReadsOnly, false},
		{"the organization itself, even to read", "rules", everything, true, readOnly, tool("hire", rules.Yes), rules.ReadsOnly, false},
		{"what touches nothing", "rules", everything, false, readOnly, tool("ping", rules.No), rules.Listed, true},
		{"the service decides, and it may change", "rules", some, false, readOnly, tool("ask", rules.Unknown), rules.ReadsOnly, false},
		{"the service decides what it reads", "rules", some, false, readOnly, tool("ask", rules.Yes), rules.Listed, true},
		{"one's own, to read", "rules", some, false, readOnly, tool("note", rules.Yes), rules.Listed, true},
		{"what every member sees, to change", "rules", whole, true, readOnly, tool("see", rules.No), rules.ReadsOnly, false},

		{"a role that is never given, of picks", "rules", some, false, wages, tool("pay", rules.Yes), rules.Listed, true}, // every member sees that
		{"to change by it", "rules", some, false, wages, tool("pay", rules.No), rules.KeepRole, false},
		{"its private items", "rules", some, false, wages, tool("look", rules.Yes), rules.KeepRole, false},
		{"of everything", "rules", everything, false, wages, tool("pay", rules.No), rules.KeepRole, false},
		{"of an admin's everything", "rules", everything, true, wages, tool("pay", rules.No), rules.KeepRole, false},
		{"its private items, of an admin's", "rules", whole, true, wages, tool("look", rules.Yes), rules.KeepRole, false},
		{"another role of an admin's", "rules", whole, true, wages, tool("sign", rules.No), rules.Listed, true},
		{"what every member sees, of an admin's", "rules", everything, true, wages, tool("see", rules.No), rules.Listed, true},
		{"the organization itself, of an admin's", "rules", everything, true, wages, tool("hire", rules.No), rules.Listed, true},
		{"nobody says what it touches", "rules", everything, true, wages, http("GET", "/o"), rules.Unlisted, false},
		{"without rules the service does", "none", everything, true, wages, http("POST", "/o"), rules.Unlisted, true},
		{"a role that is not filled", "rules", everything, false, &grantset.Ceiling{Never: []string{"r-board"}}, http("POST", "/o"), rules.Whole, true},

		{"one's own are kept", "rules", everything, false, own, tool("note", rules.Yes), rules.KeepPersonal, false},
		{"of an admin", "rules", everything, true, own, tool("note", rules.Yes), rules.KeepPersonal, false},
		{"of picks", "rules", some, false, own, tool("note", rules.Yes), rules.KeepPersonal, false},
		{"and nothing else", "rules", everything, false, own, http("POST", "/o"), rules.Whole, true},

		{"an admin's rights", "rules", whole, true, member, tool("hire", rules.No), rules.KeepAdmin, false},
		{"a role of somebody else", "rules", whole, true, member, tool("sign", rules.No), rules.NotFilled, false},
		{"one's own role", "rules", whole, true, member, tool("pay", rules.No), rules.Listed, true},
		{"of who is no admin nothing is kept", "rules", everything, false, member, http("POST", "/o"), rules.Whole, true},
		{"selected roles only, and none is", "rules", everything, false, &grantset.Ceiling{Widest: grantset.Roles}, tool("pay", rules.No), rules.NotGiven, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := by[tt.rules].Decide(tt.set.Narrow(ada(tt.admin), tt.ceiling), roles, tt.call)
			if d.Allowed != tt.allowed || d.Reason != tt.want {
				t.Fatalf("%v %s, want %v %s: %+v", d.Allowed, d.Reason, tt.allowed, tt.want, d)
			}
			if kept := strings.HasPrefix(string(d.Reason), "organization_"); kept && (d.Helps() || !strings.Contains(d.Says(""), "The person cannot allow")) {
				t.Errorf("%s", d.Says(""))
			}
		})
	}
}

func TestWhatTheOrganizationKeepsIsSaid(t *testing.T) {
	for reason, want := range map[rules.Reason]string{
		rules.ReadsOnly:    "The bakery lets apps read only. The person cannot allow more.",
		rules.KeepRole:     "The bakery lets no app act through the role Wages. The person cannot allow it.",
		rules.KeepPersonal: "The bakery keeps personal items from apps. The person cannot allow it.",
		rules.KeepAdmin:    "The bakery lets no app act as an admin. The person cannot allow it.",
	} {
		d := rules.Decision{Reason: reason, RoleName: "Wages", Organization: "The bakery"}
		if got := d.Says(""); got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
		if d.Organization = ""; d.Says("") != strings.Replace(want, "The bakery", "The organization", 1) {
			t.Errorf("%s: %s", reason, d.Says(""))
		}
	}
}

func drawCeiling(t *rapid.T) *grantset.Ceiling {
	c := &grantset.Ceiling{ReadOnly: rapid.Bool().Draw(t, "read only"), NoPersonal: rapid.Bool().Draw(t, "no personal items")}
	c.Widest = rapid.SampledFrom([]grantset.Kind{"", grantset.Roles, grantset.Everything, grantset.Organization}).Draw(t, "widest")
	c.Never = rapid.SampledFrom([][]string{nil, {"r-orders"}, {"r-board", "r-wages"}}).Draw(t, "never")
	return c
}

// A ceiling never lets a call pass that would not without it; under read only none
// passes that could change something; where it limits nothing, nothing differs; and a
// tool of which some call passes stands in the lists.
func TestCeilingsNeverAllowMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, by := drawRules(t, rapid.SampledFrom([]string{"", "deny", "read", "service"}).Draw(t, "unlisted"))
		s, c, m := drawSet(t), drawCall(t), ada(rapid.Bool().Draw(t, "admin"))
		if s.Kind = rapid.SampledFrom(grantset.Kinds).Draw(t, "kind"); s.Kind != grantset.Roles {
			s.Picks, s.Personal = nil, false
		}
		ceiling := drawCeiling(t)
		a := s.Narrow(m, ceiling)
		d, free := by.Decide(a, roles, c), by.Decide(s.Narrow(m, nil), roles, c)
		if d.Allowed && !free.Allowed || ceiling.Zero() && d != free {
			t.Fatalf("%+v, and without %+v: %+v", d, ceiling, free)
		}
		reads := c.Resource != "" || c.Reads == rules.Yes || c.Method == "GET" || c.Method == "HEAD"
		if said := d.Rule >= 0 && (all[d.Rule].Access == "read" || d.Touches == rules.TouchesNothing); ceiling.ReadOnly && d.Allowed && !reads && !said {
			t.Fatalf("changes: %+v", d)
		}
		if d.Allowed && d.Item.Role != "" && !a.MayRead(d.Item) {
			t.Fatalf("%+v is not readable", d.Item)
		}
		if c.Tool != "" && d.Allowed && !by.Lists(a, roles, rules.Call{Tool: c.Tool, Reads: c.Reads}) {
			t.Fatalf("%+v is not listed", c)
		}
	})
}

// Under read only a decision hangs on what a tool says of itself wherever no rule says
// what the tool does, also where the service decides and under everything.
func TestReadOnlyHangsOnAnnotations(t *testing.T) {
	by := compiled(t, "", rules.Rule{Tool: "pay", Role: "r-wages", Access: "change"}, rules.Rule{Tool: "role", Role: "r-wages"},
		rules.Rule{Tool: "ask", Touches: rules.TouchesService}, rules.Rule{Tool: "ping", Touches: rules.TouchesNothing}, rules.Rule{Tool: "hire", Touches: rules.TouchesAdmin})
	for name, a := range map[string]grantset.Authority{
		"everything": grantset.Set{Kind: grantset.Everything}.Narrow(ada(false), &grantset.Ceiling{ReadOnly: true}),
		"an admin's": grantset.Set{Kind: grantset.Organization}.Narrow(ada(true), &grantset.Ceiling{ReadOnly: true}),
		"roles":      grantset.Set{Kind: grantset.Roles, Personal: true}.Narrow(ada(true), &grantset.Ceiling{ReadOnly: true}),
	} {
		for tool, want := range map[string]bool{"other": true, "role": true, "ask": true, "pay": false, "ping": false, "hire": false} {
			if got := by.HangsOnAnnotations(a, "", tool); got != want {
				t.Errorf("%s, %s: %v", name, tool, got)
			}
		}
		if !rules.ServiceDecides.HangsOnAnnotations(a, "", "other") {
			t.Errorf("%s, without rules", name)
		}
	}
	free := grantset.Set{Kind: grantset.Everything}.Narrow(org.NewMember("ada", "bakery", true, nil), nil)
	if by.HangsOnAnnotations(free, "", "role") || rules.ServiceDecides.HangsOnAnnotations(free, "", "other") {
		t.Error("everything, without a ceiling")
	}
}
