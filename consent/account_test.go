package consent

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/store"
)

const newWord = "correct horse battery"

func passwords(current, next, again string) []string {
	return []string{"current", current, "new", next, "again", again}
}

// opens reports whether a password is the person's.
func (s *site) opens(email, password string) bool {
	s.t.Helper()
	p := signin(s.browser().get("/signin"), email, password)
	return p.status == 303
}

// Case A-10: browser sessions end but this one, which goes on under another
// value; approvals stay.
func TestA10ChangePassword(t *testing.T) {
	s := newSite(t)
	ada, other := s.signedIn("ada"), s.signedIn("ada")
	id := ada.connect()
	consent := ada.get(authorize())
	before := ada.cookies["__Host-session"]
	page := ada.get("/account").want(200).says("Your account – Svalinn", "Password", "Where you are signed in")
	page.press("/account/password", passwords(password, newWord, newWord)...).follow().want(200).
		says("Your password is changed. You were signed out everywhere else.")
	if ada.cookies["__Host-session"] == before {
		t.Error("the session goes on under the same value")
	}
	if other.get("/account").status != 303 {
		t.Error("another session goes on")
	}
	ada.cookies["__Host-session"], before = before, ada.cookies["__Host-session"]
	if ada.get("/account").status != 303 {
		t.Error("the old value goes on")
	}
	ada.cookies["__Host-session"] = before
	if !s.lives(id) {
		t.Error("the approval has ended")
	}
	consent.approve().want(403) // of the old session's page: it asks again
	if s.opens("ada@nordlys.example", password) || !s.opens("ada@nordlys.example", newWord) {
		t.Error("the password is not the new one")
	}
	if e := s.event("directory_changed"); e.Person != "ada" || e.Actor != "person:ada" || e.Detail != "password changed" {
		t.Errorf("event %+v", e)
	}
}

func TestPasswordFaults(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	page := ada.get("/account")
	for name, c := range map[string]struct {
		fields      []string
		field, says string
	}{
		"wrong":         {passwords("not it, not it", newWord, newWord), "current", "The current password is not right."},
		"none":          {passwords("", newWord, newWord), "current", "The current password is not right."},
		"short":         {passwords(password, "elevenchars", "elevenchars"), "new", "Use at least 12 characters."},
		"empty":         {passwords(password, "", ""), "new", "Use at least 12 characters."},
		"long":          {passwords(password, strings.Repeat("é", 201), strings.Repeat("é", 201)), "new", "at most 200 characters"},
		"no text":       {passwords(password, "twelve chars\xff", "twelve chars\xff"), "new", "a character that is none"},
		"NUL":           {passwords(password, "twelve chars\x00", "twelve chars\x00"), "new", "a character that is none"},
		"the email":     {passwords(password, "Ada@Nordlys.example", "Ada@Nordlys.example"), "new", "too easy to guess"},
		"the name":      {passwords(password, "ada lindqvist", "ada lindqvist"), "new", "too easy to guess"},
		"one character": {passwords(password, strings.Repeat("ø", 12), strings.Repeat("ø", 12)), "new", "too easy to guess"},
		"two":           {passwords(password, newWord, newWord+"!"), "again", "The two new passwords are not the same."},
		"the same":      {passwords(password, password, password), "new", "not the one you have now"},
	} {
		p := page.press("/account/password", c.fields...).want(422).says("Error: your account", c.says)
		for _, n := range p.all(atom.Input) {
			if invalid := attr(n, "aria-invalid") == "true"; invalid != (attr(n, "name") == c.field) {
				t.Errorf("%s: %s is marked %v", name, attr(n, "name"), invalid)
			}
			if attr(n, "type") == "password" && attr(n, "value") != "" {
				t.Errorf("%s: a password is in the page", name)
			}
		}
	}
	if !s.opens("ada@nordlys.example", password) {
		t.Error("the password has changed")
	}
	for range signInPair.N {
		page.press("/account/password", passwords("not it", newWord, newWord)...)
	}
	p := page.press("/account/password", passwords(password, newWord, newWord)...).want(429).says("Too many attempts. Try again in 15 minutes.")
	if p.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	same := func() bool {
		_, stored, err := s.Store.Password(context.Background(), "ada@nordlys.example")
		return err == nil && stored == passwordHash()
	}
	if !same() {
		t.Error("the password has changed")
	}
	s.hostileOwn("ada", "/account/password", url.Values{"current": {password}, "new": {newWord}, "again": {newWord}}, same)
	if strings.Contains(s.log.String(), newWord) {
		t.Error("a password is in the log")
	}
}

