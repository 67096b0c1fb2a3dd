package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// rule puts rules in force. Ada gives treasurer to change and secretary to read;
// host is Tor's.
func (h *house) rule(unlisted string, all ...rules.Rule) {
	h.t.Helper()
	r, err := rules.Compile(all, unlisted)
	if err != nil {
		h.t.Fatal(err)
	}
	h.api.Rules, h.api.Unnamed = func() *rules.Rules { return r }, new(rules.Tally)
}

var ledger = []rules.Rule{
	{Call: "* /api/v5/ledger/**", Role: "treasurer"},
	{Call: "* /api/v5/minutes/**", Role: "secretary"},
	{Call: "* /api/v5/rooms/**", Role: "host"},
	{Call: "POST /api/v5/posts", RoleFrom: []string{"body:/role"}},
	{Call: "* /api/v5/roles/{role}/**", RoleFrom: []string{"path:role", "query:to"}},
	{Call: "* /api/v5/mine", Touches: "personal"},
	{Tool: "pay", RoleFrom: []string{"argument:/role"}},
}

// Calls that the rules deny do not come to the service: 403, and never a
// challenge (decision V27).
func TestUpstreamIsRuled(t *testing.T) {
	b := newBehind(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, nil)
	b.rule("", ledger...)
	const inJSON = "application/json"
	for _, tt := range []struct {
		call, kind, body string
		want             rules.Reason
	}{
		{"POST /api/v5/ledger/1", "", "x", ""},
		{"GET /api/v5/minutes", "", "", ""},
		{"GET /api/v5/rooms", "", "", ""},
		{"POST /api/v5/minutes", "", "x", rules.ReadOnly},
		{"DELETE /api/v5/rooms/1", "", "", rules.NotFilled},
		{"GET /api/v5/other", "", "", rules.Unlisted},
		{"GET /api/v5/mine", "", "", ""},
		{"POST /api/v5/posts", inJSON, `{"role":"treasurer"}`, ""},
		{"POST /api/v5/posts", inJSON, `{"role":"secretary"}`, rules.ReadOnly},
		{"POST /api/v5/posts", inJSON, `{"role":"treasurer","x":"` + strings.Repeat("x", 64<<10) + `"}`, rules.BodyUnread},
		{"POST /api/v5/posts", "text/plain", `{"role":"treasurer"}`, rules.BodyUnread},
		{"POST /api/v5/posts", "", "", rules.BodyUnread},
		{"PUT /api/v5/roles/treasurer/x?to=treasurer", "", "", ""},
		{"PUT /api/v5/roles/treasurer/x?to=secretary", "", "", rules.ReadOnly},
		{"PUT /api/v5/Roles/secretary/x?to=treasurer", "", "", rules.ReadOnly},
		{"PUT /api/v5/roles/treasurer%2F..%2Fsecretary/x?to=treasurer", "", "", "path"},
	} {
		before := b.served.Load()
		method, path, _ := strings.Cut(tt.call, " ")
		a := b.call(method, path, strings.NewReader(tt.body), "Content-Type", tt.kind)
		if tt.want == "path" {
			if a.StatusCode != 400 || b.served.Load() != before {
				t.Errorf("%s: %d", tt.call, a.StatusCode)
			}
			continue
		}
		if tt.want == "" {
			if a.StatusCode != 204 || b.served.Load() != before+1 {
				t.Errorf("%s: %d %s", tt.call, a.StatusCode, text(t, a))
			}
			continue
		}
		body := text(t, a)
		if a.StatusCode != 403 || !strings.Contains(body, `"error":"forbidden"`) || !strings.Contains(body, `"reason":"`+string(tt.want)+`"`) ||
			a.Header.Get("Www-Authenticate") != "" || a.Header.Get("Content-Type") != inJSON || b.served.Load() != before {
			t.Errorf("%s: %d %s %v, want %s", tt.call, a.StatusCode, body, a.Header, tt.want)
		}
	}
	want := `{"error":"forbidden","error_description":"This needs change access through the role Secretary; the approval gives read access only. Ask the person to allow it at ` +
		base + `/organizations/nordlys/profile/api/` + b.approval.String() + `/edit?need=secretary:change, then try again: nothing has to reconnect.",` +
		`"reason":"role_is_read_only","rule":1,"role":"secretary","role_name":"Secretary","needs":"change","has":"read",` +
		`"edit":"` + base + `/organizations/nordlys/profile/api/` + b.approval.String() + `/edit?need=secretary:change","reference":"request-1"}`
	if got := text(t, b.call("POST", "/api/v5/minutes", nil)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := b.api.Unnamed.All(); len(got) != 1 || got[0].Count != 1 || !strings.Contains(got[0].Rule, "GET /api/v5/other") {
		t.Errorf("unnamed: %v", got)
	}
	if a := b.call("GET", "/api/v5/other", nil, "X-Auth-Token", adaKey); a.StatusCode != 204 {
		t.Errorf("an API key: %d", a.StatusCode)
	}
}

// Without a rule and without service.unlisted the service decides, as before there
// were rules (decision V24).
func TestUpstreamWithoutRules(t *testing.T) {
	b := newBehind(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, nil)
	for unlisted, want := range map[string]int{"": 204, "service": 204, "deny": 403, "read": 403} {
		b.rule(unlisted)
		if a := b.call("POST", "/api/v5/a;b/%25c.d", nil); a.StatusCode != want {
			t.Errorf("unlisted %q: %d", unlisted, a.StatusCode)
		}
	}
	b.api.Rules = nil
	if a := b.call("POST", "/api/v5/a", nil); a.StatusCode != 204 {
		t.Errorf("nothing: %d", a.StatusCode)
	}
}

// Forward-auth denies what the rules deny, and cannot see what MCP calls
// (decision V29).
func TestForwardAuthIsRuled(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", selected)
	ask := func(method, target string) (int, http.Header, string) {
		w := h.forward("Authorization", "Bearer "+x.access, "X-Original-URI", target, "X-Original-Method", method, "X-Original-Host", "app.example")
		return w.Code, w.Header(), w.Body.String()
	}
	if code, _, body := ask("POST", "/api/v5/mcp"); code != 200 {
		t.Errorf("MCP without rules: %d %s", code, body)
	}
	h.rule("")
	if code, _, body := ask("POST", "/api/v5/mcp"); code != 200 {
		t.Errorf("MCP while no rule is written: %d %s", code, body)
	}
	h.rule("", ledger...)
	for _, tt := range []struct {
		method, target string
		code           int
		reason         rules.Reason
	}{
		{"POST", "/api/v5/ledger", 200, ""},
		{"POST", "/api/v5/minutes", 403, rules.ReadOnly},
		{"", "/api/v5/minutes", 403, rules.ReadOnly}, // a method that is not told changes
		{"GET", "/api/v5/minutes?x", 200, ""},
		{"POST", "/api/v5/posts", 403, rules.BodyUnread},
		{"PUT", "/api/v5/roles/treasurer/x?to=treasurer", 200, ""},
		{"PUT", "/api/v5/roles/treasurer/x?to=host", 403, rules.NotFilled},
		{"GET", "/api/v5/other", 403, rules.Unlisted},
		{"POST", "/api/v5/mcp", 404, ""},
		{"POST", "/api/v5//MCP/?x", 404, ""},
	} {
		code, header, body := ask(tt.method, tt.target)
		if code != tt.code || header.Get(headerDenied) != string(tt.reason) || (tt.reason != "") != strings.Contains(body, `"reason":"`+string(tt.reason)+`"`) {
			t.Errorf("%s %s: %d %q %s", tt.method, tt.target, code, header.Get(headerDenied), body)
		}
		if (header.Get("X-Grantkeeper-Signature") != "") != (code == 200) {
			t.Errorf("%s %s is signed: %v", tt.method, tt.target, header)
		}
	}
	_, _, body := ask("POST", "/api/v5/minutes")
	if !strings.Contains(body, `"edit":"`+base+`/organizations/nordlys/profile/api/`+x.id.String()+`/edit?need=secretary:change"`) {
		t.Error(body)
	}
}

// Decisions tell what the rules say of a call or a tool.
func TestDecisionsAreRuled(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", selected)
	h.rule("", append(ledger, rules.Rule{Tool: "list", Role: "secretary"})...)
	for _, tt := range []struct {
		question string // beside the token
		allowed  bool
		want     string // of what the rules say
	}{
		{`"method":"POST","path":"/api/v5/ledger"`, true, "listed 0 treasurer"},
		{`"method":"POST","path":"/api/v5/minutes"`, false, "role_is_read_only 1 secretary"},
		{`"path":"/api/v5/minutes"`, false, "role_is_read_only 1 secretary"},
		{`"method":"GET","path":"/api/v5/other?x"`, false, "unlisted - "},
		{``, false, "unlisted - "},
		{`"tool":"pay","arguments":{"role":"treasurer"}`, true, "listed 6 treasurer"},
		{`"tool":"pay","arguments":{"role":"secretary"},"path":"/api/v5/mcp"`, false, "role_is_read_only 6 secretary"},
		{`"tool":"pay"`, false, "role_missing 6 "},
		{`"tool":"list"`, false, "role_is_read_only 7 secretary"},
		{`"tool":"list","read_only":"false"`, false, "role_is_read_only 7 secretary"},
		{`"tool":"list","read_only":"true"`, true, "listed 7 secretary"},
		{`"method":"POST","path":"/api/v5/mcp"`, false, "none"},
	} {
		d := h.decided(`{"token":"` + x.access + `"` + strings.TrimSuffix(","+tt.question, ",") + `}`)
		got := "none"
		if r := d.Ruled; r != nil {
			rule := "-"
			if r.Rule != nil {
				rule = string(rune('0' + *r.Rule))
			}
			got = string(r.Reason) + " " + rule + " " + r.Role
		}
		if d.Allowed != tt.allowed || got != tt.want || tt.allowed != (d.Actor != nil) || !tt.allowed && d.Reason == "" {
			t.Errorf("%s: %+v, %s", tt.question, d, got)
		}
		if !tt.allowed && d.Status != 403 && tt.want != "none" || tt.want == "none" && d.Status != 404 {
			t.Errorf("%s: status %d", tt.question, d.Status)
		}
	}
}

// Roles that cannot be looked up decide nothing.
func TestRolesThatCannotBeRead(t *testing.T) {
	h := newHouse(t)
	h.rule("", ledger...)
	find, failed := h.store.FindRoles(context.Background(), "nowhere")
	if r, ok := find.ByID("treasurer"); ok || find.ByName("Treasurer") != nil || failed() != nil {
		t.Errorf("%v, %v", r, failed())
	}
	find, failed = h.store.FindRoles(context.Background(), "nordlys")
	if r, ok := find.ByID("treasurer"); !ok || r.Name != "Treasurer" || len(find.ByName("Treasurer")) != 1 || failed() != nil {
		t.Errorf("%v, %v", r, failed())
	}
	renamed := store.Directory{Roles: []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "general", Name: "Cashier"}}}
	if err := h.store.AddDirectory(context.Background(), renamed, store.Act{Actor: "system"}); err != nil {
		t.Fatal(err)
	}
	if r, _ := find.ByID("treasurer"); r.Name != "Treasurer" || len(find.ByName("Treasurer")) != 1 {
		t.Errorf("a role is asked for twice: %v", r)
	}
	if find, _ := h.store.FindRoles(context.Background(), "nordlys"); len(find.ByName("Cashier")) != 1 {
		t.Error("it is remembered for others")
	}
}
