package oauth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/limit"
)

// Method and path as the contract has them; every other method is 405 and says
// which one is right (spec 4, decision T14).
func TestMethods(t *testing.T) {
	d := open(t)
	for path, allow := range map[string]string{
		"/.well-known/oauth-authorization-server":          "GET, HEAD",
		"/.well-known/oauth-protected-resource":            "GET, HEAD",
		"/.well-known/oauth-protected-resource/api/v5":     "GET, HEAD",
		"/.well-known/oauth-protected-resource/api/v5/mcp": "GET, HEAD",
		"/oauth/register": "POST",
		"/oauth/token":    "POST",
		"/oauth/revoke":   "POST",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"} {
			if slices.Contains(strings.Split(allow, ", "), method) {
				continue
			}
			t.Run(method+" "+path, func(t *testing.T) {
				w := d.send(request(method, path, ""))
				wantRefusal(t, w, http.StatusMethodNotAllowed, "invalid_request")
				if got := w.Header().Get("Allow"); got != allow {
					t.Errorf("Allow: %q, want %q", got, allow)
				}
			})
		}
	}
}

func TestNothingElseIsHere(t *testing.T) {
	d := open(t)
	for _, path := range []string{
		"/.well-known/openid-configuration", // decision M4
		"/.well-known/jwks.json",
		"/.well-known/oauth-authorization-server/api/v5",
		"/.well-known/oauth-authorization-server/",
		"/.well-known/oauth-protected-resource/",
		"/.well-known/oauth-protected-resource/api/v4",
		"/.well-known/",
		"/oauth/register/abc", // RFC 7592, decision R5
		"/oauth/register/",
		"/oauth/token/",
		"//oauth/token",
		"/oauth/../oauth/token",
		"/OAUTH/TOKEN",
		"/oauth/introspect",
		"/oauth/authorize", // another door's
		"/oauth/",
		"/",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			t.Run(method+" "+path, func(t *testing.T) {
				r := request(method, "/", "")
				r.URL.Path = path
				w := d.send(r)
				wantRefusal(t, w, http.StatusNotFound, "not_found")
				wellKnown := strings.HasPrefix(path, "/.well-known/")
				if want := map[bool]string{true: "/.well-known/", false: "/oauth/"}[wellKnown]; r.Pattern != want {
					t.Errorf("logged as %q, want %q", r.Pattern, want)
				}
				if got := w.Header().Get("Access-Control-Allow-Origin") == "*"; got != wellKnown {
					t.Errorf("CORS is %v, want %v", got, wellKnown)
				}
			})
		}
	}
}

