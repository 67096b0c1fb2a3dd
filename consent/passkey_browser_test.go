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

	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

// withAuthenticator gives a tab whose browser has a passkey device of its own,
// on a host that can have passkeys.
func withAuthenticator(t *testing.T) *tab {
	t.Helper()
	c := newChrome(t)
	c.At = strings.Replace(c.At, "127.0.0.1", "localhost", 1)
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
func (b *tab) answers(p *pagetest.Shown) string {
	b.t.Helper()
	for _, f := range p.All(atom.Form) {
		kind, options := pagetest.Attr(f, "data-passkey"), pagetest.Attr(f, "data-options")
		if kind == "" {
			continue
		}
		name := map[string]string{"get": "parseRequestOptionsFromJSON", "create": "parseCreationOptionsFromJSON"}[kind]
		quoted, err := json.Marshal(options)
		b.s().Do(err)
		answer, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](fmt.Sprintf(
			`navigator.credentials.%s({publicKey: PublicKeyCredential.%s(JSON.parse(%s))}).then(c => JSON.stringify(c.toJSON()))`, kind, name, quoted),
			chromedp.EvalAwaitPromise))
		if err != nil {
			b.t.Fatal(err)
		}
		return answer
	}
	b.t.Fatalf("the page asks for no passkey: %s", p.Text())
	return ""
}

func (b *tab) s() *site { return b.chrome.site }

// A person makes a passkey and signs in with it, by the pages and their script.
func TestPasskeyInTheBrowser(t *testing.T) {
	t.Parallel()
	b := withAuthenticator(t)
	check := b.quiet()
	b.open(b.At + "/account/sign-in")
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
	if e := b.s().Event("signin_succeeded"); e.Detail != "passkey" || e.Person != "ada" {
		t.Errorf("event %+v", e)
	}
}

// What the device says counts for the person, the page and the host that asked
// it, and once.
func TestPasskeys(t *testing.T) {
	b := withAuthenticator(t)
	s := b.s()
	b.open(b.At + "/signin")
	ada := s.SignedIn("ada")
	making := ada.Get("/account/sign-in").Press("/account/sign-in/passkey").Want(200)
	made := b.answers(making)
	tor := s.SignedIn("tor")
	form := tor.Get("/account/sign-in").Press("/account/sign-in/passkey").Fill("/account/sign-in/passkey/add")
	form.Set("passkey", made)
	tor.Post("/account/sign-in/passkey/add", form).Want(422).Says("No passkey was added. Try again, unless this device has one already.") // of another question
	form.Set("ask", pagetest.Attr(pagetest.Input(making, "ask"), "value"))
	tor.Post("/account/sign-in/passkey/add", form).Want(422) // of another person
	for _, bad := range []string{"", "x", "{}", strings.Replace(made, `"type":"public-key"`, `"type":"x"`, 1)} {
		making.Press("/account/sign-in/passkey/add", "passkey", bad).Want(422)
	}
	making.Press("/account/sign-in/passkey/add", "passkey", made).Want(200).Says("Your recovery codes", "Passkey")
	making.Press("/account/sign-in/passkey/add", "passkey", made).Want(200).Says("Your recovery codes", "10 recovery codes are left.") // pressed twice

	var fresh []store.Factor // the passkey as it was made
	all, err := s.Store.Factors(t.Context(), "ada")
	s.Do(err)
	for _, f := range all {
		if f.Kind == store.FactorPasskey {
			fresh = append(fresh, f)
		}
	}

	second := func() *pagetest.Shown {
		return pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow().Want(200).Says("Use a passkey")
	}
	p, q := second(), second()
	answer := b.answers(p)
	q.Press("/signin/second", "passkey", answer).Want(422).Says("The code is not right.") // of another page
	for _, bad := range []string{"x", "{}", strings.Replace(answer, "signature\":\"", "signature\":\"AA", 1)} {
		p.Press("/signin/second", "passkey", bad).Want(422)
	}
	good := p.Fill("/signin/second")
	good.Set("passkey", answer)
	before := p.B.Cookies["before"]
	p.B.Post("/signin/second", good).Follow().Want(200).Says("Ada Lindqvist")
	p.B.Cookies = map[string]string{"before": before}
	p.B.Post("/signin/second", good).Want(422) // a replay
	// And with a device that does not count, as those that several devices share.
	used, err := s.Store.Factors(t.Context(), "ada")
	s.Do(err)
	for i, f := range used {
		if f.Kind == store.FactorPasskey {
			s.Do(s.Store.RemoveFactor(t.Context(), "ada", "", f.ID, store.Act{}))
			s.Do(s.Store.AddFactors(t.Context(), "ada", "", fresh, store.Act{}))
			p.B.Post("/signin/second", good).Want(422)
			s.Do(s.Store.RemoveFactor(t.Context(), "ada", "", f.ID, store.Act{}))
			s.Do(s.Store.AddFactors(t.Context(), "ada", "", used[i:i+1], store.Act{}))
			second := second()
			second.Press("/signin/second", "passkey", b.answers(second)).Want(303)
		}
	}
	all, err = s.Store.Factors(t.Context(), "ada")
	s.Do(err)
	for _, f := range all {
		if used := f.UsedAt > 0 && f.Counter > 0; used != (f.Kind == store.FactorPasskey) {
			t.Errorf("factor %+v", f)
		}
	}

	// Too late, and on another host of the same server.
	p = second()
	answer = b.answers(p)
	s.Pass(10*time.Minute + time.Second)
	p.Press("/signin/second", "passkey", answer).Want(303)
	here := s.At
	s.At = pagetest.Base
	elsewhere := pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow().Want(200)
	if strings.Contains(elsewhere.Text(), "Use a passkey") {
		t.Error("a passkey of another host is asked for")
	}
	elsewhere.Press("/signin/second", "passkey", answer, "ask", pagetest.Attr(pagetest.Input(p, "ask"), "value")).Want(422)

	// To sign in again it stands for the code, beside the password.
	s.At = here
	s.SignIn.Strong = signin.StrengthFactor
	p = second()
	home := p.Press("/signin/second", "passkey", b.answers(p)).Follow().Want(200)
	s.Pass(signin.DefaultFresh)
	again := home.B.Get(pagetest.Authorize()).Approve().Follow().Want(200).Says("Confirm that it is you", "Use a passkey")
	again.Press("/signin/again", "passkey", b.answers(again), "password", "wrong").Want(422)
	again = home.B.Get(pagetest.Authorize()).Approve().Follow()
	again.Press("/signin/again", "passkey", b.answers(again), "password", pagetest.Password).Follow().Want(200).Approve().Sent(pagetest.Callback)
}

// Where there can be no passkeys, the page says why, and offers none.
func TestNoPasskeysAtAnAddress(t *testing.T) {
	for base, address := range map[string]bool{"http://127.0.0.1:8080": true, "http://[::1]:8080": true, "http://localhost:8080": false, "https://app.svalinn.example": false} {
		s := newSite(t)
		s.At = base
		p := s.SignedIn("ada").Get("/account/sign-in").Want(200)
		if told := strings.Contains(p.Text(), "Passkeys need a domain name; this address is an IP address."); told != address {
			t.Errorf("%s: says that it is an address: %v", base, told)
		}
		if offered := strings.Contains(p.Text(), "Add a passkey"); offered == address {
			t.Errorf("%s: offers passkeys: %v", base, offered)
		}
	}
}
