package rules_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/rules"
)

// The bakery of these tests: Ada fills Orders, Stock and Wages; Board is
// somebody else's. Two roles are called Driver.
var bakery = []org.Role{
	{ID: "r-orders", Organization: "bakery", Circle: "shop", Name: "Orders"},
	{ID: "r-stock", Organization: "bakery", Circle: "shop", Name: "Stock"},
	{ID: "r-wages", Organization: "bakery", Circle: "office", Name: "Wages"},
	{ID: "r-board", Organization: "bakery", Circle: "top", Name: "Board"},
	{ID: "r-east", Organization: "bakery", Circle: "shop", Name: "Driver"},
	{ID: "r-west", Organization: "bakery", Circle: "shop", Name: "Driver"},
}

var roles = rules.Roles{
	ByID: func(id string) (org.Role, bool) {
		for _, r := range bakery {
			if r.ID == id {
				return r, true
			}
		}
		return org.Role{}, false
	},
	ByName: func(name string) (all []org.Role) {
		for _, r := range bakery {
			if r.Name == name {
				all = append(all, r)
			}
		}
		return all
	},
}

func ada(admin bool) org.Member {
	return org.NewMember("ada", "bakery", admin, append([]org.Role(nil), bakery[:3]...))
}

// selected is the authority of "Only selected roles", such as "r-orders=change
// personal".
func selected(t testing.TB, picks string) grantset.Authority {
	t.Helper()
	picks, personal := strings.CutSuffix(picks, " personal")
	if picks == "personal" {
		picks, personal = "", true
	}
	set, err := grantset.Decode("roles", picks, personal)
	if err != nil {
		t.Fatal(err)
	}
	return set.Narrow(ada(true), nil) // an admin: selected roles never make use of that
}

