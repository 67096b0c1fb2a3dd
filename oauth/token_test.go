package oauth

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// tokenAnswer is spec 2.3.
type tokenAnswer struct {
	Access    string `json:"access_token"`
	Type      string `json:"token_type"`
	ExpiresIn int64  `json:"expires_in"` // seconds
	Refresh   string `json:"refresh_token"`
	Scope     string `json:"scope"`
	CreatedAt int64  `json:"created_at"` // Unix seconds
}

// readTokens checks all that every token answer has in common.
func readTokens(t testing.TB, w *httptest.ResponseRecorder) tokenAnswer {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s, want 200", w.Code, w.Body)
	}
	var a tokenAnswer
	dec := json.NewDecoder(w.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		t.Fatal(err)
	}
	if a.Type != "Bearer" || a.ExpiresIn != 1800 || a.Scope != "api" ||
		!strings.HasPrefix(a.Access, "svo_") || !strings.HasPrefix(a.Refresh, "svr_") {
		t.Errorf("%+v", a)
	}
	wantUnkept(t, w)
	return a
}

func TestExchange(t *testing.T) {
	d := open(t)
	id := d.registered()
	h, code := d.approved(id)
	d.clock.sleep(299 * time.Second)
	a := readTokens(t, d.post("/oauth/token", exchangeForm(id, code)))
	if want := d.clock.Now().Unix(); a.CreatedAt != want {
		t.Errorf("created_at %d, want %d", a.CreatedAt, want)
	}
	access, ok := d.ring.Read(token.Access, a.Access)
	if want := (token.Claim{Kind: token.Access, Handle: h, Generation: 1, Time: a.CreatedAt + 1800, Key: d.ring.Sealing()}); !ok || access != want {
		t.Errorf("access token %+v, want %+v", access, want)
	}
	refresh, ok := d.ring.Read(token.Refresh, a.Refresh)
	if want := (token.Claim{Kind: token.Refresh, Handle: h, Generation: 1, Key: d.ring.Sealing()}); !ok || refresh != want {
		t.Errorf("refresh token %+v, want %+v", refresh, want)
	}
	d.wantState(h, approval.Live, 1, "")
	events := d.events("code_exchanged")
	if len(events) != 1 {
		t.Fatalf("%d events code_exchanged, want 1", len(events))
	}
	if e := events[0]; e.Actor != "client:"+id || e.Address != testAddress || e.Reference != "request-1" {
		t.Errorf("event %+v", e)
	}
	if d.counted("token ok authorization_code") != 1 {
		t.Errorf("counted %q", d.counts)
	}
}

// spec 4.3, refresh-token rules.
func TestRefresh(t *testing.T) {
	d := open(t)
	id, h, firstAccess, refresh := d.live()
	seen := map[string]bool{firstAccess: true, refresh: true}
	for generation := int64(2); generation < 6; generation++ {
		d.clock.sleep(time.Hour)
		a := readTokens(t, d.post("/oauth/token", refreshForm(id, refresh)))
		if seen[a.Access] || seen[a.Refresh] {
			t.Error("a token came back a second time")
		}
		seen[a.Access], seen[a.Refresh] = true, true
		access, ok := d.ring.Read(token.Access, a.Access)
		want := token.Claim{Kind: token.Access, Handle: h, Generation: generation, Time: d.clock.Now().Unix() + 1800, Key: d.ring.Sealing()}
		if !ok || access != want {
			t.Errorf("access token %+v, want %+v", access, want)
		}
		d.wantState(h, approval.Live, generation, "")
		refresh = a.Refresh
	}
	if d.counted("token ok refresh_token") != 4 {
		t.Errorf("counted %q", d.counts)
	}
}

