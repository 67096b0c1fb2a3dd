package consent

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

func signin(p *shown, email, password string) *shown {
	p.t.Helper()
	return p.press("/signin", "email", email, "password", password)
}

// The whole way without script (case B-05).
func TestSignInOnTheWayToConsent(t *testing.T) {
	for _, at := range []string{base, "http://127.0.0.1:8080"} {
		s := newSite(t)
		s.base = at
		b := s.browser()
		p := b.get(authorize("state", "a b&c=d")).follow().want(200).
			says("Sign in – Svalinn", `To decide about an app that calls itself “Quill Assistant” (connect.quill.example). Signing in gives it nothing yet.`,
				"Check that the address bar shows "+at+" before you type your password.")
		consent := signin(p, "ADA@nordlys.example", password).follow().want(200).says("An app wants to use your Svalinn account", "Signed in as Ada Lindqvist (ada@nordlys.example)")
		if q := consent.approve().sent(callback); q.Get("state") != "a b&c=d" || q.Get("iss") != at {
			t.Errorf("sent %v", q)
		}
		if e := s.event("signin_succeeded"); e.Person != "ada" {
			t.Errorf("event %+v", e)
		}
	}
}

// Decision S1.
func TestSessionCookie(t *testing.T) {
	for at, want := range map[string]string{
		base:                    "__Host-session=; Path=/; HttpOnly; Secure; SameSite=Lax",
		"http://127.0.0.1:8080": "session=; Path=/; HttpOnly; SameSite=Lax",
	} {
		s := newSite(t)
		s.base = at
		b := s.browser()
		seen := map[string]bool{}
		for range 2 {
			b.cookies = map[string]string{}
			p := signin(b.get("/signin"), "ada@nordlys.example", password).want(303)
			line := p.header.Values("Set-Cookie")[0]
			value := b.cookies[b.cookieName("session")]
			if got := strings.Replace(line, value, "", 1); got != want {
				t.Errorf("cookie %q, want %q", got, want)
			}
			if len(value) != 43 || seen[value] {
				t.Errorf("session value %q", value)
			}
			seen[value] = true
			before := b.cookies[b.cookieName("before")]
			b.get("/").press("/signout").want(303)
			if after := b.cookies[b.cookieName("before")]; before == "" || after == "" || after == before || b.cookies[b.cookieName("session")] != "" {
				t.Error("the cookies from before signing out stay")
			}
		}
		// Over https the cookie that any host of the domain could have set counts for nothing.
		value := signin(b.get("/signin"), "ada@nordlys.example", password).want(303).b.cookies[b.cookieName("session")]
		b.cookies = map[string]string{"session": value, "before": value}
		if got := b.get("/").status == 200; got != strings.HasPrefix(at, "http:") {
			t.Errorf("%s: signed in by the unprefixed cookie: %v", at, got)
		}
	}
}

// Somebody else's session value, planted before, is worth nothing after.
func TestSessionIsNew(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	b.cookies["__Host-session"] = newCookie()
	b.cookies["__Host-before"] = newCookie()
	planted := b.cookies["__Host-session"]
	signin(b.get("/signin"), "ada@nordlys.example", password).want(303)
	if b.cookies["__Host-session"] == planted {
		t.Error("the planted value became the session")
	}
}