func compiled(t testing.TB, unlisted string, all ...rules.Rule) *rules.Rules {
	t.Helper()
	r, err := rules.Compile(all, unlisted)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDecisions(t *testing.T) {
	get := func(target string) rules.Call { return http("GET", target) }
	tool := func(name, arguments string) rules.Call {
		return rules.Call{Tool: name, Arguments: json.RawMessage(arguments)}
	}
	body := func(text string) rules.Call {
		return rules.Call{Method: "POST", Path: "/api/v5/orders", Body: []byte(text)}
	}
	orders := rules.Rule{Tool: "create_order", Role: "r-orders"}
	move := rules.Rule{Tool: "move_order", RoleFrom: []string{"argument:/from", "argument:/to/role"}}
	inBody := rules.Rule{Call: "POST /api/v5/orders", RoleFrom: []string{"body:/order/role"}}
	inPath := rules.Rule{Call: "* /api/v5/roles/{role}/orders/**", RoleFrom: []string{"path:role"}}
	inQuery := rules.Rule{Call: "POST /api/v5/orders", RoleFrom: []string{"query:role_id"}}
	private := rules.Rule{Call: "* /api/v5/wages", Role: "r-wages", Private: true}
	const change = "r-orders=change"
	tests := []struct {
		name  string
		rule  rules.Rule
		picks string
		call  rules.Call
		want  rules.Reason
	}{
		// Decision V21: the item decides.
		{"change through a role that gives change", orders, change, tool("create_order", ""), rules.Listed},
		{"change through a role that gives read", orders, "r-orders=read", tool("create_order", ""), rules.ReadOnly},
		{"change through a role that was left out", orders, "r-stock=change", tool("create_order", ""), rules.NotGiven},
		{"change through a role that is not filled", rules.Rule{Tool: "create_order", Role: "r-board"}, change, tool("create_order", ""), rules.NotFilled},
		{"every member reads what is not private", rules.Rule{Tool: "t", Role: "r-board", Access: "read"}, change, tool("t", ""), rules.Listed},
		{"what is private, through its role", private, "r-wages=read", get("/api/v5/wages"), rules.Listed},
		{"what is private, without its role", private, change, get("/api/v5/wages"), rules.NotGiven},
		{"what is private, through a role of its circle", rules.Rule{Tool: "t", Role: "r-east", Access: "read", Private: true}, change, tool("t", ""), rules.Listed},
		{"what is open is read", rules.Rule{Tool: "t", Touches: "open", Access: "read"}, change, tool("t", ""), rules.Listed},
		{"what is open has no role to be changed through", rules.Rule{Tool: "t", Touches: "open"}, change, tool("t", ""), rules.NoRole},
		{"personal items, where they are given", rules.Rule{Tool: "t", Touches: "personal"}, "personal", tool("t", ""), rules.Listed},
		{"personal items, where they are not", rules.Rule{Tool: "t", Touches: "personal"}, change, tool("t", ""), rules.Personal},
		{"selected roles administer nothing", rules.Rule{Tool: "t", Touches: "admin"}, change, tool("t", ""), rules.Admin},
		{"nothing is touched", rules.Rule{Tool: "t", Touches: "nothing"}, change, tool("t", ""), rules.Listed},
		{"the service decides", rules.Rule{Tool: "t", Touches: "service"}, change, tool("t", ""), rules.Listed},

		// A role by its name.
		{"the one role of a name", rules.Rule{Tool: "t", RoleName: "Orders"}, change, tool("t", ""), rules.Listed},
		{"two roles of a name", rules.Rule{Tool: "t", RoleName: "Driver"}, change, tool("t", ""), rules.UnknownRole},
		{"a name in another case", rules.Rule{Tool: "t", RoleName: "orders"}, change, tool("t", ""), rules.UnknownRole},
		{"a role of another organization", rules.Rule{Tool: "t", Role: "r-elsewhere"}, change, tool("t", ""), rules.UnknownRole},

		// Decision V23: what is not said changes.
		{"a tool without annotations changes", orders, "r-orders=read", rules.Call{Tool: "create_order"}, rules.ReadOnly},
		{"a tool that says it does not read", orders, "r-orders=read", rules.Call{Tool: "create_order", Reads: rules.No}, rules.ReadOnly},
		{"a tool that says it reads", orders, "r-stock=read", rules.Call{Tool: "create_order", Reads: rules.Yes}, rules.Listed},
		{"access of the rule wins over the annotation", rules.Rule{Tool: "t", Role: "r-orders", Access: "change"}, "r-orders=read", rules.Call{Tool: "t", Reads: rules.Yes}, rules.ReadOnly},
		{"POST changes", rules.Rule{Call: "* /api/v5/orders", Role: "r-orders"}, "r-orders=read", body("{}"), rules.ReadOnly},
		{"HEAD reads", rules.Rule{Call: "GET /api/v5/orders", Role: "r-orders"}, "r-stock=read", http("HEAD", "/api/v5/orders"), rules.Listed},
		{"get is no GET", rules.Rule{Call: "GET /api/v5/orders", Role: "r-orders"}, "r-orders=read", http("get", "/api/v5/orders"), rules.ReadOnly},
		{"a resource is read", rules.Rule{Resource: "order://*", Role: "r-board"}, change, rules.Call{Resource: "order://1"}, rules.Listed},
		{"a prompt is read", rules.Rule{Prompt: "sum_up", Role: "r-board"}, change, rules.Call{Prompt: "sum_up"}, rules.Listed},

		// Decision V25: a role from the request.
		{"argument", move, "r-orders=change r-stock=change", tool("move_order", `{"from":"r-orders","to":{"role":"r-stock"}}`), rules.Listed},
		{"all arguments are needed", move, change, tool("move_order", `{"from":"r-orders","to":{"role":"r-stock"}}`), rules.NotGiven},
		{"the first of them too", move, "r-stock=change", tool("move_order", `{"from":"r-orders","to":{"role":"r-stock"}}`), rules.NotGiven},
		{"an argument is missing", move, change, tool("move_order", `{"from":"r-orders","to":{}}`), rules.RoleMissing},
		{"no arguments", move, change, tool("move_order", ""), rules.RoleMissing},
		{"an argument is null", move, change, tool("move_order", `{"from":"r-orders","to":{"role":null}}`), rules.RoleMissing},
		{"an argument is a list", move, change, tool("move_order", `{"from":["r-orders"],"to":{"role":"r-orders"}}`), rules.RoleMissing},
		{"an argument is in a list", move, change, tool("move_order", `{"from":"r-orders","to":[{"role":"r-orders"}]}`), rules.RoleMissing},
		{"an argument is empty", move, change, tool("move_order", `{"from":"","to":{"role":"r-orders"}}`), rules.RoleMissing},
		{"an argument is of no role", move, change, tool("move_order", `{"from":"r-none","to":{"role":"r-orders"}}`), rules.UnknownRole},
		{"an argument is no ID", move, change, tool("move_order", `{"from":"r orders","to":{"role":"r-orders"}}`), rules.UnknownRole},
		{"an argument stands twice", move, change, tool("move_order", `{"from":"r-orders","from":"r-orders","to":{"role":"r-orders"}}`), rules.RoleMissing},
		{"an argument stands in two cases", move, change, tool("move_order", `{"from":"r-orders","From":"r-orders","to":{"role":"r-orders"}}`), rules.RoleMissing},
		{"an argument stands twice, escaped", move, change, tool("move_order", `{"from":"r-orders","fr\u006fm":"r-orders","to":{"role":"r-orders"}}`), rules.RoleMissing},
		{"an argument stands escaped", move, "r-orders=change r-stock=change", tool("move_order", `{"fr\u006fm":"r\u002dorders","to":{"role":"r-stock"}}`), rules.Listed},
		{"an argument with the characters of pointers", rules.Rule{Tool: "t", RoleFrom: []string{"argument:/a~0~1b"}}, change, tool("t", `{"a~/b":"r-orders"}`), rules.Listed},
		{"body", inBody, change, body(` {"order":{"role":"r-orders"}} `), rules.Listed},
		{"body for another role", inBody, change, body(`{"order":{"role":"r-stock"}}`), rules.NotGiven},
		{"body with a member twice, elsewhere", inBody, change, body(`{"order":{"role":"r-orders"},"x":{"a":1,"a":2}}`), rules.BodyUnread},
		{"no body", inBody, change, body(``), rules.BodyUnread},
		{"body that is no JSON", inBody, change, body(`order=1`), rules.BodyUnread},
		{"body that is a list", inBody, change, body(`[{"order":{"role":"r-orders"}}]`), rules.BodyUnread},
		{"body of 64 KiB", inBody, change, body(`{"order":{"role":"r-orders"}}` + strings.Repeat(" ", 64<<10-29)), rules.Listed},
		{"body of more", inBody, change, body(`{"order":{"role":"r-orders"}}` + strings.Repeat(" ", 64<<10-28)), rules.BodyUnread},
		{"body that was not read", inBody, change, rules.Call{Method: "POST", Path: "/api/v5/orders", Body: []byte(`{"order":{"role":"r-orders"}}`), Unread: true}, rules.BodyUnread},
		{"query", inQuery, change, http("POST", "/api/v5/orders?role_id=r-orders&x=1"), rules.Listed},
		{"query, escaped", inQuery, change, http("POST", "/api/v5/orders?role%5Fid=r%2Dorders"), rules.Listed},
		{"query, twice", inQuery, change, http("POST", "/api/v5/orders?role_id=r-orders&role_id=r-orders"), rules.RoleMissing},
		{"query, in another case too", inQuery, change, http("POST", "/api/v5/orders?role_id=r-orders&Role_ID=r-stock"), rules.RoleMissing},
		{"query, as a list too", inQuery, change, http("POST", "/api/v5/orders?role_id=r-orders&role_id[]=r-stock"), rules.RoleMissing},
		{"query, as PHP reads it", inQuery, change, http("POST", "/api/v5/orders?role_id=r-orders&role.id=r-stock"), rules.RoleMissing},
		{"query, in another case alone", inQuery, change, http("POST", "/api/v5/orders?ROLE_ID=r-orders"), rules.RoleMissing},
		{"query with a semicolon", inQuery, change, http("POST", "/api/v5/orders?role_id=r-orders;role_id=r-stock"), rules.RoleMissing},
		{"query, broken behind", inQuery, change, http("POST", "/api/v5/orders?role_id=r-orders&x=%zz"), rules.RoleMissing},
		{"query, none", inQuery, change, http("POST", "/api/v5/orders"), rules.RoleMissing},
		{"path", inPath, change, http("POST", "/api/v5/roles/r-orders/orders/17"), rules.Listed},
		{"path, of the rest nothing", inPath, change, http("POST", "/api/v5/roles/r-orders/orders"), rules.Listed},
		{"path, the second of two values", rules.Rule{Call: "POST /api/v5/{shop}/orders/{role}", RoleFrom: []string{"path:role"}}, change, http("POST", "/api/v5/s1/orders/r-orders"), rules.Listed},
		{"path, escaped", inPath, change, http("POST", "/api/v5/roles/r%2Dorders/orders"), rules.Listed},
		{"path, of another role", inPath, change, http("POST", "/api/v5/roles/r-stock/orders/17"), rules.NotGiven},
		{"path, in another case", inPath, change, http("POST", "/api/v5/roles/R-ORDERS/orders/17"), rules.UnknownRole},
		{"path, with a parameter", inPath, change, http("POST", "/api/v5/roles/r-orders;r-stock/orders/17"), rules.UnknownRole},

		// Decision V24: what no rule names.
		{"another tool", orders, change, tool("delete_order", ""), rules.Unlisted},
		{"a tool in another case", orders, change, tool("Create_Order", ""), rules.Unlisted},
		{"a tool with more behind", orders, change, tool("create_orders", ""), rules.Unlisted},
		{"a tool of a prefix", rules.Rule{Tool: "create_*", Role: "r-orders"}, change, tool("create_order", ""), rules.Listed},
		{"a tool of no prefix", rules.Rule{Tool: "create_*", Role: "r-orders"}, change, tool("recreate_order", ""), rules.Unlisted},
		{"a prompt that is called as a tool", orders, change, rules.Call{Prompt: "create_order"}, rules.Unlisted},
		{"a call without a rule", orders, change, get("/api/v5/orders"), rules.Unlisted},
		{"another method", inBody, change, http("PUT", "/api/v5/orders"), rules.Unlisted},
		{"a shorter path", inPath, change, http("POST", "/api/v5/roles/r-orders"), rules.Unlisted},
		{"a longer path", inBody, change, http("POST", "/api/v5/orders/1"), rules.Unlisted},
		{"a path with dot segments", inPath, change, http("POST", "/api/v5/roles/r-orders/orders/%2e%2e/x"), rules.Ambiguous},
		{"a URI with dot segments", rules.Rule{Resource: "file:///open/*", Touches: "nothing"}, change, rules.Call{Resource: "file:///open/%2e%2e/secret"}, rules.Ambiguous},
		{"a URI that is escaped too often", rules.Rule{Resource: "file:///open/*", Touches: "nothing"}, change, rules.Call{Resource: "file:///open/%2525252541"}, rules.Ambiguous},
		{"a URI with a percent sign", rules.Rule{Resource: "file:///open/*", Touches: "nothing"}, change, rules.Call{Resource: "file:///open/100%"}, rules.Listed},
		{"a URI in another case", rules.Rule{Resource: "file:///open", Touches: "nothing"}, change, rules.Call{Resource: "FILE:///Open"}, rules.Listed},
		{"a URI with more behind", rules.Rule{Resource: "file:///open", Touches: "nothing"}, change, rules.Call{Resource: "file:///opened"}, rules.Unlisted},
		{"a URI with the port that it has anyway", rules.Rule{Resource: "https://a.example/*", Touches: "nothing"}, change, rules.Call{Resource: "HTTPS://a.example:443/x"}, rules.Ambiguous},
		{"a URI with an escaped letter", rules.Rule{Resource: "file:///open", Touches: "nothing"}, change, rules.Call{Resource: "file:///%6fpen"}, rules.Unlisted},
		{"a path with a percent sign", inPath, change, http("POST", "/api/v5/roles/r-orders/orders/100%25"), rules.Listed},
		{"a path with a control character", inPath, change, http("POST", "/api/v5/roles/r-orders/orders/%00"), rules.Ambiguous},
		{"a path that is not UTF-8", inPath, change, http("POST", "/api/v5/roles/r-orders/orders/%ff"), rules.Ambiguous},
		{"a path that is escaped too often", inPath, change, http("POST", "/api/v5/roles/r-orders/orders/%2525252541"), rules.Ambiguous},
		{"no path", orders, change, http("GET", ""), rules.Ambiguous},

		// Decision V28: methods of MCP.
		{"a method that touches nothing", orders, change, rules.Call{RPC: "tools/list"}, rules.Always},
		{"a notification", orders, change, rules.Call{RPC: "notifications/cancelled"}, rules.Always},
		{"a task", orders, change, rules.Call{RPC: "tasks/result"}, rules.Always},
		{"what is no method of tasks", orders, change, rules.Call{RPC: "tasks/purge"}, rules.UnknownMethod},
		{"completion", orders, change, rules.Call{RPC: "completion/complete"}, rules.Unlisted},
		{"completion that a rule names", rules.Rule{Method: "completion/complete", Touches: "open"}, change, rules.Call{RPC: "completion/complete"}, rules.Listed},
		{"another method", orders, change, rules.Call{RPC: "orders/purge"}, rules.UnknownMethod},
		{"another method that a rule names", rules.Rule{Method: "orders/*", Role: "r-orders"}, change, rules.Call{RPC: "orders/purge"}, rules.Listed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := compiled(t, "", tt.rule).Decide(selected(t, tt.picks), roles, tt.call)
			if d.Reason != tt.want || d.Allowed != (tt.want == rules.Listed || tt.want == rules.Always) {
				t.Fatalf("%+v, want %s", d, tt.want)
			}
			if (d.Says("") == "") != d.Allowed {
				t.Errorf("it says %q", d.Says(""))
			}
		})
	}
}

