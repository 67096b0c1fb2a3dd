package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// The service reads the query by itself: what one reader cannot parse, another
// may, and a filter that is left out would look as if it had been applied.
func TestQueryIsPassedOnAsItCame(t *testing.T) {
	got := ""
	b := newBehind(t, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI }, nil)
	for _, query := range []string{"", "?a=1&b", "?role=host;circle=money", "?after=%zz", "?a=%20+%2B&a=1", "?;&&="} {
		b.call("GET", "/api/v5/notes"+query, nil).Body.Close()
		if got != "/api/v5/notes"+query {
			t.Errorf("%q came as %q", query, got)
		}
	}
}

// A query with a raw "#" is read in two ways: a rule would take a role from behind it.
func TestQueryWithAFragment(t *testing.T) {
	b := newBehind(t, func(http.ResponseWriter, *http.Request) {}, nil)
	c, err := net.Dial("tcp", b.front.Listener.Addr().String()) // no client writes it
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /api/v5/notes?a=1#&role=host HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", b.access)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != 400 || b.served.Load() != 0 {
		t.Errorf("status %d, and the service was asked %d times", answer.StatusCode, b.served.Load())
	}
}

// What would echo the request, with its signature, comes to no client; how a service
// says that it has no such method does, with the methods that it has.
func TestNoEcho(t *testing.T) {
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v5/notes" {
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(405)
			return
		}
		_ = r.Header.Write(w)
	}, nil)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
		served       int64
	}{
		{"TRACE", "/api/v5/notes", 405, "GET, HEAD", 1}, {"TRACK", "/api/v5/notes", 405, "GET, HEAD", 1},
		{"TRACE", "/api/v5/echo", 501, "", 1}, {"TRACK", "/api/v5/echo", 501, "", 1},
		{"GET", "/api/v5/echo", 200, "", 1}, {"CONNECT", "/api/v5/notes", 501, "", 0},
	} {
		before := b.served.Load()
		a := b.call(c.method, c.path, nil)
		told, _ := io.ReadAll(a.Body)
		if got := b.served.Load() - before; a.StatusCode != c.status || a.Header.Get("Allow") != c.allow || int64(got) != c.served {
			t.Errorf("%s %s: status %d, Allow %q, the service was asked %d times", c.method, c.path, a.StatusCode, a.Header.Get("Allow"), got)
		}
		if c.status != 200 && strings.Contains(string(told), "Grantkeeper-") {
			t.Errorf("%s %s: %s", c.method, c.path, told)
		}
	}
}