// Unknown person, wrong password, deactivated account: alike, with equal work
// (decision L4, case S-07).
func TestSignInRefused(t *testing.T) {
	s := newSite(t)
	s.do(s.Store.SetActive(context.Background(), "tor", false, store.Act{Actor: "operator"}))
	s.do(s.Store.AddDirectory(context.Background(), store.Directory{People: []store.DirectoryPerson{
		{Person: org.Person{ID: "nopass", Email: "nopass@nordlys.example", Name: "No", Active: true}},
		{Person: org.Person{ID: "broken", Email: "broken@nordlys.example", Name: "Br", Active: true}, PasswordHash: "$argon2id$v=19$x"},
	}}, store.Act{Actor: "operator"}))
	var first string
	for i, tt := range [][2]string{
		{"ada@nordlys.example", "wrong"}, {"ada@nordlys.example", ""}, {"ada@nordlys.example", password + "\x00"}, {"nobody@nordlys.example", password},
		{"", ""}, {"tor@nordlys.example", password}, {"nopass@nordlys.example", ""}, {"broken@nordlys.example", password},
		{"ada@nordlys.example\x00", password}, {"\xff", password}, {strings.Repeat("a", 1000), password},
	} {
		p := signin(s.browser().get("/signin"), tt[0], tt[1]).want(422).says("Error: sign in – Svalinn", "The email or the password is not right.")
		if text := p.text(); i == 0 {
			first = text
		} else if text != first {
			t.Errorf("%q is told from the others: %s", tt[0], text)
		}
		if got := attr(input(p, "email"), "value"); got != tt[0] && !(strings.Contains(tt[0], "\x00") || !utf8.ValidString(tt[0])) {
			t.Errorf("email kept: %q, want %q", got, tt[0])
		}
		if has(input(p, "password"), "value") || attr(input(p, "password"), "aria-invalid") != "true" || attr(input(p, "password"), "aria-describedby") != "err" {
			t.Errorf("password field %v", input(p, "password").Attr)
		}
		if strings.Contains(p.body, password) {
			t.Error("the password is in the page")
		}
		for name := range p.b.cookies {
			if strings.HasSuffix(name, "session") {
				t.Error("a session without a password")
			}
		}
	}
	if e := s.event("signin_failed"); e.Address != s.address {
		t.Errorf("event %+v", e)
	}
	if log := s.log.String(); strings.Contains(log, password) || strings.Contains(log, "@") {
		t.Errorf("the log has a password or an email: %s", log)
	}
}

func input(p *shown, name string) *html.Node {
	p.t.Helper()
	for _, n := range p.all(atom.Input) {
		if attr(n, "name") == name {
			return n
		}
	}
	p.t.Fatalf("no field %s: %s", name, p.text())
	return nil
}

// ux 4: a stale form token brings the page again; signed in meanwhile in
// another tab is "continue".
func TestSignInForms(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	page := b.get(authorize()).follow()
	b.cookies = map[string]string{}
	again := signin(page, "ada@nordlys.example", password).want(422).says("Please sign in again.")
	if got := attr(input(again, "email"), "value"); got != "ada@nordlys.example" {
		t.Errorf("email kept: %q", got)
	}
	consent := signin(again, "ada@nordlys.example", password).follow().says("An app wants")
	signin(page, "tor@nordlys.example", "whatever").follow().want(200).says("Signed in as Ada Lindqvist")
	b.get("/signin?" + url.Values{"return": {input(page, "return").Attr[2].Val}}.Encode()).follow().says("An app wants")
	consent.cancel().sent(callback)

	for _, header := range []string{"cross-site", "same-site"} {
		b := s.browser()
		page := b.get("/signin")
		b.header.Set("Sec-Fetch-Site", header)
		signin(page, "ada@nordlys.example", password).want(403)
	}
	b = s.browser()
	page = b.get("/signin")
	page.press("/signin", "email", "ada@nordlys.example", "password", password, "x", strings.Repeat("x", 64<<10)).want(413)
	b.post("/signin", many(page.fill("/signin"), 100)).want(413)
}