// What may be there without changing anything: each is a right request.
func TestExchangeTolerates(t *testing.T) {
	d := open(t)
	id := d.registered()
	tests := []struct {
		name string
		form func(url.Values) url.Values
	}{
		{"scope api", func(f url.Values) url.Values { return with(f, "scope", "api") }},
		{"scope empty", func(f url.Values) url.Values { return with(f, "scope", "") }},
		{"client_secret empty", func(f url.Values) url.Values { return with(f, "client_secret", "") }},
		{"resource, the MCP endpoint", func(f url.Values) url.Values { return with(f, "resource", base+"/api/v5/mcp") }},
		{"resource, empty", func(f url.Values) url.Values { return with(f, "resource", "") }},
		{"resource, both", func(f url.Values) url.Values { return with(f, "resource", base+"/api/v5", base+"/api/v5/mcp") }},
		{"unknown parameters, doubled", func(f url.Values) url.Values { return with(f, "audience", "x", "y") }},
		{"parameters of the other grant", func(f url.Values) url.Values { return with(f, "refresh_token", "x") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, code := d.approved(id)
			readTokens(t, d.post("/oauth/token", tt.form(exchangeForm(id, code))))
		})
	}
	t.Run("Content-Type with charset, Content-Encoding identity", func(t *testing.T) {
		_, code := d.approved(id)
		readTokens(t, d.send(request("POST", "/oauth/token", exchangeForm(id, code).Encode(),
			"Content-Type", "application/x-www-form-urlencoded; charset=UTF-8", "Content-Encoding", "identity")))
	})
	t.Run("a query string, which is not read", func(t *testing.T) {
		_, code := d.approved(id)
		readTokens(t, d.send(request("POST", "/oauth/token?client_id=other&scope=all&code=x&client_secret=y", exchangeForm(id, code).Encode())))
	})
	t.Run("a body without a length", func(t *testing.T) {
		_, code := d.approved(id)
		r := request("POST", "/oauth/token", exchangeForm(id, code).Encode())
		r.ContentLength = -1
		readTokens(t, d.send(r))
	})
	t.Run("a cookie, which is not read", func(t *testing.T) {
		_, code := d.approved(id)
		readTokens(t, d.send(request("POST", "/oauth/token", exchangeForm(id, code).Encode(), "Cookie", "session=x")))
	})
}

