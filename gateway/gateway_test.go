package gateway

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

const (
	missing    = `Bearer realm="Svalinn", resource_metadata="` + base + `/.well-known/oauth-protected-resource/api/v5"`
	invalid    = missing + `, error="invalid_token"`
	mcpMissing = `Bearer realm="Svalinn", resource_metadata="` + base + `/.well-known/oauth-protected-resource/api/v5/mcp"`
	oldMissing = `Bearer realm="Svalinn"`
	oldInvalid = oldMissing + `, error="invalid_token"`
)

// Both ways to ask give what the guard would have answered.
func TestRefusals(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", everything)
	old := h.live("ada", everything)
	h.Move(old.id, approval.End(approval.RevokedByPerson, h.now()))
	const bearer, key = "Authorization", "X-Auth-Token"
	for _, c := range []struct {
		name, path string
		headers    []string // of the original
		status     int
		code       string
		challenge  string
	}{
		{"nothing", "/api/v5/notes", nil, 401, "unauthorized", missing},
		{"nothing, with a query", "/api/v5/notes?a=/api/v3", nil, 401, "unauthorized", missing},
		{"nothing, MCP", "/api/v5/mcp", nil, 401, "unauthorized", mcpMissing},
		{"nothing, root", "/api/v5", nil, 401, "unauthorized", missing},
		{"nothing, v4", "/api/v4/me", nil, 401, "unauthorized", oldMissing},
		{"garbage", "/api/v5/notes", []string{bearer, "Bearer garbage"}, 401, "invalid_token", invalid},
		{"ended", "/api/v5/notes", []string{bearer, "Bearer " + old.access}, 401, "invalid_token", invalid},
		{"refresh token", "/api/v5/notes", []string{bearer, "Bearer " + x.refresh}, 401, "invalid_token", invalid},
		{"API key as bearer", "/api/v5/notes", []string{bearer, "Bearer " + adaKey}, 401, "invalid_token", invalid},
		{"token as API key", "/api/v5/notes", []string{key, x.access}, 401, "invalid_token", invalid},
		{"unknown API key", "/api/v5/notes", []string{key, "nobody's"}, 401, "invalid_token", invalid},
		{"two credentials", "/api/v5/notes", []string{bearer, "Bearer " + x.access, key, adaKey}, 401, "invalid_token", invalid},
		{"OAuth token on v3", "/api/v3/notes", []string{bearer, "Bearer " + x.access}, 401, "invalid_token", oldInvalid},
		{"OAuth token on v4", "/api/v4/notes?x", []string{bearer, "Bearer " + x.access}, 401, "invalid_token", oldInvalid},
		{"outside every API", "/notes", []string{bearer, "Bearer " + x.access}, 404, "not_found", ""},
		{"a neighbour of v5", "/api/v55", []string{key, adaKey}, 404, "not_found", ""},
		{"in capitals", "/API/v5/notes", []string{key, adaKey}, 404, "not_found", ""},
		{"climbing out of v5", "/api/v5/../v3/notes", []string{bearer, "Bearer " + x.access}, 400, "invalid_request", ""},
		{"without a slash before it", "api/v5/notes", []string{bearer, "Bearer " + x.access}, 400, "invalid_request", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := h.forward(append([]string{"X-Original-URI", c.path}, c.headers...)...)
			got := parse[map[string]string](t, w)
			if w.Code != c.status || got["error"] != c.code || got["reference"] != "request-1" || strings.Join(w.Header()["Www-Authenticate"], "|") != c.challenge {
				t.Errorf("forward-auth: %d %v %s", w.Code, w.Header(), w.Body)
			}
			for name := range w.Header() {
				if strings.HasPrefix(name, identity.Prefix) {
					t.Errorf("a refusal tells %s", name)
				}
			}
			members := []string{`"path":` + quoted(c.path)}
			for pair := range slices.Chunk(c.headers, 2) {
				if token, ok := strings.CutPrefix(pair[1], "Bearer "); ok {
					members = append(members, `"token":`+quoted(token))
				} else {
					members = append(members, `"api_key":`+quoted(pair[1]))
				}
			}
			d := h.decided("{" + strings.Join(members, ",") + "}")
			want := decision{Status: c.status, Error: c.code, Reason: d.Reason, WWWAuthenticate: c.challenge}
			if d != want || d.Reason == "" || d.Reason != got["error_description"] {
				t.Errorf("decision: %+v, want %+v", d, want)
			}
		})
	}
}