// RFC 3986 sections 2.2 and 2.3: an escaped slash is no slash, so there is nothing
// at such a path; another character is itself.
func TestEscapedPaths(t *testing.T) {
	d := open(t)
	for path, want := range map[string]int{
		"/oauth%2Ftoken": 404, "/oauth%2ftoken": 404, "/oauth%2Fregister": 404, "/oauth%2Frevoke": 404, "/oauth/token%2F": 404,
		"/.well-known%2Foauth-authorization-server": 404, "/.well-known/oauth-protected-resource%2Fapi/v5": 404, "/.well-known/oauth-protected-resource/api%2Fv5%2Fmcp": 404,
		"/oauth/%74oken": 400, "/%6Fauth/revoke": 400, "/oauth/regist%65r": 400, "/.well-known/oauth%2Dauthorization-server": 405,
	} {
		if w := d.send(request("POST", path, "x=y")); w.Code != want {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
}

// decision M5: without credentials, the preflight first and uncounted.
func TestCORS(t *testing.T) {
	d := open(t)
	d.TokenLimit = limit.NewAddresses(limit.Limit{N: 3, Window: time.Minute}, nil)
	d.RegisterLimit = limit.NewAddresses(limit.Limit{N: 3, Window: time.Minute}, nil)
	d.handler = d.Handler()
	for path, methods := range map[string]string{
		"/.well-known/oauth-authorization-server": "GET, HEAD",
		"/.well-known/openid-configuration":       "GET, HEAD",
		"/oauth/register":                         "POST",
		"/oauth/token":                            "POST",
		"/oauth/revoke":                           "POST",
	} {
		for range 5 { // more than the limit
			w := d.send(request("OPTIONS", path, "",
				"Origin", "https://web.example", "Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "authorization", "Authorization", "Basic eDp5"))
			want := map[string]string{
				"Access-Control-Allow-Origin":  "*",
				"Access-Control-Allow-Methods": methods,
				"Access-Control-Allow-Headers": "Authorization, Content-Type, Accept, MCP-Protocol-Version, " +
					"Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-ID, X-Auth-Token",
				"Access-Control-Allow-Credentials": "",
				"Vary":                             "",
			}
			if path == "/oauth/token" {
				want["Access-Control-Allow-Headers"] += ", DPoP"
			}
			for name, value := range want {
				if got := w.Header().Get(name); got != value {
					t.Errorf("preflight of %s: %s: %q, want %q", path, name, got, value)
				}
			}
			if w.Code != http.StatusNoContent || w.Body.Len() > 0 {
				t.Errorf("preflight of %s: %d %q, want 204 without a body", path, w.Code, w.Body)
			}
		}
		if d.counted("token ok")+len(d.counts) > 0 {
			t.Errorf("a preflight was counted: %q", d.counts)
		}
	}
	for _, r := range []*http.Request{
		request("GET", "/.well-known/oauth-authorization-server", ""),
		request("DELETE", "/.well-known/oauth-authorization-server", ""),
		request("GET", "/.well-known/openid-configuration", ""),
		request("POST", "/oauth/register", `{"redirect_uris":["https://client.example/cb"]}`),
		request("POST", "/oauth/register", `{`),
		request("POST", "/oauth/token", "grant_type=x"),
		request("GET", "/oauth/token", ""),
		request("POST", "/oauth/revoke", "token=x"), // the last that the limit lets through
		request("POST", "/oauth/revoke", "token=x"), // 429
	} {
		r.Header.Set("Origin", "https://web.example")
		w := d.send(r)
		if w.Code == http.StatusNoContent {
			t.Errorf("%s %s was taken for a preflight", r.Method, r.URL)
		}
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != "*" {
			t.Errorf("%s %s: %d: Access-Control-Allow-Origin: %q", r.Method, r.URL, w.Code, got)
		}
		exposed := "WWW-Authenticate, Retry-After, MCP-Protocol-Version"
		if r.URL.Path == "/oauth/token" {
			exposed += ", DPoP-Nonce"
		}
		if got := w.Header().Get("Access-Control-Expose-Headers"); got != exposed {
			t.Errorf("%s %s: %d: Access-Control-Expose-Headers: %q, want %q", r.Method, r.URL, w.Code, got, exposed)
		}
		if got := w.Header().Get("Access-Control-Allow-Credentials"); got != "" {
			t.Errorf("%s %s: Access-Control-Allow-Credentials: %q", r.Method, r.URL, got)
		}
	}
}

// spec section 8: over the limit the answer is 429 with a Retry-After header;
// decision L1: every method and outcome counts, before anything is looked at.
func TestRateLimits(t *testing.T) {
	registration := `{"redirect_uris":["https://client.example/cb"]}`
	tests := []struct {
		name   string
		n      int
		window time.Duration
		counts []func(i int) *http.Request // taken in turns
		over   *http.Request
	}{
		{"300 requests per 10 minutes to token and revoke, counted together", 300, 10 * time.Minute,
			[]func(int) *http.Request{
				func(int) *http.Request { return request("POST", "/oauth/token", "grant_type=refresh_token") },
				func(int) *http.Request { return request("POST", "/oauth/revoke", "token=x&client_id=y") },
				func(int) *http.Request { return request("GET", "/oauth/token", "") },
				func(int) *http.Request { return request("POST", "/oauth/revoke", "%") },
				func(int) *http.Request { return request("OPTIONS", "/oauth/token", "") },
			}, request("POST", "/oauth/token", "{}", "Content-Type", "text/plain")},
		{"20 registration requests per hour, refused ones included", 20, time.Hour,
			[]func(int) *http.Request{
				func(int) *http.Request { return request("POST", "/oauth/register", registration) },
				func(int) *http.Request { return request("POST", "/oauth/register", "{}") },
				func(int) *http.Request { return request("PUT", "/oauth/register", "") },
			}, request("POST", "/oauth/register", registration)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t)
			d.TokenLimit, d.RegisterLimit = nil, nil // as the contract has them
			d.handler = d.Handler()
			for i := range tt.n {
				if w := d.send(tt.counts[i%len(tt.counts)](i)); w.Code == http.StatusTooManyRequests {
					t.Fatalf("request %d was refused", i+1)
				}
			}
			before := len(d.events("client_registered"))
			d.clock.sleep(1500 * time.Millisecond)
			for range 3 {
				w := d.send(tt.over)
				wantRefusal(t, w, http.StatusTooManyRequests, "temporarily_unavailable") // decision T10
				want := fmt.Sprint(int(tt.window.Seconds()) - 1)
				if got := w.Header().Get("Retry-After"); got != want {
					t.Errorf("Retry-After: %q, want %q", got, want)
				}
			}
			if after := len(d.events("client_registered")); after != before {
				t.Error("a request over the limit registered a client")
			}
			other := request(tt.over.Method, tt.over.URL.Path, "x")
			other.RemoteAddr = "198.51.100.7:1"
			if w := d.send(other); w.Code == http.StatusTooManyRequests {
				t.Error("another address is limited too")
			}
			wantLimited(t, d, tt.over.URL.Path, 1) // decision J1: once per address and window
			d.clock.sleep(tt.window - 2500*time.Millisecond)
			if w := d.send(tt.over); w.Code != http.StatusTooManyRequests {
				t.Errorf("%d one second before Retry-After is over, want 429", w.Code)
			}
			d.clock.sleep(time.Second)
			if w := d.send(tt.over); w.Code == http.StatusTooManyRequests {
				t.Error("429 after the seconds of Retry-After")
			}
			d.clock.sleep(2 * time.Second)
			for range tt.n + 5 {
				d.send(tt.over)
			}
			wantLimited(t, d, tt.over.URL.Path, 2)
		})
	}
}

func wantLimited(t *testing.T, d *door, path string, n int) {
	t.Helper()
	events := d.events("rate_limited")
	if len(events) != n {
		t.Fatalf("%d events rate_limited, want %d", len(events), n)
	}
	if e := events[0]; e.Address != testAddress || e.Detail != path || e.Reference != "request-1" {
		t.Errorf("event %+v", e)
	}
}

// Registration has a budget of its own.
func TestRateLimitsAreApart(t *testing.T) {
	d := open(t)
	d.RegisterLimit = limit.NewAddresses(limit.Limit{N: 1, Window: time.Minute}, nil)
	d.handler = d.Handler()
	for range 3 {
		d.send(request("POST", "/oauth/register", "{}"))
	}
	if w := d.send(request("POST", "/oauth/token", "a=b")); w.Code != http.StatusBadRequest {
		t.Errorf("token: %d, want 400", w.Code)
	}
}

// decision T10: 503 keeps the client's tokens. Nothing is used up: once the
// database is back, the same requests go well.
func TestDatabaseUnavailable(t *testing.T) {
	d := open(t)
	id, h, _, refresh := d.live()
	_, code := d.approved(id)
	tests := []struct {
		name, path, body string
		status           int // once the database is back
	}{
		{"exchange", "/oauth/token", exchangeForm(id, code).Encode(), 200},
		{"refresh", "/oauth/token", refreshForm(id, refresh).Encode(), 200},
		{"revoke", "/oauth/revoke", revokeForm(id, d.ring.Access(h, 1, d.clock.Now().Unix())).Encode(), 200},
		{"register", "/oauth/register", `{"redirect_uris":["https://client.example/cb"]}`, 201},
	}
	restore := d.breakDatabase()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := d.send(request("POST", tt.path, tt.body))
			wantRefusal(t, w, http.StatusServiceUnavailable, "temporarily_unavailable")
			if got := w.Header().Get("Retry-After"); got != "5" {
				t.Errorf("Retry-After: %q, want 5", got)
			}
		})
	}
	if d.log.Len() > 0 {
		t.Errorf("logged, as the store has done: %s", d.log)
	}
	restore()
	for _, tt := range tests {
		if w := d.send(request("POST", tt.path, tt.body)); w.Code != tt.status {
			t.Errorf("%s, once the database is back: %d %s, want %d", tt.name, w.Code, w.Body, tt.status)
		}
	}
}

