package consent

import (
	"crypto/ed25519"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

const (
	handOffURL    = "https://svalinn.example/grantkeeper?from=app"
	handOffSecret = "a secret that the service has too, of 32 bytes or more"
)

// newHandOff is a site where people sign in at the service alone.
func newHandOff(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.Ways = Ways{NoPasswords: true, HandOff: &HandOff{URL: handOffURL, Keys: []identity.AssertionKey{{Secret: []byte(handOffSecret)}}}}
	return s
}

// challenged goes the way of a person who was asked by an app, up to the
// service.
func challenged(b *browser) url.Values {
	b.s.t.Helper()
	page := b.get(authorize("state", "mine")).follow().want(200).says("You sign in with Svalinn.")
	return b.get(page.link("Continue with Svalinn")).sent(handOffURL)
}

func (s *site) asserts(q url.Values, person string, change func(*identity.Assertion)) string {
	s.t.Helper()
	a := identity.Assertion{Audience: q.Get("audience"), Challenge: q.Get("challenge"), Person: person, AuthTime: s.Store.Now().Add(-time.Hour)}
	if change != nil {
		change(&a)
	}
	signed, err := a.Sign([]byte(handOffSecret), s.Store.Now())
	s.do(err)
	return "/signin/callback/handoff?assertion=" + signed
}

func TestSignInByHandOff(t *testing.T) {
	s := newHandOff(t)
	b := s.browser()
	q := challenged(b)
	if q.Get("audience") != base || len(q) != 2 {
		t.Errorf("the service is asked %v", q)
	}
	to := s.asserts(q, "ada", nil)
	consent := b.get(to).follow().want(200).says("Signed in as Ada Lindqvist")
	if q := consent.approve().sent(callback); q.Get("state") != "mine" {
		t.Errorf("sent %v", q)
	}
	proof, err := s.Store.Proof(t.Context(), b.cookies["__Host-session"])
	if want := (identity.Proof{ProvedAt: s.Store.Now().Add(-time.Hour).Unix(), Issuer: "handoff"}); err != nil || proof != want {
		t.Errorf("proof %+v %v, want %+v", proof, err, want)
	}
	if e := s.event("signin_succeeded"); e.Detail != "handoff" {
		t.Errorf("event %+v", e)
	}
	b.get(to).follow().want(200) // Back: signed in already
	if strings.Contains(s.log.String(), to[len("/signin/callback/handoff?assertion="):]) {
		t.Error("the log has the assertion")
	}

	b = s.browser() // by email, and without a time
	b.get(s.asserts(challenged(b), "Tor@nordlys.example", func(a *identity.Assertion) { a.AuthTime = time.Time{} })).follow().want(200).says("Signed in as Tor")
	if proof, err := s.Store.Proof(t.Context(), b.cookies["__Host-session"]); err != nil || proof.ProvedAt != 1 {
		t.Errorf("proof %+v %v", proof, err)
	}
}

// An assertion counts once, in the browser that asked, for a minute (decision S4).
func TestAssertionsThatDoNotCount(t *testing.T) {
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(*identity.Assertion)
		status int
		says   string
	}{
		{"another audience", func(a *identity.Assertion) { a.Audience = "https://evil.example" }, 400, "The answer of Svalinn cannot be accepted."},
		{"no challenge", func(a *identity.Assertion) { a.Challenge = "" }, 400, "The answer of Svalinn cannot be accepted."},
		{"another challenge", func(a *identity.Assertion) { a.Challenge = "x" }, 403, "This sign-in cannot be finished here."},
		{"nobody", func(a *identity.Assertion) { a.Person = "" }, 400, "The answer of Svalinn cannot be accepted."},
		{"somebody unknown", func(a *identity.Assertion) { a.Person = "nobody" }, 403, "Svalinn does not know you."},
		{"somebody by an email that looks alike", func(a *identity.Assertion) { a.Person = "ada@nordl\u0131s.example" }, 403, "Svalinn does not know you."},
		{"somebody by an email that Unicode lowers to theirs", func(a *identity.Assertion) { a.Person = "m\u0130a@nordlys.example" }, 403, "Svalinn does not know you."},
		{"somebody with too long a name", func(a *identity.Assertion) { a.Person = strings.Repeat("x", 300) }, 403, "Svalinn does not know you."},
		{"signed in in the future", func(a *identity.Assertion) { a.AuthTime = a.AuthTime.Add(2 * time.Hour) }, 400, "The answer of Svalinn cannot be accepted."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newHandOff(t)
			_, err := s.Store.AddPerson(t.Context(), org.Person{ID: "mia", Email: "mia@nordlys.example", Name: "Mia", Active: true}, "", store.Act{Actor: "operator"})
			s.do(err)
			b := s.browser()
			b.get(s.asserts(challenged(b), "ada", tt.change)).want(tt.status).says(tt.says)
			s.nobody(b)
		})
	}
	s := newHandOff(t)
	s.Ways.HandOff.Keys = append(s.Ways.HandOff.Keys, identity.AssertionKey{Ed25519: other.Public().(ed25519.PublicKey)})
	b := s.browser()
	q := challenged(b)
	good := identity.Assertion{Audience: base, Challenge: q.Get("challenge"), Person: "ada"}
	for name, key := range map[string]string{"another key": "another secret, which nobody here has ever seen", "a public key as a secret": string(other.Public().(ed25519.PublicKey))} {
		signed, err := good.Sign([]byte(key), s.Store.Now())
		s.do(err)
		if p := b.get("/signin/callback/handoff?assertion=" + signed); p.status != 400 {
			t.Errorf("%s: %d", name, p.status)
		}
	}
	b.get("/signin/callback/handoff").want(400)
	b.get("/signin/callback/handoff?assertion=x").want(400)
	twice := s.asserts(q, "ada", nil)
	b.get(twice + "&assertion=" + twice[len("/signin/callback/handoff?assertion="):]).want(400)

	// Another browser, with a cookie of its own and without.
	victim := s.browser()
	to := s.asserts(q, "ada", nil)
	victim.get(to).want(403).says("This sign-in cannot be finished here.", "To decide about an app")
	challenged(victim)
	victim.get(to).want(403)
	s.nobody(victim)

	s.pass(identity.AssertionLifetime + time.Second)
	b.get(to).want(400) // too old
	before := b.cookies["__Host-before"]
	again := s.asserts(q, "ada", nil)
	b.get(again).follow().want(200).says("Signed in as Ada")
	delete(b.cookies, "__Host-session") // a replay in the same browser
	b.cookies["__Host-before"] = before
	b.get(again).want(403).says("it was finished before")
	b.get(s.asserts(q, "ada", nil)).want(403) // another assertion for the same challenge

	b = s.browser()
	q = challenged(b)
	s.do(s.Store.SetActive(t.Context(), "ada", false, store.Act{Actor: "operator"}))
	b.get(s.asserts(q, "ada", nil)).want(403).says("Your account is deactivated.")
	s.pass(attemptLifetime + time.Second)
	b.get(s.asserts(q, "tor", nil)).want(403).says("too long ago")
}

