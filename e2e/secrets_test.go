package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// secrets are the values that a flow makes and that nobody else may find, by
// what they are.
type secrets map[string]string

// whole goes every way that secrets can go: a sign-in that fails and one that
// does not, cancel, approve, a wrong and a right exchange, calls, refreshes,
// reuse and revocation. It leaves a session, a code that waits, a living
// approval and two that have ended.
func (h *house) whole() (secrets, *flow) {
	h.t.Helper()
	s := secrets{"password": h.password, "wrong password": random()}
	b := h.browser()
	form := b.page("/signin").form("/signin")
	s["form token before sign-in"] = form.values.Get("csrf")
	s.cookies("before sign-in", b)
	if a := form.submit("email", "ada@nordlys.example", "password", s["wrong password"]); a.status != 422 {
		h.t.Fatal(a)
	}
	if a := b.page("/signin").form("/signin").submit("email", "ada@nordlys.example", "password", h.password); a.status != 303 {
		h.t.Fatal(a)
	}
	s.cookies("signed in", b)

	f := h.flow("")
	s["cancelled state"] = f.state
	b.consent(f).form("/oauth/authorize").submit("decision", "cancel")
	f = s.flow(h, "reused", f.client)
	consent := b.consent(f).form("/oauth/authorize")
	s["sealed request"], s["form token"] = consent.values.Get("request"), consent.values.Get("csrf")
	s["reused code"] = codeOf(h.t, consent.submit(append(treasurer, "decision", "approve")...), f)
	s["wrong verifier"] = random()
	if a := f.exchange(s["reused code"], "code_verifier", s["wrong verifier"]); a.errorCode() != "invalid_grant" {
		h.t.Fatalf("wrong verifier: %s", a)
	}
	first := s.tokens("reused, first", tokensOf(h.t, f.exchange(s["reused code"])))
	second := s.tokens("reused, second", tokensOf(h.t, f.refresh(first.refresh)))
	f.me(second.access)
	f.send("POST", "/api/v5/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami"}}`,
		header{"Authorization", "Bearer " + second.access, "Content-Type", "application/json", "Accept", "application/json, text/event-stream"})
	if a := f.refresh(first.refresh); a.errorCode() != "invalid_grant" {
		h.t.Fatalf("reuse: %s", a)
	}

	f = s.flow(h, "waiting", f.client)
	s["waiting code"] = b.approve(f, treasurer...)
	f = s.flow(h, "revoked", f.client)
	s["revoked code"] = b.approve(f, everything...)
	if a := f.revoke(s.tokens("revoked", tokensOf(h.t, f.exchange(s["revoked code"]))).access); a.status != 200 {
		h.t.Fatal(a)
	}
	f = s.flow(h, "living", f.client)
	s["living code"] = b.approve(f, everything...)
	living := s.tokens("living", tokensOf(h.t, f.exchange(s["living code"])))
	if !h.works(s.tokens("living, second", tokensOf(h.t, f.refresh(living.refresh))).access) {
		h.t.Error("the flow is not whole")
	}
	for _, key := range h.apiKeys {
		s["API key"] = key
		if a := h.caller().get("/api/v5/me", header{"X-Auth-Token", key}); a.status != 200 {
			h.t.Fatal(a)
		}
	}
	return s, f
}

func (s secrets) flow(h *house, name, client string) *flow {
	f := h.flow(client)
	s[name+" verifier"], s[name+" state"] = f.verifier, f.state
	return f
}

func (s secrets) tokens(name string, tk tokens) tokens {
	s[name+" access token"], s[name+" refresh token"] = tk.access, tk.refresh
	return tk
}

func (s secrets) cookies(name string, b *browser) {
	b.h.t.Helper()
	base, err := url.Parse(b.h.base)
	if err != nil || len(b.Jar.Cookies(base)) == 0 {
		b.h.t.Fatalf("no cookie %s, %v", name, err)
	}
	for _, c := range b.Jar.Cookies(base) {
		s[name+" cookie "+c.Name] = c.Value
	}
}

// written gives the spellings under which a secret might stand somewhere.
func written(secret string) map[string]string {
	b := []byte(secret)
	all := map[string]string{
		"clear": secret, "base64": base64.RawStdEncoding.EncodeToString(b), "base64url": base64.RawURLEncoding.EncodeToString(b),
		"hex": hex.EncodeToString(b), "HEX": strings.ToUpper(hex.EncodeToString(b)), "escaped": url.QueryEscape(secret),
	}
	if len(secret) >= 32 { // a part of it would be enough to find the rest, or to recognise it
		all["its first half"], all["its second half"] = secret[:len(secret)/2], secret[len(secret)/2:]
	}
	if len(secret) > 4 && secret[3] == '_' {
		all["without prefix"] = secret[4:]
	}
	return all
}

// absent fails for every secret that stands in the text.
func (s secrets) absent(t *testing.T, where string, text []byte) {
	t.Helper()
	for name, secret := range s {
		if len(secret) < 12 {
			t.Fatalf("%s is %q: too short to look for", name, secret)
		}
		for how, spelling := range written(secret) {
			if at := bytes.Index(text, []byte(spelling)); at >= 0 {
				t.Errorf("%s: %s, %s: %.80q", where, name, how, text[max(0, at-20):])
			}
		}
	}
}

// S-01: whoever reads the database finds no code, token, session, form token,
// verifier, state, password or API key, and no hash of a code or token.
func TestS01DatabaseHoldsNoSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := start(t, "--data", dir)
	s, f := h.whole()
	dump := func(wal bool) []byte {
		t.Helper()
		var all []byte
		for _, name := range []string{"grantkeeper.db", "grantkeeper.db-wal"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil && (wal || name == "grantkeeper.db") {
				t.Fatal(err)
			}
			all = append(all, b...)
		}
		return all
	}
	hashes := secrets{}
	for name, v := range s {
		if strings.HasPrefix(v, "sv") {
			sum := sha256.Sum256([]byte(v))
			hashes["the hash of the "+name] = string(sum[:])
		}
	}
	if len(s) < 30 || len(hashes) < 14 {
		t.Fatalf("%d secrets and %d hashes: the flow is not whole", len(s), len(hashes))
	}
	check := func(when string, all []byte) {
		t.Helper()
		s.absent(t, when, all)
		hashes.absent(t, when, all)
		// What has to be there shows that the bytes looked at are the right ones.
		session, challenge := sha256.Sum256([]byte(s["signed in cookie session"])), sha256.Sum256([]byte(f.verifier))
		for what, there := range map[string][]byte{
			"the session's hash": session[:], "the client": []byte(f.client),
			"the challenge": []byte(base64.RawURLEncoding.EncodeToString(challenge[:])),
		} {
			if !bytes.Contains(all, there) {
				t.Errorf("%s: %s is not in the database, so this test looks at something else", when, what)
			}
		}
	}
	check("while it runs", dump(true))
	h.stop()
	check("when it has ended", dump(false))
}

// S-02: the log at its most talkative tells no secret and no query, whatever
// is sent, in both of its forms.
func TestS02LogsHoldNoSecret(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			h := serve(t, served{apiLimit: fmt.Sprintf("[log]\nlevel = \"debug\"\nformat = %q", format)})
			s, f := h.whole()
			s["API key"] = "api-key-of-ada-in-nordlys"
			h.hostile(s, f)
			h.everywhere(s, f)
			h.stop()
			checkLog(t, h.stderr.String(), s)
		})
	}
	t.Run("dev", func(t *testing.T) {
		t.Parallel()
		h := start(t, "--log-level", "debug")
		s, f := h.whole()
		h.hostile(s, f)
		h.everywhere(s, f)
		code, state := s["living code"], random()
		s["state at dev's client"] = state
		h.browser().get("/dev/client?" + form("code", code, "state", state, "iss", h.base))
		h.stop()
		delete(s, "password") // dev says it at its start
		checkLog(t, h.log(), s)
	})
}

// hostile sends secrets where they do not belong.
func (h *house) hostile(s secrets, f *flow) {
	h.t.Helper()
	access, refresh, code := s["living, second access token"], s["living, second refresh token"], s["waiting code"]
	c := h.caller()
	for _, path := range []string{
		"/oauth/authorize?" + f.query() + "&code=" + code,
		"/oauth/authorize?" + f.query("redirect_uri", "https://thief.example/?code="+code),
		"/oauth/authorize?" + f.query("client_id", access),
		"/oauth/token?code=" + code + "&code_verifier=" + f.verifier,
		"/oauth/" + code, "/" + access, "/.well-known/" + refresh, "/signin?return=" + s["sealed request"],
		"/api/v5/me?access_token=" + access, "/api/v5/" + access, "/api/v5/people/" + refresh, "/api/v5/people?after=" + access,
		"/organizations/" + access + "/profile/api", "/organizations/nordlys/profile/api/" + code + "/edit",
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			c.send(method, path, "code="+code, header{
				"X-Auth-Token", refresh, "User-Agent", access, "Referer", h.base + "/?code=" + code, "X-Request-Id", access,
				"Cookie", "session=" + s["signed in cookie session"], "X-Forwarded-For", access, "Forwarded", "for=" + access,
				"Authorization", "Basic " + access, "Content-Type", "application/x-www-form-urlencoded",
			})
		}
	}
	c.send("GET", "/api/v5/me", "", header{"Authorization", "Bearer " + access + "x"})
	c.send("GET", "/api/v5/me", "", header{"Authorization", "Bearer " + refresh})
	c.send("GET", "/", "", header{"Host", strings.ToLower(access) + ".example"})
	c.send(access, "/oauth/token", "")
	c.postJSON("/oauth/register", fmt.Sprintf(`{"client_name":%q,"redirect_uris":["https://a.example/?code=%s"]}`, access, code))
	c.postJSON("/oauth/register", fmt.Sprintf(`{"client_name":%q,"redirect_uris":["https://a.example/%s"]}`, access, code))
	c.postForm("/oauth/token", "grant_type", code, "client_id", access, "code_verifier", f.verifier, "code_verifier", "x")
	c.postForm("/oauth/revoke", "token", code, "client_id", access, "client_secret", refresh)
	c.send("POST", "/api/v5/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":{"name":%q,"arguments":{"after":%q}}}`, code, access, refresh, code),
		header{"Authorization", "Bearer " + access, "Content-Type", "application/json", "Accept", "application/json, text/event-stream"})
	c.send("GET", h.operator+"/v1/people?after="+access, "", header{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("operator:"+s["wrong password"]))})
	h.operate("/v1/clients?query=" + code)
	h.operate("/v1/people/"+access+"/deactivate", `{"reason":"test"}`)
	for _, request := range []string{
		"GET /oauth/authorize?code=" + code + " HTTP/9.9\r\nHost: x\r\n\r\n", // what net/http itself refuses
		access + "\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: " + h.host() + "\r\n" + access + "\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: " + h.host() + "\r\nContent-Length: " + code + "\r\n\r\n",
		"GET /?code=" + code + " HTTP/1.1\r\nHost: " + h.host() + "\r\nX: " + strings.Repeat(access, 2000) + "\r\n\r\n",
	} {
		if a := h.raw(request); a.status < 400 {
			h.t.Errorf("%.80q: %s", request, a)
		}
	}
}