// Where nobody knows the roles, or an ID is none, the organization has no such role.
func TestRolesThatNobodyKnows(t *testing.T) {
	r := compiled(t, "", rules.Rule{Tool: "t", RoleFrom: []string{"argument:/r"}})
	all := rules.Roles{ByID: func(id string) (org.Role, bool) { return org.Role{ID: id}, true }}
	for arguments, known := range map[string]rules.Roles{`{"r":"r-orders"}`: {}, `{"r":"r orders"}`: all} {
		if d := r.Decide(selected(t, "r-orders=change"), known, rules.Call{Tool: "t", Arguments: json.RawMessage(arguments)}); d.Reason != rules.UnknownRole {
			t.Errorf("%s: %+v", arguments, d)
		}
	}
}

// Each reason is said in its own words.
func TestSays(t *testing.T) {
	for reason, want := range map[rules.Reason]string{
		rules.ReadOnly: "the approval gives read access only. Ask the person to allow it among", rules.NotGiven: "does not include that role. Ask the person to allow it among",
		rules.NotFilled: "which the person does not fill", rules.Personal: "the person's own items", rules.Admin: "the rights of an admin", rules.UnknownRole: "no role that is called so",
		rules.RoleMissing: "has to say which role", rules.BodyUnread: "stands in the body", rules.Ambiguous: "reads this address alike", rules.UnknownMethod: "This method is unknown",
		rules.NoAuthority: "gives nothing here", rules.NoRole: "has not said through which role", rules.Unlisted: "has not listed this call",
	} {
		if got := (rules.Decision{Reason: reason, Fills: true, Needs: "change", RoleName: "Orders"}).Says(""); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}

func http(method, target string) rules.Call {
	path, query, _ := strings.Cut(target, "?")
	return rules.Call{Method: method, Path: path, Query: query}
}

// What no rule names is denied, read, or left to the service.
func TestUnlisted(t *testing.T) {
	rule := rules.Rule{Tool: "t", Touches: "admin"}
	read, change := rules.Call{Tool: "x", Reads: rules.Yes}, rules.Call{Tool: "x"}
	get, post := http("GET", "/api/v5/x"), http("POST", "/api/v5/x")
	complete, purge := rules.Call{RPC: "completion/complete"}, rules.Call{RPC: "orders/purge"}
	for _, tt := range []struct {
		unlisted string
		rules    []rules.Rule
		call     rules.Call
		want     bool
	}{
		{"", []rules.Rule{rule}, read, false}, {"", []rules.Rule{rule}, get, false},
		{"", nil, read, false}, {"", nil, get, true}, {"", nil, post, true}, // the service reads the headers
		{"deny", nil, read, false}, {"deny", nil, get, false},
		{"read", []rules.Rule{rule}, read, true}, {"read", []rules.Rule{rule}, change, false},
		{"read", []rules.Rule{rule}, get, true}, {"read", []rules.Rule{rule}, post, false},
		{"read", []rules.Rule{rule}, complete, true}, {"read", []rules.Rule{rule}, purge, false},
		{"service", []rules.Rule{rule}, change, true}, {"service", []rules.Rule{rule}, post, true},
		{"service", []rules.Rule{rule}, purge, false},
		{"service", []rules.Rule{rule}, rules.Call{Tool: "t"}, false},
	} {
		r := compiled(t, tt.unlisted, tt.rules...)
		if d := r.Decide(selected(t, "r-orders=change"), roles, tt.call); d.Allowed != tt.want {
			t.Errorf("unlisted %q, %d rules, %+v: %+v, want %v", tt.unlisted, len(tt.rules), tt.call, d, tt.want)
		}
	}
	if d := new(rules.Rules).Decide(selected(t, "r-orders=change"), roles, get); d.Allowed {
		t.Errorf("the zero Rules allow %+v", d)
	}
}

// Rules refuse under selected roles alone, and personal items under the whole
// organization (decision V22).
func TestOtherGrants(t *testing.T) {
	r := compiled(t, "deny", rules.Rule{Tool: "mine", Touches: "personal"}, rules.Rule{Call: "* /api/v5/mine/**", Touches: "personal"},
		rules.Rule{Tool: "board", Role: "r-board"})
	everything, whole := grantset.Set{Kind: grantset.Everything}, grantset.Set{Kind: grantset.Organization}
	for _, tt := range []struct {
		set  grantset.Set
		call rules.Call
		want rules.Reason
	}{
		{everything, rules.Call{Tool: "mine"}, rules.Whole},
		{everything, rules.Call{Tool: "other"}, rules.Whole},
		{everything, rules.Call{Tool: "board"}, rules.Whole},
		{everything, http("GET", "/api/v5/../mine"), rules.Whole},
		{everything, rules.Call{RPC: "orders/purge"}, rules.Whole},
		{whole, rules.Call{Tool: "mine"}, rules.Personal},
		{whole, rules.Call{Tool: "other"}, rules.Whole},
		{whole, rules.Call{Tool: "board"}, rules.Whole},
		{whole, http("GET", "/api/v5/mine/1"), rules.Personal},
		{whole, http("GET", "/api/v5/x%2F..%2Fmine"), rules.Ambiguous},
		{whole, rules.Call{RPC: "orders/purge"}, rules.Whole},
		{grantset.Set{}, rules.Call{Tool: "other"}, rules.NoAuthority},
		{grantset.Set{}, rules.Call{RPC: "ping"}, rules.NoAuthority},
	} {
		if d := r.Decide(tt.set.Narrow(ada(false), nil), roles, tt.call); d.Reason != tt.want || d.Allowed != (tt.want == rules.Whole) {
			t.Errorf("%s, %+v: %+v, want %s", tt.set.Kind, tt.call, d, tt.want)
		}
	}
	if d := r.Decide(everything.Narrow(org.Member{}, nil), roles, rules.Call{Tool: "other"}); d.Allowed {
		t.Errorf("nobody is allowed %+v", d)
	}
	plain := compiled(t, "deny", rules.Rule{Tool: "board", Role: "r-board"})
	if d := plain.Decide(whole.Narrow(ada(true), nil), roles, http("GET", "/api/v5/../x")); d.Reason != rules.Whole || !d.Allowed {
		t.Errorf("without a rule about personal items: %+v", d)
	}
}

// The first rule that matches decides (decision V20).
func TestFirstMatchWins(t *testing.T) {
	open, admin := rules.Rule{Tool: "list_*", Touches: "nothing"}, rules.Rule{Tool: "list_all", Touches: "admin"}
	call := rules.Call{Tool: "list_all"}
	if d := compiled(t, "", open, admin).Decide(selected(t, "personal"), roles, call); !d.Allowed || d.Rule != 0 {
		t.Errorf("%+v", d)
	}
	if d := compiled(t, "", admin, open).Decide(selected(t, "personal"), roles, call); d.Allowed || d.Rule != 0 {
		t.Errorf("%+v", d)
	}
}

// A denial tells all that helps, and a link where the person can allow it
// (decision V27).
func TestDenials(t *testing.T) {
	r := compiled(t, "", rules.Rule{Tool: "pay", Role: "r-wages", Private: true}, rules.Rule{Tool: "sign", Role: "r-board"})
	const base, id = "https://app.example.com", "7f3a5c0e9b1d48268fd0a1b2c3d4e5f6"
	d := r.Decide(selected(t, "r-wages=read"), roles, rules.Call{Tool: "pay"})
	edit := d.Edit(base, "bakery", id)
	if want := base + "/organizations/bakery/profile/api/" + id + "/edit?need=r-wages:change"; edit != want {
		t.Errorf("%s, want %s", edit, want)
	}
	if d.Edit(base, "bakery", "") != "" {
		t.Error("a link without an approval")
	}
	want := rules.Decision{Reason: rules.ReadOnly, Rule: 0, Touches: "role", Needs: "change", Has: "read", Role: "r-wages", RoleName: "Wages", Fills: true,
		Item: org.Item{Organization: "bakery", Role: "r-wages", Circle: "office", Private: true}}
	if d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
	if got, want := d.Says(edit), "This needs change access through the role Wages; the approval gives read access only. Ask the person to allow it at "+edit+", then try again: nothing has to reconnect."; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	d = r.Decide(selected(t, "r-orders=change"), roles, rules.Call{Tool: "pay", Reads: rules.Yes})
	if !strings.HasSuffix(d.Edit(base, "bakery", id), "need=r-wages:read") || d.Has != "none" {
		t.Errorf("%+v", d)
	}
	d = r.Decide(selected(t, "r-orders=change"), roles, rules.Call{Tool: "sign"})
	if d.Rule != 1 || d.Fills || d.Edit(base, "bakery", id) != "" || d.Has != "none" || strings.Contains(d.Says("x"), "Ask the person") {
		t.Errorf("%+v: %s", d, d.Says("x"))
	}
	d = r.Decide(selected(t, "r-orders=change"), roles, rules.Call{Tool: "other"})
	if d.Rule != -1 || d.Edit(base, "bakery", id) != "" || strings.Contains(d.Says("x"), "Ask") {
		t.Errorf("%+v: %s", d, d.Says("x"))
	}
	d = r.Decide(selected(t, "r-wages=change"), roles, rules.Call{Tool: "pay"})
	if !d.Allowed || d.Edit(base, "bakery", id) != "" || d.Says("x") != "" {
		t.Errorf("%+v", d)
	}
}

// A path under a root is known in every spelling (decision V29).
func TestUnder(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v5/mcp": true, "/api/v5/mcp/": true, "/API/v5//MCP": true, "/api/v5/mcp/x": true, "/api/v5%2Fmcp": true, "/api/v5/m%63p;x": true,
		"/api/v5": false, "/api/v5/mcps": false, "/api/v5/x/mcp": false, "/api/v5/x/../mcp": true, "": true,
	} {
		if rules.Under(path, "/api/v5/mcp") != want {
			t.Errorf("%s: want %v", path, want)
		}
	}
}

