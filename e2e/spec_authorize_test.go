package e2e

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// standing is how well a browser knows a client.
type standing struct {
	name  string
	b     *browser
	f     *flow
	knows bool // decision A2: faults go back to the client
}

// standings are a stranger, a person who has not approved the client, one who
// has, and any person with a preregistered client.
func standings(h *house) []standing {
	h.t.Helper()
	approved := h.flow("")
	ada := h.signedIn("ada@nordlys.example")
	ada.approve(approved, treasurer...)
	known := h.flow("dev-client")
	known.redirect = h.base + "/dev/client"
	return []standing{
		{"signed out", h.browser(), approved, false},
		{"signed in, never approved it", h.signedIn("tor@nordlys.example"), approved, false},
		{"signed in, approved another client", ada, h.flow(""), false},
		{"signed out, preregistered", h.browser(), known, false},
		{"signed in, approved it before", ada, approved, true},
		{"signed in, preregistered", h.signedIn("mei@storhavn.example"), known, true},
	}
}

// rested is the browser with an address of its own again, so that a table of
// any length stays below the limit of an address.
func (b *browser) rested() *browser {
	c := b.h.caller()
	c.Jar = b.Jar
	return &browser{c, b.email}
}

// linkTo finds the link on a page that leads off this server.
func (p *page) linkOff() string {
	for _, a := range p.all("a") {
		if href := attr(a, "href"); strings.Contains(href, "://") || strings.HasPrefix(href, "//") {
			return href
		}
	}
	return ""
}

// A1: a fault in client or redirect URI is a page with 400, never a redirect,
// whatever else is wrong in the request, and the bad URI is never a link.
func TestSpec41ClientAndRedirectURI(t *testing.T) {
	t.Parallel()
	h := start(t)
	disabled := h.register()
	h.change("/v1/clients/"+disabled+"/disable", `{"reason":"test"}`)
	two := h.register(redirect, redirect+"/2")
	const evil = "https://evil.example/callback"
	for _, s := range standings(h) {
		f := s.f
		two := func(changes ...string) string {
			g := *f
			if g.client != "dev-client" {
				g.client = two
			}
			return g.query(changes...)
		}
		for name, query := range map[string]string{
			"nothing at all":                           "",
			"client_id missing":                        f.query("client_id", ""),
			"client_id empty":                          f.query("client_id", "") + "&client_id=",
			"client_id unknown":                        f.query("client_id", "x"),
			"client_id of nobody":                      f.query("client_id", strings.Repeat("a", 26)),
			"client_id sent twice":                     f.query() + "&client_id=" + f.client,
			"client_id sent twice, differs":            "client_id=x&" + f.query(),
			"client_id in upper case":                  f.query("client_id", strings.ToUpper(f.client)),
			"client_id with a space":                   f.query("client_id", f.client+" "),
			"client_id with NUL":                       f.query("client_id", f.client+"\x00"),
			"client_id not UTF-8":                      f.query("client_id", "\xff\xfe"),
			"client_id of ten thousand":                f.query("client_id", strings.Repeat("a", 10_000)),
			"client_id with a broken escape":           f.query("client_id", "") + "&client_id=" + f.client + "%",
			"client_id with SQL":                       f.query("client_id", "' OR 1=1 --"),
			"client disabled":                          f.query("client_id", disabled),
			"redirect_uri missing":                     two("redirect_uri", ""),
			"redirect_uri empty":                       two("redirect_uri", "") + "&redirect_uri=",
			"redirect_uri sent twice":                  two() + "&redirect_uri=" + url.QueryEscape(f.redirect),
			"redirect_uri sent twice, both registered": two() + "&redirect_uri=" + url.QueryEscape(redirect+"/2"),
			"redirect_uri not registered":              f.query("redirect_uri", evil),
			"redirect_uri with NUL":                    f.query("redirect_uri", f.redirect+"\x00"),
			"redirect_uri with markup":                 f.query("redirect_uri", `https://evil.example/"><script>alert(1)</script>`),
			"redirect_uri with script":                 f.query("redirect_uri", "javascript:alert(1)"),
			"redirect_uri with broken escape":          two("redirect_uri", "") + "&redirect_uri=" + url.QueryEscape(f.redirect) + "%zz",
			"bad client and everything else":           "client_id=x&redirect_uri=" + evil + "&response_type=token&scope=all&state=a&state=b&resource=x",
			"bad redirect_uri and everything else":     f.query("redirect_uri", evil, "response_type", "token", "scope", "all", "code_challenge", "x", "resource", "x"),
			"bad redirect_uri and prompt=none":         f.query("redirect_uri", evil, "prompt", "none"),
		} {
			p := s.b.rested().page("/oauth/authorize?" + query)
			wantPage(t, s.name+": "+name, p.answer, 400)
			if link := p.linkOff(); link != "" {
				t.Errorf("%s: %s: the page links to %s", s.name, name, link)
			}
			for n := range p.root.Descendants() {
				for _, a := range n.Attr {
					if strings.Contains(a.Val, "evil.example") {
						t.Errorf("%s: %s: %s=%q", s.name, name, a.Key, a.Val)
					}
				}
				if n.Data == "script" && strings.Contains(textOf(n), "alert") {
					t.Errorf("%s: %s: what was sent is script", s.name, name)
				}
			}
		}
	}
}

