package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// Section 5, items 5 and 7, and the API rows of section 7, in their words.
func TestCredentials(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything)
	strange, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{2}))
	if err != nil {
		t.Fatal(err)
	}
	forged := strange.Access(x.handle, 1, h.Seconds.Load()+60)
	orphan := h.ring.Access(token.Handle{99}, 1, h.Seconds.Load()+60)
	ahead := h.ring.Access(x.handle, 2, h.Seconds.Load()+60)
	const mcpMissing = `Bearer realm="Svalinn", resource_metadata="` + mcpDoc + `"`
	const mcpInvalid = mcpMissing + `, error="invalid_token"`
	const oldMissing, oldInvalid = `Bearer realm="Svalinn"`, `Bearer realm="Svalinn", error="invalid_token"`

	for _, c := range []struct {
		name, path string
		headers    []string
		status     int
		challenge  string
		result     api.Result
	}{
		{"no credential", "/api/v5/me", nil, 401, missing, api.Missing},
		{"no credential, MCP", "/api/v5/mcp", nil, 401, mcpMissing, api.Missing},
		{"no credential, below MCP", "/api/v5/mcp/", nil, 401, mcpMissing, api.Missing},
		{"no credential, root", "/api/v5", nil, 401, missing, api.Missing},
		{"no credential, unknown path", "/api/v5/nothing/here", nil, 401, missing, api.Missing},
		{"access token as bearer", "/api/v5/me", []string{"Authorization", "Bearer " + x.access}, 200, "", api.Valid},
		{"scheme in another case", "/api/v5/me", []string{"authorization", "bEaReR " + x.access}, 200, "", api.Valid},
		{"access token, unknown path", "/api/v5/nothing/here", []string{"Authorization", "Bearer " + x.access}, 404, "", api.Valid},
		{"access token, root", "/api/v5", []string{"Authorization", "Bearer " + x.access}, 404, "", api.Valid},
		{"empty header", "/api/v5/me", []string{"Authorization", ""}, 401, missing, api.Missing},
		{"scheme without token", "/api/v5/me", []string{"Authorization", "Bearer"}, 401, missing, api.Missing},
		{"another scheme", "/api/v5/me", []string{"Authorization", "Basic " + x.access}, 401, missing, api.Missing},
		{"the token without scheme", "/api/v5/me", []string{"Authorization", x.access}, 401, missing, api.Missing},
		{"garbage", "/api/v5/me", []string{"Authorization", "Bearer garbage"}, 401, invalid, api.Unknown},
		{"garbage, MCP", "/api/v5/mcp", []string{"Authorization", "Bearer garbage"}, 401, mcpInvalid, api.Unknown},
		{"two tokens", "/api/v5/me", []string{"Authorization", "Bearer " + x.access + " " + x.access}, 401, invalid, api.Unknown},
		{"token list", "/api/v5/me", []string{"Authorization", "Bearer " + x.access + ", Bearer " + x.access}, 401, invalid, api.Unknown},
		{"token of a strange key", "/api/v5/me", []string{"Authorization", "Bearer " + forged}, 401, invalid, api.Unknown},
		{"token of no approval", "/api/v5/me", []string{"Authorization", "Bearer " + orphan}, 401, invalid, api.Revoked},
		{"token from the future", "/api/v5/me", []string{"Authorization", "Bearer " + ahead}, 401, invalid, api.Revoked},
		{"token cut short", "/api/v5/me", []string{"Authorization", "Bearer " + x.access[:len(x.access)-1]}, 401, invalid, api.Unknown},
		{"refresh token as bearer", "/api/v5/me", []string{"Authorization", "Bearer " + x.refresh}, 401, invalid, api.WrongKind},
		{"code as bearer", "/api/v5/me", []string{"Authorization", "Bearer " + x.code}, 401, invalid, api.WrongKind},
		{"API key as bearer", "/api/v5/me", []string{"Authorization", "Bearer key-of-ada-for-tests"}, 401, invalid, api.Unknown},
		{"access token in X-Auth-Token", "/api/v5/me", []string{"X-Auth-Token", x.access}, 401, invalid, api.WrongHeader},
		{"refresh token in X-Auth-Token", "/api/v5/me", []string{"X-Auth-Token", x.refresh}, 401, invalid, api.WrongHeader},
		{"code in X-Auth-Token", "/api/v5/me", []string{"X-Auth-Token", x.code}, 401, invalid, api.WrongHeader},
		{"access token in X-Auth-Token, v3", "/api/v3/me", []string{"X-Auth-Token", x.access}, 401, oldInvalid, api.WrongHeader},
		{"API key", "/api/v5/me", []string{"X-Auth-Token", "key-of-ada-for-tests"}, 200, "", api.Valid},
		{"API key in another case", "/api/v5/me", []string{"X-Auth-Token", "Key-of-ada-for-tests"}, 401, invalid, api.Unknown},
		{"unknown API key", "/api/v5/me", []string{"X-Auth-Token", "nobody"}, 401, invalid, api.Unknown},
		{"empty API key", "/api/v5/me", []string{"X-Auth-Token", ""}, 401, missing, api.Missing},
		{"both headers", "/api/v5/me", []string{"Authorization", "Bearer " + x.access, "X-Auth-Token", "key-of-ada-for-tests"}, 401, invalid, api.WrongHeader},
		{"the token in both headers", "/api/v5/me", []string{"Authorization", "Bearer " + x.access, "X-Auth-Token", x.access}, 401, invalid, api.WrongHeader},
		{"header twice", "/api/v5/me", []string{"Authorization", "Bearer " + x.access, "Authorization", "Bearer " + x.access}, 401, invalid, api.WrongHeader},
		{"API key twice", "/api/v5/me", []string{"X-Auth-Token", "key-of-ada-for-tests", "X-Auth-Token", "key-of-ada-for-tests"}, 401, invalid, api.WrongHeader},
		{"token beside an empty API key", "/api/v5/me", []string{"Authorization", "Bearer " + x.access, "X-Auth-Token", ""}, 200, "", api.Valid},
		{"API key beside an empty header", "/api/v5/me", []string{"Authorization", "", "X-Auth-Token", "key-of-ada-for-tests"}, 200, "", api.Valid},
		{"both headers empty", "/api/v5/me", []string{"Authorization", "", "X-Auth-Token", ""}, 401, missing, api.Missing},
		{"header twice, once empty", "/api/v5/me", []string{"Authorization", "Bearer " + x.access, "Authorization", ""}, 401, invalid, api.WrongHeader},
		{"header twice, empty", "/api/v5/me", []string{"Authorization", "", "Authorization", "", "X-Auth-Token", "key-of-ada-for-tests"}, 401, invalid, api.WrongHeader},
		{"API key twice, once empty", "/api/v5/me", []string{"X-Auth-Token", "", "X-Auth-Token", "key-of-ada-for-tests"}, 401, invalid, api.WrongHeader},
		{"another scheme beside an API key", "/api/v5/me", []string{"Authorization", "Basic eDp5", "X-Auth-Token", "key-of-ada-for-tests"}, 401, invalid, api.WrongHeader},
		{"token in the query", "/api/v5/me?access_token=" + x.access, nil, 401, missing, api.Missing},
		{"a second token in the query", "/api/v5/me?access_token=" + x.access, []string{"Authorization", "Bearer " + x.access}, 200, "", api.Valid},
		{"token in a cookie", "/api/v5/me", []string{"Cookie", "session=" + x.access}, 401, missing, api.Missing},
		{"OAuth token on v3", "/api/v3/me", []string{"Authorization", "Bearer " + x.access}, 401, oldInvalid, api.WrongHeader},
		{"OAuth token on v4", "/api/v4/me", []string{"Authorization", "Bearer " + x.access}, 401, oldInvalid, api.WrongHeader},
		{"OAuth token on v3, unknown path", "/api/v3/x", []string{"Authorization", "Bearer " + x.access}, 401, oldInvalid, api.WrongHeader},
		{"OAuth token with an API key on v3", "/api/v3/me", []string{"Authorization", "Bearer " + x.access, "X-Auth-Token", "key-of-ada-for-tests"}, 401, oldInvalid, api.WrongHeader},
		{"OAuth token beside an empty API key on v3", "/api/v3/me", []string{"Authorization", "Bearer " + x.access, "X-Auth-Token", ""}, 401, oldInvalid, api.WrongHeader},
		{"API key beside an empty header on v3", "/api/v3/me", []string{"Authorization", "", "X-Auth-Token", "key-of-ada-for-tests"}, 200, "", api.Valid},
		{"API key beside an empty header twice on v4", "/api/v4/me", []string{"Authorization", "", "Authorization", "", "X-Auth-Token", "key-of-ada-for-tests"}, 401, oldInvalid, api.WrongHeader},
		{"no credential on v3", "/api/v3/me", nil, 401, oldMissing, api.Missing},
		{"no credential on v4", "/api/v4", nil, 401, oldMissing, api.Missing},
		{"empty header on v4", "/api/v4/me", []string{"Authorization", ""}, 401, oldMissing, api.Missing},
		{"API key on v3", "/api/v3/me", []string{"X-Auth-Token", "key-of-ada-for-tests"}, 200, "", api.Valid},
		{"API key on v4", "/api/v4/me", []string{"X-Auth-Token", "key-of-ada-for-tests"}, 200, "", api.Valid},
		{"API key on v4, unknown path", "/api/v4/people", []string{"X-Auth-Token", "key-of-ada-for-tests"}, 404, "", api.Valid},
		{"climbing out of v3", "/api/v3/../v5/me", []string{"Authorization", "Bearer " + x.access}, 401, oldInvalid, api.WrongHeader},
		{"climbing out of v5", "/api/v5/../v3/me", []string{"Authorization", "Bearer " + x.access}, 404, "", api.Valid},
		{"escaped path", "/api/%76%35/me", nil, 401, missing, api.Missing},
		{"escaped slash", "/api/v5%2Fme", nil, 401, missing, api.Missing},
		{"a neighbour of v5", "/api/v55/me", nil, 404, "", ""},
		{"no version", "/api/", nil, 404, "", ""},
		{"two slashes", "/api//v5/me", nil, 404, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var result api.Result
			h.server.Checked = func(r api.Result) { result = r }
			wantStatus(t, h.call("GET", c.path, c.headers...), c.status, c.challenge)
			if result != c.result {
				t.Errorf("result %q, want %q", result, c.result)
			}
		})
	}
}