// tellsOfQuery finds a query or a form in the log.
var tellsOfQuery = regexp.MustCompile(`[?&](code|state|token|client_id|redirect_uri|after|access_token|return)=|\b(code|code_verifier|state)=`)

func checkLog(t *testing.T, log string, s secrets) {
	t.Helper()
	s.absent(t, "log", []byte(log))
	if n := strings.Count(log, "/oauth/token"); n < 10 {
		t.Errorf("%d lines about the token endpoint: this is not the log of what was done\n%s", n, tail(log))
	}
	for line := range strings.Lines(log) {
		for _, prefix := range []string{"svo_", "svr_", "svc_"} {
			if strings.Contains(line, prefix) {
				t.Errorf("%s in %q", prefix, line)
			}
		}
		if tellsOfQuery.MatchString(line) && !strings.HasPrefix(line, " ") { // dev's start is not the log
			t.Errorf("a query in %q", line)
		}
		if strings.HasPrefix(line, "{") {
			var v struct{ Msg, Route string }
			if err := json.Unmarshal([]byte(line), &v); err != nil || v.Msg == "request" && (v.Route == "" || strings.Contains(v.Route, "?")) {
				t.Errorf("%v: %q", err, line)
			}
		}
	}
}

// S-03: what the running server gives differs each time and looks alike. The
// statistics over 10,000 tokens stand in the token room.
func TestS03TokensLookAlike(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, current := h.connected("")
	seen, alike := map[string]bool{}, regexp.MustCompile(`^sv[or]_[0-9A-Za-z]+$`)
	for range 100 {
		current = tokensOf(t, f.refresh(current.refresh))
		for _, v := range []string{current.access, current.refresh} {
			if seen[v] || len(v) != len(current.access) || !alike.MatchString(v) {
				t.Fatalf("%d characters, seen before: %v, alike: %v", len(v), seen[v], alike.MatchString(v))
			}
			seen[v] = true
		}
	}
	shared := 0
	var last string
	for v := range seen {
		for i := 4; last != "" && i < len(v) && v[i] == last[i]; i++ {
			shared = max(shared, i-3)
		}
		last = v
	}
	if shared > 6 { // by chance once in 62^7 pairs
		t.Errorf("two tokens begin with the same %d characters", shared)
	}
}

