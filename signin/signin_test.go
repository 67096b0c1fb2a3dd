package signin_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// The whole way without script (case B-05).
func TestSignInOnTheWayToConsent(t *testing.T) {
	for _, at := range []string{pagetest.Base, "http://127.0.0.1:8080"} {
		s := newSite(t)
		s.At = at
		b := s.Browser()
		p := b.Get(pagetest.Authorize("state", "a b&c=d")).Follow().Want(200).
			Says("Sign in – Svalinn", `To decide about an app that calls itself “Quill Assistant” (connect.quill.example). Signing in gives it nothing yet.`,
				"Check that the address bar shows "+at+" before you type your password.")
		consent := pagetest.SignIn(p, "ADA@nordlys.example", pagetest.Password).Follow().Want(200).Says("An app wants to use your Svalinn account", "Signed in as Ada Lindqvist (ada@nordlys.example)")
		if q := consent.Approve().Sent(pagetest.Callback); q.Get("state") != "a b&c=d" || q.Get("iss") != at {
			t.Errorf("sent %v", q)
		}
		if e := s.Event("signin_succeeded"); e.Person != "ada" {
			t.Errorf("event %+v", e)
		}
	}
}

// What stands in the place of a sealed way back may be a token that somebody put there: no
// page repeats it.
func TestNoPageRepeatsWhatItDidNotSeal(t *testing.T) {
	s := newSite(t)
	const token = "svo_JrHAoNvi2C5E9h0SxW2JGcCXXLdefNwPQ6rku96ph4wiF4N2LD3ZrTi1MWP93"
	unsaid := func(p *pagetest.Shown) {
		t.Helper()
		if strings.Contains(p.Body, token) || strings.Contains(p.Header.Get("Location"), token) {
			t.Errorf("%d repeats it: %s", p.Status, p.Body)
		}
	}
	p := s.Browser().Get("/signin?return=" + token).Want(200)
	unsaid(p)
	unsaid(p.Press("/signin", "return", token, "email", "ada@nordlys.example", "password", "wrong").Want(422))
	ada := s.SignedIn("ada")
	unsaid(ada.Get("/account/sign-in?return=" + token).Want(200))
	p = ada.Get("/signin/again?return=" + token).Want(200)
	unsaid(p)
	unsaid(p.Press("/signin/again", "return", token, "password", "wrong").Want(422))
}

// Decision S1.
func TestSessionCookie(t *testing.T) {
	for at, want := range map[string]string{
		pagetest.Base:           "__Host-session=; Path=/; HttpOnly; Secure; SameSite=Lax",
		"http://127.0.0.1:8080": "session=; Path=/; HttpOnly; SameSite=Lax",
	} {
		s := newSite(t)
		s.At = at
		b := s.Browser()
		seen := map[string]bool{}
		for range 2 {
			b.Cookies = map[string]string{}
			p := pagetest.SignIn(b.Get("/signin"), "ada@nordlys.example", pagetest.Password).Want(303)
			line := p.Header.Values("Set-Cookie")[0]
			value := b.Cookies[b.CookieName("session")]
			if got := strings.Replace(line, value, "", 1); got != want {
				t.Errorf("cookie %q, want %q", got, want)
			}
			if len(value) != 43 || seen[value] {
				t.Errorf("session value %q", value)
			}
			seen[value] = true
			before := b.Cookies[b.CookieName("before")]
			b.Get("/").Press("/signout").Want(303)
			if after := b.Cookies[b.CookieName("before")]; before == "" || after == "" || after == before || b.Cookies[b.CookieName("session")] != "" {
				t.Error("the cookies from before signing out stay")
			}
		}
		// Over https the cookie that any host of the domain could have set counts for nothing.
		value := pagetest.SignIn(b.Get("/signin"), "ada@nordlys.example", pagetest.Password).Want(303).B.Cookies[b.CookieName("session")]
		b.Cookies = map[string]string{"session": value, "before": value}
		if got := b.Get("/").Status == 200; got != strings.HasPrefix(at, "http:") {
			t.Errorf("%s: signed in by the unprefixed cookie: %v", at, got)
		}
	}
}

// Somebody else's session value, planted before, is worth nothing after.
func TestSessionIsNew(t *testing.T) {
	s := newSite(t)
	b := s.Browser()
	b.Cookies["__Host-session"] = page.NewCookie()
	b.Cookies["__Host-before"] = page.NewCookie()
	planted := b.Cookies["__Host-session"]
	pagetest.SignIn(b.Get("/signin"), "ada@nordlys.example", pagetest.Password).Want(303)
	if b.Cookies["__Host-session"] == planted {
		t.Error("the planted value became the session")
	}
}

