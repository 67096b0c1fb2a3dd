package connect

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/server/servertest"
)

func TestBridge(t *testing.T) {
	f := newFake(t)
	_, o := connected(t, f)
	d := start(t, f, o)
	d.begins()
	if line := d.hears(`"id":1`); !strings.Contains(line, `"name":"fake"`) {
		t.Errorf("the hello is not answered by the server: %s", line)
	}
	odd := `{"jsonrpc":"2.0", "id":"a\u0041\"", "method":"tools/call","params":{"name":"whoami","arguments":{"n":1.50,"s":"\u00e9 \/"}}}`
	d.says(odd)
	if line := d.hears(`"tools/call"`); !strings.Contains(line, `"version":"2025-06-18"`) {
		t.Errorf("the revision is not said: %s", line)
	}
	d.says(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	var m struct {
		ID     int
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(d.hears("whoami\"}")), &m); err != nil || m.ID != 3 || len(m.Result.Tools) != 1 {
		t.Errorf("%+v %v", m, err)
	}
	d.ends()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sent[0] != hello || !strings.Contains(strings.Join(f.sent, "\n"), odd) {
		t.Errorf("messages were changed:\n%s", strings.Join(f.sent, "\n"))
	}
	if f.counts["DELETE"] != 1 || f.counts["notifications/initialized"] != 1 || f.counts["authorization_code"] != 1 {
		t.Errorf("%v", f.counts)
	}
}

// An access token that ends is renewed once, and the call made again; so is a session
// that the server has forgotten.
func TestBridgeGoesOn(t *testing.T) {
	f := newFake(t)
	_, o := connected(t, f)
	d := start(t, f, o)
	d.begins()
	f.mu.Lock()
	f.access = map[string]bool{}
	f.mu.Unlock()
	for i := range 5 {
		d.says(fmt.Sprintf(`{"jsonrpc":"2.0","id":"r%d","method":"tools/call","params":{"name":"x"}}`, i))
	}
	for i := range 5 {
		if line := d.hears(fmt.Sprintf(`"r%d"`, i)); !strings.Contains(line, "result") {
			t.Error(line)
		}
	}
	if n := f.count("refresh_token"); n != 1 {
		t.Errorf("%d refreshes", n)
	}
	f.mu.Lock()
	f.sessions = map[string]bool{}
	f.mu.Unlock()
	for i := range 5 {
		d.says(fmt.Sprintf(`{"jsonrpc":"2.0","id":"s%d","method":"tools/call","params":{"name":"x"}}`, i))
	}
	for i := range 5 {
		if line := d.hears(fmt.Sprintf(`"s%d"`, i)); !strings.Contains(line, "result") {
			t.Error(line)
		}
	}
	if n := f.count("initialize"); n != 2 {
		t.Errorf("%d sessions", n)
	}
	if n := strings.Count(d.out.String(), `"id":1,`); n != 1 {
		t.Errorf("the assistant has %d answers to its hello", n)
	}
	d.ends()
}

// An access that was revoked is said in plain words, to each call, and one browser is
// opened.
func TestBridgeSaysWhatIsWrong(t *testing.T) {
	f := newFake(t)
	_, o := connected(t, f)
	opened := 0
	o.Open = func(address string) error {
		opened++
		go f.person(address, url.Values{"error": {"access_denied"}})
		return nil
	}
	d := start(t, f, o)
	d.begins()
	f.mu.Lock()
	f.access, f.refresh = map[string]bool{}, ""
	f.mu.Unlock()
	changed(t, o, func(r *record) { r.Opened = 0 })
	for i := range 4 {
		d.says(fmt.Sprintf(`{"jsonrpc":"2.0","id":"r%d","method":"tools/call","params":{"name":"x"}}`, i))
	}
	for i := range 4 {
		var m struct {
			Error struct {
				Code    int
				Message string
			}
		}
		line := d.hears(fmt.Sprintf(`"r%d"`, i))
		if json.Unmarshal([]byte(line), &m); m.Error.Code != -32000 || !strings.Contains(m.Error.Message, "Not connected: the person did not approve.") {
			t.Error(line)
		}
	}
	if opened != 1 {
		t.Errorf("%d browsers", opened)
	}
	d.ends()
}

// Who takes long to approve loses nothing: the hello is answered in time, and the
// assistant hears of the tools when there are some.
func TestBridgeBeforeApproval(t *testing.T) {
	f := newFake(t)
	opened := make(chan string, 9)
	o := f.options(t, func(address string) error { opened <- address; return nil })
	o.patience = 2 * time.Second
	d := start(t, f, o)
	d.says(hello)
	address := <-opened
	began := time.Now()
	line := d.hears(`"id":1`)
	if took := time.Since(began); took < time.Second || !strings.Contains(line, "listChanged") || !strings.Contains(line, "a person has to approve") {
		t.Errorf("after %s: %s", took, line)
	}
	d.says(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	d.says(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if line := d.hears(`"id":2`); !strings.Contains(line, approveTool) || !strings.Contains(line, "open this address: "+address) {
		t.Error(line)
	}
	d.says(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"` + approveTool + `"}}`)
	d.hears(`"id":3`)
	r, err := f.person(address, url.Values{"code": {"code-1"}})
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	d.hears("notifications/tools/list_changed")
	d.says(`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`)
	if line := d.hears(`"id":4`); !strings.Contains(line, "whoami") {
		t.Error(line)
	}
	d.says(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x"}}`)
	d.hears(`"id":5`)
	d.says(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"` + approveTool + `"}}`)
	if line := d.hears(`"id":6`); !strings.Contains(line, "Connected as Ada Berg, in Nordlys.") {
		t.Error(line)
	}
	d.ends()
	if len(opened) != 0 || f.count("initialize") != 1 || f.count("notifications/initialized") != 1 {
		t.Errorf("%d browsers, %v", len(opened)+1, f.counts)
	}
	if strings.Contains(o.Err.(*servertest.Buffer).String(), "code-1") {
		t.Error("a code is told")
	}
}

// The assistant's end of input lets a call that is under way end.
func TestBridgeEndsWell(t *testing.T) {
	f := newFake(t)
	_, o := connected(t, f)
	slow := make(chan struct{})
	d := start(t, f, o)
	d.begins()
	f.answers("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			<-slow
		}
		f.asIs(w, r)
	})
	d.says(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"x"}}`)
	time.AfterFunc(500*time.Millisecond, func() { close(slow) })
	d.ends()
	if !strings.Contains(d.out.String(), `"id":9,"jsonrpc":"2.0","result"`) {
		t.Error(d.out)
	}
}