// S-08: revocation tells nothing but what the contract wants told: whether a
// token lived does not show, and another client's is 403, dead or alive.
func TestS08RevocationTellsNothing(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, own := h.connected("")
	other, living := h.connected("")
	_, dead := h.connected(other.client)
	if a := other.revoke(dead.access); a.status != 200 {
		t.Fatal(a)
	}
	told := func(a answer) string {
		a.header.Del("X-Request-Id")
		a.header.Del("Date")
		return a.String()
	}
	garbage := "svo_" + strings.Repeat("A", len(own.access)-4)
	want := told(f.revoke(garbage))
	if !strings.HasPrefix(want, "200 ") {
		t.Fatalf("unknown token: %s", want)
	}
	for _, tt := range []struct{ name, token string }{
		{"own token", own.access}, {"own token again", own.access}, {"own refresh token, dead", own.refresh}, {"no token at all", "x"},
	} {
		if got := told(f.revoke(tt.token)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, want)
		}
	}
	want = told(f.revoke(living.access))
	if !strings.HasPrefix(want, "403 ") || !h.works(living.access) {
		t.Fatalf("another client's token: %s", want)
	}
	for _, tt := range []struct{ name, token string }{
		{"another's dead access token", dead.access}, {"another's dead refresh token", dead.refresh}, {"another's refresh token", living.refresh},
	} {
		if got := told(f.revoke(tt.token)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, want)
		}
	}
}

