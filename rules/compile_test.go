package rules_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/rules"
)

func TestCompileRefuses(t *testing.T) {
	call := func(text string) rules.Rule { return rules.Rule{Call: text, Touches: "open"} }
	from := func(r rules.Rule, sources ...string) rules.Rule { r.RoleFrom = sources; return r }
	for _, tt := range []struct {
		rule rules.Rule
		want string // a part of the only fault
	}{
		{rules.Rule{Touches: "open"}, "it names 0 of"},
		{rules.Rule{Tool: "a", Call: "GET /x", Touches: "open"}, "it names 2 of"},
		{rules.Rule{Tool: "a"}, "does not say what it touches"},
		{rules.Rule{Tool: "a", Touches: "role"}, "does not say which"},
		{rules.Rule{Tool: "a", Touches: "Open"}, `touches: "Open" is none of`},
		{rules.Rule{Tool: "a", Touches: "open", Role: "r"}, "names a role and touches open"},
		{rules.Rule{Tool: "a", Role: "r", RoleName: "R"}, "more than one of"},
		{rules.Rule{Tool: "a", Role: "r 1"}, "role: an ID consists"},
		{rules.Rule{Tool: "a", RoleName: " "}, "role_name: it is missing"},
		{rules.Rule{Tool: "a", Role: "r", Access: "write"}, `access: "write" is neither`},
		{rules.Rule{Tool: "a", Touches: "admin", Access: "read"}, "what touches admin has none"},
		{rules.Rule{Tool: "a", Touches: "nothing", Access: "read"}, "what touches nothing has none"},
		{rules.Rule{Tool: "a", Touches: "service", Access: "read"}, "what touches service has none"},
		{rules.Rule{Tool: "a", Touches: "open", Access: "change"}, "what every member sees"},
		{rules.Rule{Tool: "a", Touches: "open", Private: true}, "private: it is for"},
		{rules.Rule{Tool: "a*b", Touches: "open"}, "tool: a * stands at its end alone"},
		{rules.Rule{Tool: "a**", Touches: "open"}, "tool: a * stands at its end alone"},
		{rules.Rule{Resource: "file:///a/../b", Touches: "open"}, "resource: not every server"},
		{rules.Rule{Method: "tools/call", Touches: "open"}, "named by its tool"},
		{rules.Rule{Method: "resources/read", Touches: "open"}, "named by its resource"},
		{call("/x"), "begins with a method"},
		{call("get /x"), "begins with a method"},
		{call("GET"), "begins with a slash"},
		{call("GET x"), "begins with a slash"},
		{call("GET  /x"), "begins with a slash"},
		{call("GET /**/x"), "** stands at its end"},
		{call("GET /x/**/"), "** stands at its end"},
		{call("GET /x*"), "a segment of its path"},
		{call("GET /{a}/{a}"), "a segment of its path"},
		{call("GET /{}"), "a segment of its path"},
		{call("GET /{a b}"), "a segment of its path"},
		{call("GET /a{b}"), "a segment of its path"},
		{call("GET /a%20b"), "a segment of its path"},
		{call("GET /a;b"), "a segment of its path"},
		{call("GET /a?b=c"), "a segment of its path"},
		{call("GET /a/../b"), "a segment of its path"},
		{call("GET /a/ b"), "a segment of its path"},
		{from(rules.Rule{Call: "GET /{a}"}, "path:b"), "has no {b}"},
		{from(rules.Rule{Call: "GET /{a}"}, "argument:/b"), "a call has roles in"},
		{from(rules.Rule{Call: "GET /{a}"}, "query:"), "a name has letters"},
		{from(rules.Rule{Call: "GET /{a}"}, "query:a[]"), "a name has letters"},
		{from(rules.Rule{Call: "GET /{a}"}, "body:b"), "begins with a slash"},
		{from(rules.Rule{Call: "GET /{a}"}, "body:/b~2"), "~ is written ~0"},
		{from(rules.Rule{Call: "GET /{a}"}, "path:a", "path:a"), "it is given twice"},
		{from(rules.Rule{Tool: "a"}, "path:a"), "in argument: alone"},
		{from(rules.Rule{Tool: "a"}, "body:/a"), "in argument: alone"},
		{from(rules.Rule{Resource: "a"}, "argument:/a"), "only calls, tools and prompts"},
	} {
		_, err := rules.Compile([]rules.Rule{{Tool: "good", Touches: "open"}, tt.rule}, "")
		var faults rules.Faults
		if !errors.As(err, &faults) || len(faults) != 1 || !strings.Contains(faults[0].What, tt.want) || faults[0].Rule != 1 || faults[0].Do == "" {
			t.Errorf("%+v: %v, want %q", tt.rule, err, tt.want)
		}
	}
}

// All mistakes are named at once, each with its rule.
func TestEveryMistake(t *testing.T) {
	_, err := rules.Compile([]rules.Rule{{Tool: "a"}, {Tool: "b", Touches: "open"}, {Call: "x", Touches: "y"}}, "allow")
	const want = `service.unlisted: "allow" is none of deny, read and service; rules[0] "a": it does not say what it touches; ` +
		`rules[2] "x": call: it begins with a method in capitals, or with *; ` +
		`rules[2] "x": touches: "y" is none of role, open, personal, admin, nothing and service`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	many := make([]rules.Rule, rules.MaxRules+1)
	for i := range many {
		many[i] = rules.Rule{Tool: "a", Touches: "open"}
	}
	if _, err := rules.Compile(many, ""); err == nil || !strings.HasPrefix(err.Error(), "rules: there are 1001, and at most 1000") {
		t.Error(err)
	}
	if r, err := rules.Compile(many[1:], ""); err != nil || r.Empty() || !compiled(t, "").Empty() {
		t.Error(err)
	}
}