// Spec 4.1 row for row: what every other fault is called (decision A3), that
// it goes back to a client that the person knows, with iss and state, and to
// others only over a link that the person presses (decision A2).
func TestSpec41Faults(t *testing.T) {
	t.Parallel()
	h := start(t)
	before := ""
	all := standings(h)
	before = h.rows()
	long := strings.Repeat("s", 4097)
	resource := func(r string) [2]string { return [2]string{"", "&resource=" + url.QueryEscape(r)} }
	for _, tt := range []struct {
		name    string
		changes []string
		extra   string // added to the query
		code    string
		noState bool // decision A4
	}{
		{"response_type missing", []string{"response_type", ""}, "", "invalid_request", false},
		{"response_type empty", []string{"response_type", ""}, "&response_type=", "invalid_request", false},
		{"response_type=token", []string{"response_type", "token"}, "", "unsupported_response_type", false},
		{"response_type=id_token", []string{"response_type", "id_token"}, "", "unsupported_response_type", false},
		{"response_type=code token", []string{"response_type", "code token"}, "", "unsupported_response_type", false},
		{"response_type=CODE", []string{"response_type", "CODE"}, "", "unsupported_response_type", false},
		{"response_type=none", []string{"response_type", "none"}, "", "unsupported_response_type", false},
		{"response_type twice", nil, "&response_type=code", "invalid_request", false},
		{"code_challenge missing", []string{"code_challenge", ""}, "", "invalid_request", false},
		{"code_challenge empty", []string{"code_challenge", ""}, "&code_challenge=", "invalid_request", false},
		{"code_challenge of 42", []string{"code_challenge", strings.Repeat("a", 42)}, "", "invalid_request", false},
		{"code_challenge of 44", []string{"code_challenge", strings.Repeat("a", 44)}, "", "invalid_request", false},
		{"code_challenge with padding", []string{"code_challenge", strings.Repeat("a", 42) + "="}, "", "invalid_request", false},
		{"code_challenge of base64, not base64url", []string{"code_challenge", strings.Repeat("a", 41) + "+/"}, "", "invalid_request", false},
		{"code_challenge with a dot", []string{"code_challenge", strings.Repeat("a", 42) + "."}, "", "invalid_request", false},
		{"code_challenge with NUL", []string{"code_challenge", strings.Repeat("a", 42) + "\x00"}, "", "invalid_request", false},
		{"code_challenge of 10,000", []string{"code_challenge", strings.Repeat("a", 10_000)}, "", "invalid_request", false},
		{"code_challenge twice", nil, "&code_challenge=" + strings.Repeat("a", 43), "invalid_request", false},
		{"code_challenge_method missing", []string{"code_challenge_method", ""}, "", "invalid_request", false},
		{"code_challenge_method=plain", []string{"code_challenge_method", "plain"}, "", "invalid_request", false},
		{"code_challenge_method=s256", []string{"code_challenge_method", "s256"}, "", "invalid_request", false},
		{"code_challenge_method=S512", []string{"code_challenge_method", "S512"}, "", "invalid_request", false},
		{"code_challenge_method twice", nil, "&code_challenge_method=S256", "invalid_request", false},
		{"PKCE missing altogether", []string{"code_challenge", "", "code_challenge_method", ""}, "", "invalid_request", false},
		{"scope=openid", []string{"scope", "openid"}, "", "invalid_scope", false},
		{"scope=api openid", []string{"scope", "api openid"}, "", "invalid_scope", false},
		{"scope=api api", []string{"scope", "api api"}, "", "invalid_scope", false},
		{"scope=API", []string{"scope", "API"}, "", "invalid_scope", false},
		{"scope with a space", []string{"scope", "api "}, "", "invalid_scope", false},
		{"scope twice", nil, "&scope=api&scope=api", "invalid_request", false},
		{"state twice", nil, "&state=x", "invalid_request", true},
		{"state of 4,097 bytes", []string{"state", long}, "", "invalid_request", true},
		{"state with NUL", []string{"state", "a\x00b"}, "", "invalid_request", true},
		{"state not UTF-8", []string{"state", "a\xff"}, "", "invalid_request", true},
		{"state with half a surrogate", []string{"state", "a\xed\xa0\x80"}, "", "invalid_request", true},
		{"state with a broken escape", []string{"state", ""}, "&state=%zz", "invalid_request", true},
		{"scope with a broken escape", nil, "&scope=%", "invalid_request", false},
		{"resource elsewhere", nil, resource("https://other.example/api/v5")[1], "invalid_target", false},
		{"resource that is no URI", nil, resource("api")[1], "invalid_target", false},
		{"resource of API v4", nil, resource(h.base + "/api/v4")[1], "invalid_target", false},
		{"resource, one good and one bad", nil, resource(h.base + "/api/v5")[1] + resource("https://other.example/")[1], "invalid_target", false},
	} {
		for _, s := range all {
			what := s.name + ": " + tt.name
			a := s.b.rested().get("/oauth/authorize?" + s.f.query(tt.changes...) + tt.extra)
			want, sentBack := s.f.state, !tt.noState
			if !s.knows {
				p := s.b.read(a)
				wantPage(t, what, a, 400)
				if !strings.Contains(p.text(), tt.code) {
					t.Errorf("%s: the page does not name %s: %s", what, tt.code, p.text())
				}
				link := p.linkOff()
				if s.f.client == "dev-client" { // its link leads to this host
					continue
				}
				a = answer{status: 303, header: map[string][]string{"Location": {link}}}
			}
			state, sent := wantRedirect(t, what, a, s.f, tt.code)
			if sent != sentBack || sent && state != want {
				t.Errorf("%s: state %q (sent: %v); want %q (sent: %v)", what, state, sent, want, sentBack)
			}
		}
	}
	h.unchanged(t, before)
}

