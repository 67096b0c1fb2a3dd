package e2e

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// issued gives an approval whose code waits for its exchange.
func (h *house) issued(client string) (*flow, string) {
	h.t.Helper()
	f := h.flow(client)
	return f, h.signedIn("ada@nordlys.example").approve(f, treasurer...)
}

// Spec 2.3 row for row: the whole answer, for both grants.
func TestSpec23TokenResponse(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, code := h.issued("")
	seen := map[string]bool{}
	check := func(what string, from time.Time, a answer) tokens {
		t.Helper()
		tk := tokensOf(t, a)
		v := a.json(t)
		if !strings.HasPrefix(tk.access, "svo_") || !strings.HasPrefix(tk.refresh, "svr_") {
			t.Errorf("%s: prefixes: %s", what, a)
		}
		for _, s := range []string{tk.access, tk.refresh} {
			if len(s) < 40 || seen[s] || strings.Trim(s[4:], "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "" {
				t.Errorf("%s: token %q: want a new opaque one of letters and digits", what, s)
			}
			seen[s] = true
		}
		if at, _ := v["created_at"].(float64); int64(at) < from.Unix() || int64(at) > time.Now().Unix() || at != float64(int64(at)) {
			t.Errorf("%s: created_at is %v", what, v["created_at"])
		}
		wantMembers(t, what, v, map[string]any{"access_token": tk.access, "refresh_token": tk.refresh, "created_at": v["created_at"],
			"token_type": "Bearer", "expires_in": float64(1800), "scope": "api"})
		for name, want := range map[string]string{"Content-Type": jsonType, "Cache-Control": "no-store", "Pragma": "no-cache"} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s: %q, want %q", what, name, got, want)
			}
		}
		return tk
	}
	from := time.Now()
	tk := check("exchange", from, f.exchange(code))
	for i := range 3 {
		from = time.Now()
		tk = check(fmt.Sprint("refresh ", i+1), from, f.refresh(tk.refresh))
	}
}

// Spec 4.3: what is accepted besides: every way to say the same form.
func TestSpec43AcceptedForms(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	f, tk := h.connected(client)
	body := func(more string) string {
		return form("grant_type", "refresh_token", "refresh_token", tk.refresh, "client_id", client) + more
	}
	hundred := strings.Repeat("&a=b", 97)
	for _, tt := range []struct {
		name, more string
		header     header
		query      string
	}{
		{"plain", "", nil, ""},
		{"scope=api", "&scope=api", nil, ""},
		{"scope empty", "&scope=", nil, ""},
		{"blank secret", "&client_secret=", nil, ""},
		{"unknown parameters, twice", "&foo=1&foo=2", nil, ""},
		{"parameters of the other grant", "&code=x&code_verifier=y&redirect_uri=z", nil, ""},
		{"a hundred parameters", hundred, nil, ""},
		{"charset", "", header{"Content-Type", formType + "; charset=UTF-8"}, ""},
		{"media type in capitals", "", header{"Content-Type", "Application/X-WWW-Form-Urlencoded"}, ""},
		{"the query string is not read", "", nil, "?grant_type=password&client_id=x&client_secret=y&scope=z"},
		{"a cookie", "", header{"Cookie", "session=x"}, ""},
		{"X-Auth-Token", "", header{"X-Auth-Token", "x"}, ""},
		{"an Origin", "", header{"Origin", "https://app.quill.example"}, ""},
		{"client_assertion", "&client_assertion=x&client_assertion_type=y", nil, ""},
		{"64 KiB", "&x=" + strings.Repeat("x", 64<<10-len(body("&x="))), nil, ""},
	} {
		types := header{"Content-Type", formType}
		if len(tt.header) > 0 && tt.header[0] == "Content-Type" {
			types = nil
		}
		a := f.send("POST", "/oauth/token"+tt.query, body(tt.more), types, tt.header)
		if a.status != 200 {
			t.Errorf("%s: %s", tt.name, a)
			continue
		}
		tk = tokensOf(t, a)
	}
	escaped := strings.ReplaceAll(body(""), "_", "%5f") // names and values may be escaped
	tk = tokensOf(t, f.send("POST", "/oauth/token", escaped, header{"Content-Type", formType}))
	if !h.works(tk.access) {
		t.Error("the last access token does not work")
	}
}

// A fault is one thing that is wrong with a token request, and what is said of
// it.
type tokenFault struct {
	name   string
	step   int // of decision T14
	status int
	code   string
	change func(r *tokenRequest)
}

