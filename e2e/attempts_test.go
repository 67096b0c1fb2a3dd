package e2e

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// A way to fail, as real requests. It gives what its attempt is found by: a client ID, an
// address or a host, and what is to be done half an hour later.
type wayToFail struct {
	reason string
	walk   func(*fails) (find string, later func())
}

// fails is where they happen.
type fails struct {
	*house
	ada     *browser
	secrets []string // that no attempt may hold, nor the beginning of one
}

// newFlow is one of a client that registers itself.
func (x *fails) newFlow() *flow {
	x.t.Helper()
	f := x.flow("")
	x.secrets = append(x.secrets, f.verifier, f.state)
	return f
}

// coded is one with a code, of Ada.
func (x *fails) coded() (*flow, string) {
	x.t.Helper()
	f := x.newFlow()
	x.ada = x.ada.rested()
	code := x.ada.approve(f, treasurer...)
	x.secrets = append(x.secrets, code)
	return f, code
}

// given is one with tokens.
func (x *fails) given() (*flow, tokens) {
	x.t.Helper()
	f, code := x.coded()
	tk := tokensOf(x.t, f.exchange(code))
	x.secrets = append(x.secrets, tk.access, tk.refresh)
	return f, tk
}

// spoiledRequest opens the authorization request of a new client, spoiled.
func spoiledRequest(changes ...string) func(*fails) (string, func()) {
	return func(x *fails) (string, func()) {
		f := x.newFlow()
		x.ada = x.ada.rested()
		x.ada.get("/oauth/authorize?" + f.query(changes...))
		return f.client, nil
	}
}

// spoiledRegistration sends a registration that is refused.
func spoiledRegistration(body string) func(*fails) (string, func()) {
	return func(x *fails) (string, func()) {
		c := x.caller()
		if a := c.postJSON("/oauth/register", body); a.status != 400 {
			x.t.Errorf("%s is registered: %s", body, a)
		}
		return c.address, nil
	}
}

// spoiledExchange sends a code, spoiled.
func spoiledExchange(changes ...string) func(*fails) (string, func()) {
	return func(x *fails) (string, func()) {
		f, code := x.coded()
		if a := f.exchange(code, changes...); a.status == 200 {
			x.t.Errorf("%v: %s", changes, a)
		}
		return f.client, nil
	}
}

// spoiledCall makes the first call, spoiled.
func spoiledCall(does func(*flow, tokens) answer) func(*fails) (string, func()) {
	return func(x *fails) (string, func()) {
		f, tk := x.given()
		if a := does(f, tk); a.status < 400 {
			x.t.Errorf("answered: %s", a)
		}
		return f.address, nil
	}
}

