package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Decision B7 and spec 3: what was begun before an approval ended is answered as
// what comes after it. The headers are there, and the client was told to go on,
// before the end; the body comes after it.
func TestHeldOpen(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, tk := h.connected("", "organization", "nordlys", "grant", "everything")
	bodies := map[string]string{
		"/api/v5/mcp":      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_items","arguments":{"kind":"note"}}}`,
		"/api/v5/mcp?list": `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"/api/v5/notes":    `{"title":"Late","personal":true}`,
	}
	rests := map[string]func() (int, string, http.Header){}
	for path, body := range bodies {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
			path, strings.TrimPrefix(h.base, "http://"), tk.access, len(body))
		if err != nil {
			t.Fatal(err)
		}
		reader := bufio.NewReader(conn)
		if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") { // the check was before
			t.Fatal(line, err)
		}
		if _, err := reader.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, body[:1])
		rests[path] = func() (int, string, http.Header) {
			io.WriteString(conn, body[1:])
			a, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(a.Body)
			return a.StatusCode, string(text), a.Header
		}
	}
	if a := f.revoke(tk.access); a.status != 200 {
		t.Fatal(a)
	}
	for path, rest := range rests {
		status, body, header := rest()
		if status != 401 || strings.Contains(body, "title") || !strings.Contains(header.Get("WWW-Authenticate"), `error="invalid_token"`) {
			t.Errorf("%s: %d %v %s", path, status, header, body)
		}
	}
}