type tokenRequest struct {
	method, contentType string
	header              header
	values              url.Values
	more                string
}

func set(name, value string) func(*tokenRequest) {
	return func(r *tokenRequest) {
		if r.values.Del(name); value != "" {
			r.values.Set(name, value)
		}
	}
}

func more(s string) func(*tokenRequest) { return func(r *tokenRequest) { r.more += s } }

// tokenFaults are those of any grant, in the order of decision T14.
func tokenFaults(h *house) []tokenFault {
	basic := func(text string) func(*tokenRequest) {
		return func(r *tokenRequest) {
			r.header = append(r.header, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(text)))
		}
	}
	typed := func(s string) func(*tokenRequest) { return func(r *tokenRequest) { r.contentType = s } }
	verb := func(s string) func(*tokenRequest) { return func(r *tokenRequest) { r.method = s } }
	return []tokenFault{
		{"method PUT", 1, 405, "invalid_request", verb("PUT")},
		{"method GET", 1, 405, "invalid_request", verb("GET")},
		{"method DELETE", 1, 405, "invalid_request", verb("DELETE")},
		{"method OPTIONS", 1, 405, "invalid_request", verb("OPTIONS")},
		{"JSON", 2, 400, "invalid_request", typed(jsonType)},
		{"no media type", 2, 400, "invalid_request", typed("")},
		{"text/plain", 2, 400, "invalid_request", typed("text/plain")},
		{"multipart", 2, 400, "invalid_request", typed("multipart/form-data; boundary=x")},
		{"charset latin1", 2, 400, "invalid_request", typed(formType + "; charset=latin1")},
		{"compressed", 2, 400, "invalid_request", func(r *tokenRequest) { r.header = append(r.header, "Content-Encoding", "gzip") }},
		{"oversized", 2, 400, "invalid_request", more("&x=" + strings.Repeat("x", 64<<10))},
		{"a thousand parameters", 2, 400, "invalid_request", more(strings.Repeat("&x=", 1000))},
		{"NUL", 2, 400, "invalid_request", more("&x=%00")},
		{"invalid UTF-8", 2, 400, "invalid_request", more("&x=%ff")},
		{"a broken escape", 2, 400, "invalid_request", more("&x=%zz")},
		{"grant_type twice", 2, 400, "invalid_request", more("&grant_type=refresh_token&grant_type=refresh_token")},
		{"client_id twice", 2, 400, "invalid_request", more("&client_id=x&client_id=x")},
		{"scope twice", 2, 400, "invalid_request", more("&scope=api&scope=api")},
		{"client_secret twice", 2, 400, "invalid_request", more("&client_secret=a&client_secret=b")},
		{"code twice", 2, 400, "invalid_request", more("&code=x&code=y")},
		{"redirect_uri twice", 2, 400, "invalid_request", more("&redirect_uri=x&redirect_uri=y")},
		{"code_verifier twice", 2, 400, "invalid_request", more("&code_verifier=x&code_verifier=y")},
		{"refresh_token twice", 2, 400, "invalid_request", more("&refresh_token=x&refresh_token=y")},
		{"a secret", 3, 401, "invalid_client", set("client_secret", "s")},
		{"Authorization: Basic", 3, 401, "invalid_client", basic("client:secret")},
		{"Authorization: Basic with a blank secret", 3, 401, "invalid_client", basic("client:")},
		{"Authorization: Bearer", 3, 401, "invalid_client", func(r *tokenRequest) { r.header = append(r.header, "Authorization", "Bearer x") }},
		{"grant_type missing", 4, 400, "invalid_request", set("grant_type", "")},
		{"grant_type empty", 4, 400, "invalid_request", func(r *tokenRequest) { set("grant_type", "")(r); more("&grant_type=")(r) }},
		{"grant_type=password", 4, 400, "unsupported_grant_type", set("grant_type", "password")},
		{"grant_type=client_credentials", 4, 400, "unsupported_grant_type", set("grant_type", "client_credentials")},
		{"grant_type=implicit", 4, 400, "unsupported_grant_type", set("grant_type", "implicit")},
		{"grant_type of a device", 4, 400, "unsupported_grant_type", set("grant_type", "urn:ietf:params:oauth:grant-type:device_code")},
		{"grant_type in capitals", 4, 400, "unsupported_grant_type", set("grant_type", "Authorization_Code")},
		{"client_id missing", 5, 400, "invalid_request", set("client_id", "")},
		{"client_id unknown", 6, 401, "invalid_client", set("client_id", "x")},
		{"client_id of ten thousand", 6, 401, "invalid_client", set("client_id", strings.Repeat("x", 10_000))},
		{"scope=openid", 7, 400, "invalid_scope", set("scope", "openid")},
		{"scope=api openid", 7, 400, "invalid_scope", set("scope", "api openid")},
		{"scope=API", 7, 400, "invalid_scope", set("scope", "API")},
	}
}