// Spec 4.1: what is in order leads to the consent page, for whoever is signed
// in, and to the sign-in page for others: optional parameters left out or
// empty, unknown ones and those of other standards ignored (decisions A6 and
// A9), every form of our own resource (decision A7).
func TestSpec41InOrder(t *testing.T) {
	t.Parallel()
	h := start(t)
	all := standings(h)
	type row struct {
		changes []string
		extra   string
	}
	rows := map[string]row{
		"plain":                   {},
		"scope=api":               {[]string{"scope", "api"}, ""},
		"scope empty":             {nil, "&scope="},
		"no state":                {[]string{"state", ""}, ""},
		"state empty":             {[]string{"state", ""}, "&state="},
		"state of 4,096 bytes":    {[]string{"state", strings.Repeat("%", 4096)}, ""},
		"an unknown parameter":    {nil, "&unknown=x&unknown=y&%zz=1&=&&"},
		"code_challenge of marks": {[]string{"code_challenge", strings.Repeat("-_", 21) + "A"}, ""},
		"a thousand parameters":   {nil, strings.Repeat("&a=b", 1000)},
		"another case":            {nil, "&SCOPE=all&Client_ID=x"},
		"resource empty":          {nil, "&resource="},
	}
	for _, extra := range []string{
		"prompt=none", "prompt=login", "prompt=consent", "prompt=x&prompt=y", "max_age=0", "response_mode=fragment", "response_mode=form_post", "response_mode=query", "request=x.y.z",
		"request_uri=https%3A%2F%2Fevil.example%2F", "request_uri=http%3A%2F%2F169.254.169.254%2F", "claims=%7B%7D", "nonce=x", "login_hint=x", "display=popup", "id_token_hint=x", "acr_values=x", "ui_locales=xx", "dpop_jkt=" + strings.Repeat("A", 43), "authorization_details=%5B%5D", "client_secret=x", "registration=x",
	} {
		rows[extra] = row{nil, "&" + extra}
	}
	upper := strings.Replace(h.base, "http://", "HTTP://", 1)
	for _, r := range []string{
		h.base, h.base + "/", h.base + "/api/v5", h.base + "/api/v5/", h.base + "/api/v5/mcp", h.base + "/api/v5/mcp/", h.base + "/api/v5/roles/x?y", upper + "/api/v5", upper,
	} {
		rows["resource "+r] = row{nil, "&resource=" + url.QueryEscape(r)}
	}
	rows["resource, several"] = row{nil, "&resource=" + url.QueryEscape(h.base+"/api/v5") + "&resource=" + url.QueryEscape(h.base+"/api/v5/mcp")}
	for name, r := range rows {
		for _, s := range all {
			what := s.name + ": " + name
			a := s.b.rested().get("/oauth/authorize?" + s.f.query(r.changes...) + r.extra)
			if s.b.email == "" {
				if a.status != 303 || !strings.HasPrefix(a.header.Get("Location"), "/signin?") {
					t.Errorf("%s: got %d %s; want the sign-in page", what, a.status, a.header.Get("Location"))
				}
				continue
			}
			wantPage(t, what, a, 200)
			s.b.read(a).form("/oauth/authorize") // never approved silently
		}
	}
}

