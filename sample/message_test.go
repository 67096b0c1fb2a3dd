package sample_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/grantset"
)

// A method that there is not is an error of the call, and no refusal of the
// request: clients take that for a broken transport. A notification that
// nobody knows is no error at all (JSON-RPC 2.0 section 4.1).
func TestUnknownMethods(t *testing.T) {
	h := newMCPHouse(t)
	token := h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything})
	for _, c := range []struct {
		name, body, revision string
		status               int
		answer               string
	}{
		{"a call", `{"jsonrpc":"2.0","id":7,"method":"tasks/mArKeR"}`, "2025-11-25", 200, `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"method not found"}}`},
		{"under a text", `{"jsonrpc":"2.0","method":"tasks/list","id":"a\"b"}`, "", 200, `{"jsonrpc":"2.0","id":"a\"b","error":{"code":-32601,"message":"method not found"}}`},
		{"no name", `{"jsonrpc":"2.0","id":0,"method":""}`, "2025-06-18", 200, `{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"method not found"}}`},
		{"a client's own method", `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, "2025-06-18", 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found"}}`},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/mArKeR","params":{"a":1}}`, "2025-11-25", 202, ""},
		{"in a batch", `[{"jsonrpc":"2.0","id":1,"method":"nope"}]`, "2025-03-26", 400, ""},
		{"a notification in a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"nope"}]`, "2025-03-26", 400, ""},
	} {
		headers := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token}
		if c.revision != "" {
			headers["MCP-Protocol-Version"] = c.revision
		}
		w := post(h.handler, "POST", "/api/v5/mcp", c.body, headers)
		if w.Code != c.status || c.status != 400 && w.Body.String() != c.answer || strings.Contains(w.Body.String(), "mArKeR") {
			t.Errorf("%s: got %d %s", c.name, w.Code, w.Body)
		}
		if h := w.Header(); h.Get("Cache-Control") != "no-store" || (h.Get("Content-Type") == "application/json") != (c.status != 202) {
			t.Errorf("%s: %v", c.name, h)
		}
	}
}

// Nobody waits for an answer under another ID than that of the call.
func TestIDsComeBack(t *testing.T) {
	h := newMCPHouse(t)
	token := h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything})
	for id, back := range map[string]string{
		`1`: `1`, `0`: `0`, `-3`: `-3`, `1.0`: `1`, `1e3`: `1000`, `9007199254740991`: `9007199254740991`, `-9007199254740991`: `-9007199254740991`,
		`"a"`: `"a"`, `""`: `""`, `"1.5"`: `"1.5"`,
		`"\ud83d\ude00"`: `"😀"`, `"\ufffd"`: "\"\ufffd\"", `"\\ud83d"`: `"\\ud83d"`,
		`"\ud83d"`: ``, `"a\uDE00"`: ``, `"\ud83d\ud83d"`: ``, `"\ude00\ud83d"`: ``,
		`1.5`: ``, `9007199254740992`: ``, `9007199254740993`: ``, `1180591620717411303424`: ``, `-9007199254740993`: ``, `1e400`: ``, `0.1e-5`: ``, `true`: ``, `{}`: ``, `[1]`: ``,
	} {
		for _, batch := range []bool{false, true} {
			body := `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`
			if batch {
				body = "[" + body + "]"
			}
			w := h.post(token, body)
			if back == "" {
				if w.Code != 400 {
					t.Errorf("%s: got %d %s", body, w.Code, w.Body)
				}
				continue
			}
			want := `{"jsonrpc":"2.0","id":` + back + `,"result":{}}`
			if batch {
				want = "[" + want + "]"
			}
			if w.Code != 200 || strings.TrimSpace(w.Body.String()) != want {
				t.Errorf("%s: got %d %s", body, w.Code, w.Body)
			}
		}
	}
}