// A refused request uses nothing up (decision T4): after each of these the
// same code is exchanged, and the same refresh token refreshed.
func TestTokenRefusals(t *testing.T) {
	d := open(t)
	id := d.registered()
	other := d.registered()
	foreign := newRing(t)
	strange := token.Handle{1, 2, 3}
	tests := []struct {
		name   string
		form   func(f url.Values, h token.Handle) url.Values // of a right exchange or refresh
		grants string                                        // e exchange, r refresh
		status int
		code   string
	}{
		{"grant_type missing", set("grant_type"), "er", 400, "invalid_request"},
		{"grant_type empty", set("grant_type", ""), "er", 400, "invalid_request"},
		{"grant_type unknown", set("grant_type", "password"), "er", 400, "unsupported_grant_type"},
		{"grant_type in another case", set("grant_type", "Refresh_Token"), "er", 400, "unsupported_grant_type"},
		{"grant_type client_credentials", set("grant_type", "client_credentials"), "er", 400, "unsupported_grant_type"},
		{"client_id missing", set("client_id"), "er", 400, "invalid_request"},
		{"client_id unknown", set("client_id", "nobody"), "er", 401, "invalid_client"},
		{"client_id in another case", set("client_id", strings.ToUpper(id)), "er", 401, "invalid_client"},
		{"client_id of a metadata document", set("client_id", "https://client.example/metadata.json"), "er", 401, "invalid_client"}, // decision R8
		{"client_id endless", set("client_id", strings.Repeat("x", 50_000)), "er", 401, "invalid_client"},
		{"client_id twice", set("client_id", id, id), "er", 400, "invalid_request"},
		{"client_id of another client", set("client_id", other), "er", 400, "invalid_grant"},
		{"client_secret", set("client_secret", "x"), "er", 401, "invalid_client"},
		{"scope other than api", set("scope", "openid"), "er", 400, "invalid_scope"},
		{"scope api and more", set("scope", "api offline_access"), "er", 400, "invalid_scope"},
		{"scope twice", set("scope", "api", "api"), "er", 400, "invalid_request"},

		{"code missing", set("code"), "e", 400, "invalid_request"},
		{"code empty", set("code", ""), "e", 400, "invalid_request"},
		{"code garbage", set("code", "svc_x"), "e", 400, "invalid_grant"},
		{"code of another installation", func(f url.Values, h token.Handle) url.Values {
			return with(f, "code", foreign.Code(h, d.clock.Now().Unix()))
		}, "e", 400, "invalid_grant"},
		{"code without an approval", set("code", d.ring.Code(strange, d.clock.Now().Unix())), "e", 400, "invalid_grant"},
		{"code that is an access token", func(f url.Values, h token.Handle) url.Values {
			return with(f, "code", d.ring.Access(h, 1, d.clock.Now().Unix()+1800))
		}, "e", 400, "invalid_grant"},
		{"code that is a refresh token", func(f url.Values, h token.Handle) url.Values {
			return with(f, "code", d.ring.Refresh(h, 1))
		}, "e", 400, "invalid_grant"},
		{"redirect_uri missing", set("redirect_uri"), "e", 400, "invalid_request"},
		{"redirect_uri another", set("redirect_uri", "https://client.example/other"), "e", 400, "invalid_grant"},
		{"redirect_uri in another spelling", set("redirect_uri", strings.Replace(redirect, "client", "CLIENT", 1)), "e", 400, "invalid_grant"},
		{"code_verifier missing", set("code_verifier"), "e", 400, "invalid_request"},
		{"code_verifier wrong", set("code_verifier", wrongProof), "e", 400, "invalid_grant"},
		{"code_verifier of 42", set("code_verifier", strings.Repeat("a", 42)), "e", 400, "invalid_request"},
		{"code_verifier of 43, wrong", set("code_verifier", strings.Repeat("a", 43)), "e", 400, "invalid_grant"},
		{"code_verifier of 128, wrong", set("code_verifier", strings.Repeat("a", 128)), "e", 400, "invalid_grant"},
		{"code_verifier of 129", set("code_verifier", strings.Repeat("a", 129)), "e", 400, "invalid_request"},
		{"code_verifier with a sign that is reserved", set("code_verifier", strings.Repeat("a", 43)+"+"), "e", 400, "invalid_request"},
		{"code_verifier with a letter beyond ASCII", set("code_verifier", strings.Repeat("a", 43)+"é"), "e", 400, "invalid_request"},
		{"resource of another server", set("resource", "https://evil.example/api/v5"), "e", 400, "invalid_target"},
		{"resource, one of two", set("resource", base+"/api/v5", otherBase), "e", 400, "invalid_target"},

		{"refresh_token missing", set("refresh_token"), "r", 400, "invalid_request"},
		{"refresh_token empty", set("refresh_token", ""), "r", 400, "invalid_request"},
		{"refresh_token twice", set("refresh_token", "a", "a"), "r", 400, "invalid_request"},
		{"refresh_token garbage", set("refresh_token", "svr_x"), "r", 400, "invalid_grant"},
		{"refresh_token of another installation", func(f url.Values, h token.Handle) url.Values {
			return with(f, "refresh_token", foreign.Refresh(h, 1))
		}, "r", 400, "invalid_grant"},
		{"refresh_token without an approval", set("refresh_token", d.ring.Refresh(strange, 1)), "r", 400, "invalid_grant"},
		{"refresh_token that is an access token", func(f url.Values, h token.Handle) url.Values {
			return with(f, "refresh_token", d.ring.Access(h, 1, d.clock.Now().Unix()+1800))
		}, "r", 400, "invalid_grant"},
		{"refresh_token that is a code", func(f url.Values, h token.Handle) url.Values {
			return with(f, "refresh_token", d.ring.Code(h, d.clock.Now().Unix()))
		}, "r", 400, "invalid_grant"},
	}
	wantIt := func(t *testing.T, w *httptest.ResponseRecorder, name string, status int, code string) {
		t.Helper()
		body := w.Body.String()
		if p, missing := strings.CutSuffix(name, " missing"); missing && !strings.Contains(body, "missing parameter: "+p) {
			t.Errorf("%s does not say that %s is missing", body, p)
		}
		wantRefusal(t, w, status, code)
		wantNoChallenge(t, w)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, code := d.approved(id)
			form := exchangeForm(id, code)
			if strings.Contains(tt.grants, "e") {
				wantIt(t, d.post("/oauth/token", tt.form(form, h)), tt.name, tt.status, tt.code)
				d.wantState(h, approval.CodeIssued, 0, "")
			}
			a := readTokens(t, d.post("/oauth/token", form))
			if strings.Contains(tt.grants, "r") {
				wantIt(t, d.post("/oauth/token", tt.form(refreshForm(id, a.Refresh), h)), tt.name, tt.status, tt.code)
				d.wantState(h, approval.Live, 1, "")
			}
			readTokens(t, d.post("/oauth/token", refreshForm(id, a.Refresh)))
		})
	}
}

func set(name string, values ...string) func(url.Values, token.Handle) url.Values {
	return func(f url.Values, _ token.Handle) url.Values { return with(f, name, values...) }
}

