package mcp

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// Where the organization lets apps read only, and no rules are configured, a tool is
// called, and stands in a list, only where it says that it reads (decision V65).
func TestReadOnlyWithoutRules(t *testing.T) {
	h := newHouse(t, nil)
	m := org.NewMember("ada", "nordlys", true, nil)
	for _, c := range []*grantset.Ceiling{nil, {ReadOnly: true}} {
		x := &exchange{s: h.proxy, r: httptest.NewRequest("POST", "/api/v5/mcp", nil)}
		x.rights = api.Rights{}
		x.rights.Organization, x.rights.Authority = "nordlys", everything.Narrow(m, c)
		for _, tt := range []struct {
			message Message
			reads   bool
		}{
			{Message{Method: "tools/call", Tool: "look", Reads: Reads}, true},
			{Message{Method: "tools/call", Tool: "pay", Reads: Changes}, false},
			{Message{Method: "tools/call", Tool: "other"}, false},
			{Message{Method: "resources/read", Resource: "a:b"}, true},
			{Message{Method: "prompts/get", Prompt: "p"}, true},
			{Message{Method: "orders/cancel"}, false},
			{Message{Method: "tools/list"}, true},
		} {
			d, err := x.decide(&tt.message)
			if allowed := tt.reads || c == nil; err != nil || (d == nil) != allowed || d != nil && (d.Reason != "organization_read_only" || d.Edit != "") {
				t.Errorf("%+v under %+v: %+v, %v", tt.message, c, d, err)
			}
			if tool := tt.message.Tool; tool != "" {
				if listed := x.lists()(Tool{Name: tool, Reads: tt.message.Reads}); listed != (tt.reads || c == nil) {
					t.Errorf("%s under %+v is listed: %v", tool, c, listed)
				}
				if x.hangsOnAnnotations(&tt.message) != (c != nil) {
					t.Errorf("%s under %+v: asked %v", tool, c, c == nil)
				}
			}
		}
	}
}

// ruled saves rules of Nordlys for apps.
func (h *house) ruled(p policy.Policy) {
	h.t.Helper()
	r := store.Rules{Organization: "nordlys", Policy: p}
	now, err := h.store.Policy(h.t.Context(), "nordlys")
	if now != nil {
		r.Seen = now.Version
	}
	if err == nil {
		_, _, err = h.store.SetPolicy(h.t.Context(), r, act)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// A ceiling takes tools out of the list and refuses their calls from the next request on, in
// a session that runs, with a reason that names it; lifted, they are back (decision P16).
// At the end date that a bound in days has set the session is over.
func TestCeilingsOnASession(t *testing.T) {
	by, err := rules.Compile([]rules.Rule{
		{Tool: "whoami", Touches: rules.TouchesOpen, Access: "read"}, {Tool: "take", Role: "treasurer"}, {Tool: "bake", Touches: rules.TouchesPersonal, Access: "change"},
		{Tool: "ask", Touches: rules.TouchesAdmin}, {Tool: "leave", Touches: rules.TouchesNothing},
	}, "") // and none names wait
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, newOrders().handler(nil), func(h *house) { h.api.Rules = func() *rules.Rules { return by } })
	picked := grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer", Change: true}}, Personal: true}
	sessions, tokens := map[grantset.Kind]*sdk.ClientSession{}, map[grantset.Kind]string{}
	for _, g := range []grantset.Set{everything, picked, {Kind: grantset.Organization}} {
		tokens[g.Kind], _ = h.liveFor("ada", g, 48*time.Hour)
		sessions[g.Kind] = h.connect(tokens[g.Kind], "2025-11-25", nil)
	}
	const all = "ask bake leave take wait whoami"
	for _, step := range []struct {
		ceiling grantset.Ceiling
		lists   map[grantset.Kind]string
		refuses map[string]string // by tool: a reason, in all sessions that do not list it
	}{
		{grantset.Ceiling{}, map[grantset.Kind]string{grantset.Everything: all, grantset.Roles: "bake leave take whoami", grantset.Organization: "ask leave take wait whoami"},
			map[string]string{"ask": "admin_not_given", "bake": "personal_not_given", "wait": "unlisted"}},
		{grantset.Ceiling{NoPersonal: true}, map[grantset.Kind]string{grantset.Everything: "ask leave take wait whoami", grantset.Roles: "leave take whoami", grantset.Organization: "ask leave take wait whoami"},
			map[string]string{"ask": "admin_not_given", "bake": "organization_keeps_personal", "wait": "unlisted"}},
		{grantset.Ceiling{Never: []string{"treasurer"}}, map[grantset.Kind]string{grantset.Everything: "ask bake leave whoami", grantset.Roles: "bake leave whoami", grantset.Organization: "ask leave whoami"},
			map[string]string{"ask": "admin_not_given", "take": "organization_keeps_role", "bake": "personal_not_given", "wait": "unlisted"}},
		{grantset.Ceiling{Widest: grantset.Everything}, map[grantset.Kind]string{grantset.Everything: "bake leave take whoami", grantset.Roles: "bake leave take whoami", grantset.Organization: "leave take whoami"},
			map[string]string{"ask": "organization_keeps_admin", "bake": "personal_not_given", "wait": "unlisted"}},
		{grantset.Ceiling{Widest: grantset.Roles}, map[grantset.Kind]string{grantset.Everything: "leave whoami", grantset.Roles: "bake leave take whoami", grantset.Organization: "leave whoami"},
			map[string]string{"ask": "organization_keeps_admin", "take": "role_not_given", "bake": "personal_not_given", "wait": "unlisted"}},
		{grantset.Ceiling{ReadOnly: true}, map[grantset.Kind]string{grantset.Everything: "leave whoami", grantset.Roles: "leave whoami", grantset.Organization: "leave whoami"},
			map[string]string{"ask": "organization_read_only", "take": "organization_read_only", "bake": "organization_read_only", "wait": "organization_read_only"}},
		{grantset.Ceiling{}, map[grantset.Kind]string{grantset.Everything: all}, nil},
	} {
		h.ruled(policy.Policy{Ceiling: step.ceiling})
		for kind, want := range step.lists {
			s := sessions[kind]
			list, err := s.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			if slices.Sort(names); strings.Join(names, " ") != want {
				t.Errorf("%s under %+v: listed %v, want %s", kind, step.ceiling, names, want)
			}
			for _, tool := range strings.Fields(all) {
				if listed := slices.Contains(names, tool); listed && tool != "take" && tool != "whoami" { // the others ask back
					continue
				}
				got, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool})
				if err != nil {
					t.Fatal(err)
				}
				why, _ := got.Meta["grantkeeper/denied"].(map[string]any)
				if listed := slices.Contains(names, tool); got.IsError == listed || !listed && why["reason"] != step.refuses[tool] {
					t.Errorf("%s under %+v: %s is refused %t, %v", kind, step.ceiling, tool, got.IsError, why)
				}
			}
		}
	}
	h.ruled(policy.Policy{MaxDays: 1})
	const list = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	h.later.Store(int64(24*time.Hour - time.Minute))
	if a := h.send("POST", tokens[grantset.Roles], list); a.StatusCode == 401 {
		t.Errorf("before the end: %d %s", a.StatusCode, a.body)
	}
	h.later.Store(int64(24*time.Hour + time.Minute))
	if a := h.send("POST", tokens[grantset.Roles], list); a.StatusCode != 401 {
		t.Errorf("at the end: %d %s", a.StatusCode, a.body)
	}
	if _, err := sessions[grantset.Everything].ListTools(t.Context(), nil); err == nil {
		t.Error("a session goes on beyond its end")
	}
}