// Before routing, method and body (decision B1): a request without a
// credential learns nothing about what is there.
func TestCheckComesFirst(t *testing.T) {
	h := newHouse(t)
	h.server.MCP = map[string]http.Handler{"/api/v5/mcp": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("MCP was asked") })}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
		for _, path := range []string{"/api/v5", "/api/v5/", "/api/v5/me", "/api/v5/people/ada", "/api/v5/none", "/api/v5/mcp"} {
			t.Run(method+path, func(t *testing.T) {
				want := missing
				if path == "/api/v5/mcp" {
					want = strings.ReplaceAll(missing, v5Doc, mcpDoc)
				}
				w := send(t, h.handler, method, path, `{"access_token":"x"}`, "Content-Type", "application/x-www-form-urlencoded")
				wantStatus(t, w, 401, want)
			})
		}
	}
}

func TestBodyIsNotRead(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything)
	w := send(t, h.handler, "POST", "/api/v5/me", "access_token="+x.access, "Content-Type", "application/x-www-form-urlencoded")
	wantStatus(t, w, 401, missing)
}

func TestPreflight(t *testing.T) {
	h := newHouse(t)
	h.server.Limit = limit.NewNames(limit.Limit{N: 1, Window: time.Minute})
	for _, path := range []string{"/api/v5/me", "/api/v5/mcp", "/api/v3/me", "/api/nothing"} {
		t.Run(path, func(t *testing.T) {
			w := h.call("OPTIONS", path, "Origin", "https://page.example",
				"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
			wantStatus(t, w, 204, "")
			if w.Body.Len() > 0 {
				t.Errorf("body %s", w.Body)
			}
			allowed := strings.Split(w.Header().Get("Access-Control-Allow-Headers"), ", ")
			want := []string{"Authorization", "Content-Type", "Accept", "MCP-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Last-Event-ID", "X-Auth-Token"}
			if strings.Join(allowed, ",") != strings.Join(want, ",") {
				t.Errorf("allowed headers %q", allowed)
			}
			if m := w.Header().Get("Access-Control-Allow-Methods"); !strings.Contains(m, "POST") {
				t.Errorf("allowed methods %q", m)
			}
		})
	}
	// The names of arguments are the service's: what is asked for is allowed, and nothing else.
	for asks, more := range map[string]string{
		"mcp-param-region": ", mcp-param-region",
		"content-type, Mcp-Param-A ,mcp-param-b-c,x-y": ", Mcp-Param-A, mcp-param-b-c",
		"mcp-param-":                  "",
		"mcp-param-a b, mcp-param-a(": "",
		"x-mcp-param-a":               "",
		"mcp-param-é":                 "",
	} {
		w := h.call("OPTIONS", "/api/v5/mcp", "Origin", "https://page.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", asks)
		if got := w.Header()["Access-Control-Allow-Headers"]; len(got) != 1 || !strings.HasSuffix(got[0], "X-Auth-Token"+more) {
			t.Errorf("%q is answered by %q", asks, got)
		}
	}
	// Uncounted: the only request of the window is still there.
	wantStatus(t, h.call("GET", "/api/v5/me", "X-Auth-Token", "key-of-ada-for-tests"), 200, "")
}

func TestExposedHeaders(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything)
	bearer := "Bearer " + x.access
	for _, tt := range []struct {
		what string
		w    *httptest.ResponseRecorder
		want string
	}{
		{"a refusal", h.call("GET", "/api/v5/me"), "WWW-Authenticate, Retry-After, MCP-Protocol-Version, Mcp-Session-Id"},
		{"a page's own call", h.call("GET", "/api/v5/me", "Authorization", bearer, "Origin", "https://app.example"), "WWW-Authenticate, Retry-After, MCP-Protocol-Version, Mcp-Session-Id"},
		{"no page", h.call("GET", "/api/v5/me", "Authorization", bearer), ""},
	} {
		if got := tt.w.Header().Get("Access-Control-Expose-Headers"); got != tt.want {
			t.Errorf("%s: got %q", tt.what, got)
		}
	}
}