func wantNoChallenge(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if got, sent := w.Header()["Www-Authenticate"]; sent {
		t.Errorf("WWW-Authenticate: %q without an Authorization header", got)
	}
}

// The order of decision T14: in a request with every fault, the first one in
// that order is named; once it is mended, the next.
func TestTokenOrder(t *testing.T) {
	d := open(t)
	disabled := d.disabledClient()
	known := d.registered()
	d.TokenLimit = limit.NewAddresses(limit.Limit{N: 1, Window: time.Minute}, nil)
	d.handler = d.Handler()
	d.send(request("GET", "/oauth/token", ""))

	r := request("GET", "/oauth/token", "")
	form := url.Values{
		"grant_type": {"password"}, "scope": {"all"}, "resource": {"https://evil.example"},
		"client_secret": {"x"}, "code": {"garbage", "twice"},
	}
	body := "%"
	type headers = http.Header
	h := headers{"Content-Type": {"text/plain"}, "Content-Encoding": {"gzip"}, "Authorization": {"Basic eDp5"}}
	steps := []struct {
		name   string
		status int
		code   string
		mend   func()
	}{
		{"the rate limit, before all", 429, "temporarily_unavailable", func() { d.clock.sleep(time.Hour); d.TokenLimit = nil; d.handler = d.Handler() }},
		{"method", 405, "invalid_request", func() { r.Method = "POST" }},
		{"media type", 400, "invalid_request", func() { h.Set("Content-Type", "application/x-www-form-urlencoded") }},
		{"content coding", 400, "invalid_request", func() { h.Del("Content-Encoding"); body = "a=" + strings.Repeat("x", maxBody) }},
		{"size", 400, "invalid_request", func() { body = "%" }},
		{"encoding", 400, "invalid_request", func() { body = "" }},
		{"repetition", 400, "invalid_request", func() { form.Set("code", "garbage") }},
		{"Authorization", 401, "invalid_client", func() { h.Del("Authorization") }},
		{"secret", 401, "invalid_client", func() { form.Del("client_secret") }},
		{"grant_type unknown", 400, "unsupported_grant_type", func() { form.Del("grant_type") }},
		{"grant_type missing", 400, "invalid_request", func() { form.Set("grant_type", "authorization_code") }},
		{"client_id missing", 400, "invalid_request", func() { form.Set("client_id", "nobody") }},
		{"client_id unknown", 401, "invalid_client", func() { form.Set("client_id", disabled) }},
		{"scope", 400, "invalid_scope", func() { form.Del("scope") }},
		{"resource", 400, "invalid_target", func() { form.Del("resource") }},
		{"redirect_uri missing", 400, "invalid_request", func() { form.Set("redirect_uri", redirect) }},
		{"code_verifier missing", 400, "invalid_request", func() { form.Set("code_verifier", "short") }},
		{"code_verifier malformed", 400, "invalid_request", func() { form.Set("code_verifier", rightProof) }},
		{"client disabled", 400, "invalid_grant", func() { form.Set("client_id", known) }},
		{"the token itself", 400, "invalid_grant", func() { _, code := d.approved(known); form.Set("code", code) }},
	}
	for _, step := range steps {
		b := body
		if b == "" {
			b = form.Encode()
		}
		next := request(r.Method, "/oauth/token", b)
		next.Header = h.Clone()
		w := d.send(next)
		if got := readRefusal(t, w).Error; w.Code != step.status || got != step.code {
			t.Fatalf("%s: %d %s, want %d %s", step.name, w.Code, w.Body, step.status, step.code)
		}
		step.mend()
	}
	readTokens(t, d.post("/oauth/token", form))
}

// decision T3: a header gets a challenge, of the scheme that OAuth has for
// clients (RFC 6749 section 5.2).
func TestAuthorizationHeader(t *testing.T) {
	d := open(t)
	id, h, _, refresh := d.live()
	for _, value := range []string{"Basic " + "eDp5", "Bearer x", "x", ""} {
		for path, form := range map[string]url.Values{
			"/oauth/token": refreshForm(id, refresh), "/oauth/revoke": revokeForm(id, refresh),
		} {
			w := d.send(request("POST", path, form.Encode(), "Authorization", value))
			wantRefusal(t, w, http.StatusUnauthorized, "invalid_client")
			if got, want := w.Header().Get("WWW-Authenticate"), `Basic realm="Svalinn"`; got != want {
				t.Errorf("WWW-Authenticate: %q, want %q", got, want)
			}
		}
	}
	d.wantState(h, approval.Live, 1, "")
}