// Who wants another account says so to the service, which would vouch for the
// same person again.
func TestAnotherAccountByHandOff(t *testing.T) {
	s := newHandOff(t)
	b := s.browser()
	page := b.get(s.asserts(challenged(b), "nobody", nil)).want(403).says("Svalinn does not know you.")
	q := b.get(page.link("Use another account")).sent(handOffURL)
	if q.Get("switch") != "1" || q.Has("fresh") || q.Get("challenge") == "" {
		t.Errorf("the service is asked %v", q)
	}
	b.get(s.asserts(q, "ada", nil)).follow().want(200).says("Signed in as Ada Lindqvist")
}

// A provider's state is no challenge, and the other way round.
func TestAChallengeIsNoState(t *testing.T) {
	s, f := newOutside(t)
	s.Ways.HandOff = newHandOff(t).Ways.HandOff
	b := s.browser()
	page := b.get(authorize()).follow().want(200)
	state := f.asks(b.get(page.link("Continue with Corporate login")))
	challenge := b.get(page.link("Continue with Svalinn")).sent(handOffURL)
	b.get(s.asserts(url.Values{"audience": {base}, "challenge": {state.Get("state")}}, "ada", nil)).want(400).says("cannot be accepted")
	b.get(f.answers(state, "state", challenge.Get("challenge"))).want(400).says("cannot be accepted")
	s.nobody(b)
}