// Who may pass, and what both ways tell of them.
func TestAllowed(t *testing.T) {
	h := newHouse(t)
	all, some, admins, tors := h.live("ada", everything), h.live("ada", selected), h.live("ada", whole), h.live("tor", everything)
	lost := h.live("ada", grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "host", Change: true}}})
	both := []role{{"secretary", "change"}, {"treasurer", "change"}}
	actorOf := func(x tokens, person, grant string, admin, personal bool, roles ...role) actor {
		return actor{Person: person, Organization: "nordlys", Approval: x.id.String(), Client: "client-1", Grant: grant, Admin: admin, Personal: personal, Roles: roles}
	}
	for _, c := range []struct {
		name, path     string
		access, apiKey string
		want           actor
		authority      string
	}{
		{"everything, by an admin", "/api/v5/notes", all.access, "", actorOf(all, "ada", "everything", true, true, both...), "admin,personal"},
		{"everything, by a member", "/api/v5/notes", tors.access, "", actorOf(tors, "tor", "everything", false, true, role{"host", "change"}), "personal"},
		{"selected roles", "/api/v5/mcp", some.access, "", actorOf(some, "ada", "roles", false, true, role{"secretary", "read"}, role{"treasurer", "change"}), "personal,secretary=read,treasurer=change"},
		{"the organization", "/api/v5", admins.access, "", actorOf(admins, "ada", "organization", true, false, both...), "admin"},
		{"a role that is not filled now", "/api/v5/notes", lost.access, "", actorOf(lost, "ada", "roles", false, false, []role{}...), ""},
		{"API key", "/api/v5/notes", "", adaKey, actor{Person: "ada", Organization: "nordlys", Grant: "everything", Admin: true, Personal: true, Roles: both}, "admin,personal"},
		{"API key on v3", "/api/v3/notes", "", adaKey, actor{Person: "ada", Organization: "nordlys", Grant: "everything", Admin: true, Personal: true, Roles: both}, "admin,personal"},
		{"API key on v4", "/api/v4/notes?x=%2e%2e", "", adaKey, actor{Person: "ada", Organization: "nordlys", Grant: "everything", Admin: true, Personal: true, Roles: both}, "admin,personal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want.Roles == nil {
				c.want.Roles = []role{}
			}
			members, headers := `"token":`+quoted(c.access), []string{"Authorization", "Bearer " + c.access}
			if c.apiKey != "" {
				members, headers = `"api_key":`+quoted(c.apiKey), []string{"X-Auth-Token", c.apiKey}
			}
			d := h.decided(`{"path":` + quoted(c.path) + `,"method":"DELETE","host":"app.example",` + members + `}`)
			if !d.Allowed || !reflect.DeepEqual(*d.Actor, c.want) || d.Status != 0 || d.Error != "" {
				t.Errorf("decision: %+v %+v, want %+v", d, d.Actor, c.want)
			}
			w := h.forward(append(headers, "X-Original-URI", c.path)...)
			if w.Code != 200 || w.Body.Len() != 0 {
				t.Fatalf("forward-auth: %d %s", w.Code, w.Body)
			}
			for name, want := range map[string]string{
				"X-Grantkeeper-Person": c.want.Person, "X-Grantkeeper-Organization": "nordlys", "X-Grantkeeper-Approval": c.want.Approval,
				"X-Grantkeeper-Client": c.want.Client, "X-Grantkeeper-Grant": c.want.Grant, "X-Grantkeeper-Authority": c.authority,
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			who, err := identity.Verify(w.Header(), h.now(), []byte(forwards))
			if err != nil || who.Person != c.want.Person || who.Approval != c.want.Approval {
				t.Errorf("verified: %+v, %v", who, err)
			}
			for _, other := range []string{asks, adaKey} {
				if _, err := identity.Verify(w.Header(), h.now(), []byte(other)); err == nil {
					t.Error("another gateway's key verifies it")
				}
			}
		})
	}
}

// What a person may no more, no gateway is told (decision P6).
func TestAuthorityFollowsThePerson(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", whole)
	if err := h.store.SetAdmin(t.Context(), "nordlys", "ada", false, store.Act{Actor: "operator"}); err != nil {
		t.Fatal(err)
	}
	d := h.decided(`{"token":"` + x.access + `"}`)
	if !d.Allowed || d.Actor.Admin || d.Actor.Grant != "organization" {
		t.Errorf("no admin now: %+v", d.Actor)
	}
	if got := h.forward("X-Original-URI", "/api/v5", "Authorization", "Bearer "+x.access).Header(); got.Get("X-Grantkeeper-Authority") != "" {
		t.Errorf("told: %v", got)
	}
	h.Pass(30 * time.Minute)
	if d := h.decided(`{"token":"` + x.access + `"}`); d.Allowed || d.Status != 401 {
		t.Errorf("after 30 minutes: %+v", d)
	}
}

