package signin_test

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

// A password alone signs nobody in who has a second factor, and a code counts
// once; the key of the codes is stored sealed (decision S5).
func TestSecondFactor(t *testing.T) {
	s := newSite(t)
	app, recovery := signin.WithApp(t, s.SignedIn("ada"))
	s.Pass(time.Minute)
	first := func() (*pagetest.Browser, *pagetest.Shown) {
		b := s.Browser()
		p := pagetest.SignIn(b.Get(pagetest.Authorize("state", "mine")).Follow(), "ada@nordlys.example", pagetest.Password).Follow().Want(200).Says("Second step")
		b.Get("/").Want(303)
		if _, there := b.Cookies["__Host-session"]; there {
			t.Fatal("a session without the second factor")
		}
		return b, p
	}
	b, p := first()
	p = p.Press("/signin/second", "code", "123456").Want(422).Says("The code is not right.")
	code := app.Code()
	p.Press("/signin/second", "code", code).Follow().Want(200).Says("An app wants", "Signed in as Ada Lindqvist")
	proof, err := s.Store.Proof(t.Context(), b.Cookies["__Host-session"])
	if now := s.Store.Now().Unix(); err != nil || proof != (identity.Proof{ProvedAt: now, FactorAt: now}) {
		t.Errorf("proof %+v %v", proof, err)
	}
	if e := s.Event("signin_succeeded"); e.Detail != "one-time" {
		t.Errorf("event %+v", e)
	}
	_, p = first()
	p.Press("/signin/second", "code", code).Want(422) // once
	p.Press("/signin/second", "code", strings.ToLower(recovery[3])).Follow().Want(200)
	_, p = first()
	p.Press("/signin/second", "code", recovery[3]).Want(422) // once
	p.Press("/signin/second", "code", recovery[4]).Follow().Want(200)

	for _, text := range append(recovery, code, base32.StdEncoding.EncodeToString(app.Secret)) {
		if strings.Contains(s.Logged.String(), text) {
			t.Error("the log has a code or a key")
		}
	}

	factors, err := s.Store.Factors(t.Context(), "ada")
	if err != nil || len(factors) == 0 {
		t.Fatal(factors, err)
	}
	for _, f := range factors {
		for _, form := range []string{string(app.Secret), base32.StdEncoding.EncodeToString(app.Secret), base64.StdEncoding.EncodeToString(app.Secret), hex.EncodeToString(app.Secret)} {
			if strings.Contains(strings.ToLower(f.Secret), strings.ToLower(form)) {
				t.Error("the database has the key of the codes")
			}
		}
	}

	// Another password meanwhile, a page that was left, and one of another.
	_, p = first()
	s.Pass(signin.SecondLifetime + time.Second)
	to := p.Press("/signin/second", "code", app.Code()).Want(303).Header.Get("Location")
	if !strings.HasPrefix(to, "/signin?return=") {
		t.Errorf("an old page leads to %q", to)
	}
	_, p = first()
	p.B.Cookies = map[string]string{}
	p.Press("/signin/second", "code", app.Code()).Want(422).Says("Please sign in again.")
	_, p = first()
	s.Do(s.Store.SetPassword(t.Context(), "ada", signin.Hash("another-password"), store.Act{}))
	p.Press("/signin/second", "code", app.Code()).Want(422)
	b.Get("/signin/second?step=x").Want(303)
	s.Browser().Get("/signin/second?step=" + s.SealPath("{}")).Want(303)
}

// Guessing codes is limited like guessing passwords, and apart from it (decision
// S5).
func TestSecondFactorLimits(t *testing.T) {
	s := newSite(t)
	app, _ := signin.WithApp(t, s.SignedIn("ada"))
	s.Pass(time.Minute)
	p := pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow()
	for range signin.SignInPair.N {
		p.Press("/signin/second", "code", "000000").Want(422)
	}
	if got := p.Press("/signin/second", "code", app.Code()).Want(429).Says("Too many attempts.").Header.Get("Retry-After"); got != "900" {
		t.Errorf("Retry-After %q", got)
	}
	pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Want(303)
}