// Unknown person, wrong password, deactivated account: alike, with equal work
// (decision L4, case S-07).
func TestSignInRefused(t *testing.T) {
	s := newSite(t)
	s.Do(s.Store.SetActive(context.Background(), "tor", false, store.Act{Actor: "operator"}))
	s.Do(s.Store.AddDirectory(context.Background(), store.Directory{People: []store.DirectoryPerson{
		{Person: org.Person{ID: "nopass", Email: "nopass@nordlys.example", Name: "No", Active: true}},
		{Person: org.Person{ID: "broken", Email: "broken@nordlys.example", Name: "Br", Active: true}, PasswordHash: "$argon2id$v=19$x"},
	}}, store.Act{Actor: "operator"}))
	var first string
	for i, tt := range [][2]string{
		{"ada@nordlys.example", "wrong"}, {"ada@nordlys.example", ""}, {"ada@nordlys.example", pagetest.Password + "\x00"}, {"nobody@nordlys.example", pagetest.Password},
		{"", ""}, {"tor@nordlys.example", pagetest.Password}, {"nopass@nordlys.example", ""}, {"broken@nordlys.example", pagetest.Password},
		{"ada@nordlys.example\x00", pagetest.Password}, {"\xff", pagetest.Password}, {strings.Repeat("a", 1000), pagetest.Password},
	} {
		p := pagetest.SignIn(s.Browser().Get("/signin"), tt[0], tt[1]).Want(422).Says("Error: sign in – Svalinn", "The email or the password is not right.")
		if text := p.Text(); i == 0 {
			first = text
		} else if text != first {
			t.Errorf("%q is told from the others: %s", tt[0], text)
		}
		if got := pagetest.Attr(pagetest.Input(p, "email"), "value"); got != tt[0] && !(strings.Contains(tt[0], "\x00") || !utf8.ValidString(tt[0])) {
			t.Errorf("email kept: %q, want %q", got, tt[0])
		}
		if pagetest.Has(pagetest.Input(p, "password"), "value") || pagetest.Attr(pagetest.Input(p, "password"), "aria-invalid") != "true" || pagetest.Attr(pagetest.Input(p, "password"), "aria-describedby") != "err" {
			t.Errorf("password field %v", pagetest.Input(p, "password").Attr)
		}
		if strings.Contains(p.Body, pagetest.Password) {
			t.Error("the password is in the page")
		}
		for name := range p.B.Cookies {
			if strings.HasSuffix(name, "session") {
				t.Error("a session without a password")
			}
		}
	}
	if e := s.Event("signin_failed"); e.Address != s.From {
		t.Errorf("event %+v", e)
	}
	if log := s.Logged.String(); strings.Contains(log, pagetest.Password) || strings.Contains(log, "@") {
		t.Errorf("the log has a password or an email: %s", log)
	}
}

// ux 4: a stale form token brings the page again; signed in meanwhile in
// another tab is "continue".
func TestSignInForms(t *testing.T) {
	s := newSite(t)
	b := s.Browser()
	page := b.Get(pagetest.Authorize()).Follow()
	b.Cookies = map[string]string{}
	again := pagetest.SignIn(page, "ada@nordlys.example", pagetest.Password).Want(422).Says("Please sign in again.")
	if got := pagetest.Attr(pagetest.Input(again, "email"), "value"); got != "ada@nordlys.example" {
		t.Errorf("email kept: %q", got)
	}
	consent := pagetest.SignIn(again, "ada@nordlys.example", pagetest.Password).Follow().Says("An app wants")
	pagetest.SignIn(page, "tor@nordlys.example", "whatever").Follow().Want(200).Says("Signed in as Ada Lindqvist")
	b.Get("/signin?" + url.Values{"return": {pagetest.Input(page, "return").Attr[2].Val}}.Encode()).Follow().Says("An app wants")
	consent.Cancel().Sent(pagetest.Callback)

	for _, header := range []string{"cross-site", "same-site"} {
		b := s.Browser()
		page := b.Get("/signin")
		b.Header.Set("Sec-Fetch-Site", header)
		pagetest.SignIn(page, "ada@nordlys.example", pagetest.Password).Want(403)
	}
	b = s.Browser()
	page = b.Get("/signin")
	page.Press("/signin", "email", "ada@nordlys.example", "password", pagetest.Password, "x", strings.Repeat("x", 64<<10)).Want(413)
	b.Post("/signin", pagetest.Many(page.Fill("/signin"), 100)).Want(413)
}