// G-13: requests with API keys and OAuth tokens, to the API, by decisions and by
// forward-auth, are counted together, each once, and refused ones not at all.
func TestG13OneLimit(t *testing.T) {
	h := newHouse(t)
	h.api.Limit = limit.NewNames(limit.Limit{N: 8, Window: 10 * time.Minute})
	x := h.live("ada", everything)
	calls := h.api.Handler()
	call := func() {
		t.Helper()
		r := httptest.NewRequest("GET", base+"/api/v5/me", nil)
		r.Header.Set("Authorization", "Bearer "+x.access)
		w := httptest.NewRecorder()
		if calls.ServeHTTP(w, r); w.Code != 200 {
			t.Fatalf("the API: %d %s", w.Code, w.Body)
		}
	}
	left := 8
	decide := func(body string) {
		t.Helper()
		left--
		if d := h.decided(body); !d.Allowed || *d.Limit != (quota{8, left, 600}) {
			t.Fatalf("%s: %+v %+v, want %d left", body, d, d.Limit, left)
		}
	}
	forward := func(headers ...string) {
		t.Helper()
		left--
		if w := h.forward(append(headers, "X-Original-URI", "/api/v5/notes")...); w.Code != 200 {
			t.Fatalf("forward-auth: %d %s", w.Code, w.Body)
		}
	}
	call()
	left--
	decide(`{"token":"` + x.access + `"}`)
	decide(`{"api_key":"` + adaKey + `","path":"/api/v3/notes"}`)
	forward("Authorization", "Bearer "+x.access)
	for range 20 { // G-14: what is refused takes nothing
		h.decided(`{"token":"garbage"}`)
		h.decided(`{}`)
		h.decided(`{"token":"` + x.access + `","api_key":"` + adaKey + `"}`)
		h.decided(`{"token":"` + x.access + `","path":"/api/v3"}`)
		h.decided(`{"token":"` + x.access + `","host":"evil.example"}`)
		h.decided(`{"token":"` + x.access + `","path":"/nowhere"}`)
		h.forward("X-Original-URI", "/api/v5")
		send(t, h.handler, "GET", "/v1/forward-auth", "", "X-Original-URI", "/api/v5", "Authorization", "Bearer "+x.access)
	}
	forward("X-Auth-Token", adaKey)
	call()
	left--
	decide(`{"token":"` + x.access + `"}`)
	decide(`{"api_key":"` + adaKey + `"}`)

	h.Pass(90 * time.Second)
	d := h.decided(`{"token":"` + x.access + `"}`)
	if d.Allowed || d.Status != 429 || d.Error != "rate_limited" || d.RetryAfter != 510 || d.WWWAuthenticate != "" || d.Actor != nil || d.Reason == "" {
		t.Errorf("over the limit: %+v", d)
	}
	w := h.forward("X-Original-URI", "/api/v5", "X-Auth-Token", adaKey)
	if w.Code != 429 || w.Header().Get("Retry-After") != "510" || w.Header().Get("X-Grantkeeper-Person") != "" {
		t.Errorf("over the limit: %d %v", w.Code, w.Header())
	}
	h.Pass(510 * time.Second)
	left = 8
	decide(`{"token":"` + x.access + `"}`)
}

func TestAnOrganizationsOwnLimitIsTold(t *testing.T) {
	h := newHouse(t)
	h.api.LimitOf = func(organization string) int { return map[string]int{"nordlys": 5}[organization] }
	if d := h.decided(`{"api_key":"` + adaKey + `"}`); *d.Limit != (quota{5, 4, 600}) {
		t.Errorf("limit %+v", d.Limit)
	}
	h.api.LimitOf = func(string) int { return 0 }
	if d := h.decided(`{"api_key":"` + adaKey + `"}`); *d.Limit != (quota{3000, 2998, 600}) {
		t.Errorf("limit %+v", d.Limit)
	}
}

// nginx knows 401 and 403 alone.
func TestDenialsForNginx(t *testing.T) {
	h := newHouse(t)
	h.api.Limit = limit.NewNames(limit.Limit{N: 1, Window: 10 * time.Minute})
	h.decided(`{"api_key":"` + adaKey + `"}`)
	for _, c := range []struct {
		name         string
		headers      []string
		status, said int // said is 0 where the header is not there
	}{
		{"no credential", []string{"X-Gateway-Key", forwards, "X-Original-URI", "/api/v5"}, 401, 0},
		{"over the limit", []string{"X-Gateway-Key", forwards, "X-Original-URI", "/api/v5", "X-Auth-Token", adaKey}, 403, 429},
		{"no such API", []string{"X-Gateway-Key", forwards, "X-Original-URI", "/x", "X-Auth-Token", adaKey}, 403, 404},
		{"a path of two readings", []string{"X-Gateway-Key", forwards, "X-Original-URI", "/api/v5/..", "X-Auth-Token", adaKey}, 403, 400},
		{"another host", []string{"X-Gateway-Key", forwards, "X-Original-URI", "/api/v5", "X-Original-Host", "evil.example"}, 403, 421},
		{"no gateway", []string{"X-Original-URI", "/api/v5", "X-Auth-Token", adaKey}, 403, 403},
	} {
		w := send(t, h.handler, "GET", "/v1/forward-auth?deny=403", "", c.headers...)
		said := ""
		if c.said != 0 {
			said = fmt.Sprint(c.said)
		}
		if w.Code != c.status || w.Header().Get("X-Grantkeeper-Status") != said || c.said == 429 && w.Header().Get("Retry-After") != "600" {
			t.Errorf("%s: %d %v", c.name, w.Code, w.Header())
		}
	}
	h.Pass(10 * time.Minute)
	w := send(t, h.handler, "GET", "/v1/forward-auth?deny=403", "", "X-Gateway-Key", forwards, "X-Original-URI", "/api/v5", "X-Auth-Token", adaKey)
	if w.Code != 200 || w.Header().Get("X-Grantkeeper-Status") != "" || w.Header().Get("X-Grantkeeper-Person") != "ada" {
		t.Errorf("allowed: %d %v", w.Code, w.Header())
	}
	for _, query := range []string{"?deny=429", "?deny=403&x=1", "?x", "?Deny=403"} {
		if w := send(t, h.handler, "GET", "/v1/forward-auth"+query, "", "X-Gateway-Key", forwards, "X-Original-URI", "/api/v5"); w.Code != 400 {
			t.Errorf("%s: %d", query, w.Code)
		}
	}
}

