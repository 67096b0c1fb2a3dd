package mcp_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/mcp"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

const base = "https://app.example"

var act = store.Act{Actor: "system"}

// house is the MCP endpoint behind the guard, with Ada and Tor in nordlys.
type house struct {
	t       testing.TB
	store   *store.Store
	ring    *token.Ring
	api     *api.Server
	mcp     http.Handler // without the guard
	handler http.Handler
	log     *lines
	nonces  byte
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

func newHouse(t testing.TB) *house { return newHouseOn(t, "") }

// newHouseOn takes a PostgreSQL database; "" is a file.
func newHouseOn(t testing.TB, database string) *house {
	t.Helper()
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	o := store.Options{URL: database, Ring: ring}
	if database == "" {
		o.Path = filepath.Join(t.TempDir(), "grantkeeper.db")
	}
	s, err := store.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	h := &house{t: t, store: s, ring: ring, log: &lines{}}
	h.fill()
	h.api = &api.Server{
		Store: s, Ring: ring, Service: "Svalinn", Base: func(*http.Request) string { return base },
		Limit: limit.NewNames(limit.Limit{N: 1_000_000, Window: time.Second}),
	}
	h.handler = h.handlerOf(h.api)
	h.mcp = h.api.MCP
	return h
}

// handlerOf puts an endpoint, whose tools ask the given server, behind the
// guard.
func (h *house) handlerOf(tools *api.Server) http.Handler {
	h.api.MCP = (&mcp.Server{API: tools, Service: "Svalinn", Version: "0.1.0", Log: slog.New(slog.NewTextHandler(h.log, nil))}).Handler()
	return h.api.Handler()
}

func (h *house) fill() {
	h.t.Helper()
	err := h.store.AddDirectory(context.Background(), store.Directory{
		People: []store.DirectoryPerson{
			{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada", Active: true}},
			{Person: org.Person{ID: "tor", Email: "tor@nordlys.example", Name: "Tor", Active: true}},
		},
		Organizations: []org.Organization{
			{ID: "nordlys", Name: "Nordlys", AIIntegration: true}, {ID: "fjell", Name: "Fjell", AIIntegration: true},
		},
		Members: []store.DirectoryMember{
			{Person: "ada", Organization: "nordlys", Admin: true}, {Person: "tor", Organization: "nordlys"}, {Person: "ada", Organization: "fjell"},
		},
		Circles: []org.Circle{{ID: "general", Organization: "nordlys", Name: "General"}, {ID: "peak", Organization: "fjell", Name: "Peak"}},
		Roles: []org.Role{
			{ID: "treasurer", Organization: "nordlys", Circle: "general", Name: "Treasurer"},
			{ID: "secretary", Organization: "nordlys", Circle: "general", Name: "Secretary"},
			{ID: "host", Organization: "nordlys", Circle: "general", Name: "Host"},
			{ID: "guide", Organization: "fjell", Circle: "peak", Name: "Guide"},
		},
		Fillers: []store.Filler{
			{Role: "treasurer", Person: "ada"}, {Role: "secretary", Person: "ada"}, {Role: "host", Person: "tor"}, {Role: "guide", Person: "ada"},
		},
	}, act)
	if err != nil {
		h.t.Fatal(err)
	}
	err = h.store.AddClient(context.Background(), client.Client{ID: "client-1", Name: "Helper", RedirectURIs: []string{base}, IssuedAt: h.store.Now().Unix()}, store.Origin{}, act)
	if err != nil {
		h.t.Fatal(err)
	}
}

// live gives the access token of an approval whose code was exchanged.
func (h *house) live(person, organization string, g grantset.Set) string {
	h.t.Helper()
	access, _ := h.lives(person, organization, g)
	return access
}

// lives is live with the approval.
func (h *house) lives(person, organization string, g grantset.Set) (access string, of approval.ID) {
	h.t.Helper()
	const verifier = "a-verifier-of-forty-three-characters-or-more"
	sum := sha256.Sum256([]byte(verifier))
	h.nonces++
	nonce := [16]byte{h.nonces}
	handle, at, err := h.store.Approve(context.Background(), store.Answer{
		Handle: func(attempt uint32) token.Handle {
			handle, _ := h.ring.Handle(1, nonce, attempt)
			return handle
		},
		Client: "client-1", Person: person, Organization: organization, Grant: g,
		RedirectURI: base, Issuer: base, Challenge: base64.RawURLEncoding.EncodeToString(sum[:]),
	}, act)
	if err != nil {
		h.t.Fatal(err)
	}
	now := h.store.Now()
	_, v, err := h.store.Apply(context.Background(), handle.ID(), approval.Exchange("client-1", base, base, verifier, at, 1, now), act)
	if err != nil || v != approval.OK {
		h.t.Fatalf("exchange: %s, %v", v, err)
	}
	return h.ring.Access(handle, 1, now.Add(approval.AccessLifetime).Unix()), handle.ID()
}

func (h *house) post(token, body string) *httptest.ResponseRecorder {
	return postTo(h.handler, token, body)
}

func postTo(handler http.Handler, token, body string) *httptest.ResponseRecorder {
	return send(handler, "POST", "/api/v5/mcp", body, map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
	})
}

// send gives up after ten seconds: a request that hangs must fail, not the run.
func send(handler http.Handler, method, target, body string, headers map[string]string) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, base+target, strings.NewReader(body))
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if ctx.Err() != nil {
		w.Code = http.StatusGatewayTimeout
	}
	return w
}