// However many codes come at once, no more are looked at than one after the
// other (decision S5).
func TestSecondFactorsAtOnce(t *testing.T) {
	s := newSite(t)
	signin.WithApp(t, s.SignedIn("ada"))
	s.Pass(time.Minute)
	p := pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow().Want(200)
	form := p.Fill("/signin/second")
	form.Set("code", "000000")
	var looked atomic.Int64
	var wait sync.WaitGroup
	for range 300 {
		b := s.Browser()
		maps.Copy(b.Cookies, p.B.Cookies)
		wait.Go(func() {
			switch b.Post("/signin/second", form).Status {
			case 422:
				looked.Add(1)
			case 429:
			default:
				t.Error("neither refused nor told to wait")
			}
		})
	}
	wait.Wait()
	if n := looked.Load(); n == 0 || n > int64(signin.SignInPair.N) {
		t.Errorf("%d codes were looked at, want 1 to %d", n, signin.SignInPair.N)
	}
}

// From wherever codes are guessed, there are 20 an hour, and after 100 in a row
// no code of the app counts: a recovery code does, and begins anew. The person
// is told after ten (decision S5, NIST SP 800-63B-4 section 3.2.2).
func TestSecondFactorsGuessedForLong(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	app, recovery := signin.WithApp(t, ada)
	s.Pass(time.Minute)
	if p := ada.Get("/account").Want(200); strings.Contains(p.Text(), "wrong code") {
		t.Errorf("nobody was wrong: %s", p.Text())
	}
	from := 0
	s.Address = func(*http.Request) netip.Addr { from++; return netip.AddrFrom4([4]byte{192, 0, 2, byte(from)}) }
	second := func() *pagetest.Shown {
		return pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow().Want(200)
	}
	for hour := range signin.WrongFactorsMost / signin.SecondAccount.N {
		p := second()
		for range signin.SecondAccount.N {
			p.Press("/signin/second", "code", "000000").Want(422).Says("The code is not right.")
		}
		p.Press("/signin/second", "code", app.Code()).Want(429)
		if n := signin.Failed(s.Site, "ada"); n != (hour+1)*signin.SecondAccount.N {
			t.Fatalf("%d events in hour %d", n, hour)
		}
		s.Pass(time.Hour)
	}
	ada.Get("/account").Want(200).Says("100 wrong codes since your last right one, the latest today at 14:01. If this was not you, somebody knows your password: change it.")
	second().Press("/signin/second", "code", app.Code()).Want(422).Says("Too many wrong codes.")
	second().Press("/signin/second", "code", recovery[0]).Follow().Want(200)
	if p := ada.Get("/account").Want(200); strings.Contains(p.Text(), "wrong code") {
		t.Errorf("a right one came: %s", p.Text())
	}
	s.Pass(time.Minute)
	second().Press("/signin/second", "code", app.Code()).Follow().Want(200)

	told := 0
	events, _, err := s.Store.Events(t.Context(), store.EventFilter{Kind: "signin_failed", Person: "ada", Limit: 1000})
	for _, e := range events {
		if e.Reason == "second_factor_repeated" {
			told++
		}
	}
	if told != 1 || err != nil {
		t.Errorf("told %d times, %v", told, err)
	}
}

// After a clock that was ahead for a moment, a phone's codes are too old, and a
// recovery code lets its person in (docs/operations.md).
func TestSecondFactorAfterAClockThatWasAhead(t *testing.T) {
	s := newSite(t)
	app, recovery := signin.WithApp(t, s.SignedIn("ada"))
	s.Pass(24 * time.Hour)
	s.Store.Now()
	s.Pass(-24*time.Hour + time.Minute)
	p := pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow().Want(200)
	p.Press("/signin/second", "code", identity.OneTimeCode(app.Secret, s.Clock.Now().Unix()/30)).Want(422)
	p.Press("/signin/second", "code", recovery[0]).Want(303)
}

