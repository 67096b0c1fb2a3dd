package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/api/apitest"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// pair gives two nodes on one database, of which the second may accept by what
// was an hour ago.
func pair(t *testing.T) (pg *pgtest.Server, first, lax *house) {
	t.Helper()
	pg, err := pgtest.Start()
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	t.Cleanup(func() { pg.Stop() })
	name, err := pg.Database()
	if err != nil {
		t.Fatal(err)
	}
	one, other := &apitest.People{}, &apitest.People{}
	one.Open(t, store.Options{URL: pg.URL(name)})
	one.Fill(apitest.Demo())
	other.Open(t, store.Options{URL: pg.URL(name), MaxStaleness: time.Hour})
	return pg, serve(t, one), serve(t, other)
}

// remembers has a node answer a call, so that it could accept the next by memory.
func (h *house) remembers(x tokens, key string) {
	h.t.Helper()
	for _, call := range [][]string{{"Authorization", "Bearer " + x.access}, {"X-Auth-Token", key}} {
		if w := h.call("GET", "/api/v5/me", call...); w.Code != 200 {
			h.t.Fatal(w.Code, w.Body)
		}
	}
	a, err := h.store.Check(context.Background(), x.id)
	k, keyErr := h.store.CheckAPIKey(context.Background(), store.IdentifyAPIKey(key))
	if err != nil || keyErr != nil || !a.Remembered || !k.Remembered {
		h.t.Fatal("not remembered", err, keyErr)
	}
}

// Within the bound on staleness a node accepts what was, and refuses nothing that
// another has acknowledged: neither itself nor by what it tells a service, which
// cannot ask again.
func TestStalenessRefusesNothing(t *testing.T) {
	ctx := t.Context()
	_, first, lax := pair(t)
	const key, newKey = "key-of-tor-for-tests", "new-key-of-tor-for-tests"
	x := first.live("tor", "nordlys", everything)
	give := func(role string) func() error {
		return func() error { return first.store.SetFiller(ctx, role, "tor", true, store.Act{}) }
	}
	add := func(d store.Directory) func() error {
		return func() error { return first.store.AddDirectory(ctx, d, store.Act{}) }
	}
	change := func(name string, do func() error) {
		t.Helper()
		lax.remembers(x, key)
		if err := do(); err != nil {
			t.Fatal(name, err)
		}
	}
	for _, c := range [][]string{{"Authorization", "Bearer " + x.access}, {"X-Auth-Token", key}} {
		const role = "treasurer" // the only one of its circle
		if err := first.store.SetFiller(ctx, role, "tor", false, store.Act{}); err != nil {
			t.Fatal(err)
		}
		for way := range lax.ways() {
			if err := first.store.SetFiller(ctx, role, "tor", false, store.Act{}); err != nil {
				t.Fatal(err)
			}
			change("role given again", give(role))
			if w, now := lax.told(way, c...); w.Code != 200 || now.Acts(role) != "change" {
				t.Errorf("%s, %s: told %d %s %q", c[0], way, w.Code, w.Body, now.Acts(role))
			}
		}
	}
	if w := lax.call("GET", "/api/v5/me", "X-Auth-Token", newKey); w.Code != 401 {
		t.Errorf("a key that there is not: %d", w.Code)
	}
	change("API key", add(store.Directory{APIKeys: []store.DirectoryAPIKey{{Key: newKey, Person: "tor", Organization: "nordlys", Name: "script"}}}))
	if w := lax.call("GET", "/api/v5/me", "X-Auth-Token", newKey); w.Code != 200 {
		t.Errorf("a new API key: got %d %s", w.Code, w.Body)
	}
}

// What a service is told is not what was: a credential that has ended is refused,
// and without the database nothing is told, although the node itself may still
// accept the credential.
func TestNobodyIsToldWhatWas(t *testing.T) {
	ctx := t.Context()
	pg, first, lax := pair(t)
	for n, name := range []string{"Authorization", "X-Auth-Token"} {
		for way := range lax.ways() {
			key := fmt.Sprint("key-of-tor-for-", way, n)
			d := store.Directory{APIKeys: []store.DirectoryAPIKey{{Key: key, Person: "tor", Organization: "nordlys", Name: "script"}}}
			if err := errors.Join(first.store.SetMember(ctx, "nordlys", "tor", false, store.Act{}), first.store.AddDirectory(ctx, d, store.Act{})); err != nil {
				t.Fatal(err)
			}
			x := first.live("tor", "nordlys", everything)
			lax.remembers(x, key)
			if err := first.store.RemoveMember(ctx, "nordlys", "tor", store.Act{}); err != nil {
				t.Fatal(err)
			}
			w, now := lax.told(way, name, []string{"Bearer " + x.access, key}[n])
			wantStatus(t, w, 401, invalid)
			if now.Person != "" {
				t.Errorf("%s, %s: told of %s", name, way, now.Person)
			}
		}
	}
	x, key := first.live("ada", "nordlys", everything), "key-of-ada-for-tests"
	lax.remembers(x, key)
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	for n, name := range []string{"Authorization", "X-Auth-Token"} {
		value := []string{"Bearer " + x.access, key}[n]
		for way := range lax.ways() {
			w, _ := lax.told(way, name, value)
			wantStatus(t, w, 503, "")
		}
		if w := lax.call("GET", "/api/v5/me", name, value); w.Code != 200 {
			t.Errorf("%s: within the bound %d %s", name, w.Code, w.Body)
		}
	}
}

// ways are how somebody else is told what a request may do.
func (h *house) ways() map[string]func(http.ResponseWriter, *http.Request) (api.Rights, bool) {
	return map[string]func(http.ResponseWriter, *http.Request) (api.Rights, bool){
		"decision": h.server.Decide,
		"guard": func(w http.ResponseWriter, r *http.Request) (now api.Rights, ok bool) {
			h.server.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { now, ok = h.server.Whole(w, r, 0) })).ServeHTTP(w, r)
			return now, ok
		},
	}
}

// told asks in one of these ways, without a body.
func (h *house) told(way string, headers ...string) (*httptest.ResponseRecorder, api.Rights) {
	h.t.Helper()
	r := httptest.NewRequest("DELETE", base+"/api/v5/elsewhere", http.NoBody)
	r.Header.Set(headers[0], headers[1])
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "request-1")
	now, ok := h.ways()[way](w, r)
	if ok != (w.Code == 200) {
		h.t.Errorf("%s: %t, and answered %d", way, ok, w.Code)
	}
	return w, now
}
