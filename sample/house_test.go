package sample_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/gateway"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/sample"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

const (
	base    = "https://app.example"
	v5Doc   = base + "/.well-known/oauth-protected-resource/api/v5"
	mcpDoc  = base + "/.well-known/oauth-protected-resource/api/v5/mcp"
	missing = `Bearer realm="Svalinn", resource_metadata="` + v5Doc + `"`
	invalid = missing + `, error="invalid_token"`

	verifier = "a-verifier-of-forty-three-characters-or-more"
	callback = "https://client.example/callback"
)

// house is a real server with the sample behind it, both over HTTP, with demo
// people and a clock that tests move. Ada is an admin of nordlys and a member of
// fjell; Tor is a member of nordlys.
type house struct {
	sample  *sample.Server
	log     lines
	t       testing.TB
	store   *store.Store
	ring    *token.Ring
	server  *api.Server
	handler http.Handler
	seconds atomic.Int64 // Unix
	nonces  byte
	close   func() // the store, once
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := newEmptyHouse(t)
	h.fill()
	return h
}

const (
	serviceKey = "service-key-0123456789abcdef0123456789abc"
	gatewayKey = "gateway-key-0123456789abcdef0123456789abc"
)

func newEmptyHouse(t testing.TB) *house {
	t.Helper()
	h := &house{t: t}
	h.seconds.Store(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).Unix())
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	h.ring = ring
	if h.store, err = store.Open(context.Background(), store.Options{
		Path: filepath.Join(t.TempDir(), "grantkeeper.db"), Now: h.now, Ring: ring,
	}); err != nil {
		t.Fatal(err)
	}
	h.close = sync.OnceFunc(func() { h.store.Close() })
	t.Cleanup(h.close)
	h.server = &api.Server{
		Store: h.store, Ring: ring, Service: "Svalinn",
		Base:  func(*http.Request) string { return base },
		Limit: limit.NewNames(limit.API),
	}
	h.handler = h.behind(t)
	return h
}

func (h *house) now() time.Time { return time.Unix(h.seconds.Load(), 0) }