// Decision A7, what is not ours.
func TestDecisionA7OtherResources(t *testing.T) {
	t.Parallel()
	h := start(t)
	b := h.signedIn("ada@nordlys.example")
	f := h.flow("")
	code := b.approve(f, treasurer...)
	before := h.rows()
	other := h.at("localhost")
	for _, r := range []string{
		"https://other.example", "https" + strings.TrimPrefix(h.base, "http") + "/api/v5", other.base, other.base + "/api/v5", h.base + "0", h.base + "/api", h.base + "/api/v", h.base + "/api/v55", h.base + "/api/v5x", h.base + "/api/v4", h.base + "/api/v3/",
		h.base + "/oauth/token", h.base + "//", h.base + "/API/V5", h.base + ".evil.example/api/v5", strings.Replace(h.base, "://", "://x@", 1) + "/api/v5", h.base + "/api/v5#x", h.base + "#", "/api/v5", "api", "urn:api", "*", h.host(), "http://" + h.host()[:len(h.host())-1] + "/api/v5",
	} {
		q := "&resource=" + url.QueryEscape(r)
		wantRedirect(t, r, b.rested().get("/oauth/authorize?"+f.query()+q), f, "invalid_target")
		a := f.exchange(code, "resource", r)
		wantError(t, "exchange "+r, a, 400, "invalid_target")
	}
	h.unchanged(t, before)
	tk := tokensOf(t, f.exchange(code, "resource", strings.ToUpper(h.base[:4])+h.base[4:]+"/api/v5/mcp/"))
	if !h.works(tk.access) {
		t.Error("resource narrows: the token of the MCP endpoint does not work on the API")
	}
	for _, odd := range []string{"https://other.example", "x", h.base + "/api/v4"} {
		tk = tokensOf(t, f.refresh(tk.refresh, "resource", odd)) // measured: SDKs get stuck on a refusal here
	}
}