// What a tool says of itself is asked for only where a decision could hang on it.
func TestHangsOnAnnotations(t *testing.T) {
	for unlisted, other := range map[string]bool{rules.Deny: false, rules.Read: true, rules.Service: false} {
		by, err := rules.Compile([]rules.Rule{
			{Tool: "role", Role: "r1"}, {Tool: "open", Touches: rules.TouchesOpen}, {Tool: "personal", Touches: rules.TouchesPersonal}, {Tool: "argument*", RoleFrom: []string{"argument:/r"}},
			{Tool: "said", Role: "r1", Access: "change"}, {Tool: "admin", Touches: rules.TouchesAdmin}, {Tool: "nothing", Touches: rules.TouchesNothing}, {Tool: "service", Touches: rules.TouchesService},
		}, unlisted)
		if err != nil {
			t.Fatal(err)
		}
		for tool, want := range map[string]bool{"role": true, "open": true, "personal": true, "argument-1": true, "said": false, "admin": false, "nothing": false, "service": false, "other": other} {
			if got := by.HangsOnAnnotations(selected(t, "r-orders=change"), "", tool); got != want {
				t.Errorf("%s, %s: %v", unlisted, tool, got)
			}
		}
	}
}

// A rule is found at its own MCP endpoint: the tool of that name at another is another.
func TestHangsOnAnnotationsOfItsEndpoint(t *testing.T) {
	by := compiled(t, rules.Deny, rules.Rule{Path: "/tools/mcp", Tool: "role", Role: "r1"})
	for at, want := range map[string]bool{"/tools/mcp": true, "/other/mcp": false, "": false} {
		if by.HangsOnAnnotations(selected(t, "r-orders=change"), at, "role") != want {
			t.Errorf("%q: want %v", at, want)
		}
	}
}

