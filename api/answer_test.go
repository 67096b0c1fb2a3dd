package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// What is meant for the caller is told as it is; of anything else the least, and what is
// a fault here is logged.
func TestTold(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		code   string
		log    bool
	}{
		{api.Forbidden("no"), 403, "forbidden", false},
		{fmt.Errorf("wrapped: %w", api.ErrEnded), 401, "invalid_token", false},
		{fmt.Errorf("item: %w", store.ErrNotFound), 404, "not_found", false},
		{fmt.Errorf("item: %w", store.ErrUnavailable), 503, "temporarily_unavailable", false},
		{context.Canceled, 503, "temporarily_unavailable", false},
		{context.DeadlineExceeded, 503, "temporarily_unavailable", false},
		{errors.New("a table is missing"), 500, "server_error", true},
	} {
		if f, log := api.Told(tt.err); f.Status != tt.status || f.Code != tt.code || log != tt.log || strings.Contains(f.Error(), "table") {
			t.Errorf("%v: %+v, logged %v", tt.err, f, log)
		}
	}
	if got := api.Forbidden("no").Error() + api.ErrEnded.Error(); got != "no"+api.ErrEnded.Description {
		t.Errorf("said as %q", got)
	}
}

// A 401 says what its holder can see by itself, and the log is told its code.
func TestWordsOfRefusals(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything)
	told := ""
	h.server.Tell = func(_ http.ResponseWriter, client string, of approval.ID, fault string) {
		told += fmt.Sprint(client, of != approval.ID{}, fault)
	}
	bearer := func(s string) []string { return []string{"Authorization", "Bearer " + s} }
	const v3 = "API v3 and v4 take one API key, in the header X-Auth-Token, and no OAuth token."
	for _, tt := range []struct {
		name, path  string
		headers     []string
		code, words string
	}{
		{"nothing", "/api/v5/me", nil, "unauthorized", "Send an access token in the header Authorization: Bearer."},
		{"nothing, v3", "/api/v3/me", nil, "unauthorized", "Send an API key in the header X-Auth-Token."},
		{"two", "/api/v5/me", append(bearer(x.access), "X-Auth-Token", "key-of-ada-for-tests"), "invalid_token", "Send one credential: an access token in Authorization: Bearer, or an API key in X-Auth-Token."},
		{"an access token, v4", "/api/v4/me", bearer(x.access), "invalid_token", v3},
		{"a refresh token", "/api/v5/me", bearer(x.refresh), "invalid_token", "This is not an access token. Refresh tokens and authorization codes go to the token endpoint."},
		{"what is none", "/api/v5/me", bearer("x"), "invalid_token", "The credential has expired, was revoked, or was not given here."},
	} {
		told = ""
		got := parse[map[string]string](t, h.call("GET", tt.path, tt.headers...))
		if got["error"] != tt.code || got["error_description"] != tt.words || told != "false"+tt.code {
			t.Errorf("%s: %v, told %s", tt.name, got, told)
		}
	}
	told = ""
	if wantStatus(t, h.get("/api/v5/me", x.access), 200, ""); told != "client-1true" {
		t.Errorf("of a good one told %s", told)
	}
}

// Fail answers as the guard does: one that has ended with the challenge of its resource.
func TestFail(t *testing.T) {
	h := newHouse(t)
	for err, status := range map[error]int{api.ErrEnded: 401, store.ErrUnavailable: 503, api.ErrSlowBody: 408, api.ErrManyOfOne: 429, api.ErrChanged: 503} {
		w := httptest.NewRecorder()
		h.server.Fail(w, httptest.NewRequest("GET", "/api/v5/mcp", nil), err)
		challenge := w.Header().Get("WWW-Authenticate")
		if w.Code != status || (status == 401) != strings.Contains(challenge, mcpDoc) || (status == 503) != (w.Header().Get("Retry-After") == "2") || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%v: %d %v", err, w.Code, w.Header())
		}
	}
}

