package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A limited endpoint of spec section 8. send makes the i-th request of a
// caller, of any method and outcome.
type limited struct {
	n      int
	window time.Duration
	send   func(c *caller, i int) answer
	over   func(t *testing.T, what string, a answer)
}

func limits(h *house) map[string]limited {
	h.t.Helper()
	f := h.flow("")
	json429 := func(t *testing.T, what string, a answer) {
		t.Helper()
		wantJSONError(t, what, a, 429, "temporarily_unavailable") // decision T10
		if a.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: a script cannot read it: %v", what, a.header)
		}
	}
	page429 := func(t *testing.T, what string, a answer) { t.Helper(); wantPage(t, what, a, 429) }
	types := header{"Content-Type", formType}
	return map[string]limited{
		"/oauth/authorize": {150, 10 * minute, func(c *caller, i int) answer {
			switch i % 5 {
			case 0:
				return c.get("/oauth/authorize?" + f.query())
			case 1:
				return c.get("/oauth/authorize?client_id=x")
			case 2:
				return c.send("POST", "/oauth/authorize", "decision=approve", types)
			case 3:
				return c.send("PUT", "/oauth/authorize", "")
			}
			return c.get("/oauth/authorize")
		}, page429},
		"/oauth/token and /oauth/revoke": {300, 10 * minute, func(c *caller, i int) answer {
			switch i % 6 {
			case 0:
				return c.postForm("/oauth/token", "grant_type", "refresh_token", "refresh_token", "x", "client_id", f.client)
			case 1:
				return c.postForm("/oauth/revoke", "token", "x", "client_id", f.client)
			case 2:
				return c.get("/oauth/token")
			case 3:
				return c.postJSON("/oauth/revoke", "{")
			case 4:
				return c.send("OPTIONS", "/oauth/token", "") // no preflight
			}
			return c.postForm("/oauth/token", "client_secret", "x")
		}, json429},
		"/oauth/register": {20, time.Hour, func(c *caller, i int) answer {
			switch i % 4 {
			case 0:
				return c.postJSON("/oauth/register", registration("", ""))
			case 1:
				return c.postJSON("/oauth/register", registration("redirect_uris", "[]"))
			case 2:
				return c.get("/oauth/register")
			}
			return c.send("POST", "/oauth/register", "x", types)
		}, json429},
	}
}

// Spec 8: "N requests per window, per client IP address": N and not one more,
// whatever their method and outcome; over it the answer is 429 with a
// Retry-After that is true to the second (decision L1).
func TestSpec8RateLimits(t *testing.T) {
	t.Parallel()
	for name := range limits(start(t)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t)
			l := limits(h)[name]
			c := h.caller()
			counts := many(l.n, func(i int) answer { return l.send(c, i) })
			if counts[429] != 0 {
				t.Fatalf("of %d requests %d are over the limit", l.n, counts[429])
			}
			for i := range 6 {
				a := l.send(c, i)
				l.over(t, fmt.Sprint("request ", l.n+1+i), a)
				if s, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || s < 1 || s > int(l.window/second) {
					t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
				}
			}
			if a := l.send(h.caller(), 0); a.status == 429 {
				t.Error("another address is limited too")
			}
			forwarded := header{"X-Forwarded-For", "8.8.8.8", "Forwarded", "for=8.8.8.8", "X-Real-IP", "8.8.8.8"}
			path, _, _ := strings.Cut(name, " ")
			if a := c.send("GET", path, "", forwarded); a.status != 429 {
				t.Errorf("a stranger's forwarding headers give a new budget: %s", a)
			}
			for !slides(t, h, l) {
			}
		})
	}
}

// slides sends one request, and the rest of the limit 100 s later: the first
// one's place is free again exactly a window after it, and no other. It
// reports false when it was too slow to see the second before.
func slides(t *testing.T, h *house, l limited) (seen bool) {
	t.Helper()
	c, moved := h.caller(), time.Duration(0)
	sleep := func(d time.Duration) { h.sleep(d); moved += d }
	began := time.Now()
	l.send(c, 0)
	ended := time.Now()
	// left gives the whole seconds until the first one's place is free, once
	// they can be told for sure from outside.
	left := func() time.Duration {
		t.Helper()
		for {
			asked := time.Now()
			a := l.send(c, 0)
			least := l.window - moved - time.Since(began)
			most := l.window - moved - asked.Sub(ended)
			left := (most + second - 1).Truncate(second)
			if left != (least + second - 1).Truncate(second) {
				continue
			}
			if got := a.header.Get("Retry-After"); left > 0 && (a.status != 429 || got != strconv.Itoa(int(left/second))) {
				t.Errorf("%v before the end of the window: got %d, Retry-After %q", left, a.status, got)
			}
			return left
		}
	}
	sleep(100 * second)
	if counts := many(l.n-1, func(i int) answer { return l.send(c, i) }); counts[429] > 0 {
		t.Errorf("within the limit: %v", counts)
	}
	sleep(left() - second)
	left() // the wait does not grow
	if left() != second {
		return false
	}
	sleep(second)
	if a := l.send(c, 0); a.status == 429 {
		t.Errorf("a window after the first request: %s", a)
	}
	a := l.send(c, 0)
	if s, _ := strconv.Atoi(a.header.Get("Retry-After")); a.status != 429 || s < 1 || s > 100 {
		t.Errorf("two places have become free at once: %s", a)
	}
	return true
}

