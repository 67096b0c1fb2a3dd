package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func onlyReading(t Tool) bool { return t.Reads == Reads }

// Wherever a list of tools comes, it has those that this client may call, and no
// result is for others to cache (decision V9).
func TestRewrite(t *testing.T) {
	const read, write = `{"name":"read","annotations":{"readOnlyHint":true},"x":"<&"}`, `{"name":"write"}`
	for data, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + read + `,` + write + `],"nextCursor":"c"}}`: `{"id":1,"jsonrpc":"2.0","result":{"nextCursor":"c","tools":[` + read + `]}}`,
		`{"id":1,"result":{"tools":[` + write + `],"nextCursor":"c"}}`:                              `{"id":1,"result":{"nextCursor":"c","tools":[]}}`,
		`{"id":1,"result":{"tools":[` + read + `],"cacheScope":"public"}}`:                          `{"id":1,"result":{"cacheScope":"private","tools":[` + read + `]}}`,
		`{"id":1,"result":{"resources":[],"cacheScope":"public"}}`:                                  `{"id":1,"result":{"cacheScope":"private","resources":[]}}`,
		`[{"id":1,"result":{"tools":[` + write + `]}},{"id":2,"result":{"x": 1}}]`:                  `[{"id":1,"result":{"tools":[]}},{"id":2,"result":{"x":1}}]`,
		`{"id":1,"result":{"tools":[` + read + `]}}`:                                                "",
		`{"id":1,"result":{"tools":[` + read + `],"cacheScope":"private"}}`:                         "",
		`{"id":1,"result":{"tools":null}}`:                                                          "",
		`{"id":1,"result":{"tools":{"write":1}}}`:                                                   "",
		`{"id":1,"result":"tools"}`:                                                                 "",
		`{"id":1,"method":"sampling/createMessage","params":{"tools":[{"name":"theirs"}]}}`:         "",
		`{"id":1,"result":{"content":[{"type":"text","text":"{\"tools\":[]}"}]}}`:                   "",
		`{"tools":[`: "", `7`: "", `"tools"`: "", `["tools"]`: "",
	} {
		if got := rewrite([]byte(data), onlyReading); string(got) != want {
			t.Errorf("%s\n got %s\nwant %s", data, got, want)
		}
	}
}

