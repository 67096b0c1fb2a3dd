package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/grantkeeper/grantkeeper/operator"
)

// Operators who sign in by name (decision O6), each with one of the rights. Their hash is their
// password, as tests compare.
func namedOperators() []operator.Named {
	return []operator.Named{
		{Name: "rita", Email: "rita@ops.example", Hash: "the password of rita", Rights: operator.Read},
		{Name: "arne", Email: "arne@ops.example", Hash: "the password of arne", Rights: operator.Act},
		{Name: "ingrid", Email: "Ingrid@ops.example", Hash: "the password of ingrid", Rights: operator.Administer},
	}
}

// withNamed is an office with operators who sign in by name; it gives how they are
// changed.
func withNamed(t *testing.T) (o *office, live string, set func([]operator.Named)) {
	t.Helper()
	o, live = withConsole(t)
	all := namedOperators()
	o.api.Operators = func() []operator.Named { return all }
	o.api.MatchPassword = func(_ context.Context, hash string, _ []string, password string) (bool, error) {
		return hash == password, nil
	}
	o.api.Ring = o.Ring
	o.console(&Server{Doctor: func(context.Context) []operator.Finding { return nil }})
	o.api.ResetLink = func(secret string) string { return "https://app.svalinn.example/reset/" + secret }
	return o, live, func(now []operator.Named) { all = now }
}

// A browser keeps cookies, as one does that a person sits at.
type browser struct {
	o    *office
	jar  map[string]string
	host string
}

func (o *office) browser() *browser { return &browser{o, map[string]string{}, "127.0.0.1:8081"} }

// asks is a request of the browser: no password, all cookies.
func (b *browser) asks(method, path string, form url.Values, change ...func(*http.Request)) *seen {
	b.o.Helper()
	r := httptest.NewRequest(method, "http://"+b.host+path, strings.NewReader(form.Encode()))
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range b.jar {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "reference-of-test")
	b.o.handler.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if b.jar[c.Name] = c.Value; c.MaxAge < 0 {
			delete(b.jar, c.Name)
		}
	}
	p := &seen{T: b.o.T, o: b.o, code: w.Code, head: w.Header(), body: w.Body.String()}
	var err error
	if p.root, err = html.Parse(strings.NewReader(p.body)); err != nil {
		b.o.Fatal(err)
	}
	return p
}

// signsIn goes through the page for that, and gives the answer to its form.
func (b *browser) signsIn(name, to string) *seen {
	b.o.Helper()
	p := b.asks("GET", "/signin?return="+url.QueryEscape(to), nil).want(200)
	return b.asks("POST", "/signin", url.Values{"csrf": {p.field("csrf")}, "return": {p.field("return")}, "email": {name + "@ops.example"}, "password": {"the password of " + name}})
}

func (o *office) signedIn(name string) *browser {
	o.Helper()
	b := o.browser()
	b.signsIn(name, "/").want(303)
	return b
}

// field is the value of the first field of a name.
func (p *seen) field(name string) string {
	for n := range p.root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "input" && attribute(n, "name") == name {
			return attribute(n, "value")
		}
	}
	return ""
}

