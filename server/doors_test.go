package server

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/consent"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/orgadmin"
	"github.com/grantkeeper/grantkeeper/store"
)

// adasKey is an API key of ada, the one person of withAda, in nordlys.
const adasKey = "a-key-of-ada-for-tests"

// withAda is a server of a configuration in memory, which does not listen.
func withAda(t *testing.T, c config.Checked, o Options) *Server {
	t.Helper()
	c.Path = ""
	s := newServer(c, o)
	if err := s.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.store.Close() })
	addAda(t, s)
	return s
}

// addAda adds ada, and nordlys with what she has there.
func addAda(t *testing.T, s *Server) {
	t.Helper()
	d := store.Directory{
		People:        []store.DirectoryPerson{{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada Aasen", Active: true}}},
		Organizations: []org.Organization{{ID: "nordlys", Name: "Nordlys", AIIntegration: true}},
		Members:       []store.DirectoryMember{{Person: "ada", Organization: "nordlys", Admin: true}},
		APIKeys:       []store.DirectoryAPIKey{{Key: adasKey, Person: "ada", Organization: "nordlys", Name: "x"}},
	}
	for circle, roles := range map[string]map[string]string{
		"anchor":   {"nordlys-circle-rep-product": "Circle Rep: Product", "nordlys-facilitator": "Facilitator", "nordlys-treasurer": "Treasurer"},
		"people":   {"nordlys-people-buddy": "Buddy", "nordlys-people-workspace-host": "Workspace Host"},
		"platform": {"nordlys-platform-api-documentation": "API Documentation"},
		"product":  {"nordlys-product-customer-interviews": "Customer Interviews", "nordlys-product-roadmap-steward": "Roadmap Steward"},
		"releases": {"nordlys-releases-release-captain": "Release Captain"},
	} {
		d.Circles = append(d.Circles, org.Circle{ID: "nordlys-" + circle, Organization: "nordlys", Name: circle})
		for id, name := range roles {
			d.Roles = append(d.Roles, org.Role{ID: id, Organization: "nordlys", Circle: "nordlys-" + circle, Name: name})
			d.Fillers = append(d.Fillers, store.Filler{Role: id, Person: "ada"})
		}
	}
	if err := s.store.AddDirectory(t.Context(), d, store.Act{}); err != nil {
		t.Fatal(err)
	}
}

// Decision P4: a service without personal items is told of none.
func TestServiceWithoutPersonalItems(t *testing.T) {
	for _, has := range []bool{true, false} {
		l := good(t)
		l.Service.PersonalItems = has
		checked, err := l.Check()
		if err != nil {
			t.Fatal(err)
		}
		h := withAda(t, checked, Options{})
		w := get(h.public(), "https://app.example/api/v5/me", func(r *http.Request) { r.Header.Set("X-Auth-Token", adasKey) })
		if strings.Contains(w.Body.String(), `"personal_items":true`) != has || h.page.NoPersonal == has {
			t.Errorf("personal_items = %t: %s, and pages without them: %t", has, w.Body, h.page.NoPersonal)
		}
	}
}

// What is configured reaches the rooms that it is for.
func TestServerIsWiredAsConfigured(t *testing.T) {
	l := good(t)
	l.API.RateLimit = config.Rate{Limit: limit.Limit{N: 2, Window: time.Minute}}
	l.API.Limits = []config.APILimit{{Organization: "fjell", Rate: config.Rate{Limit: limit.Limit{N: 3, Window: time.Minute}}}}
	l.Session = config.Session{Idle: config.Duration(2 * time.Minute), Max: config.Duration(150 * time.Second)}
	checked, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	var later atomic.Int64
	now := func() time.Time { return time.Unix(1_800_000_000+later.Load(), 0) }
	ctx := context.Background()
	h := withAda(t, checked, Options{Now: now})
	public := h.public()
	for i, want := range []int{200, 200, 429} {
		w := get(public, "https://app.example/api/v5/me", func(r *http.Request) { r.Header.Set("X-Auth-Token", adasKey) })
		if w.Code != want {
			t.Errorf("call %d: %d, want %d", i+1, w.Code, want)
		}
	}
	if of, _ := h.calls.Left("fjell"); of.N != 3 {
		t.Errorf("Fjell has %d calls, want its own 3", of.N)
	}
	if err := h.store.Enter(ctx, store.Entry{Value: "cookie", Person: "ada"}, store.Act{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		at    int64
		stand bool
	}{{100, true}, {149, true}, {150, false}} {
		later.Store(tt.at)
		if _, err := h.store.Session(ctx, "cookie"); (err == nil) != tt.stand || err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("session after %d s: %v", tt.at, err)
		}
		if err := h.store.Ready(ctx); err != nil { // after the session's last sight is written
			t.Fatal(err)
		}
	}
	if err := h.store.Enter(ctx, store.Entry{Value: "another", Person: "ada"}, store.Act{}); err != nil {
		t.Fatal(err)
	}
	later.Store(150 + 120)
	if _, err := h.store.Session(ctx, "another"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an idle session: %v", err)
	}
	if w := get(public, "https://app.example/api"); w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("/api is not answered by the API: %v", w.Header())
	}
	// What the gate answers by itself has the headers of a page.
	page, gates := get(public, "https://app.example/signin").Header(), map[string]http.Header{
		"a refused host": get(public, "https://evil.example/signin").Header(),
		"a panic": get(&Gate{Next: nil, Base: h.Hosts.Base, Address: limit.Proxies{}.ClientAddr, Log: h.log},
			"https://app.example/signin", func(r *http.Request) { r.Header.Set("Accept", "text/html") }).Header(),
	}
	for _, name := range []string{
		"Content-Security-Policy", "X-Frame-Options", "Referrer-Policy", "X-Content-Type-Options", "Cache-Control", "X-Robots-Tag", "Vary",
	} {
		for of, got := range gates {
			if want := page.Get(name); want == "" || got.Get(name) != want {
				t.Errorf("%s of %s: %q, want %q", name, of, got.Get(name), want)
			}
		}
	}
	// Every page is where its door is, and no other door answers for it.
	for _, pattern := range slices.Concat(consent.Patterns(), orgadmin.Patterns()) {
		method, path, _ := strings.Cut(pattern, " ")
		if strings.HasPrefix(path, client.DesktopPath) { // off here
			continue
		}
		path = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "x")
		w := get(public, "https://app.example"+path, func(r *http.Request) { r.Method = method })
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			t.Errorf("%s is not answered as a page: %d %s", pattern, w.Code, w.Body)
		}
	}
	for path, want := range map[string]int{
		"/": 303, "/signin": 200, "/oauth/authorize": 400, "/oauth/token": 405, "/oauth/anything": 404, "/.well-known/anything": 404, "/api": 404, "/api/v5": 401,
		"/dev/client": 404, "/v1/people": 404, "/livez": 404, "/anything": 404,
	} {
		if w := get(public, "https://app.example"+path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