// Only what this server sealed is followed: there is no open redirect.
func TestReturn(t *testing.T) {
	s := newSite(t)
	for _, to := range []string{
		"", "https://evil.example/", "//evil.example", "/organizations/nordlys/leave", s.Ring.SealPage(sealedPage, []byte("https://evil.example")),
		s.Ring.SealPage("other", []byte("/x")), "1.AAAA", s.Ring.SealPage(sealedReturn, []byte("/")) + "A",
	} {
		p := s.browser().get("/signin?" + url.Values{"return": {to}}.Encode()).want(200)
		if got := signin(p, "ada@nordlys.example", password).want(303).header.Get("Location"); got != "/" {
			t.Errorf("return %q leads to %q", to, got)
		}
		if got := s.signedIn("ada").get("/signin?" + url.Values{"return": {to}}.Encode()).want(303).header.Get("Location"); got != "/" {
			t.Errorf("return %q of somebody signed in leads to %q", to, got)
		}
	}
	p := s.browser().get("/organizations/nordlys/profile/api?revoked=x").follow().want(200)
	if strings.Contains(p.text(), "To decide about an app") {
		t.Error("an app out of nothing")
	}
	signin(p, "ada@nordlys.example", password).follow().want(200).says("Connected apps")
}

// ux 5.1 row 17: another account, and the pending request comes along.
func TestUseAnotherAccount(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	old := ada.cookies["__Host-session"]
	page := ada.get(authorize("state", "mine"))
	signinPage := page.press("/signout").follow().want(200).says(`an app that calls itself “Quill Assistant”`)
	if _, err := s.Store.Session(context.Background(), old); err == nil {
		t.Error("the session goes on")
	}
	consent := signin(signinPage, "tor@nordlys.example", password).follow().want(200).says("Signed in as Tor Haugen")
	if q := consent.approve().sent(callback); q.Get("state") != "mine" {
		t.Errorf("sent %v", q)
	}
	s.nothing("ada")
}

func TestSignOut(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	home := ada.get("/").want(200)
	form := home.fill("/signout")
	for _, bad := range []url.Values{{}, {"csrf": {"1.x"}}, {"csrf": {s.Ring.FormToken("other")}}} {
		ada.post("/signout", bad).want(403)
	}
	ada.header.Set("Sec-Fetch-Site", "cross-site")
	ada.post("/signout", form).want(403)
	ada.header = http.Header{}
	ada.get("/").want(200)
	if got := ada.post("/signout", form).want(303).header.Get("Location"); got != "/signin" {
		t.Errorf("leads to %q", got)
	}
	if _, stays := ada.cookies["__Host-session"]; stays || len(ada.cookies) != 1 || ada.cookies["__Host-before"] == "" {
		t.Errorf("cookies %v, want another to sign in with and no more", ada.cookies)
	}
	ada.post("/signout", form).want(303) // again
}

// Decision L4: own limits, per account and per address, of failures alone.
func TestSignInLimits(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	page := b.get("/signin")
	wrong := func(email string, status int) *shown {
		t.Helper()
		page := s.browser().get("/signin")
		return signin(page, email, "wrong").want(status)
	}
	for range 3 { // successes cost nothing
		signin(s.browser().get("/signin"), "ada@nordlys.example", password).want(303)
	}
	for range 10 {
		wrong("ada@nordlys.example", 422)
	}
	for _, spelling := range []string{"ada@nordlys.example", " ADA@Nordlys.example"} {
		p := wrong(spelling, 429).says("Too many attempts. Try again in 15 minutes.", "Sign in")
		if p.header.Get("Retry-After") != "900" || attr(input(p, "email"), "value") != spelling {
			t.Errorf("Retry-After %q, email %q", p.header.Get("Retry-After"), attr(input(p, "email"), "value"))
		}
	}
	signin(page, "ada@nordlys.example", password).want(429) // the right one too
	if e := s.event("signin_throttled"); e.Address != s.address {
		t.Errorf("event %+v", e)
	}
	if events, _, _ := s.Store.Events(context.Background(), store.EventFilter{Kind: "signin_throttled"}); len(events) != 1 {
		t.Errorf("%d events, want one per address and window", len(events))
	}
	for range 10 { // nobody can tell that an account does not exist
		wrong("nobody@nordlys.example", 422)
	}
	wrong("nobody@nordlys.example", 429)
	signin(page, "tor@nordlys.example", password).want(303) // others go on

	s.address = "2001:db8:1:1::1" // one household
	signin(s.browser().get("/signin"), "ada@nordlys.example", "wrong").want(422)
	s.pass(15 * time.Minute)
	s.address = "203.0.113.9"
	signin(s.browser().get("/signin"), "ada@nordlys.example", password).want(303)
}

