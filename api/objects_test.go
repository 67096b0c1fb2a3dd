package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

func access(m api.Me) string {
	var s []string
	for _, r := range m.Roles {
		s = append(s, r.ID+"="+r.Access)
	}
	return strings.Join(s, " ")
}

func TestMe(t *testing.T) {
	read, change := grantset.Pick{Role: "secretary"}, grantset.Pick{Role: "treasurer", Change: true}
	for _, c := range []struct {
		name          string
		person        string
		grant         grantset.Set
		words, access string
		personal      bool
		administers   bool
	}{
		{"everything", "ada", everything, "Everything I can access", "secretary=change treasurer=change", true, true},
		{"everything of a member", "tor", everything, "Everything I can access", "host=change", true, false},
		{"whole organization", "ada", whole, "Everything in this organization", "secretary=change treasurer=change", false, true},
		{"a role to read", "ada", roles(false, read), "Only selected roles: Secretary (read)", "secretary=read treasurer=none", false, false},
		{"two roles and personal items", "ada", roles(true, read, change), "Only selected roles: Secretary (read), Treasurer (change); and personal items", "secretary=read treasurer=change", true, false},
		{"personal items alone", "ada", roles(true), "Only selected roles: none now; and personal items", "secretary=none treasurer=none", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			w := h.get("/api/v5/me", h.live(c.person, "nordlys", c.grant).access)
			wantStatus(t, w, 200, "")
			m := parse[api.Me](t, w)
			if m.Person.ID != c.person || m.Organization != (api.Named{ID: "nordlys", Name: "Nordlys"}) || m.Client != "client-1" {
				t.Errorf("got %s", w.Body)
			}
			g := m.Grant
			if g.Kind != string(c.grant.Kind) || g.Words != c.words || g.PersonalItems != c.personal || g.Administers != c.administers {
				t.Errorf("grant %+v", g)
			}
			if got := access(m); got != c.access {
				t.Errorf("roles %s, want %s", got, c.access)
			}
		})
	}
}

// An API key acts as its person, on every version alike.
func TestMeOfKey(t *testing.T) {
	h := newHouse(t)
	for _, v := range []string{"v3", "v4", "v5"} {
		w := h.call("GET", "/api/"+v+"/me", "X-Auth-Token", "key-of-ada-for-tests")
		wantStatus(t, w, 200, "")
		m := parse[api.Me](t, w)
		if m.Person != (api.Named{ID: "ada", Name: `Ada "Countess" Nord`}) || m.Organization.ID != "nordlys" || m.Client != "" || !m.Grant.Administers || strings.Contains(w.Body.String(), "client_id") {
			t.Errorf("%s: got %s", v, w.Body)
		}
	}
}

// authority is what the person may do at the call.
func TestAuthorityIsOfNow(t *testing.T) {
	h := newHouse(t)
	act := store.Act{Actor: "operator"}
	admin := h.live("ada", "nordlys", whole)
	picked := h.live("ada", "nordlys", roles(false, grantset.Pick{Role: "treasurer", Change: true}))
	all := h.live("ada", "nordlys", everything)
	for _, change := range []error{
		h.store.SetAdmin(t.Context(), "nordlys", "ada", false, act),
		h.store.SetFiller(t.Context(), "treasurer", "ada", false, act),
		h.store.SetFiller(t.Context(), "host", "ada", true, act),
	} {
		if change != nil {
			t.Fatal(change)
		}
	}
	m := parse[api.Me](t, h.get("/api/v5/me", admin.access))
	if m.Grant.Administers || !strings.Contains(m.Grant.Words, "not an admin") {
		t.Errorf("still an admin: %+v", m.Grant)
	}
	m = parse[api.Me](t, h.get("/api/v5/me", picked.access))
	if got := access(m); got != "host=none secretary=none" || m.Grant.Words != "Only selected roles: none now" {
		t.Errorf("picked: %s, %+v", got, m.Grant)
	}
	if got := access(parse[api.Me](t, h.get("/api/v5/me", all.access))); got != "host=change secretary=change" {
		t.Errorf("everything: %s", got)
	}
	if err := h.store.SetFiller(t.Context(), "treasurer", "ada", true, act); err != nil {
		t.Fatal(err)
	}
	if got := access(parse[api.Me](t, h.get("/api/v5/me", picked.access))); got != "host=none secretary=none treasurer=change" {
		t.Errorf("regained: %s", got)
	}
}