// behind puts the sample behind the guard.
func (h *house) behind(t testing.TB) http.Handler {
	t.Helper()
	door := &gateway.Server{
		API: h.server, Base: func(string) string { return base }, Host: "app.example",
		Keys: func() []gateway.Key {
			return []gateway.Key{{Name: "sample", Secret: gatewayKey, Scopes: []gateway.Scope{gateway.Directory, gateway.DirectoryRead}}}
		},
	}
	gateways := httptest.NewServer(door.Handler())
	t.Cleanup(gateways.Close)
	var err error
	h.sample, err = sample.New(sample.Options{
		Key: []byte(serviceKey), Gateways: gateways.URL, GatewayKey: gatewayKey, Service: "Svalinn", Version: "0.1.0",
		Now: h.now, Log: slog.New(slog.NewTextHandler(&h.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	service := httptest.NewServer(h.sample)
	t.Cleanup(service.Close)
	at, err := url.Parse(service.URL)
	if err != nil {
		t.Fatal(err)
	}
	core := h.server.Handler()
	behind := h.server.Guard((&gateway.Upstream{
		URL: at, Key: func() []byte { return []byte(serviceKey) }, API: h.server, Base: h.server.Base, Address: limit.Proxies{}.ClientAddr,
	}).Handler())
	assistants := h.server.Guard(http.HandlerFunc(h.mcp))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/api/v5/mcp":
			assistants.ServeHTTP(w, r)
		case strings.HasPrefix(path, "/api/v5/") && path != "/api/v5/me":
			behind.ServeHTTP(w, r)
		default:
			core.ServeHTTP(w, r)
		}
	})
}

// mcp passes a call on to the sample's MCP endpoint, signed for it.
func (h *house) mcp(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	who, ok := h.server.Whole(w, r, 0)
	if !ok {
		return
	}
	headers, err := identityOf(who).Sign([]byte(serviceKey), h.now())
	if err == nil {
		call := identity.Call{Method: r.Method, Target: "/mcp", Body: body, Unread: len(body) > 64<<10}
		err = identity.SignCall([]byte(serviceKey), headers, call)
	}
	if err != nil {
		h.server.Fail(w, r, err)
		return
	}
	on := httptest.NewRequestWithContext(r.Context(), r.Method, "/mcp", strings.NewReader(string(body)))
	on.Header = r.Header.Clone()
	on.Header.Set("X-Request-Id", w.Header().Get("X-Request-Id"))
	for name, value := range headers {
		on.Header.Set(name, value)
	}
	h.sample.ServeHTTP(w, on)
}

// identityOf says who an actor is, as package gateway does.
func identityOf(a api.Rights) identity.Identity {
	i := saidOf(a.Authority, a.Person, a.Organization)
	i.Client = a.Client
	return i
}

func saidOf(a grantset.Authority, person, organization string) identity.Identity {
	i := identity.Identity{
		Person: person, Organization: organization, Grant: string(a.Kind()), Admin: a.MayAdminister(),
		Personal: a.MayChange(org.Item{Organization: organization, Person: person}),
	}
	for r, access := range a.Filled {
		if a.Kind() == grantset.Roles && access != "none" {
			i.Roles = append(i.Roles, identity.Role{ID: r.ID, Change: access == "change"})
		}
	}
	return i
}

// lines is a log that goroutines may write to.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (h *house) fill() {
	h.t.Helper()
	member := func(person, organization string, admin bool) store.DirectoryMember {
		return store.DirectoryMember{Person: person, Organization: organization, Admin: admin}
	}
	err := h.store.AddDirectory(context.Background(), store.Directory{
		People: []store.DirectoryPerson{
			{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada \"Countess\" Nord", Active: true}},
			{Person: org.Person{ID: "tor", Email: "tor@nordlys.example", Name: "Tor", Active: true}},
			{Person: org.Person{ID: "siv", Email: "siv@fjell.example", Name: "Siv", Active: true}},
		},
		Organizations: []org.Organization{
			{ID: "nordlys", Name: "Nordlys", AIIntegration: true},
			{ID: "fjell", Name: "Fjell", AIIntegration: true},
		},
		Members: []store.DirectoryMember{
			member("ada", "nordlys", true), member("tor", "nordlys", false),
			member("ada", "fjell", false), member("siv", "fjell", true),
		},
		Circles: []org.Circle{
			{ID: "general", Organization: "nordlys", Name: "General"},
			{ID: "money", Organization: "nordlys", Parent: "general", Name: "Money"},
			{ID: "peak", Organization: "fjell", Name: "Peak"},
		},
		Roles: []org.Role{
			{ID: "treasurer", Organization: "nordlys", Circle: "money", Name: "Treasurer"},
			{ID: "secretary", Organization: "nordlys", Circle: "general", Name: "Secretary"},
			{ID: "host", Organization: "nordlys", Circle: "general", Name: "Host"},
			{ID: "guide", Organization: "fjell", Circle: "peak", Name: "Guide"},
		},
		Fillers: []store.Filler{
			{Role: "treasurer", Person: "ada"}, {Role: "secretary", Person: "ada"},
			{Role: "host", Person: "tor"}, {Role: "guide", Person: "ada"},
		},
		APIKeys: []store.DirectoryAPIKey{
			{Key: "key-of-ada-for-tests", Person: "ada", Organization: "nordlys", Name: "script"},
			{Key: "key-of-tor-for-tests", Person: "tor", Organization: "nordlys", Name: "script"},
			{Key: "key-of-siv-for-tests", Person: "siv", Organization: "fjell", Name: "script"},
		},
	}, store.Act{Actor: "system"})
	if err != nil {
		h.t.Fatal(err)
	}
	err = h.store.AddClient(context.Background(), client.Client{
		ID: "client-1", Name: "Helper", RedirectURIs: []string{callback}, IssuedAt: h.seconds.Load(),
	}, store.Origin{}, store.Act{Actor: "client:client-1"})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) pass(d time.Duration) { h.seconds.Add(int64(d / time.Second)) }

// tokens are what a client holds of one approval.
type tokens struct {
	id                    approval.ID
	handle                token.Handle
	access, refresh, code string
}

var (
	everything = grantset.Set{Kind: grantset.Everything}
	whole      = grantset.Set{Kind: grantset.Organization}
)

func roles(personal bool, picks ...grantset.Pick) grantset.Set {
	return grantset.Set{Kind: grantset.Roles, Picks: picks, Personal: personal}
}

// issued gives an approval whose code waits.
func (h *house) issued(person, organization string, g grantset.Set) tokens {
	h.t.Helper()
	h.nonces++
	nonce := [16]byte{h.nonces}
	sum := sha256.Sum256([]byte(verifier))
	handle, at, err := h.store.Approve(context.Background(), store.Answer{
		Handle: func(attempt uint32) token.Handle {
			handle, _ := h.ring.Handle(1, nonce, attempt)
			return handle
		},
		Client: "client-1", Person: person, Organization: organization, Grant: g,
		RedirectURI: callback, Issuer: base, Challenge: base64.RawURLEncoding.EncodeToString(sum[:]),
	}, store.Act{Actor: "person:" + person})
	if err != nil {
		h.t.Fatal(err)
	}
	return tokens{id: handle.ID(), handle: handle, code: h.ring.Code(handle, at)}
}