// T-04, T-05, T-06.
func TestAccessTokenLifetime(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything)
	var result api.Result
	h.server.Checked = func(r api.Result) { result = r }
	h.Pass(1799 * time.Second)
	wantStatus(t, h.get("/api/v5/me", x.access), 200, "")
	h.Pass(time.Second)
	wantStatus(t, h.get("/api/v5/me", x.access), 401, invalid)
	if result != api.Expired {
		t.Errorf("result %q", result)
	}
	y := h.refreshed(x, 2)
	wantStatus(t, h.get("/api/v5/me", x.access), 401, invalid)
	wantStatus(t, h.get("/api/v5/me", y.access), 200, "")
}

// Decision T7: a refresh does not take the earlier access token away, and what
// ends the approval takes both.
func TestAccessTokenAfterRefresh(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything)
	h.Pass(time.Minute)
	y := h.refreshed(x, 2)
	wantStatus(t, h.get("/api/v5/me", x.access), 200, "")
	wantStatus(t, h.get("/api/v5/me", y.access), 200, "")
	if err := h.store.EndApproval(t.Context(), x.id, approval.RevokedByPerson, store.Act{Actor: "person:ada"}); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, h.get("/api/v5/me", x.access), 401, invalid)
	wantStatus(t, h.get("/api/v5/me", y.access), 401, invalid)
}

