package sample_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/api/apitest"
	"github.com/grantkeeper/grantkeeper/gateway"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/sample"
	"github.com/grantkeeper/grantkeeper/store"
)

const (
	base    = apitest.Base
	v5Doc   = base + "/.well-known/oauth-protected-resource/api/v5"
	mcpDoc  = base + "/.well-known/oauth-protected-resource/api/v5/mcp"
	missing = `Bearer realm="Svalinn", resource_metadata="` + v5Doc + `"`
	invalid = missing + `, error="invalid_token"`
)

// house is a real server with the sample behind it, both over HTTP, with demo
// people and a clock that tests move. Ada is an admin of nordlys and a member of
// fjell; Tor is a member of nordlys.
type house struct {
	*apitest.People
	sample  *sample.Server
	log     apitest.Lines
	t       testing.TB
	store   *store.Store
	server  *api.Server
	handler http.Handler
}

const (
	serviceKey = "service-key-0123456789abcdef0123456789abc"
	gatewayKey = "gateway-key-0123456789abcdef0123456789abc"
)

func newHouse(t testing.TB) *house {
	t.Helper()
	return newHouseOf(t, apitest.Demo())
}

func newHouseOf(t testing.TB, d store.Directory) *house {
	t.Helper()
	h := &house{t: t, People: apitest.New(t, d)}
	h.store = h.Store
	h.server = &api.Server{
		Store: h.Store, Ring: h.Ring, Service: "Svalinn",
		Base:  func(*http.Request) string { return base },
		Limit: limit.NewNames(limit.API),
	}
	h.handler = h.behind(t)
	return h
}

// behind puts the sample behind the guard.
func (h *house) behind(t testing.TB) http.Handler {
	t.Helper()
	door := &gateway.Server{
		API: h.server, Base: func(string) string { return base }, Host: func() string { return "app.example" },
		Keys: func() []gateway.Key {
			return []gateway.Key{{Name: "sample", Secret: gatewayKey, Scopes: []gateway.Scope{gateway.Directory, gateway.DirectoryRead}}}
		},
	}
	gateways := httptest.NewServer(door.Handler())
	t.Cleanup(gateways.Close)
	var err error
	h.sample, err = sample.New(sample.Options{
		Key: []byte(serviceKey), Gateways: gateways.URL, GatewayKey: gatewayKey, Service: "Svalinn", Version: "0.1.0",
		Now: h.Now, Log: slog.New(slog.NewTextHandler(&h.log, nil)),
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
	headers, err := identityOf(who).Sign([]byte(serviceKey), h.Now())
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

// tokens are what a client holds of one approval.
type tokens struct{ access string }

var everything, whole, roles = apitest.Everything, apitest.Whole, apitest.Roles

// live gives an approval whose code was exchanged now.
func (h *house) live(person, organization string, g grantset.Set) tokens {
	h.t.Helper()
	return tokens{h.Live(person, organization, g).Access}
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
	r := apitest.Request(method, base+target, body, headers...)
	w := apitest.Answer(handler, r)
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
	i.CreatedAt, i.ChangedAt = h.Seconds.Load(), h.Seconds.Load()
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

var wantStatus = apitest.WantStatus

func parse[T any](t testing.TB, w *httptest.ResponseRecorder) T {
	t.Helper()
	return apitest.Parse[T](t, w)
}