// spec section 8: authorization code lifetime 5 minutes, single use.
func TestCodeExpires(t *testing.T) {
	d := open(t)
	id := d.registered()
	h, code := d.approved(id)
	d.clock.sleep(300 * time.Second)
	for range 2 {
		wantRefusal(t, d.post("/oauth/token", exchangeForm(id, code)), 400, "invalid_grant")
	}
	d.wantState(h, approval.Ended, 0, approval.NeverConnected)
}

// decision T5: the approval ends when the request proves who exchanged it.
func TestCodeUsedAgain(t *testing.T) {
	tests := []struct {
		name  string
		form  func(url.Values) url.Values
		phase approval.Phase
		why   approval.Reason
	}{
		{"right in everything else", func(f url.Values) url.Values { return f }, approval.Ended, approval.CodeReused},
		{"with a wrong verifier", func(f url.Values) url.Values { return with(f, "code_verifier", wrongProof) }, approval.Live, ""},
		{"with a wrong redirect URI", func(f url.Values) url.Values { return with(f, "redirect_uri", redirect+"&c=d") }, approval.Live, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t)
			id := d.registered()
			h, code := d.approved(id)
			a := readTokens(t, d.post("/oauth/token", exchangeForm(id, code)))
			wantRefusal(t, d.post("/oauth/token", tt.form(exchangeForm(id, code))), 400, "invalid_grant")
			d.wantState(h, tt.phase, 1, tt.why)
			want := 400
			if tt.phase == approval.Live {
				want = 200
			}
			if w := d.post("/oauth/token", refreshForm(id, a.Refresh)); w.Code != want {
				t.Errorf("refresh afterwards: %d, want %d", w.Code, want)
			}
		})
	}
}

// decision T6; spec section 3: treated as theft, the person must approve again.
func TestRefreshTokenUsedAgain(t *testing.T) {
	d := open(t)
	id, h, _, first := d.live()
	a := readTokens(t, d.post("/oauth/token", refreshForm(id, first)))

	other := d.registered()
	wantRefusal(t, d.post("/oauth/token", refreshForm(other, first)), 400, "invalid_grant")
	d.wantState(h, approval.Live, 2, "") // decision T4: not by somebody else

	wantRefusal(t, d.post("/oauth/token", refreshForm(id, first)), 400, "invalid_grant")
	d.wantState(h, approval.Ended, 2, approval.RefreshReused)
	wantRefusal(t, d.post("/oauth/token", refreshForm(id, a.Refresh)), 400, "invalid_grant")
	if n := len(d.events("refresh_reused")); n != 1 {
		t.Errorf("%d events refresh_reused, want 1", n)
	}
	if d.counted("token invalid_grant reused") != 1 || d.counted("token invalid_grant over") != 1 ||
		d.counted("token invalid_grant wrong_client") != 1 {
		t.Errorf("counted %q", d.counts)
	}
}

// decision T6: of N simultaneous refreshes at most one gets 200, and the
// approval then ends.
func TestSimultaneousRefreshes(t *testing.T) {
	d := open(t)
	id, h, _, refresh := d.live()
	var mu sync.Mutex
	var wg sync.WaitGroup
	got := map[int]int{}
	for range 8 {
		wg.Go(func() {
			w := d.post("/oauth/token", refreshForm(id, refresh))
			mu.Lock()
			defer mu.Unlock()
			got[w.Code]++
		})
	}
	wg.Wait()
	if want := map[int]int{200: 1, 400: 7}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	d.wantState(h, approval.Ended, 2, approval.RefreshReused)
}

// decision T8: a code is bound to its issuer; refresh tokens work on every
// configured host.
func TestOtherHost(t *testing.T) {
	d := open(t)
	id := d.registered()
	h, code := d.approved(id)
	there := func(form url.Values) *httptest.ResponseRecorder {
		r := request("POST", "/oauth/token", form.Encode())
		r.Host = strings.TrimPrefix(otherBase, "https://")
		return d.send(r)
	}
	wantRefusal(t, there(exchangeForm(id, code)), 400, "invalid_grant")
	d.wantState(h, approval.CodeIssued, 0, "")
	a := readTokens(t, d.post("/oauth/token", exchangeForm(id, code)))
	readTokens(t, there(refreshForm(id, a.Refresh)))
}

