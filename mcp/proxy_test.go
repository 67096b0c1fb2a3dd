package mcp

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/api/apitest"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// The service gets the bytes that came, signed for this call, and of the headers
// those alone that it is meant to have (decision V11).
func TestServiceGetsTheMessage(t *testing.T) {
	var got *http.Request
	var body []byte
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		jsonService(`{"jsonrpc":"2.0","id":7,"result":{}}`)(w, r)
	}))
	token, of := h.live("ada", everything)
	const sent = "\n {\"jsonrpc\":\"2.0\", \"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"t\\u0061ke\"} }\t"
	a := h.send("POST", token, sent, "Mcp-Protocol-Version", "2025-11-25", "Mcp-Method", "tools/call", "Mcp-Name", "take", "Mcp-Param-Region", "north", "Accept-Language", "de",
		"User-Agent", "a-client", "Traceparent", "00-1", "Tracestate", "x=1",
		"Origin", "https://page.example", "Cookie", "c=1", "X-Auth-Token", "", "X-Grantkeeper-Person", "tor", "X-Forwarded-For", "203.0.113.1", "Forwarded", "for=203.0.113.1",
		"X-Request-Id", "theirs", "Referer", "https://page.example/", "Accept-Encoding", "gzip", "X-Other", "x", "Proxy-Authorization", "Basic x", "Sec-Fetch-Site", "cross-site")
	if a.StatusCode != 200 || a.body != `{"jsonrpc":"2.0","id":7,"result":{}}` || string(body) != sent {
		t.Fatalf("%d %s, and the service got %q", a.StatusCode, a.body, body)
	}
	want := map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Accept-Language": "de", "User-Agent": "a-client", "Mcp-Protocol-Version": "2025-11-25",
		"Mcp-Method": "tools/call", "Mcp-Name": "take", "Mcp-Param-Region": "north", "Traceparent": "00-1", "Tracestate": "x=1", "Accept-Encoding": "identity",
		"X-Request-Id": "request-1", "X-Forwarded-For": "192.0.2.7", "X-Forwarded-Host": "app.example", "X-Forwarded-Proto": "https", "Content-Length": fmt.Sprint(len(sent)),
	}
	for name, values := range got.Header {
		if strings.HasPrefix(name, identity.Prefix) {
			continue
		}
		if len(values) != 1 || values[0] != want[name] {
			t.Errorf("%s: %q, want %q", name, values, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if got.Host != h.proxy.URL.Host {
		t.Errorf("Host %q", got.Host)
	}
	who, err := identity.VerifyCall(got.Header, identity.Call{Method: "POST", Target: "/mcp?of=service", Body: body}, time.Now(), []byte(serviceKey))
	if err != nil || who.Person != "ada" || who.Organization != "nordlys" || who.Approval != of.String() || who.Grant != "everything" || !who.Admin {
		t.Errorf("%+v, %v", who, err)
	}
	if a := h.send("POST", adaKey, sent); a.StatusCode != 200 {
		t.Errorf("an API key: %d %s", a.StatusCode, a.body)
	}
	if who, err := identity.Verify(got.Header, time.Now(), []byte(serviceKey)); err != nil || who.Approval != "" || got.Header.Get("X-Auth-Token")+got.Header.Get("Authorization") != "" {
		t.Errorf("%+v, %v, %v", who, err, got.Header)
	}
}

// Of what the service answers, a client gets what belongs to MCP (decision V12).
func TestClientGetsTheAnswer(t *testing.T) {
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Mcp-Protocol-Version": "2025-11-25", "Retry-After": "3", "Content-Language": "de", "Mcp-Session-Id": "s1", "Set-Cookie": "a=b", "Cache-Control": "public", "Etag": `"x"`,
			"Access-Control-Allow-Origin": "https://a.example", "Access-Control-Allow-Credentials": "true", "Server": "theirs", "X-Powered-By": "theirs", "Www-Authenticate": "Bearer",
			"X-Grantkeeper-Person": "ada", "Location": "http://127.0.0.1/", "X-Other": "x", "Clear-Site-Data": "*", "Link": "<x>",
		} {
			w.Header().Set(name, value)
		}
		jsonService(`{"jsonrpc":"2.0","id":7,"result":{"a": 1}}`)(w, r)
	}))
	token, _ := h.live("ada", everything)
	a := h.send("POST", token, call("x"), "Origin", "https://page.example")
	session := a.Header.Get("Mcp-Session-Id")
	want := map[string]string{
		"Mcp-Protocol-Version": "2025-11-25", "Retry-After": "3", "Content-Language": "de", "Content-Type": "application/json", "Cache-Control": "no-store", "Access-Control-Allow-Origin": "*",
		"Access-Control-Expose-Headers": "WWW-Authenticate, Retry-After, MCP-Protocol-Version, Mcp-Session-Id", "X-Request-Id": "request-1", "Mcp-Session-Id": session,
	}
	for name, values := range a.Header {
		if name != "Date" && name != "Content-Length" && !strings.HasPrefix(name, "Ratelimit") && (len(values) != 1 || values[0] != want[name]) {
			t.Errorf("%s: %q, want %q", name, values, want[name])
		}
	}
	if id, ok := strings.CutPrefix(session, "s1."); a.body != `{"jsonrpc":"2.0","id":7,"result":{"a": 1}}` || !ok || len(id) != tagLen {
		t.Errorf("%s, session %q", a.body, session)
	}
}