func TestUnreachable(t *testing.T) {
	tool := func(name string) rules.Rule { return rules.Rule{Tool: name, Touches: "open"} }
	call := func(text string) rules.Rule { return rules.Rule{Call: text, Touches: "open"} }
	uri := func(text string) rules.Rule { return rules.Rule{Resource: text, Touches: "open"} }
	for _, tt := range []struct {
		first, second rules.Rule
		want          bool // the second is never reached
	}{
		{tool("a"), tool("a"), true}, {tool("a"), tool("A"), false}, {tool("a"), tool("ab"), false},
		{tool("a*"), tool("ab"), true}, {tool("a*"), tool("a"), true}, {tool("a*"), tool("ab*"), true},
		{tool("ab*"), tool("a*"), false}, {tool("a"), tool("a*"), false}, {tool("*"), tool("x"), true},
		{tool("*"), call("GET /x"), false}, {tool("a"), rules.Rule{Prompt: "a", Touches: "open"}, false},
		{uri("a:x*"), uri("A:X"), true}, {uri("a:x"), uri("A:X"), true},
		{call("GET /a"), call("GET /A/"), true}, {call("GET /a"), call("HEAD /a"), true}, {call("HEAD /a"), call("GET /a"), false},
		{call("* /a"), call("GET /a"), true}, {call("GET /a"), call("* /a"), false},
		{call("GET /{x}"), call("GET /a"), true}, {call("GET /a"), call("GET /{x}"), false}, {call("GET /{x}"), call("GET /{y}"), true},
		{call("GET /a/**"), call("GET /a"), true}, {call("GET /a/**"), call("GET /a/b/**"), true}, {call("GET /a/b/**"), call("GET /a/**"), false},
		{call("GET /a"), call("GET /a/**"), false}, {call("GET /a/{x}"), call("GET /a"), false}, {call("GET /**"), call("GET /"), true},
		{call("GET /b/**"), call("GET /a"), false}, {call("GET /a/b"), call("GET /a"), false},
		{tool("a"), rules.Rule{Method: "tools/list", Touches: "admin"}, true}, {tool("a"), rules.Rule{Method: "notifications/x", Touches: "admin"}, true},
		{tool("a"), rules.Rule{Method: "completion/complete", Touches: "admin"}, false},
	} {
		got := compiled(t, "", tool("other"), tt.first, tt.second).Unreachable()
		if (len(got) == 1) != tt.want || len(got) == 1 && (got[0].Rule != 2 || got[0].Do == "") {
			t.Errorf("%+v, then %+v: %v, want %v", tt.first, tt.second, got, tt.want)
		}
	}
	got := compiled(t, "", call("* /a/{x}/**"), call("GET /a/b")).Unreachable()
	if want := `rules[1] "GET /a/b": it is never reached: rules[0] "* /a/{x}/**" matches all that it does`; len(got) != 1 || got[0].Error() != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// A suggested rule is good, and allows nothing before it is completed.
func TestSuggest(t *testing.T) {
	for _, tt := range []struct {
		call rules.Call
		want string // its first line; "" is none
	}{
		{rules.Call{Tool: "create_order"}, `tool = "create_order"`},
		{rules.Call{Prompt: "sum up"}, `prompt = "sum up"`},
		{rules.Call{RPC: "orders/purge"}, `method = "orders/purge"`},
		{http("POST", "/api/v5/orders/17/lines//b3c4"), `call = "POST /api/v5/orders/{id}/lines/{id2}"`},
		{http("GET", "/"), `call = "GET /"`},
		{http("GET", "/api/v5/averylongwordthatmaybeasecret"), `call = "GET /api/v5/{id}"`},
		{http("GET", "/api/v5x/v5/v5"), `call = "GET /api/v5x/{id}/{id2}"`},
		{http("GET", "/v555/v5555/azAZ_-azAZazAZazAZab/azAZazAZazAZazAZazAZa"), `call = "GET /v555/{id}/azAZ_-azAZazAZazAZab/{id2}"`},
		{http("ABCDEFGHIJ", "/"), `call = "ABCDEFGHIJ /"`},
		{http("ABCDEFGHIJK", "/"), ""},
		{rules.Call{Tool: "azAZ09._-"}, `tool = "azAZ09._-"`},
		{rules.Call{Tool: strings.Repeat("a", 100)}, `tool = "` + strings.Repeat("a", 100) + `"`},
		{http("get", "/api/v5/orders"), ""},
		{http("GET", "/api/v5/%2e%2e"), ""},
		{rules.Call{Tool: "a\"\nrole = \"x"}, ""},
		{rules.Call{Tool: "tool*"}, ""},
		{rules.Call{Tool: strings.Repeat("a", 101)}, ""},
		{rules.Call{Resource: "order://17"}, ""},
	} {
		first, rest, _ := strings.Cut(strings.TrimPrefix(rules.Suggest(tt.call), "[[rules]]\n"), "\n")
		if first != tt.want || (rest == "") != (tt.want == "") {
			t.Errorf("%+v: %q, want %q", tt.call, first, tt.want)
		}
	}
}