// Only what this server sealed is followed: there is no open redirect.
func TestReturn(t *testing.T) {
	s := newSite(t)
	for _, to := range []string{
		"", "https://evil.example/", "//evil.example", "/organizations/nordlys/leave", s.Ring.SealPage("consent page", []byte("https://evil.example")),
		s.Ring.SealPage("other", []byte("/x")), "1.AAAA", s.SealPath("/") + "A",
	} {
		p := s.Browser().Get("/signin?" + url.Values{"return": {to}}.Encode()).Want(200)
		if got := pagetest.SignIn(p, "ada@nordlys.example", pagetest.Password).Want(303).Header.Get("Location"); got != "/" {
			t.Errorf("return %q leads to %q", to, got)
		}
		if got := s.SignedIn("ada").Get("/signin?" + url.Values{"return": {to}}.Encode()).Want(303).Header.Get("Location"); got != "/" {
			t.Errorf("return %q of somebody signed in leads to %q", to, got)
		}
	}
	p := s.Browser().Get("/organizations/nordlys/profile/api?revoked=x").Follow().Want(200)
	if strings.Contains(p.Text(), "To decide about an app") {
		t.Error("an app out of nothing")
	}
	pagetest.SignIn(p, "ada@nordlys.example", pagetest.Password).Follow().Want(200).Says("Connected apps")
}

// ux 5.1 row 17: another account, and the pending request comes along.
func TestUseAnotherAccount(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	old := ada.Cookies["__Host-session"]
	page := ada.Get(pagetest.Authorize("state", "mine"))
	signinPage := page.Press("/signout").Follow().Want(200).Says(`an app that calls itself “Quill Assistant”`)
	if _, err := s.Store.Session(context.Background(), old); err == nil {
		t.Error("the session goes on")
	}
	consent := pagetest.SignIn(signinPage, "tor@nordlys.example", pagetest.Password).Follow().Want(200).Says("Signed in as Tor Haugen")
	if q := consent.Approve().Sent(pagetest.Callback); q.Get("state") != "mine" {
		t.Errorf("sent %v", q)
	}
	s.Nothing("ada")
}

func TestSignOut(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	home := ada.Get("/").Want(200)
	form := home.Fill("/signout")
	for _, bad := range []url.Values{{}, {"csrf": {"1.x"}}, {"csrf": {s.Ring.FormToken("other")}}} {
		ada.Post("/signout", bad).Want(403)
	}
	ada.Header.Set("Sec-Fetch-Site", "cross-site")
	ada.Post("/signout", form).Want(403)
	ada.Header = http.Header{}
	ada.Get("/").Want(200)
	if got := ada.Post("/signout", form).Want(303).Header.Get("Location"); got != "/signin" {
		t.Errorf("leads to %q", got)
	}
	if _, stays := ada.Cookies["__Host-session"]; stays || len(ada.Cookies) != 1 || ada.Cookies["__Host-before"] == "" {
		t.Errorf("cookies %v, want another to sign in with and no more", ada.Cookies)
	}
	ada.Post("/signout", form).Want(303) // again
}

// Decision L4: own limits, per account and per address, of failures alone.
func TestSignInLimits(t *testing.T) {
	s := newSite(t)
	b := s.Browser()
	page := b.Get("/signin")
	wrong := func(email string, status int) *pagetest.Shown {
		t.Helper()
		page := s.Browser().Get("/signin")
		return pagetest.SignIn(page, email, "wrong").Want(status)
	}
	for range 3 { // successes cost nothing
		pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Want(303)
	}
	for range 10 {
		wrong("ada@nordlys.example", 422)
	}
	for _, spelling := range []string{"ada@nordlys.example", " ADA@Nordlys.example"} {
		p := wrong(spelling, 429).Says("Too many attempts. Try again in 15 minutes.", "Sign in")
		if p.Header.Get("Retry-After") != "900" || pagetest.Attr(pagetest.Input(p, "email"), "value") != spelling {
			t.Errorf("Retry-After %q, email %q", p.Header.Get("Retry-After"), pagetest.Attr(pagetest.Input(p, "email"), "value"))
		}
	}
	pagetest.SignIn(page, "ada@nordlys.example", pagetest.Password).Want(429) // the right one too
	if e := s.Event("signin_throttled"); e.Address != s.From {
		t.Errorf("event %+v", e)
	}
	if events, _, _ := s.Store.Events(context.Background(), store.EventFilter{Kind: "signin_throttled"}); len(events) != 1 {
		t.Errorf("%d events, want one per address and window", len(events))
	}
	for range 10 { // nobody can tell that an account does not exist
		wrong("nobody@nordlys.example", 422)
	}
	wrong("nobody@nordlys.example", 429)
	pagetest.SignIn(page, "tor@nordlys.example", pagetest.Password).Want(303) // others go on

	s.From = "2001:db8:1:1::1" // one household
	pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", "wrong").Want(422)
	s.Pass(15 * time.Minute)
	s.From = "203.0.113.9"
	pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Want(303)
}