// A deep link of somebody who is not signed in leads to the sign-in and from there
// back; nobody gets a dialog for a password.
func TestSignInByName(t *testing.T) {
	o, _, _ := withNamed(t)
	b := o.browser()
	p := b.asks("GET", "/clients/quill?done=x", nil).want(303)
	to := p.head.Get("Location")
	if to != "/signin?return=%2Fclients%2Fquill%3Fdone%3Dx" || p.head.Get("WWW-Authenticate") != "" {
		t.Errorf("leads to %q, %v", to, p.head)
	}
	if p = b.signsIn("arne", "/clients/quill?done=x").want(303); p.head.Get("Location") != "/clients/quill?done=x" {
		t.Errorf("after the sign-in: %q", p.head.Get("Location"))
	}
	p = b.asks("GET", "/clients/quill", nil).want(200)
	for _, word := range []string{"arne@ops.example", "You may read and change.", "Sign out", "Disable…"} {
		if !strings.Contains(p.body, word) {
			t.Errorf("the page does not say %q", word)
		}
	}
	if p = b.asks("GET", "/signin?return=/events", nil).want(303); p.head.Get("Location") != "/events" {
		t.Errorf("signed in already: %q", p.head.Get("Location"))
	}
	change := b.asks("GET", "/clients/quill/disable", nil).want(200)
	b.asks("POST", "/clients/quill/disable", url.Values{"csrf": {change.field("csrf")}, "reason": {"imitates us"}})
	change = b.asks("GET", "/clients/quill/disable", nil).want(200)
	form := url.Values{"csrf": {change.lastField("csrf")}, "reason": {"imitates us"}}
	b.asks("POST", "/clients/quill/disable", form, byHeader("somebody")).want(303)
	b.asks("POST", "/clients/quill/disable", form).want(303) // again: harmless
	events := o.asked("GET", "/v1/events?kind=client_disabled", "")["items"].([]any)
	if len(events) != 1 || events[0].(map[string]any)["actor"] != "operator:arne" {
		t.Errorf("journal: %v", events)
	}
	if events = o.asked("GET", "/v1/events?kind=operator_signed_in", "")["items"].([]any); len(events) != 1 || events[0].(map[string]any)["actor"] != "operator:arne" || events[0].(map[string]any)["detail"] != "password" {
		t.Errorf("journal of the sign-in: %v", events)
	}
}

func byHeader(name string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(operator.UserHeader, name) }
}

// lastField is the value of the last field of a name: that of the page's own form,
// behind the one to sign out.
func (p *seen) lastField(name string) (value string) {
	for n := range p.root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "input" && attribute(n, "name") == name {
			value = attribute(n, "value")
		}
	}
	return value
}

// Only a path of the console is gone on to.
func TestSignInLeadsNowhereElse(t *testing.T) {
	o, _, _ := withNamed(t)
	for _, bad := range []string{"//evil.example", "https://evil.example/", "/\\evil.example", "\\\\evil.example", "/clients\r\nX: y", "javascript:alert(1)", "/v1/people", "/metrics",
		"/signin", "/signout", "/%2F/evil.example/..", "/clients/\u202e", "clients", "/" + strings.Repeat("x", 3000), "//clients"} {
		if p := o.browser().signsIn("rita", bad).want(303); p.head.Get("Location") != "/" {
			t.Errorf("%.40q leads to %q", bad, p.head.Get("Location"))
		}
	}
	for _, good := range []string{"/", "/clients?q=a%2Fb", "/events?kind=restored&range=24h"} {
		if p := o.browser().signsIn("rita", good).want(303); p.head.Get("Location") != good {
			t.Errorf("%q leads to %q", good, p.head.Get("Location"))
		}
	}
}

// Nobody is told which of email and password was wrong; a form of another browser,
// or of another site, signs nobody in.
func TestWrongSignIn(t *testing.T) {
	o, _, _ := withNamed(t)
	b := o.browser()
	p := b.asks("GET", "/signin", nil).want(200)
	form := func(email, password string) url.Values {
		return url.Values{"csrf": {p.field("csrf")}, "email": {email}, "password": {password}}
	}
	said := map[string]bool{}
	for _, f := range []url.Values{form("rita@ops.example", "wrong"), form("nobody@ops.example", "the password of rita"), form("", ""), form("rita@ops.example", strings.Repeat("x", 2000))} {
		q := b.asks("POST", "/signin", f).want(422)
		at := strings.Index(q.body, `role="alert"`)
		said[q.body[at:at+120]] = true
		if strings.Contains(q.body, "the password of") {
			t.Error("the page repeats a password")
		}
	}
	if len(said) != 1 {
		t.Errorf("said: %v", said)
	}
	b.asks("POST", "/signin", form("RITA@ops.example", "the password of rita"), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }).want(403)
	o.browser().asks("POST", "/signin", form("rita@ops.example", "the password of rita")).want(422) // without the cookie
	b.asks("POST", "/signin", url.Values{"email": {"rita@ops.example"}, "password": {"the password of rita"}}).want(422)
	b.asks("POST", "/signin", form("RITA@ops.example", "the password of rita")).want(303)
	b.asks("PUT", "/signin", nil).want(405)
	b.asks("GET", "/signin/with/none", nil).want(404)
}

