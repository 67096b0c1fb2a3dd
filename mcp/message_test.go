package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// What a message is about is read once, by its exact names (decision V3).
func TestReadMessages(t *testing.T) {
	one := func(m Message) []Message { return []Message{m} }
	id := json.RawMessage("7")
	for body, want := range map[string][]Message{
		`{"jsonrpc":"2.0","id":7,"method":"ping"}`:                                                                           one(Message{ID: id, Method: "ping"}),
		" {\"id\":7,\n\"method\":\"p\\u0069ng\",\"params\":null}\r\n":                                                        one(Message{ID: id, Method: "ping"}),
		`{"method":"notifications/cancelled","params":{"requestId":1}}`:                                                      nil,
		`{"id":7,"method":"tools/call","params":{"name":"take","arguments":{"Name":"x","n":[1, 2]},"_meta":{"a":1}}}`:        one(Message{ID: id, Method: "tools/call", Tool: "take", Arguments: json.RawMessage(`{"Name":"x","n":[1, 2]}`), meta: json.RawMessage(`{"a":1}`)}),
		`{"id":7,"method":"tools/call","params":{"name":"t\u0061ke"}}`:                                                       one(Message{ID: id, Method: "tools/call", Tool: "take"}),
		`{"id":7,"method":"prompts/get","params":{"name":"plan","arguments":{"a":"b"}}}`:                                     one(Message{ID: id, Method: "prompts/get", Prompt: "plan", Arguments: json.RawMessage(`{"a":"b"}`)}),
		`{"id":7,"method":"resources/read","params":{"uri":"orders://list"}}`:                                                one(Message{ID: id, Method: "resources/read", Resource: "orders://list"}),
		`{"id":7,"method":"resources/subscribe","params":{"uri":"orders://list"}}`:                                           one(Message{ID: id, Method: "resources/subscribe", Resource: "orders://list"}),
		`{"id":7,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"plan"},"argument":{}}}`:         one(Message{ID: id, Method: "completion/complete", Prompt: "plan"}),
		`{"id":7,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"a://{x}"}}}`:                   one(Message{ID: id, Method: "completion/complete", Resource: "a://{x}"}),
		`{"id":7,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a://x","b"]}}}`:        one(Message{ID: id, Method: "subscriptions/listen", listen: []string{"a://x", "b"}}),
		`{"id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}`:                      one(Message{ID: id, Method: "subscriptions/listen"}),
		`{"id":"\u0061 7","method":"tools/list","params":{"cursor":"x"}}`:                                                    one(Message{ID: json.RawMessage(`"\u0061 7"`), Method: "tools/list"}),
		`{"id":7,"result":{"content":[]}}`:                                                                                   one(Message{}),
		`{"id":7,"error":{"code":1,"message":"m"}}`:                                                                          one(Message{}),
		`[{"id":7,"method":"ping"},{"method":"notifications/x"},{"id":-1.5e3,"method":"tools/call","params":{"name":""}}]`:   {{ID: id, Method: "ping"}, {Method: "notifications/x"}, {ID: json.RawMessage("-1.5e3"), Method: "tools/call"}},
		`{"id":7,"method":"x","params":` + strings.Repeat(`{"a":`, maxDepth-1) + "1" + strings.Repeat("}", maxDepth-1) + `}`: one(Message{ID: id, Method: "x"}),
	} {
		got, batch, err := readMessages([]byte(body))
		if want == nil {
			want = one(Message{Method: "notifications/cancelled"})
		}
		if err != nil || batch != strings.HasPrefix(body, "[") || !reflect.DeepEqual(got, want) {
			t.Errorf("%.100s: %+v, %v", body, got, err)
		}
	}
}