// The access token of an approval whose code was not exchanged does not exist,
// and would not work.
func TestBeforeExchange(t *testing.T) {
	h := newHouse(t)
	x := h.issued("ada", "nordlys", everything)
	early := h.ring.Access(x.handle, 1, h.Seconds.Load()+60)
	wantStatus(t, h.get("/api/v5/me", early), 401, invalid)
}

// Section 3, the moves that revoke: at the next call.
func TestEnds(t *testing.T) {
	act := store.Act{Actor: "operator"}
	for _, c := range []struct {
		name     string
		end      func(h *house, x tokens) error
		back     func(h *house) error // what was lost returns, the approval does not
		elsewere int                  // status of Ada's approval in fjell
	}{
		{"person revokes the client", func(h *house, x tokens) error {
			_, err := h.store.EndApprovals(t.Context(), store.ApprovalFilter{Client: "client-1", Person: "ada", Organization: "nordlys"}, approval.RevokedByPerson, act)
			return err
		}, nil, 200},
		{"client revokes its token", func(h *house, x tokens) error {
			_, _, err := h.store.ApplyLive(t.Context(), x.id, approval.Revoke("client-1", h.store.Now()), act)
			return err
		}, nil, 200},
		{"used refresh token comes back", func(h *house, x tokens) error {
			h.refreshed(x, 2)
			_, _, err := h.store.Refresh(t.Context(), x.id, "client-1", 1, 1, act)
			return err
		}, nil, 200},
		{"person leaves or is removed", func(h *house, _ tokens) error {
			return h.store.RemoveMember(t.Context(), "nordlys", "ada", act)
		}, func(h *house) error { return h.store.SetMember(t.Context(), "nordlys", "ada", true, act) }, 200},
		{"account is deactivated", func(h *house, _ tokens) error {
			return h.store.SetActive(t.Context(), "ada", false, act)
		}, func(h *house) error { return h.store.SetActive(t.Context(), "ada", true, act) }, 401},
		{"client is disabled", func(h *house, _ tokens) error {
			return h.store.SetClientEnabled(t.Context(), "client-1", false, act)
		}, func(h *house) error { return h.store.SetClientEnabled(t.Context(), "client-1", true, act) }, 401},
		{"AI integration is switched off", func(h *house, _ tokens) error {
			return h.store.SetIntegration(t.Context(), "nordlys", false, act)
		}, func(h *house) error { return h.store.SetIntegration(t.Context(), "nordlys", true, act) }, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			x, other := h.live("ada", "nordlys", everything), h.live("ada", "fjell", everything)
			if err := c.end(h, x); err != nil {
				t.Fatal(err)
			}
			wantStatus(t, h.get("/api/v5/me", x.access), 401, invalid)
			if got := h.get("/api/v5/me", other.access).Code; got != c.elsewere {
				t.Errorf("the other organization's approval: got %d, want %d", got, c.elsewere)
			}
			if c.back == nil {
				return
			}
			if err := c.back(h); err != nil {
				t.Fatal(err)
			}
			wantStatus(t, h.get("/api/v5/me", x.access), 401, invalid)
		})
	}
}