func exchangeFaults(h *house, other string) []tokenFault {
	wrong := strings.Repeat("w", 43)
	return append(tokenFaults(h), []tokenFault{
		{"resource elsewhere", 8, 400, "invalid_target", set("resource", "https://other.example/")},
		{"one resource of two elsewhere", 8, 400, "invalid_target", more("&resource=" + url.QueryEscape(h.base) + "&resource=x")},
		{"code missing", 9, 400, "invalid_request", set("code", "")},
		{"redirect_uri missing", 9, 400, "invalid_request", set("redirect_uri", "")},
		{"code_verifier missing", 9, 400, "invalid_request", set("code_verifier", "")},
		{"code_verifier of 42", 9, 400, "invalid_request", set("code_verifier", wrong[1:])},
		{"code_verifier of 129", 9, 400, "invalid_request", set("code_verifier", strings.Repeat("w", 129))},
		{"code_verifier with a space", 9, 400, "invalid_request", set("code_verifier", wrong[1:]+" ")},
		{"code_verifier with a plus", 9, 400, "invalid_request", set("code_verifier", wrong[1:]+"+")},
		{"code_verifier not ASCII", 9, 400, "invalid_request", set("code_verifier", wrong+"é")},
		{"code of nobody", 10, 400, "invalid_grant", set("code", "svc_"+strings.Repeat("x", 64))},
		{"code of one letter", 10, 400, "invalid_grant", set("code", "x")},
		{"code_verifier wrong", 10, 400, "invalid_grant", set("code_verifier", wrong)},
		{"code_verifier of 128, wrong", 10, 400, "invalid_grant", set("code_verifier", strings.Repeat("w", 128))},
		{"redirect_uri wrong", 10, 400, "invalid_grant", set("redirect_uri", redirect+"/")},
		{"redirect_uri of the client, another", 10, 400, "invalid_grant", set("redirect_uri", redirect+"/2")},
		{"another client", 10, 400, "invalid_grant", set("client_id", other)},
	}...)
}

func (c *caller) sendToken(r *tokenRequest) answer {
	c.h.t.Helper()
	all := append(header{}, r.header...)
	if r.contentType != "" {
		all = append(all, "Content-Type", r.contentType)
	}
	return c.send(r.method, "/oauth/token", r.values.Encode()+r.more, all)
}

func newTokenRequest(fields ...string) *tokenRequest {
	v, _ := url.ParseQuery(form(fields...))
	return &tokenRequest{method: "POST", contentType: formType, values: v}
}

// every goes through a request with each fault, and with each pair of faults
// of different steps: the earlier step answers (decision T14). Nothing is
// written and nothing used up (decision T4).
func every(t *testing.T, h *house, faults []tokenFault, good func() *tokenRequest) {
	t.Helper()
	before := h.rows()
	check := func(f tokenFault, name string, c *caller, r *tokenRequest) {
		t.Helper()
		a := c.sendToken(r)
		if r.method == "HEAD" {
			return
		}
		wantJSONError(t, name, a, f.status, f.code)
		if challenged, sent := a.header.Get("WWW-Authenticate") != "", f.status == 401 && hasAuthorization(r); challenged != sent {
			t.Errorf("%s: WWW-Authenticate %q: only where an Authorization header was sent (decision T2)", name, a.header.Get("WWW-Authenticate"))
		}
		if allow := a.header.Get("Allow"); (allow == "POST") != (f.status == 405) {
			t.Errorf("%s: Allow %q", name, allow)
		}
	}
	c, sent := h.caller(), 0
	for i, first := range faults {
		r := good()
		first.change(r)
		check(first, first.name, c, r)
		for j, second := range faults {
			if second.step <= first.step || (i+j)%3 != 0 && second.step != first.step+1 {
				continue // neighbours all, the rest by thirds
			}
			r := good()
			second.change(r)
			first.change(r)
			if first.step == 5 && second.step == 6 || second.step == 10 && second.name == "another client" && first.step <= 6 && first.step >= 5 {
				continue // one parameter cannot be wrong in two ways
			}
			if sent++; sent%200 == 0 {
				c = h.caller()
			}
			check(first, first.name+" and "+second.name, c, r)
		}
	}
	h.unchanged(t, before)
}