// A call that the assistant calls off is called off, and gets no answer.
func TestBridgeCancels(t *testing.T) {
	f := newFake(t)
	_, o := connected(t, f)
	d := start(t, f, o)
	d.begins()
	came, off := make(chan struct{}), make(chan struct{})
	f.answers("/mcp", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"slow"`) {
			close(came)
			<-r.Context().Done()
			close(off)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		f.asIs(w, r)
	})
	d.says(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow"}}`)
	select {
	case <-came:
	case <-time.After(time.Minute):
		t.Fatal("it does not come")
	}
	d.says(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	select {
	case <-off:
	case <-time.After(time.Minute):
		t.Fatal("it is not called off")
	}
	d.says(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	d.hears(`"id":8`)
	if strings.Contains(d.out.String(), `"id":7`) || f.count("notifications/cancelled") != 1 {
		t.Error(d.out)
	}
	d.ends()
}

// A stream that breaks is taken up again behind its last event.
func TestBridgeResumes(t *testing.T) {
	f := newFake(t)
	_, o := connected(t, f)
	d := start(t, f, o)
	d.begins()
	f.answers("/mcp", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		switch {
		case strings.Contains(string(body), `"id":5`):
			fmt.Fprint(w, "id: e1\nretry: 10\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n")
		case r.Header.Get("Last-Event-ID") == "e1":
			fmt.Fprint(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"late\":true}}\n\n")
		case strings.Contains(string(body), `"id":6`):
			fmt.Fprint(w, ": nothing\n\n")
		default:
			w.WriteHeader(405)
		}
	})
	d.says(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x"}}`)
	d.hears("notifications/progress")
	if line := d.hears(`"id":5`); !strings.Contains(line, "late") {
		t.Error(line)
	}
	d.says(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"x"}}`)
	if line := d.hears(`"id":6`); !strings.Contains(line, "ended before the answer") {
		t.Error(line)
	}
	d.ends()
}

// A server that ends each stream at once, with a new ID and no wait, is asked no more
// than once a second.
func TestBridgeIsNotDriven(t *testing.T) {
	f := newFake(t)
	_, o := connected(t, f)
	d := start(t, f, o)
	d.begins()
	var asked atomic.Int64
	began := time.Now()
	f.answers("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "" { // what the session began with, and nobody waits for
			w.WriteHeader(405)
			return
		}
		asked.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "retry: 1\nid: %s\ndata: \n\n", newSecret())
	})
	d.says(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	for asked.Load() < 3 && time.Since(began) < time.Minute {
		time.Sleep(5 * time.Millisecond)
	}
	n := int(asked.Load())
	if most := 1 + int(time.Since(began)/time.Second); n < 3 || n > most {
		t.Errorf("%d requests for one call, want 3 to %d", n, most)
	}
	d.says(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	d.ends()
}

// What the server says instead of an answer is told to whoever asked.
func TestBridgeTellsRefusals(t *testing.T) {
	f := newFake(t)
	_, o := connected(t, f)
	d := start(t, f, o)
	d.begins()
	for i, tt := range []struct {
		answer http.HandlerFunc
		says   string
	}{
		{func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "3"); w.WriteHeader(429) }, "wait 3 seconds"},
		{func(w http.ResponseWriter, _ *http.Request) {
			says(w, 403, map[string]any{"error": "forbidden", "reason": "role"})
		}, "403: role"},
		{func(w http.ResponseWriter, _ *http.Request) {
			says(w, 400, map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": -32600, "message": "two values"}})
		}, "400: two values"},
		{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, "502"},
		{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }, "gave no answer"},
		{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "cannot be reached"},
		{func(w http.ResponseWriter, _ *http.Request) {
			http.Redirect(&quiet{w}, &http.Request{Method: "POST"}, "https://evil.example/", http.StatusTemporaryRedirect)
		}, "307"},
	} {
		f.answers("/mcp", tt.answer)
		d.says(fmt.Sprintf(`{"jsonrpc":"2.0","id":"t%d","method":"tools/call","params":{"name":"x"}}`, i))
		if line := d.hears(fmt.Sprintf(`"t%d"`, i)); !strings.Contains(line, tt.says) || !strings.Contains(line, `"error"`) {
			t.Errorf("want %q: %s", tt.says, line)
		}
	}
	f.answers("/mcp", nil)
	d.says(`{"jsonrpc":`)
	d.hears("-32700")
	d.says("")
	d.says(`[{"jsonrpc":"2.0","id":"b1","method":"ping"},{"jsonrpc":"2.0","id":"b2","method":"ping"}]`)
	d.hears(`"b2"`)
	d.ends()
}

type quiet struct{ http.ResponseWriter }

// A server where nobody may connect so is told of in the answer to the hello.
func TestBridgeWhereItIsOff(t *testing.T) {
	f := newFake(t)
	f.answers("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		says(w, 200, map[string]any{"issuer": f.URL})
	})
	d := start(t, f, f.options(t, func(string) error { t.Error("a browser is opened"); return nil }))
	d.says(hello)
	if line := d.hears(`"id":1`); !strings.Contains(line, "clients.desktop = true") || !strings.Contains(line, `"error"`) {
		t.Error(line)
	}
	d.ends()
}