// What a proxy did not mean decides nothing: two originals that differ are
// refused, and other headers and credentials are not read.
func TestHostileHeaders(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", everything)
	token := []string{"Authorization", "Bearer " + x.access}
	for _, c := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"X-Original-URI", []string{"X-Original-URI", "/api/v5/a"}, 200},
		{"X-Forwarded-Uri", []string{"X-Forwarded-Uri", "/api/v5/a"}, 200},
		{"both, alike", []string{"X-Original-URI", "/api/v5/a", "X-Forwarded-Uri", "/api/v5/a"}, 200},
		{"one of them empty", []string{"X-Original-URI", "/api/v5/a", "X-Forwarded-Uri", ""}, 200},
		{"both, and they differ", []string{"X-Original-URI", "/api/v3/a", "X-Forwarded-Uri", "/api/v5/a"}, 400},
		{"both, and they differ in the query", []string{"X-Original-URI", "/api/v5/a", "X-Forwarded-Uri", "/api/v5/a?x"}, 400},
		{"one twice", []string{"X-Original-URI", "/api/v5/a", "X-Original-URI", "/api/v5/a"}, 400},
		{"none", nil, 400},
		{"an empty one", []string{"X-Original-URI", ""}, 400},
		{"a URL", []string{"X-Original-URI", "https://app.example/api/v5/a"}, 400},
		{"a list", []string{"X-Original-URI", "/api/v5/a, /api/v3/a"}, 200}, // one path with a comma in it
		{"the host", []string{"X-Original-URI", "/api/v5", "X-Forwarded-Host", "APP.example"}, 200},
		{"the other host", []string{"X-Original-URI", "/api/v5", "X-Original-Host", "eu.example:8443"}, 200},
		{"hosts that differ", []string{"X-Original-URI", "/api/v5", "X-Forwarded-Host", "app.example", "X-Original-Host", "eu.example:8443"}, 400},
		{"a host twice", []string{"X-Original-URI", "/api/v5", "X-Forwarded-Host", "app.example", "X-Forwarded-Host", "app.example"}, 400},
		{"a stranger's host", []string{"X-Original-URI", "/api/v5", "X-Forwarded-Host", "evil.example"}, 421},
		{"a list of hosts", []string{"X-Original-URI", "/api/v5", "X-Forwarded-Host", "app.example, evil.example"}, 421},
		{"a preflight by its headers", []string{"X-Original-URI", "/api/v5", "X-Original-Method", "OPTIONS", "Access-Control-Request-Method", "GET"}, 200},
	} {
		if w := h.forward(append(token, c.headers...)...); w.Code != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.status)
		}
	}
	// Without a credential nothing makes one.
	for _, headers := range [][]string{
		{"Cookie", "session=" + x.access}, {"X-Forwarded-Authorization", "Bearer " + x.access}, {"Proxy-Authorization", "Bearer " + x.access},
		{"X-Grantkeeper-Person", "ada"}, {"X-Original-Method", "OPTIONS", "Access-Control-Request-Method", "GET"},
	} {
		if w := h.forward(append(headers, "X-Original-URI", "/api/v5")...); w.Code != 401 {
			t.Errorf("%v: %d", headers, w.Code)
		}
		r := append([]string{"X-Gateway-Key", forwards, "X-Original-URI", "/api/v5"}, headers...)
		if w := send(t, h.handler, "OPTIONS", "/v1/forward-auth", "", r...); w.Code != 401 {
			t.Errorf("OPTIONS, %v: %d", headers, w.Code)
		}
	}
	for _, twice := range [][]string{{"Authorization", "Bearer " + x.access}, {"X-Auth-Token", adaKey}} {
		if w := h.forward(append(append(twice, twice...), "X-Original-URI", "/api/v5")...); w.Code != 401 {
			t.Errorf("twice: %d", w.Code)
		}
	}
}

// The challenge names the document of the host that was asked.
func TestTheHostThatWasAsked(t *testing.T) {
	h := newHouse(t)
	const doc = "/.well-known/oauth-protected-resource/api/v5"
	for host, want := range map[string]string{"": base, "app.example": base, "app.example:443": base, "EU.example:8443": otherBase} {
		want = `resource_metadata="` + want + doc + `"`
		headers := []string{"X-Original-URI", "/api/v5"}
		if host != "" {
			headers = append(headers, "X-Forwarded-Host", host)
		}
		if got := h.forward(headers...).Header().Get("WWW-Authenticate"); !strings.Contains(got, want) {
			t.Errorf("%q, forward-auth: %s", host, got)
		}
		if got := h.decided(`{"host":"` + host + `"}`).WWWAuthenticate; !strings.Contains(got, want) {
			t.Errorf("%q, decision: %s", host, got)
		}
	}
	if d := h.decided(`{"host":"evil.example"}`); d.Allowed || d.Status != 421 || d.WWWAuthenticate != "" || strings.Contains(d.Reason, "evil") {
		t.Errorf("a stranger's host: %+v", d)
	}
}