// An API key ends with what it stands on as well.
func TestKeyOfSomebodyWhoLeft(t *testing.T) {
	for name, end := range map[string]func(h *house) error{
		"removed": func(h *house) error {
			return h.store.RemoveMember(t.Context(), "nordlys", "tor", store.Act{Actor: "operator"})
		},
		"deactivated": func(h *house) error {
			return h.store.SetActive(t.Context(), "tor", false, store.Act{Actor: "operator"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			wantStatus(t, h.call("GET", "/api/v4/me", "X-Auth-Token", "key-of-tor-for-tests"), 200, "")
			if err := end(h); err != nil {
				t.Fatal(err)
			}
			wantStatus(t, h.call("GET", "/api/v5/me", "X-Auth-Token", "key-of-tor-for-tests"), 401, invalid)
		})
	}
}

// S-04: a server with a store that has no database refuses a wrong tag, so none was
// asked.
func TestWrongTagAsksNoDatabase(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything)
	h.server.Store = new(store.Store)
	last := "A"
	if strings.HasSuffix(x.access, "A") {
		last = "B"
	}
	for _, text := range []string{x.access[:len(x.access)-1] + last, x.access + "A", "svo_", "svo_" + strings.Repeat("0", token.Len-4), x.refresh, x.code} {
		wantStatus(t, h.get("/api/v5/me", text), 401, invalid)
		wantStatus(t, h.call("GET", "/api/v5/me", "X-Auth-Token", text), 401, invalid)
	}
}

