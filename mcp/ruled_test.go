package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// The operator's rules decide each message and each list, by what the approval gives
// now; what they deny the service does not hear of (decisions V9, V10 and V20).
func TestRulesOfTheOperator(t *testing.T) {
	by, err := rules.Compile([]rules.Rule{
		{Tool: "look", Touches: rules.TouchesOpen, Access: "read"},
		{Tool: "take", RoleName: "Treasurer"},
		{Tool: "put", RoleFrom: []string{"argument:/role"}},
		{Resource: "open:*", Touches: rules.TouchesOpen},
		{Method: "orders/*", Touches: rules.TouchesNothing},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	var heard atomic.Int32
	service := func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		result := `{"content":[]}`
		if m.Method == "tools/list" {
			result = `{"tools":[{"name":"look","annotations":{"readOnlyHint":true}},{"name":"take"},{"name":"put"},{"name":"other"}]}`
		} else {
			heard.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+result+`}`)
	}
	var unnamed rules.Tally
	h := newHouse(t, http.HandlerFunc(service), func(h *house) {
		h.api.Rules, h.api.Unnamed = func() *rules.Rules { return by }, &unnamed
	})
	changes := grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer", Change: true}}}
	reading, of := h.live("ada", selected)
	changing, _ := h.live("ada", changes)
	all, _ := h.live("ada", everything)
	edit := base + "/organizations/nordlys/profile/api/" + of.String() + "/edit?need=treasurer:change"
	message := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`
	}
	const passes = `"content":[]`
	for _, c := range []struct{ token, body, want string }{
		{reading, message("tools/call", `{"name":"look"}`), passes},
		{reading, message("tools/call", `{"name":"take"}`), `"isError":true`},
		{reading, message("tools/call", `{"name":"take"}`), `This needs change access through the role Treasurer; the approval gives read access only. Ask the person to allow it at ` + edit},
		{reading, message("tools/call", `{"name":"take"}`), `"grantkeeper/denied":{"tool":"take","role":"treasurer","role_name":"Treasurer","needs":"change","has":"read","edit":"` + edit + `","reason":"role_is_read_only","rule":1}`},
		{changing, message("tools/call", `{"name":"take"}`), passes},
		{changing, message("tools/call", `{"name":"put","arguments":{"role":"treasurer"}}`), passes},
		{changing, message("tools/call", `{"name":"put","arguments":{"role":"other"}}`), `"isError":true`},
		{changing, message("tools/call", `{"name":"put"}`), `"reason":"role_missing"`},
		{changing, message("tools/call", `{"name":"other"}`), `"reason":"unlisted"`},
		{changing, message("resources/read", `{"uri":"open:a"}`), passes},
		{changing, message("resources/read", `{"uri":"closed:a"}`), `"code":-32000`},
		{changing, message("x/y", `{}`), `"code":-32601`},
		{changing, message("tasks/purge", `{}`), `"code":-32601`},
		{changing, message("tasks/get", `{}`), passes},
		{changing, message("orders/count", `{}`), passes},
		{all, message("tools/call", `{"name":"other"}`), passes},
		{all, message("x/y", `{}`), passes},
	} {
		before := heard.Load()
		a := h.send("POST", c.token, c.body)
		if !strings.Contains(a.body, c.want) || (heard.Load() > before) != (c.want == passes) {
			t.Errorf("%s: %d %s, heard %t", c.body, a.StatusCode, a.body, heard.Load() > before)
		}
	}
	for token, want := range map[string]string{reading: "look", changing: "look take put", all: "look take put other"} {
		var got struct {
			Result struct{ Tools []struct{ Name string } }
		}
		if a := h.send("POST", token, message("tools/list", `{}`)); json.Unmarshal([]byte(a.body), &got) != nil {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		var names []string
		for _, tool := range got.Result.Tools {
			names = append(names, tool.Name)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("listed %v, want %s", names, want)
		}
	}
	if got := unnamed.All(); len(got) == 0 || !strings.Contains(got[0].Rule+got[len(got)-1].Rule, `tool = "other"`) {
		t.Errorf("what no rule names: %+v", got)
	}
}

// While the proxy asks what a tool does the right may end, or become another one: the
// call is decided by what it is then. One question is enough for all messages, and
// none is asked where the answer decides nothing (decision V8).
func TestRightsWhileTheProxyAsks(t *testing.T) {
	by, err := rules.Compile([]rules.Rule{{Tool: "look*", Touches: rules.TouchesOpen}, {Tool: "take", Role: "treasurer"}, {Tool: "put", Role: "treasurer", Access: "change"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	changes := grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer", Change: true}}}
	for name, c := range map[string]struct {
		body   string
		during func(h *house, of approval.ID)
		status int
		want   string
		heard  string
	}{
		"it stays":              {call("look"), func(*house, approval.ID) {}, 200, `"done"`, "tools/list tools/call "},
		"it ends":               {call("look"), (*house).end, 401, "invalid_token", "tools/list "},
		"it is less":            {call("take"), less, 200, "role_is_read_only", "tools/list "},
		"of many":               {"[" + strings.Repeat(call("lookout")+",", 15) + call("look") + "]", func(*house, approval.ID) {}, 200, "isError", "tools/list "},
		"of what no rule names": {call("other"), (*house).end, 200, "unlisted", ""},
		"of what a rule says":   {call("put"), less, 200, `"done"`, "tools/call "},
	} {
		t.Run(name, func(t *testing.T) {
			var heard strings.Builder
			var h *house
			var of approval.ID
			h = newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var m struct {
					ID     json.RawMessage
					Method string
				}
				body, _ := io.ReadAll(r.Body)
				_ = json.Unmarshal(body, &m)
				heard.WriteString(m.Method + " ")
				result := `"done"`
				if m.Method == "tools/list" {
					c.during(h, of)
					result = `{"tools":[{"name":"look","annotations":{"readOnlyHint":true}},{"name":"take"}]}`
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+result+`}`)
			}), func(h *house) { h.api.Rules = func() *rules.Rules { return by } })
			token, approved := h.live("ada", changes)
			of = approved
			a := h.send("POST", token, c.body)
			if a.StatusCode != c.status || heard.String() != c.heard || !strings.Contains(a.body, c.want) {
				t.Errorf("%d %s, the service heard %q", a.StatusCode, a.body, heard.String())
			}
		})
	}
}

// A resource that the rules no longer let a client read is spoken of in no stream, also
// where the right to it went while the stream was open (decision V9).
func TestNoticesOfResources(t *testing.T) {
	by, err := rules.Compile([]rules.Rule{{Resource: "open:*", Touches: "open"}, {Resource: "money:*", Role: "treasurer", Access: "change"}, {Tool: "put", Touches: "nothing"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	service := newWaiting("text/event-stream")
	h := newHouse(t, service, func(h *house) { h.api.Rules = func() *rules.Rules { return by } })
	token, id := h.live("ada", grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer", Change: true}}})
	a := h.open(t.Context(), "POST", token, strings.NewReader(call("put"))) // goes on, whatever the right becomes
	from := bufio.NewReader(a.Body)
	notice := func(uri string) string {
		return `{"method":"notifications\/resources\/updated","params":{"uri":"` + uri + `"}}`
	}
	const mark = `{"method":"notifications/message"}`
	for n, c := range []struct{ data, want string }{
		{notice("money:1"), notice("money:1")}, {notice("money:1"), ""}, {notice("other:1"), ""}, {`{"method":"notifications/resources/updated","params":{"uri":7}}`, ""},
		{`{"method":"notifications/resources/updated"}`, ""}, {`{"method":"notifications/resources/list_changed"}`, `{"method":"notifications/resources/list_changed"}`},
		{"[" + notice("open:1") + ", " + notice("other:1") + "," + mark + "]", "[" + notice("open:1") + "," + mark + "]"},
		{"[" + notice("other:1") + "]", ""}, {"[" + notice("open:1") + ", " + mark + "]", "[" + notice("open:1") + ", " + mark + "]"},
	} {
		if n == 1 {
			less(h, id)
		}
		service.say <- "data: " + c.data + "\n\ndata: " + mark + "\n\n"
		if c.want != "" {
			if got := readLine(t, from) + readLine(t, from); got != "data: "+c.want {
				t.Errorf("%s: %s", c.data, got)
			}
		}
		if got := readLine(t, from) + readLine(t, from); got != "data: "+mark {
			t.Errorf("%s: %s", c.data, got)
		}
	}
}

// less takes the right to change from an approval, as its person does.
func less(h *house, of approval.ID) {
	now, err := h.store.Check(context.Background(), of)
	if err == nil {
		err = h.store.EditGrant(context.Background(), of, now.Approval.Person, now.Approval.Grant, selected, act)
	}
	if err != nil {
		h.t.Error(err)
	}
}

// A list asks for the roles once, however many of its tools need one of them.
func TestListsAskForRolesOnce(t *testing.T) {
	by, err := rules.Compile([]rules.Rule{{Tool: "take", RoleName: "Treasurer"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, jsonService("{}"), func(h *house) { h.api.Rules = func() *rules.Rules { return by } })
	changes := grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer", Change: true}}}
	token, _ := h.live("ada", changes)
	var x *exchange
	h.api.Guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		rights, err := h.api.Now(r.Context(), api.ActorFrom(r.Context()))
		if err != nil {
			t.Error(err)
		}
		x = &exchange{s: h.proxy, r: httptest.NewRequest("GET", "/", nil), rights: rights}
	})).ServeHTTP(httptest.NewRecorder(), withToken(token))
	lists, take := x.lists(), Tool{Name: "take", Reads: Changes}
	if !lists(take) {
		t.Error("a tool is not listed")
	}
	renamed := store.Directory{Roles: []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "general", Name: "Cashier"}}}
	if err := h.store.AddDirectory(context.Background(), renamed, act); err != nil {
		t.Fatal(err)
	}
	if !lists(take) || x.lists()(take) {
		t.Error("roles are asked for with each tool, or remembered for another list")
	}
}

func withToken(token string) *http.Request {
	r := httptest.NewRequest("POST", "/api/v5/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}