// Each call that is refused is told of with the reason and whose token it was; the daily
// round of a client is not, and of one that works the first call alone.
func TestAttemptsOfCalls(t *testing.T) {
	h := newHouse(t)
	h.server.Resources, h.server.MCP = client.Resources{{Path: "/tools", MCP: true}}, map[string]http.Handler{"/tools": http.NotFoundHandler()}
	var seen []attempt.Observation
	h.server.Seen = func(_ *http.Request, o attempt.Observation) { seen = append(seen, o) }
	old, gone := h.live("ada", "nordlys", everything), h.live("ada", "nordlys", everything)
	h.Move(gone.id, approval.Revoke("client-1", h.store.Now()))
	h.Pass(approval.AccessLifetime)
	daily := h.refreshed(h.live("ada", "nordlys", everything), 2)
	h.Pass(approval.AccessLifetime)
	fresh := h.live("ada", "nordlys", everything)
	keys := func(client string, x tokens) attempt.Keys {
		return attempt.Keys{Client: client, Approval: x.id.String()}
	}
	failed := func(why attempt.Reason, k attempt.Keys) *attempt.Observation {
		return &attempt.Observation{Step: attempt.FirstCall, Outcome: attempt.Failed, Reason: why, Status: 401, Keys: k}
	}
	asked := func(what attempt.What) *attempt.Observation {
		return &attempt.Observation{Step: attempt.Challenge, Outcome: attempt.Done, What: what, Status: 401}
	}
	bearer := func(s string) []string { return []string{"Authorization", "Bearer " + s} }
	preflight := func(asks string) []string {
		return []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", asks}
	}
	var none attempt.Keys
	for _, tt := range []struct {
		name, method, path string
		headers            []string
		want               *attempt.Observation
	}{
		{"nothing", "GET", "/api/v5/me", nil, asked(attempt.AtAPI)},
		{"nothing, MCP", "GET", "/api/v5/mcp", nil, asked(attempt.AtMCP)},
		{"nothing, another MCP endpoint", "GET", "/tools", nil, asked(attempt.AtMCP)},
		{"another scheme", "GET", "/api/v5/mcp", []string{"Authorization", "Basic x"}, asked(attempt.OtherScheme)},
		{"nothing, v3", "GET", "/api/v3/me", nil, nil},
		{"in the query", "GET", "/api/v5/me?access_token=x", nil, failed(attempt.TokenInQuery, none)},
		{"in the query, v3", "GET", "/api/v3/me?access_token=x", nil, failed(attempt.TokenInQuery, none)},
		{"a token, v3", "GET", "/api/v3/me", bearer(fresh.access), failed(attempt.TokenLegacy, none)},
		{"a token as a key", "GET", "/api/v5/me", []string{"X-Auth-Token", fresh.access}, failed(attempt.TokenInHeader, none)},
		{"a refresh token", "GET", "/api/v5/me", bearer(fresh.refresh), failed(attempt.TokenWrongKind, none)},
		{"what is none", "GET", "/api/v5/me", bearer("x"), failed(attempt.TokenUnknown, none)},
		{"expired, before any refresh", "GET", "/api/v5/me", bearer(old.access), failed(attempt.AccessExpired, keys("client-1", old))},
		{"expired, after one", "GET", "/api/v5/me", bearer(daily.access), nil},
		{"ended", "GET", "/api/v5/me", bearer(gone.access), failed(attempt.ApprovalEnded, keys("", gone))},
		{"a script that may", "OPTIONS", "/api/v5/me", preflight("authorization, mcp-name"), nil},
		{"a script that repeats an argument", "OPTIONS", "/api/v5/me", preflight("mcp-param-region,Mcp-Param-a"), nil},
		{"a script that repeats none", "OPTIONS", "/api/v5/me", preflight("mcp-param-"),
			&attempt.Observation{Step: attempt.FirstCall, Outcome: attempt.Failed, Reason: attempt.CORSHeader, What: attempt.Preflight, Status: 204}},
		{"a script that may not", "OPTIONS", "/api/v5/me", preflight("authorization, x-more"),
			&attempt.Observation{Step: attempt.FirstCall, Outcome: attempt.Failed, Reason: attempt.CORSHeader, What: attempt.Preflight, Status: 204}},
		{"an API key", "GET", "/api/v5/me", []string{"X-Auth-Token", "key-of-ada-for-tests"}, nil},
		{"the first call", "GET", "/api/v5/me", bearer(fresh.access), &attempt.Observation{Step: attempt.FirstCall, Outcome: attempt.Done, Status: 200, Keys: keys("client-1", fresh)}},
		{"the second call", "GET", "/api/v5/me", bearer(fresh.access), nil},
	} {
		seen = nil
		h.call(tt.method, tt.path, tt.headers...)
		if err := h.store.Ready(t.Context()); err != nil { // the use is written
			t.Fatal(err)
		}
		if len(seen) > 1 || len(seen) == 1 != (tt.want != nil) || tt.want != nil && seen[0] != *tt.want {
			t.Errorf("%s: seen %+v, want %+v", tt.name, seen, tt.want)
		}
	}
	next := h.live("ada", "nordlys", everything)
	r, actor := httptest.NewRequest("POST", "/tools", nil), h.actor("Authorization", "Bearer "+next.access)
	for _, tt := range []struct {
		actor api.Actor
		want  int
	}{{actor, 1}, {h.actor("X-Auth-Token", "key-of-ada-for-tests"), 0}, {h.actor("Authorization", "Bearer "+fresh.access), 0}} {
		seen = nil
		h.server.SawVersion(r, tt.actor)
		want := attempt.Observation{Step: attempt.FirstCall, Outcome: attempt.Failed, Reason: attempt.MCPVersion, Status: 400, Keys: keys("client-1", next)}
		if len(seen) != tt.want || tt.want == 1 && seen[0] != want {
			t.Errorf("a version: seen %+v", seen)
		}
	}
	limited := h.live("ada", "fjell", everything)
	h.server.Limit = limit.NewNames(limit.Limit{N: 1, Window: time.Hour})
	wantStatus(t, h.call("GET", "/api/v5/me", "X-Auth-Token", "key-of-siv-for-tests"), 200, "")
	seen = nil
	wantStatus(t, h.get("/api/v5/me", limited.access), 429, "")
	if want := (attempt.Observation{Step: attempt.FirstCall, Outcome: attempt.Failed, Reason: attempt.RateLimited, Status: 429, Keys: keys("client-1", limited)}); len(seen) != 1 || seen[0] != want {
		t.Errorf("over the limit: seen %+v", seen)
	}
	h.server.Seen = nil
	wantStatus(t, h.call("GET", "/api/v5/me"), 401, missing)
	h.server.SawVersion(r, actor)
}

