package mcp

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// did lists what is recorded of an approval, the oldest first, and what is counted.
func (h *house) did(of approval.ID) string {
	h.t.Helper()
	if err := h.api.Activity.Flush(); err != nil {
		h.t.Fatal(err)
	}
	var all []string
	err := h.store.EachActivity(context.Background(), store.ActivityFilter{Approval: of, OldestFirst: true}, func(r activity.Record) error {
		all = append(all, strings.TrimSpace(fmt.Sprint(r.Outcome, " ", r.Status, " ", r.Tool, " ", r.Reason, " ", r.Item.Did, " ", r.Item.Title)))
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	tallies, err := h.store.ActivityTallies(context.Background(), of, 0, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, one := range tallies {
		all = append(all, fmt.Sprint(one.What, " ", one.Calls, " ", one.Kind, " ", one.Items))
	}
	return strings.Join(all, "; ")
}

// Each call of a tool is recorded when it is answered, by what the result says; tools that
// read are counted; methods that touch nothing are neither.
func TestMCPRecords(t *testing.T) {
	const result = `{"jsonrpc":"2.0","id":7,"result":%s}`
	items := func(text string) string {
		return fmt.Sprintf(`{"content":[],"_meta":{"`+identity.MetaItems+`":%s}}`, text)
	}
	for _, tt := range []struct {
		name, body, kind, answer, header, want string
		status                                 int
	}{
		{"done", call("move_order"), "application/json", fmt.Sprintf(result, `{"content":[]}`), "", "done 200 move_order", 200},
		{"done, as events", call("move_order"), "text/event-stream", "data: " + `{"jsonrpc":"2.0","method":"notifications/progress"}` + "\n\ndata: " + fmt.Sprintf(result, items(`[{"title":"A","did":"closed"}]`)) + "\n\n", "", "done 200 move_order  closed A", 200},
		{"done, with items", call("move_order"), "application/json", fmt.Sprintf(result, items(`[{"title":"A"},{"title":"B","did":"created"}]`)), "", "done 200 move_order  changed A; done 200 move_order  created B", 200},
		{"done, with items in the head", call("move_order"), "application/json", fmt.Sprintf(result, `{}`), `[{"title":"A"}]`, "done 200 move_order  changed A", 200},
		{"items that cannot be read", call("move_order"), "application/json", fmt.Sprintf(result, items(`{"title":"A"}`)), "", "done 200 move_order", 200},
		{"the tool says that it failed", call("move_order"), "application/json", fmt.Sprintf(result, `{"isError":true}`), "", "failed 200 move_order", 200},
		{"an error", call("move_order"), "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"x"}}`, "", "failed 200 move_order", 200},
		{"a status", call("move_order"), "text/plain", `no`, "", "failed 404 move_order", 404},
		{"a fault", call("move_order"), "text/plain", `no`, "", "unanswered 500 move_order", 500},
		{"another's answer", call("move_order"), "application/json", `{"jsonrpc":"2.0","id":2,"result":{}}`, "", "unanswered 0 move_order", 200},
		{"a stream without the answer", call("move_order"), "text/event-stream", "data: {}\n\n", "", "unanswered 0 move_order", 200},
		{"a resource", `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"a:b"}}`, "application/json", fmt.Sprintf(result, items(`[{"kind":"note","count":3}]`)), "", "reads 1 note 3", 200},
		{"a list", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, "application/json", fmt.Sprintf(result, `{"tools":[]}`), "", "", 200},
		{"a tool that reads", call("list_orders"), "application/json", fmt.Sprintf(result, items(`[{"kind":"order","count":2}]`)), "", "reads 1 order 2", 200},
		{"one that says nothing of items", call("list_orders"), "application/json", fmt.Sprintf(result, `{"content":[{"type":"text","text":"\"isError\":true \"error\""}]}`), "", "reads 1  0", 200},
		{"one with items in the head", call("list_orders"), "application/json", fmt.Sprintf(result, `{}`), `[{"kind":"order","count":4}]`, "reads 1 order 4", 200},
		{"one that fails", call("list_orders"), "application/json", fmt.Sprintf(result, `{"content":[],"isError":true}`), "", "", 200},
		{"one that fails, written otherwise", call("list_orders"), "application/json", fmt.Sprintf(result, `{"\u0069sError":true}`), "", "", 200},
		{"one with an error", call("list_orders"), "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"\"result\""},"result":null}`, "", "", 200},
		{"one with no result", call("list_orders"), "application/json", `{"jsonrpc":"2.0","id":7}`, "", "", 200},
		{"one that changes, and says nothing of items", call("move_order"), "application/json", `{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`, "", "unanswered 0 move_order", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				if tt.header != "" {
					w.Header().Set(identity.HeaderItems, tt.header)
				}
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.answer))
			}), recording)
			access, of := h.live("ada", everything)
			h.proxy.tools.note("nordlys", Tool{Name: "list_orders", Reads: Reads}, h.store.Now())
			a := h.send("POST", access, tt.body)
			if a.Header.Get(identity.HeaderItems) != "" {
				t.Errorf("the client gets %v", a.Header)
			}
			if got := h.did(of); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func recording(h *house) {
	h.t.Helper()
	r, err := h.store.RecordActivity()
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { r.Close() })
	h.api.Activity = r
}

// A call that a rule denies is recorded with the reason, and nothing else of a batch is.
func TestMCPRecordsRefusals(t *testing.T) {
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}), recording, func(h *house) {
		h.proxy.decideAs = func(_ api.Rights, m Message) *Denial {
			if m.Tool == "burn" {
				return &Denial{Text: "no", Tool: m.Tool, Reason: "no_role", Role: "treasurer"}
			}
			return nil
		}
	})
	access, of := h.live("ada", everything)
	h.send("POST", access, "["+call("move_order")+","+strings.Replace(call("burn"), `"id":7`, `"id":8`, 1)+"]")
	if got, want := h.did(of), "refused 0 burn no_role"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Whether a tool reads is what its rule says; its annotation is asked where the rule leaves
// it open. What a service says that it changed is a change all the same.
func TestMCPRecordsByRules(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`
	by, err := rules.Compile([]rules.Rule{{Tool: "look", Role: "treasurer", Access: "read"}, {Tool: "list_orders", Role: "treasurer", Access: "change"}, {Tool: "move_order", Role: "treasurer"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, tool, answer, want string
	}{
		{"a rule says that it reads", "look", answer, "reads 1  0"},
		{"a rule says that it changes", "list_orders", answer, "done 200 list_orders"},
		{"a rule leaves it open", "move_order", answer, "done 200 move_order"},
		{"a rule says that it reads, and the service that it did not", "look", `{"jsonrpc":"2.0","id":7,"result":{"content":[],"_meta":{"` + identity.MetaItems + `":[{"title":"A","did":"closed"}]}}}`, "done 200 look  closed A; reads 1  0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(tt.answer))
			}), recording, func(h *house) { h.api.Rules = func() *rules.Rules { return by } })
			access, of := h.live("ada", everything)
			h.proxy.tools.note("nordlys", Tool{Name: "list_orders", Reads: Reads}, h.store.Now())
			h.send("POST", access, call(tt.tool))
			if got := h.did(of); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A change is recorded with the role that its rule decided by.
func TestMCPRecordsTheRole(t *testing.T) {
	by, err := rules.Compile([]rules.Rule{{Tool: "put", Role: "treasurer", Access: "change"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, jsonService(`{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`), recording, func(h *house) { h.api.Rules = func() *rules.Rules { return by } })
	access, of := h.live("ada", grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer", Change: true}}})
	h.send("POST", access, call("put"))
	if got, want := h.did(of), "done 200 put"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	err = h.store.EachActivity(context.Background(), store.ActivityFilter{Approval: of}, func(r activity.Record) error {
		if r.Item.Role != "treasurer" {
			t.Errorf("role %q", r.Item.Role)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPlainly: what is counted without being read is what a reader would have said: done,
// and of no items.
func TestPlainly(t *testing.T) {
	for text, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`:            true,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\" :\n\t{\"a\":null}}": true,
		`{"jsonrpc":"2.0","id":1,"result":{"text":"\"isError\""}}`:    true,
		`{"jsonrpc":"2.0","id":1,"result":null}`:                      false,
		`{"jsonrpc":"2.0","id":1,"result":[]}`:                        false,
		`{"jsonrpc":"2.0","id":1,"result":"done"}`:                    false,
		`{"jsonrpc":"2.0","id":1,"a":"result"}`:                       false,
		`{"jsonrpc":"2.0","id":1,"a":"result","result":null}`:         false,
		`{"jsonrpc":"2.0","id":1,"result":{"isError":true}}`:          false,
		`{"jsonrpc":"2.0","id":1,"result":{"\u0069sError":true}}`:     false,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`:  false,
		`{"jsonrpc":"2.0","id":1,"result":{"_meta":{"x":1}}}`:         false,
		`{"jsonrpc":"2.0","method":"ping","result":{}}`:               false,
		`{"jsonrpc":"2.0","id":1}`:                                    false,
		``:                                                            false,
	} {
		if got := plainly([]byte(text)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
		if !want {
			continue
		}
		all, _ := readAnswers([]byte(text))
		if len(all) != 1 || !all[0].responds() || outcomeOf(&all[0]) != activity.Done || all[0].Result["_meta"] != nil {
			t.Errorf("%s: read it is something else", text)
		}
	}
}