func hasAuthorization(r *tokenRequest) bool {
	for i := 0; i < len(r.header); i += 2 {
		if r.header[i] == "Authorization" {
			return true
		}
	}
	return false
}

// Decisions T2 to T4 and T14 for the authorization code: after a thousand
// refused requests the code is as good as before.
func TestSpec43AuthorizationCodeRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register(redirect, redirect+"/2")
	other := h.register(redirect)
	f, code := h.issued(client)
	every(t, h, exchangeFaults(h, other), func() *tokenRequest {
		return newTokenRequest("grant_type", "authorization_code", "code", code, "redirect_uri", redirect, "client_id", client, "code_verifier", f.verifier)
	})
	tk := tokensOf(t, f.exchange(code))
	if !h.works(tk.access) {
		t.Error("the access token does not work")
	}
}

// The same for the refresh token.
func TestSpec43RefreshTokenRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, tk := h.connected("")
	other := h.register(redirect)
	_, code := h.issued(f.client)
	faults := append(tokenFaults(h), []tokenFault{
		{"refresh_token missing", 9, 400, "invalid_request", set("refresh_token", "")},
		{"refresh_token of nobody", 10, 400, "invalid_grant", set("refresh_token", "svr_"+strings.Repeat("x", 64))},
		{"one letter", 10, 400, "invalid_grant", set("refresh_token", "x")},
		{"an access token", 10, 400, "invalid_grant", set("refresh_token", tk.access)},
		{"a code", 10, 400, "invalid_grant", set("refresh_token", code)},
		{"without its last letter", 10, 400, "invalid_grant", set("refresh_token", tk.refresh[:len(tk.refresh)-1])},
		{"with a letter more", 10, 400, "invalid_grant", set("refresh_token", tk.refresh+"0")},
		{"with a space", 10, 400, "invalid_grant", set("refresh_token", " "+tk.refresh)},
		{"in capitals", 10, 400, "invalid_grant", set("refresh_token", strings.ToUpper(tk.refresh))},
		{"another prefix", 10, 400, "invalid_grant", set("refresh_token", "svo_"+tk.refresh[4:])},
		{"another client", 10, 400, "invalid_grant", set("client_id", other)},
	}...)
	every(t, h, faults, func() *tokenRequest {
		return newTokenRequest("grant_type", "refresh_token", "refresh_token", tk.refresh, "client_id", f.client)
	})
	if !h.works(tk.access) {
		t.Error("a refused refresh has ended the approval")
	}
	next := tokensOf(t, f.refresh(tk.refresh))
	if !h.works(next.access) {
		t.Error("the access token does not work")
	}
}

// Spec 4.3, decision A8: every form of verifier that RFC 7636 allows.
func TestSpec43Verifiers(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	b := h.signedIn("ada@nordlys.example")
	for _, verifier := range []string{strings.Repeat("a", 43), strings.Repeat("Z", 128), strings.Repeat("-._~", 16), "0123456789" + strings.Repeat("-", 33)} {
		f := h.flow(client)
		f.verifier = verifier
		tokensOf(t, f.exchange(b.approve(f, treasurer...)))
	}
}

// Decision T5: a used code presented again is invalid_grant. The approval ends
// only when the request is otherwise right.
func TestDecisionT5UsedCode(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register(redirect, redirect+"/2")
	other := h.register()
	for _, tt := range []struct {
		name   string
		change []string
		ends   bool
	}{
		{"wrong verifier", []string{"code_verifier", strings.Repeat("w", 43)}, false},
		{"another redirect URI", []string{"redirect_uri", redirect + "/2"}, false},
		{"another client", []string{"client_id", other}, false},
		{"otherwise right", nil, true},
	} {
		f, code := h.issued(client)
		tk := tokensOf(t, f.exchange(code))
		wantError(t, tt.name, f.exchange(code, tt.change...), 400, "invalid_grant")
		if h.works(tk.access) == tt.ends {
			t.Errorf("%s: the approval ended: %v, want %v", tt.name, !tt.ends, tt.ends)
		}
		if tt.ends {
			wantError(t, "refresh after the reuse", f.refresh(tk.refresh), 400, "invalid_grant")
			if got := h.reasons(client); got["code_reused"] != 1 {
				t.Errorf("approvals by the reason of their end: %v", got)
			}
		}
	}
	f, code := h.issued(client)
	tk := tokensOf(t, f.exchange(code))
	tk2 := tokensOf(t, f.refresh(tk.refresh))
	h.sleep(6 * minute)
	wantError(t, "after the 5 minutes and a refresh", f.exchange(code), 400, "invalid_grant")
	if h.works(tk2.access) {
		t.Error("a code used again after its 5 minutes has not ended the approval")
	}
	for _, a := range []string{code[:len(code)-1], code + "x", strings.ToUpper(code), "svr_" + code[4:], tk.access, tk.refresh, " " + code} {
		wantError(t, a, f.exchange(a), 400, "invalid_grant")
	}
}

