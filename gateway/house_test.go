package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/api/apitest"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/docs/openapi"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

const (
	base      = apitest.Base
	otherBase = "https://eu.example:8443"

	adaKey = "key-of-ada-for-tests"

	// Secrets of the gateways.
	asks     = "decisions-key-0123456789abcdef0123456789"
	forwards = "forward-key-0123456789abcdef0123456789ab"
	both     = "both-key-0123456789abcdef0123456789abcdef"
)

// house is a server with demo people, gateways and a clock that tests move.
// Ada is an admin of nordlys and fills two roles, Tor is a member.
type house struct {
	*apitest.People
	t       testing.TB
	store   *store.Store
	api     *api.Server
	door    *Server
	handler http.Handler
	keys    []Key
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
	h := &house{t: t, People: apitest.New(t, demo())}
	h.store = h.Store
	h.api = &api.Server{
		Store: h.Store, Ring: h.Ring, Service: "Svalinn",
		Base:  func(r *http.Request) string { return bases(r.Host) },
		Limit: limit.NewNames(limit.API),
	}
	h.keys = []Key{{"asker", asks, []Scope{Decisions}}, {"nginx", forwards, []Scope{ForwardAuth}}, {"both", both, Scopes}}
	h.door = &Server{
		API: h.api, Base: bases, Host: func() string { return "app.example" },
		Keys: func() []Key { return h.keys },
	}
	h.handler = openapi.Read(t, "gateway").Watch(t, h.door.Handler())
	return h
}

func (h *house) now() time.Time { return h.Now() }

func demo() store.Directory {
	return store.Directory{
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
	}
}

// tokens are what a client holds of one approval.
type tokens struct {
	id              approval.ID
	access, refresh string
}

var (
	everything, whole = apitest.Everything, apitest.Whole
	// Ada fills both, and neither is what Tor fills.
	selected = grantset.Set{Kind: grantset.Roles, Personal: true, Picks: []grantset.Pick{{Role: "secretary"}, {Role: "treasurer", Change: true}}}
)

// live gives an approval whose code was exchanged now.
func (h *house) live(person string, g grantset.Set) tokens {
	h.t.Helper()
	x := h.Live(person, "nordlys", g)
	return tokens{id: x.ID, refresh: x.Refresh, access: x.Access}
}

// send sends a request to a handler; headers are names and values in turn.
func send(t testing.TB, handler http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	return apitest.Answer(handler, apitest.Request(method, target, body, headers...))
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
	return apitest.Parse[T](t, w)
}

// quoted is a string in JSON.
func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
