package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json"
)

// at gives the same server, asked under another name.
func (h *house) at(name string) *house {
	other := *h
	other.base = "http://" + name + h.base[strings.LastIndexByte(h.base, ':'):]
	return &other
}

// host is {base} without the scheme.
func (h *house) host() string { return strings.TrimPrefix(h.base, "http://") }

// raw sends bytes that no HTTP client would send, and reads one answer.
func (h *house) raw(request string) answer {
	h.t.Helper()
	return h.rawConn(request, false)
}

// rawCut is raw, and then ends its side of the connection.
func (h *house) rawCut(request string) answer {
	h.t.Helper()
	return h.rawConn(request, true)
}

func (h *house) rawConn(request string, cut bool) answer {
	h.t.Helper()
	c := h.caller()
	conn, err := c.Transport.(*http.Transport).DialContext(h.t.Context(), "tcp", h.host())
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	// Who answers early takes no more after a while: the answer is there all the same.
	_, sent := io.WriteString(conn, request)
	if cut {
		conn.(*net.TCPConn).CloseWrite()
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		h.t.Fatalf("%.200q: %v, %v", request, sent, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) { // which may follow a refusal of what was not read to its end
		h.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// rows gives everything that a refused request must not change: all clients
// and approvals as the operator sees them, but for when they were last used.
func (h *house) rows() string {
	h.t.Helper()
	var all []string
	for _, path := range []string{"/v1/clients?limit=1000", "/v1/approvals?limit=1000"} {
		for _, item := range h.items(path) {
			delete(item, "last_used")
			b, _ := json.Marshal(item)
			all = append(all, string(b))
		}
	}
	return strings.Join(all, "\n")
}

// unchanged checks that nothing was written.
func (h *house) unchanged(t *testing.T, before string) {
	t.Helper()
	if after := h.rows(); after != before {
		t.Errorf("something was written:\n%s\nbefore:\n%s", after, before)
	}
}

// reasons counts a client's approvals by the reason of their end; "" is none.
func (h *house) reasons(client string) map[any]int {
	h.t.Helper()
	counts := map[any]int{}
	for _, a := range h.items("/v1/approvals?limit=1000&client=" + client) {
		counts[a["reason"]]++
	}
	return counts
}

// wantMembers compares a whole JSON object.
func wantMembers(t *testing.T, what string, got, want map[string]any) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if g, w := fmt.Sprint(got[name]), fmt.Sprint(want[name]); g != w || reflect.TypeOf(got[name]) == nil {
			t.Errorf("%s: %s is %s, want %s", what, name, g, w)
		}
	}
	for name, v := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: there is a member %s: %v", what, name, v)
		}
	}
}

// wantJSONError checks a refusal of an endpoint that speaks JSON: status,
// code, a description, and that nobody may keep it.
func wantJSONError(t *testing.T, what string, a answer, status int, codes ...string) {
	t.Helper()
	if a.status != status || !slices.Contains(codes, a.errorCode()) {
		t.Errorf("%s: got %s; want %d %v", what, a, status, codes)
		return
	}
	if d, _ := a.json(t)["error_description"].(string); d == "" {
		t.Errorf("%s: no error_description: %s", what, a)
	}
	if got := a.header.Get("Content-Type"); got != jsonType {
		t.Errorf("%s: Content-Type %q", what, got)
	}
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("%s: Cache-Control %q, want no-store (decision M6)", what, got)
	}
}

// wantPage checks that people are shown a page here, and are sent nowhere.
func wantPage(t *testing.T, what string, a answer, status int) {
	t.Helper()
	if a.status != status || a.header.Get("Location") != "" || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Errorf("%s: got %d, Location %q, %s; want a page with %d\n%.500s",
			what, a.status, a.header.Get("Location"), a.header.Get("Content-Type"), status, a.body)
	}
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
		"X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": "",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: %s is %q, want %q", what, name, got, want)
		}
	}
}

// wantRedirect checks an answer that goes to the client with an error, and
// gives its query.
func wantRedirect(t *testing.T, what string, a answer, f *flow, code string) (state string, sent bool) {
	t.Helper()
	if a.status != 303 || !strings.HasPrefix(a.header.Get("Location"), f.redirect+"?") {
		t.Errorf("%s: got %s; want 303 to the client with %s", what, a, code)
		return "", false
	}
	q := a.location(t).Query()
	if q.Get("error") != code || q.Get("error_description") == "" || q.Has("code") {
		t.Errorf("%s: redirected with %v, want %s", what, q, code)
	}
	if q.Get("iss") != f.h.base {
		t.Errorf("%s: iss %q, want %s (decision A5)", what, q.Get("iss"), f.h.base)
	}
	return q.Get("state"), q.Has("state")
}

// many sends n requests, several at a time, and counts the statuses.
func many(n int, send func(i int) answer) map[int]int {
	counts := map[int]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range next {
				a := send(i)
				mu.Lock()
				counts[a.status]++
				mu.Unlock()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	return counts
}