var waysToFail = []wayToFail{
	{"discovery_not_followed", func(x *fails) (string, func()) { c := x.caller(); c.get("/api/v5/me"); return c.address, nil }},
	{"metadata_path", func(x *fails) (string, func()) {
		c := x.caller()
		c.get("/.well-known/openid-configuration")
		return c.address, nil
	}},
	{"not_registered", func(x *fails) (string, func()) {
		c := x.caller()
		c.get("/.well-known/oauth-authorization-server")
		return c.address, nil
	}},
	{"redirect_uri_loopback", spoiledRegistration(`{"redirect_uris":["https://127.0.0.1/cb"]}`)},
	{"redirect_uri_scheme", spoiledRegistration(`{"redirect_uris":["com.example.app:/cb"]}`)},
	{"redirect_uri_invalid", spoiledRegistration(`{"redirect_uris":["https://app.example/cb#x"]}`)},
	{"registration_grant_types", spoiledRegistration(`{"redirect_uris":["https://app.example.com/cb"],"grant_types":["client_credentials"]}`)},
	{"registration_name", spoiledRegistration(`{"redirect_uris":["https://app.example.com/cb"],"client_name":"<b>\u202eEvil</b>"}`)},
	{"registration_body", spoiledRegistration(`redirect_uris=https://app.example.com/cb`)},
	{"browser_not_sent", func(x *fails) (string, func()) { return x.register(), nil }},
	{"rate_limited", func(x *fails) (string, func()) {
		c := x.caller()
		for range 21 {
			c.postJSON("/oauth/register", `{"redirect_uris":["https://limited.example.com/cb"]}`, header{"User-Agent", strings.Repeat("<b>x", 500)})
		}
		return c.address, nil
	}},

	{"client_unknown", func(x *fails) (string, func()) {
		f := x.flow("never-registered")
		f.redirect = "https://swept.example.com/cb"
		x.ada.get("/oauth/authorize?" + f.query())
		return "swept.example.com", nil
	}},
	{"client_disabled", func(x *fails) (string, func()) {
		f := x.newFlow()
		x.change("/v1/clients/"+f.client+"/disable", `{"reason":"a test"}`)
		x.ada.get("/oauth/authorize?" + f.query())
		return f.client, nil
	}},
	{"redirect_uri_mismatch", spoiledRequest("redirect_uri", redirect+"/")},
	{"response_type", spoiledRequest("response_type", "token")},
	{"pkce_missing", spoiledRequest("code_challenge", "", "code_challenge_method", "")},
	{"pkce_method", spoiledRequest("code_challenge_method", "plain")},
	{"pkce_challenge", spoiledRequest("code_challenge", strings.Repeat("0f", 32))},
	{"scope_unknown", spoiledRequest("scope", "openid")},
	{"resource_unknown", spoiledRequest("resource", "https://elsewhere.example/")},
	{"request_malformed", func(x *fails) (string, func()) {
		f := x.newFlow()
		x.ada.get("/oauth/authorize?" + f.query() + "&scope=api&scope=api")
		return f.client, nil
	}},
	{"prompt_none", func(x *fails) (string, func()) {
		f := x.newFlow()
		x.browser().get("/oauth/authorize?" + f.query("prompt", "none"))
		return f.client, nil
	}},
	{"left_at_sign_in", func(x *fails) (string, func()) {
		f := x.newFlow()
		x.browser().get("/oauth/authorize?" + f.query())
		return f.client, nil
	}},
	{"sign_in_failed", func(x *fails) (string, func()) {
		f := x.newFlow()
		b := x.browser()
		p := b.page(b.get("/oauth/authorize?" + f.query()).header.Get("Location"))
		p.form("/signin").submit("email", "mei@storhavn.example", "password", "not her password")
		return f.client, nil
	}},
	{"no_organization", func(x *fails) (string, func()) {
		f := x.newFlow()
		x.signedIn("ola@havn.example").get("/oauth/authorize?" + f.query())
		return f.client, nil
	}},
	{"organization_blocks", func(x *fails) (string, func()) {
		x.signedIn("ada@nordlys.example").block("cdn.grabit.example")
		f := x.newFlow()
		f.client, f.redirect = x.register("https://cdn.grabit.example/cb"), "https://cdn.grabit.example/cb"
		x.signedIn("tor@nordlys.example").get("/oauth/authorize?" + f.query())
		return f.client, nil
	}},
	{"organization_asks", func(x *fails) (string, func()) {
		b := x.signedIn("ada@nordlys.example")
		check := b.read(b.withApp("asks.example.com", "Quill Assistant").submit("action", "check", "rule:1", "ask"))
		if a := check.form(nordlysRules).submit("action", "save"); a.status != 303 {
			x.t.Fatalf("rules: %s", a)
		}
		f := x.newFlow()
		f.client, f.redirect = x.register("https://asks.example.com/cb"), "https://asks.example.com/cb"
		x.signedIn("tor@nordlys.example").get("/oauth/authorize?" + f.query())
		return f.client, nil
	}},
	{"left", func(x *fails) (string, func()) {
		f := x.newFlow()
		x.ada.consent(f)
		return f.client, nil
	}},
	{"cancelled", func(x *fails) (string, func()) {
		f := x.newFlow()
		x.ada.consent(f).form("/oauth/authorize").submit("decision", "cancel")
		return f.client, nil
	}},

	{"code_not_exchanged", func(x *fails) (string, func()) { f, _ := x.coded(); return f.client, nil }},
	{"code_expired", func(x *fails) (string, func()) {
		f, code := x.coded()
		return f.client, func() { f.exchange(code) }
	}},
	{"code_reused", func(x *fails) (string, func()) {
		f, code := x.coded()
		f.exchange(code)
		f.exchange(code)
		return f.client, nil
	}},
	{"code_unknown", spoiledExchange("code", "svc_"+strings.Repeat("x", 43))},
	{"code_other_client", func(x *fails) (string, func()) {
		f, code := x.coded()
		other := x.register()
		f.exchange(code, "client_id", other)
		return f.client, nil
	}},
	{"code_other_issuer", func(x *fails) (string, func()) {
		f, code := x.coded()
		f.send("POST", x.at("localhost").base+"/oauth/token", form("grant_type", "authorization_code", "code", code, "redirect_uri", f.redirect,
			"client_id", f.client, "code_verifier", f.verifier), header{"Content-Type", formType})
		return f.client, nil
	}},
	{"redirect_uri_at_token", spoiledExchange("redirect_uri", redirect+"/")},
	{"pkce_verifier", spoiledExchange("code_verifier", random()+"=")},
	{"pkce_mismatch", spoiledExchange("code_verifier", random())},
	{"grant_type", func(x *fails) (string, func()) {
		f, code := x.coded()
		f.exchange(code, "grant_type", "client_credentials")
		return f.address, nil // it is refused before the client is looked for
	}},
	{"token_parameter", spoiledExchange("code", "")},
	{"token_body", func(x *fails) (string, func()) {
		f, code := x.coded()
		f.postJSON("/oauth/token", `{"grant_type":"authorization_code","code":"`+code+`"}`)
		return f.address, nil
	}},
	{"token_method", func(x *fails) (string, func()) {
		f, code := x.coded()
		f.get("/oauth/token?" + form("code", code))
		return f.address, nil
	}},
	{"client_authentication", func(x *fails) (string, func()) {
		f, code := x.coded()
		f.send("POST", "/oauth/token", form("grant_type", "authorization_code", "code", code, "redirect_uri", f.redirect, "client_id", f.client,
			"code_verifier", f.verifier), header{"Content-Type", formType, "Authorization", "Basic YTpi"})
		return f.address, nil
	}},
	{"cors_header", func(x *fails) (string, func()) {
		c := x.caller()
		c.send("OPTIONS", "/oauth/token", "", header{"Origin", "https://app.example.com", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-trace"})
		return c.address, nil
	}},

	{"token_never_used", func(x *fails) (string, func()) { f, _ := x.given(); return f.client, nil }},
	{"authorization_missing", func(x *fails) (string, func()) { f, _ := x.given(); f.get("/api/v5/me"); return f.address, nil }},
	{"token_in_query", spoiledCall(func(f *flow, tk tokens) answer { return f.get("/api/v5/me?access_token=" + tk.access) })},
	{"token_in_header", spoiledCall(func(f *flow, tk tokens) answer { return f.get("/api/v5/me", header{"X-Auth-Token", tk.access}) })},
	{"token_wrong_kind", spoiledCall(func(f *flow, tk tokens) answer { return f.me(tk.refresh) })},
	{"token_unknown", spoiledCall(func(f *flow, tk tokens) answer { return f.me(tk.access + "A") })},
	{"token_at_old_api", spoiledCall(func(f *flow, tk tokens) answer {
		return f.get("/api/v4/me", header{"Authorization", "Bearer " + tk.access})
	})},
	{"mcp_version", spoiledCall(func(f *flow, tk tokens) answer {
		return f.postJSON("/api/v5/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			header{"Authorization", "Bearer " + tk.access, "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2099-01-01"})
	})},
	{"access_expired", func(x *fails) (string, func()) {
		f, tk := x.given()
		f.me(tk.access)
		return f.client, func() { f.me(tk.access) }
	}},
	{"approval_ended", func(x *fails) (string, func()) {
		f, tk := x.given()
		f.me(tk.access)
		f.revoke(tk.access)
		f.me(tk.access)
		return f.client, nil
	}},
	{"refresh_race", func(x *fails) (string, func()) {
		f, tk := x.given()
		next := tokensOf(x.t, f.refresh(tk.refresh))
		f.refresh(tk.refresh)
		f.me(next.access) // what ended it stays the reason
		return f.client, nil
	}},
	{"refresh_reused", func(x *fails) (string, func()) {
		f, tk := x.given()
		f.refresh(tk.refresh)
		thief := *f
		thief.caller = x.callerFrom("127.250.1.1")
		thief.refresh(tk.refresh)
		return f.client, nil
	}},
	{"refresh_unknown", func(x *fails) (string, func()) {
		f, _ := x.given()
		f.refresh("svr_" + strings.Repeat("x", 43))
		return f.client, nil
	}},
}

// Known ways to fail, made as requests, have the reason that docs/attempts.md names; and
// of what was sent, nothing secret is in any attempt.
func TestKnownWaysToFail(t *testing.T) {
	t.Parallel()
	h := start(t)
	x := &fails{house: h, ada: h.signedIn("ada@nordlys.example")}
	found, finds := map[string]bool{}, map[string]string{}
	var later []func()
	for _, way := range waysToFail {
		find, then := way.walk(x)
		if finds[way.reason] = find; then != nil {
			later = append(later, then)
		}
	}
	h.sleep(31 * minute)
	for _, then := range later {
		then()
	}
	h.sleep(31 * minute)
	last := map[string]string{}
	for deadline := time.Now().Add(time.Minute); len(found) < len(finds) && time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		for reason, find := range finds { // what doors see is written every two seconds
			if found[reason] {
				continue
			}
			got := ""
			for _, a := range h.items("/v1/attempts?query=" + url.QueryEscape(find)) {
				got += fmt.Sprint(" ", a["reason"])
			}
			if last[reason] = got; slices.Contains(strings.Fields(got), reason) {
				found[reason] = true
			}
		}
	}
	for reason, find := range finds {
		if !found[reason] {
			t.Errorf("%s: %s has %q", reason, find, last[reason])
		}
	}
	if len(waysToFail) < 38 || len(finds) != len(waysToFail) {
		t.Errorf("%d ways, %d reasons", len(waysToFail), len(finds))
	}
	all := h.items("/v1/attempts?limit=1000")
	for _, a := range all {
		text := h.operate("/v1/attempts/" + a["id"].(string)).body
		for _, secret := range x.secrets {
			if strings.Contains(text, secret[:12]) {
				t.Fatalf("%.12s… is in %s", secret, text)
			}
		}
		for _, not := range []string{"<b>", "\u202e", "xxxxxxxx"} {
			if strings.Contains(text, not) {
				t.Errorf("%q is in %s", not, text)
			}
		}
	}
	t.Logf("%d ways in %d attempts", len(finds), len(all))
}