// A right is asked for once more when the body was read, and the calls in it are counted,
// all or none.
func TestWhole(t *testing.T) {
	h := newHouse(t)
	limited := 0
	h.server.Limited = func() { limited++ }
	type answer struct {
		status int
		left   string
	}
	for _, tt := range []struct {
		name    string
		further int
		noBody  bool
		end     bool // meanwhile
		want    answer
		limited int
	}{
		{"one call", 0, false, false, answer{200, "3"}, 0},
		{"as many as there are", 3, false, false, answer{200, "0"}, 0},
		{"more than are left", 3, false, false, answer{429, "2"}, 1},
		{"as many as the organization has at all", 4, false, false, answer{400, "3"}, 0},
		{"without a body", 0, true, false, answer{200, "3"}, 0},
		{"ended meanwhile", 0, false, true, answer{401, "3"}, 0},
		{"ended meanwhile, without a body", 0, true, true, answer{200, "3"}, 0},
	} {
		h.server.Limit, limited = limit.NewNames(limit.Limit{N: 4, Window: time.Hour}), 0
		x := h.live("ada", "nordlys", everything)
		if tt.limited > 0 {
			h.get("/api/v5/me", x.access)
		}
		guarded := h.server.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tt.noBody {
				r.Body = http.NoBody
			}
			if tt.end {
				h.Move(x.id, approval.Revoke("client-1", h.store.Now()))
			}
			now, ok := h.server.Whole(w, r, tt.further)
			if ok != (now.Person == "ada") {
				t.Errorf("%s: %v, %+v", tt.name, ok, now)
			}
		}))
		w := send(t, guarded, "POST", "/elsewhere", "{}", "Authorization", "Bearer "+x.access)
		left, _, _ := strings.Cut(strings.TrimPrefix(w.Header().Get("RateLimit"), `"default";r=`), ";")
		if got := (answer{w.Code, left}); got != tt.want || limited != tt.limited {
			t.Errorf("%s: %+v %s, limited %d times, want %+v", tt.name, got, w.Body, limited, tt.want)
		}
		if tt.want.status == 400 && !strings.Contains(w.Body.String(), "requests: 4.") {
			t.Errorf("%s: %s", tt.name, w.Body)
		}
	}
}