// live gives an approval whose code was exchanged now.
func (h *house) live(person, organization string, g grantset.Set) tokens {
	h.t.Helper()
	x := h.issued(person, organization, g)
	now := h.store.Now()
	h.move(x.id, approval.Exchange("client-1", base, callback, verifier, now.Unix(), 1, now))
	x.access = h.ring.Access(x.handle, 1, now.Add(approval.AccessLifetime).Unix())
	x.refresh = h.ring.Refresh(x.handle, 1)
	return x
}

func (h *house) move(id approval.ID, m approval.Move) {
	h.t.Helper()
	_, v, err := h.store.Apply(context.Background(), id, m, store.Act{Actor: "client:client-1"})
	if err != nil || v != approval.OK {
		h.t.Fatalf("move: %s, %v", v, err)
	}
}

// call sends a request; headers are pairs of a name and a value.
func (h *house) call(method, target string, headers ...string) *httptest.ResponseRecorder {
	h.t.Helper()
	return send(h.t, h.handler, method, target, "", headers...)
}

func (h *house) get(target, access string) *httptest.ResponseRecorder {
	h.t.Helper()
	return h.call("GET", target, "Authorization", "Bearer "+access)
}

func send(t testing.TB, handler http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, base+target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "request-1")
	handler.ServeHTTP(w, r)
	wantDocumented(t, r, w)
	return w
}

// send sends a body of JSON, or none.
func (h *house) send(method, target, access, body string, headers ...string) *httptest.ResponseRecorder {
	h.t.Helper()
	headers = append(headers, "Authorization", "Bearer "+access)
	if body != "" && !slices.Contains(headers, "Content-Type") {
		headers = append(headers, "Content-Type", "application/json")
	}
	return send(h.t, h.handler, method, target, body, headers...)
}

var itemIDs atomic.Int64

// item is an item as package grantset decides about it, and what else is kept of it.
type item struct {
	org.Item
	Kind, Title, Body, Status string
	CreatedAt, ChangedAt      int64
}

// item puts an item there by nobody's right.
func (h *house) item(i item) item {
	h.t.Helper()
	if i.Organization == "" {
		i.Organization = "nordlys"
	}
	i.ID, i.Kind = fmt.Sprintf("item-%06d", itemIDs.Add(1)), cmp.Or(i.Kind, "note")
	i.Title, i.Status = cmp.Or(i.Title, "Untitled"), cmp.Or(i.Status, "open")
	if r, err := h.store.Role(context.Background(), i.Organization, i.Role); err == nil {
		i.Circle = r.Circle
	}
	i.CreatedAt, i.ChangedAt = h.seconds.Load(), h.seconds.Load()
	err := h.sample.Plant([]sample.Item{{
		ID: i.ID, Organization: i.Organization, Kind: i.Kind, Title: i.Title, Body: i.Body, Status: i.Status,
		Role: i.Role, Person: i.Person, Private: i.Private,
	}})
	if err != nil {
		h.t.Fatal(err)
	}
	return i
}

// stored gives what the sample keeps of an item, with the circle of its role.
func (h *house) stored(i item) (item, error) {
	at, err := sample.Stored(h.sample, i.Organization, i.Kind, i.ID)
	out := item{
		Item: org.Item{ID: at.ID, Organization: at.Organization, Role: at.Role, Person: at.Person, Private: at.Private},
		Kind: at.Kind, Title: at.Title, Body: at.Body, Status: at.Status, CreatedAt: at.CreatedAt, ChangedAt: at.ChangedAt,
	}
	if r, found := h.store.Role(context.Background(), i.Organization, at.Role); found == nil {
		out.Circle = r.Circle
	}
	return out, err
}

func ofRole(role string, private bool) item {
	return item{Item: org.Item{Role: role, Private: private}}
}

func ofPerson(person string) item { return item{Item: org.Item{Person: person}} }

// wantStatus checks status, challenge ("" is none) and what every answer of
// this door has.
func wantStatus(t testing.TB, w *httptest.ResponseRecorder, status int, challenge string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("got %d, want %d: %s", w.Code, status, w.Body)
	}
	var want []string
	if challenge != "" {
		want = []string{challenge}
	}
	if got := w.Header()["Www-Authenticate"]; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("challenge\ngot  %q\nwant %q", got, want)
	}
	h := w.Header()
	if h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Allow-Credentials") != "" || (h.Get("Location") != "") != (status == 201) {
		t.Errorf("headers %v", h)
	}
	if status >= 400 {
		wantError(t, w)
	}
}

func wantError(t testing.TB, w *httptest.ResponseRecorder) {
	t.Helper()
	e := parse[map[string]string](t, w)
	if e["error"] == "" || e["error_description"]+e["reason"] == "" || e["reference"] != "request-1" {
		t.Errorf("error body %s", w.Body)
	}
}

func parse[T any](t testing.TB, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if ct := w.Header().Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type %q", ct)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return v
}