// Wrong passkeys are limited and journaled as wrong codes are.
func TestWrongPasskeys(t *testing.T) {
	s := newSite(t)
	signin.WithApp(t, s.SignedIn("ada"))
	s.Pass(time.Minute)
	p := pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow().Want(200)
	for range signin.SignInPair.N {
		p.Press("/signin/second", "passkey", "{}", "ask", "x").Want(422)
	}
	p.Press("/signin/second", "passkey", "{}", "ask", "x").Want(429)
	if n := signin.Failed(s.Site, "ada"); n != signin.SignInPair.N {
		t.Errorf("%d events", n)
	}
}

// Adding and removing needs a sign-in of a moment ago (decision S5).
func TestManagingFactors(t *testing.T) {
	s := newSite(t)
	b := s.SignedIn("ada")
	app, old := signin.WithApp(t, b)
	p := b.Get("/account/sign-in").Want(200).Says("10 recovery codes are left.")
	renewed := p.Press("/account/sign-in/recovery").Want(200).Says("Your recovery codes")
	if strings.Contains(renewed.Body, old[0]) {
		t.Error("an old recovery code is shown")
	}
	s.Pass(time.Minute)
	second := pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow()
	second.Press("/signin/second", "code", old[0]).Want(422) // the old ones are gone

	s.Pass(signin.DefaultFresh)
	again := p.Press("/account/sign-in/remove").Follow().Want(200).Says("Confirm that it is you")
	again.Press("/signin/again", "password", pagetest.Password).Want(422).Says("The password or the code is not right.")
	again.Press("/signin/again", "password", "wrong", "code", app.Code()).Want(422)
	session := b.Cookies["__Host-session"]
	p = again.Press("/signin/again", "password", pagetest.Password, "code", app.Code()).Follow().Want(200).Says("Authenticator app")
	if b.Cookies["__Host-session"] == session {
		t.Error("the session keeps its value")
	}
	if _, err := s.Store.Session(t.Context(), session); err == nil {
		t.Error("the old session goes on")
	}
	if all, err := s.Store.Factors(t.Context(), "ada"); err != nil || len(all) != 11 {
		t.Errorf("%d factors, %v", len(all), err)
	}
	tor := s.SignedIn("tor") // cannot remove what is Ada's
	form := tor.Get("/account/sign-in").Fill("/account/sign-in/app")
	form.Set("id", p.Fill("/account/sign-in/remove").Get("id"))
	tor.Post("/account/sign-in/remove", form).Want(303)
	if all, err := s.Store.Factors(t.Context(), "ada"); err != nil || len(all) != 11 {
		t.Errorf("%d factors, %v", len(all), err)
	}
	last := p.Press("/account/sign-in/remove").Follow().Want(200).Says("It is removed. Two-step sign-in is off: your password alone lets you in.")
	if note := noteOf(last); note == nil || !pagetest.Has(note, "autofocus") {
		t.Error("what was done does not take the focus")
	}
	if all, err := s.Store.Factors(t.Context(), "ada"); err != nil || len(all) != 0 {
		t.Errorf("%d factors, %v", len(all), err)
	}
	pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow().Want(200).Says("Your organizations")

	form = b.Get("/account/sign-in").Fill("/account/sign-in/app")
	form.Set("csrf", "x")
	for _, do := range []string{"app", "confirm", "recovery", "remove"} {
		b.Post("/account/sign-in/"+do, form).Want(403)
	}
	form.Set("csrf", s.Ring.FormToken(b.Cookies["__Host-session"]))
	form.Set("key", s.SignIn.SealOneTime("tor", []byte("12345678901234567890"))) // sealed for another
	b.Post("/account/sign-in/confirm", form).Want(400)
	s.NoPasswords = true
	b.Get("/account/sign-in").Want(404)
}