// G-11: the scope is no authority, wherever it is said.
func TestScopeWidensNothing(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", roles(false, grantset.Pick{Role: "treasurer"}))
	want := h.get("/api/v5/me", x.access).Body.String()
	if strings.Contains(want, "scope") {
		t.Errorf("a scope in %s", want)
	}
	for _, query := range []string{"?scope=api", "?scope=", "?scope=everything&grant=organization"} {
		if got := h.get("/api/v5/me"+query, x.access).Body.String(); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
}

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
	m := parse[api.Me](t, h.get("/api/v5/me", x.access))
	if got := access(m); got != "secretary=change treasurer=change" {
		t.Errorf("roles %s", got)
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
	h.server.MCP = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("MCP was asked at %s", r.URL) })
	x := h.live("ada", "nordlys", everything).access
	for _, path := range []string{
		"/api/v5", "/api/v5/", "/api/v5//me", "/api/v5/me/", "/api/v5/Me", "/api/v5/me/x", "/api/v5/people/", "/api/v5/people/ada/",
		"/api/v5/people/ada/roles", "/api/v5/people/tor@nordlys.example", "/api/v5/people/%00", "/api/v5/people/%2F", "/api/v5/people/..",
		"/api/v5/roles/" + strings.Repeat("a", 5000), "/api/v5/roles/'%20OR%201=1", "/api/v5/mcp/", "/api/v5/mcp/x", "/api/v5/MCP", "/api/v5/mcp%2F",
		"/api/v5%2Fme", "/api/v5%2fme", "/api%2Fv5/me", "/api/v5/people%2Fada", "/api/v5%2Fmcp", "/api/v5/roles/host%2Ffillers%2Fada", // RFC 3986 section 2.2
	} {
		w := h.get(path, x)
		wantStatus(t, w, 404, "")
		if e := parse[map[string]string](t, w); e["error"] != "not_found" {
			t.Errorf("%s: got %s", path, w.Body)
		}
	}
	wantStatus(t, h.get("/api/v5/%6De", x), 200, "") // RFC 3986 section 2.3
	h.server.MCP = nil
	wantStatus(t, h.call("POST", "/api/v5/mcp", "Authorization", "Bearer "+x), 404, "")
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
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "GET", "HEAD"} {
			if strings.Contains(allow, method) {
				continue
			}
			w := h.call(method, path, "Authorization", "Bearer "+x.access)
			wantStatus(t, w, 405, "")
			if got := w.Header().Get("Allow"); got != allow {
				t.Errorf("%s %s: Allow %q", method, path, got)
			}
		}
		if w := h.call("HEAD", path, "Authorization", "Bearer "+x.access); strings.Contains(allow, "HEAD") && path != "/api/v5/tensions/x" {
			wantStatus(t, w, 200, "")
		}
	}
	wantStatus(t, h.call("POST", "/api/v4/me", "X-Auth-Token", "key-of-ada-for-tests"), 405, "")
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

// Decision B3: what the authority does not give is 403 with a reason, and
// never insufficient_scope.
func TestForbidden(t *testing.T) {
	h := newHouse(t)
	nobody := api.Actor{Person: "ada", Organization: "nordlys"}
	_, err := h.server.Me(t.Context(), nobody)
	fault, ok := err.(*api.Fault)
	if !ok || fault.Status != 403 || fault.Code != "forbidden" || fault.Reason == "" {
		t.Errorf("me: %v", err)
	}
	for name, ask := range map[string]func() error{
		"people":  func() error { _, err := h.server.People(t.Context(), nobody, "", 10); return err },
		"person":  func() error { _, err := h.server.Person(t.Context(), nobody, "ada"); return err },
		"circles": func() error { _, err := h.server.Circles(t.Context(), nobody, "", 10); return err },
		"circle":  func() error { _, err := h.server.Circle(t.Context(), nobody, "money"); return err },
		"roles":   func() error { _, err := h.server.Roles(t.Context(), nobody, api.RoleFilter{}, "", 10); return err },
		"role":    func() error { _, err := h.server.Role(t.Context(), nobody, "host"); return err },
	} {
		if fault, ok := ask().(*api.Fault); !ok || fault.Status != 403 {
			t.Errorf("%s: %v", name, ask())
		}
	}
}

// The route, for the log: what the path matched, and never the path.
func TestPattern(t *testing.T) {
	h := newHouse(t)
	for path, want := range map[string]string{
		"/api/v5/me": "/api/v5/me", "/api/v5/mcp": "/api/v5/mcp", "/api/v3/me": "/api/v3/me", "/api/v5/roles": "/api/v5/roles",
		"/api/v5/roles/host": "/api/v5/roles/{id}", "/api/v5/people/x?y=z": "/api/v5/people/{id}",
		"/api/v5/roles/host/fillers/ada": "/api/v5/roles/{id}/fillers/{person}", "/api/v5/notes/7": "/api/v5/notes/{id}",
		"/api/v5/organization": "/api/v5/organization", "/api/v5/openapi.json": "/api/v5/openapi.json",
		"/api/v5/notes/7/fillers/ada": "/api/", "/api/v5/roles/host/fillers": "/api/", "/api/v5/roles/host/fillers/": "/api/",
		"/api/v5/roles//fillers/ada": "/api/", "/api/v5/roles/host/fillers/a/b": "/api/", "/api/v5/{id}": "/api/", "/api/v3/people": "/api/",
		"/api/v4/me":     "/api/v4/me",
		"/api/v5/roles/": "/api/", "/api/v5/roles/a/b": "/api/", "/api/v5/secret": "/api/", "/api/": "/api/",
	} {
		r := httptest.NewRequest("GET", base+path, nil)
		h.handler.ServeHTTP(httptest.NewRecorder(), r)
		if r.Pattern != want {
			t.Errorf("%s: got %q, want %q", path, r.Pattern, want)
		}
	}
}
