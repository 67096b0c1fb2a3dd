package e2e

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	second = time.Second
	minute = time.Minute
	day    = 24 * time.Hour
)

// stopClock lets time pass by sleep alone, for cases that are exact to the
// second.
func (h *house) stopClock() {
	h.t.Helper()
	h.change("/v1/dev/clock", `{"stopped":true}`)
}

// wantError checks an error of an OAuth endpoint.
func wantError(t *testing.T, what string, a answer, status int, code string) {
	t.Helper()
	if a.status != status || a.errorCode() != code {
		t.Errorf("%s: got %s; want %d %s", what, a, status, code)
	}
}

func TestT01CodeAt299Seconds(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.stopClock()
	f := h.flow("")
	code := h.signedIn("ada@nordlys.example").approve(f, treasurer...)
	h.sleep(299 * second)
	tokensOf(t, f.exchange(code))
}

// T-02 and T-03: a code is over after exactly 5 minutes, and trying it again
// revokes nothing.
func TestT02T03CodeAt300Seconds(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.stopClock()
	client := h.register()
	_, earlier := h.connected(client)
	h.sleep(second) // so that the list has the next one first
	f := h.flow(client)
	code := h.signedIn("ada@nordlys.example").approve(f, treasurer...)
	h.sleep(300 * second)
	for range 2 {
		wantError(t, "expired code", f.exchange(code), 400, "invalid_grant")
	}
	if !h.works(earlier.access) {
		t.Error("an expired code has ended another approval")
	}
	if got := h.approvalsOf(client)[0]; got["state"] != "ended" || got["reason"] != "never_connected" {
		t.Errorf("decision P13: got %v, want ended as never connected", got)
	}
}

// T-04 and T-05: an access token works for exactly 30 minutes; the refresh
// token works on.
func TestT04T05AccessTokenLifetime(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.stopClock()
	f, first := h.connected("")
	h.sleep(1799 * second)
	if !h.works(first.access) {
		t.Error("after 1,799 s: refused")
	}
	h.sleep(second)
	a := h.caller().me(first.access)
	if a.status != 401 || !strings.Contains(a.header.Get("WWW-Authenticate"), `error="invalid_token"`) {
		t.Errorf("after 1,800 s: %s", a)
	}
	second := tokensOf(t, f.refresh(first.refresh))
	if !h.works(second.access) || h.works(first.access) {
		t.Error("T-06: after the refresh, want the new access token alone to work")
	}
}

// T-07, T-08: a client that nobody approved is known for exactly 14 days.
func TestT07T08UnapprovedClient(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.stopClock()
	f := h.flow("")
	h.sleep(14*day - 1*second)
	b := h.signedIn("ada@nordlys.example")
	b.consent(f)
	h.sleep(second)
	if p := b.page("/oauth/authorize?" + f.query()); p.status != 400 || p.header.Get("Location") != "" {
		t.Errorf("authorize: got %d, want a page with 400", p.status)
	}
	wantError(t, "token", f.refresh("svr_x"), 401, "invalid_client")
	wantError(t, "revoke", f.revoke("svr_x"), 403, "invalid_client")
}

// T-09, T-10: a client approved once stays, even after the approval has ended.
func TestT09T10ApprovedClientStays(t *testing.T) {
	t.Parallel()
	h := start(t)
	f := h.flow("")
	h.sleep(13 * day)
	b := h.signedIn("ada@nordlys.example")
	b.approve(f, treasurer...)
	revoked := h.flow("")
	first := tokensOf(t, revoked.exchange(b.approve(revoked, treasurer...)))
	if a := revoked.revoke(first.access); a.status != 200 {
		t.Fatal(a)
	}
	h.sleep(87 * day)
	b = h.signedIn("ada@nordlys.example")
	b.consent(f)
	b.consent(revoked)
}

// T-11: a consent page that was opened before the deletion approves nothing
// after it.
func TestT11DeletedUnderThePage(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.stopClock()
	f := h.flow("")
	h.sleep(14*day - 2*second)
	p := h.signedIn("ada@nordlys.example").consent(f)
	h.sleep(3 * second)
	a := p.form("/oauth/authorize").submit(append(treasurer, "decision", "approve")...)
	if a.status != 400 || a.header.Get("Location") != "" {
		t.Errorf("got %s; want a page with 400", a)
	}
	if got := h.approvalsOf(f.client); len(got) != 0 {
		t.Errorf("rows were left: %v", got)
	}
}

// T-13: who cancels does not approve, so the client goes after 14 days.
func TestT13CancelDoesNotApprove(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.stopClock()
	f := h.flow("")
	h.sleep(10 * day)
	p := h.signedIn("ada@nordlys.example").consent(f)
	if a := p.form("/oauth/authorize").submit("decision", "cancel"); a.location(t).Query().Get("error") != "access_denied" {
		t.Fatal(a)
	}
	h.sleep(4 * day)
	wantError(t, "token", f.refresh("svr_x"), 401, "invalid_client")
}

// T-14 to T-17: a fact that ends between code and exchange.
func TestT14ToT17EndsBeforeTheExchange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(h *house, client string)
	}{
		{"T-14 client disabled", func(h *house, c string) { h.change("/v1/clients/"+c+"/disable", `{"reason":"test"}`) }},
		{"T-15 person leaves", func(h *house, _ string) {
			h.change("/v1/organizations/nordlys/members/ada/remove", `{"reason":"test"}`)
		}},
		{"T-16 client revoked under Connected apps", func(h *house, c string) {
			path := "/organizations/nordlys/profile/api/clients/" + c + "/revoke"
			if a := h.signedIn("ada@nordlys.example").page(path).form(path).submit(); a.status != 303 {
				h.t.Fatal(a)
			}
		}},
		{"T-17 AI integration off and on", func(h *house, _ string) {
			h.change("/v1/organizations/nordlys/ai-integration", `{"on":false,"reason":"test"}`)
			h.change("/v1/organizations/nordlys/ai-integration", `{"on":true,"reason":"test"}`)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := start(t)
			client := h.register()
			_, live := h.connected(client)
			f := h.flow(client)
			code := h.signedIn("ada@nordlys.example").approve(f, treasurer...)
			tt.end(h, client)
			wantError(t, "exchange", f.exchange(code), 400, "invalid_grant")
			if h.works(live.access) {
				t.Error("another approval on the same fact still works")
			}
		})
	}
}