// Decision T6: a used refresh token ends the approval for its own client
// alone; spec 2.5: an approval is one person's, for one client, so another
// approval of both lives on.
func TestDecisionT6UsedRefreshToken(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	other := h.register()
	f, first := h.connected(client)
	_, beside := h.connected(client)
	second := tokensOf(t, f.refresh(first.refresh))
	wantError(t, "used, by another client", f.refresh(first.refresh, "client_id", other), 400, "invalid_grant")
	if !h.works(second.access) {
		t.Fatal("another client has ended the approval")
	}
	wantError(t, "used", f.refresh(first.refresh), 400, "invalid_grant")
	h.over(t, "after the reuse", f, second)
	if !h.works(beside.access) {
		t.Error("the other approval of the same person and client has ended")
	}
	if got := h.reasons(client); got["refresh_reused"] != 1 || got[""] != 1 {
		t.Errorf("approvals by the reason of their end: %v", got)
	}
	if next, tk := h.connected(client); !h.works(tk.access) {
		t.Error("the person cannot approve again")
	} else {
		tokensOf(t, next.refresh(tk.refresh))
	}
}

// Decision T8, "the same behaviour holds on every regional host": a code is
// bound to the host that it was made on, and is not used up elsewhere; tokens
// work on all.
func TestDecisionT8Hosts(t *testing.T) {
	t.Parallel()
	h := start(t)
	eu := h.at("localhost")
	f := eu.flow("")
	b := eu.signedIn("ada@nordlys.example")
	a := b.consent(f).form("/oauth/authorize").submit(append(treasurer, "decision", "approve")...)
	if iss := a.location(t).Query().Get("iss"); iss != eu.base {
		t.Errorf("iss is %s, want %s", iss, eu.base)
	}
	code := codeOf(t, a, f)
	elsewhere := *f
	elsewhere.caller = h.caller()
	for range 2 {
		wantError(t, "the code elsewhere", elsewhere.exchange(code), 400, "invalid_grant")
	}
	tk := tokensOf(t, f.exchange(code))
	wantError(t, "the used code elsewhere", elsewhere.exchange(code), 400, "invalid_grant")
	for range 2 {
		if !h.works(tk.access) || !eu.works(tk.access) {
			t.Error("the access token does not work on both hosts")
		}
		tk = tokensOf(t, elsewhere.refresh(tk.refresh))
		tk = tokensOf(t, f.refresh(tk.refresh))
	}
	wantError(t, "the resource of the other host", f.exchange("svc_x", "resource", h.base+"/api/v5"), 400, "invalid_target")
	if a := elsewhere.revoke(tk.refresh); a.status != 200 {
		t.Errorf("revoking elsewhere: %s", a)
	}
	eu.over(t, "revoked elsewhere", f, tk)
	if p := h.browser().page("/signin"); p.status != 200 {
		t.Errorf("sign-in on the other host: %d", p.status)
	}
}

// Spec 3 and decision T2: a disabled client and an ended approval are
// invalid_grant; a deleted client is invalid_client (see T-08).
func TestDecisionT2DisabledClient(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, code := h.issued("")
	_, tk := h.connected(f.client)
	h.change("/v1/clients/"+f.client+"/disable", `{"reason":"test"}`)
	wantJSONError(t, "exchange", f.exchange(code), 400, "invalid_grant")
	wantJSONError(t, "refresh", f.refresh(tk.refresh), 400, "invalid_grant")
	wantJSONError(t, "refresh with nonsense", f.refresh("x"), 400, "invalid_grant")
	wantJSONError(t, "a fault comes first", f.refresh("x", "scope", "y"), 400, "invalid_scope")
}