// Who answers elsewhere is told what the guard would: the right, or the whole refusal.
func TestDecide(t *testing.T) {
	h := newHouse(t)
	h.server.Limit = limit.NewNames(limit.Limit{N: 3, Window: time.Hour})
	x := h.live("ada", "nordlys", everything)
	for _, tt := range []struct {
		path, header, value string
		status              int // 200 is a right
	}{
		{"/api/v5/people", "Authorization", "Bearer " + x.access, 200},
		{"/api/v3/people", "X-Auth-Token", "key-of-ada-for-tests", 200},
		{"/api/v3/people", "Authorization", "Bearer " + x.access, 401},
		{"/api/v4/people", "Authorization", "Bearer " + x.access, 401},
		{"/api/v6/people", "Authorization", "Bearer " + x.access, 404},
		{"/api/v5/people", "Authorization", "Bearer x", 401},
		{"/api/v5/people", "Authorization", "Bearer " + x.access, 200},
		{"/api/v5/people", "Authorization", "Bearer " + x.access, 429},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", tt.path, nil)
		r.Header.Set(tt.header, tt.value)
		now, ok := h.server.Decide(w, r)
		if w.Code != tt.status || ok != (tt.status == 200) || ok != (now.Person == "ada") {
			t.Errorf("%s with %s: %d %s, %v, %+v", tt.path, tt.header, w.Code, w.Body, ok, now.Actor)
		}
	}
	if of, left := h.server.Left("nordlys"); of.N != 3 || left != 0 {
		t.Errorf("%+v, %d left", of, left)
	}
	if of, left := h.server.Left("fjell"); of.N != 3 || left != 3 {
		t.Errorf("of another: %+v, %d left", of, left)
	}
}

// A denial names its rule, also the first, and the approval that the person can change.
func TestDenials(t *testing.T) {
	h := newHouse(t)
	x := h.live("tor", "nordlys", everything)
	byToken, err := h.server.Now(t.Context(), h.actor("Authorization", "Bearer "+x.access))
	if err != nil {
		t.Fatal(err)
	}
	byKey, err := h.server.Now(t.Context(), h.actor("X-Auth-Token", "key-of-tor-for-tests"))
	if err != nil {
		t.Fatal(err)
	}
	first := rules.Decision{Reason: rules.ReadOnly, Rule: 0, Role: "host", RoleName: "Host", Fills: true, Needs: "change", Has: "read"}
	unlisted := rules.Decision{Reason: rules.Unlisted, Rule: -1}
	edit := base + "/organizations/nordlys/profile/api/" + x.id.String() + "/edit?need=host:change"
	for _, tt := range []struct {
		name string
		by   api.Rights
		d    rules.Decision
		edit string
		rule int
	}{
		{"a token, the first rule", byToken, first, edit, 0},
		{"a key, the first rule", byKey, first, "", 0},
		{"a token, no rule", byToken, unlisted, "", -1},
	} {
		told := ""
		h.server.Tell = func(_ http.ResponseWriter, client string, of approval.ID, fault string) { told += client + fault }
		denial := api.Denied(tt.by, tt.d, base)
		if denial.Edit != tt.edit || (denial.Rule == nil) != (tt.rule < 0) || denial.Rule != nil && *denial.Rule != tt.rule {
			t.Errorf("%s: %+v", tt.name, denial)
		}
		w := httptest.NewRecorder()
		w.Header().Set("X-Request-Id", "request-1")
		h.server.Deny(w, denial)
		got := parse[map[string]any](t, w)
		if w.Code != 403 || told != "forbidden" || got["error"] != "forbidden" || got["reference"] != "request-1" || got["error_description"] == "" || w.Header().Get("WWW-Authenticate") != "" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s, told %s", tt.name, w.Code, w.Body, told)
		}
	}
	h.server.Tell = nil
	h.server.Deny(httptest.NewRecorder(), api.Denied(byKey, unlisted, base)) // nobody is told
}
