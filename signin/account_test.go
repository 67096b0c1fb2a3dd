package signin_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

func passwords(current, next, again string) []string {
	return []string{"current", current, "new", next, "again", again}
}

// opens reports whether a password is the person's.
func (s *site) opens(email, password string) bool {
	s.T.Helper()
	p := pagetest.SignIn(s.Browser().Get("/signin"), email, password)
	return p.Status == 303
}

// Case A-10: browser sessions end but this one, which goes on under another
// value; approvals stay.
func TestA10ChangePassword(t *testing.T) {
	s := newSite(t)
	ada, other := s.SignedIn("ada"), s.SignedIn("ada")
	id := ada.Connect()
	consent := ada.Get(pagetest.Authorize())
	before := ada.Cookies["__Host-session"]
	page := ada.Get("/account").Want(200).Says("Your account – Svalinn", "Password", "Where you are signed in")
	page.Press("/account/password", passwords(pagetest.Password, pagetest.NewWord, pagetest.NewWord)...).Follow().Want(200).
		Says("Your password is changed. You were signed out everywhere else.")
	if ada.Cookies["__Host-session"] == before {
		t.Error("the session goes on under the same value")
	}
	if other.Get("/account").Status != 303 {
		t.Error("another session goes on")
	}
	ada.Cookies["__Host-session"], before = before, ada.Cookies["__Host-session"]
	if ada.Get("/account").Status != 303 {
		t.Error("the old value goes on")
	}
	ada.Cookies["__Host-session"] = before
	if !s.Lives(id) {
		t.Error("the approval has ended")
	}
	consent.Approve().Want(403) // of the old session's page: it asks again
	if s.opens("ada@nordlys.example", pagetest.Password) || !s.opens("ada@nordlys.example", pagetest.NewWord) {
		t.Error("the password is not the new one")
	}
	if e := s.Event("directory_changed"); e.Person != "ada" || e.Actor != "person:ada" || e.Detail != "password changed" {
		t.Errorf("event %+v", e)
	}
}

func TestPasswordFaults(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	page := ada.Get("/account")
	for name, c := range map[string]struct {
		fields      []string
		field, says string
	}{
		"wrong":         {passwords("not it, not it", pagetest.NewWord, pagetest.NewWord), "current", "The current password is not right."},
		"none":          {passwords("", pagetest.NewWord, pagetest.NewWord), "current", "The current password is not right."},
		"short":         {passwords(pagetest.Password, "elevenchars", "elevenchars"), "new", "Use at least 12 characters."},
		"empty":         {passwords(pagetest.Password, "", ""), "new", "Use at least 12 characters."},
		"long":          {passwords(pagetest.Password, strings.Repeat("é", 201), strings.Repeat("é", 201)), "new", "at most 200 characters"},
		"no text":       {passwords(pagetest.Password, "twelve chars\xff", "twelve chars\xff"), "new", "a character that is none"},
		"NUL":           {passwords(pagetest.Password, "twelve chars\x00", "twelve chars\x00"), "new", "a character that is none"},
		"the email":     {passwords(pagetest.Password, "Ada@Nordlys.example", "Ada@Nordlys.example"), "new", "too easy to guess"},
		"the name":      {passwords(pagetest.Password, "ada lindqvist", "ada lindqvist"), "new", "too easy to guess"},
		"one character": {passwords(pagetest.Password, strings.Repeat("ø", 12), strings.Repeat("ø", 12)), "new", "too easy to guess"},
		"two":           {passwords(pagetest.Password, pagetest.NewWord, pagetest.NewWord+"!"), "again", "The two new passwords are not the same."},
		"the same":      {passwords(pagetest.Password, pagetest.Password, pagetest.Password), "new", "not the one you have now"},
	} {
		p := page.Press("/account/password", c.fields...).Want(422).Says("Error: your account", c.says)
		for _, n := range p.All(atom.Input) {
			if invalid := pagetest.Attr(n, "aria-invalid") == "true"; invalid != (pagetest.Attr(n, "name") == c.field) {
				t.Errorf("%s: %s is marked %v", name, pagetest.Attr(n, "name"), invalid)
			}
			if pagetest.Attr(n, "type") == "password" && pagetest.Attr(n, "value") != "" {
				t.Errorf("%s: a password is in the page", name)
			}
		}
	}
	if !s.opens("ada@nordlys.example", pagetest.Password) {
		t.Error("the password has changed")
	}
	for range signin.SignInPair.N {
		page.Press("/account/password", passwords("not it", pagetest.NewWord, pagetest.NewWord)...)
	}
	p := page.Press("/account/password", passwords(pagetest.Password, pagetest.NewWord, pagetest.NewWord)...).Want(429).Says("Too many attempts. Try again in 15 minutes.")
	if p.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	same := func() bool {
		_, stored, err := s.Store.Password(context.Background(), "ada@nordlys.example")
		return err == nil && stored == pagetest.PasswordHash
	}
	if !same() {
		t.Error("the password has changed")
	}
	s.HostileOwn("ada", "/account/password", url.Values{"current": {pagetest.Password}, "new": {pagetest.NewWord}, "again": {pagetest.NewWord}}, same)
	if strings.Contains(s.Logged.String(), pagetest.NewWord) {
		t.Error("a password is in the log")
	}
}