func TestSessionsOfTheAccount(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	s.pass(time.Minute)
	browser, third, tor := s.signedIn("ada"), s.signedIn("ada"), s.signedIn("tor")
	page := ada.get("/account").want(200).says("This browser", "Sign out everywhere else")
	var ends []string
	for _, f := range page.all(atom.Form) {
		if to := attr(f, "action"); strings.HasPrefix(to, "/account/sessions/") && to != "/account/sessions/end" {
			ends = append(ends, to)
		}
	}
	if len(ends) != 2 {
		t.Fatalf("%d sessions can be ended, want 2", len(ends))
	}
	all := func() bool {
		return browser.get("/").status == 200 && third.get("/").status == 200 && ada.get("/").status == 200
	}
	s.hostileOwn("ada", ends[0], url.Values{}, all)
	s.hostileOwn("ada", "/account/sessions/end", url.Values{}, all)
	tors := url.Values{"csrf": {tor.get("/").fill("/signout").Get("csrf")}}
	tor.post(ends[0], tors).want(303)
	tor.post("/account/sessions/x/end", tors).want(303)
	if !all() {
		t.Fatal("another person has ended a session")
	}
	for range 2 { // twice is no error
		page.press(ends[0]).follow().want(200).says("That browser is signed out.")
	}
	if a, b := browser.get("/").status == 200, third.get("/").status == 200; a == b {
		t.Errorf("sessions stand: %v and %v, want one", a, b)
	}
	s.signedIn("ada")
	if p := page.press("/account/sessions/end").follow().want(200).says("You are signed out everywhere else."); strings.Contains(p.text(), "Sign out everywhere else") {
		t.Error("there are others")
	}
	if browser.get("/").status == 200 || third.get("/").status == 200 || ada.get("/").status != 200 || tor.get("/").status != 200 {
		t.Error("not exactly the others have ended")
	}
	// The note is true or absent.
	if p := ada.get("/account?done=password"); strings.Contains(p.text(), "changed") {
		t.Error("the address claims what was not done")
	}
	done := page.press("/account/sessions/end").header.Get("Location")
	if p := tor.get(done); strings.Contains(p.text(), "You are signed out") {
		t.Error("another person is told")
	}
	s.pass(doneFor + time.Second)
	if p := ada.get(done); strings.Contains(p.text(), "You are signed out") {
		t.Error("it is told for ever")
	}
	s.browser().get("/account").follow().says("Sign in")
}

// link makes a reset link of a person.
func (s *site) link(person string) string {
	s.t.Helper()
	secret := newCookie()
	_, err := s.Store.AddReset(context.Background(), secret, person, store.ResetLifetime, store.Act{Actor: "operator"})
	s.do(err)
	return "/reset/" + secret
}

func TestResetLink(t *testing.T) {
	s := newSite(t)
	at := s.link("ada")
	ada := s.signedIn("ada")
	id := ada.connect()
	b := s.browser()
	for range 3 { // looking uses nothing up
		b.get(at).want(200).says("Set a new password", "For the account of ada@nordlys.example. This link works once.")
	}
	page := b.get(at)
	page.press(at, "new", "short", "again", "short").want(422).says("Error: set a new password", "Use at least 12 characters.")
	page.press(at, "new", newWord, "again", "x").want(422).says("The two new passwords are not the same.")
	page.press(at, "new", newWord, "again", newWord, "csrf", "forged").want(422).says("This page was opened elsewhere.")
	b.header.Set("Sec-Fetch-Site", "cross-site")
	page.press(at, "new", newWord, "again", newWord).want(403)
	b.header.Del("Sec-Fetch-Site")
	b.post(at, many(page.fill(at), 100)).want(413)
	if !s.opens("ada@nordlys.example", password) || ada.get("/").status != 200 {
		t.Fatal("a refused form has changed something")
	}
	page.press(at, "new", newWord, "again", newWord).want(200).says("Your new password is set.", "Sign in")
	if s.opens("ada@nordlys.example", password) || !s.opens("ada@nordlys.example", newWord) {
		t.Error("the password is not the new one")
	}
	if ada.get("/").status != 303 || !s.lives(id) {
		t.Error("the session goes on, or the approval has ended")
	}
	page.press(at, "new", "another long one", "again", "another long one").want(404).says("This link cannot be used.")
	b.get(at).want(404)
	if e := s.event("directory_changed"); e.Person != "ada" || e.Actor != "person:ada" || e.Detail != "password set by a reset link" {
		t.Errorf("event %+v", e)
	}
	for _, path := range []string{"/reset/x", "/reset/" + newCookie(), "/reset/%00", "/reset/" + strings.Repeat("x", 4000)} {
		b.get(path).want(404).says("This link cannot be used.")
		b.post(path, page.fill(at)).want(404)
	}
	late := s.link("ada")
	open := b.get(late).want(200)
	s.pass(store.ResetLifetime)
	open.press(late, "new", newWord, "again", newWord).want(404)
	if strings.Contains(s.log.String(), strings.TrimPrefix(at, "/reset/")) {
		t.Error("the link's secret is in the log")
	}
}