func TestSignInLimitOfAnAddress(t *testing.T) {
	s := newSite(t)
	f := newFailures(nil, "signin", signInAccount)
	addr := s.Address(nil)
	for i := range signInAddress.N {
		if f.wait("p"+strconv.Itoa(i), addr, s.Store.Now()) > 0 {
			t.Fatalf("throttled after %d", i)
		}
		f.add("p"+strconv.Itoa(i), addr, s.Store.Now())
	}
	if got := f.wait("another", addr, s.Store.Now()); got != signInAddress.Window {
		t.Errorf("wait %v, want %v", got, signInAddress.Window)
	}
	s.address = "203.0.113.10"
	if got := f.wait("another", s.Address(nil), s.Store.Now()); got != 0 {
		t.Errorf("another address waits %v", got)
	}
}

func TestSignInLimitOfAnAccount(t *testing.T) {
	s := newSite(t)
	f := newFailures(nil, "signin", signInAccount)
	for i := range signInAccount.N {
		s.address = "203.0." + strconv.Itoa(i) + ".1"
		if f.wait("ada", s.Address(nil), s.Store.Now()) > 0 {
			t.Fatalf("throttled after %d", i)
		}
		f.add("ada", s.Address(nil), s.Store.Now())
	}
	s.address = "198.51.100.1"
	if got := f.wait("ada", s.Address(nil), s.Store.Now()); got != signInAccount.Window {
		t.Errorf("wait %v, want %v", got, signInAccount.Window)
	}
	if got := f.wait("tor", s.Address(nil), s.Store.Now()); got != 0 {
		t.Errorf("another account waits %v", got)
	}
	if got := limit.Key(s.Address(nil)).String(); got != "198.51.100.1/32" {
		t.Errorf("key %q", got)
	}
}

// As many as may wait are waiting already.
func TestSignInBusy(t *testing.T) {
	s := newSite(t)
	s.hasher.inside.Store(hashing + waiting)
	p := signin(s.browser().get("/signin"), "ada@nordlys.example", password).want(429)
	if p.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", p.header.Get("Retry-After"))
	}
}

// Attempts at once fail no more often than attempts in turn.
func TestSignInLimitHoldsAtOnce(t *testing.T) {
	s := newSite(t)
	f := newFailures(nil, "signin", signInAccount)
	var ends []func()
	for i := range signInPair.N {
		end, wait := f.begin("ada", s.Address(nil), s.Store.Now())
		if wait != 0 {
			t.Fatalf("attempt %d waits %v", i+1, wait)
		}
		ends = append(ends, end)
	}
	if _, wait := f.begin("ada", s.Address(nil), s.Store.Now()); wait != time.Second {
		t.Errorf("with all under way the wait is %v, want a second", wait)
	}
	if end, wait := f.begin("tor", s.Address(nil), s.Store.Now()); wait != 0 {
		t.Errorf("another account waits %v", wait)
	} else {
		end()
	}
	for _, end := range ends { // all were right: nothing is counted
		end()
	}
	if len(f.tried) != 0 {
		t.Errorf("still under way: %v", f.tried)
	}
	end, wait := f.begin("ada", s.Address(nil), s.Store.Now())
	if wait != 0 {
		t.Fatalf("wait %v after ten that were right", wait)
	}
	end()

	statuses := make(chan int)
	pages := make([]*shown, 30)
	for i := range pages {
		pages[i] = s.browser().get("/signin")
	}
	for _, page := range pages {
		go func() { statuses <- signin(page, "ada@nordlys.example", "wrong").status }()
	}
	count := map[int]int{}
	for range pages {
		count[<-statuses]++
	}
	if count[422] != signInPair.N || count[429] != len(pages)-signInPair.N {
		t.Errorf("answers %v, want %d that fail", count, signInPair.N)
	}
}