func TestSessionsOfTheAccount(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	s.Pass(time.Minute)
	browser, third, tor := s.SignedIn("ada"), s.SignedIn("ada"), s.SignedIn("tor")
	page := ada.Get("/account").Want(200).Says("This browser", "Sign out everywhere else")
	var ends []string
	for _, f := range page.All(atom.Form) {
		if to := pagetest.Attr(f, "action"); strings.HasPrefix(to, "/account/sessions/") && to != "/account/sessions/end" {
			ends = append(ends, to)
		}
	}
	if len(ends) != 2 {
		t.Fatalf("%d sessions can be ended, want 2", len(ends))
	}
	all := func() bool {
		return browser.Get("/").Status == 200 && third.Get("/").Status == 200 && ada.Get("/").Status == 200
	}
	s.HostileOwn("ada", ends[0], url.Values{}, all)
	s.HostileOwn("ada", "/account/sessions/end", url.Values{}, all)
	tors := url.Values{"csrf": {tor.Get("/").Fill("/signout").Get("csrf")}}
	tor.Post(ends[0], tors).Want(303)
	tor.Post("/account/sessions/x/end", tors).Want(303)
	if !all() {
		t.Fatal("another person has ended a session")
	}
	for range 2 { // twice is no error
		page.Press(ends[0]).Follow().Want(200).Says("That browser is signed out.")
	}
	if a, b := browser.Get("/").Status == 200, third.Get("/").Status == 200; a == b {
		t.Errorf("sessions stand: %v and %v, want one", a, b)
	}
	s.SignedIn("ada")
	if p := page.Press("/account/sessions/end").Follow().Want(200).Says("You are signed out everywhere else."); strings.Contains(p.Text(), "Sign out everywhere else") {
		t.Error("there are others")
	}
	if browser.Get("/").Status == 200 || third.Get("/").Status == 200 || ada.Get("/").Status != 200 || tor.Get("/").Status != 200 {
		t.Error("not exactly the others have ended")
	}
	// The note is true or absent.
	if p := ada.Get("/account?done=password"); strings.Contains(p.Text(), "changed") {
		t.Error("the address claims what was not done")
	}
	done := page.Press("/account/sessions/end").Header.Get("Location")
	if p := tor.Get(done); strings.Contains(p.Text(), "You are signed out") {
		t.Error("another person is told")
	}
	s.Pass(5*time.Minute + time.Second)
	if p := ada.Get(done); strings.Contains(p.Text(), "You are signed out") {
		t.Error("it is told for ever")
	}
	s.Browser().Get("/account").Follow().Says("Sign in")
}

func TestResetLink(t *testing.T) {
	s := newSite(t)
	at := s.ResetLink("ada")
	ada := s.SignedIn("ada")
	id := ada.Connect()
	b := s.Browser()
	for range 3 { // looking uses nothing up
		b.Get(at).Want(200).Says("Set a new password", "For the account of ada@nordlys.example. This link works once.")
	}
	page := b.Get(at)
	page.Press(at, "new", "short", "again", "short").Want(422).Says("Error: set a new password", "Use at least 12 characters.")
	page.Press(at, "new", pagetest.NewWord, "again", "x").Want(422).Says("The two new passwords are not the same.")
	page.Press(at, "new", pagetest.NewWord, "again", pagetest.NewWord, "csrf", "forged").Want(422).Says("This page was opened elsewhere.")
	b.Header.Set("Sec-Fetch-Site", "cross-site")
	page.Press(at, "new", pagetest.NewWord, "again", pagetest.NewWord).Want(403)
	b.Header.Del("Sec-Fetch-Site")
	b.Post(at, pagetest.Many(page.Fill(at), 100)).Want(413)
	if !s.opens("ada@nordlys.example", pagetest.Password) || ada.Get("/").Status != 200 {
		t.Fatal("a refused form has changed something")
	}
	page.Press(at, "new", pagetest.NewWord, "again", pagetest.NewWord).Want(200).Says("Your new password is set.", "Sign in")
	if s.opens("ada@nordlys.example", pagetest.Password) || !s.opens("ada@nordlys.example", pagetest.NewWord) {
		t.Error("the password is not the new one")
	}
	if ada.Get("/").Status != 303 || !s.Lives(id) {
		t.Error("the session goes on, or the approval has ended")
	}
	page.Press(at, "new", "another long one", "again", "another long one").Want(404).Says("This link cannot be used.")
	b.Get(at).Want(404)
	if e := s.Event("directory_changed"); e.Person != "ada" || e.Actor != "person:ada" || e.Detail != "password set by a reset link" {
		t.Errorf("event %+v", e)
	}
	for _, path := range []string{"/reset/x", "/reset/" + strings.Repeat("x", 43), "/reset/%00", "/reset/" + strings.Repeat("x", 4000)} {
		b.Get(path).Want(404).Says("This link cannot be used.")
		b.Post(path, page.Fill(at)).Want(404)
	}
	late := s.ResetLink("ada")
	open := b.Get(late).Want(200)
	s.Pass(store.ResetLifetime)
	open.Press(late, "new", pagetest.NewWord, "again", pagetest.NewWord).Want(404)
	if strings.Contains(s.Logged.String(), strings.TrimPrefix(at, "/reset/")) {
		t.Error("the link's secret is in the log")
	}
}