// Where people sign in elsewhere there is no password to set.
func TestAccountWithoutPasswords(t *testing.T) {
	s := newSite(t)
	at, ada := s.link("ada"), s.signedIn("ada")
	page, reset := ada.get("/account").want(200), s.browser().get(at).want(200)
	s.Ways.NoPasswords = true
	page.press("/account/password", passwords(password, newWord, newWord)...).want(404)
	reset.press(at, "new", newWord, "again", newWord).want(404)
	s.browser().get(at).want(404)
	if p := ada.get("/account").want(200).says("There is no password here for ada@nordlys.example.", "This browser"); len(p.all(atom.Input)) > 3 {
		t.Errorf("a password is asked for: %s", p.text())
	}
	s.Ways.NoPasswords = false
	if !s.opens("ada@nordlys.example", password) {
		t.Error("the password has changed")
	}
}

// Of two who press at once, one sets the password.
func TestResetLinkAtOnce(t *testing.T) {
	s := newSite(t)
	at := s.link("ada")
	words := []string{"the first of two words", "the second of two words"}
	answers := make(chan int, len(words))
	for _, word := range words {
		page := s.browser().get(at)
		go func() { answers <- page.press(at, "new", word, "again", word).status }()
	}
	if a, b := <-answers, <-answers; a+b != 200+404 {
		t.Errorf("answers %d and %d, want one 200 and one 404", a, b)
	}
	if s.opens("ada@nordlys.example", words[0]) == s.opens("ada@nordlys.example", words[1]) {
		t.Error("not exactly one password opens")
	}
}

// Who is signed in as somebody else stays so.
func TestResetLinkWhileSignedIn(t *testing.T) {
	s := newSite(t)
	at := s.link("ada")
	tor := s.signedIn("tor")
	tor.get(at).press(at, "new", newWord, "again", newWord).want(200).says("Signed in as Tor Haugen")
	tor.get("/").want(200)
	at = s.link("tor")
	p := tor.get(at).press(at, "new", newWord, "again", newWord).want(200)
	if strings.Contains(p.text(), "Signed in as") || tor.cookies["__Host-session"] != "" {
		t.Error("the page shows a session that has ended")
	}
	if _, err := s.Store.ResetOf(context.Background(), strings.TrimPrefix(at, "/reset/")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the link goes on: %v", err)
	}
}

// A person knows sessions apart by browser and system. Of what the browser says of
// itself nothing else is kept, and nothing is said where it is not known.
func TestSessionsShowTheBrowser(t *testing.T) {
	s := newSite(t)
	const phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X; canary-5417) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/604.1"
	enter := func(agent string) *browser {
		b := s.browser()
		b.header.Set("User-Agent", agent)
		signin(b.get("/signin"), "ada@nordlys.example", password).want(303)
		return b
	}
	first := enter(phone)
	enter("canary-5417/1 (<b>Chrome</b>)")
	enter("Mozilla/5.0 (X11; Linux x86_64) canary-5417")
	first.header.Set("User-Agent", "Mozilla/5.0 (Windows NT 10.0; rv:133.0) Gecko/20100101 Firefox/133.0") // what it says later changes nothing
	p := first.get("/account").want(200).says("Safari on iPhone Signed in today at 10:00 This browser", "Linux Signed in")
	if strings.Contains(p.body, "canary-5417") || strings.Contains(p.text(), "Firefox") || strings.Contains(p.text(), "Windows") {
		t.Errorf("the page says %q", p.text())
	}
	all, err := s.Store.Sessions(t.Context(), "ada", "")
	if err != nil || len(all) != 3 {
		t.Fatalf("sessions %+v %v", all, err)
	}
	for _, i := range all {
		if strings.Contains(i.Browser+i.System, "canary") {
			t.Errorf("stored: %q %q", i.Browser, i.System)
		}
	}
	// Signing in again makes another session, which says where that was.
	again := first.get("/signin/again").want(200).press("/signin/again", "password", password).want(303)
	again.follow()
	first.get("/account").want(200).says("Firefox on Windows")
	// So does changing nothing but the value.
	first.get("/account").press("/account/password", "current", password, "new", "another good word here", "again", "another good word here").follow().want(200).says("Firefox on Windows")
}