// causes are words of what is behind the doors.
var causes = regexp.MustCompile(`(?i)sqlite|sql\b|database/|\.go\b|goroutine|panic|\.db\b|/tmp|wal\b|disk|journal|approval_|api_key|membership|INSERT|SELECT|UPDATE |constraint|transaction|\bstore:|errno|i/o`)

var requestID = regexp.MustCompile(`^[0-9a-f]{16}$`)

// wantQuiet checks that an error carries the request's ID and no cause.
func wantQuiet(t *testing.T, name string, a answer) {
	t.Helper()
	id := a.header.Get("X-Request-Id")
	if !requestID.MatchString(id) {
		t.Errorf("%s: request ID %q", name, id)
	}
	if at := causes.FindString(a.body); at != "" {
		t.Errorf("%s: tells of %q: %s", name, at, a)
	}
	if a.status >= 500 && !strings.HasPrefix(name, "oauth") && !strings.Contains(a.body, id) {
		t.Errorf("%s: the body has no reference: %s", name, a)
	}
}

// S-09: what goes wrong here is told as a reference alone, at every door.
func TestS09ErrorsTellNoCause(t *testing.T) {
	t.Parallel()
	h := serve(t, served{bounded: 1 << 20, trusted: "127.0.0.0/8"})
	f, _ := h.connected("")
	b := h.signedIn("ada@nordlys.example")
	consent := func() *pageForm { return b.consent(f).form("/oauth/authorize") }
	approve, cancel := consent(), consent()
	signIn := h.browser().page("/signin").form("/signin")
	code := b.approve(f, treasurer...)

	wantQuiet(t, "api 401", h.caller().get("/api/v5/me"))
	wantQuiet(t, "api 404", h.caller().get("/api/v5/nothing", header{"X-Auth-Token", "api-key-of-ada-in-nordlys"}))
	wantQuiet(t, "oauth 400", f.token("grant_type", "authorization_code"))
	wantQuiet(t, "oauth 404", h.caller().get("/oauth/nothing"))
	wantQuiet(t, "page 404", b.get("/nothing"))
	wantQuiet(t, "page 400", b.get("/oauth/authorize"))
	wantQuiet(t, "operator 404", h.operate("/v1/people/nobody"))
	wantQuiet(t, "operator 409", h.operate("/v1/directory", `{"reason":"test","people":[{"id":"eva","email":"tor@nordlys.example","name":"Eva"}]}`))

	wantQuiet(t, "page 404 of the console", h.operate("/clients/nobody"))
	disable := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(h.operate("/clients/" + f.client + "/disable").body)

	h.fillDisk(t)
	var refused []string
	for _, tt := range []struct {
		name string
		ask  func() answer
	}{
		{"oauth exchange", func() answer { return f.exchange(code) }},
		{"oauth register", func() (a answer) {
			for range 100 { // a log that was begun anew has room until it is full again
				if a = h.caller().postJSON("/oauth/register", `{"redirect_uris":["`+redirect+strings.Repeat("x", 1900)+`"]}`); a.status >= 400 {
					break
				}
			}
			return a
		}},
		{"page approve", func() answer { return approve.submit(append(treasurer, "decision", "approve")...) }},
		{"page cancel", func() answer { return cancel.submit("decision", "cancel") }},
		{"page sign-in", func() answer { return signIn.submit("email", "tor@nordlys.example", "password", h.password) }},
		{"operator change", func() answer {
			return h.operate("/v1/people/tor/deactivate", `{"reason":"`+strings.Repeat("x", 999)+`"}`)
		}},
		{"page of the console", func() answer {
			basic := base64.StdEncoding.EncodeToString([]byte("operator:" + h.password))
			return h.caller().send("POST", h.operator+"/clients/"+f.client+"/disable", form("csrf", disable[1], "reason", strings.Repeat("x", 999)),
				header{"Authorization", "Basic " + basic, "Content-Type", "application/x-www-form-urlencoded"})
		}},
		{"operator readiness", func() answer { return h.caller().get(h.operator + "/readyz") }},
	} {
		a := tt.ask()
		if a.status < 400 { // it needed no room
			continue
		}
		if a.status != 503 {
			t.Errorf("%s on a full disk: %s; want 503", tt.name, a)
		}
		wantQuiet(t, tt.name, a)
		refused = append(refused, tt.name)
	}
	if len(refused) < 3 || !slices.Contains(refused, "oauth register") || !slices.Contains(refused, "page approve") {
		t.Errorf("refused were %q: the disk is not full", refused)
	}
	log := h.stderr.String()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(log, "a commit failed"); log = h.stderr.String() { // it is written every 200 ms
		if time.Now().After(deadline) {
			t.Errorf("the log does not tell the cause either:\n%s", tail(log))
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// fillDisk registers clients until the database cannot grow.
func (h *house) fillDisk(t *testing.T) {
	t.Helper()
	big := strings.Repeat("x", 1900)
	for n := range 2000 {
		a := h.caller().postJSON("/oauth/register",
			fmt.Sprintf(`{"redirect_uris":["https://filler.example/%d/%s"]}`, n, big),
			header{"X-Forwarded-For", fmt.Sprintf("198.18.%d.%d", n/250, n%250+1)})
		if a.status == 503 {
			return
		}
	}
	t.Fatal("the disk never was full")
}

// S-10: NUL in any text, wherever it is sent, is refused or reads as a value
// that nobody has; it is never a fault of ours.
func TestS10NUL(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, tk := h.connected("")
	b := h.signedIn("ada@nordlys.example")
	check := func(what string, a answer) {
		t.Helper()
		if a.status < 400 || a.status > 499 {
			t.Errorf("%s: %s; want a refusal", what, a)
		}
	}
	shown := func(what string, a answer) { // the page again is no answer either
		t.Helper()
		if a.status != 200 && (a.status < 400 || a.status > 499) || a.header.Get("Location") != "" {
			t.Errorf("%s: %s; want a refusal, or the page again", what, a)
		}
	}
	nul := "a\x00b"
	for _, name := range []string{"response_type", "client_id", "redirect_uri", "code_challenge", "code_challenge_method", "state", "scope", "resource"} {
		a := b.get("/oauth/authorize?" + f.query(name, nul))
		if a.status == 303 { // the client was approved before, so it is told by redirect
			if u := a.location(t); u.Query().Get("error") == "" || u.Query().Get("code") != "" {
				t.Errorf("authorize, %s: %s", name, a)
			}
			continue
		}
		check("authorize, "+name, a)
	}
	for _, name := range []string{"request", "csrf", "organization", "grant", "decision", "role:nordlys-treasurer"} {
		shown("consent, "+name, b.consent(f).form("/oauth/authorize").submit(append(treasurer, "decision", "approve", name, nul)...))
	}
	check("consent, the name of a field", b.consent(f).form("/oauth/authorize").submit(append(treasurer, "decision", "approve", "role:"+nul, "read")...))
	for _, name := range []string{"email", "password", "csrf"} {
		form := h.browser().page("/signin").form("/signin")
		check("sign-in, "+name, form.submit("email", "ada@nordlys.example", "password", h.password, name, nul))
	}
	for _, name := range []string{"grant_type", "code", "redirect_uri", "client_id", "code_verifier", "client_secret", "scope", "resource"} {
		check("exchange, "+name, f.exchange("svc_x", name, nul))
	}
	for _, name := range []string{"refresh_token", "client_id", "scope"} {
		check("refresh, "+name, f.refresh(tk.refresh, name, nul))
	}
	check("revoke, token", f.revoke(tk.refresh+"\x00"))
	check("revoke, client", h.caller().postForm("/oauth/revoke", "token", tk.refresh, "client_id", f.client+"\x00"))
	for _, member := range []string{"client_name", "grant_types", "response_types", "redirect_uris"} {
		value := `"a\u0000b"`
		if member != "client_name" {
			value = `["https://a.example/\u0000"]`
		}
		check("register, "+member, h.caller().postJSON("/oauth/register", `{"`+member+`":`+value+`,"x":["`+redirect+`"]}`))
	}
	check("register, a member's name", h.caller().postJSON("/oauth/register", `{"redirect_uris\u0000":["`+redirect+`"]}`))
	api := header{"Authorization", "Bearer " + tk.access}
	for _, path := range []string{"/api/v5/people/a%00b", "/api/v5/roles/%00", "/api/v5/people?after=%00", "/api/v5/roles?limit=%00", "/api/v5/%00"} {
		check(path, h.caller().get(path, api))
	}
	for _, path := range []string{"/%00", "/oauth/%00", "/.well-known/%00", "/organizations/%00/profile/api", "/organizations/nordlys/profile/api/clients/%00/revoke"} {
		check(path, b.get(path))
	}
	if !h.works(tk.access) {
		t.Error("something of that has ended an approval")
	}
	for _, path := range []string{
		"/v1/people/%00", "/v1/organizations/%00", "/v1/clients/%00", "/v1/approvals/%00", "/v1/events/%00",
		"/v1/people?after=%00", "/v1/organizations?after=%00", "/v1/clients?after=1.%00", "/v1/approvals?after=1.%00", "/v1/events?after=%00",
		"/v1/people?organization=%00", "/v1/approvals?person=%00", "/v1/approvals?organization=%00", "/v1/events?person=%00", "/v1/clients?state=%00",
		"/v1/people?query=%00", "/v1/clients?query=%00", "/v1/approvals?client=%00", "/v1/events?kind=%00",
	} {
		check(path, h.operate(path))
	}
	check("a directory", h.operate("/v1/directory", `{"reason":"test","people":[{"id":"a\u0000b","email":"x@y.example","name":"x"}]}`))
	check("a name", h.operate("/v1/directory", `{"reason":"test","people":[{"id":"ab","email":"x@y.example","name":"a\u0000b"}]}`))
	check("an email", h.operate("/v1/directory", `{"reason":"test","people":[{"id":"ab","email":"x\u0000@y.example","name":"a"}]}`))
	check("a reason", h.operate("/v1/people/tor/deactivate", `{"reason":"a\u0000b"}`))
	check("a person", h.operate("/v1/roles/nordlys-treasurer/fillers", `{"reason":"test","person":"a\u0000b"}`))
}

// madeUp are cursors that no list gave.
var madeUp = []string{
	"'", `"`, "1' OR '1'='1", "x'; DROP TABLE approval; --", ") OR (1=1", "%25", "%00", "\x00", "1.\x00", "../../etc/passwd", "{}", "[]",
	"é", "\xff", " ", "a b", "1.a\nb", strings.Repeat("9", 5000), "1." + strings.Repeat("a", 5000), "1.é",
}

// S-11: a cursor that no list gave is refused, at every list, and changes
// nothing; what the API gives is sealed, so that one list's is not another's.
func TestS11MadeUpCursors(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, tk := h.connected("", everything...)
	operators := []string{"/v1/people", "/v1/organizations", "/v1/clients", "/v1/approvals", "/v1/events"}
	calls := []string{"/api/v5/people", "/api/v5/circles", "/api/v5/roles"}
	api := header{"Authorization", "Bearer " + tk.access}
	ask := func(path, after string) answer {
		path += "?limit=1&after=" + url.QueryEscape(after)
		if strings.HasPrefix(path, "/v1/") {
			return h.operate(path)
		}
		return h.caller().get(path, api)
	}
	next, items := map[string]string{}, map[string]string{}
	for _, list := range slices.Concat(operators, calls) {
		items[list], next[list] = firstOf(t, ask(list, ""))
		if next[list] != "" && ask(list, next[list]).status != 200 {
			t.Errorf("%s: its own cursor is refused", list)
		}
		for _, after := range madeUp {
			if a := ask(list, after); a.status != 400 || causes.MatchString(a.body) {
				t.Errorf("%s, after %.40q: %s; want 400", list, after, a)
			}
		}
	}
	for _, list := range calls {
		sealed := next[list]
		if sealed == "" {
			t.Fatalf("%s has no second page", list)
		}
		first, last := "2", "A" // which a sealed cursor may have of itself
		if strings.HasPrefix(sealed, first) {
			first = "3"
		}
		if strings.HasSuffix(sealed, last) {
			last = "B"
		}
		for _, after := range []string{sealed[:len(sealed)-1] + last, sealed + "A", sealed[1:], first + sealed[1:], tk.access, "ada", "1.ada"} {
			if a := ask(list, after); a.status != 400 {
				t.Errorf("%s, a changed cursor: %s", list, a)
			}
		}
		for other, cursor := range next {
			if other != list && cursor != "" && ask(list, cursor).status != 400 {
				t.Errorf("%s takes the cursor of %s", list, other)
			}
		}
		if a := h.caller().get(list+"?after="+url.QueryEscape(sealed), header{"X-Auth-Token", h.apiKeys["mei@storhavn.example"]}); a.status != 400 {
			t.Errorf("%s takes a cursor of another organization: %s", list, a)
		}
	}
	for list, before := range items {
		if after, _ := firstOf(t, ask(list, "")); after != before {
			t.Errorf("%s begins with %s, and began with %s", list, after, before)
		}
	}
	if n := len(h.approvalsOf(f.client)); n != 1 {
		t.Errorf("%d approvals are left", n)
	}
}

// firstOf gives the ID of a list's only item, and the cursor of the next page.
func firstOf(t *testing.T, a answer) (id, next string) {
	t.Helper()
	var v struct {
		Items []struct{ ID string }
		Next  string
	}
	if err := json.Unmarshal([]byte(a.body), &v); err != nil || len(v.Items) != 1 {
		t.Fatalf("%v: %s", err, a)
	}
	return v.Items[0].ID, v.Next
}
