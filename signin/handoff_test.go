package signin_test

import (
	"crypto/ed25519"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

// newHandOff is a site where people sign in at the service alone.
func newHandOff(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.NoPasswords, s.SignIn.HandOff = true, &signin.HandOff{URL: pagetest.HandOffURL, Keys: []identity.AssertionKey{{Secret: []byte(pagetest.HandOffSecret)}}}
	return s
}

// challenged goes the way of a person who was asked by an app, up to the
// service.
func challenged(b *pagetest.Browser) url.Values {
	b.Site.T.Helper()
	page := b.Get(pagetest.Authorize("state", "mine")).Follow().Want(200).Says("You sign in with Svalinn.")
	return b.Get(page.Link("Continue with Svalinn")).Sent(pagetest.HandOffURL)
}

func TestSignInByHandOff(t *testing.T) {
	s := newHandOff(t)
	b := s.Browser()
	q := challenged(b)
	if q.Get("audience") != pagetest.Base || len(q) != 2 {
		t.Errorf("the service is asked %v", q)
	}
	to := s.Asserts(q, "ada", nil)
	consent := b.Get(to).Follow().Want(200).Says("Signed in as Ada Lindqvist")
	if q := consent.Approve().Sent(pagetest.Callback); q.Get("state") != "mine" {
		t.Errorf("sent %v", q)
	}
	proof, err := s.Store.Proof(t.Context(), b.Cookies["__Host-session"])
	if want := (identity.Proof{ProvedAt: s.Store.Now().Add(-time.Hour).Unix(), Issuer: "handoff"}); err != nil || proof != want {
		t.Errorf("proof %+v %v, want %+v", proof, err, want)
	}
	if e := s.Event("signin_succeeded"); e.Detail != "handoff" {
		t.Errorf("event %+v", e)
	}
	b.Get(to).Follow().Want(200) // Back: signed in already
	if strings.Contains(s.Logged.String(), to[len("/signin/callback/handoff?assertion="):]) {
		t.Error("the log has the assertion")
	}

	b = s.Browser() // by email, and without a time
	b.Get(s.Asserts(challenged(b), "Tor@nordlys.example", func(a *identity.Assertion) { a.AuthTime = time.Time{} })).Follow().Want(200).Says("Signed in as Tor")
	if proof, err := s.Store.Proof(t.Context(), b.Cookies["__Host-session"]); err != nil || proof.ProvedAt != 1 {
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
			s.Do(err)
			b := s.Browser()
			b.Get(s.Asserts(challenged(b), "ada", tt.change)).Want(tt.status).Says(tt.says)
			s.nobody(b)
		})
	}
	s := newHandOff(t)
	s.SignIn.HandOff.Keys = append(s.SignIn.HandOff.Keys, identity.AssertionKey{Ed25519: other.Public().(ed25519.PublicKey)})
	b := s.Browser()
	q := challenged(b)
	good := identity.Assertion{Audience: pagetest.Base, Challenge: q.Get("challenge"), Person: "ada"}
	for name, key := range map[string]string{"another key": "another secret, which nobody here has ever seen", "a public key as a secret": string(other.Public().(ed25519.PublicKey))} {
		signed, err := good.Sign([]byte(key), s.Store.Now())
		s.Do(err)
		if p := b.Get("/signin/callback/handoff?assertion=" + signed); p.Status != 400 {
			t.Errorf("%s: %d", name, p.Status)
		}
	}
	b.Get("/signin/callback/handoff").Want(400)
	b.Get("/signin/callback/handoff?assertion=x").Want(400)
	twice := s.Asserts(q, "ada", nil)
	b.Get(twice + "&assertion=" + twice[len("/signin/callback/handoff?assertion="):]).Want(400)

	// Another browser, with a cookie of its own and without.
	victim := s.Browser()
	to := s.Asserts(q, "ada", nil)
	victim.Get(to).Want(403).Says("This sign-in cannot be finished here.", "To decide about an app")
	challenged(victim)
	victim.Get(to).Want(403)
	s.nobody(victim)

	s.Pass(identity.AssertionLifetime + time.Second)
	b.Get(to).Want(400) // too old
	before := b.Cookies["__Host-before"]
	again := s.Asserts(q, "ada", nil)
	b.Get(again).Follow().Want(200).Says("Signed in as Ada")
	delete(b.Cookies, "__Host-session") // a replay in the same browser
	b.Cookies["__Host-before"] = before
	b.Get(again).Want(403).Says("it was finished before")
	b.Get(s.Asserts(q, "ada", nil)).Want(403) // another assertion for the same challenge

	b = s.Browser()
	q = challenged(b)
	s.Do(s.Store.SetActive(t.Context(), "ada", false, store.Act{Actor: "operator"}))
	b.Get(s.Asserts(q, "ada", nil)).Want(403).Says("Your account is deactivated.")
	s.Pass(signin.AttemptLifetime + time.Second)
	b.Get(s.Asserts(q, "tor", nil)).Want(403).Says("too long ago")
}

// Who wants another account says so to the service, which would vouch for the
// same person again.
func TestAnotherAccountByHandOff(t *testing.T) {
	s := newHandOff(t)
	b := s.Browser()
	page := b.Get(s.Asserts(challenged(b), "nobody", nil)).Want(403).Says("Svalinn does not know you.")
	q := b.Get(page.Link("Use another account")).Sent(pagetest.HandOffURL)
	if q.Get("switch") != "1" || q.Has("fresh") || q.Get("challenge") == "" {
		t.Errorf("the service is asked %v", q)
	}
	b.Get(s.Asserts(q, "ada", nil)).Follow().Want(200).Says("Signed in as Ada Lindqvist")
}

// A provider's state is no challenge, and the other way round.
func TestAChallengeIsNoState(t *testing.T) {
	s, f := newOutside(t)
	s.SignIn.HandOff = newHandOff(t).SignIn.HandOff
	b := s.Browser()
	page := b.Get(pagetest.Authorize()).Follow().Want(200)
	state := f.Asks(b.Get(page.Link("Continue with Corporate login")))
	challenge := b.Get(page.Link("Continue with Svalinn")).Sent(pagetest.HandOffURL)
	b.Get(s.Asserts(url.Values{"audience": {pagetest.Base}, "challenge": {state.Get("state")}}, "ada", nil)).Want(400).Says("cannot be accepted")
	b.Get(f.Answers(state, "state", challenge.Get("challenge"))).Want(400).Says("cannot be accepted")
	s.nobody(b)
}
