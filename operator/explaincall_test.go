package operator

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/rules"
)

// Of a call it is said which rule names it, whose item it touches, what is decided
// and what would allow it, by the decision that calls are held to.
func TestExplainCall(t *testing.T) {
	o := workshop(t)
	by, err := rules.Compile([]rules.Rule{
		{Tool: "pay", RoleFrom: []string{"argument:/role"}}, {Call: "POST /api/v5/chairs", RoleFrom: []string{"body:/role"}},
		{Call: "* /api/v5/budget/**", Role: "treasurer"}, {Tool: "clock", Touches: "nothing"},
		{Tool: "clock", Path: "/reports/mcp", Touches: "admin"},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	o.Rules = func() *rules.Rules { return by }
	id := o.live("quill", "ada", grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer"}}})
	all := o.live("quill", "ada", grantset.Set{Kind: grantset.Everything})
	for _, tt := range []struct {
		id       string
		query    url.Values
		allowed  bool
		rule     int // -1 is none
		reason   string
		role     string
		fact     string // the link about the rule
		isAction string
	}{
		{id, url.Values{"tool": {"pay"}, "arguments": {`{"role":"treasurer"}`}}, false, 0, "This needs change access through the role Treasurer; the approval gives read access only. Ask the person to allow it", "Treasurer", "rules[0] names the call, and says that it touches: role.", "change"},
		{id, url.Values{"tool": {"pay"}, "arguments": {`{"role":"treasurer"}`}, "read_only": {"true"}}, true, 0, "Every member of the organization can read", "Treasurer", "rules[0]", "read"},
		{id, url.Values{"tool": {"pay"}}, false, 0, "The request has to say which role", "", "rules[0]", "change"},
		{id, url.Values{"tool": {"clock"}}, true, 3, "The rule lets it pass.", "", "rules[3]", ""},
		{id, url.Values{"tool": {"clock"}, "path": {"/api/v5/mcp"}}, true, 3, "The rule lets it pass.", "", "rules[3]", ""},
		{id, url.Values{"tool": {"clock"}, "path": {"/reports/mcp"}}, false, 4, "", "", "rules[4]", "admin"},
		{id, url.Values{"tool": {"other"}}, false, -1, "The service's owner has not listed this call", "", "No rule names the call.", "change"},
		{id, url.Values{"call": {"GET /api/v5/budget/1?x=1"}}, true, 2, "Every member", "Treasurer", "rules[2]", "read"},
		{id, url.Values{"call": {"POST /api/v5/chairs"}, "body": {`{"role":"host"}`}}, false, 1, "This needs change access through the role Host, which the person does not fill.", "Host", "rules[1]", "change"},
		{all, url.Values{"tool": {"other"}}, true, -1, "The call may pass, and the service decides.", "", "Rules refuse nothing here", ""},
	} {
		w := o.do("GET", "/v1/approvals/"+tt.id+"/explain?"+tt.query.Encode(), "")
		var e Explanation
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != 200 {
			t.Fatalf("%v: %d %s", tt.query, w.Code, w.Body)
		}
		rule := -1
		if e.Rule != nil {
			rule = *e.Rule
		}
		if e.Allowed != tt.allowed || rule != tt.rule || !strings.HasPrefix(e.Reason, tt.reason) || e.Item.RoleName != tt.role || e.Action != tt.isAction ||
			!strings.Contains(e.text(), " rule: "+tt.fact) || !strings.HasPrefix(e.ID, tt.id+"/call/") {
			t.Errorf("%v: %s", tt.query, w.Body)
		}
	}
	o.want(200, "POST", "/v1/approvals/"+id+"/revoke", `{"reason":"test"}`)
	w := o.do("GET", "/v1/approvals/"+id+"/explain?tool=clock", "")
	if !strings.Contains(w.Body.String(), `"allowed":false`) || !strings.Contains(w.Body.String(), "The approval ended on") {
		t.Errorf("ended: %s", w.Body)
	}
	for _, query := range []string{"tool=a&tool=b", "tool=a&call=GET%20/x", "tool=a&read=budget", "tool=", "call=", "call=GET", "call=GET%20x", "call=GET%20/x&arguments=1", "tool=a&body=1", "tool=a&path=/x&path=/y", "call=GET%20/x&path=/x", "tool=a&arguments=role", "tool=a&arguments=%7B", "tool=a&arguments=%5B%5D", "tool=a&arguments=1"} {
		o.want(400, "GET", "/v1/approvals/"+id+"/explain?"+query, "")
	}
	o.want(404, "GET", "/v1/approvals/"+strings.Repeat("0", 32)+"/explain?tool=a", "")
	o.Rules = func() *rules.Rules { return nil }
	if w := o.do("GET", "/v1/approvals/"+all+"/explain?tool=a", ""); !strings.Contains(w.Body.String(), `"allowed":true`) {
		t.Errorf("without rules: %s", w.Body)
	}
}

// Calls that no rule names are part of the status.
func TestStatusHasUnnamed(t *testing.T) {
	o := newOffice(t)
	if got := o.want(200, "GET", "/v1/status", ""); got["unnamed"] != nil {
		t.Errorf("%v", got["unnamed"])
	}
	o.Unnamed = new(rules.Tally)
	o.Unnamed.Note(rules.Call{Tool: "a"}, rules.Decision{Reason: rules.Unlisted})
	if got, _ := o.want(200, "GET", "/v1/status", "")["unnamed"].([]any); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
