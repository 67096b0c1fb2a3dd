package consent

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/store"
)

// An app shows the codes of a person, as the phone in their hand does.
type codeApp struct {
	s      *site
	secret []byte
}

func (a codeApp) code() string {
	return identity.OneTimeCode(a.secret, a.s.Store.Now().Unix()/30)
}

// withApp turns two-step sign-in on for a person who has just signed in, and
// gives their app and recovery codes.
func withApp(t *testing.T, b *browser) (a codeApp, recovery []string) {
	t.Helper()
	p := b.get("/account/sign-in").want(200).press("/account/sign-in/app").want(200).says("Scan this code with your authenticator app, or enter the key below it.")
	key := strings.ReplaceAll(p.all(atom.Code)[0].FirstChild.Data, " ", "")
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(key)
	if err != nil || len(secret) != 20 {
		t.Fatalf("key %q: %v", key, err)
	}
	if link := p.link("Open it in an app on this device"); !strings.HasPrefix(link, "otpauth://totp/Svalinn:") || !strings.Contains(link, "secret="+key+"&issuer=Svalinn") {
		t.Errorf("link %q", link)
	}
	a = codeApp{b.s, secret}
	p = p.press("/account/sign-in/confirm", "code", "000000").want(422).says("The code is not right.")
	p = p.press("/account/sign-in/confirm", "code", a.code()[:3]+" "+a.code()[3:]).want(200).says("Your recovery codes", "10 recovery codes are left.", "Authenticator app")
	for _, n := range p.all(atom.Code) {
		recovery = append(recovery, n.FirstChild.Data)
	}
	if len(recovery) != 10 {
		t.Fatalf("%d recovery codes: %s", len(recovery), p.text())
	}
	return a, recovery
}

// A password alone signs nobody in who has a second factor, and a code counts
// once; the key of the codes is stored sealed (decision S5).
func TestSecondFactor(t *testing.T) {
	s := newSite(t)
	app, recovery := withApp(t, s.signedIn("ada"))
	s.pass(time.Minute)
	first := func() (*browser, *shown) {
		b := s.browser()
		p := signin(b.get(authorize("state", "mine")).follow(), "ada@nordlys.example", password).follow().want(200).says("Second step")
		b.get("/").want(303)
		if _, there := b.cookies["__Host-session"]; there {
			t.Fatal("a session without the second factor")
		}
		return b, p
	}
	b, p := first()
	p = p.press("/signin/second", "code", "123456").want(422).says("The code is not right.")
	code := app.code()
	p.press("/signin/second", "code", code).follow().want(200).says("An app wants", "Signed in as Ada Lindqvist")
	proof, err := s.Store.Proof(t.Context(), b.cookies["__Host-session"])
	if now := s.Store.Now().Unix(); err != nil || proof != (identity.Proof{ProvedAt: now, FactorAt: now}) {
		t.Errorf("proof %+v %v", proof, err)
	}
	if e := s.event("signin_succeeded"); e.Detail != "one-time" {
		t.Errorf("event %+v", e)
	}
	_, p = first()
	p.press("/signin/second", "code", code).want(422) // once
	p.press("/signin/second", "code", strings.ToLower(recovery[3])).follow().want(200)
	_, p = first()
	p.press("/signin/second", "code", recovery[3]).want(422) // once
	p.press("/signin/second", "code", recovery[4]).follow().want(200)

	for _, text := range append(recovery, code, base32.StdEncoding.EncodeToString(app.secret)) {
		if strings.Contains(s.log.String(), text) {
			t.Error("the log has a code or a key")
		}
	}

	factors, err := s.Store.Factors(t.Context(), "ada")
	if err != nil || len(factors) == 0 {
		t.Fatal(factors, err)
	}
	for _, f := range factors {
		for _, form := range []string{string(app.secret), base32.StdEncoding.EncodeToString(app.secret), base64.StdEncoding.EncodeToString(app.secret), hex.EncodeToString(app.secret)} {
			if strings.Contains(strings.ToLower(f.Secret), strings.ToLower(form)) {
				t.Error("the database has the key of the codes")
			}
		}
	}

	// Another password meanwhile, a page that was left, and one of another.
	_, p = first()
	s.pass(secondLifetime + time.Second)
	to := p.press("/signin/second", "code", app.code()).want(303).header.Get("Location")
	if !strings.HasPrefix(to, "/signin?return=") {
		t.Errorf("an old page leads to %q", to)
	}
	_, p = first()
	p.b.cookies = map[string]string{}
	p.press("/signin/second", "code", app.code()).want(422).says("Please sign in again.")
	_, p = first()
	s.do(s.Store.SetPassword(t.Context(), "ada", Hash("another-password"), store.Act{}))
	p.press("/signin/second", "code", app.code()).want(422)
	b.get("/signin/second?step=x").want(303)
	s.browser().get("/signin/second?step=" + s.Ring.SealPage(sealedReturn, []byte("{}"))).want(303)
}

