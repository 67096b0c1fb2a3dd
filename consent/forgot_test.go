package consent

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/store"
)

// asked is what a site was asked to mail.
type asked struct {
	mu   sync.Mutex
	full bool
	all  []Forgotten
}

func (s *site) mails() *asked {
	a := &asked{}
	s.Forgotten = func(f Forgotten) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all = append(a.all, f)
		return !a.full
	}
	return a
}

// Decision S6: the answer is the same whoever has the email, and nothing is
// looked up for it.
func TestForgottenPassword(t *testing.T) {
	s := newSite(t)
	a := s.mails()
	s.do(s.Store.SetActive(t.Context(), "tor", false, store.Act{Actor: "operator"}))
	s.do(s.Store.SetPassword(t.Context(), "eve", "", store.Act{Actor: "operator"}))
	b := s.browser()
	forgot := b.get(b.get("/signin").link("Forgot your password?"))
	forgot.want(200).says("Enter the email of your account.")
	var first string
	for i, email := range []string{"ada@nordlys.example", "tor@nordlys.example", "eve@nowhere.example", "nobody@nordlys.example"} {
		s.address = fmt.Sprintf("198.51.100.%d", i)
		p := forgot.press("/signin/forgot", "email", email).want(200).says("If an account has the address " + email + ", a mail is on its way.")
		text := varies.ReplaceAllString(strings.ReplaceAll(p.body, email, ""), "")
		if first == "" {
			first = text
		}
		if text != first {
			t.Errorf("%s: another page", email)
		}
		if got := a.all[i]; got.Email != email || got.Back != "" || got.Act.Actor != "system" || got.Act.Address != s.address || got.Act.Reason == "" {
			t.Errorf("%s: asked %+v", email, got)
		}
	}
	forgot.press("/signin/forgot", "email", "nonsense").want(422).says("Error: forgotten password", "This is not an email address.")
	forgot.press("/signin/forgot", "email", "ada@nordlys.example", "csrf", "forged").want(422).says("This page was opened elsewhere.")
	b.header.Set("Sec-Fetch-Site", "cross-site")
	forgot.press("/signin/forgot", "email", "ada@nordlys.example").want(403)
	b.header.Del("Sec-Fetch-Site")
	if len(a.all) != 4 {
		t.Errorf("%d mails, want 4", len(a.all))
	}
	a.full = true
	if p := forgot.press("/signin/forgot", "email", "ada@nordlys.example").want(503).says("No mail can be sent just now."); p.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if log := s.log.String(); strings.Contains(log, "@") {
		t.Errorf("the log has an email: %s", log)
	}
}

// Each limit, for emails that somebody has and for others, in any spelling.
func TestForgottenPasswordLimits(t *testing.T) {
	for _, email := range []string{"ada@nordlys.example", "nobody@nordlys.example"} {
		s := newSite(t)
		a := s.mails()
		page := s.browser().get("/signin/forgot")
		for i, n := range []int{200, 200, 200, 429} {
			s.address = fmt.Sprintf("198.51.%d.1", i)
			typed := []string{email, strings.ToUpper(email)}[i%2]
			p := page.press("/signin/forgot", "email", typed).want(n)
			if n == 429 && p.says("Too many attempts. Try again in 60 minutes.").header.Get("Retry-After") != "3600" {
				t.Errorf("Retry-After %q", p.header.Get("Retry-After"))
			}
		}
		page.press("/signin/forgot", "email", "x"+email).want(200)
		if len(a.all) != 4 {
			t.Errorf("%s: %d mails", email, len(a.all))
		}
		s.pass(time.Hour)
		page.press("/signin/forgot", "email", email).want(200)
	}
	s := newSite(t)
	s.mails()
	page := s.browser().get("/signin/forgot")
	ask := func(address string, n, want int) {
		t.Helper()
		s.address = address
		page.press("/signin/forgot", "email", fmt.Sprintf("p%s-%d@nordlys.example", address, n)).want(want)
	}
	for i := range 5 {
		from := fmt.Sprintf("198.51.100.%d", i)
		for n := range forgotAddress.N {
			ask(from, n, 200)
		}
		ask(from, 99, 429)
	}
	ask("198.51.100.5", 0, 429) // of the same network
	ask("198.51.101.5", 0, 200)
}

