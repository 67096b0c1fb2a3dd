package sample_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// G-01, G-02: a token acts in its organization only, though its person is in
// both; another organization's object is as unknown as one that never was.
func TestOtherOrganization(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything)
	for _, path := range []string{"people/siv", "circles/peak", "roles/guide"} {
		collection, _, _ := strings.Cut(path, "/")
		other, none := h.get("/api/v5/"+path, x.access), h.get("/api/v5/"+collection+"/nobody", x.access)
		wantStatus(t, other, 404, "")
		if other.Body.String() != none.Body.String() {
			t.Errorf("%s: told apart: %s and %s", path, other.Body, none.Body)
		}
	}
	for _, list := range []string{"people", "circles", "roles"} {
		wantStatus(t, h.get("/api/v5/"+list+"?organization=fjell", x.access), 400, "")
		w := h.get("/api/v5/"+list, x.access)
		wantStatus(t, w, 200, "")
		for _, foreign := range []string{"siv", "peak", "guide", "fjell"} {
			if strings.Contains(w.Body.String(), foreign) {
				t.Errorf("%s in %s", foreign, w.Body)
			}
		}
	}
}

// G-06: what every member sees stays readable with selected roles.
func TestObjects(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", roles(false, grantset.Pick{Role: "treasurer"}))
	for path, want := range map[string]string{
		"/api/v5/organization":    `{"id":"nordlys","name":"Nordlys"}`,
		"/api/v5/people":          `{"items":[{"id":"ada","name":"Ada \"Countess\" Nord","admin":true},{"id":"tor","name":"Tor","admin":false}],"next":""}`,
		"/api/v5/people/tor":      `{"id":"tor","name":"Tor","admin":false}`,
		"/api/v5/circles":         `{"items":[{"id":"general","name":"General"},{"id":"money","name":"Money","parent":"general"}],"next":""}`,
		"/api/v5/circles/money":   `{"id":"money","name":"Money","parent":"general"}`,
		"/api/v5/roles/host":      `{"id":"host","name":"Host","circle":"general","access":"none","circle_name":"General","fillers":["tor"]}`,
		"/api/v5/roles/treasurer": `{"id":"treasurer","name":"Treasurer","circle":"money","access":"read","circle_name":"Money","fillers":["ada"]}`,
		"/api/v5/roles?limit=&after=": `{"items":[{"id":"host","name":"Host","circle":"general","access":"none","circle_name":"General","fillers":["tor"]},` +
			`{"id":"secretary","name":"Secretary","circle":"general","access":"none","circle_name":"General","fillers":["ada"]},` +
			`{"id":"treasurer","name":"Treasurer","circle":"money","access":"read","circle_name":"Money","fillers":["ada"]}],"next":""}`,
	} {
		w := h.get(path, x.access)
		wantStatus(t, w, 200, "")
		if ct := w.Header().Get("Content-Type"); ct != "application/json" {
			t.Errorf("%s: Content-Type %q", path, ct)
		}
		if got := w.Body.String(); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", path, got, want)
		}
	}
}

func TestRoleNobodyFills(t *testing.T) {
	h := newHouse(t)
	x := h.live("tor", "nordlys", everything)
	if err := h.store.SetFiller(t.Context(), "host", "tor", false, store.Act{Actor: "operator"}); err != nil {
		t.Fatal(err)
	}
	if got := h.get("/api/v5/roles/host", x.access).Body.String(); !strings.HasSuffix(got, `"fillers":[]}`) {
		t.Errorf("got %s", got)
	}
	if got := h.get("/api/v5/me", x.access).Body.String(); !strings.HasSuffix(got, `"roles":[]}`) {
		t.Errorf("got %s", got)
	}
}

// Whoever is deactivated is gone from the list and by ID alike.
func TestInactivePerson(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything)
	if err := h.store.SetActive(t.Context(), "tor", false, store.Act{Actor: "operator"}); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, h.get("/api/v5/people/tor", x.access), 404, "")
	for _, path := range []string{"people/tor", "roles/host/fillers/tor"} { // unknown to every change too
		wantStatus(t, h.send("DELETE", "/api/v5/"+path, x.access, ""), 404, "")
	}
	wantStatus(t, h.send("PUT", "/api/v5/roles/treasurer/fillers/tor", x.access, ""), 404, "")
	wantStatus(t, h.send("PATCH", "/api/v5/people/tor", x.access, `{"admin":true}`), 404, "")
	if got := h.get("/api/v5/people", x.access).Body.String(); strings.Contains(got, "tor") {
		t.Errorf("got %s", got)
	}
}