// Guessing codes is limited like guessing passwords, and apart from it (decision
// S5).
func TestSecondFactorLimits(t *testing.T) {
	s := newSite(t)
	app, _ := withApp(t, s.signedIn("ada"))
	s.pass(time.Minute)
	p := signin(s.browser().get("/signin"), "ada@nordlys.example", password).follow()
	for range signInPair.N {
		p.press("/signin/second", "code", "000000").want(422)
	}
	if got := p.press("/signin/second", "code", app.code()).want(429).says("Too many attempts.").header.Get("Retry-After"); got != "900" {
		t.Errorf("Retry-After %q", got)
	}
	signin(s.browser().get("/signin"), "ada@nordlys.example", password).want(303)
}

// However many codes come at once, no more are looked at than one after the
// other (decision S5).
func TestSecondFactorsAtOnce(t *testing.T) {
	s := newSite(t)
	withApp(t, s.signedIn("ada"))
	s.pass(time.Minute)
	p := signin(s.browser().get("/signin"), "ada@nordlys.example", password).follow().want(200)
	form := p.fill("/signin/second")
	form.Set("code", "000000")
	var looked atomic.Int64
	var wait sync.WaitGroup
	for range 300 {
		b := s.browser()
		maps.Copy(b.cookies, p.b.cookies)
		wait.Go(func() {
			switch b.post("/signin/second", form).status {
			case 422:
				looked.Add(1)
			case 429:
			default:
				t.Error("neither refused nor told to wait")
			}
		})
	}
	wait.Wait()
	if n := looked.Load(); n == 0 || n > int64(signInPair.N) {
		t.Errorf("%d codes were looked at, want 1 to %d", n, signInPair.N)
	}
}

// From wherever codes are guessed, there are 20 an hour, and after 100 in a row
// no code of the app counts: a recovery code does, and begins anew. The person
// is told after ten (decision S5, NIST SP 800-63B-4 section 3.2.2).
func TestSecondFactorsGuessedForLong(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	app, recovery := withApp(t, ada)
	s.pass(time.Minute)
	if p := ada.get("/account").want(200); strings.Contains(p.text(), "wrong code") {
		t.Errorf("nobody was wrong: %s", p.text())
	}
	from := 0
	s.Address = func(*http.Request) netip.Addr { from++; return netip.AddrFrom4([4]byte{192, 0, 2, byte(from)}) }
	second := func() *shown {
		return signin(s.browser().get("/signin"), "ada@nordlys.example", password).follow().want(200)
	}
	for hour := range wrongFactorsMost / secondAccount.N {
		p := second()
		for range secondAccount.N {
			p.press("/signin/second", "code", "000000").want(422).says("The code is not right.")
		}
		p.press("/signin/second", "code", app.code()).want(429)
		if n := s.failed("ada"); n != (hour+1)*secondAccount.N {
			t.Fatalf("%d events in hour %d", n, hour)
		}
		s.pass(time.Hour)
	}
	ada.get("/account").want(200).says("100 wrong codes since your last right one, the latest today at 14:01. If this was not you, somebody knows your password: change it.")
	second().press("/signin/second", "code", app.code()).want(422).says("Too many wrong codes.")
	second().press("/signin/second", "code", recovery[0]).follow().want(200)
	if p := ada.get("/account").want(200); strings.Contains(p.text(), "wrong code") {
		t.Errorf("a right one came: %s", p.text())
	}
	s.pass(time.Minute)
	second().press("/signin/second", "code", app.code()).follow().want(200)

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
	app, recovery := withApp(t, s.signedIn("ada"))
	s.pass(24 * time.Hour)
	s.Store.Now()
	s.pass(-24*time.Hour + time.Minute)
	p := signin(s.browser().get("/signin"), "ada@nordlys.example", password).follow().want(200)
	p.press("/signin/second", "code", identity.OneTimeCode(app.secret, s.clock.Now().Unix()/30)).want(422)
	p.press("/signin/second", "code", recovery[0]).want(303)
}

