package sample_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

var act = store.Act{Actor: "system"}

// mcpHouse is a house whose people are asked for through MCP.
type mcpHouse struct{ *house }

func newMCPHouse(t testing.TB) *mcpHouse {
	t.Helper()
	h := &mcpHouse{newEmptyHouse(t)}
	h.server.Limit = limit.NewNames(limit.Limit{N: 1_000_000, Window: time.Second})
	h.fill()
	return h
}

func (h *mcpHouse) fill() {
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
func (h *mcpHouse) live(person, organization string, g grantset.Set) string {
	h.t.Helper()
	return h.house.live(person, organization, g).access
}

func (h *mcpHouse) item(i item) item {
	h.t.Helper()
	i.Title = "Sealed " + i.Role + i.Person
	return h.house.item(i)
}

func (h *mcpHouse) post(token, body string) *httptest.ResponseRecorder {
	return post(h.handler, "POST", "/api/v5/mcp", body, map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
	})
}

// post gives up after ten seconds: a request that hangs must fail, not the run.
func post(handler http.Handler, method, target, body string, headers map[string]string) *httptest.ResponseRecorder {
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