// What is no tool is none that anybody may call, and the hint's own default is that
// a tool changes something.
func TestReadTool(t *testing.T) {
	for text, want := range map[string]Tool{
		`{"name":"a"}`: {"a", "", Changes, false}, `{"name":"a","title":"A","annotations":{"readOnlyHint":true}}`: {"a", "A", Reads, true},
		`{"name":"a","annotations":{"title":"B","readOnlyHint":false}}`: {"a", "B", Changes, true}, `{"name":"a","annotations":null}`: {"a", "", Changes, false},
		`{"name":"a","annotations":{"readOnlyHint":null}}`:   {"a", "", Changes, false},
		`{"name":"a","annotations":{"readOnlyHint":"true"}}`: {"", "", Changes, false}, `7`: {"", "", Changes, false}, `{"name":7}`: {"", "", Changes, false},
	} {
		if got := readTool(json.RawMessage(text)); got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// The result of a call is found in JSON and among events; an error is no result, and
// ends the search.
func TestResult(t *testing.T) {
	const events, ok = "text/event-stream", `{"id":7,"result":{"tools":[{"name":"a"},7],"nextCursor":"c"}}`
	for _, tt := range []struct{ kind, body, fault string }{
		{"application/json; charset=utf-8", ok, ""}, {"application/json", "[" + ok + "]", ""},
		{events, "id: 0\ndata:\n\n: c\r\rdata: {\"id\":8,\"result\":{}}\n\ndata: " + ok + "\n\ndata: never", ""},
		{events, "data: {\"id\":7,\"error\":{\"code\":-32601}}\n\ndata: " + ok + "\n\n", "it answered with an error"},
		{"application/json", `{"id":7,"error":{"code":1}}`, "it answered with an error"},
		{"application/json", `{"id":"7","result":{}}`, "it did not answer the call"},
		{"application/json", `{"id":7,"method":"x","result":{}}`, "it did not answer the call"},
		{events, "data: " + ok, "EOF"},
	} {
		result, err := Result(tt.kind, strings.NewReader(tt.body), []byte("7"))
		if tt.fault != "" {
			if err == nil || err.Error() != tt.fault || result != nil {
				t.Errorf("%s: %v, %v", tt.body, result, err)
			}
			continue
		}
		all, next := Tools(result)
		if want := []Tool{{Name: "a", Reads: Changes}, {Reads: Changes}}; err != nil || next != "c" || !reflect.DeepEqual(all, want) {
			t.Errorf("%s: %v, %q, %v", tt.body, all, next, err)
		}
	}
}

// To speak of a tool, what was said of it counts however old it is.
func TestToolSpokenOf(t *testing.T) {
	s := &Server{}
	s.tools.note("o", Tool{Name: "x", Title: "An X", Reads: Reads}, time.Unix(0, 0)) // long ago
	if title, reads := s.Tool("o", "x"); title != "An X" || reads != Reads {
		t.Error(title, reads)
	}
	for _, other := range []toolKey{{"o", "y"}, {"p", "x"}, {"", "x"}} { // no organization sees what another was told
		if title, reads := s.Tool(other.organization, other.name); title != "" || reads != Unknown || s.tools.of(other.organization, other.name, time.Unix(0, 0)) != Unknown {
			t.Error(other, title, reads)
		}
	}
}

// A list is believed for ten minutes, and the stricter of two (decision V8).
func TestAnnotations(t *testing.T) {
	var a annotations
	at := func(minutes int) time.Time { return time.Unix(1_000_000, 0).Add(time.Duration(minutes) * time.Minute) }
	check := func(tool string, minutes int, want Known) {
		t.Helper()
		if got := a.of("o", tool, at(minutes)); got != want {
			t.Errorf("%s after %d minutes: %d, want %d", tool, minutes, got, want)
		}
	}
	check("x", 0, Unknown)
	a.note("o", Tool{Name: "x", Reads: Reads}, at(0))
	check("x", 9, Reads)
	check("x", 10, Unknown)
	a.note("o", Tool{Name: "x", Reads: Changes}, at(5))
	check("x", 5, Changes)
	a.note("o", Tool{Name: "x", Reads: Reads}, at(6)) // in another list
	check("x", 14, Changes)
	check("x", 15, Unknown)
	a.note("o", Tool{Name: "x", Reads: Reads}, at(15)) // what was stricter is over
	check("x", 16, Reads)
	check("X", 16, Unknown)
	for n := range maxTools + 10 {
		a.note("o", Tool{Name: fmt.Sprint("t", n), Reads: Reads}, at(16))
	}
	if len(a.tools) > maxTools {
		t.Errorf("%d tools are remembered", len(a.tools))
	}
	a.note("o", Tool{Name: strings.Repeat("n", maxToolName+1), Reads: Reads}, at(16))
	check(strings.Repeat("n", maxToolName+1), 16, Unknown)
	a.note("o", Tool{Name: strings.Repeat("n", maxToolName), Title: strings.Repeat("T", 1<<20), Reads: Reads}, at(16))
	check(strings.Repeat("n", maxToolName), 16, Reads)
	if got := a.tools[toolKey{"o", strings.Repeat("n", maxToolName)}].title; got != "" {
		t.Errorf("a title of %d bytes is remembered", len(got))
	}
}

// The answer to a denied call is a result that the assistant reads, under the ID as
// it was written; of what is no tool it is an error (decision V10).
func TestDenialsAreTold(t *testing.T) {
	d := &Denial{Text: `This needs "change" <through> Orders.`, Tool: "take", Role: "r1", RoleName: "Orders", Needs: "change", Has: "read", Edit: "https://app.example/edit", Reason: "role_is_read_only", Rule: new(int)}
	const about = `{"grantkeeper/denied":{"tool":"take","role":"r1","role_name":"Orders","needs":"change","has":"read","edit":"https://app.example/edit","reason":"role_is_read_only","rule":0}}`
	for _, c := range []struct{ id, method, revision, want string }{
		{`"\u0061"`, "tools/call", "2025-11-25", `{"jsonrpc":"2.0","id":"\u0061","result":{"content":[{"type":"text","text":"This needs \"change\" <through> Orders."}],"isError":true,"_meta":` + about + `}}`},
		{`1.0`, "tools/call", newRevision, `{"jsonrpc":"2.0","id":1.0,"result":{"content":[{"type":"text","text":"This needs \"change\" <through> Orders."}],"isError":true,"resultType":"complete","_meta":` + about + `}}`},
		{`7`, "resources/read", newRevision, `{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"This needs \"change\" <through> Orders.","data":` + about + `}}`},
		{`7`, "x/y", "", `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"This needs \"change\" <through> Orders.","data":` + about + `}}`},
	} {
		m := &Message{ID: json.RawMessage(c.id), Method: c.method}
		if got := string(encode(d.told(m, c.revision))); got != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.method, c.revision, got, c.want)
		}
	}
}