// T-23: what cannot be read now is a 503.
func TestUnavailable(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything)
	api.Break(h.server)
	w := h.get("/api/v5/me", x.access)
	wantStatus(t, w, 503, "")
	if got := w.Header().Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After %q", got)
	}
	if strings.Contains(w.Body.String(), "sql") {
		t.Errorf("the cause is told: %s", w.Body)
	}
}

// G-13, G-14: what API keys and OAuth use up together, and what nobody does.
func TestOrganizationLimit(t *testing.T) {
	h := newHouse(t)
	h.server.Limit = limit.NewNames(limit.Limit{N: 6, Window: 10 * time.Minute})
	x, other := h.live("ada", "nordlys", everything), h.live("ada", "fjell", everything)
	for range 20 { // refused credentials and preflights count for nobody
		h.get("/api/v5/me", x.refresh)
		h.call("GET", "/api/v5/me")
		h.call("GET", "/api/v3/me", "Authorization", "Bearer "+x.access)
		h.call("OPTIONS", "/api/v5/me", "Access-Control-Request-Method", "GET")
	}
	wantStatus(t, h.get("/api/v5/me", x.access), 200, "")
	wantStatus(t, h.get("/api/v5/none", x.access), 404, "")
	wantStatus(t, h.call("DELETE", "/api/v5/me", "Authorization", "Bearer "+x.access), 405, "")
	wantStatus(t, h.call("GET", "/api/v5/me", "X-Auth-Token", "key-of-ada-for-tests"), 200, "")
	wantStatus(t, h.call("GET", "/api/v4/me", "X-Auth-Token", "key-of-tor-for-tests"), 200, "")
	wantStatus(t, h.call("GET", "/api/v3/none", "X-Auth-Token", "key-of-tor-for-tests"), 404, "")

	wantStatus(t, h.get("/api/v5/me", x.access), 429, "")
	wantStatus(t, h.call("GET", "/api/v3/me", "X-Auth-Token", "key-of-tor-for-tests"), 429, "")
	wantStatus(t, h.get("/api/v5/me", other.access), 200, "")
	wantStatus(t, h.get("/api/v5/me", x.refresh), 401, invalid) // the check comes before the count
}

// I-10: true to the second, and the wait does not grow.
func TestRetryAfter(t *testing.T) {
	h := newHouse(t)
	h.server.Limit = limit.NewNames(limit.Limit{N: 2, Window: 10 * time.Minute})
	x := h.live("ada", "nordlys", everything)
	h.get("/api/v5/me", x.access)
	h.Pass(100 * time.Second)
	h.get("/api/v5/me", x.access)
	h.Pass(200 * time.Second)
	var wait time.Duration
	for range 3 {
		w := h.get("/api/v5/me", x.access)
		wantStatus(t, w, 429, "")
		var err error
		if wait, err = time.ParseDuration(w.Header().Get("Retry-After") + "s"); err != nil {
			t.Fatal(err)
		}
	}
	h.Pass(wait - time.Second)
	wantStatus(t, h.get("/api/v5/me", x.access), 429, "")
	h.Pass(time.Second)
	wantStatus(t, h.get("/api/v5/me", x.access), 200, "")
}