// After twenty wrong ones nobody gets in from there, nor by that name from elsewhere.
func TestWrongSignInsAreLimited(t *testing.T) {
	o, _, _ := withNamed(t)
	from := func(address string) func(*http.Request) {
		return func(r *http.Request) { r.RemoteAddr = address + ":40000" }
	}
	try := func(address, name, password string) *seen {
		b := o.browser()
		p := b.asks("GET", "/signin", nil)
		return b.asks("POST", "/signin", url.Values{"csrf": {p.field("csrf")}, "email": {name + "@ops.example"}, "password": {password}}, from(address))
	}
	for range 10 {
		try("203.0.113.9", "rita", "guess").want(422)
		try("198.51.100.9", "rita", "guess").want(422)
	}
	if p := try("192.0.2.9", "rita", "the password of rita").want(429); p.head.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	try("192.0.2.9", "arne", "the password of arne").want(303)
	for range 10 {
		try("203.0.113.9", "nobody", "guess").want(422)
	}
	try("203.0.113.9", "ingrid", "the password of ingrid").want(429)
	if got := o.visit("GET", "/clients", nil, from("203.0.113.9")); got.code != 429 { // the shared password counts with them
		t.Errorf("the shared password: %d", got.code)
	}
}

// A session that somebody planted is worth nothing: each sign-in has a value of its
// own, and what was there before is none.
func TestSessionFixation(t *testing.T) {
	o, _, _ := withNamed(t)
	victim := o.browser()
	planted := strings.Repeat("A", 43)
	victim.jar["operator_session"] = planted
	victim.asks("GET", "/clients", nil).want(303)
	victim.signsIn("ingrid", "/").want(303)
	if victim.jar["operator_session"] == planted {
		t.Fatal("the planted value is signed in")
	}
	thief := o.browser()
	thief.jar["operator_session"] = planted
	thief.asks("GET", "/clients", nil).want(303)
	for _, value := range []string{"", "x", victim.jar["operator_session"] + "x", victim.jar["operator_before"]} {
		thief.jar["operator_session"] = value
		thief.asks("GET", "/clients", nil).want(303)
	}
	before := victim.jar["operator_session"]
	victim.jar["operator_session"] = ""
	victim.signsIn("ingrid", "/").want(303)
	if victim.jar["operator_session"] == before {
		t.Error("two sign-ins have one value")
	}
}

// The form of one session is none of another, of another page, or of none.
func TestFormsAreBoundToTheSession(t *testing.T) {
	o, live, _ := withNamed(t)
	ingrid, arne := o.signedIn("ingrid"), o.signedIn("arne")
	path := "/approvals/" + live + "/revoke"
	tag := func(b *browser, path string) string { return b.asks("GET", path, nil).want(200).lastField("csrf") }
	shared := o.page(path).want(200).lastField("csrf")
	for name, csrf := range map[string]string{"none": "", "another's": tag(arne, path), "another page's": tag(ingrid, "/clients/quill/disable"), "the shared password's": shared, "to sign out": ingrid.asks("GET", "/", nil).field("csrf")} {
		ingrid.asks("POST", path, url.Values{"csrf": {csrf}, "reason": {"x"}}).want(403)
		if o.asked("GET", "/v1/approvals/"+live, "")["state"] != "live" {
			t.Fatalf("%s: revoked", name)
		}
	}
	ingrid.asks("POST", path, url.Values{"csrf": {tag(ingrid, path)}, "reason": {"x"}}, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }).want(403)
	csrf := tag(ingrid, path)
	ingrid.jar = map[string]string{} // signed out meanwhile
	if p := ingrid.asks("POST", path, url.Values{"csrf": {csrf}, "reason": {"x"}}).want(303); !strings.Contains(p.head.Get("Location"), "done=ended") {
		t.Errorf("leads to %q", p.head.Get("Location"))
	}
	if o.asked("GET", "/v1/approvals/"+live, "")["state"] != "live" {
		t.Error("revoked without a session")
	}
}