// Three methods pass, and what the service says of them; no other reaches it
// (decision V2).
func TestMethods(t *testing.T) {
	var heard atomic.Int32
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard.Add(1)
		w.Header().Set("Allow", "POST")
		http.Error(w, "no "+r.Method, http.StatusMethodNotAllowed)
	}))
	token, _ := h.live("ada", everything)
	for _, method := range []string{"GET", "POST", "DELETE"} {
		if a := h.send(method, token, call("x")); a.StatusCode != 405 || a.body != "no "+method+"\n" || a.Header.Get("Allow") != "POST" || a.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %d %q %v", method, a.StatusCode, a.body, a.Header)
		}
	}
	if heard.Load() != 3 {
		t.Errorf("the service heard %d", heard.Load())
	}
	for _, method := range []string{"HEAD", "PUT", "PATCH", "OPTIONS", "TRACE", "PROPFIND"} {
		a := h.send(method, token, "")
		if a.StatusCode != 405 || a.Header.Get("Allow") != "GET, POST, DELETE" {
			t.Errorf("%s: %d %v", method, a.StatusCode, a.Header)
		}
	}
	for _, method := range []string{"GET", "POST", "DELETE", "HEAD"} {
		if a := h.send(method, "svo_nothing", call("x")); a.StatusCode != 401 || !strings.Contains(a.Header.Get("WWW-Authenticate"), "/oauth-protected-resource/api/v5/mcp") {
			t.Errorf("%s without a good token: %d", method, a.StatusCode)
		}
	}
	if heard.Load() != 3 {
		t.Errorf("the service heard %d in the end", heard.Load())
	}
}

// What is refused before the service hears of it (decisions V2, V3, V4 and V7).
func TestRefusedRequests(t *testing.T) {
	var heard atomic.Int32
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard.Add(1)
		jsonService(`{}`)(w, r)
	}), func(h *house) { h.proxy.MaxBody = 70_000 })
	token, _ := h.live("ada", everything)
	batch := "[" + call("a") + "," + call("b") + "]"
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
		code    string
	}{
		"another type":        {call("a"), []string{"Content-Type", "", "Content-Type", "text/plain"}, 415, "invalid_request"},
		"no type":             {call("a"), []string{"Content-Type", ""}, 415, "invalid_request"},
		"another charset":     {call("a"), []string{"Content-Type", "", "Content-Type", "application/json; charset=utf-16"}, 415, "invalid_request"},
		"compressed":          {call("a"), []string{"Content-Encoding", "gzip"}, 415, "invalid_request"},
		"too long":            {call(strings.Repeat("x", 70_000)), nil, 413, "invalid_request"},
		"a member twice":      {`{"id":7,"method":"tools/call","params":{"name":"a","name":"b"}}`, nil, 400, "invalid_request"},
		"a batch of today":    {batch, []string{"Mcp-Protocol-Version", "2025-06-18"}, 400, "invalid_request"},
		"two revisions":       {batch, []string{"Mcp-Protocol-Version", "2025-03-26", "Mcp-Protocol-Version", "2025-06-18"}, 400, "invalid_request"},
		"another method":      {call("a"), []string{"Mcp-Method", "ping"}, 400, "-32020"},
		"another name":        {call("a"), []string{"Mcp-Name", "b"}, 400, "-32020"},
		"an event of nobody":  {call("a"), []string{"Last-Event-Id", "1"}, 400, "invalid_request"},
		"a session of nobody": {call("a"), []string{"Mcp-Session-Id", "s1"}, 404, "-32001"},
	} {
		if a := h.send("POST", token, c.body, c.headers...); a.StatusCode != c.status || !strings.Contains(a.body, c.code) || a.Header.Get("Ratelimit") == "" {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	if heard.Load() != 0 {
		t.Errorf("the service heard of %d", heard.Load())
	}
	for _, headers := range [][]string{nil, {"Mcp-Protocol-Version", "2025-03-26"}} {
		if a := h.send("POST", token, batch, headers...); a.StatusCode != 200 {
			t.Errorf("a batch as %q: %d %s", headers, a.StatusCode, a.body)
		}
	}
}

// Each message counts, the opening of a stream too, and what the service sends does
// not (decision V4).
func TestEachMessageCounts(t *testing.T) {
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {}\n\ndata: {}\n\n")
	}), func(h *house) { h.api.Limit = limit.NewNames(limit.Limit{N: 10, Window: time.Hour}) })
	token, _ := h.live("ada", everything)
	for n, c := range []struct {
		method, body, left string
		status             int
	}{
		{"POST", call("a"), "9", 200}, {"GET", "", "8", 200}, {"POST", "[" + call("a") + "," + call("b") + "]", "6", 200}, {"DELETE", "", "5", 200},
		{"POST", "[" + strings.Repeat(call("a")+",", 6) + call("b") + "]", "", 429}, {"POST", call("a"), "3", 200},
	} {
		a := h.send(c.method, token, c.body)
		if a.StatusCode != c.status || c.left != "" && !strings.Contains(a.Header.Get("Ratelimit"), "r="+c.left) {
			t.Errorf("%d: %d %s %s", n, a.StatusCode, a.Header.Get("Ratelimit"), a.body)
		}
	}
}

