package sample_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/sample"
	"github.com/grantkeeper/grantkeeper/store"
)

func TestItemFromFirstToLast(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	for _, kind := range sample.Kinds {
		list := "/api/v5/" + kind + "s"
		w := h.send("POST", list, x, `{"title":"Budget","body":"Ask Tor.\n","role":"treasurer","private":true}`)
		wantStatus(t, w, 201, "")
		made := parse[sample.ItemView](t, w)
		at := w.Header().Get("Location")
		now := h.Seconds.Load()
		want := sample.View(sample.ItemHead{
			ID: made.ID, Kind: kind, Title: "Budget", Status: "open", Role: "treasurer", Circle: "money",
			Private: true, Access: "change", CreatedAt: now, ChangedAt: now,
		}, "Ask Tor.\n")
		if made != want || at != list+"/"+made.ID || made.ID == "" {
			t.Errorf("got %+v at %s, want %+v", made, at, want)
		}
		read := h.get(at, x)
		if read.Body.String() != w.Body.String() || read.Header().Get("ETag") != w.Header().Get("ETag") {
			t.Errorf("read %s, made %s", read.Body, w.Body)
		}
		h.Pass(60e9)
		w = h.send("PATCH", at, x, `{"title":"Budget 2027","status":"done"}`, "Content-Type", "application/merge-patch+json")
		wantStatus(t, w, 200, "")
		want.Title, want.Status, want.ChangedAt = "Budget 2027", "done", now+60
		if got := parse[sample.ItemView](t, w); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		h.Pass(60e9)
		if got := parse[sample.ItemView](t, h.send("PATCH", at, x, `{"title":"Budget 2027"}`)); got != want {
			t.Errorf("what was so already has changed it: %+v, want %+v", got, want)
		}
		if got := parse[sample.ItemView](t, h.send("PATCH", at, x, `{"body":null}`)); got.Body != "" || got.Title != want.Title {
			t.Errorf("got %+v, want no body", got)
		}
		if got := parse[sample.ItemView](t, h.send("PATCH", at, x, `{"personal":true}`)); !got.Personal || got.Private || got.Role != "" || got.Circle != "" {
			t.Errorf("got %+v, want a personal one", got)
		}
		if got := parse[sample.ItemView](t, h.send("PATCH", at, x, `{"role":"secretary"}`)); got.Personal || got.Private || got.Role != "secretary" || got.Circle != "general" {
			t.Errorf("got %+v, want one of the secretary", got)
		}
		for _, other := range sample.Kinds {
			if w := h.get("/api/v5/"+other+"s/"+made.ID, x); (w.Code == 200) != (other == kind) {
				t.Errorf("%s as %s: %d", kind, other, w.Code)
			}
		}
		w = h.send("DELETE", at, x, "")
		wantStatus(t, w, 204, "")
		wantStatus(t, h.get(at, x), 404, "")
		wantStatus(t, h.send("DELETE", at, x, ""), 404, "")
		wantStatus(t, h.send("PATCH", at, x, `{"title":"Back"}`), 404, "")
	}
}

// If-Match and If-None-Match (RFC 9110 section 13.1), on all that can change.
func TestConditions(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	note := "/api/v5/notes/" + h.item(ofRole("treasurer", false)).ID
	for path, body := range map[string]string{
		note: `{"body":"%d"}`, "/api/v5/circles/money": `{"name":"Money %d"}`, "/api/v5/roles/host": `{"name":"Host %d"}`,
		"/api/v5/organization": `{"name":"Nordlys %d"}`, "/api/v5/people/tor": `{"admin":true}`,
	} {
		n := 0
		next := func() string { n++; return strings.ReplaceAll(body, "%d", fmt.Sprint(n)) }
		old := h.get(path, x).Header().Get("ETag")
		for _, c := range []struct {
			method, header, value string
			status                int
		}{
			{"GET", "If-None-Match", old, 304},
			{"HEAD", "If-None-Match", old, 304},
			{"GET", "If-None-Match", "W/" + old, 304},
			{"GET", "If-None-Match", `"a", ` + old, 304},
			{"GET", "If-None-Match", "*", 304},
			{"GET", "If-None-Match", `"a",W/"b" ,, "c"`, 200},
			{"GET", "If-None-Match", old + `"`, 400},
			{"GET", "If-None-Match", "", 400},
			{"GET", "If-Match", old, 200},
			{"GET", "If-Match", `"a"`, 412},
			{"GET", "If-Match", `a`, 400},
			{"PATCH", "If-Match", `"a"`, 412},
			{"PATCH", "If-Match", "W/" + old, 412},
			{"PATCH", "If-Match", strings.Trim(old, `"`), 400},
			{"PATCH", "If-Match", `*, ` + old, 400},
			{"PATCH", "If-Match", `""`, 412},
			{"PATCH", "If-Match", `" "`, 400},
			{"PATCH", "If-Match", `"unclosed`, 400},
			{"PATCH", "If-Match", ",", 400},
			{"PATCH", "If-None-Match", old, 412},
			{"PATCH", "If-None-Match", "*", 412},
			{"PATCH", "If-Match", `"a", ` + old, 200},
			{"PATCH", "If-Match", old, 412}, // as it was before
			{"PATCH", "If-Match", "*", 200},
			{"PATCH", "If-None-Match", old, 200},
		} {
			sent := ""
			if c.method == "PATCH" {
				sent = next()
			}
			w := h.send(c.method, path, x, sent, c.header, c.value)
			if w.Code != c.status {
				t.Errorf("%s %s with %s: %s: got %d %s, want %d", c.method, path, c.header, c.value, w.Code, w.Body, c.status)
			}
		}
		stale := h.send("DELETE", path, x, "", "If-Match", old)
		if path != "/api/v5/organization" {
			wantStatus(t, stale, 412, "")
			wantStatus(t, h.get(path, x), 200, "")
		}
	}
	// Two lines of one header are one list.
	tag := h.get(note, x).Header().Get("ETag")
	wantStatus(t, h.send("DELETE", note, x, "", "If-Match", `"a"`, "If-Match", tag), 204, "")

	const filler = "/api/v5/roles/host/fillers/ada"
	wantStatus(t, h.send("PUT", filler, x, "", "If-Match", "*"), 412, "")
	wantStatus(t, h.send("PUT", filler, x, "", "If-None-Match", "*"), 204, "")
	wantStatus(t, h.send("PUT", filler, x, "", "If-None-Match", "*"), 412, "")
	wantStatus(t, h.send("DELETE", filler, x, "", "If-Match", `"a"`), 412, "")
	wantStatus(t, h.send("DELETE", filler, x, "", "If-Match", "*"), 204, "")
	wantStatus(t, h.send("DELETE", filler, x, ""), 404, "")
}