// Whatever two readers could read as two messages is refused (decision V3).
func TestBodiesThatSayTwoThings(t *testing.T) {
	call := func(params string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + params + `}`
	}
	for _, body := range []string{
		``, ` `, `{`, `7`, `null`, `"x"`, `[]`, `[[]]`, `[7]`, `[null]`, `{}`, `{"id":7}`, `{"jsonrpc":"2.0","id":7}`, `{"id":7,"params":{}}`,
		"\ufeff" + call(`{"name":"a"}`), call(`{"name":"a"}`) + "x", call(`{"name":"a"}`) + call(`{"name":"b"}`), call("{\"name\":\"" + string([]byte{0xff}) + "\"}"),
		call(`{"name":"\ud800"}`), call(`{"name":"a","arguments":{"x":"\udc00\ud800"}}`),
		call(`{"name":"a","name":"b"}`), call(`{"name":"a","n\u0061me":"b"}`), call(`{"name":"a","arguments":{"x":[{"y":1,"y":2}]}}`), call(`{"name":"a","_meta":{"k":1,"k":1}}`),
		call(`{"name":"a","Name":"b"}`), call(`{"Name":"b"}`), `{"method":"notifications/x","params":{"Name":"b"}}`, call(`{"name":"a","ARGUMENTS":{}}`), call(`{"name":"a","_Meta":{}}`), call(`{"name":"a","URI":"x"}`), call(`{"name":"a","argument\u017f":{}}`),
		`{"id":7,"method":"ping","Method":"tools/call"}`, `{"id":7,"METHOD":"tools/call","method":"ping"}`, `{"ID":7,"method":"ping"}`, `{"id":7,"method":"ping","Params":{}}`, `{"id":7,"method":"ping","JSONRPC":"2.0"}`,
		`{"id":7,"method":"ping","method":"tools/call"}`, `{"id":7,"id":8,"method":"ping"}`, `{"id":7,"method":"ping","result":{}}`, `{"id":7,"method":"ping","error":{}}`, `{"id":7,"Result":{}}`,
		`{"id":null,"method":"ping"}`, `{"id":true,"method":"ping"}`, `{"id":[7],"method":"ping"}`, `{"id":{},"method":"ping"}`, `{"id":null,"result":{}}`,
		`{"id":7,"method":7}`, `{"id":7,"method":null}`, `{"id":7,"method":["tools/call"]}`, `{"id":7,"method":"ping","params":[]}`, `{"id":7,"method":"ping","params":"x"}`,
		call(`{}`), call(`null`) + " x", call(`{"name":7}`), call(`{"name":null}`), call(`{"name":["a"]}`), call(`["a"]`),
		`{"id":7,"method":"resources/read","params":{}}`, `{"id":7,"method":"resources/read","params":{"uri":7}}`, `{"id":7,"method":"resources/read","params":{"Uri":"x"}}`, `{"id":7,"method":"prompts/get","params":{"uri":"x"}}`,
		`{"id":7,"method":"completion/complete","params":{}}`, `{"id":7,"method":"completion/complete","params":{"ref":{}}}`, `{"id":7,"method":"completion/complete","params":{"ref":{"name":"a","uri":"b"}}}`,
		`{"id":7,"method":"completion/complete","params":{"ref":{"Name":"a","name":"b"}}}`, `{"id":7,"method":"completion/complete","params":{"Ref":{"name":"a"}}}`, `{"id":7,"method":"completion/complete","params":{"ref":7}}`,
		`{"id":7,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":"x"}}}`, `{"id":7,"method":"subscriptions/listen","params":{"notifications":{"ResourceSubscriptions":["x"]}}}`,
		`{"id":7,"method":"subscriptions/listen","params":{"Notifications":{"resourceSubscriptions":["x"]}}}`, `{"id":7,"method":"subscriptions/listen","params":{}}`,
		`{"id":7,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["x",null]}}}`, `{"id":7,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":[""]}}}`,
		`{"id":7,"method":"notifications/x"}`, `[{"id":"","method":"notifications/initialized","params":{}}]`,
		`{"id":7,"method":"x","params":` + strings.Repeat(`{"a":`, maxDepth) + "1" + strings.Repeat("}", maxDepth) + `}`,
		`[` + strings.Repeat(`{"id":7,"method":"ping"},`, maxBatch) + `{"id":7,"method":"ping"}]`, `[{"id":7,"method":"ping"},{"id":7,"method":"ping","Id":8}]`,
	} {
		if got, _, err := readMessages([]byte(body)); err == nil {
			t.Errorf("%.120s: %+v", body, got)
		} else if strings.Contains(err.Error(), "\n") || !utf8.ValidString(err.Error()) {
			t.Errorf("%q tells what was sent", err)
		}
	}
}

// A call without params is read as one of no name: rules refuse that, and the
// service says what is missing.
func TestCallsWithoutParams(t *testing.T) {
	got, _, err := readMessages([]byte(`{"id":7,"method":"tools/call"}`))
	if err != nil || got[0].Tool != "" || got[0].passes() {
		t.Errorf("%+v, %v", got, err)
	}
}

// What is not asked of any rule is that which asks for nothing (decision V9).
func TestWhatPasses(t *testing.T) {
	id := json.RawMessage("7")
	for method, want := range map[string]bool{
		"initialize": true, "ping": true, "server/discover": true, "tools/list": true, "resources/list": true, "resources/templates/list": true, "prompts/list": true,
		"logging/setLevel": true, "resources/unsubscribe": true, "tasks/get": true, "tasks/list": true, "tasks/result": true, "tasks/update": true, "tasks/cancel": true, "subscriptions/listen": true, "": true,
		"tools/call": false, "resources/read": false, "resources/subscribe": false, "prompts/get": false, "completion/complete": false,
		"Tools/call": false, "tools/call ": false, "notifications/x": false, "tasks": false, "tasks/": false, "tasks/purge": false, "tasks/get/x": false, "sampling/createMessage": false, "x": false,
	} {
		if m := (Message{ID: id, Method: method}); m.passes() != want {
			t.Errorf("%q passes: %t", method, !want)
		}
	}
	for _, method := range []string{"tools/call", "resources/read", "x"} { // which a service may do although nobody waits
		if m := (Message{Method: method}); m.passes() {
			t.Errorf("%q without an ID passes", method)
		}
	}
	if m := (Message{Method: "notifications/cancelled"}); !m.passes() {
		t.Error("a notification does not pass")
	}
	m := Message{ID: id, Method: "subscriptions/listen", listen: []string{"a", "b"}}
	if parts := m.parts(); m.passes() || len(parts) != 2 || parts[1].Resource != "b" || parts[0].Resource != "a" {
		t.Errorf("a subscription to resources: %+v", parts)
	}
}