func TestNotFound(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	for _, path := range []string{
		"/api/v5", "/api/v5/", "/api/v5//me", "/api/v5/me/", "/api/v5/Me", "/api/v5/me/x", "/api/v5/people/", "/api/v5/people/ada/",
		"/api/v5/people/ada/roles", "/api/v5/people/tor@nordlys.example", "/api/v5/people/%2F",
		"/api/v5/roles/" + strings.Repeat("a", 5000), "/api/v5/roles/'%20OR%201=1", "/api/v5/mcp/", "/api/v5/mcp/x", "/api/v5/MCP", "/api/v5/mcp%2F",
		"/api/v5%2Fme", "/api/v5%2fme", "/api%2Fv5/me", "/api/v5/people%2Fada", "/api/v5/roles/host%2Ffillers%2Fada", // RFC 3986 section 2.2
	} {
		w := h.get(path, x)
		wantStatus(t, w, 404, "")
		if e := parse[map[string]string](t, w); e["error"] != "not_found" {
			t.Errorf("%s: got %s", path, w.Body)
		}
	}
	wantStatus(t, h.get("/api/v5/%6De", x), 200, "") // RFC 3986 section 2.3
}

func TestMethods(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything)
	for path, allow := range map[string]string{
		"me": "GET, HEAD", "openapi.json": "GET, HEAD", "organization": "GET, HEAD, PATCH",
		"people": "GET, HEAD", "people/ada": "GET, HEAD, PATCH, DELETE",
		"circles": "GET, HEAD, POST", "circles/money": "GET, HEAD, PATCH, DELETE",
		"roles": "GET, HEAD, POST", "roles/host": "GET, HEAD, PATCH, DELETE", "roles/host/fillers/ada": "PUT, DELETE",
		"notes": "GET, HEAD, POST", "tensions/x": "GET, HEAD, PATCH, DELETE",
	} {
		path = "/api/v5/" + path
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "GET"} {
			if strings.Contains(allow, method) {
				continue
			}
			w := h.call(method, path, "Authorization", "Bearer "+x.access)
			wantStatus(t, w, 405, "")
			if got := w.Header().Get("Allow"); got != allow {
				t.Errorf("%s %s: Allow %q", method, path, got)
			}
		}
		want := 405
		if strings.Contains(allow, "HEAD") {
			want = 200
		}
		if w := h.call("HEAD", path, "Authorization", "Bearer "+x.access); w.Code != want && path != "/api/v5/tensions/x" {
			t.Errorf("HEAD %s: %d", path, w.Code)
		}
	}
}

// many gives an organization of 450 people, circles and roles.
func many(h *house) (access string) {
	h.t.Helper()
	d := store.Directory{}
	for i := range 448 {
		id := fmt.Sprintf("x%03d", i)
		d.People = append(d.People, store.DirectoryPerson{Person: org.Person{ID: id, Email: id + "@nordlys.example", Name: "Person " + id, Active: true}})
		d.Members = append(d.Members, store.DirectoryMember{Person: id, Organization: "nordlys"})
		d.Circles = append(d.Circles, org.Circle{ID: id, Organization: "nordlys", Parent: "general", Name: "Circle"})
		d.Roles = append(d.Roles, org.Role{ID: id, Organization: "nordlys", Circle: id, Name: "Role"})
	}
	if err := h.store.AddDirectory(h.t.Context(), d, store.Act{Actor: "system"}); err != nil {
		h.t.Fatal(err)
	}
	return h.live("ada", "nordlys", everything).access
}

type page struct {
	Items []struct{ ID string }
	Next  string
}

func (h *house) page(target, access string) page {
	h.t.Helper()
	w := h.get(target, access)
	wantStatus(h.t, w, 200, "")
	return parse[page](h.t, w)
}

