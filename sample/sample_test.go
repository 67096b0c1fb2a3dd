package sample_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/sample"
	"github.com/grantkeeper/grantkeeper/store"
)

// signed sends a call as Grantkeeper would, of somebody with a key and at a time.
func (h *house) signed(method, target, body string, who identity.Identity, key string, at time.Time) *httptest.ResponseRecorder {
	h.t.Helper()
	headers, err := who.Sign([]byte(key), at)
	if err == nil {
		err = identity.SignCall([]byte(key), headers, identity.Call{Method: method, Target: target, Body: []byte(body)})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(h.t.Context(), method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.sample.ServeHTTP(w, r)
	return w
}

var ada = identity.Identity{Person: "ada", Organization: "nordlys", Grant: "everything", Admin: true, Personal: true}

// What is not signed for this very call, now, with the key, is nobody's.
func TestOnlySignedCallsAreAnswered(t *testing.T) {
	h := newHouse(t)
	if w := h.signed("GET", "/api/v5/people", "", ada, serviceKey, h.Now()); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	plain := httptest.NewRecorder()
	h.sample.ServeHTTP(plain, httptest.NewRequestWithContext(t.Context(), "GET", "/api/v5/people", nil))
	copied := func(method, target, body string) *httptest.ResponseRecorder {
		headers, _ := ada.Sign([]byte(serviceKey), h.Now())
		_ = identity.SignCall([]byte(serviceKey), headers, identity.Call{Method: "GET", Target: "/api/v5/people"})
		r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.sample.ServeHTTP(w, r)
		return w
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"unsigned":          plain,
		"another key":       h.signed("GET", "/api/v5/people", "", ada, gatewayKey, h.Now()),
		"an old one":        h.signed("GET", "/api/v5/people", "", ada, serviceKey, h.Now().Add(-2*time.Minute)),
		"of another path":   copied("GET", "/api/v5/notes", ""),
		"of another method": copied("DELETE", "/api/v5/people", ""),
		"of another body":   copied("GET", "/api/v5/people", "{}"),
		"a preview":         copied("POST", "/grantkeeper/preview", "{}"),
		"MCP":               copied("POST", "/mcp", "{}"),
	} {
		if w.Code != 401 || !strings.Contains(w.Body.String(), `"not_signed"`) || w.Header().Get("WWW-Authenticate") != "" || strings.Contains(w.Body.String(), "Tor") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := h.signed("GET", "/api/v5/me", "", ada, serviceKey, h.Now()); w.Code != 404 { // that is Grantkeeper's
		t.Errorf("me: %d %s", w.Code, w.Body)
	}
}

// Where Grantkeeper does not answer, neither does the service, and says so; what
// it does not understand is in its log alone.
func TestDirectoryIsAway(t *testing.T) {
	key := []byte(serviceKey)
	answers := httptest.NewServer(nil) // 404 at every path: no organization
	for name, c := range map[string]struct {
		at     string
		status int
	}{"nobody": {"http://127.0.0.1:1", 503}, "no organization": {answers.URL, 403}} {
		s, err := sample.New(sample.Options{Key: key, Gateways: c.at, GatewayKey: gatewayKey})
		if err != nil {
			t.Fatal(err)
		}
		h := &house{t: t, sample: s}
		for _, target := range []string{"/api/v5/people", "/api/v5/notes"} {
			w := h.signed("GET", target, "", ada, serviceKey, time.Now())
			if w.Code != c.status || (w.Header().Get("Retry-After") != "") != (c.status == 503) {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		}
		w := h.signed("POST", "/mcp", rpc("create_item", `{"kind":"note","title":"x","personal":true}`), ada, serviceKey, time.Now())
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"isError":true`) {
			t.Errorf("%s, MCP: %d %s", name, w.Code, w.Body)
		}
	}
	answers.Close()
}

// A directory that is known is asked for by its tag, and a role that is deleted
// takes its items along for good.
func TestDirectoryIsKnown(t *testing.T) {
	var asked []string
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("If-None-Match"))
		w.Header().Set("ETag", `"one"`)
		if r.Header.Get("If-None-Match") == `"one"` {
			w.WriteHeader(304)
			return
		}
		io.WriteString(w, `{"organization":{"id":"nordlys","name":"Nordlys"},"people":[{"id":"ada","name":"Ada","admin":true}]}`)
	}))
	defer answers.Close()
	s, err := sample.New(sample.Options{Key: []byte(serviceKey), Gateways: answers.URL, GatewayKey: gatewayKey})
	if err != nil {
		t.Fatal(err)
	}
	known := &house{t: t, sample: s}
	for range 2 {
		if w := known.signed("GET", "/api/v5/people", "", ada, serviceKey, time.Now()); w.Code != 200 || !strings.Contains(w.Body.String(), "Ada") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if want := []string{"", `"one"`}; !slices.Equal(asked, want) {
		t.Errorf("asked with %q, want %q", asked, want)
	}
	h := newHouse(t)
	i := h.item(ofRole("host", false))
	wantStatus(t, h.send("DELETE", "/api/v5/roles/host", h.live("ada", "nordlys", everything).access, ""), 204, "")
	if at, err := h.stored(i); err == nil {
		t.Errorf("still there: %+v", at)
	}
}

// An operator who is faster counts: what was decided before is decided again.
func TestDecidedAgainWhileOthersDecide(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	for n := range 20 {
		done := make(chan error)
		go func() { done <- h.store.SetFiller(t.Context(), "host", "ada", n%2 == 0, store.Act{}) }()
		w := h.send("POST", "/api/v5/circles", x, `{"name":"Sea"}`)
		if err := <-done; err != nil || w.Code != 201 {
			t.Fatalf("%d %s, %v", w.Code, w.Body, err)
		}
	}
	if got := h.page("/api/v5/circles", x); len(got.Items) != 22 {
		t.Errorf("%d circles", len(got.Items))
	}
}

// What is kept in a folder is there again; a line that a crash cut off is not,
// and one that cannot be read stops the start.
func TestItemsAreKept(t *testing.T) {
	folder := t.TempDir()
	open := func() *sample.Server {
		t.Helper()
		s, err := sample.New(sample.Options{Key: []byte(serviceKey), Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	item := func(id, title string) sample.Item {
		return sample.Item{ID: id, Organization: "nordlys", Kind: "note", Title: title, Status: "open", Role: "host"}
	}
	s := open()
	if !s.Fresh() {
		t.Error("not fresh")
	}
	if err := s.Plant([]sample.Item{item("b", "Two"), item("a", "One"), item("c", "Three")}); err != nil {
		t.Fatal(err)
	}
	if err := sample.Remove(s, "nordlys", "note", "c"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	name := filepath.Join(folder, "items.jsonl")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(text, `{"id":"d","title":"`+strings.Repeat("x", 500)...), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s = open()
		for id, want := range map[string]string{"a": "One", "b": "Two", "c": "", "d": ""} {
			if at, err := sample.Stored(s, "nordlys", "note", id); at.Title != want || (err == nil) != (want != "") {
				t.Errorf("%s: %+v, %v", id, at, err)
			}
		}
		if s.Fresh() {
			t.Error("fresh")
		}
		if err := s.Plant([]sample.Item{item("a", "One")}); err != nil { // behind what was cut away
			t.Fatal(err)
		}
		s.Close()
	}
	if err := os.WriteFile(name, []byte("{\n"+string(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sample.New(sample.Options{Key: []byte(serviceKey), Folder: folder}); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a damaged file: %v", err)
	}
}

type previewed struct {
	Sets []map[string]struct {
		Count  int
		Titles []string
	}
}

// Decision V44: a preview counts by the decisions of calls, of what the person
// sees alone.
func TestPreview(t *testing.T) {
	h := newHouse(t)
	for _, i := range []item{ofRole("treasurer", false), ofRole("treasurer", true), ofRole("secretary", false), ofRole("host", true), ofPerson("ada"), ofPerson("tor")} {
		i.Title = "Of " + i.Role + i.Person
		if i.Private {
			i.Title = strings.Repeat("Private ", 20)
		}
		h.item(i)
	}
	tor := identity.Identity{Person: "tor", Organization: "nordlys", Grant: "everything", Personal: true}
	ask := func(who identity.Identity, body string) *httptest.ResponseRecorder {
		return h.signed("POST", "/grantkeeper/preview", body, who, serviceKey, h.Now())
	}
	body := func(person, sets string) string {
		return `{"person":"` + person + `","organization":"nordlys","language":"en","titles":20,"sets":[` + sets + `]}`
	}
	const sets = `{"grant":"roles","authority":"treasurer=change"},{"grant":"roles","authority":"personal,secretary=read"},{"grant":"everything","authority":"admin,personal"},{"grant":"organization","authority":"admin"}`
	w := ask(ada, body("ada", sets))
	var got previewed
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || len(got.Sets) != 4 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for n, want := range []map[string]int{
		{"change": 2, "read": 1, "personal": 0, "not": 2},
		{"change": 0, "read": 3, "personal": 1, "not": 1},
		{"change": 4, "read": 0, "personal": 1, "not": 0},
		{"change": 4, "read": 0, "personal": 0, "not": 1},
	} {
		for what, count := range want {
			if x := got.Sets[n][what]; x.Count != count || len(x.Titles) != count {
				t.Errorf("set %d, %s: %+v, want %d", n, what, x, count)
			}
		}
	}
	if titles := got.Sets[0]["change"].Titles; titles[0] != "Of treasurer" || len(titles[1]) != 100 {
		t.Errorf("titles %q", titles)
	}
	turned := ofRole("treasurer", false)
	turned.Title = "Pay \u202ethe\u2066 host"
	h.item(turned)
	if w := ask(ada, body("ada", sets)); !strings.Contains(w.Body.String(), `"Pay the host"`) {
		t.Errorf("a title that turns the text around: %s", w.Body)
	}
	w = ask(tor, body("tor", `{"grant":"everything","authority":"personal"}`))
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Sets[0]["change"].Count != 1 || got.Sets[0]["read"].Count != 3 ||
		got.Sets[0]["not"].Count != 0 || strings.Contains(w.Body.String(), "ada") {
		t.Errorf("tor: %s", w.Body)
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"another person":       ask(tor, body("ada", sets)),
		"another organization": ask(ada, strings.Replace(body("ada", sets), "nordlys", "fjell", 1)),
		"no set":               ask(ada, body("ada", "")),
		"five":                 ask(ada, body("ada", sets+`,{"grant":"everything","authority":""}`)),
		"an unknown word":      ask(ada, body("ada", `{"grant":"roles","authority":"owner"}`)),
		"an unknown grant":     ask(ada, body("ada", `{"grant":"all","authority":""}`)),
		"not JSON":             ask(ada, "{"),
	} {
		if w.Code != 400 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