// A message of the service that is rewritten stays one line of the same JSON, but
// for the tools that are left out and what may cache it.
func FuzzRewrite(f *testing.F) {
	for _, s := range []string{`{"id":1,"result":{"tools":[{"name":"a"}],"nextCursor":"c"}}`, `[{"result":{"tools":[7],"cacheScope":"public"}}]`, `{"id":1,"result":{"tools":[],"cacheScope":7}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := string(data)
		all := rewrite(data, func(Tool) bool { return true })
		none := rewrite(data, func(Tool) bool { return false })
		if string(data) != before {
			t.Fatal("the data is another one now")
		}
		for _, out := range [][]byte{all, none} {
			if out != nil && (!json.Valid(out) || bytes.ContainsAny(out, "\r\n")) {
				t.Fatalf("%q became %q", data, out)
			}
		}
		if all == nil || !json.Valid(data) {
			return
		}
		read := func(text []byte) (v any) {
			if err := json.Unmarshal(text, &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
		strip := func(v any) any {
			parts, ok := v.([]any)
			if !ok {
				parts = []any{v}
			}
			for _, p := range parts {
				if m, ok := p.(map[string]any); ok {
					if r, ok := m["result"].(map[string]any); ok {
						delete(r, "cacheScope")
					}
				}
			}
			return v
		}
		if a, b := strip(read(data)), strip(read(all)); !reflect.DeepEqual(a, b) && !strings.Contains(strings.ToLower(before), `"result`) {
			t.Errorf("%s became %s", data, all)
		}
	})
}

// What is told in place of an answer says which call it is of, and nothing in place of
// what answers none.
func TestChanged(t *testing.T) {
	const told = `,"error":{"code":-32603,"message":"What this credential may do has changed while the request was answered. Try again."}}`
	for data, want := range map[string]string{
		`{"id":1,"result":{"x":"secret"}}`: `{"jsonrpc":"2.0","id":1` + told, `[{"id":"a","error":{}},{"method":"notifications/x"},{"id":2,"result":{}}]`: `[{"jsonrpc":"2.0","id":"a"` + told + `,{"jsonrpc":"2.0","id":2` + told + `]`,
		`[{"method":"notifications/x"}]`: "", `[7`: "", `{"id":1,"method":"sampling/createMessage"}`: "",
	} {
		if got := string(changed([]byte(data))); got != want {
			t.Errorf("%s: %s", data, got)
		}
	}
}
