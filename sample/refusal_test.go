package sample_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/grantset"
)

// Whatever refuses a request, we or the SDK, says so in the form of API v5,
// and repeats nothing of the body.
func TestRefusalsAreJSON(t *testing.T) {
	h := newMCPHouse(t)
	token := h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything})
	for _, c := range []struct {
		name, body string
		header     []string // name and values
		status     int
		contains   string
	}{
		{"no media type", initialize, []string{"Content-Type"}, 415, "application/json"},
		{"another media type", initialize, []string{"Content-Type", "text/mArKeR"}, 415, "application/json"},
		{"a broken media type", initialize, []string{"Content-Type", "application/json; charset"}, 415, "application/json"},
		{"two media types", initialize, []string{"Content-Type", "application/json", "application/json"}, 415, "application/json"},
		{"another charset", initialize, []string{"Content-Type", "application/json; charset=utf-16"}, 415, "UTF-8"},
		{"compressed", initialize, []string{"Content-Encoding", "gzip"}, 415, "compressed"},
		{"charset of JSON", initialize, []string{"Content-Type", "application/json; charset=UTF-8"}, 200, "protocolVersion"},
		{"nobody can read the answer", initialize, []string{"Accept", "text/html"}, 400, "Accept must allow application/json, as which"},
		{"an unknown revision", initialize, []string{"Mcp-Protocol-Version", "1999-01-01"}, 400, "Unsupported protocol version"},
		{"an array", `["mArKeR"]`, nil, 400, "JSON-RPC message"},
		{"a string", `"mArKeR"`, nil, 400, "JSON-RPC message"},
		{"an object", `{"mArKeR":1}`, nil, 400, "JSON-RPC message"},
		{"an unknown method in a batch", `[` + rpc("create_item", `{"kind":"note","title":"never","personal":true}`) + `,{"jsonrpc":"2.0","id":2,"method":"mArKeR"}]`, nil, 400, "Nothing was done"},
		{"a call in a batch without params", `[{"jsonrpc":"2.0","id":2,"method":"tools/call"}]`, nil, 400, "Nothing was done"},
		{"a call without an ID", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400, "its ID"},
		{"nothing of it was done", rpc("list_items", `{"kind":"note"}`), nil, 200, `"result"`},
		{"deep", strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), nil, 400, "JSON-RPC message"},
	} {
		r := httptest.NewRequest("POST", base+"/api/v5/mcp", strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+token)
		if c.header != nil {
			r.Header[c.header[0]] = c.header[1:]
		}
		w := httptest.NewRecorder()
		h.handler.ServeHTTP(w, r)
		var told struct {
			Code        string `json:"error"`
			Description string `json:"error_description"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &told); err != nil || w.Code != c.status || !strings.Contains(w.Body.String(), c.contains) {
			t.Errorf("%s: got %d %s; want %d and %q", c.name, w.Code, w.Body, c.status, c.contains)
		}
		if c.status != 200 && (told.Code != "invalid_request" || told.Description == "") || strings.Contains(w.Body.String(), "mArKeR") || strings.Contains(w.Body.String(), "never") || strings.Contains(w.Body.String(), "jsonrpc2") {
			t.Errorf("%s: %s", c.name, w.Body)
		}
		if h := w.Header(); h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", c.name, h)
		}
	}
}

// Who ends its side of the connection after asking is not told 200.
func TestGivenUp(t *testing.T) {
	h := newMCPHouse(t)
	server := httptest.NewServer(h.handler)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /api/v5/mcp HTTP/1.1\r\nHost: app.example\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything}), len(initialize), initialize)
	conn.(*net.TCPConn).CloseWrite()
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode == 200 && !strings.Contains(string(body), "protocolVersion") || len(body) == 0 {
		t.Errorf("got %d with %q, %v", r.StatusCode, body, err)
	}
}