// Decision A4: state comes back as the same bytes, on every way to the client,
// also over the sign-in page; decision A5: iss is on every one.
func TestDecisionA4State(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	ada := h.signedIn("ada@nordlys.example")
	ada.approve(h.flow(client), treasurer...) // she knows the client
	var printable strings.Builder
	for c := byte(1); c < 0x80; c++ {
		printable.WriteByte(c)
	}
	for i, state := range []string{
		"x", " ", "a b+c%20d%2B", "+", "%", "%00", "&=?#;/:@", `"'<>\` + "`", "ä€😀\u202e", "\ufffd", "\r\nLocation: https://evil.example/\r\n\r\n", "\t", printable.String(),
		strings.Repeat("é", 2048), strings.Repeat("\n", 4096), `{"a":[1,2]}`, base64.StdEncoding.EncodeToString([]byte{0xfb, 0xff, 0xfe, 0}), "state&code=x&iss=y", "\U0010ffff", "null", "undefined", "0",
	} {
		what := fmt.Sprintf("%.40q", state)
		f := h.flow(client)
		f.state = state
		escaped := url.QueryEscape(state)
		if i%2 == 1 { // both spellings of a space
			escaped = strings.ReplaceAll(escaped, "+", "%20")
		}
		query := f.query("state", "") + "&state=" + escaped
		check := func(way string, a answer, name string) {
			t.Helper()
			if a.status != 303 {
				t.Errorf("%s: %s: %.300s", what, way, a)
				return
			}
			location := a.header.Get("Location")
			if strings.ContainsAny(location, "\r\n \"<>\\") {
				t.Errorf("%s: %s: Location %q", what, way, location)
			}
			q := a.location(t).Query()
			if q.Get("state") != state || len(q["state"]) != 1 || !q.Has(name) || len(q["iss"]) != 1 || q.Get("iss") != h.base {
				t.Errorf("%s: %s: came back as %q", what, way, q)
			}
		}
		b := ada.rested()
		check("error", b.get("/oauth/authorize?"+query+"&scope=x"), "error")
		p := b.page("/oauth/authorize?" + query)
		check("cancel", p.form("/oauth/authorize").submit("decision", "cancel"), "error")
		check("approve", p.form("/oauth/authorize").submit(append(treasurer, "decision", "approve")...), "code")
		// Over the sign-in page.
		b = h.browser()
		a := b.get("/oauth/authorize?" + query)
		a = b.page(a.header.Get("Location")).form("/signin").submit("email", "tor@nordlys.example", "password", h.password)
		if a.status != 303 {
			t.Errorf("%s: sign in: %.300s", what, a)
			continue
		}
		p = b.page(a.header.Get("Location"))
		check("signed in on the way", p.form("/oauth/authorize").submit("decision", "cancel"), "error")
	}
	f := h.flow(client)
	for _, extra := range []string{"", "&state="} {
		a := ada.page("/oauth/authorize?" + f.query("state", "") + extra).form("/oauth/authorize").submit(append(treasurer, "decision", "approve")...)
		if q := a.location(t).Query(); q.Has("state") || !q.Has("code") {
			t.Errorf("no state was sent: %v", q)
		}
	}
}

// "On approval, the browser is redirected to redirect_uri with query
// parameters code and state. On cancel, it carries error=access_denied
// instead." An own query of the redirect URI stays before them, byte for byte.
func TestSpec41Redirects(t *testing.T) {
	t.Parallel()
	h := start(t)
	uris := []string{redirect, redirect + "?a=1&b=%2f+%2B", redirect + "?", redirect + "?x", "https://Connect.Quill.Example:443//A/~'()!*?q=%7e"}
	client := h.register(uris...)
	for _, uri := range uris {
		for _, decision := range []string{"approve", "cancel"} {
			b := h.signedIn("ada@nordlys.example")
			f := h.flow(client)
			f.redirect = uri
			a := b.consent(f).form("/oauth/authorize").submit(append(treasurer, "decision", decision)...)
			location := a.header.Get("Location")
			if a.status != 303 || !strings.HasPrefix(location, uri) || strings.Contains(location, "#") { // decision A10
				t.Errorf("%s of %s: %s", decision, uri, a)
				continue
			}
			added := strings.TrimPrefix(location, uri)
			if strings.Contains(uri, "?") == strings.HasPrefix(added, "?") {
				t.Errorf("%s of %s: %s", decision, uri, location)
			}
			q, err := url.ParseQuery(strings.TrimLeft(added, "?&"))
			if err != nil || q.Get("state") != f.state || q.Get("iss") != h.base {
				t.Errorf("%s of %s: %v %v", decision, uri, q, err)
			}
			if decision == "cancel" {
				if q.Get("error") != "access_denied" || q.Has("code") {
					t.Errorf("cancel of %s: %v", uri, q)
				}
				continue
			}
			if q.Has("error") || len(q) != 3 {
				t.Errorf("approve of %s: %v", uri, q)
			}
			tokensOf(t, f.exchange(q.Get("code")))
		}
	}
}

// "GET, POST /oauth/authorize": other methods are a page with 405.
func TestSpec4AuthorizeMethods(t *testing.T) {
	t.Parallel()
	h := start(t)
	f := h.flow("")
	ada := h.signedIn("ada@nordlys.example")
	before := h.rows()
	for _, b := range []*browser{h.browser(), ada} {
		for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "BREW"} {
			a := b.send(method, "/oauth/authorize?"+f.query(), "")
			wantPage(t, method, a, 405)
			if allow := a.header.Get("Allow"); !strings.Contains(allow, "GET") || !strings.Contains(allow, "POST") {
				t.Errorf("%s: Allow %q", method, allow)
			}
		}
	}
	a := ada.send("HEAD", "/oauth/authorize?"+f.query(), "")
	if a.status != 200 || a.body != "" {
		t.Errorf("HEAD: %s", a)
	}
	h.unchanged(t, before)
}