// decision A7: client SDKs get stuck on a refusal there.
func TestRefreshIgnoresResource(t *testing.T) {
	d := open(t)
	id, _, _, refresh := d.live()
	readTokens(t, d.post("/oauth/token", with(refreshForm(id, refresh), "resource", "https://evil.example", "::")))
}

// decision T13: the database went back in time.
func TestTokenFromTheFuture(t *testing.T) {
	d := open(t)
	id, h, _, _ := d.live()
	wantRefusal(t, d.post("/oauth/token", refreshForm(id, d.ring.Refresh(h, 7))), 400, "invalid_grant")
	d.wantState(h, approval.Ended, 1, approval.StateLost)
	if d.counted("token invalid_grant lost") != 1 {
		t.Errorf("counted %q", d.counts)
	}
}

// decision T2: a disabled client is invalid_grant, a deleted one 401. Enabling
// it again revives nothing (decision P10).
func TestClientDisabled(t *testing.T) {
	d := open(t)
	id, _, _, refresh := d.live()
	_, code := d.approved(id)
	d.disable(id)
	both := func(counted string) {
		t.Helper()
		wantRefusal(t, d.post("/oauth/token", exchangeForm(id, code)), 400, "invalid_grant")
		wantRefusal(t, d.post("/oauth/token", refreshForm(id, refresh)), 400, "invalid_grant")
		if d.counted(counted) != 2 {
			t.Errorf("counted %q, want two of %q", d.counts, counted)
		}
	}
	both("token invalid_grant client_disabled")
	if err := d.Store.SetClientEnabled(context.Background(), id, true, store.Act{Actor: "operator"}); err != nil {
		t.Fatal(err)
	}
	both("token invalid_grant over")
}

// spec section 3: the tokens end when the person is removed.
func TestPersonLeaves(t *testing.T) {
	d := open(t)
	id, _, _, refresh := d.live()
	_, code := d.approved(id)
	if err := d.Store.RemoveMember(context.Background(), "nordlys", "ada", store.Act{Actor: "person:ada"}); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, d.post("/oauth/token", exchangeForm(id, code)), 400, "invalid_grant")
	wantRefusal(t, d.post("/oauth/token", refreshForm(id, refresh)), 400, "invalid_grant")
}

// spec section 8: unapproved clients are gone 14 days after registration.
func TestClientExpires(t *testing.T) {
	d := open(t)
	id := d.registered()
	d.clock.sleep(client.UnapprovedRetention - time.Second)
	wantRefusal(t, d.post("/oauth/token", exchangeForm(id, "x")), 400, "invalid_grant")
	wantRevoked(t, d.post("/oauth/revoke", revokeForm(id, "x")))
	d.clock.sleep(time.Second)
	wantRefusal(t, d.post("/oauth/token", exchangeForm(id, "x")), 401, "invalid_client")
	wantRefusal(t, d.post("/oauth/revoke", revokeForm(id, "x")), 403, "invalid_client")
}

// RFC 7636 section 4.1: unreserved characters, whichever stands where, and nothing else.
func TestVerifierCharacters(t *testing.T) {
	const good = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	for c := range 256 {
		for _, s := range []string{string([]byte{byte(c)}) + strings.Repeat("a", 42), strings.Repeat("a", 127) + string([]byte{byte(c)})} {
			if got, want := isVerifier(s), strings.IndexByte(good, byte(c)) >= 0; got != want {
				t.Errorf("%q: %v, want %v", s, got, want)
			}
		}
	}
}

// A client_id is looked for as long as one can be, and no longer.
func TestLongestClientID(t *testing.T) {
	d := open(t)
	for n, status := range map[int]int{client.MaxID: 200, client.MaxID + 1: 403} {
		id := strings.Repeat("x", n)
		err := d.Store.AddClient(t.Context(), client.Client{ID: id, RedirectURIs: []string{redirect}, IssuedAt: d.Store.Now().Unix()}, store.Origin{}, store.Act{})
		if err != nil {
			t.Fatal(err)
		}
		if w := d.post("/oauth/revoke", revokeForm(id, "svr_x")); w.Code != status {
			t.Errorf("of %d characters: %d %s, want %d", n, w.Code, w.Body, status)
		}
	}
}