// Headers that repeat the body say the same as it, or are not there (decision V7).
func TestMirrored(t *testing.T) {
	b64 := func(s string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?=" }
	call := `{"id":7,"method":"tools/call","params":{"name":"take"}}`
	odd := `{"id":7,"method":"tools/call","params":{"name":"=?base64?x?="}}`
	for _, c := range []struct {
		body           string
		methods, names []string
		want           bool
	}{
		{call, nil, nil, true},
		{call, []string{"tools/call"}, []string{"take"}, true},
		{call, []string{"tools/call"}, nil, true},
		{call, nil, []string{b64("take")}, true},
		{odd, nil, []string{b64("=?base64?x?=")}, true},
		{odd, nil, []string{"=?base64?x?="}, false},
		{call, []string{"tools/list"}, nil, false},
		{call, []string{"Tools/call"}, nil, false},
		{call, []string{""}, nil, false},
		{call, []string{"tools/call", "tools/call"}, nil, false},
		{call, nil, []string{"take", "take"}, false},
		{call, nil, []string{"taken"}, false},
		{call, nil, []string{"Take"}, false},
		{call, nil, []string{""}, false},
		{call, nil, []string{b64("give")}, false},
		{call, nil, []string{"=?base64?" + "dGFrZQ" + "?="}, false},
		{call, nil, []string{"=?BASE64?dGFrZQ==?="}, false},
		{`{"id":7,"method":"resources/read","params":{"uri":"a://b"}}`, []string{"resources/read"}, []string{"a://b"}, true},
		{`{"id":7,"method":"resources/read","params":{"uri":"a://b"}}`, nil, []string{"a://c"}, false},
		{`{"id":7,"method":"prompts/get","params":{"name":"p"}}`, nil, []string{"q"}, false},
		{`{"id":7,"method":"tasks/get","params":{"taskId":"1"}}`, []string{"tasks/get"}, []string{"1"}, true},
		{`{"id":7,"result":{}}`, []string{"tools/call"}, nil, false},
		{`[` + call + `]`, []string{"tools/call"}, nil, false},
		{`[` + call + `]`, nil, nil, true},
	} {
		all, batch, err := readMessages([]byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		if c.methods != nil {
			h["Mcp-Method"] = c.methods
		}
		if c.names != nil {
			h["Mcp-Name"] = c.names
		}
		if got := mirrored(h, all, batch); got != c.want {
			t.Errorf("%s with %q, %q: %t", c.body, c.methods, c.names, got)
		}
	}
}

// A body that is taken says the same to a reader that goes by encoding/json, which
// looks at no case and takes the last of two, as to this one.
func FuzzReadMessages(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"take","arguments":{"a":1}}}`, `[{"id":"a","method":"ping"}]`,
		`{"id":7,"method":"resources/read","params":{"uri":"x"}}`, `{"id":1,"result":{}}`, `{"id":7,"method":"completion/complete","params":{"ref":{"name":"a"}}}`,
		`{"id":7,"method":"tools/call","params":{"name":"a","Name":"b"}}`, "\ufeff{}", `{"method":"x","METHOD":"y"}`, `{"id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a"]}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := string(body)
		all, batch, err := readMessages(body)
		if string(body) != before {
			t.Fatal("the body is another one now")
		}
		if err != nil {
			return
		}
		type read struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name, URI string
				Ref       struct{ Name, URI string }
			}
		}
		theirs := make([]read, 1)
		if batch {
			err = json.Unmarshal(body, &theirs)
		} else {
			err = json.Unmarshal(body, &theirs[0])
		}
		if err != nil || len(theirs) != len(all) {
			return // another reader refuses it as a whole
		}
		for i, m := range all {
			o := theirs[i]
			if m.Method != o.Method || m.Method != "" && string(m.ID) != string(o.ID) {
				t.Errorf("%s: %+v and %+v", body, m, o)
			}
			want := fmt.Sprint(map[string]string{
				"tools/call": o.Params.Name, "prompts/get": o.Params.Name, "resources/read": o.Params.URI, "resources/subscribe": o.Params.URI,
				"completion/complete": o.Params.Ref.Name + o.Params.Ref.URI,
			}[m.Method])
			if got := m.Tool + m.Prompt + m.Resource; got != want {
				t.Errorf("%s: about %q and %q", body, got, want)
			}
		}
	})
}