// Whatever the limit: the pages together are the list, each object once.
func TestPages(t *testing.T) {
	h := newHouse(t)
	x := many(h)
	for list, want := range map[string]int{"people": 450, "circles": 450, "roles": 451} {
		for _, limit := range []string{"", "limit=200", "limit=37", "limit=150"} {
			seen, pages, after := []string{}, 0, ""
			for {
				p := h.page("/api/v5/"+list+"?"+limit+"&after="+url.QueryEscape(after), x)
				for _, i := range p.Items {
					seen = append(seen, i.ID)
				}
				if pages++; limit == "" && len(p.Items) != 100 && p.Next != "" {
					t.Errorf("%s: a page of %d", list, len(p.Items))
				}
				if after = p.Next; after == "" || pages > 50 {
					break
				}
			}
			slices.Sort(seen)
			if n := len(seen); n != want || len(slices.Compact(seen)) != want {
				t.Errorf("%s?%s: %d objects in %d pages, want %d, each once", list, limit, n, pages, want)
			}
		}
	}
}

// A page that ends with the list says so.
func TestLastPage(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	for _, list := range []string{"people?limit=2", "circles?limit=2", "roles?limit=3"} {
		if p := h.page("/api/v5/"+list, x); p.Next != "" {
			t.Errorf("%s: next %q after %d", list, p.Next, len(p.Items))
		}
	}
}

// Cursors are ours alone: what was made up, or made for another list or
// organization, is refused (S-11).
func TestCursors(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	siv := h.live("ada", "fjell", everything).access
	roles, people := h.page("/api/v5/roles?limit=1", x).Next, h.page("/api/v5/people?limit=1", x).Next
	if roles == "" || people == "" || strings.Contains(roles, "host") {
		t.Fatalf("cursors %q, %q", roles, people)
	}
	changed := "A" + roles[1:]
	if strings.HasPrefix(roles, "A") {
		changed = "B" + roles[1:]
	}
	last := len(people) - 1
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_\n" { // one spelling each
		for _, other := range []string{people[:last] + string(c), roles[:len(roles)-1] + string(c), people + string(c)} {
			if list := map[bool]string{true: "people", false: "roles"}[strings.HasPrefix(other, people[:last])]; other != people && other != roles {
				wantStatus(t, h.get("/api/v5/"+list+"?after="+url.QueryEscape(other), x), 400, "")
			}
		}
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"made up":            h.get("/api/v5/roles?after=host", x),
		"SQL":                h.get("/api/v5/people?after="+url.QueryEscape("' OR 1=1 --"), x),
		"NUL":                h.get("/api/v5/people?after=%00", x),
		"another list's":     h.get("/api/v5/people?after="+url.QueryEscape(roles), x),
		"another, the other": h.get("/api/v5/circles?after="+url.QueryEscape(people), x),
		"changed":            h.get("/api/v5/roles?after="+url.QueryEscape(changed), x),
		"cut":                h.get("/api/v5/roles?after="+url.QueryEscape(roles[:len(roles)-1]), x),
		"longer":             h.get("/api/v5/roles?after="+url.QueryEscape(roles)+"A", x),
		"very long":          h.get("/api/v5/roles?after="+strings.Repeat("A", 20000), x),
		"sent twice":         h.get("/api/v5/roles?after="+url.QueryEscape(roles)+"&after="+url.QueryEscape(roles), x),
		"of an organization": h.get("/api/v5/roles?after="+url.QueryEscape(roles), siv),
		"limit 0":            h.get("/api/v5/roles?limit=0", x),
		"limit 201":          h.get("/api/v5/roles?limit=201", x),
		"limit -1":           h.get("/api/v5/roles?limit=-1", x),
		"limit a word":       h.get("/api/v5/roles?limit=all", x),
		"limit huge":         h.get("/api/v5/roles?limit=99999999999999999999", x),
		"limit twice":        h.get("/api/v5/roles?limit=1&limit=1", x),
		"broken escape":      h.get("/api/v5/roles?limit=%zz", x),
	} {
		t.Run(name, func(t *testing.T) {
			wantStatus(t, w, 400, "")
			if e := parse[map[string]string](t, w); e["error"] != "invalid_request" {
				t.Errorf("got %s", w.Body)
			}
		})
	}
}