// Where people sign in elsewhere there is no password to set.
func TestAccountWithoutPasswords(t *testing.T) {
	s := newSite(t)
	at, ada := s.ResetLink("ada"), s.SignedIn("ada")
	page, reset := ada.Get("/account").Want(200), s.Browser().Get(at).Want(200)
	s.NoPasswords = true
	page.Press("/account/password", passwords(pagetest.Password, pagetest.NewWord, pagetest.NewWord)...).Want(404)
	reset.Press(at, "new", pagetest.NewWord, "again", pagetest.NewWord).Want(404)
	s.Browser().Get(at).Want(404)
	if p := ada.Get("/account").Want(200).Says("There is no password here for ada@nordlys.example.", "This browser"); len(p.All(atom.Input)) > 3 {
		t.Errorf("a password is asked for: %s", p.Text())
	}
	s.NoPasswords = false
	if !s.opens("ada@nordlys.example", pagetest.Password) {
		t.Error("the password has changed")
	}
}

// Of two who press at once, one sets the password.
func TestResetLinkAtOnce(t *testing.T) {
	s := newSite(t)
	at := s.ResetLink("ada")
	words := []string{"the first of two words", "the second of two words"}
	answers := make(chan int, len(words))
	for _, word := range words {
		page := s.Browser().Get(at)
		go func() { answers <- page.Press(at, "new", word, "again", word).Status }()
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
	at := s.ResetLink("ada")
	tor := s.SignedIn("tor")
	tor.Get(at).Press(at, "new", pagetest.NewWord, "again", pagetest.NewWord).Want(200).Says("Signed in as Tor Haugen")
	tor.Get("/").Want(200)
	at = s.ResetLink("tor")
	p := tor.Get(at).Press(at, "new", pagetest.NewWord, "again", pagetest.NewWord).Want(200)
	if strings.Contains(p.Text(), "Signed in as") || tor.Cookies["__Host-session"] != "" {
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
	enter := func(agent string) *pagetest.Browser {
		b := s.Browser()
		b.Header.Set("User-Agent", agent)
		pagetest.SignIn(b.Get("/signin"), "ada@nordlys.example", pagetest.Password).Want(303)
		return b
	}
	first := enter(phone)
	enter("canary-5417/1 (<b>Chrome</b>)")
	enter("Mozilla/5.0 (X11; Linux x86_64) canary-5417")
	first.Header.Set("User-Agent", "Mozilla/5.0 (Windows NT 10.0; rv:133.0) Gecko/20100101 Firefox/133.0") // what it says later changes nothing
	p := first.Get("/account").Want(200).Says("Safari on iPhone Signed in today at 10:00 This browser", "Linux Signed in")
	if strings.Contains(p.Body, "canary-5417") || strings.Contains(p.Text(), "Firefox") || strings.Contains(p.Text(), "Windows") {
		t.Errorf("the page says %q", p.Text())
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
	again := first.Get("/signin/again").Want(200).Press("/signin/again", "password", pagetest.Password).Want(303)
	again.Follow()
	first.Get("/account").Want(200).Says("Firefox on Windows")
	// So does changing nothing but the value.
	first.Get("/account").Press("/account/password", "current", pagetest.Password, "new", "another good word here", "again", "another good word here").Follow().Want(200).Says("Firefox on Windows")
}
