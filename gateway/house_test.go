package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/docs/openapi"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

const (
	base      = "https://app.example"
	otherBase = "https://eu.example:8443"

	verifier = "a-verifier-of-forty-three-characters-or-more"
	callback = "https://client.example/callback"

	adaKey = "key-of-ada-for-tests"

	// Secrets of the gateways.
	asks     = "decisions-key-0123456789abcdef0123456789"
	forwards = "forward-key-0123456789abcdef0123456789ab"
	both     = "both-key-0123456789abcdef0123456789abcdef"
)

// house is a server with demo people, gateways and a clock that tests move.
// Ada is an admin of nordlys and fills two roles, Tor is a member.
type house struct {
	t       testing.TB
	store   *store.Store
	ring    *token.Ring
	api     *api.Server
	door    *Server
	handler http.Handler
	keys    []Key
	seconds atomic.Int64 // Unix
	nonces  byte
}

func bases(host string) string {
	switch strings.ToLower(host) {
	case "app.example", "app.example:443":
		return base
	case "eu.example:8443":
		return otherBase
	}
	return ""
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{t: t}
	h.seconds.Store(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).Unix())
	var err error
	if h.ring, err = token.NewRing("sv", 1, token.NewKey(1, [32]byte{1})); err != nil {
		t.Fatal(err)
	}
	h.store, err = store.Open(context.Background(), store.Options{
		Path: filepath.Join(t.TempDir(), "grantkeeper.db"), Ring: h.ring, Now: func() time.Time { return h.now() },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.store.Close() })
	h.fill()
	h.api = &api.Server{
		Store: h.store, Ring: h.ring, Service: "Svalinn",
		Base:  func(r *http.Request) string { return bases(r.Host) },
		Limit: limit.NewNames(limit.API),
	}
	h.keys = []Key{{"asker", asks, []Scope{Decisions}}, {"nginx", forwards, []Scope{ForwardAuth}}, {"both", both, Scopes}}
	h.door = &Server{
		API: h.api, Base: bases, Host: "app.example",
		Keys: func() []Key { return h.keys },
	}
	h.handler = openapi.Read(t, "gateway").Watch(t, h.door.Handler())
	return h
}

func (h *house) now() time.Time { return time.Unix(h.seconds.Load(), 0) }

func (h *house) pass(d time.Duration) { h.seconds.Add(int64(d / time.Second)) }

func (h *house) fill() {
	h.t.Helper()
	err := h.store.AddDirectory(context.Background(), store.Directory{
		People: []store.DirectoryPerson{
			{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada", Active: true}},
			{Person: org.Person{ID: "tor", Email: "tor@nordlys.example", Name: "Tor", Active: true}},
		},
		Organizations: []org.Organization{{ID: "nordlys", Name: "Nordlys", AIIntegration: true}},
		Members: []store.DirectoryMember{
			{Person: "ada", Organization: "nordlys", Admin: true}, {Person: "tor", Organization: "nordlys"},
		},
		Circles: []org.Circle{{ID: "general", Organization: "nordlys", Name: "General"}},
		Roles: []org.Role{
			{ID: "treasurer", Organization: "nordlys", Circle: "general", Name: "Treasurer"},
			{ID: "secretary", Organization: "nordlys", Circle: "general", Name: "Secretary"},
			{ID: "host", Organization: "nordlys", Circle: "general", Name: "Host"},
		},
		Fillers: []store.Filler{{Role: "treasurer", Person: "ada"}, {Role: "secretary", Person: "ada"}, {Role: "host", Person: "tor"}},
		APIKeys: []store.DirectoryAPIKey{{Key: adaKey, Person: "ada", Organization: "nordlys", Name: "script"}},
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

// tokens are what a client holds of one approval.
type tokens struct {
	id              approval.ID
	access, refresh string
}

var (
	everything = grantset.Set{Kind: grantset.Everything}
	whole      = grantset.Set{Kind: grantset.Organization}
	// Ada fills both, and neither is what Tor fills.
	selected = grantset.Set{Kind: grantset.Roles, Personal: true, Picks: []grantset.Pick{{Role: "secretary"}, {Role: "treasurer", Change: true}}}
)

// live gives an approval whose code was exchanged now.
func (h *house) live(person string, g grantset.Set) tokens {
	h.t.Helper()
	h.nonces++
	nonce := [16]byte{h.nonces}
	sum := sha256.Sum256([]byte(verifier))
	handle, _, err := h.store.Approve(context.Background(), store.Answer{
		Handle: func(attempt uint32) token.Handle {
			handle, _ := h.ring.Handle(1, nonce, attempt)
			return handle
		},
		Client: "client-1", Person: person, Organization: "nordlys", Grant: g,
		RedirectURI: callback, Issuer: base, Challenge: base64.RawURLEncoding.EncodeToString(sum[:]),
	}, store.Act{Actor: "person:" + person})
	if err != nil {
		h.t.Fatal(err)
	}
	h.move(handle.ID(), approval.Exchange("client-1", base, callback, verifier, h.now().Unix(), 1, h.now()))
	return tokens{
		id: handle.ID(), refresh: h.ring.Refresh(handle, 1),
		access: h.ring.Access(handle, 1, h.now().Add(approval.AccessLifetime).Unix()),
	}
}

func (h *house) move(id approval.ID, m approval.Move) {
	h.t.Helper()
	_, v, err := h.store.Apply(context.Background(), id, m, store.Act{Actor: "client:client-1"})
	if err != nil || v != approval.OK {
		h.t.Fatalf("move: %s, %v", v, err)
	}
}

// send sends a request to a handler; headers are names and values in turn.
func send(t testing.TB, handler http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "request-1")
	handler.ServeHTTP(w, r)
	return w
}

// ask asks for a decision, as a gateway that may.
func (h *house) ask(body string) *httptest.ResponseRecorder {
	h.t.Helper()
	return send(h.t, h.handler, "POST", "/v1/decisions", body, "X-Gateway-Key", asks, "Content-Type", "application/json")
}

// decided reads the answer to ask.
func (h *house) decided(body string) decision {
	h.t.Helper()
	w := h.ask(body)
	if w.Code != 200 {
		h.t.Fatalf("%s: %d %s", body, w.Code, w.Body)
	}
	return parse[decision](h.t, w)
}

// forward asks as a proxy does, which holds the key and passes headers on.
func (h *house) forward(headers ...string) *httptest.ResponseRecorder {
	h.t.Helper()
	return send(h.t, h.handler, "GET", "/v1/forward-auth", "", append([]string{"X-Gateway-Key", forwards}, headers...)...)
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

// quoted is a string in JSON.
func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