// Any method asks, and Envoy appends the original's path.
func TestOtherProxies(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", everything)
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"} {
		if w := send(t, h.handler, method, "/v1/forward-auth", "", "X-Gateway-Key", both, "X-Forwarded-Uri", "/api/v5/x", "Authorization", "Bearer "+x.access); w.Code != 200 {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	for path, want := range map[string]int{
		"/api/v5/notes": 200, "/api/v5/notes?deny=403": 200, "/api/v5/a%20b": 200, "/api/v5/100%25": 200, "/api/v3/notes": 401, "/api/v5/../v3/notes": 400, "/api/v5/%2e%2e/v3/notes": 400,
		"/api/v5/a%2Fb": 200, "/api/v5/a%5Cb": 200, "/api/v5/a/../b": 400, "/api/v5/a|b%2F..": 400, "/api%2Fv5/a": 400, "/api%2Fv5/a|": 400, "/%61pi/v5/a": 400,
		"/notes?deny=403": 404, "/": 404, "//api/v5": 400,
	} {
		if w := send(t, h.handler, "POST", "/v1/forward-auth"+path, "", "X-Gateway-Key", both, "Authorization", "Bearer "+x.access); w.Code != want {
			t.Errorf("appended %s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
	w := send(t, h.handler, "GET", "/v1/forward-auth/api/v5/a", "", "X-Gateway-Key", both, "Authorization", "Bearer "+x.access, "X-Original-URI", "/api/v5/b")
	if w.Code != 400 {
		t.Errorf("two originals: %d", w.Code)
	}
}

// An escaped slash is no slash, and our part of a path before the original's is
// written plainly: else the original in the path would be overlooked, and what a
// stranger's header says be decided on.
func TestEscapedPathsOfOurs(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", everything)
	for path, want := range map[string]int{
		"/v1/forward-auth": 200, "/v1/%66orward-auth": 200, "/v1/forward-auth/api/v5/a": 200, "/v1/forward-auth/api/v5/a%2Fb": 400, // not what the header says
		"/v1%2Fforward-auth": 404, "/v1/forward-auth%2F": 404, "/v1/forward-auth%2Fapi/v3/a": 404, "/v1%2fforward-auth/api/v3/a": 404, "/v1/%66orward-auth/api/v3/a": 404,
		"/v1/forward-auth|/api/v3/a": 404, "//v1/forward-auth": 404, "/v1/./forward-auth": 404, "/v1/forward-auth;x": 404, `/v1\forward-auth`: 404,
		"/v1/decisions": 400, "/v1/%64ecisions": 400, "/v1%2Fdecisions": 404, "/v1/decisions%2F": 404, "/v1/decisions/": 404, "/v1/directory%2Fevents": 404, "/v1%2Fdirectory/events": 404,
	} {
		w := send(t, h.handler, "POST", path, "", "X-Gateway-Key", both, "Authorization", "Bearer "+x.access, "X-Original-URI", "/api/v5/a")
		if w.Code != want || want == 404 && !strings.Contains(w.Body.String(), "There is nothing at this path.") {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
}

// Decision O4: a gateway has a key for what it does and for nothing else. The
// refusal is not 401, which would be about the client's credential.
func TestGatewayKeys(t *testing.T) {
	h := newHouse(t)
	var log bytes.Buffer
	h.door.Log = slog.New(slog.NewTextHandler(&log, nil))
	x := h.live("ada", everything)
	good := func(path string, keys ...string) int {
		t.Helper()
		headers := []string{"Content-Type", "application/json", "X-Original-URI", "/api/v5", "Authorization", "Bearer " + x.access}
		for _, k := range keys {
			headers = append(headers, "X-Gateway-Key", k)
		}
		w := send(t, h.handler, "POST", path, `{"token":"`+x.access+`"}`, headers...)
		if w.Code == 403 {
			if e := parse[map[string]string](t, w); e["error"] != "gateway_key_refused" || w.Header().Get("WWW-Authenticate") != "" {
				t.Errorf("%s %q: %s", path, keys, w.Body)
			}
		}
		return w.Code
	}
	for _, c := range []struct {
		path string
		keys []string
		want int
	}{
		{decisionsPath, []string{asks}, 200}, {decisionsPath, []string{both}, 200}, {decisionsPath, []string{forwards}, 403},
		{forwardAuthPath, []string{forwards}, 200}, {forwardAuthPath, []string{both}, 200}, {forwardAuthPath, []string{asks}, 403},
		{decisionsPath, nil, 403}, {forwardAuthPath, nil, 403},
		{decisionsPath, []string{""}, 403}, {decisionsPath, []string{asks[:len(asks)-1]}, 403}, {decisionsPath, []string{asks + "x"}, 403},
		{decisionsPath, []string{" " + asks}, 403}, {decisionsPath, []string{strings.ToUpper(asks)}, 403},
		{decisionsPath, []string{asks, asks}, 403}, {forwardAuthPath, []string{forwards, both}, 403},
		{decisionsPath, []string{x.access}, 403},
	} {
		if got := good(c.path, c.keys...); got != c.want {
			t.Errorf("%s with %q: %d, want %d", c.path, c.keys, got, c.want)
		}
	}
	for _, headers := range [][]string{{"Authorization", "Bearer " + asks}, {"Authorization", "Basic " + asks}, {"X-Auth-Token", asks}} {
		if w := send(t, h.handler, "POST", decisionsPath, "{}", headers...); w.Code != 403 {
			t.Errorf("%v: %d", headers, w.Code)
		}
	}
	if !strings.Contains(log.String(), "gateway=nginx scope=decisions") {
		t.Errorf("the log does not say whose key lacks the scope:\n%s", &log)
	}
	for _, secret := range []string{asks, forwards, both, x.access} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has a secret:\n%s", &log)
		}
	}
}

// taken is a body after whose first byte the gateways have no keys any more.
type taken struct {
	io.Reader
	door *Server
}

func (b taken) Read(p []byte) (int, error) {
	b.door.Keys = func() []Key { return nil }
	return b.Reader.Read(p)
}

// A question that was held open while its gateway's key was taken away is not
// answered.
func TestAKeyThatIsTakenMeanwhile(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", everything)
	r := httptest.NewRequest("POST", decisionsPath, taken{strings.NewReader(`{"token":"` + x.access + `"}`), h.door})
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Gateway-Key", asks)
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	if w.Code != 403 || strings.Contains(w.Body.String(), "allowed") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestSecretsOfGateways(t *testing.T) {
	for _, good := range []string{asks, strings.Repeat("0123456789abcdef", 2), "!" + strings.Repeat("~", 31)} {
		if err := CheckSecret(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", asks[:31], asks + " ", asks + "\n" + asks, asks + "ä", asks + "\x7f", strings.Repeat("x", 40)} {
		if err := CheckSecret(bad); err == nil {
			t.Errorf("%q was taken", bad)
		} else if len(bad) > 8 && strings.Contains(err.Error(), bad[:8]) {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
}

func TestQuestions(t *testing.T) {
	h := newHouse(t)
	for _, bad := range []string{
		"", "null", "[]", `"x"`, "{", `{"token"}`, `{"token":1}`, `{"token":["x"]}`, `{"token":{}}`, `{"token":true}`, `{"token":"a","token":"a"}`, `{"token":null,"token":"a"}`,
		`{"Token":"a"}`, `{"tokens":"a"}`, `{"token":"a"}{}`, `{"token":"a"} x`, `{"token":"a",}`, "{\"token\":\"\xff\"}", `{"token":"` + strings.Repeat("x", maxBody) + `"}`,
	} {
		w := h.ask(bad)
		if w.Code != 400 || parse[map[string]string](t, w)["error"] != "invalid_request" {
			t.Errorf("%.40q: %d %s", bad, w.Code, w.Body)
		}
	}
	for _, good := range []string{`{}`, ` { } `, `{"token":null}`, `{"token":"","api_key":"","host":"","path":"","method":""}`} {
		if d := h.decided(good); d.Allowed || d.Status != 401 || d.WWWAuthenticate != missing {
			t.Errorf("%s: %+v", good, d)
		}
	}
	for _, headers := range [][]string{
		{"Content-Type", "application/x-www-form-urlencoded"}, {"Content-Type", "application/json; charset=utf-16"},
		{"Content-Type", "application/json", "Content-Type", "application/json"}, {"Content-Type", "application/json", "Content-Encoding", "gzip"},
	} {
		if w := send(t, h.handler, "POST", decisionsPath, "{}", append([]string{"X-Gateway-Key", asks}, headers...)...); w.Code != 400 {
			t.Errorf("%q: %d", headers, w.Code)
		}
	}
	if w := send(t, h.handler, "GET", decisionsPath, "", "X-Gateway-Key", asks); w.Code != 405 || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET: %d %v", w.Code, w.Header())
	}
	for _, path := range []string{"/", "/v1", "/v1/decisions/", "/v1//decisions", "/v1/forward-authx", "/api/v5/me", "/v1/people"} {
		if w := send(t, h.handler, "GET", path, "", "X-Gateway-Key", both); w.Code != 404 || parse[map[string]string](t, w)["error"] != "not_found" {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// A database that cannot be asked says neither yes nor no.
func TestFaultsOfOurs(t *testing.T) {
	h := newHouse(t)
	h.door.decide = func(w http.ResponseWriter, _ *http.Request) (api.Rights, bool) {
		w.Header().Set("Retry-After", "2")
		h.api.Answer(w, &api.Fault{Status: 503, Code: "temporarily_unavailable", Description: "Try again."})
		return api.Rights{}, false
	}
	w := h.ask(`{"api_key":"` + adaKey + `"}`)
	if w.Code != 503 || w.Header().Get("Retry-After") != "2" || parse[map[string]string](t, w)["reference"] != "request-1" || strings.Contains(w.Body.String(), "allowed") {
		t.Errorf("decision: %d %v %s", w.Code, w.Header(), w.Body)
	}
	// Every fault is passed on as what it is; every refusal is a decision.
	h.handler = h.door.Handler() // what is planted now is in no document
	for status := 400; status < 600; status++ {
		h.door.decide = func(w http.ResponseWriter, _ *http.Request) (api.Rights, bool) {
			h.api.Answer(w, &api.Fault{Status: status, Code: "x"})
			return api.Rights{}, false
		}
		w := h.ask(`{"api_key":"` + adaKey + `"}`)
		decided := strings.Contains(w.Body.String(), `{"allowed":false,"status":`+fmt.Sprint(status))
		if fault := status >= 500; fault && (w.Code != status || strings.Contains(w.Body.String(), "allowed")) || !fault && (w.Code != 200 || !decided) {
			t.Errorf("%d of the guard: %d %s", status, w.Code, w.Body)
		}
	}
	h.door.decide = func(w http.ResponseWriter, _ *http.Request) (api.Rights, bool) {
		h.api.Answer(w, &api.Fault{Status: 503, Code: "temporarily_unavailable"})
		return api.Rights{}, false
	}
	if w := h.forward("X-Original-URI", "/api/v5", "X-Auth-Token", adaKey); w.Code != 503 || w.Header().Get("X-Grantkeeper-Person") != "" {
		t.Errorf("forward-auth: %d %v", w.Code, w.Header())
	}
	// Nor does an actor whose names cannot stand in a header.
	var log bytes.Buffer
	h.door.Log = slog.New(slog.NewTextHandler(&log, nil))
	h.door.decide = func(http.ResponseWriter, *http.Request) (api.Rights, bool) {
		return api.Rights{Actor: api.Actor{Person: "ada\r\nX-Evil: 1", Organization: "nordlys"}}, true
	}
	w = h.forward("X-Original-URI", "/api/v5")
	if e := parse[map[string]string](t, w); w.Code != 500 || e["error"] != "server_error" || w.Header().Get("X-Evil") != "" || len(w.Header()["X-Grantkeeper-Organization"]) != 0 {
		t.Errorf("unsafe: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if !strings.Contains(log.String(), "request-1") {
		t.Errorf("the log does not have it: %s", &log)
	}
}

// Nobody may keep an answer about a credential (decision M6).
func TestNobodyKeepsAnswers(t *testing.T) {
	h := newHouse(t)
	for _, w := range []*httptest.ResponseRecorder{
		h.ask(`{"api_key":"` + adaKey + `"}`), h.ask(`{}`), h.ask(`x`), h.forward(), h.forward("X-Original-URI", "/api/v5", "X-Auth-Token", adaKey),
		send(t, h.handler, "GET", "/", ""), send(t, h.handler, "GET", forwardAuthPath, ""),
	} {
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d: %v", w.Code, w.Header())
		}
	}
}

// A path is one for every reader, or refused.
func TestSettle(t *testing.T) {
	for target, want := range map[string]string{
		"/api/v5": "/api/v5", "/api/v5?x": "/api/v5", "/api/v5/a%20b": "/api/v5/a b", "/api/v5/a%2Fb": "/api/v5/a/b", "/api/v5/a%5Cb": `/api/v5/a\b`,
		"/api/v5//a": "/api/v5//a", "/api/v5/a;x=1": "/api/v5/a;x=1", "/api/v5/100%25": "/api/v5/100%", "/": "/", "/api/v5/ä": "/api/v5/ä",
		"/api/v5/x?y=/../../": "/api/v5/x", "/api/v5/...": "/api/v5/...", "/api/v5/.a/b..": "/api/v5/.a/b..", "/api/v5/a%2Fb%C3%A4;x=..": "/api/v5/a/bä;x=..", "/api/v5/%2541": "/api/v5/%41",
	} {
		if got, ok := rootsOf(nil).settle(target); !ok || got != want {
			t.Errorf("%s: %q, %v", target, got, ok)
		}
	}
	for _, target := range []string{
		"", "api/v5", "?x", "*", "https://a/api/v5", "/api/v5#x", "/api/v5?a=1#&role=host", "/api/v5/%", "/api/v5/%zz", "/api/v5/\n", "/api/v5/%0a", "/api/v5/%00", "/api/v5/\x7f",
		"/api/v5/..", "/api/v5/../v3/x", "/api/v5/./../v3/x", "/api/v5/x/../../v3", "/api/v5/%2e%2e/v3", "/api/v5/%2E./v3", "/api/v5/..%2fv3", "/api/v5%2f..%2fv3",
		"/api/v5/%252e%252e/v3", "/api/v5/%25252e%25252e/v3", `/api/v5/..\v3`, `/api/v5\..\v3`, "/api/v5/..%5cv3", "/api/v5/..;/v3", "/api/v5/..;x=1/v3", "/api/v5/%2e%2e%3b/v3", `/api/v5/a;\..\..\v3`,
		"/api/v3/../v5/x", "/x/../api/v5", "//api/v5", "/api//v5", "/api/./v5", "/%61pi/v5", "/api/v5;x", "/api;x/v5", "/api/v5%2fx",
		"/api/v5/../../x", "/x/../y", "/api/v5/a/../b", "/api/v5/./a", "/api/v5/a/.", "/api/v5/a%2F.", `/api/v5/a\..`, "/api/v5/a%5C.", "/api/v5/..?x", "/api/v5/..%3Fx", "/api/v5/..%23x",
		"/api/v5/%2e%2e;%2Fv5/v3/x",              // parameters are cut out first, then it is decoded
		"/api/v5/a%2fb/../%2e%2e/v3/x",           // dot segments are resolved first, then it is decoded
		"/api/v5/../v3/notes///../../v5",         // doubled slashes are segments
		"/api/v5/%25zz/%252e%252e/%252e%252e/v3", // what is no escape is left
		"/api/v5/%c0%ae%c0%ae/v3", "/api/v5/%25c0%25ae%25c0%25ae/v3", "/api/v5/\xff", "/api/v5/%250a", "/api/v5/%2500",
		"/api/v5/%2525252541", // nobody's
	} {
		if got, ok := rootsOf(nil).settle(target); ok {
			t.Errorf("%q was taken as %q", target, got)
		}
	}
}

// readers do what some servers do with a path, in some order.
var readers = []func(string) string{
	rules.Unescaped,
	func(s string) string {
		if decoded, err := url.PathUnescape(s); err == nil {
			return decoded
		}
		return s
	},
	withoutParameters,
	path.Clean,
	withoutDots,
	func(s string) string { return strings.ReplaceAll(s, `\`, "/") },
	func(s string) string { s, _, _ = strings.Cut(s, "?"); return s },
	func(s string) string { s, _, _ = strings.Cut(s, "#"); return s },
}

// withoutDots resolves dot segments as RFC 3986 section 5.2.4 does: what is between
// two slashes is a segment, were it empty.
func withoutDots(s string) string {
	var out []string
	for i, segment := range strings.Split(s, "/") {
		switch {
		case segment == ".." && len(out) > 1:
			out = out[:len(out)-1]
		case segment != ".." && segment != "." || i == 0:
			out = append(out, segment)
		}
	}
	return strings.Join(out, "/")
}

// A path that is taken is under the same API however a service reads it.
func FuzzSettle(f *testing.F) {
	for _, s := range []string{
		"/api/v5/a", "/api/v5/%2e%2e/v3", `/api/v5/..\v3`, "/api/v5/..;/v3?x", "/api/v4/%252e/x", "/x", "/api/v5/%2e%2e;%2Fv5/v3/x", "/api/v5/a%2fb/../%2e%2e/v3/x",
		"/api/v5/../v3/notes///../../v5", "/api/v5/%25zz/%252e%252e/%252e%252e/v3", "/api/v5/a%5C%3B%2F%3F", "/api/v5//a;x=1//b",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		decoded, ok := rootsOf(nil).settle(s)
		if root := rootsOf(nil).of(decoded); ok && root != "" {
			raw, _, _ := strings.Cut(s, "?")
			seen := map[string]bool{raw: true}
			for now := []string{raw}; len(now) > 0 && len(seen) < 1000; now = now[1:] {
				if rootsOf(nil).of(now[0]) != root {
					t.Fatalf("%q is under %q, and may be read as %q", s, root, now[0])
				}
				for _, read := range readers {
					if next := read(now[0]); !seen[next] {
						seen[next] = true
						now = append(now, next)
					}
				}
			}
		}
	})
}

// What is wrong with a question is told apart: what it is, and what is in it.
func TestQuestionFaults(t *testing.T) {
	const members, object = "its members are token, api_key, host, path and method, or tool, arguments and read_only, each once", "it is not one JSON object of strings"
	for text, want := range map[string]string{
		`{"token":"a","token":"b"}`: members, `{"user":"a"}`: members, `{"token":"a","user":null}`: members,
		`{"token":1}`: object, `{"token":["a"]}`: object, `["token"]`: object, `{"token":"a"} {}`: object, `{"token":"a"`: object, "{\"token\":\"\xff\"}": object, ``: object,
	} {
		if q, err := parseQuestion([]byte(text)); err == nil || err.Error() != want || q != (question{}) {
			t.Errorf("%s: %+v, %v, want %s", text, q, err, want)
		}
	}
}

// A question that is read says the same to every reader.
func FuzzQuestion(f *testing.F) {
	f.Add([]byte(`{"token":"a","api_key":null,"host":"h","path":"/p","method":"GET"}`))
	f.Add([]byte(`{"token":"a"}{"token":"b"}`))
	f.Add([]byte(`{"tool":"a","arguments":{"x":[1]},"read_only":"true"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := parseQuestion(text)
		if err != nil {
			return
		}
		again, err := parseQuestion([]byte(`{"method":` + quoted(q.Method) + `,"path":` + quoted(q.Path) + `,"host":` + quoted(q.Host) +
			`,"api_key":` + quoted(q.APIKey) + `,"token":` + quoted(q.Token) + `,"tool":` + quoted(q.Tool) +
			`,"read_only":` + quoted(q.ReadOnly) + `,"arguments":` + cmp.Or(q.Arguments, "null") + `}`))
		if q.Arguments == "" {
			again.Arguments = ""
		}
		if err != nil || again != q {
			t.Fatalf("%q gives %+v, which gives %+v, %v", text, q, again, err)
		}
	})
}