// A session is good for whom it was given to; everybody else is told in the same
// bytes that there is none (decision V5). So is an event (decision V6).
func TestSessionsOfOthers(t *testing.T) {
	var seen []string
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.Header.Get("Mcp-Session-Id")+" "+r.Header.Get("Last-Event-Id"))
		w.Header().Set("Mcp-Session-Id", "s1")
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "id: 5\ndata: {}\n\n")
	}))
	ada, _ := h.live("ada", everything)
	again, _ := h.live("ada", everything) // another approval of the same person for the same client
	tor, _ := h.live("tor", everything)
	a := h.send("POST", ada, call("a"))
	session := a.Header.Get("Mcp-Session-Id")
	event := strings.TrimPrefix(strings.SplitN(a.body, "\n", 2)[0], "id: ")
	if !strings.HasPrefix(session, "s1.") || !strings.HasPrefix(event, "5.") {
		t.Fatalf("session %q, event %q", session, event)
	}
	seen = nil
	if a := h.send("GET", ada, "", "Mcp-Session-Id", session, "Last-Event-Id", event); a.StatusCode != 200 || !slices.Equal(seen, []string{"GET s1 5"}) {
		t.Errorf("its own: %d, the service saw %q", a.StatusCode, seen)
	}
	seen = nil
	said := map[string]bool{}
	for name, who := range map[string]string{"another approval": again, "another person": tor, "an API key": adaKey} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			a := h.send(method, who, `{"id":1,"result":{"action":"accept"}}`, "Mcp-Session-Id", session)
			if a.StatusCode != 404 {
				t.Errorf("%s, %s: %d %s", name, method, a.StatusCode, a.body)
			}
			said[a.body] = true
		}
	}
	for _, id := range []string{"s1", "s1.", "s2" + session[2:], session + "x", "nobody's", strings.ToLower(session) + "A", ""} {
		a := h.send("POST", ada, call("a"), "Mcp-Session-Id", " "+id+" ")
		if a.StatusCode != 404 {
			t.Errorf("%q: %d", id, a.StatusCode)
		}
		said[a.body] = true
	}
	if want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`; len(said) != 1 || !said[want] {
		t.Errorf("told apart: %v", said)
	}
	if a := h.send("POST", ada, call("a"), "Mcp-Session-Id", session, "Mcp-Session-Id", session); a.StatusCode != 404 {
		t.Errorf("twice: %d", a.StatusCode)
	}
	theirs := h.send("POST", tor, call("a"))
	for name, headers := range map[string][]string{
		"another's event":             {"Mcp-Session-Id", session, "Last-Event-Id", strings.TrimPrefix(strings.SplitN(theirs.body, "\n", 2)[0], "id: ")},
		"an event without a session":  {"Last-Event-Id", event},
		"the service's own":           {"Mcp-Session-Id", session, "Last-Event-Id", "5"},
		"counted on":                  {"Mcp-Session-Id", session, "Last-Event-Id", "6" + event[1:]},
		"the session's":               {"Mcp-Session-Id", session, "Last-Event-Id", session},
		"twice":                       {"Mcp-Session-Id", session, "Last-Event-Id", event, "Last-Event-Id", event},
		"another approval's, and his": {"Mcp-Session-Id", theirs.Header.Get("Mcp-Session-Id"), "Last-Event-Id", event},
	} {
		if a := h.send("GET", ada, "", headers...); a.StatusCode != 400 && a.StatusCode != 404 {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	if len(seen) != 1 {
		t.Errorf("the service heard %q", seen)
	}
	if err := h.ring.Add(token.NewKey(2, [32]byte{2})); err != nil {
		t.Fatal(err)
	}
	if err := h.ring.Seal(2); err != nil {
		t.Fatal(err)
	}
	if a := h.send("POST", ada, call("a"), "Mcp-Session-Id", session); a.StatusCode != 200 || a.Header.Get("Mcp-Session-Id") == session {
		t.Errorf("after a rotation of keys: %d %q", a.StatusCode, a.Header.Get("Mcp-Session-Id"))
	}
}

// What is wrong with the service is in the log with its remedy, and 502 for the
// client: no challenge, redirect or page of the service reaches it, and it does not
// wait for ever (decisions V12 and V14).
func TestAwkwardServices(t *testing.T) {
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				io.WriteString(c, text)
				c.Close()
			}
		}
	}
	with := func(status int, kind, body string, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		service http.HandlerFunc
		status  int
		log     string
	}{
		"a redirect":             {with(307, "text/html", "<a>", "Location", "/mcp/"), 502, "mcp.upstream"},
		"not modified":           {with(304, "application/json", ""), 502, "mcp.upstream"},
		"401":                    {with(401, "application/json", `{"hidden":1}`, "WWW-Authenticate", `Bearer resource_metadata="http://x"`), 502, "service.key_file"},
		"407":                    {with(407, "application/json", `{"hidden":1}`), 502, "407"},
		"compressed":             {with(200, "application/json", "hidden", "Content-Encoding", "gzip"), 502, "compressed"},
		"compressed twice":       {with(200, "text/event-stream", "hidden", "Content-Encoding", "br, gzip"), 502, "compressed"},
		"a page":                 {with(200, "text/html", "<p>hidden"), 502, "mcp.upstream"},
		"no type":                {raw("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhidden"), 502, "neither JSON"},
		"switches protocols":     {raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), 502, "101"},
		"no HTTP":                {raw("nonsense\r\n\r\n"), 502, "malformed"},
		"hangs up":               {raw(""), 502, "EOF"},
		"a broken header":        {raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: a\nX: hidden\r\n\r\n{}"), 200, ""},
		"a session with a space": {with(200, "application/json", "{}", "Mcp-Session-Id", "a b"), 502, "session ID"},
		"a long session":         {with(200, "application/json", "{}", "Mcp-Session-Id", strings.Repeat("a", 2000)), 502, "session ID"},
		"endless headers":        {raw("HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Hidden: "+strings.Repeat("x", 1000)+"\r\n", 100) + "\r\n"), 502, "header"},
		"JSON cut short":         {raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"hidden\":"), 502, "EOF"},
		"JSON without end":       {with(200, "application/json", strings.Repeat(" ", maxAnswer+1)), 502, "16 MiB"},
		"an error with a page":   {with(500, "text/html", "<p>Oh.</p>"), 500, ""},
		"an error in JSON":       {with(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}`), 400, ""},
		"too many requests":      {with(429, "text/plain", "later", "Retry-After", "3"), 429, ""},
		"accepted":               {with(202, "text/html", ""), 202, ""},
		"nothing":                {with(204, "text/html", ""), 204, ""},
		"nothing, in chunks":     {raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 200, ""},
		"slow to begin": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, 504, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, c.service, func(h *house) {
				if h.proxy.Wait = time.Minute; c.status == 504 {
					h.proxy.Wait = time.Second
				}
			})
			token, _ := h.live("ada", everything)
			a := h.send("POST", token, call("x"))
			if a.StatusCode != c.status || c.status >= 502 && !strings.Contains(a.body, `"reference":"request-1"`) || strings.Contains(a.body, "hidden") ||
				a.Header.Get("WWW-Authenticate")+a.Header.Get("Location")+a.Header.Get("Content-Encoding") != "" || strings.Contains(a.Header.Get("Content-Type"), "html") {
				t.Errorf("%d %q %v", a.StatusCode, a.body, a.Header)
			}
			if log := h.log.String(); !strings.Contains(log, c.log) || (log != "") != (c.log != "") || strings.Contains(log, "hidden") {
				t.Errorf("log: %s", log)
			}
		})
	}
}