// noteOf is what a page says first of what was just done.
func noteOf(p *pagetest.Shown) *html.Node {
	for _, n := range p.All(atom.P) {
		if pagetest.Attr(n, "role") == "status" {
			return n
		}
	}
	return nil
}

// One of several factors that is removed is said to be, and so is one that is added to
// others; the buttons that remove them are told apart.
func TestSeveralFactors(t *testing.T) {
	s := newSite(t)
	b := s.SignedIn("ada")
	signin.WithApp(t, b)
	p := b.Get("/account/sign-in").Press("/account/sign-in/app").Want(200)
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ReplaceAll(p.All(atom.Code)[0].FirstChild.Data, " ", ""))
	s.Do(err)
	code := identity.OneTimeCode(secret, s.Store.Now().Unix()/30)
	for range 2 { // pressed twice
		if note := noteOf(p.Press("/account/sign-in/confirm", "code", code).Want(200).Says("It is added. You can sign in with it from now on.")); !pagetest.Has(note, "autofocus") {
			t.Error("what was done does not take the focus")
		}
	}
	p = b.Get("/account/sign-in").Want(200)
	var names []string
	for _, n := range p.All(atom.Button) {
		if by := pagetest.Attr(n, "aria-labelledby"); by != "" {
			names = append(names, by)
		}
	}
	if len(names) != 2 || names[0] == names[1] {
		t.Errorf("the buttons are named by %q", names)
	}
	p.Press("/account/sign-in/remove").Follow().Want(200).Says("It is removed. Nobody can sign in with it any more.")
}

// Whoever has no password here is not told that theirs lets them in.
func TestTheLastFactorWithoutAPassword(t *testing.T) {
	s := newSite(t)
	s.Do(s.Store.AddDirectory(t.Context(), store.Directory{People: []store.DirectoryPerson{{Person: org.Person{ID: "zoe", Email: "zoe@nordlys.example", Name: "Zoe", Active: true}}}}, store.Act{Actor: "operator"}))
	b := s.SignedIn("zoe")
	signin.WithApp(t, b)
	if last := b.Get("/account/sign-in").Press("/account/sign-in/remove").Follow().Want(200).Says("It is removed."); strings.Contains(last.Text(), "lets you in") {
		t.Error(last.Text())
	}
}

// Who was signed out meanwhile signs in once, and is back at what the form was of.
func TestFormsOfWhoWasSignedOut(t *testing.T) {
	s := newSite(t)
	for from, action := range map[string]string{"/account/sign-in": "/account/sign-in/app", "/signin/again": "/signin/again"} {
		b := s.SignedIn("ada")
		form := b.Get(from + "?return=" + s.SealPath("/account?x=1")).Want(200).Fill(action)
		p := s.Browser().Post(action, form).Follow().Want(200)
		at := pagetest.SignIn(p, "ada@nordlys.example", pagetest.Password).Want(303).Header.Get("Location")
		if u, err := url.Parse(at); err != nil || at != "/account?x=1" && (u.Path != from || s.ReturnPath(u.Query().Get("return")) != "/account?x=1") || action == "/signin/again" && u.Path == from {
			t.Errorf("%s: leads to %q", action, at)
		}
	}
}

