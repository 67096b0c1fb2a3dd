package mcp

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/api/apitest"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

const (
	serviceKey = "service-key-0123456789abcdef0123456789ab"
	adaKey     = "key-of-ada-for-tests"
	base       = apitest.Base
)

var (
	act        = store.Act{Actor: "system"}
	everything = apitest.Everything
	selected   = grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer"}}}
)

// house is a service behind the proxy behind the guard. Ada is an admin of nordlys
// and fills a role; Tor is a member.
type house struct {
	*apitest.People
	t       testing.TB
	store   *store.Store
	ring    *token.Ring
	api     *api.Server
	proxy   *Server
	front   *httptest.Server
	service *httptest.Server
	log     *apitest.Lines
	later   atomic.Int64 // nanoseconds that the clock is ahead
}

// newHouse takes the service, and what a test sets before the proxy answers.
func newHouse(t testing.TB, service http.Handler, change ...func(*house)) *house {
	t.Helper()
	return newHouseOn(t, "", service, change...)
}

// newHouseOn takes a PostgreSQL database; "" is a file.
func newHouseOn(t testing.TB, database string, service http.Handler, change ...func(*house)) *house {
	t.Helper()
	h := &house{t: t, People: &apitest.People{}, log: &apitest.Lines{}}
	o := store.Options{URL: database, Now: func() time.Time { return time.Now().Add(time.Duration(h.later.Load())) }}
	if database == "" {
		o.Path = filepath.Join(t.TempDir(), "grantkeeper.db")
	}
	h.Open(t, o)
	h.Fill(apitest.Demo())
	h.store, h.ring = h.Store, h.Ring
	h.service = httptest.NewServer(service)
	h.api = &api.Server{
		Store: h.Store, Ring: h.Ring, Service: "Svalinn", Base: func(*http.Request) string { return base },
		Limit: limit.NewNames(limit.Limit{N: 1_000_000, Window: time.Second}),
	}
	to, err := url.Parse(h.service.URL + "/mcp?of=service")
	if err != nil {
		t.Fatal(err)
	}
	h.proxy = &Server{
		URL: to, Key: func() []byte { return []byte(serviceKey) }, API: h.api, Base: h.api.Base, Log: slog.New(slog.NewTextHandler(h.log, nil)), Streams: NewStreams(h.api, 0, 0),
		Address: func(*http.Request) netip.Addr { return netip.MustParseAddr("192.0.2.7") },
	}
	for _, set := range change {
		set(h)
	}
	h.api.MCP = map[string]http.Handler{"/api/v5/mcp": h.proxy.Handler()}
	h.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "request-1")
		h.api.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		h.front.CloseClientConnections()
		h.service.CloseClientConnections()
		h.front.Close()
		h.service.Close()
	})
	return h
}

// live gives the access token of an approval whose code was exchanged.
func (h *house) live(person string, g grantset.Set) (access string, of approval.ID) {
	h.t.Helper()
	return h.liveFor(person, g, approval.AccessLifetime)
}

// liveFor is live with a token that expires earlier.
func (h *house) liveFor(person string, g grantset.Set, lifetime time.Duration) (access string, of approval.ID) {
	h.t.Helper()
	x := h.Live(person, "nordlys", g)
	return h.ring.Access(x.Handle, 1, h.store.Now().Add(lifetime).Unix()), x.ID
}

// end ends an approval, as its person does.
func (h *house) end(id approval.ID) {
	h.t.Helper()
	h.Move(id, approval.End(approval.RevokedByPerson, h.store.Now()))
}

// answered is what a client gets.
type answered struct {
	*http.Response
	body string
}

// send sends a request with a token, and headers in turn, and reads the answer.
func (h *house) send(method, token, body string, headers ...string) answered {
	h.t.Helper()
	a := h.open(context.Background(), method, token, strings.NewReader(body), headers...)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil && err != io.ErrUnexpectedEOF {
		h.t.Fatal(err)
	}
	return answered{a, string(text)}
}

// open is send that reads nothing yet.
func (h *house) open(ctx context.Context, method, token string, body io.Reader, headers ...string) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, h.front.URL+"/api/v5/mcp", body)
	if err != nil {
		h.t.Fatal(err)
	}
	if token == adaKey {
		r.Header.Set("X-Auth-Token", token)
	} else {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { a.Body.Close() })
	return a
}

// readLine reads a line of a stream.
func readLine(t testing.TB, from *bufio.Reader) string {
	t.Helper()
	s, err := from.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", s, err)
	}
	return strings.TrimSuffix(s, "\n")
}

// call is a message that calls a tool.
func call(tool string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}`
}

// jsonService answers every request with one JSON text.
func jsonService(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, text)
	}
}