// Wrong passkeys are limited and journaled as wrong codes are.
func TestWrongPasskeys(t *testing.T) {
	s := newSite(t)
	withApp(t, s.signedIn("ada"))
	s.pass(time.Minute)
	p := signin(s.browser().get("/signin"), "ada@nordlys.example", password).follow().want(200)
	for range signInPair.N {
		p.press("/signin/second", "passkey", "{}", "ask", "x").want(422)
	}
	p.press("/signin/second", "passkey", "{}", "ask", "x").want(429)
	if n := s.failed("ada"); n != signInPair.N {
		t.Errorf("%d events", n)
	}
}

// failed counts the sign-ins of a person that failed, by the journal.
func (s *site) failed(person string) int {
	s.t.Helper()
	s.do(s.Store.Ready(s.t.Context())) // written after what was queued
	events, _, err := s.Store.Events(s.t.Context(), store.EventFilter{Kind: "signin_failed", Person: person, Limit: 1000})
	s.do(err)
	return len(events)
}

// Adding and removing needs a sign-in of a moment ago (decision S5).
func TestManagingFactors(t *testing.T) {
	s := newSite(t)
	b := s.signedIn("ada")
	app, old := withApp(t, b)
	p := b.get("/account/sign-in").want(200).says("10 recovery codes are left.")
	renewed := p.press("/account/sign-in/recovery").want(200).says("Your recovery codes")
	if strings.Contains(renewed.body, old[0]) {
		t.Error("an old recovery code is shown")
	}
	s.pass(time.Minute)
	second := signin(s.browser().get("/signin"), "ada@nordlys.example", password).follow()
	second.press("/signin/second", "code", old[0]).want(422) // the old ones are gone

	s.pass(DefaultFresh)
	again := p.press("/account/sign-in/remove").follow().want(200).says("Confirm that it is you")
	again.press("/signin/again", "password", password).want(422).says("The password or the code is not right.")
	again.press("/signin/again", "password", "wrong", "code", app.code()).want(422)
	session := b.cookies["__Host-session"]
	p = again.press("/signin/again", "password", password, "code", app.code()).follow().want(200).says("Authenticator app")
	if b.cookies["__Host-session"] == session {
		t.Error("the session keeps its value")
	}
	if _, err := s.Store.Session(t.Context(), session); err == nil {
		t.Error("the old session goes on")
	}
	if all, err := s.Store.Factors(t.Context(), "ada"); err != nil || len(all) != 11 {
		t.Errorf("%d factors, %v", len(all), err)
	}
	tor := s.signedIn("tor") // cannot remove what is Ada's
	form := tor.get("/account/sign-in").fill("/account/sign-in/app")
	form.Set("id", p.fill("/account/sign-in/remove").Get("id"))
	tor.post("/account/sign-in/remove", form).want(303)
	if all, err := s.Store.Factors(t.Context(), "ada"); err != nil || len(all) != 11 {
		t.Errorf("%d factors, %v", len(all), err)
	}
	p.press("/account/sign-in/remove").follow().want(200)
	if all, err := s.Store.Factors(t.Context(), "ada"); err != nil || len(all) != 0 {
		t.Errorf("%d factors, %v", len(all), err)
	}
	signin(s.browser().get("/signin"), "ada@nordlys.example", password).follow().want(200).says("Your organizations")

	form = b.get("/account/sign-in").fill("/account/sign-in/app")
	form.Set("csrf", "x")
	for _, do := range []string{"app", "confirm", "recovery", "remove"} {
		b.post("/account/sign-in/"+do, form).want(403)
	}
	form.Set("csrf", s.Ring.FormToken(b.cookies["__Host-session"]))
	form.Set("key", s.sealOneTime("tor", []byte("12345678901234567890"))) // sealed for another
	b.post("/account/sign-in/confirm", form).want(400)
	s.Ways.NoPasswords = true
	b.get("/account/sign-in").want(404)
}

// Whoever has lost everything is let in again by an operator, who also ends
// the sessions.
func TestResetSignIn(t *testing.T) {
	s := newSite(t)
	b := s.signedIn("ada")
	withApp(t, b)
	if _, err := s.Store.ResetSignIn(t.Context(), "ada@nordlys.example", store.Act{Actor: "operator"}); err != nil {
		t.Fatal(err)
	}
	b.get("/").want(303)
	signin(s.browser().get("/signin"), "ada@nordlys.example", password).follow().want(200).says("Your organizations")
}