// "Counted together": the token and the revocation endpoint share one budget,
// and the three budgets are apart.
func TestSpec8CountedTogether(t *testing.T) {
	t.Parallel()
	h := start(t)
	l := limits(h)
	token := func(c *caller) answer { return c.postForm("/oauth/token") }
	revoke := func(c *caller) answer { return c.postForm("/oauth/revoke") }
	for name, ways := range map[string][2]func(*caller) answer{"token, then revoke": {token, revoke}, "revoke, then token": {revoke, token}} {
		c := h.caller()
		if counts := many(300, func(int) answer { return ways[0](c) }); counts[400] != 300 {
			t.Errorf("%s: %v", name, counts)
		}
		for _, way := range ways {
			if a := way(c); a.status != 429 {
				t.Errorf("%s: %s", name, a)
			}
		}
		for _, path := range []string{"/oauth/authorize", "/oauth/register"} {
			if a := l[path].send(c, 1); a.status == 429 {
				t.Errorf("%s: %s is over its limit too", name, path)
			}
		}
		if a := c.get("/.well-known/oauth-authorization-server"); a.status != 200 {
			t.Errorf("%s: metadata: %s", name, a)
		}
	}
}

// Decision M5: a preflight is uncounted, before and over the limit.
func TestDecisionM5PreflightUncounted(t *testing.T) {
	t.Parallel()
	h := start(t)
	preflight := header{"Origin", "https://app.quill.example", "Access-Control-Request-Method", "POST"}
	for _, tt := range []struct {
		path string
		n    int
	}{{"/oauth/register", 20}, {"/oauth/token", 300}} {
		c := h.caller()
		if counts := many(tt.n+50, func(int) answer { return c.send("OPTIONS", tt.path, "", preflight) }); counts[204] != tt.n+50 {
			t.Errorf("%s: %v", tt.path, counts)
		}
		if counts := many(tt.n, func(int) answer { return c.postForm(tt.path) }); counts[400] != tt.n {
			t.Errorf("%s: preflights were counted: %v", tt.path, counts)
		}
		if a := c.send("OPTIONS", tt.path, "", preflight); a.status != 204 {
			t.Errorf("%s: a preflight over the limit: %s", tt.path, a)
		}
		if a := c.postForm(tt.path); a.status != 429 {
			t.Errorf("%s: %s", tt.path, a)
		}
	}
}

// Decision L1: "over the limit nothing happens": no client is registered, no
// code and no refresh token used up, nothing approved.
func TestDecisionL1NothingHappensOverTheLimit(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, tk := h.connected("")
	g, code := h.issued(f.client)
	b := h.signedIn("ada@nordlys.example")
	page := b.consent(h.flow(f.client)).form("/oauth/authorize").with(append(treasurer, "decision", "approve")...)
	before := h.rows()
	c := h.caller()
	many(300, func(int) answer { return c.postForm("/oauth/token") })
	many(20, func(int) answer { return c.postForm("/oauth/register") })
	many(150, func(int) answer { return b.get("/oauth/authorize") })
	f.caller, g.caller = c, c
	for range 3 {
		for name, a := range map[string]answer{
			"refresh": f.refresh(tk.refresh), "exchange": g.exchange(code), "revoke": f.revoke(tk.refresh), "register": c.postJSON("/oauth/register", registration("", "")),
			"approve": page.submit(),
		} {
			if a.status != 429 || a.header.Get("Location") != "" {
				t.Errorf("%s: %s", name, a)
			}
		}
	}
	h.unchanged(t, before)
	f.caller, g.caller = h.caller(), h.caller()
	tokensOf(t, f.refresh(tk.refresh))
	tokensOf(t, g.exchange(code))
	h.sleep(10 * minute)
	if a := page.submit(); a.status != 303 {
		t.Errorf("the page after the wait: %s", a)
	}
}

// Spec 5.5: "OAuth requests count toward the organization's API rate limit, as
// requests made with API keys do" (G-13), and refused credentials do not
// (G-14). Decision B6: 3,000 in 10 minutes, then 429 with Retry-After.
func TestSpec55OrganizationLimit(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, tk := h.connected("")
	_, fjell := h.connected("", "organization", "fjell", "grant", "everything")
	key := h.apiKeys["tor@nordlys.example"]
	c := h.caller()
	many(100, func(i int) answer { return c.get("/api/v5/me", header{"Authorization", "Bearer x"}) })
	var mistakes atomic.Int64
	counts := many(3000, func(i int) answer {
		switch i % 5 {
		case 0:
			return c.get("/api/v3/me", header{"X-Auth-Token", key})
		case 1:
			return c.get("/api/v4/nothing", header{"X-Auth-Token", key})
		case 2:
			return c.send("DELETE", "/api/v5/me", "", header{"Authorization", "Bearer " + tk.access})
		case 3:
			if a := c.me(tk.access + "x"); a.status != 401 { // uncounted
				mistakes.Add(1)
			}
		}
		return c.me(tk.access)
	})
	if counts[429] != 0 || counts[200] != 1800 || counts[404] != 600 || counts[405] != 600 || mistakes.Load() > 0 {
		t.Errorf("3,000 requests: %v", counts)
	}
	for name, a := range map[string]answer{
		"OAuth": c.me(tk.access), "MCP": c.mcp(tk.access, initialize), "API key": c.get("/api/v4/me", header{"X-Auth-Token", key}),
		"API key of another person": h.caller().get("/api/v5/me", header{"X-Auth-Token", h.apiKeys["ada@nordlys.example"]}),
	} {
		if s, err := strconv.Atoi(a.header.Get("Retry-After")); a.status != 429 || err != nil || s < 1 || s > 600 || a.errorCode() == "" || a.header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s: %s", name, a)
		}
	}
	if a := c.me("x"); a.status != 401 {
		t.Errorf("a bad credential over the limit: %s", a)
	}
	if a := c.me(fjell.access); a.status != 200 {
		t.Errorf("another organization: %s", a)
	}
	h.sleep(10 * minute)
	if a := c.me(tk.access); a.status != 200 {
		t.Errorf("after the window: %s", a)
	}
}