// A compressed stream is refused also where net/http would have taken it apart.
func TestNothingIsDecompressed(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, `{"jsonrpc":"2.0","id":7,"result":{}}`)
	z.Close()
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(b.Bytes())
	}))
	token, _ := h.live("ada", everything)
	if a := h.send("POST", token, call("x"), "Accept-Encoding", "gzip"); a.StatusCode != 502 {
		t.Errorf("%d %q", a.StatusCode, a.body)
	}
}

// The head of a stream is there before its first event, each event as it comes, and
// a comment when the service is silent; an event that is cut off never is
// (decision V13).
func TestStreams(t *testing.T) {
	next := make(chan string)
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.(http.Flusher).Flush()
		for text := range next {
			if text == "die" {
				panic(http.ErrAbortHandler)
			}
			io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
	}), func(h *house) { h.proxy.silence = 100 * time.Millisecond })
	token, _ := h.live("ada", everything)
	a := h.open(t.Context(), "GET", token, nil)
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/event-stream" || a.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	from := bufio.NewReader(a.Body)
	for range 2 {
		if got := readLine(t, from) + readLine(t, from); got != ": " {
			t.Fatalf("in the silence: %q", got)
		}
	}
	event := func() (got string) { // without the comments between
		for {
			switch line := readLine(t, from); {
			case line == "" && got != "":
				return got
			case line != "" && line != ": ":
				got += line + "|"
			}
		}
	}
	for _, c := range [][2]string{
		{"data: a\n\n", "data: a|"}, {"event: message\rdata: b\rdata: c\r\r", "event: message|data: b|data: c|"}, {"retry: 3\r\n: x\r\n\r\n", "retry: 3|: x|"},
		{"data: " + strings.Repeat("x", 1<<20) + "\n\n", "data: " + strings.Repeat("x", 1<<20) + "|"},
	} {
		next <- c[0]
		if got := event(); got != c[1] {
			t.Errorf("%.40q: %.40q", c[0], got)
		}
	}
	next <- "data: whole\n\ndata: half"
	if got := event(); got != "data: whole|" {
		t.Errorf("%q", got)
	}
	next <- "die"
	if rest, err := io.ReadAll(from); err == nil || strings.Contains(string(rest), "half") {
		t.Errorf("after it died: %q, %v", rest, err)
	}
}