// Decision A11: a form of another origin, of another session or without a
// form token approves nothing; A10: what moves the person is 303.
func TestDecisionA11OriginAndFormToken(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	ada := h.signedIn("ada@nordlys.example")
	before := h.rows()
	send := func(changes []string, h2 ...string) answer {
		f := ada.rested().consent(h.flow(client)).form("/oauth/authorize").with(append(treasurer, "decision", "approve")...).with(changes...)
		return ada.rested().send("POST", "/oauth/authorize", f.values.Encode(), append(header{"Content-Type", formType}, h2...))
	}
	other := h.at("localhost").base
	for _, tt := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "cross-site", "Origin", h.base}, {"Sec-Fetch-Site", "x"},
		{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Origin", other}, {"Origin", h.base + "0"}, {"Origin", "https://" + h.host()},
	} {
		wantPage(t, fmt.Sprint(tt), send(nil, tt...), 403)
	}
	for name, changes := range map[string][]string{
		"no form token": {"csrf", ""}, "a wrong form token": {"csrf", "x"},
		"the form token of another session": {"csrf", h.signedIn("ada@nordlys.example").consent(h.flow(client)).form("/oauth/authorize").values.Get("csrf")},
	} {
		wantPage(t, name, send(changes), 403)
	}
	for name, changes := range map[string][]string{"no request": {"request", ""}, "a wrong request": {"request", "x"}} {
		wantPage(t, name, send(changes), 400)
	}
	tor := h.signedIn("tor@nordlys.example").consent(h.flow(client)).form("/oauth/authorize").values.Get("request")
	wantPage(t, "the request of another person", send([]string{"request", tor}), 409)
	foreign := h.at("localhost").signedIn("ada@nordlys.example").consent(h.at("localhost").flow(client)).form("/oauth/authorize").values.Get("request")
	wantPage(t, "the request of another host", send([]string{"request", foreign}), 400)
	for name, changes := range map[string][]string{
		"no decision": {"decision", ""}, "an unknown decision": {"decision", "yes"}, "another case": {"decision", "Approve"}, "an action": {"action", "review"},
	} {
		wantPage(t, name, send(changes), 200)
	}
	h.unchanged(t, before)
	for _, tt := range [][]string{
		{}, {"Origin", h.base}, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "same-origin", "Origin", "null"}, {"Sec-Fetch-Site", "same-origin", "Origin", h.base},
	} {
		if a := send(nil, tt...); a.status != 303 || a.location(t).Query().Get("code") == "" {
			t.Errorf("%v: %s", tt, a)
		}
	}
}

// Decision A12: the same page is the same approval and the same code, until
// the code is exchanged.
func TestDecisionA12SamePageTwice(t *testing.T) {
	t.Parallel()
	h := start(t)
	b := h.signedIn("ada@nordlys.example")
	f := h.flow("")
	p := b.consent(f)
	answerWith := func(choice ...string) answer { return p.form("/oauth/authorize").submit(choice...) }
	first := codeOf(t, answerWith(append(treasurer, "decision", "approve")...), f)
	again := codeOf(t, answerWith(append(everything, "decision", "approve")...), f)
	if got := h.approvalsOf(f.client); len(got) != 1 || first != again || got[0]["grant"] != "everything" {
		t.Errorf("want one approval, of the latest choices, and one code: %v, %v", got, first == again)
	}
	h.sleep(301 * second)
	wantError(t, "after 5 minutes", f.exchange(first), 400, "invalid_grant")
	late := codeOf(t, answerWith(append(treasurer, "decision", "approve")...), f)
	if late == first {
		t.Error("after 5 minutes the code has no new issue time")
	}
	wantError(t, "the expired code", f.exchange(first), 400, "invalid_grant")
	tk := tokensOf(t, f.exchange(late))
	for _, decision := range []string{"approve", "cancel"} {
		wantPage(t, decision+" after the exchange (E6)", answerWith(append(treasurer, "decision", decision)...), 409)
	}
	if !h.works(tk.access) {
		t.Error("answering the page after the exchange has ended the approval")
	}
	f = h.flow(f.client)
	p = b.consent(f)
	cancelled := codeOf(t, answerWith(append(treasurer, "decision", "approve")...), f)
	wantRedirect(t, "cancel after approve", answerWith("decision", "cancel"), f, "access_denied")
	wantError(t, "the code of a cancelled approval", f.exchange(cancelled), 400, "invalid_grant")
	tokensOf(t, f.exchange(codeOf(t, answerWith(append(treasurer, "decision", "approve")...), f)))
}