// No spelling of a URI reaches a wider rule, or no rule, where some server takes it for
// one that a rule names (decision V26).
func TestSpellingsOfURIs(t *testing.T) {
	by := compiled(t, rules.Read,
		rules.Rule{Resource: "shop://secret", Touches: "personal"}, rules.Rule{Resource: "shop://orders/secret/*", Touches: "personal"},
		rules.Rule{Resource: "https://shop.example/secret", Touches: "personal"}, rules.Rule{Resource: "file:///open/secret/*", Touches: "personal"},
		rules.Rule{Resource: "shop://*", Touches: "open"}, rules.Rule{Resource: "shop://orders/?state=*", Touches: "open"}, rules.Rule{Resource: "file:///open/*", Touches: "open"})
	for uri, allowed := range map[string]bool{
		"shop://secret": false, " shop://secret": false, "shop://secret ": false, "\u00a0shop://secret": false, "SHOP://Secret": false, "shop://secret/": false, "shop://secret//": false, "shop://secret?x": false, "shop://secret#x": false,
		"shop://secret/#/x": false, "shop://%73ecret": false, "shop://%2573ecret/?": false, "shop:///secret": true, "shop://orders//secret/1": false, `shop://orders\secret/1`: false, "shop://orders/%2Fsecret/1": false, "shop://orders/%5Csecret%5C1": false,
		"https://shop.example/secret": false, "https:shop.example/secret": false, "https:/shop.example/secret": false, "https:///shop.example/secret": false, `https:\\shop.example/secret`: false,
		"https://shop.example:443/secret": false, "https://shop.example:/secret": false, "https://shop.example./secret": false, "https://ada@shop.example/secret": false, "https://%73hop.example/secret": false,
		"file:///open/secret/x": false, "file:/open/secret/x": false, "file:open/secret/x": false, "file://localhost/open/secret/x": false, "file:////open//secret/x": false, "file:///open//secret/x": false,
		"shop://open": true, "shop://orders/?state=open": true, "shop://orders?q=//x": true, "shop://orders/": true, "https://shop.example/open?x#y": true, "https://shop.example:8443/open": true, "file:///open/a b": true, "urn:x:y": true, "file:///open/x/": true,
	} {
		if d := by.Decide(selected(t, "r-orders=change"), roles, rules.Call{Resource: uri}); d.Allowed != allowed {
			t.Errorf("%q: %+v", uri, d)
		}
	}
}