// Two calls with one ID would get one answer. An ID is what JSON says, however
// it is written.
func TestOneIDTwice(t *testing.T) {
	h := newMCPHouse(t)
	token := h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything})
	const ping = `"method":"ping"`
	for _, c := range []struct {
		name, id, with, other, otherWith string
		status                           int
	}{
		{"numbers", `1`, ping, `1`, ping, 400},
		{"texts", `"a"`, ping, `"a"`, ping, 400},
		{"empty texts", `""`, ping, `""`, ping, 400},
		{"one with a fraction of nothing", `1`, ping, `1.0`, ping, 400},
		{"one with an exponent", `1e3`, ping, `1000`, ping, 400},
		{"two zeros", `0`, ping, `-0`, ping, 400},
		{"one escaped", `"a"`, ping, `"\u0061"`, ping, 400},
		{"of two methods", `1`, ping, `1`, `"method":"tools/list"`, 400},
		{"one of them unknown", `1`, ping, `1`, `"method":"nope"`, 400},
		{"a number and its text", `1`, ping, `"1"`, ping, 200},
		{"two numbers", `1`, ping, `2`, ping, 200},
		{"texts in two cases", `"a"`, ping, `"A"`, ping, 200},
		{"a call and an answer", `1`, ping, `1`, `"result":{}`, 200},
	} {
		w := h.post(token, `[{"jsonrpc":"2.0","id":`+c.id+`,`+c.with+`},{"jsonrpc":"2.0","id":`+c.other+`,`+c.otherWith+`}]`)
		if w.Code != c.status || strings.Contains(w.Body.String(), "two calls with one ID") != (c.status == 400) {
			t.Errorf("%s: got %d %s", c.name, w.Code, w.Body)
		}
	}
	notification := `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	if w := h.post(token, "["+notification+","+notification+"]"); w.Code != 202 {
		t.Errorf("two notifications: got %d %s", w.Code, w.Body)
	}
	for _, id := range []string{`{}`, `[1]`, `true`, `null`} { // what cannot be compared
		one := `{"jsonrpc":"2.0","id":` + id + `,` + ping + `}`
		if w := h.post(token, "["+one+","+one+"]"); w.Code != 400 {
			t.Errorf("%s: got %d %s", id, w.Code, w.Body)
		}
	}
}

// What is neither call, notification nor answer is refused, and not taken for
// an answer to nothing.
func TestNoMessage(t *testing.T) {
	h := newMCPHouse(t)
	token := h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything})
	for body, status := range map[string]int{
		`{"jsonrpc":"2.0","id":1}`:                                   400,
		`{"jsonrpc":"2.0","id":1,"params":{}}`:                       400,
		`{"jsonrpc":"2.0","id":1,"Method":"ping"}`:                   400, // names are case-sensitive
		`{"jsonrpc":"2.0"}`:                                          400,
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                       202,
		`{"jsonrpc":"2.0","id":1,"result":null}`:                     202,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`: 202,
	} {
		for _, sent := range []string{body, "[" + body + "]", `[{"jsonrpc":"2.0","method":"notifications/initialized"},` + body + `]`} {
			w := h.post(token, sent)
			if w.Code != status || status == 400 && !strings.Contains(w.Body.String(), "not a JSON-RPC message") {
				t.Errorf("%s: got %d %s", sent, w.Code, w.Body)
			}
		}
	}
	// An answer goes to the ID that was sent, whatever else looks like it.
	w := h.post(token, `{"jsonrpc":"2.0","id":"a","ID":"b","method":"nope"}`)
	if !strings.Contains(w.Body.String(), `"id":"a"`) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// Params of a wrong type are told in our words, with the code for it.
func TestParamsOfAWrongType(t *testing.T) {
	h := newMCPHouse(t)
	token := h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything})
	const want = `{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"invalid params: a member is of a wrong type"}}`
	for _, c := range [][2]string{
		{"initialize", `{"protocolVersion":5}`}, {"initialize", `["mArKeR"]`}, {"tools/list", `{"cursor":5}`}, {"tools/call", `{"name":{"mArKeR":1}}`},
		{"tools/call", `"mArKeR"`}, {"resources/read", `{"uri":["mArKeR"]}`}, {"ping", `[1]`},
	} {
		body := `{"jsonrpc":"2.0","id":"x","method":"` + c[0] + `","params":` + c[1] + `}`
		if w := h.post(token, body); w.Code != 200 || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s %s: got %d %s", c[0], c[1], w.Code, w.Body)
		}
		if w := h.post(token, "["+body+`,{"jsonrpc":"2.0","id":2,"method":"ping"}]`); w.Code != 200 || !strings.Contains(w.Body.String(), want) || !strings.Contains(w.Body.String(), `"id":2,"result":{}`) {
			t.Errorf("%s %s in a batch: got %d %s", c[0], c[1], w.Code, w.Body)
		}
	}
	// What only looks like it stays as it is.
	w := h.post(token, rpc("list_items", `{"kind":"\"message\":\"handling '"}`))
	var told struct {
		Result struct {
			IsError bool `json:"isError"`
		} `json:"result"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &told); err != nil || !told.Result.IsError {
		t.Errorf("got %d %s, %v", w.Code, w.Body, err)
	}
}

// Whoever reads JSON gets an answer, because every answer is JSON.
func TestAccept(t *testing.T) {
	h := newMCPHouse(t)
	token := h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything})
	for accept, status := range map[string]int{
		"-": 200, "application/json": 200, "Application/JSON;q=0.1": 200, "application/*": 200, "*/*": 200, "*/*;q=0.8": 200, "text/html, application/json": 200,
		"application/json, text/event-stream": 200, "text/event-stream, */*;q=0.1": 200,
		"": 400, "text/event-stream": 400, "text/html": 400, "application/json;q=0": 400, "application/json; q=0.000": 400, "application/jsonp": 400,
	} {
		headers := map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + token, "Last-Event-ID": "7"}
		if accept != "-" {
			headers["Accept"] = accept
		}
		w := post(h.handler, "POST", "/api/v5/mcp", rpc("whoami", "{}"), headers)
		if w.Code != status || status == 200 && (w.Header().Get("Content-Type") != "application/json" || !strings.Contains(w.Body.String(), `"id":"ada"`)) {
			t.Errorf("Accept %q: got %d %s", accept, w.Code, w.Body)
		}
	}
}

// JSON is UTF-8 (RFC 8259 section 8.1), wherever in the body.
func TestBodyIsUTF8(t *testing.T) {
	h := newMCPHouse(t)
	token := h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything})
	for _, body := range []string{
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"\xff\"}}", "{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\",\"method\":\"ping\"}",
		rpc("whoami", "{\"\xed\xa0\x80\":1}"), "\ufeff" + rpc("whoami", "{}"),
	} {
		if w := h.post(token, body); w.Code != 400 || !strings.Contains(w.Body.String(), "not JSON in UTF-8") {
			t.Errorf("%q: got %d %s", body, w.Code, w.Body)
		}
	}
}