// A tag changes with anything that the answer says, wherever that was changed.
func TestTagIsOfTheAnswer(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	note := "/api/v5/notes/" + h.item(ofRole("host", false)).ID
	for what, change := range map[string]func() *httptest.ResponseRecorder{
		"the role has moved": func() *httptest.ResponseRecorder {
			return h.send("PATCH", "/api/v5/roles/host", x, `{"circle":"money"}`)
		},
		"the title":                   func() *httptest.ResponseRecorder { return h.send("PATCH", note, x, `{"title":"Other"}`) },
		"the right to change is gone": func() *httptest.ResponseRecorder { return h.send("PATCH", "/api/v5/people/tor", x, `{"admin":true}`) },
	} {
		before := h.get(note, x).Header().Get("ETag")
		if w := change(); w.Code != 200 {
			t.Fatalf("%s: %d %s", what, w.Code, w.Body)
		}
		if what == "the right to change is gone" {
			if err := h.store.SetAdmin(t.Context(), "nordlys", "ada", false, store.Act{}); err != nil {
				t.Fatal(err)
			}
		}
		if after := h.get(note, x).Header().Get("ETag"); after == before {
			t.Errorf("%s: the tag stays %s", what, after)
		}
		if err := h.store.SetAdmin(t.Context(), "nordlys", "ada", true, store.Act{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Of many who change what they have read, one at a time gets through: nothing
// that was answered with 200 is lost.
func TestNoChangeAtOnceIsLost(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	note := "/api/v5/notes/" + h.item(ofRole("treasurer", false)).ID
	var done sync.WaitGroup
	var good, stale atomic.Int64
	for n := range 8 {
		done.Go(func() {
			for line := 0; line < 5; {
				w := h.get(note, x)
				body := parse[sample.ItemView](t, w).Body + fmt.Sprintf("%d.%d;", n, line)
				w = h.send("PATCH", note, x, `{"body":"`+body+`"}`, "If-Match", w.Header().Get("ETag"))
				switch w.Code {
				case 200:
					good.Add(1)
					line++
				case 412:
					stale.Add(1)
				default:
					t.Errorf("got %d %s", w.Code, w.Body)
					return
				}
			}
		})
	}
	done.Wait()
	body := parse[sample.ItemView](t, h.get(note, x)).Body
	for n := range 8 {
		for line := range 5 {
			if word := fmt.Sprintf("%d.%d;", n, line); strings.Count(body, word) != 1 {
				t.Errorf("%s stands %d times", word, strings.Count(body, word))
			}
		}
	}
	t.Logf("%d changes, %d stale", good.Load(), stale.Load())
}

// What may not be read is 404 before anything else can be learned of it: by a
// condition, a body, a role that is or is not there, or the time of day.
func TestHiddenTellsNothing(t *testing.T) {
	h := newHouse(t)
	hidden := h.item(item{Item: org.Item{Role: "treasurer", Private: true}, Title: "Salaries", Body: "secret"})
	own := h.item(item{Item: org.Item{Person: "ada"}, Title: "Salaries"})
	seen := h.get("/api/v5/notes/"+hidden.ID, h.live("ada", "nordlys", everything).access).Header().Get("ETag")
	for name, x := range map[string]string{
		"a member":         h.live("tor", "nordlys", everything).access,
		"another's role":   h.live("tor", "nordlys", roles(true, picked("host"))).access,
		"a role elsewhere": h.live("ada", "nordlys", roles(false, picked("secretary"))).access,
		"an organization":  h.live("siv", "fjell", everything).access,
		"the same person":  h.live("ada", "fjell", everything).access,
	} {
		for _, id := range []string{hidden.ID, own.ID} {
			for _, c := range []struct{ method, body, header, value string }{
				{"GET", "", "", ""}, {"GET", "", "If-None-Match", seen}, {"GET", "", "If-None-Match", "*"}, {"GET", "", "If-Match", `"a"`},
				{"PATCH", `{"title":"x"}`, "", ""}, {"PATCH", `{"title":"x"}`, "If-Match", `"a"`}, {"PATCH", `{"title":"x"}`, "If-None-Match", seen},
				{"PATCH", `{"role":"host"}`, "", ""}, {"PATCH", `{"role":"nobody"}`, "", ""}, {"PATCH", `{"personal":true}`, "", ""},
				{"PATCH", `{"personal":false}`, "", ""}, {"PATCH", `{"title":"Salaries"}`, "", ""},
				{"DELETE", "", "", ""}, {"DELETE", "", "If-Match", `"a"`}, {"DELETE", "", "If-Match", seen},
			} {
				var headers []string
				if c.header != "" {
					headers = []string{c.header, c.value}
				}
				got := h.send(c.method, "/api/v5/notes/"+id, x, c.body, headers...)
				none := h.send(c.method, "/api/v5/notes/nobody", x, c.body, headers...)
				for _, moves := range []string{"RateLimit", "Date"} {
					got.Header().Del(moves)
					none.Header().Del(moves)
				}
				if got.Code != 404 || got.Body.String() != none.Body.String() || fmt.Sprint(got.Header()) != fmt.Sprint(none.Header()) {
					t.Errorf("%s: %s %+v: got %d %s %v, of nothing %d %s %v", name, c.method, c, got.Code, got.Body, got.Header(), none.Code, none.Body, none.Header())
				}
			}
		}
		if w := h.get("/api/v5/notes", x); strings.Contains(w.Body.String(), "Salaries") || parse[page](t, w).Next != "" {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
	for _, i := range []item{hidden, own} {
		if at, err := h.stored(i); err != nil || at != i {
			t.Errorf("got %+v, %v; want %+v", at, err, i)
		}
	}
}

// G-01, G-02: nothing of another organization is reached by path, filter,
// body or cursor, though the person is in both; and it is answered as what
// never was.
func TestItemsOfAnotherOrganization(t *testing.T) {
	h := newHouse(t)
	foreign := h.item(item{Item: org.Item{Organization: "fjell", Role: "guide"}, Title: "Foreign"})
	mine := h.item(ofRole("treasurer", false))
	x := h.live("ada", "nordlys", everything).access
	for _, c := range []struct{ method, path, body string }{
		{"GET", "notes/ID", ""}, {"PATCH", "notes/ID", `{"title":"x"}`}, {"DELETE", "notes/ID", ""}, {"GET", "notes?role=ID", ""}, {"GET", "notes?circle=ID", ""},
		{"GET", "roles?circle=ID", ""}, {"POST", "notes", `{"title":"x","role":"ID"}`}, {"PATCH", "notes/" + mine.ID, `{"role":"ID"}`},
		{"PATCH", "circles/ID", `{"name":"x"}`}, {"DELETE", "circles/ID", ""}, {"PATCH", "circles/money", `{"parent":"ID"}`},
		{"POST", "circles", `{"name":"x","parent":"ID"}`}, {"PATCH", "roles/ID", `{"name":"x"}`}, {"DELETE", "roles/ID", ""},
		{"PATCH", "roles/host", `{"circle":"ID"}`}, {"POST", "roles", `{"name":"x","circle":"ID"}`}, {"PUT", "roles/ID/fillers/ada", ""},
		{"DELETE", "roles/ID/fillers/ada", ""}, {"PUT", "roles/host/fillers/ID", ""}, {"DELETE", "roles/host/fillers/ID", ""},
		{"PATCH", "people/ID", `{"admin":true}`}, {"DELETE", "people/ID", ""}, {"GET", "people/ID", ""}, {"GET", "circles/ID", ""}, {"GET", "roles/ID", ""},
	} {
		before := h.everythingThere()
		none := h.send(c.method, "/api/v5/"+strings.ReplaceAll(c.path, "ID", "nobody"), x, strings.ReplaceAll(c.body, "ID", "nobody"))
		for _, id := range []string{foreign.ID, "siv", "peak", "guide", "fjell", mine.ID} {
			if c.path == "notes/ID" && id == mine.ID {
				continue
			}
			got := h.send(c.method, "/api/v5/"+strings.ReplaceAll(c.path, "ID", id), x, strings.ReplaceAll(c.body, "ID", id))
			if got.Code != none.Code || got.Code != 404 && got.Code != 400 || got.Body.String() != none.Body.String() {
				t.Errorf("%s %s %s with %s: got %d %s, of nothing %d %s", c.method, c.path, c.body, id, got.Code, got.Body, none.Code, none.Body)
			}
		}
		if h.everythingThere() != before {
			t.Errorf("%s %s has changed something", c.method, c.path)
		}
	}
	if i, err := h.stored(foreign); err != nil || i != foreign {
		t.Errorf("got %+v, %v", i, err)
	}
	if r, err := h.store.Role(t.Context(), "fjell", "guide"); err != nil || len(r.Fillers) != 1 || r.Circle != "peak" {
		t.Errorf("got %+v, %v", r, err)
	}
}

// a role lost counts no more at the next call, a role gained
// counts where everything was given, and nowhere else.
func TestRolesComeAndGo(t *testing.T) {
	h := newHouse(t)
	treasure, welcome := h.item(ofRole("treasurer", true)), h.item(ofRole("host", true))
	all := h.live("ada", "nordlys", everything).access
	some := h.live("ada", "nordlys", roles(false, picked("treasurer"))).access
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(h.store.SetMember(t.Context(), "nordlys", "tor", true, store.Act{}))
	must(h.store.SetAdmin(t.Context(), "nordlys", "ada", false, store.Act{}))
	change := func(i item, x string) int {
		return h.send("PATCH", "/api/v5/notes/"+i.ID, x, `{"body":"x"}`).Code
	}
	want := func(when string, i item, byAll, bySome int) {
		t.Helper()
		if a, b := change(i, all), change(i, some); a != byAll || b != bySome {
			t.Errorf("%s, %s: got %d and %d, want %d and %d", when, i.Role, a, b, byAll, bySome)
		}
	}
	want("at first", treasure, 200, 200)
	must(h.store.SetFiller(t.Context(), "treasurer", "ada", false, store.Act{}))
	want("role taken", treasure, 404, 404)
	must(h.store.SetFiller(t.Context(), "treasurer", "ada", true, store.Act{}))
	want("role given again", treasure, 200, 200)
	_, err := h.store.TellDirectory(t.Context(), store.DirectoryEvent{ID: "gone", Version: 1, Role: &org.Role{ID: "treasurer"}, Gone: true}, store.Act{})
	must(err)
	want("role removed", treasure, 404, 404)
	must(h.store.SetFiller(t.Context(), "host", "ada", true, store.Act{}))
	want("role gained", welcome, 200, 404)
}

// API keys act as their person, in items too.
func TestItemsByKey(t *testing.T) {
	h := newHouse(t)
	i := h.item(ofRole("host", true))
	headers := []string{"X-Auth-Token", "key-of-tor-for-tests", "Content-Type", "application/json"}
	wantStatus(t, send(t, h.handler, "PATCH", "/api/v5/notes/"+i.ID, `{"title":"Tor's"}`, headers...), 200, "")
	wantStatus(t, send(t, h.handler, "POST", "/api/v5/notes", `{"title":"x","role":"treasurer"}`, headers...), 403, "")
	wantStatus(t, send(t, h.handler, "DELETE", "/api/v5/people/ada", "", headers...), 403, "")
	headers[1] = "key-of-siv-for-tests"
	wantStatus(t, send(t, h.handler, "PATCH", "/api/v5/notes/"+i.ID, `{"title":"Siv's"}`, headers...), 404, "")
}

// Cursors of items are their list's alone: kind, filters and organization.
func TestItemCursors(t *testing.T) {
	h := newHouse(t)
	for range 3 {
		for _, i := range []item{ofRole("treasurer", false), ofRole("guide", false), ofPerson("ada")} {
			if i.Role == "guide" {
				i.Organization = "fjell"
			}
			h.item(i)
		}
	}
	x, fjell := h.live("ada", "nordlys", everything).access, h.live("ada", "fjell", everything).access
	next := url.QueryEscape(h.page("/api/v5/notes?limit=1", x).Next)
	if next == "" {
		t.Fatal("no cursor")
	}
	wantStatus(t, h.get("/api/v5/notes?after="+next, x), 200, "")
	for _, list := range []string{
		"actions?", "notes?role=treasurer&", "notes?circle=money&", "notes?status=open&", "notes?mine=true&", "notes?mine=false&",
		"notes?personal=true&", "notes?personal=false&", "roles?", "roles?mine=true&", "people?", "circles?",
	} {
		wantStatus(t, h.get("/api/v5/"+list+"after="+next, x), 400, "")
	}
	wantStatus(t, h.get("/api/v5/notes?after="+next, fjell), 400, "")
	other := url.QueryEscape(h.page("/api/v5/roles?mine=true&limit=1", x).Next)
	wantStatus(t, h.get("/api/v5/roles?mine=true&after="+other, x), 200, "")
	wantStatus(t, h.get("/api/v5/roles?after="+other, x), 400, "")
	wantStatus(t, h.get("/api/v5/roles?mine=false&after="+other, x), 400, "")
}

func TestRoleFilters(t *testing.T) {
	h := newHouse(t)
	x := h.live("tor", "nordlys", everything).access
	for filter, want := range map[string]string{
		"": "host secretary treasurer", "mine=true": "host", "mine=false": "secretary treasurer", "circle=general": "host secretary",
		"circle=general&mine=false": "secretary", "circle=money&mine=true": "",
	} {
		var got []string
		for _, r := range h.page("/api/v5/roles?"+filter, x).Items {
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %s", filter, got, want)
		}
	}
}

// Whatever is wrong in a request is a clear 4xx, and nothing has changed.
func TestHostileRequests(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	i := h.item(ofRole("treasurer", false))
	at := "/api/v5/notes/" + i.ID
	own := "/api/v5/notes/" + h.item(ofPerson("ada")).ID
	long := strings.Repeat("a", 20_001)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"nothing", "POST", "/api/v5/notes", " ", 400, "not one JSON value"},
		{"an array", "POST", "/api/v5/notes", `[{"title":"x","role":"treasurer"}]`, 400, "not a JSON object"},
		{"null", "PATCH", at, `null`, 400, "not a JSON object"},
		{"a string", "PATCH", at, `"title"`, 400, "not a JSON object"},
		{"half of it", "PATCH", at, `{"title":"x"`, 400, "not one JSON value"},
		{"two of them", "PATCH", at, `{"title":"x"}{"title":"y"}`, 400, "not one JSON value"},
		{"a byte order mark", "PATCH", at, "\ufeff" + `{"title":"x"}`, 400, "not one JSON value"},
		{"a member twice", "PATCH", at, `{"title":"x","title":"y"}`, 400, "title stands there twice"},
		{"a member twice, escaped", "PATCH", at, `{"title":"x","titl\u0065":"y"}`, 400, "title stands there twice"},
		{"another case", "PATCH", at, `{"TITLE":"x"}`, 400, "title"},
		{"an unknown member", "PATCH", at, `{"title":"x","__proto__":{}}`, 400, "body, personal, private, role, status, title"},
		{"a member of the store", "PATCH", at, `{"organization":"fjell"}`, 400, "cannot be sent"},
		{"the ID", "PATCH", at, `{"id":"x"}`, 400, "cannot be sent"},
		{"the version", "PATCH", at, `{"version":1}`, 400, "cannot be sent"},
		{"the person", "PATCH", at, `{"person":"tor"}`, 400, "cannot be sent"},
		{"a deep one", "PATCH", at, `{"title":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, 400, "title is a string"},
		{"a number for a string", "PATCH", at, `{"title":1e999}`, 400, "title is a string"},
		{"an object for a string", "PATCH", at, `{"title":{"$ne":null}}`, 400, "title is a string"},
		{"a string for a flag", "PATCH", at, `{"private":"true"}`, 400, "private is true or false"},
		{"NUL", "PATCH", at, `{"title":"a\u0000b"}`, 400, "title has a NUL"},
		{"NUL in the body", "PATCH", at, `{"body":"a\u0000b"}`, 400, "body has a NUL"},
		{"NUL in a role", "PATCH", at, `{"role":"treasurer\u0000"}`, 400, "role has a NUL"},
		{"NUL as it is", "PATCH", at, "{\"title\":\"a\x00b\"}", 400, "not one JSON value"},
		{"invalid UTF-8", "PATCH", at, "{\"title\":\"a\xffb\"}", 400, "not UTF-8"},
		{"a surrogate in bytes", "PATCH", at, "{\"body\":\"\xed\xa0\x80\"}", 400, "not UTF-8"},
		{"half a pair", "PATCH", at, `{"body":"\ud83d"}`, 400, "surrogate"},
		{"the other half", "PATCH", at, `{"body":"\uDE00x"}`, 400, "surrogate"},
		{"two first halves", "PATCH", at, `{"body":"\ud83d\ud83d"}`, 400, "surrogate"},
		{"half a pair in a name", "PATCH", at, `{"\ud83d":1}`, 400, "surrogate"},
		{"a title of nothing", "PATCH", at, `{"title":""}`, 400, "title has 1 to 200 characters"},
		{"a title of spaces", "PATCH", at, `{"title":" \u3000\u00a0 "}`, 400, "title has 1 to 200 characters"},
		{"a title of 201", "PATCH", at, `{"title":"` + strings.Repeat("é", 201) + `"}`, 400, "title has 1 to 200 characters"},
		{"a title of two lines", "PATCH", at, `{"title":"a\nb"}`, 400, "line break"},
		{"an escape in a title", "PATCH", at, `{"title":"a\u001b[31m"}`, 400, "control character"},
		{"a body of 20,001", "PATCH", at, `{"body":"` + long + `"}`, 400, "at most 20000"},
		{"a body of 64 KiB and one", "PATCH", at, `{"body":"` + strings.Repeat("a", 64<<10-10) + `"}`, 413, "65536 bytes"},
		{"an unknown status", "PATCH", at, `{"status":"deleted"}`, 400, "open, done or archived"},
		{"an unknown role", "PATCH", at, `{"role":"' OR 1=1 --"}`, 400, "role: there is no such role"},
		{"a circle as role", "PATCH", at, `{"role":"money"}`, 400, "role: there is no such role"},
		{"an empty role", "PATCH", at, `{"role":""}`, 400, "role: there is no such role"},
		{"role and personal", "PATCH", at, `{"role":"treasurer","personal":true}`, 400, "not both"},
		{"private and personal", "PATCH", at, `{"private":true,"personal":true}`, 400, "private is for items of a role"},
		{"private, of a personal one", "PATCH", own, `{"private":true}`, 400, "private is for items of a role"},
		{"personal no more, of nobody", "PATCH", own, `{"personal":false}`, 400, "Send role"},
		{"nothing to change", "PATCH", at, `{}`, 400, "at least one member"},
		{"no title", "POST", "/api/v5/notes", `{"role":"treasurer"}`, 400, "title is missing"},
		{"no place", "POST", "/api/v5/notes", `{"title":"x"}`, 400, "Send role"},
		{"not personal and no place", "POST", "/api/v5/notes", `{"title":"x","personal":false}`, 400, "Send role"},
		{"a kind", "POST", "/api/v5/notes", `{"title":"x","role":"treasurer","kind":"action"}`, 400, "cannot be sent"},
		{"an unknown kind", "POST", "/api/v5/secrets", `{"title":"x","role":"treasurer"}`, 404, "nothing at this path"},
		{"an item as list", "POST", at, `{"title":"x"}`, 405, "GET, HEAD, PATCH, DELETE"},
		{"a circle in itself", "PATCH", "/api/v5/circles/money", `{"parent":"money"}`, 409, "cannot lie in itself"},
		{"a name of 101", "PATCH", "/api/v5/circles/money", `{"name":"` + strings.Repeat("a", 101) + `"}`, 400, "1 to 100 characters"},
		{"a name that turns the text around", "POST", "/api/v5/circles", `{"name":"Money\u202e"}`, 400, "name: it has a character that turns the text around it."},
		{"a name of two lines", "PATCH", "/api/v5/organization", `{"name":"a\u2028b"}`, 400, "control character"},
		{"a name with hidden text", "PATCH", "/api/v5/roles/treasurer", `{"name":"Treasurer\udb40\udc61"}`, 400, "tag characters"},
		{"an unknown parameter", "GET", "/api/v5/notes?title=x", "", 400, "limit, after, role, circle, status, mine, personal"},
		{"a filter twice", "GET", "/api/v5/notes?role=host&role=treasurer", "", 400, "role may be sent once"},
		{"a flag in words", "GET", "/api/v5/notes?mine=yes", "", 400, "mine is true or false"},
		{"a filter of personal in words", "GET", "/api/v5/notes?personal=1", "", 400, "personal is true or false"},
		{"a flag of roles in words", "GET", "/api/v5/roles?mine=TRUE", "", 400, "mine is true or false"},
		{"a status in a filter", "GET", "/api/v5/notes?status=any", "", 400, "open, done or archived"},
		{"NUL in a filter", "GET", "/api/v5/notes?role=%00", "", 400, "no such role"},
		{"invalid UTF-8 in a filter", "GET", "/api/v5/notes?circle=%ff", "", 400, "no such circle"},
		{"a cursor of items", "GET", "/api/v5/notes?after=" + i.ID, "", 400, "after is not"},
		{"a semicolon", "GET", "/api/v5/notes?role=host;circle=money", "", 400, "not well-formed"},
		{"a person by email", "PATCH", "/api/v5/people/tor@nordlys.example", `{"admin":true}`, 404, "no such object"},
		{"the last admin", "PATCH", "/api/v5/people/ada", `{"admin":false}`, 409, "last admin"},
		{"the last admin, removed", "DELETE", "/api/v5/people/ada", ``, 409, "last admin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := h.everythingThere()
			w := h.send(c.method, c.path, x, c.body)
			wantStatus(t, w, c.status, "")
			if !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("got %s, want %q", w.Body, c.says)
			}
			if now, err := h.stored(i); err != nil || now != i || h.everythingThere() != before {
				t.Errorf("changed: %+v, %v", now, err)
			}
			if n := len(h.page("/api/v5/notes", x).Items); n != 2 {
				t.Errorf("%d notes", n)
			}
		})
	}
	for name, headers := range map[string][]string{
		"no media type": {"Content-Type", ""}, "a form": {"Content-Type", "application/x-www-form-urlencoded"},
		"JSON in disguise": {"Content-Type", "text/json"}, "compressed": {"Content-Type", "application/json", "Content-Encoding", "gzip"},
		"in Latin-1": {"Content-Type", "application/json; charset=iso-8859-1"}, "twice": {"Content-Type", "application/json", "Content-Type", "application/json"},
	} {
		if w := h.send("PATCH", at, x, `{"title":"x"}`, headers...); w.Code != 415 {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
	if w := h.send("POST", "/api/v5/notes", x, `{"title":"x","role":"host"}`, "Content-Type", "application/merge-patch+json"); w.Code != 415 {
		t.Errorf("a merge patch to make something: got %d %s", w.Code, w.Body)
	}
}

// At the bounds, and what looks odd and is fine.
func TestGoodRequests(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	at := "/api/v5/notes/" + h.item(ofRole("treasurer", false)).ID
	for name, body := range map[string]string{
		"a title of 200":        `{"title":"` + strings.Repeat("神", 200) + `"}`,
		"a body of 20,000":      `{"body":"` + strings.Repeat("神", 20_000) + `"}`,
		"a pair":                `{"title":"\ud83d\ude00 \uD83D\uDE00"}`,
		"an escaped backslash":  `{"title":"\\ud83d"}`,
		"the replacement":       `{"title":"\ufffd"}`,
		"markup":                `{"title":"<script>alert(1)</script>"}`,
		"quotes":                `{"title":"'; DROP TABLE item; --"}`,
		"lines and tabs":        `{"body":"a\n\tb\r\n"}`,
		"spaces around":         " \n{ \"title\" : \"x\" }\n ",
		"the media type's case": `{"title":"case"}`,
	} {
		w := h.send("PATCH", at, x, body, "Content-Type", "Application/JSON; charset=utf-8")
		wantStatus(t, w, 200, "")
		if strings.Contains(w.Body.String(), "<script>") {
			t.Errorf("%s: markup as it is: %s", name, w.Body)
		}
	}
	if got := parse[sample.ItemView](t, h.send("PATCH", at, x, `{"title":"\ud83d\ude00","body":"'; DROP"}`)); got.Title != "😀" || got.Body != "'; DROP" {
		t.Errorf("got %+v", got)
	}
}

// The journal names the person, and what carried the change out.
func TestAdministrationIsJournaled(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	wantStatus(t, h.send("PATCH", "/api/v5/circles/money", x, `{"name":"Gold"}`), 200, "")
	wantStatus(t, h.send("PUT", "/api/v5/roles/host/fillers/tor", x, ""), 204, "") // as it was: nothing to tell
	wantStatus(t, h.call("DELETE", "/api/v5/people/tor", "X-Auth-Token", "key-of-ada-for-tests"), 204, "")
	events, _, err := h.store.Events(t.Context(), store.EventFilter{Kind: "directory_changed", Limit: 2})
	if err != nil || len(events) != 2 {
		t.Fatal(events, err)
	}
	for i, want := range []store.Event{
		{Person: "tor", Detail: "member removed", Reason: ": by person:ada through an API key"},
		{Detail: "circle:money: circles: 1 changed", Reason: ": by person:ada through client client-1"},
	} {
		got := events[i]
		if got.Actor != "gateway:sample" || !strings.HasSuffix(got.Reason, want.Reason) || got.Detail != want.Detail || got.Person != want.Person ||
			got.Organization != "nordlys" {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// An admin who removes an admin, two at once: one admin is left.
func TestLastAdminOfTwoAtOnce(t *testing.T) {
	for range 8 {
		h := newHouse(t)
		if err := h.store.SetMember(t.Context(), "nordlys", "tor", true, store.Act{}); err != nil {
			t.Fatal(err)
		}
		tokens := map[string]string{"ada": h.live("ada", "nordlys", everything).access, "tor": h.live("tor", "nordlys", whole).access}
		var done sync.WaitGroup
		for person, other := range map[string]string{"ada": "tor", "tor": "ada"} {
			done.Go(func() {
				if w := h.send("DELETE", "/api/v5/people/"+other, tokens[person], ""); w.Code != 204 && w.Code != 401 && w.Code != 403 && w.Code != 409 {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
			})
		}
		done.Wait()
		if admins, err := h.store.Admins(t.Context(), "nordlys", 9); err != nil || len(admins) != 1 {
			t.Errorf("%d admins, %v", len(admins), err)
		}
		h.Close()
	}
}

// Whatever a body holds: what is taken is given back as any reader of JSON
// reads it, and the rest is a 4xx that leaves nothing.
func FuzzItem(f *testing.F) {
	h := newHouse(f)
	h.server.Limit = limit.NewNames(limit.Limit{N: 1 << 20, Window: time.Second})
	x := h.live("ada", "nordlys", everything).access
	for _, s := range []string{
		`{"title":"x","role":"treasurer"}`, `{"title":"x","personal":true}`, `{"title":"\ud83d\ude00","role":"host","body":null}`, `{"title":"\ud83d"}`,
		`{"title":"x","title":"y"}`, `{"body":"\u0000"}`, `[]`, `{`, "\xff", `{"title":"x","role":"treasurer","private":true,"status":"done","personal":false}`,
		`{"title":"\\ud83d","role":"secretary","body":"a\nb"}`, `{"Title":"x","role":"host"}`, `{"title":"x","role":null}`, `{"title":" ","personal":true}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		ask := func(method, path, body string) *httptest.ResponseRecorder {
			return send(t, h.handler, method, path, body, "Authorization", "Bearer "+x, "Content-Type", "application/json")
		}
		w := ask("POST", "/api/v5/notes", body)
		if w.Code != 201 {
			if w.Code != 400 && w.Code != 413 || len(parse[page](t, ask("GET", "/api/v5/notes", "")).Items) > 0 {
				t.Fatalf("%d %s for %q", w.Code, w.Body, body)
			}
			return
		}
		var sent struct{ Title, Body, Status, Role *string }
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Fatalf("%q is taken: %v", body, err)
		}
		at := w.Header().Get("Location")
		got := parse[sample.ItemView](t, ask("GET", at, ""))
		for name, c := range map[string]struct {
			sent *string
			got  string
		}{"title": {sent.Title, got.Title}, "body": {sent.Body, got.Body}, "role": {sent.Role, got.Role}} {
			if c.sent != nil && *c.sent != c.got || c.sent == nil && c.got != "" {
				t.Fatalf("%s: %q for %q", name, c.got, body)
			}
		}
		wantStatus(t, ask("DELETE", at, ""), 204, "")
	})
}

// Whatever the conditions of a request say: a change is made only when they
// hold, by a second reader of them.
func FuzzConditions(f *testing.F) {
	h := newHouse(f)
	h.server.Limit = limit.NewNames(limit.Limit{N: 1 << 20, Window: time.Second})
	x := h.live("ada", "nordlys", everything).access
	at := "/api/v5/notes/" + h.item(ofRole("host", false)).ID
	tag := h.get(at, x).Header().Get("ETag")
	for _, s := range []string{"*", tag, "W/" + tag, `"a"`, `"a", ` + tag, tag + tag, tag + " " + tag, ",", "", `"`, `W/"`, `W/*`, `"a,b"`, "\x00", `"\xff"`, "*,*"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	// isTag reads one entity tag by the letter of RFC 9110 section 8.8.3.
	isTag := func(s string) bool {
		s = strings.TrimPrefix(s, "W/")
		if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
			return false
		}
		for _, c := range []byte(s[1 : len(s)-1]) {
			if c != 0x21 && (c < 0x23 || c > 0x7e) && c < 0x80 {
				return false
			}
		}
		return true
	}
	f.Fuzz(func(t *testing.T, value string, match bool) {
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return // stands in no header
		}
		name := map[bool]string{true: "If-Match", false: "If-None-Match"}[match]
		w := send(t, h.handler, "GET", at, "", "Authorization", "Bearer "+x, name, value)
		if trimmed := strings.Trim(value, " \t"); trimmed == "*" || isTag(trimmed) {
			same := trimmed == "*" || trimmed == tag || !match && trimmed == "W/"+tag
			want := map[bool]int{true: 200, false: 412}[same]
			if !match {
				want = map[bool]int{true: 304, false: 200}[same]
			}
			if w.Code != want {
				t.Fatalf("%s: %q: got %d, want %d", name, value, w.Code, want)
			}
			return
		}
		if w.Code != 400 && !strings.Contains(value, ",") || w.Code >= 500 {
			t.Fatalf("%s: %q: got %d", name, value, w.Code)
		}
	})
}

// While two roles change their circles with each other, again and again, so that
// Tor is at no moment in the circle of a private item, no read gives it to him.
func TestReadsWhileOthersWriteAreOfOneState(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	swap := func(host, secretary string) error {
		_, err := h.store.ImportDirectory(ctx, store.Import{Directory: store.Directory{Roles: []org.Role{
			{ID: "host", Organization: "nordlys", Circle: host, Name: "Host"}, {ID: "secretary", Organization: "nordlys", Circle: secretary, Name: "Secretary"},
		}}}, store.Act{})
		return err
	}
	if err := swap("general", "money"); err != nil {
		t.Fatal(err)
	}
	private := h.item(ofRole("secretary", true))
	access := h.live("tor", "nordlys", everything).access
	var done atomic.Bool
	var wg sync.WaitGroup
	var answers atomic.Int64
	for _, path := range []string{"/api/v5/notes/" + private.ID, "/api/v5/notes", "/api/v5/notes?role=secretary", "/api/v5/notes?circle=general"} {
		wg.Go(func() {
			for !done.Load() {
				r := httptest.NewRequest("GET", path, nil)
				r.Header.Set("Authorization", "Bearer "+access)
				w := httptest.NewRecorder()
				h.handler.ServeHTTP(w, r)
				if answers.Add(1); strings.Contains(w.Body.String(), private.ID) {
					t.Errorf("%s: %d %s", path, w.Code, w.Body)
					return
				}
			}
		})
	}
	for n := range 240 {
		circles := []string{"money", "general", "money"}[n%2:]
		if err := swap(circles[0], circles[1]); err != nil {
			t.Error(err)
		}
	}
	done.Store(true)
	wg.Wait()
	if answers.Load() == 0 {
		t.Error("nobody read")
	}
}