// A button that is pressed twice adds one factor, and the answer that the browser
// shows has the recovery codes that count; a form that comes back later changes nothing.
func TestConfirmedTwice(t *testing.T) {
	s := newSite(t)
	b := s.SignedIn("ada")
	p := b.Get("/account/sign-in").Press("/account/sign-in/app").Want(200)
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ReplaceAll(p.All(atom.Code)[0].FirstChild.Data, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	form := p.Fill("/account/sign-in/confirm")
	confirm := func() (codes []string) {
		form.Set("code", identity.OneTimeCode(secret, s.Store.Now().Unix()/30))
		answer := b.Post("/account/sign-in/confirm", form).Want(200).Says("Authenticator app", "10 recovery codes are left.")
		for _, n := range answer.All(atom.Code) {
			codes = append(codes, n.FirstChild.Data)
		}
		if all, err := s.Store.Factors(t.Context(), "ada"); err != nil || len(all) != 11 {
			t.Errorf("%d factors, %v", len(all), err)
		}
		return codes
	}
	first, second := confirm(), confirm()
	if len(first) != 10 || len(second) != 10 || first[0] == second[0] {
		t.Errorf("codes %v and %v", first, second)
	}
	s.Pass(2 * time.Minute)
	if late := confirm(); len(late) != 0 {
		t.Errorf("codes %v of a form that comes back", late)
	}
	again := pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow()
	again.Press("/signin/second", "code", first[0]).Want(422)
	again.Press("/signin/second", "code", second[0]).Want(303)
}

// Whoever has lost everything is let in again by an operator, who also ends
// the sessions.
func TestResetSignIn(t *testing.T) {
	s := newSite(t)
	b := s.SignedIn("ada")
	signin.WithApp(t, b)
	if _, err := s.Store.ResetSignIn(t.Context(), "ada@nordlys.example", store.Act{Actor: "operator"}); err != nil {
		t.Fatal(err)
	}
	b.Get("/").Want(303)
	pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow().Want(200).Says("Your organizations")
}

// The policy asks for a sign-in of a moment ago, or a second factor, before an
// approval of everything, in the organization or of the person; choices are
// kept, and roles alone are approved without.
func TestStrongApprovals(t *testing.T) {
	everything := func(p *pagetest.Shown, grant string) *pagetest.Shown {
		return p.Press("/oauth/authorize", "organization", "nordlys", "grant", grant, "decision", "approve")
	}
	for _, grant := range []string{"everything", "organization"} {
		s := newSite(t)
		s.SignIn.Strong = signin.StrengthFresh
		b := s.SignedIn("ada")
		everything(b.Get(pagetest.Authorize()), grant).Sent(pagetest.Callback) // has just signed in
		s.Pass(signin.DefaultFresh)
		b.Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", "nordlys", "grant", "roles", "role:treasurer", "read", "decision", "approve").Sent(pagetest.Callback)
		again := everything(b.Get(pagetest.Authorize("state", "later")), grant).Follow().Want(200).Says("Confirm that it is you")
		if e := s.Event("approval_refused"); e.Reason != "not_fresh" {
			t.Errorf("event %+v", e)
		}
		page := again.Press("/signin/again", "password", pagetest.Password).Follow().Want(200)
		form := page.Fill("/oauth/authorize")
		if form.Get("grant") != grant || form.Get("organization") != "nordlys" {
			t.Errorf("kept %v", form)
		}
		if q := page.Press("/oauth/authorize", "decision", "approve").Sent(pagetest.Callback); q.Get("state") != "later" {
			t.Errorf("sent %v", q)
		}

		s.SignIn.Strong = signin.StrengthFactor
		lacks := everything(b.Get(pagetest.Authorize()), grant).Want(403).Says("your account has none yet")
		b.Get(lacks.Link("Add an authenticator app")).Want(200).Says("Continue")
		app, _ := signin.WithApp(t, b)
		s.Pass(time.Minute)
		again = everything(b.Get(pagetest.Authorize()), grant).Follow().Want(200)
		everything(again.Press("/signin/again", "password", pagetest.Password, "code", app.Code()).Follow().Want(200), grant).Sent(pagetest.Callback)
	}
}

// At a provider the person signs in there once more; it has to say that they
// have, and that it was they.
func TestStrongApprovalsAtAProvider(t *testing.T) {
	s, f := newOutside(t)
	s.SignIn.Strong = signin.StrengthFresh
	b := s.Browser()
	approve := func(p *pagetest.Shown) *pagetest.Shown {
		return p.Press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "decision", "approve")
	}
	f.Claims["auth_time"] = s.Store.Now().Add(-time.Hour).Unix() // an old session there
	page := b.Get(f.Answers(f.Out(b))).Follow().Want(200)
	again := approve(page).Follow().Want(200).Says("Confirm that it is you")
	to := again.Link("Continue with Corporate login")
	asked := f.Asks(b.Get(to))
	if asked.Get("prompt") != "login" || asked.Get("max_age") != "0" {
		t.Errorf("asked %v", asked)
	}
	b.Get(f.Answers(asked)).Want(400).Says("Corporate login did not sign you in.") // it did not ask
	delete(f.Claims, "auth_time")
	f.Claims["sub"], f.UserInfo = "sub-of-tor", map[string]any{"sub": "sub-of-tor", "email": "tor@nordlys.example", "email_verified": true}
	b.Get(f.Answers(f.Asks(b.Get(to)))).Want(403).Says("belongs to somebody else") // another person
	delete(f.Claims, "sub")
	f.UserInfo = map[string]any{}
	session := b.Cookies["__Host-session"]
	if _, err := s.Store.Session(t.Context(), session); err != nil {
		t.Fatalf("the session was lost: %v", err)
	}
	approve(b.Get(f.Answers(f.Asks(b.Get(to)))).Follow().Want(200)).Sent(pagetest.Callback)
	if _, err := s.Store.Session(t.Context(), session); err == nil {
		t.Error("the old session goes on")
	}

	s.SignIn.Strong = signin.StrengthFactor
	approve(b.Get(pagetest.Authorize())).Want(403).Says("has not said that you used one")
	f.Claims["amr"] = []string{"pwd", "mfa"}
	s.Pass(signin.DefaultFresh)
	again = approve(b.Get(pagetest.Authorize())).Follow().Want(200)
	approve(b.Get(f.Answers(f.Asks(b.Get(again.Link("Continue with Corporate login"))))).Follow().Want(200)).Sent(pagetest.Callback)

	// A link from elsewhere signs nobody else out.
	other := s.SignedIn("ola")
	other.Get("/signin/again/other").Want(404)
}