// A stream whose service ends it ends whole.
func TestStreamsThatEnd(t *testing.T) {
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\nid: 2\ndata: half")
	}))
	token, _ := h.live("ada", everything)
	a := h.send("POST", token, call("x"))
	lines := strings.Split(a.body, "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "id: 1.") || lines[1] != `data: {"jsonrpc":"2.0","id":7,"result":{}}` {
		t.Errorf("%q", a.body)
	}
	if h.log.String() != "" {
		t.Errorf("log: %s", h.log)
	}
}

// An event without end is broken off, and takes no more memory than one may.
func TestEndlessEvent(t *testing.T) {
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: first\n\n")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "data: "+strings.Repeat("x", 1<<20)+"\n"); err != nil {
				return
			}
		}
	}))
	token, _ := h.live("ada", everything)
	a := h.open(t.Context(), "GET", token, nil)
	if got, err := io.ReadAll(a.Body); err == nil || string(got) != "data: first\n\n" {
		t.Errorf("%.50q, %v", got, err)
	}
	if !strings.Contains(h.log.String(), "16 MiB") {
		t.Errorf("log: %s", h.log)
	}
}

// byWords deny the tool "take" unless it reads, resources in "secret:" and methods that
// MCP has not, and list what reads.
func byWords(_ api.Rights, m Message) *Denial {
	if m.Tool == "take" && m.Reads != Reads || strings.HasPrefix(m.Resource, "secret:") || m.Prompt == "secret" || strings.HasPrefix(m.Method, "x/") {
		return &Denial{Text: "Not " + m.Method + " " + m.Tool + m.Resource + m.Prompt + ".", Tool: m.Tool}
	}
	return nil
}

