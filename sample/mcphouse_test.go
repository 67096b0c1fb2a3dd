package sample_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api/apitest"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
)

var act = store.Act{Actor: "system"}

// mcpHouse is a house whose people are asked for through MCP.
type mcpHouse struct{ *house }

func newMCPHouse(t testing.TB) *mcpHouse {
	t.Helper()
	d := apitest.Demo() // and without Siv, keys and a circle in a circle
	d.People, d.Members, d.APIKeys = d.People[:2], d.Members[:3], nil
	d.People[0].Name, d.Roles[0].Circle, d.Circles = "Ada", "general", slices.Delete(d.Circles, 1, 2)
	h := &mcpHouse{newHouseOf(t, d)}
	h.server.Limit = limit.NewNames(limit.Limit{N: 1_000_000, Window: time.Second})
	return h
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

// post gives up after a minute: a request that hangs must fail, not the run.
func post(handler http.Handler, method, target, body string, headers map[string]string) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
