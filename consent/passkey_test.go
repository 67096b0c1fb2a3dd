package consent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/store"
)

// withAuthenticator gives a tab whose browser has a passkey device of its own,
// on a host that can have passkeys.
func withAuthenticator(t *testing.T) *tab {
	t.Helper()
	c := newChrome(t)
	c.base = strings.Replace(c.base, "127.0.0.1", "localhost", 1)
	b := c.tab(t)
	if _, err := chromedp.Call(b.ctx, webauthn.Enable, webauthn.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(b.ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{
		Options: &webauthn.VirtualAuthenticatorOptions{Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
			HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true},
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

// answers has the device answer what a page asks for.
func (b *tab) answers(p *shown) string {
	b.t.Helper()
	for _, f := range p.all(atom.Form) {
		kind, options := attr(f, "data-passkey"), attr(f, "data-options")
		if kind == "" {
			continue
		}
		name := map[string]string{"get": "parseRequestOptionsFromJSON", "create": "parseCreationOptionsFromJSON"}[kind]
		quoted, err := json.Marshal(options)
		b.s().do(err)
		answer, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](fmt.Sprintf(
			`navigator.credentials.%s({publicKey: PublicKeyCredential.%s(JSON.parse(%s))}).then(c => JSON.stringify(c.toJSON()))`, kind, name, quoted),
			chromedp.EvalAwaitPromise))
		if err != nil {
			b.t.Fatal(err)
		}
		return answer
	}
	b.t.Fatalf("the page asks for no passkey: %s", p.text())
	return ""
}

func (b *tab) s() *site { return b.chrome.site }

// A person makes a passkey and signs in with it, by the pages and their script.
func TestPasskeyInTheBrowser(t *testing.T) {
	t.Parallel()
	b := withAuthenticator(t)
	check := b.quiet()
	b.open(b.base + "/account/sign-in")
	b.signIn()
	b.run(chromedp.WaitVisible(chromedp.CSS("form[action$='/passkey'] button")))
	b.click("form[action$='/passkey'] button")
	b.run(chromedp.WaitVisible(chromedp.CSS("[data-passkey-button]")))
	b.click("[data-passkey-button]")
	b.until("document.body.innerText.includes('Your recovery codes')")
	b.signOut()
	b.until("document.getElementById('email') !== null")
	b.open(b.authorizeURL())
	b.signIn()
	b.until("document.querySelector('h1')?.innerText === 'Second step'")
	b.click("[data-passkey-button]")
	b.run(chromedp.WaitVisible(chromedp.ID("consent")))
	check()
	if e := b.s().event("signin_succeeded"); e.Detail != "passkey" || e.Person != "ada" {
		t.Errorf("event %+v", e)
	}
}

// What the device says counts for the person, the page and the host that asked
// it, and once.
func TestPasskeys(t *testing.T) {
	b := withAuthenticator(t)
	s := b.s()
	b.open(b.base + "/signin")
	ada := s.signedIn("ada")
	making := ada.get("/account/sign-in").press("/account/sign-in/passkey").want(200)
	made := b.answers(making)
	tor := s.signedIn("tor")
	form := tor.get("/account/sign-in").press("/account/sign-in/passkey").fill("/account/sign-in/passkey/add")
	form.Set("passkey", made)
	tor.post("/account/sign-in/passkey/add", form).want(422).says("The passkey could not be used.") // of another question
	form.Set("ask", attr(input(making, "ask"), "value"))
	tor.post("/account/sign-in/passkey/add", form).want(422) // of another person
	for _, bad := range []string{"", "x", "{}", strings.Replace(made, `"type":"public-key"`, `"type":"x"`, 1)} {
		making.press("/account/sign-in/passkey/add", "passkey", bad).want(422)
	}
	making.press("/account/sign-in/passkey/add", "passkey", made).want(200).says("Your recovery codes", "Passkey")
	making.press("/account/sign-in/passkey/add", "passkey", made).want(409) // twice

	var fresh []store.Factor // the passkey as it was made
	all, err := s.Store.Factors(t.Context(), "ada")
	s.do(err)
	for _, f := range all {
		if f.Kind == store.FactorPasskey {
			fresh = append(fresh, f)
		}
	}

	second := func() *shown {
		return signin(s.browser().get("/signin"), "ada@nordlys.example", password).follow().want(200).says("Use a passkey")
	}
	p, q := second(), second()
	answer := b.answers(p)
	q.press("/signin/second", "passkey", answer).want(422).says("The code is not right.") // of another page
	for _, bad := range []string{"x", "{}", strings.Replace(answer, "signature\":\"", "signature\":\"AA", 1)} {
		p.press("/signin/second", "passkey", bad).want(422)
	}
	good := p.fill("/signin/second")
	good.Set("passkey", answer)
	before := p.b.cookies["before"]
	p.b.post("/signin/second", good).follow().want(200).says("Ada Lindqvist")
	p.b.cookies = map[string]string{"before": before}
	p.b.post("/signin/second", good).want(422) // a replay
	// And with a device that does not count, as those that several devices share.
	used, err := s.Store.Factors(t.Context(), "ada")
	s.do(err)
	for i, f := range used {
		if f.Kind == store.FactorPasskey {
			s.do(s.Store.RemoveFactor(t.Context(), "ada", f.ID, store.Act{}))
			s.do(s.Store.AddFactors(t.Context(), "ada", "", fresh, store.Act{}))
			p.b.post("/signin/second", good).want(422)
			s.do(s.Store.RemoveFactor(t.Context(), "ada", f.ID, store.Act{}))
			s.do(s.Store.AddFactors(t.Context(), "ada", "", used[i:i+1], store.Act{}))
			second := second()
			second.press("/signin/second", "passkey", b.answers(second)).want(303)
		}
	}
	all, err = s.Store.Factors(t.Context(), "ada")
	s.do(err)
	for _, f := range all {
		if used := f.UsedAt > 0 && f.Counter > 0; used != (f.Kind == store.FactorPasskey) {
			t.Errorf("factor %+v", f)
		}
	}

	// Too late, and on another host of the same server.
	p = second()
	answer = b.answers(p)
	s.pass(secondLifetime + time.Second)
	p.press("/signin/second", "passkey", answer).want(303)
	here := s.base
	s.base = base
	elsewhere := signin(s.browser().get("/signin"), "ada@nordlys.example", password).follow().want(200)
	if strings.Contains(elsewhere.text(), "Use a passkey") {
		t.Error("a passkey of another host is asked for")
	}
	elsewhere.press("/signin/second", "passkey", answer, "ask", attr(input(p, "ask"), "value")).want(422)

	// To sign in again it stands for the code, beside the password.
	s.base = here
	s.Ways.Strong = StrengthFactor
	p = second()
	home := p.press("/signin/second", "passkey", b.answers(p)).follow().want(200)
	s.pass(DefaultFresh)
	again := home.b.get(authorize()).approve().follow().want(200).says("Confirm that it is you", "Use a passkey")
	again.press("/signin/again", "passkey", b.answers(again), "password", "wrong").want(422)
	again = home.b.get(authorize()).approve().follow()
	again.press("/signin/again", "passkey", b.answers(again), "password", password).follow().want(200).approve().sent(callback)
}

// Where there can be no passkeys, the page says why, and offers none.
func TestNoPasskeysAtAnAddress(t *testing.T) {
	for base, address := range map[string]bool{"http://127.0.0.1:8080": true, "http://[::1]:8080": true, "http://localhost:8080": false, "https://app.svalinn.example": false} {
		s := newSite(t)
		s.base = base
		p := s.signedIn("ada").get("/account/sign-in").want(200)
		if told := strings.Contains(p.text(), "Passkeys need a domain name; this address is an IP address."); told != address {
			t.Errorf("%s: says that it is an address: %v", base, told)
		}
		if offered := strings.Contains(p.text(), "Add a passkey"); offered == address {
			t.Errorf("%s: offers passkeys: %v", base, offered)
		}
	}
}
