package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
)

// Decision P4: a service without personal items is told of none.
func TestServiceWithoutPersonalItems(t *testing.T) {
	for _, has := range []bool{true, false} {
		l := good(t)
		l.Service.PersonalItems = has
		checked, err := l.Check()
		if err != nil {
			t.Fatal(err)
		}
		h := &house{Checked: checked, log: slog.New(slog.DiscardHandler), metrics: newMetrics(time.Now)}
		if h.store, err = openStore(t.Context(), checked, "", time.Now, h.log, h.metrics); err != nil {
			t.Fatal(err)
		}
		defer h.store.Close()
		demo := demoDirectory("hash")
		if err := h.store.AddDirectory(t.Context(), demo, store.Act{}); err != nil {
			t.Fatal(err)
		}
		w := get(h.public(), "https://app.example/api/v5/me", func(r *http.Request) { r.Header.Set("X-Auth-Token", demo.APIKeys[0].Key) })
		if strings.Contains(w.Body.String(), `"personal_items":true`) != has || h.page.NoPersonal == has {
			t.Errorf("personal_items = %t: %s, and pages without them: %t", has, w.Body, h.page.NoPersonal)
		}
	}
}

// What is configured reaches the rooms that it is for.
func TestHouseIsWiredAsConfigured(t *testing.T) {
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
	h := &house{Checked: checked, log: slog.New(slog.DiscardHandler), metrics: newMetrics(time.Now)}
	if h.store, err = openStore(ctx, checked, "", now, h.log, h.metrics); err != nil {
		t.Fatal(err)
	}
	defer h.store.Close()
	demo := demoDirectory("hash")
	if err := h.store.AddDirectory(ctx, demo, store.Act{}); err != nil {
		t.Fatal(err)
	}
	public := h.public()
	for i, want := range []int{200, 200, 429} {
		w := get(public, "https://app.example/api/v5/me", func(r *http.Request) { r.Header.Set("X-Auth-Token", demo.APIKeys[0].Key) })
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
	for path, want := range map[string]int{
		"/": 303, "/signin": 200, "/oauth/authorize": 400, "/oauth/token": 405, "/oauth/anything": 404, "/.well-known/anything": 404, "/api": 404, "/api/v5": 401,
		"/dev/client": 404, "/v1/people": 404, "/livez": 404, "/anything": 404,
	} {
		if w := get(public, "https://app.example"+path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
