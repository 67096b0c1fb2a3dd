package gateway

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/store"
)

const reads = "reading-key-0123456789abcdef0123456789ab"

// newReader is a teller whose service also reads the directory.
func newReader(t testing.TB) *house {
	h := newTeller(t)
	h.keys = append(h.keys, Key{"sample", reads, []Scope{DirectoryRead}})
	return h
}

func (h *house) directory(query string, headers ...string) *httptest.ResponseRecorder {
	h.t.Helper()
	return send(h.t, h.handler, "GET", "/v1/directory"+query, "", append([]string{"X-Gateway-Key", reads}, headers...)...)
}

const nordlys = "?organization=nordlys"

// Decision V41: a service gets all that it decides by, and nothing of how people
// sign in; whoever is not active is not there.
func TestDirectoryIsRead(t *testing.T) {
	h := newReader(t)
	const want = `{"organization":{"id":"nordlys","name":"Nordlys"},` +
		`"people":[{"id":"ada","name":"Ada","admin":true},{"id":"tor","name":"Tor","admin":false}],` +
		`"circles":[{"id":"general","name":"General"}],` +
		`"roles":[{"id":"host","name":"Host","circle":"general","fillers":["tor"]},` +
		`{"id":"secretary","name":"Secretary","circle":"general","fillers":["ada"]},` +
		`{"id":"treasurer","name":"Treasurer","circle":"general","fillers":["ada"]}]}` + "\n"
	w := h.directory(nordlys)
	if w.Code != 200 || w.Body.String() != want || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v\n%s", w.Code, w.Header(), w.Body)
	}
	if err := h.store.SetActive(context.Background(), "tor", false, store.Act{}); err != nil {
		t.Fatal(err)
	}
	if got := h.directory(nordlys).Body.String(); strings.Contains(got, "tor") || !strings.Contains(got, `"fillers":[]`) {
		t.Errorf("tor is not active: %s", got)
	}
}

// The ETag is the same until a fact that the answer has changes, by whomever.
func TestDirectoryHasATag(t *testing.T) {
	h := newReader(t)
	tag := h.directory(nordlys).Header().Get("Etag")
	for _, sent := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
		if w := h.directory(nordlys, "If-None-Match", sent); w.Code != 304 || w.Body.Len() != 0 || w.Header().Get("Etag") != tag {
			t.Errorf("If-None-Match %s: %d %s", sent, w.Code, w.Body)
		}
	}
	if w := h.directory(nordlys, "If-None-Match", `"other"`); w.Code != 200 {
		t.Errorf("another tag: %d", w.Code)
	}
	act := store.Act{Actor: "operator"}
	for name, change := range map[string]func() error{
		"filler": func() error { return h.store.SetFiller(context.Background(), "host", "ada", true, act) },
		"admin":  func() error { return h.store.SetMember(context.Background(), "nordlys", "tor", true, act) },
		"member": func() error { return h.store.RemoveMember(context.Background(), "nordlys", "tor", act) },
	} {
		was := h.directory(nordlys).Header().Get("Etag")
		if err := change(); err != nil {
			t.Fatal(name, err)
		}
		if w := h.directory(nordlys, "If-None-Match", was); w.Code != 200 || w.Header().Get("Etag") == was {
			t.Errorf("after a change of a %s: %d", name, w.Code)
		}
	}
}

// Who may not ask, and what is not asked rightly, is told so and gets nothing.
func TestDirectoryIsRefused(t *testing.T) {
	h := newReader(t)
	for name, tt := range map[string]struct {
		w      *httptest.ResponseRecorder
		status int
		code   string
	}{
		"no key":          {send(t, h.handler, "GET", "/v1/directory"+nordlys, ""), 403, "gateway_key_refused"},
		"another scope":   {send(t, h.handler, "GET", "/v1/directory"+nordlys, "", "X-Gateway-Key", tells), 403, "gateway_key_refused"},
		"no organization": {h.directory(""), 400, "invalid_request"},
		"two":             {h.directory(nordlys + "&organization=fjell"), 400, "invalid_request"},
		"more":            {h.directory(nordlys + "&limit=1"), 400, "invalid_request"},
		"not an ID":       {h.directory("?organization=a/b"), 400, "invalid_request"},
		"not a query":     {h.directory(nordlys + "&%zz"), 400, "invalid_request"},
		"unknown":         {h.directory("?organization=fjell"), 404, "not_found"},
		"another method":  {send(t, h.handler, "POST", "/v1/directory"+nordlys, "", "X-Gateway-Key", reads), 405, "method_not_allowed"},
	} {
		if f := parse[api.Fault](t, tt.w); tt.w.Code != tt.status || f.Code != tt.code || tt.w.Header().Get("Etag") != "" {
			t.Errorf("%s: %d %s", name, tt.w.Code, tt.w.Body)
		}
	}
}

// Decision V42: an event of a service that decided by the directory is taken only
// while that is as it was read, and then is the next of its object.
func TestEventOnlyIfTheDirectoryIsTheSame(t *testing.T) {
	h := newReader(t)
	tag := func() string { return strings.Trim(h.directory(nordlys).Header().Get("Etag"), `"`) }
	event := func(id, kind, object, like string) string {
		return fmt.Sprintf(`{"id":%q,"kind":%q,"object":%s,"if_match":%q}`, id, kind, object, like)
	}
	first := tag()
	for i, tt := range []struct{ kind, object string }{
		{"organization", `{"id":"nordlys","name":"Nordlys 2"}`},
		{"circle", `{"id":"inner","organization":"nordlys","parent":"general","name":"Inner"}`},
		{"role", `{"id":"keys","organization":"nordlys","circle":"inner","name":"Keys"}`},
		{"filler", `{"role":"keys","person":"tor"}`},
		{"membership", `{"organization":"nordlys","person":"tor","admin":true}`},
		{"filler_removed", `{"role":"keys","person":"tor"}`},
		{"role_removed", `{"id":"keys"}`},
		{"circle_removed", `{"id":"inner"}`},
		{"membership_removed", `{"organization":"nordlys","person":"tor"}`},
	} {
		body := event(fmt.Sprint("late-", i), tt.kind, tt.object, "another")
		if w := h.tell(body, tells, h.now()); w.Code != 412 || parse[api.Fault](t, w).Code != "directory_changed" {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
		body = event(fmt.Sprint("now-", i), tt.kind, tt.object, tag())
		for range 2 { // twice is once, though the first has changed the directory
			if got := h.told(body); got.Result != "applied" {
				t.Errorf("%s: %+v", body, got)
			}
		}
	}
	if w := h.tell(event("old", "organization", `{"id":"nordlys","name":"N"}`, first), tells, h.now()); w.Code != 412 {
		t.Errorf("by the first directory: %d %s", w.Code, w.Body)
	}
	w := h.tell(event("person", "person_removed", `{"id":"tor"}`, tag()), tells, h.now())
	if f := parse[api.Fault](t, w); w.Code != 400 || f.Code != "invalid_event" || !strings.Contains(f.Description, "if_match") {
		t.Errorf("of a person: %d %s", w.Code, w.Body)
	}
}