// The policy asks for a sign-in of a moment ago, or a second factor, before an
// approval of everything, in the organization or of the person; choices are
// kept, and roles alone are approved without.
func TestStrongApprovals(t *testing.T) {
	everything := func(p *shown, grant string) *shown {
		return p.press("/oauth/authorize", "organization", "nordlys", "grant", grant, "decision", "approve")
	}
	for _, grant := range []string{"everything", "organization"} {
		s := newSite(t)
		s.Ways.Strong = StrengthFresh
		b := s.signedIn("ada")
		everything(b.get(authorize()), grant).sent(callback) // has just signed in
		s.pass(DefaultFresh)
		b.get(authorize()).press("/oauth/authorize", "organization", "nordlys", "grant", "roles", "role:treasurer", "read", "decision", "approve").sent(callback)
		again := everything(b.get(authorize("state", "later")), grant).follow().want(200).says("Confirm that it is you")
		if e := s.event("approval_refused"); e.Reason != "not_fresh" {
			t.Errorf("event %+v", e)
		}
		page := again.press("/signin/again", "password", password).follow().want(200)
		form := page.fill("/oauth/authorize")
		if form.Get("grant") != grant || form.Get("organization") != "nordlys" {
			t.Errorf("kept %v", form)
		}
		if q := page.press("/oauth/authorize", "decision", "approve").sent(callback); q.Get("state") != "later" {
			t.Errorf("sent %v", q)
		}

		s.Ways.Strong = StrengthFactor
		lacks := everything(b.get(authorize()), grant).want(403).says("your account has none yet")
		b.get(lacks.link("Add an authenticator app")).want(200).says("Continue")
		app, _ := withApp(t, b)
		s.pass(time.Minute)
		again = everything(b.get(authorize()), grant).follow().want(200)
		everything(again.press("/signin/again", "password", password, "code", app.code()).follow().want(200), grant).sent(callback)
	}
}

// At a provider the person signs in there once more; it has to say that they
// have, and that it was they.
func TestStrongApprovalsAtAProvider(t *testing.T) {
	s, f := newOutside(t)
	s.Ways.Strong = StrengthFresh
	b := s.browser()
	approve := func(p *shown) *shown {
		return p.press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "decision", "approve")
	}
	f.claims["auth_time"] = s.Store.Now().Add(-time.Hour).Unix() // an old session there
	page := b.get(f.answers(f.out(b))).follow().want(200)
	again := approve(page).follow().want(200).says("Confirm that it is you")
	to := again.link("Continue with Corporate login")
	asked := f.asks(b.get(to))
	if asked.Get("prompt") != "login" || asked.Get("max_age") != "0" {
		t.Errorf("asked %v", asked)
	}
	b.get(f.answers(asked)).want(400).says("Corporate login did not sign you in.") // it did not ask
	delete(f.claims, "auth_time")
	f.claims["sub"], f.userInfo = "sub-of-tor", map[string]any{"sub": "sub-of-tor", "email": "tor@nordlys.example", "email_verified": true}
	b.get(f.answers(f.asks(b.get(to)))).want(403).says("belongs to somebody else") // another person
	delete(f.claims, "sub")
	f.userInfo = map[string]any{}
	session := b.cookies["__Host-session"]
	if _, err := s.Store.Session(t.Context(), session); err != nil {
		t.Fatalf("the session was lost: %v", err)
	}
	approve(b.get(f.answers(f.asks(b.get(to)))).follow().want(200)).sent(callback)
	if _, err := s.Store.Session(t.Context(), session); err == nil {
		t.Error("the old session goes on")
	}

	s.Ways.Strong = StrengthFactor
	approve(b.get(authorize())).want(403).says("has not said that you used one")
	f.claims["amr"] = []string{"pwd", "mfa"}
	s.pass(DefaultFresh)
	again = approve(b.get(authorize())).follow().want(200)
	approve(b.get(f.answers(f.asks(b.get(again.link("Continue with Corporate login"))))).follow().want(200)).sent(callback)

	// A link from elsewhere signs nobody else out.
	other := s.signedIn("ola")
	other.get("/signin/again/other").want(404)
}

// At the service, which is told that it has to ask again.
func TestStrongApprovalsByHandOff(t *testing.T) {
	s := newHandOff(t)
	s.Ways.Strong = StrengthFresh
	b := s.browser()
	page := b.get(s.asserts(challenged(b), "ada", nil)).follow().want(200) // since an hour
	again := page.press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "decision", "approve").follow().want(200)
	q := b.get(again.link("Continue with Svalinn")).sent(handOffURL)
	if q.Get("fresh") != "1" {
		t.Errorf("the service is asked %v", q)
	}
	b.get(s.asserts(q, "ada", nil)).want(400)
	q = b.get(again.link("Continue with Svalinn")).sent(handOffURL)
	b.get(s.asserts(q, "ada", func(a *identity.Assertion) { a.AuthTime = s.Store.Now() })).follow().want(200).
		press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "decision", "approve").sent(callback)
}
