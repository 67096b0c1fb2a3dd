package gateway

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
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

// What would echo the request, with its signature, comes to no service.
func TestNoEcho(t *testing.T) {
	b := newBehind(t, func(http.ResponseWriter, *http.Request) {}, nil)
	for _, method := range []string{"TRACE", "TRACK"} {
		if a := b.call(method, "/api/v5/notes", nil); a.StatusCode != 405 || b.served.Load() != 0 {
			t.Errorf("%s: status %d, and the service was asked %d times", method, a.StatusCode, b.served.Load())
		}
	}
}