// Where links are not mailed there is the address of help, or nothing; where
// people have no passwords here there is nothing at all; and who is signed in,
// as themselves or as somebody else, goes on.
func TestForgottenPasswordElsewhere(t *testing.T) {
	s := newSite(t)
	if p := s.browser().get("/signin"); strings.Contains(p.text(), "Forgot") {
		t.Error("there is a link to nowhere")
	}
	s.browser().get("/signin/forgot").want(404)
	s.Rebrand(Branding{Support: "https://help.svalinn.example/password"})
	if got := s.browser().get("/signin").link("Forgot your password?"); got != "https://help.svalinn.example/password" {
		t.Errorf("help is at %q", got)
	}
	s.browser().get("/signin/forgot").want(404)
	a := s.mails()
	if got := s.browser().get("/signin").link("Forgot your password?"); got != "/signin/forgot" {
		t.Errorf("it is at %q", got)
	}
	b := s.browser()
	page := b.get("/signin/forgot").want(200)
	for name, value := range s.signedIn("ada").cookies {
		b.cookies[name] = value
	}
	b.get("/signin/forgot").want(303)
	page.press("/signin/forgot", "email", "tor@nordlys.example").want(303)
	s.Ways.NoPasswords = true
	s.browser().get("/signin/forgot").want(404)
	if p := s.browser().get("/signin"); strings.Contains(p.text(), "Forgot") {
		t.Error("a password can be forgotten that nobody has")
	}
	if len(a.all) != 0 {
		t.Errorf("mails %v", a.all)
	}
}

// Where no link is mailed, none can be asked for by a page that was open either.
func TestForgottenPasswordOfAnOpenPage(t *testing.T) {
	s := newSite(t)
	a := s.mails()
	page := s.browser().get("/signin/forgot").want(200)
	s.Ways.NoPasswords = true
	page.press("/signin/forgot", "email", "ada@nordlys.example").want(404)
	s.Ways.NoPasswords, s.Forgotten = false, nil
	page.press("/signin/forgot", "email", "ada@nordlys.example").want(404)
	if len(a.all) != 0 {
		t.Errorf("mails %v", a.all)
	}
}

// The pages keep what the person was about to do: back at the sign-in page, and in
// another language; and the title says that it is done.
func TestForgottenPasswordKeepsTheWay(t *testing.T) {
	s := newSite(t)
	s.mails()
	b := s.browser()
	forgot := b.get(b.get(authorize()).follow().link("Forgot your password?")).want(200)
	done := forgot.press("/signin/forgot", "email", "ada@nordlys.example").want(200)
	for _, p := range []*shown{forgot, done} {
		signin(s.browser().get(p.link("Back to signing in")), "ada@nordlys.example", password).follow().want(200).says("An app wants")
	}
	german := done.press("/language", "language", "de").follow().want(200)
	if got := german.fill("/signin/forgot").Get("return"); s.returnPath(got) == "/" {
		t.Error("in another language the way is lost")
	}
	title := func(p *shown) string { return p.all(atom.Title)[0].FirstChild.Data }
	if title(done) == title(forgot) || strings.Contains(title(done), "Error") {
		t.Errorf("titles %q and %q", title(forgot), title(done))
	}
}

// From the consent flow and back to it, in the browser that asked and in no
// other: the link signs nobody in.
func TestForgottenPasswordInAFlow(t *testing.T) {
	s := newSite(t)
	a := s.mails()
	b := s.browser()
	signIn := b.get(authorize()).follow()
	b.get(signIn.link("Forgot your password?")).press("/signin/forgot", "email", "ada@nordlys.example").want(200)
	back := a.all[0].Back
	if back == "" || strings.Contains(back, "st") && strings.Contains(back, "oauth") {
		t.Fatalf("back %q", back)
	}
	at := s.link("ada")
	link := at + "?back=" + url.QueryEscape(back)
	other := s.browser()
	other.get("/signin")
	for _, c := range []struct {
		b    *browser
		link string
		ours bool
	}{{other, link, false}, {b, at, false}, {b, at + "?back=forged", false}, {b, link, true}} {
		page := c.b.get(c.link).want(200)
		if c.b == b && c.ours {
			page = page.press(at, "new", "short", "again", "short").want(422) // kept
		} else if len(page.all(atom.Form)) == 0 {
			t.Fatal("no form")
		}
		if !c.ours {
			continue
		}
		done := page.press(at, "new", newWord, "again", newWord).want(200)
		if slices.ContainsFunc([]string{"session", "__Host-session"}, func(name string) bool { return c.b.cookies[name] != "" }) {
			t.Error("the link signs in")
		}
		in := c.b.get(done.link("Sign in")).want(200)
		signin(in, "ada@nordlys.example", newWord).follow().want(200).says("An app wants")
	}
	at = s.link("ada")
	link = at + "?back=" + url.QueryEscape(back)
	done := other.get(link).press(at, "new", password, "again", password).want(200)
	if p := signin(other.get(done.link("Sign in")), "ada@nordlys.example", password).want(303); p.header.Get("Location") != "/" {
		t.Errorf("another browser goes to %q", p.header.Get("Location"))
	}
}