func TestT19ClockJumpsBack(t *testing.T) {
	t.Parallel()
	h := start(t, "--data", t.TempDir())
	f, first := h.connected("")
	g := h.flow(f.client)
	code := h.signedIn("ada@nordlys.example").approve(g, treasurer...)
	h.sleep(30 * minute)
	refused := func(when string) {
		t.Helper()
		if h.works(first.access) {
			t.Errorf("%s: the access token works", when)
		}
		wantError(t, when, g.exchange(code), 400, "invalid_grant")
	}
	refused("expired")
	h.sleep(-time.Hour)
	refused("after the clock went back")
	h.restart()
	refused("after a restart with the clock back")
}

// restart stops the server and starts it on the same data.
func (h *house) restart() {
	h.t.Helper()
	h.stop()
	h.onSamePort()
}

// onSamePort runs the server where it was, so that tokens and pages meet the
// same base URL.
func (h *house) onSamePort() {
	h.t.Helper()
	args := h.args
	h.args = append(append([]string{}, args...), "--listen", strings.TrimPrefix(h.base, "http://"))
	h.run()
	h.args = args
}

// T-20, T-21: what was answered is there after a restart and after a crash,
// and nothing can be used twice across it.
func TestT20T21RestartsAndCrashes(t *testing.T) {
	t.Parallel()
	h := start(t, "--data", t.TempDir())
	for _, again := range []struct {
		name string
		do   func()
	}{{"restart", h.restart}, {"kill -9", func() { h.kill(); h.onSamePort() }}} {
		f := h.flow("")
		code := h.signedIn("ada@nordlys.example").approve(f, treasurer...)
		again.do()
		first := tokensOf(t, f.exchange(code))
		again.do()
		second := tokensOf(t, f.refresh(first.refresh))
		again.do()
		if !h.works(first.access) || !h.works(second.access) {
			t.Errorf("%s: an access token is lost", again.name)
		}
		wantError(t, again.name+": a used refresh token", f.refresh(first.refresh), 400, "invalid_grant")
		again.do()
		if h.works(second.access) {
			t.Errorf("%s: the reuse is forgotten", again.name)
		}
		g := h.flow("")
		code = h.signedIn("ada@nordlys.example").approve(g, treasurer...)
		third := tokensOf(t, g.exchange(code))
		again.do()
		wantError(t, again.name+": a used code", g.exchange(code), 400, "invalid_grant")
		if h.works(third.access) {
			t.Errorf("%s: the approval of a code used twice lives", again.name)
		}
	}
}

// T-21 under load: whatever moment the crash takes, a refresh that was
// answered stays used, and one that was not leaves a token that works.
func TestT21CrashesUnderLoad(t *testing.T) {
	t.Parallel()
	h := start(t, "--data", t.TempDir())
	for round := range 5 {
		type chain struct {
			f        *flow
			answered []string // refresh tokens that were answered with a next one
			current  string
		}
		chains := make([]*chain, 4)
		client := h.register()
		for i := range chains {
			f, first := h.connected(client)
			chains[i] = &chain{f: f, current: first.refresh}
		}
		var wg sync.WaitGroup
		var total atomic.Int64
		var killed atomic.Bool
		for _, c := range chains {
			wg.Go(func() {
				for {
					a, err := c.f.try("POST", "/oauth/token",
						form("grant_type", "refresh_token", "refresh_token", c.current, "client_id", c.f.client),
						header{"Content-Type", "application/x-www-form-urlencoded"})
					if err != nil || a.status != 200 {
						if !killed.Load() {
							t.Errorf("before it is killed: %s, %v", a, err)
						}
						return
					}
					c.answered, c.current = append(c.answered, c.current), tokensOf(t, a).refresh
					total.Add(1)
				}
			})
		}
		for total.Load() < int64(20+30*round) && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		killed.Store(true)
		h.kill()
		wg.Wait()
		h.onSamePort()
		for i, c := range chains {
			// The last one sent may have been used without its answer arriving.
			if a := c.f.refresh(c.current); a.status == 200 {
				c.current = tokensOf(t, a).refresh
			} else {
				wantError(t, "the token of a lost answer", a, 400, "invalid_grant")
			}
			if n := len(c.answered); n > 0 {
				wantError(t, "an answered refresh token", c.f.refresh(c.answered[n-1]), 400, "invalid_grant")
			}
			if a := c.f.refresh(c.current); a.status == 200 {
				t.Errorf("round %d, chain %d: the approval lives after a reuse", round, i)
			}
		}
	}
}

// T-24: the very first refresh token is recognised after 1,000 rotations.
func TestT24FirstTokenAfterManyRotations(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, first := h.connected("")
	current := first
	for n := range 1000 {
		if n%250 == 249 {
			h.sleep(10 * minute) // the endpoint's limit is per address and 10 minutes
		}
		current = tokensOf(t, f.refresh(current.refresh))
	}
	wantError(t, "the first refresh token", f.refresh(first.refresh), 400, "invalid_grant")
	if h.works(current.access) {
		t.Error("the approval lives")
	}
}