// breakDatabase takes away the tables that this door needs, until restored.
func (d *door) breakDatabase() (restore func()) {
	d.t.Helper()
	db, err := sql.Open("sqlite3", "file:"+d.path+"?vfs=grantkeeper&_pragma=busy_timeout(5000)")
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { db.Close() })
	run := func(text string) {
		d.t.Helper()
		if _, err := db.Exec(text); err != nil {
			d.t.Fatal(err)
		}
	}
	run(`ALTER TABLE approval RENAME TO approval_away`)
	run(`ALTER TABLE client RENAME TO client_away`)
	return func() {
		d.t.Helper()
		run(`ALTER TABLE approval_away RENAME TO approval`)
		run(`ALTER TABLE client_away RENAME TO client`)
	}
}

// What is not for the client is logged once and told to no one.
func TestErrorsOfOurOwn(t *testing.T) {
	d := open(t)
	b := newBudget(d.TokenLimit, limit.NewAddresses, limit.Token)
	h := d.Server.post(b, func(call) (answer, error) { return answer{}, errors.New("table approval is locked") })
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "r-42")
	h(w, request("POST", "/oauth/token", "a=b"))
	wantRefusal(t, w, http.StatusInternalServerError, "server_error")
	if e := readRefusal(t, w); !strings.HasSuffix(e.Description, "reference r-42") || strings.Contains(e.Description, "table") {
		t.Errorf("description %q", e.Description)
	}
	if log := d.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "level=ERROR") ||
		!strings.Contains(log, "table approval is locked") || !strings.Contains(log, "request_id=r-42") {
		t.Errorf("log %q", log)
	}
}

// A client that has gone is no fault of ours.
func TestClientHasGone(t *testing.T) {
	d := open(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	b := newBudget(d.TokenLimit, limit.NewAddresses, limit.Token)
	h := d.Server.post(b, func(c call) (answer, error) { return answer{}, fmt.Errorf("waiting: %w", c.Context().Err()) })
	w := httptest.NewRecorder()
	h(w, request("POST", "/oauth/token", "a=b").WithContext(ctx))
	wantRefusal(t, w, http.StatusServiceUnavailable, "temporarily_unavailable")
	if d.log.Len() > 0 {
		t.Errorf("logged: %s", d.log)
	}
}