func TestLimitOfOneOrganization(t *testing.T) {
	h := newHouse(t)
	h.server.Limit = limit.NewNames(limit.Limit{N: 2, Window: time.Minute})
	h.server.LimitOf = func(organization string) int { return map[string]int{"nordlys": 4}[organization] }
	for organization, n := range map[string]int{"nordlys": 4, "fjell": 2} {
		x := h.live("ada", organization, everything)
		for i := range n + 1 {
			w, status, left := h.get("/api/v5/me", x.access), 200, strconv.Itoa(n-1-i)
			if i == n {
				status, left = 429, "0;t=60"
			}
			wantStatus(t, w, status, "")
			if got := w.Header().Get("RateLimit-Policy"); got != `"default";q=`+strconv.Itoa(n)+`;w=60` {
				t.Errorf("RateLimit-Policy: %s", got)
			}
			if got := w.Header().Get("RateLimit"); got != `"default";r=`+left {
				t.Errorf("%s, call %d of %d: RateLimit: %s, want r=%s", organization, i+1, n, got, left)
			}
		}
	}
	if w := h.get("/api/v5/me", "svo_x"); w.Header().Get("RateLimit") != "" || w.Header().Get("RateLimit-Policy") != "" {
		t.Errorf("a stranger is told of a limit: %v", w.Header())
	}
}

// Any service can stand behind the guard, and asks the actor alone.
func TestGuard(t *testing.T) {
	h := newHouse(t)
	h.server.Limit = limit.NewNames(limit.Limit{N: 2, Window: time.Minute})
	pick := grantset.Pick{Role: "treasurer", Change: true}
	x := h.live("ada", "nordlys", roles(false, pick))
	treasure := org.Item{ID: "i1", Organization: "nordlys", Role: "treasurer", Circle: "money", Private: true}
	minutes := org.Item{ID: "i2", Organization: "nordlys", Role: "secretary", Circle: "general"}
	guarded := h.server.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := h.server.Now(r.Context(), api.ActorFrom(r.Context()))
		if err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, a.Person, a.Organization, a.Client, a.Approval == x.id,
			a.MayChange(treasure), a.MayRead(minutes), a.MayChange(minutes), a.MayAdminister(), a.Grant.Equal(roles(false, pick)))
	}))
	w := send(t, guarded, "POST", "/elsewhere", "{}", "Authorization", "Bearer "+x.access)
	if got, want := w.Body.String(), "adanordlysclient-1true true true false false true"; w.Code != 200 || strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got %d %s, want %s", w.Code, got, want)
	}
	w = send(t, guarded, "GET", "/elsewhere", "", "X-Auth-Token", "key-of-tor-for-tests")
	if got, want := w.Body.String(), "tornordlysfalsefalsetruefalsefalsefalse"; w.Code != 200 || strings.ReplaceAll(got, " ", "") != want {
		t.Errorf("got %d %s, want %s", w.Code, got, want)
	}
	wantStatus(t, send(t, guarded, "GET", "/elsewhere", "", "X-Auth-Token", "key-of-tor-for-tests"), 429, "")
	wantStatus(t, send(t, guarded, "GET", "/elsewhere", ""), 401, missing)
	wantStatus(t, send(t, guarded, "OPTIONS", "/elsewhere", "", "Access-Control-Request-Method", "GET"), 204, "")
}

// The zero Actor, of a request that passed no guard, may do nothing.
func TestNoActor(t *testing.T) {
	a := api.ActorFrom(httptest.NewRequest("GET", "/", nil).Context())
	if now, err := newHouse(t).server.Now(t.Context(), a); a.Person != "" || err != api.ErrEnded || now.MayReadOrganization() {
		t.Errorf("got %+v, %v", now, err)
	}
}