// ruled is a house with rules, whose service counts and repeats.
func ruled(t *testing.T, listed string) (h *house, heard *atomic.Int32) {
	heard = new(atomic.Int32)
	h = newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Cursor string }
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		result := `{"content":[]}`
		switch {
		case m.Method == "tools/list" && m.Params.Cursor == "":
			result = `{"tools":[{"name":"other","annotations":{"readOnlyHint":true}}],"nextCursor":"2"}`
		case m.Method == "tools/list":
			result = `{"tools":[` + listed + `]}`
		default:
			heard.Add(1)
		}
		if m.Method == "tools/list" && strings.Contains(string(m.ID), "grantkeeper-") && (r.Header.Get("Mcp-Name") != "" || r.Header.Get("Mcp-Param-A") != "" || !strings.Contains(string(body), `"_meta":{"k":1}`)) {
			t.Errorf("the proxy's own question: %s %v", body, r.Header)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", m.ID, result)
	}), func(h *house) {
		h.proxy.decideAs = byWords
		h.proxy.listsAs = func(_ api.Rights, t Tool) bool { return t.Reads == Reads }
	})
	return h, heard
}

// What a rule denies is told in an answer, and the service does not hear of it
// (decisions V9 and V10).
func TestDeniedMessages(t *testing.T) {
	h, heard := ruled(t, `{"name":"take"}`)
	token, _ := h.live("ada", everything)
	about := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":"\u0061","method":"` + method + `","params":` + params + `}`
	}
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
		want    string // part of the answer
	}{
		"a tool":               {about("tools/call", `{"name":"take"}`), nil, 200, `{"jsonrpc":"2.0","id":"\u0061","result":{"content":[{"type":"text","text":"Not tools/call take."}],"isError":true,"_meta":{"grantkeeper/denied":{"tool":"take"}}}}`},
		"a tool, escaped":      {about("tools/call", `{"name":"t\u0061ke"}`), nil, 200, `"isError":true`},
		"a resource":           {about("resources/read", `{"uri":"secret:x"}`), nil, 200, `"code":-32000`},
		"a subscription":       {about("resources/subscribe", `{"uri":"secret:x"}`), nil, 200, `"code":-32000`},
		"one of subscriptions": {about("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["a:","secret:x"]}}`), nil, 200, "secret:x"},
		"a prompt":             {about("prompts/get", `{"name":"secret"}`), nil, 200, `"code":-32000`},
		"a completion":         {about("completion/complete", `{"ref":{"type":"ref/prompt","name":"secret"}}`), nil, 200, `"code":-32000`},
		"an unknown method":    {about("x/y", `{}`), nil, 200, `"code":-32601`},
		"the same, of today":   {about("x/y", `{}`), []string{"Mcp-Protocol-Version", newRevision}, 404, `"code":-32601`},
		"without an ID":        {`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"take"}}`, nil, 403, `"error":"forbidden"`},
		"in a batch": {`[` + about("tools/call", `{"name":"take"}`) + `,{"id":2,"method":"ping"},{"method":"notifications/x"}]`, nil, 200,
			`[{"jsonrpc":"2.0","id":"\u0061","result":{"content":[{"type":"text","text":"Not tools/call take."}],"isError":true,"_meta":{"grantkeeper/denied":{"tool":"take"}}}},{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Nothing of this batch was done, because another call in it is denied."}}]`},
	} {
		if a := h.send("POST", token, c.body, c.headers...); a.StatusCode != c.status || !strings.Contains(a.body, c.want) || a.Header.Get("WWW-Authenticate") != "" || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	if heard.Load() != 0 {
		t.Errorf("the service heard of %d", heard.Load())
	}
	for name, body := range map[string]string{
		"a look-alike name": about("tools/call", `{"name":"Take"}`), "another tool": about("tools/call", `{"name":"give"}`), "a resource": about("resources/read", `{"uri":"a:"}`),
		"a notification": `{"method":"notifications/x"}`, "an answer": `{"id":1,"result":{}}`,
	} {
		if a := h.send("POST", token, body); a.StatusCode != 200 {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	if heard.Load() != 5 {
		t.Errorf("the service heard of %d", heard.Load())
	}
}

// What a tool does is asked of the service when no list has said it lately, in the
// client's own session, and remembered; what no list names changes something
// (decision V8).
func TestToolsThatNobodyListed(t *testing.T) {
	for listed, denied := range map[string]bool{`{"name":"take","annotations":{"readOnlyHint":true}}`: false, `{"name":"take"}`: true, `{"name":"Take","annotations":{"readOnlyHint":true}}`: true} {
		h, heard := ruled(t, listed)
		token, _ := h.live("ada", selected)
		call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"take","_meta":{"k":1,"progressToken":"p"}}}`
		for range 2 {
			a := h.send("POST", token, call, "Mcp-Name", "take", "Mcp-Method", "tools/call", "Mcp-Param-A", "x")
			if a.StatusCode != 200 || strings.Contains(a.body, "isError") != denied {
				t.Errorf("%s: %d %s", listed, a.StatusCode, a.body)
			}
		}
		if (heard.Load() == 0) != denied {
			t.Errorf("%s: the service heard %d calls", listed, heard.Load())
		}
	}
}

// A list has what some call could do, and remains a page of the service's list
// (decision V9).
func TestListsAreNarrowed(t *testing.T) {
	h, _ := ruled(t, `{"name":"take"},{"name":"look","annotations":{"readOnlyHint":true}}`)
	token, _ := h.live("ada", selected)
	for cursor, want := range map[string]string{
		`{}`:             `{"id":7,"jsonrpc":"2.0","result":{"tools":[{"name":"other","annotations":{"readOnlyHint":true}}],"nextCursor":"2"}}`,
		`{"cursor":"2"}`: `{"id":7,"jsonrpc":"2.0","result":{"tools":[{"name":"look","annotations":{"readOnlyHint":true}}]}}`,
	} {
		a := h.send("POST", token, `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":`+cursor+`}`)
		_, data, _ := strings.Cut(a.body, "data: ")
		var got, expected any
		if err := errors.Join(json.Unmarshal([]byte(data), &got), json.Unmarshal([]byte(want), &expected)); err != nil || !reflect.DeepEqual(got, expected) {
			t.Errorf("%s: %s, %v", cursor, a.body, err)
		}
	}
}

// A list of ten thousand tools passes, and is narrowed.
func TestManyTools(t *testing.T) {
	var all []string
	for n := range 10_000 {
		all = append(all, fmt.Sprintf(`{"name":"tool-%d","annotations":{"readOnlyHint":%t},"description":%q}`, n, n%2 == 0, strings.Repeat("d", 100)))
	}
	h := newHouse(t, jsonService(`{"jsonrpc":"2.0","id":7,"result":{"tools":[`+strings.Join(all, ",")+`]}}`), func(h *house) {
		h.proxy.listsAs = func(_ api.Rights, t Tool) bool { return t.Reads == Reads }
	})
	token, _ := h.live("ada", everything)
	a := h.send("POST", token, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
	if a.StatusCode != 200 || strings.Count(a.body, `"name":`) != 5_000 || !json.Valid([]byte(a.body)) {
		t.Errorf("%d, %d tools", a.StatusCode, strings.Count(a.body, `"name":`))
	}
	if got := h.proxy.tools.of("nordlys", "tool-9999", time.Now()); got != Changes {
		t.Errorf("the last tool is %d", got)
	}
}

// A service that cannot be reached is 502, and its address nobody's business.
func TestServiceIsDown(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	h := newHouse(t, http.NotFoundHandler(), func(h *house) { h.proxy.URL, _ = url.Parse(gone.URL) })
	token, _ := h.live("ada", everything)
	if a := h.send("POST", token, call("x")); a.StatusCode != 502 || strings.Contains(a.body, "127.0.0.1") || !strings.Contains(h.log.String(), "refused") {
		t.Errorf("%d %s, log %s", a.StatusCode, a.body, h.log)
	}
	h = newHouse(t, http.NotFoundHandler(), func(h *house) { h.proxy.Key = func() []byte { return nil } })
	token, _ = h.live("ada", everything)
	if a := h.send("POST", token, call("x")); a.StatusCode != 502 {
		t.Errorf("a key that signs nothing: %d %s", a.StatusCode, a.body)
	}
}

// A service that takes nothing of a message, or stands still in an answer that is no stream,
// keeps it under way no longer than one that does not answer, and nobody knows what became of
// the call.
func TestServiceStandsStill(t *testing.T) {
	for what, answers := range map[string]func(*http.Request) (*http.Response, error){
		"the message": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"JSON":         answersSlowly("application/json"),
		"no type":      answersSlowly(""),
		"a page":       answersSlowly("text/html"),
		"broken event": answersSlowly("text/event-stream; charset"),
	} {
		h := newHouse(t, http.NotFoundHandler(), func(h *house) {
			h.proxy.Wait, h.proxy.taking, h.proxy.to = 10*time.Millisecond, 10*time.Millisecond, tripper(answers)
		})
		token, _ := h.live("ada", everything)
		if a := h.send("POST", token, call("x")); a.StatusCode != 504 || !strings.Contains(a.body, "may have been done") || !strings.Contains(h.log.String(), "stands still") {
			t.Errorf("%s: %d %s, log %s", what, a.StatusCode, a.body, h.log)
		}
	}
	h := newHouse(t, http.NotFoundHandler(), func(h *house) {
		h.proxy.Wait = time.Second
		h.proxy.to = tripper(func(r *http.Request) (*http.Response, error) {
			body, from := io.Pipe()
			time.AfterFunc(h.proxy.Wait*3/2, func() {
				_, _ = io.WriteString(from, "data: late\n\n")
				from.Close()
			})
			context.AfterFunc(r.Context(), func() { from.CloseWithError(r.Context().Err()) })
			return &http.Response{StatusCode: 200, ContentLength: -1, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
		})
	})
	token, _ := h.live("ada", everything)
	if a := h.send("POST", token, call("x")); !strings.Contains(a.body, "data: late") {
		t.Errorf("a stream has no bound: %d %s", a.StatusCode, a.body)
	}
}

// answersSlowly gives an answer of a type whose head has come, and of which the rest does not.
func answersSlowly(kind string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		body, from := io.Pipe()
		context.AfterFunc(r.Context(), func() { from.CloseWithError(r.Context().Err()) })
		a := &http.Response{StatusCode: 500, ContentLength: -1, Header: http.Header{}, Body: body}
		if kind != "" {
			a.Header.Set("Content-Type", kind)
		}
		return a, nil
	}
}

// A database that is away is not the service's fault, and a call that the service may have
// done is not to be asked for again.
func TestFaultsAreTheirOwn(t *testing.T) {
	h := newHouse(t, nil)
	look, pay := Message{Method: "resources/read", Resource: "a:b"}, Message{Method: "tools/call", Tool: "pay", Reads: Changes}
	for _, c := range []struct {
		message Message
		err     error
		status  int
		again   bool
	}{
		{look, fmt.Errorf("sql: %w", store.ErrUnavailable), 503, true},
		{look, io.EOF, 502, true},
		{pay, io.EOF, 502, false},
		{pay, &net.OpError{Op: "dial", Err: io.EOF}, 502, true},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/api/v5/mcp", nil)
		x := &exchange{s: h.proxy, r: r, w: api.NewLasting(w, r, pieceTimeout), messages: []Message{c.message}}
		x.fail(c.err)
		if said := w.Body.String(); w.Code != c.status || strings.Contains(said, "Try again") != c.again {
			t.Errorf("%v: %d %s", c.err, w.Code, said)
		}
	}
	if log := h.log.String(); strings.Contains(log, "sql") {
		t.Errorf("log: %s", log)
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What is wrong with a service is said with the setting that names it.
func TestSettingOfAnotherPath(t *testing.T) {
	for _, answer := range []http.HandlerFunc{
		func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/else", http.StatusTemporaryRedirect)
		},
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<p>")
		},
	} {
		h := newHouse(t, answer, func(h *house) { h.proxy.Path = "/tools" })
		token, _ := h.live("ada", everything)
		if a, log := h.send("POST", token, call("x")), h.log; a.StatusCode != 502 || !strings.Contains(log.String(), "the upstream of /tools") || strings.Contains(log.String(), "mcp.upstream") {
			t.Errorf("%d, log: %s", a.StatusCode, log)
		}
	}
}

// A connection that nobody has used for as long as a service keeps one is used no
// more: the service may end it just as a call is sent, which is not sent again.
func TestNoStaleConnection(t *testing.T) {
	var by []string // of the service's connections, one request after the other
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by = append(by, r.RemoteAddr)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":{}}`)
	}))
	access, _ := h.live("ada", everything)
	for range 10 { // a busy machine may come to leave it alone later than it is done with
		if a := h.send("POST", access, `{"jsonrpc":"2.0","id":7,"method":"ping"}`); a.StatusCode != 200 {
			t.Fatalf("status %d: %s", a.StatusCode, a.body)
		}
		if len(by) > 1 && by[len(by)-1] != by[len(by)-2] {
			break
		}
		time.Sleep(api.IdleConnection + 50*time.Millisecond)
	}
	if api.IdleConnection >= 2*time.Second || by[len(by)-1] == by[len(by)-2] {
		t.Errorf("connections %v, idle for up to %v", by, api.IdleConnection)
	}
}

// No call waits on a connection whose other side is gone.
func TestDeadConnections(t *testing.T) {
	h := newHouse(t, jsonService("{}"))
	apitest.GivesUpTheDead(t, h.proxy.to.(*http.Transport))
}