// At the service, which is told that it has to ask again.
func TestStrongApprovalsByHandOff(t *testing.T) {
	s := newHandOff(t)
	s.SignIn.Strong = signin.StrengthFresh
	b := s.Browser()
	page := b.Get(s.Asserts(challenged(b), "ada", nil)).Follow().Want(200) // since an hour
	again := page.Press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "decision", "approve").Follow().Want(200)
	q := b.Get(again.Link("Continue with Svalinn")).Sent(pagetest.HandOffURL)
	if q.Get("fresh") != "1" {
		t.Errorf("the service is asked %v", q)
	}
	b.Get(s.Asserts(q, "ada", nil)).Want(400)
	q = b.Get(again.Link("Continue with Svalinn")).Sent(pagetest.HandOffURL)
	b.Get(s.Asserts(q, "ada", func(a *identity.Assertion) { a.AuthTime = s.Store.Now() })).Follow().Want(200).
		Press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "decision", "approve").Sent(pagetest.Callback)
}

// The metrics are told how each sign-in went, a wrong second factor like a
// wrong password, and which requests were over the limit.
func TestCounts(t *testing.T) {
	s := newSite(t)
	app, _ := signin.WithApp(t, s.SignedIn("ada"))
	s.Pass(time.Minute)
	counts := map[string]int{}
	s.Count = func(endpoint, result string) { counts[endpoint+" "+result]++ }
	pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", "wrong").Want(422)
	p := pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow()
	p.Press("/signin/second", "code", "000000").Want(422)
	p.Press("/signin/second", "code", app.Code()).Want(303)
	pagetest.SignIn(s.Browser().Get("/signin"), "tor@nordlys.example", pagetest.Password).Want(303)
	s.AuthorizeLimit = limit.NewAddresses(limit.Limit{N: 1, Window: time.Minute}, nil)
	s.Browser().Get(pagetest.Authorize())
	s.Browser().Get(pagetest.Authorize()).Want(429)
	if got, want := fmt.Sprint(counts), "map[authorize limited:1 signin failed:2 signin ok:2]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