// Decision P11: a good check is a use; a refused one and a limited one are not.
func TestLastUse(t *testing.T) {
	h := newHouse(t)
	h.server.Limit = limit.NewNames(limit.Limit{N: 1, Window: 2 * time.Hour})
	used, unused := h.live("ada", "nordlys", everything), h.live("ada", "nordlys", everything)
	wantStatus(t, h.get("/api/v5/me", used.access), 200, "")
	wantStatus(t, h.get("/api/v5/me", unused.refresh), 401, invalid)
	wantStatus(t, h.get("/api/v5/me", unused.access), 429, "")
	if got := h.lastUse(used.id); got != h.Seconds.Load() {
		t.Errorf("got %d, want %d", got, h.Seconds.Load())
	}
	if got := h.lastUse(unused.id); got != 0 {
		t.Errorf("got %d, want none", got)
	}
}

// lastUse waits for the writer, which nobody waits for, to be past what was
// queued before.
func (h *house) lastUse(id approval.ID) int64 {
	h.t.Helper()
	if err := h.store.Ready(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	row, err := h.store.Approval(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return row.LastUsed
}

// Whatever stands in the headers: nothing but a sealed token after Bearer, or
// a key alone in X-Auth-Token, is let through, and the rest gets a challenge.
func FuzzCredentials(f *testing.F) {
	h := newHouse(f)
	h.server.Limit = limit.NewNames(limit.Limit{N: 1 << 20, Window: time.Second})
	x := h.live("ada", "nordlys", everything)
	const key = "key-of-ada-for-tests"
	for _, s := range []string{"", "Bearer", "Bearer " + x.access, "bearer  " + x.access, x.access, x.refresh, "Bearer " + x.refresh, "Bearer " + x.code, "Basic YTpi", key, "Bearer " + key, "Bearer " + x.access + "=", "\x00", "Bearer \xff"} {
		for _, k := range []string{"", key, x.access, "svo_", " "} {
			f.Add(s, k)
		}
	}
	f.Fuzz(func(t *testing.T, bearer, xAuth string) {
		var headers []string
		if bearer != "" {
			headers = append(headers, "Authorization", bearer)
		}
		if xAuth != "" {
			headers = append(headers, "X-Auth-Token", xAuth)
		}
		byToken := xAuth == "" && len(bearer) > 7 && strings.EqualFold(bearer[:7], "Bearer ") && strings.TrimLeft(bearer[7:], " ") == x.access
		byKey := bearer == "" && xAuth == key
		w := send(t, h.handler, "GET", "/api/v5/me", "", headers...)
		if ok := w.Code == 200; ok != (byToken || byKey) {
			t.Fatalf("%d for %q, %q", w.Code, bearer, xAuth)
		}
		if w.Code != 200 && (w.Code != 401 || w.Header().Get("WWW-Authenticate") != missing && w.Header().Get("WWW-Authenticate") != invalid) {
			t.Fatalf("%d, %v for %q, %q", w.Code, w.Header(), bearer, xAuth)
		}
		w = send(t, h.handler, "GET", "/api/v4/me", "", headers...)
		if ok := w.Code == 200; ok != byKey {
			t.Fatalf("v4: %d for %q, %q", w.Code, bearer, xAuth)
		}
	})
}

// A token that is younger than what is remembered of its approval is good, and one
// that nobody would take by what is remembered is judged by what stands.
func TestTokenIsYoungerThanWhatIsRemembered(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", grantset.Set{Kind: grantset.Everything})
	old, err := h.store.Check(context.Background(), x.id)
	if err != nil {
		t.Fatal(err)
	}
	x = h.refreshed(x, 2)
	away := func(context.Context, approval.ID) (store.Access, error) {
		return store.Access{}, fmt.Errorf("check: %w", store.ErrUnavailable)
	}
	want := func(what string, now func(context.Context, approval.ID) (store.Access, error), status int) {
		t.Helper()
		api.Find(h.server, old, now)
		if w := h.get("/api/v5/me", x.access); w.Code != status {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
	want("an old row that is no memory", h.store.CheckNow, 401)
	old.Remembered = true
	want("an old row that is remembered", h.store.CheckNow, 200)
	want("nobody can say how it stands", away, 503)
	h.Move(x.id, approval.Revoke("client-1", h.store.Now()))
	want("the approval has ended since", h.store.CheckNow, 401)
}
