package api_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/api/apitest"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

const (
	base    = apitest.Base
	v5Doc   = base + "/.well-known/oauth-protected-resource/api/v5"
	mcpDoc  = base + "/.well-known/oauth-protected-resource/api/v5/mcp"
	missing = `Bearer realm="Svalinn", resource_metadata="` + v5Doc + `"`
	invalid = missing + `, error="invalid_token"`
)

// house is a whole server with demo people and a clock that tests move. Ada is
// an admin of nordlys and a member of fjell; Tor is a member of nordlys.
type house struct {
	*apitest.People
	t       testing.TB
	store   *store.Store
	ring    *token.Ring
	server  *api.Server
	handler http.Handler
}

func newHouse(t testing.TB) *house {
	t.Helper()
	return serve(t, apitest.New(t, apitest.Demo()))
}

// serve gives people their server.
func serve(t testing.TB, p *apitest.People) *house {
	h := &house{People: p, t: t, store: p.Store, ring: p.Ring, server: &api.Server{
		Store: p.Store, Ring: p.Ring, Service: "Svalinn",
		Base:  func(*http.Request) string { return base },
		Limit: limit.NewNames(limit.API),
	}}
	h.handler = h.server.Handler()
	return h
}

// tokens are what a client holds of one approval.
type tokens struct {
	id                    approval.ID
	handle                token.Handle
	access, refresh, code string
}

func held(x apitest.Tokens) tokens { return tokens{x.ID, x.Handle, x.Access, x.Refresh, x.Code} }

var everything, whole, roles = apitest.Everything, apitest.Whole, apitest.Roles

// issued gives an approval whose code waits.
func (h *house) issued(person, organization string, g grantset.Set) tokens {
	h.t.Helper()
	return held(h.Issued(person, organization, g))
}

// live gives an approval whose code was exchanged now.
func (h *house) live(person, organization string, g grantset.Set) tokens {
	h.t.Helper()
	return held(h.Live(person, organization, g))
}

// refreshed gives the tokens of the next generation.
func (h *house) refreshed(x tokens, generation int64) tokens {
	h.t.Helper()
	now := h.store.Now()
	h.Move(x.id, approval.Refresh(apitest.Client, generation-1, 1, now))
	x.access = h.ring.Access(x.handle, generation, now.Add(approval.AccessLifetime).Unix())
	x.refresh = h.ring.Refresh(x.handle, generation)
	return x
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
	return apitest.Answer(handler, apitest.Request(method, base+target, body, headers...))
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

var wantStatus = apitest.WantStatus

func parse[T any](t testing.TB, w *httptest.ResponseRecorder) T {
	t.Helper()
	return apitest.Parse[T](t, w)
}