// A session (decision O7) ends by sign-out, on every node; when its operator is taken out of the
// configuration or gets another password or email; after an hour unused and after
// twelve; and rights count as they are at the request.
func TestSessionsEnd(t *testing.T) {
	o, _, set := withNamed(t)
	b := o.signedIn("ingrid")
	copied := &browser{o, map[string]string{"operator_session": b.jar["operator_session"]}, b.host}
	p := b.asks("GET", "/", nil).want(200)
	b.asks("POST", "/signout", url.Values{"csrf": {"x"}}).want(403)
	if p = b.asks("POST", "/signout", url.Values{"csrf": {p.field("csrf")}}).want(303); p.head.Get("Location") != "/signin?done=out" || b.jar["operator_session"] != "" {
		t.Errorf("sign-out: %v %v", p.head, b.jar)
	}
	copied.asks("GET", "/", nil).want(303)
	for what, change := range map[string]func(*operator.Named){
		"removed":          func(n *operator.Named) { n.Name = "another" },
		"another password": func(n *operator.Named) { n.Hash = "another" },
		"another email":    func(n *operator.Named) { n.Email = "another@ops.example" },
	} {
		set(namedOperators())
		b := o.signedIn("ingrid")
		b.asks("GET", "/", nil).want(200)
		now := namedOperators()
		change(&now[2])
		if set(now); b.asks("GET", "/", nil).code != 303 {
			t.Errorf("%s: still signed in", what)
		}
		if set(namedOperators()); b.asks("GET", "/", nil).code != 303 {
			t.Errorf("%s, and as before: signed in again", what)
		}
	}
	set(namedOperators())
	b = o.signedIn("ingrid")
	b.asks("GET", "/clients/quill/disable", nil).want(200)
	lower := namedOperators()
	lower[2].Rights = operator.Read
	set(lower)
	b.asks("GET", "/clients/quill/disable", nil).want(403)
	b.asks("GET", "/clients/quill", nil).want(200)
	o.Pass(time.Hour)
	b.asks("GET", "/", nil).want(303)
}

// The cookie is for scripts of no page, and of https where browsers ask by that.
func TestOperatorCookie(t *testing.T) {
	o, _, _ := withNamed(t)
	o.api.ConsoleURL = func() string { return "https://ops.example" }
	b := o.browser()
	for host, want := range map[string]string{
		"ops.example":     "__Host-operator_session=; Path=/; HttpOnly; Secure; SameSite=Lax",
		"OPS.example:443": "__Host-operator_session=; Path=/; HttpOnly; Secure; SameSite=Lax",
		"127.0.0.1:8081":  "operator_session=; Path=/; HttpOnly; SameSite=Lax",
	} {
		b.host = host
		p := b.signsIn("rita", "/").want(303)
		at := slices.IndexFunc(p.head["Set-Cookie"], func(c string) bool { return strings.Contains(c, "session") })
		got := p.head["Set-Cookie"][at]
		name, rest, _ := strings.Cut(got, "=")
		value, rest, _ := strings.Cut(rest, ";")
		if len(value) != 43 || name+"=;"+rest != want {
			t.Errorf("%s: %q", host, got)
		}
		b.jar = map[string]string{}
	}
}

// The shared password goes on to open pages, with all rights, where it is sent; a
// wrong one is asked for again.
func TestSharedPasswordBesideNames(t *testing.T) {
	o, _, _ := withNamed(t)
	o.page("/clients/quill/disable").want(200)
	p := o.visit("GET", "/clients", nil, func(r *http.Request) { r.SetBasicAuth(operator.User, "wrong") }).want(401)
	if p.head.Get("WWW-Authenticate") == "" {
		t.Error("no challenge")
	}
	o.api.Password = func() string { return "" }
	o.visit("GET", "/clients", nil).want(404) // there is none any more
	o.browser().asks("GET", "/v1/people", nil).want(404)
	o.signedIn("rita").asks("GET", "/clients", nil).want(200)
}

// The name of a named operator is not taken from the header, which proves nothing.
func TestHeaderOfANamedOperator(t *testing.T) {
	o, _, _ := withNamed(t)
	for _, said := range []string{"arne", "ARNE", "root"} {
		r := httptest.NewRequest("POST", "http://127.0.0.1:8081/v1/clients/quill/enable", strings.NewReader(`{}`))
		r.SetBasicAuth(operator.User, password)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(operator.UserHeader, said)
		c := o.api.NewCall(httptest.NewRecorder(), r)
		if want := map[bool]string{true: "operator:root", false: "operator"}[said == "root"]; c.Actor != want {
			t.Errorf("%s: %s, want %s", said, c.Actor, want)
		}
	}
}
