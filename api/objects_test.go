package api_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/policy"
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

// An admin's approval of the whole organization is said to be that of an admin, where the
// organization lets apps read only too.
func TestMeOfAdminUnderReadOnly(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", whole)
	_, _, err := h.store.SetPolicy(t.Context(), store.Rules{Organization: "nordlys", Policy: policy.Policy{Ceiling: grantset.Ceiling{ReadOnly: true}}}, store.Act{Actor: "operator"})
	if err != nil {
		t.Fatal(err)
	}
	g := parse[api.Me](t, h.get("/api/v5/me", x.access)).Grant
	if g.Words != "Everything in this organization; the organization lets apps read only" || g.Administers {
		t.Errorf("grant %+v", g)
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

// Decision B3: what the authority does not give is 403 with a reason, and
// never insufficient_scope.
func TestForbidden(t *testing.T) {
	h := newHouse(t)
	nobody := api.Actor{Person: "ada", Organization: "nordlys"}
	_, err := h.server.Me(t.Context(), nobody, nil)
	fault, ok := err.(*api.Fault)
	if !ok || fault.Status != 403 || fault.Code != "forbidden" || fault.Reason == "" {
		t.Errorf("me: %v", err)
	}
}

// The route, for the log: what the path matched, and never the path.
func TestPattern(t *testing.T) {
	h := newHouse(t)
	for path, want := range map[string]string{
		"/api/v5/me": "/api/v5/me", "/api/v5/mcp": "/api/v5/mcp", "/api/v3/me": "/api/v3/me", "/api/v4/me": "/api/v4/me", "/api/v5/me?y=z": "/api/v5/me",
		"/api/v5/roles": "/api/", "/api/v5/roles/host": "/api/", "/api/v5/me/": "/api/", "/api/v5%2Fme": "/api/", "/api/v3/people": "/api/", "/api/": "/api/",
		"/api/v5/%6De": "/api/v5/me",
	} {
		r := httptest.NewRequest("GET", base+path, nil)
		h.handler.ServeHTTP(httptest.NewRecorder(), r)
		if r.Pattern != want {
			t.Errorf("%s: got %q, want %q", path, r.Pattern, want)
		}
	}
}

// Decision V46: without a service there is nothing but who calls, and the answer
// says what is missing; behind the guard, so that no stranger learns it.
func TestNoServiceIsConnected(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	for path, says := range map[string]string{
		"/api/v5": "api.upstream", "/api/v5/": "api.upstream", "/api/v5//me": "api.upstream", "/api/v5/me/": "api.upstream", "/api/v5/Me": "api.upstream",
		"/api/v5/notes": "api.upstream", "/api/v5/people/ada": "api.upstream", "/api/v5/openapi.json": "api.upstream", "/api/v5%2Fme": "api.upstream",
		"/api/v5%2Fmcp": "api.upstream", "/api/v5/mcp/": "api.upstream", "/api/v5/mcp": "mcp.upstream",
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			w := h.send(method, path, x, "")
			wantStatus(t, w, 404, "")
			want := `{"error":"not_found","error_description":"No service is connected here yet: the operator sets ` + says + `.","reference":"request-1"}`
			if w.Body.String() != want {
				t.Errorf("%s %s: got %s", method, path, w.Body)
			}
		}
		if w := h.call("GET", path); w.Code != 401 || strings.Contains(w.Body.String(), "connected") {
			t.Errorf("%s without a credential: %d %s", path, w.Code, w.Body)
		}
	}
	h.server.Connected = true
	wantStatus(t, h.get("/api/v5%2Fnotes", x), 404, "") // what is no path of the service's
	if w := h.get("/api/v5%2Fnotes", x); strings.Contains(w.Body.String(), "connected") {
		t.Errorf("got %s", w.Body)
	}
}

func TestMethodsOfMe(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get"} {
		w := h.call(method, "/api/v5/me", "Authorization", "Bearer "+x)
		wantStatus(t, w, 405, "")
		if got := w.Header().Get("Allow"); got != "GET, HEAD" {
			t.Errorf("%s: Allow %q", method, got)
		}
	}
	wantStatus(t, h.call("HEAD", "/api/v5/me", "Authorization", "Bearer "+x), 200, "")
	wantStatus(t, h.call("POST", "/api/v4/me", "X-Auth-Token", "key-of-ada-for-tests"), 405, "")
	wantStatus(t, h.get("/api/v5/%6De", x), 200, "") // RFC 3986 section 2.3
}
