package signin_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

// asked is what a site was asked to mail.
type asked struct {
	mu   sync.Mutex
	full bool
	all  []signin.Forgotten
}

func (s *site) mails() *asked {
	a := &asked{}
	s.SignIn.Forgotten = func(f signin.Forgotten) bool {
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
	s.Do(s.Store.SetActive(t.Context(), "tor", false, store.Act{Actor: "operator"}))
	s.Do(s.Store.SetPassword(t.Context(), "eve", "", store.Act{Actor: "operator"}))
	b := s.Browser()
	forgot := b.Get(b.Get("/signin").Link("Forgot your password?"))
	forgot.Want(200).Says("Enter the email of your account.")
	var first string
	for i, email := range []string{"ada@nordlys.example", "tor@nordlys.example", "eve@nowhere.example", "nobody@nordlys.example"} {
		s.From = fmt.Sprintf("198.51.100.%d", i)
		p := forgot.Press("/signin/forgot", "email", email).Want(200).Says("If an account has the address " + email + ", a mail is on its way.")
		text := signin.Varies.ReplaceAllString(strings.ReplaceAll(p.Body, email, ""), "")
		if first == "" {
			first = text
		}
		if text != first {
			t.Errorf("%s: another page", email)
		}
		if got := a.all[i]; got.Email != email || got.Back != "" || got.Act.Actor != "system" || got.Act.Address != s.From || got.Act.Reason == "" {
			t.Errorf("%s: asked %+v", email, got)
		}
	}
	forgot.Press("/signin/forgot", "email", "nonsense").Want(422).Says("Error: forgotten password", "This is not an email address.")
	forgot.Press("/signin/forgot", "email", "ada@nordlys.example", "csrf", "forged").Want(422).Says("This page was opened elsewhere.")
	b.Header.Set("Sec-Fetch-Site", "cross-site")
	forgot.Press("/signin/forgot", "email", "ada@nordlys.example").Want(403)
	b.Header.Del("Sec-Fetch-Site")
	if len(a.all) != 4 {
		t.Errorf("%d mails, want 4", len(a.all))
	}
	a.full = true
	if p := forgot.Press("/signin/forgot", "email", "ada@nordlys.example").Want(503).Says("No mail can be sent just now."); p.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if log := s.Logged.String(); strings.Contains(log, "@") {
		t.Errorf("the log has an email: %s", log)
	}
}

// Each limit, for emails that somebody has and for others, in any spelling.
func TestForgottenPasswordLimits(t *testing.T) {
	for _, email := range []string{"ada@nordlys.example", "nobody@nordlys.example"} {
		s := newSite(t)
		a := s.mails()
		page := s.Browser().Get("/signin/forgot")
		for i, n := range []int{200, 200, 200, 429} {
			s.From = fmt.Sprintf("198.51.%d.1", i)
			typed := []string{email, strings.ToUpper(email)}[i%2]
			p := page.Press("/signin/forgot", "email", typed).Want(n)
			if n == 429 && p.Says("Too many attempts. Try again in 60 minutes.").Header.Get("Retry-After") != "3600" {
				t.Errorf("Retry-After %q", p.Header.Get("Retry-After"))
			}
		}
		page.Press("/signin/forgot", "email", "x"+email).Want(200)
		if len(a.all) != 4 {
			t.Errorf("%s: %d mails", email, len(a.all))
		}
		s.Pass(time.Hour)
		page.Press("/signin/forgot", "email", email).Want(200)
	}
	s := newSite(t)
	s.mails()
	page := s.Browser().Get("/signin/forgot")
	ask := func(address string, n, want int) {
		t.Helper()
		s.From = address
		page.Press("/signin/forgot", "email", fmt.Sprintf("p%s-%d@nordlys.example", address, n)).Want(want)
	}
	for i := range 5 {
		from := fmt.Sprintf("198.51.100.%d", i)
		for n := range signin.ForgotAddress.N {
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
	if p := s.Browser().Get("/signin"); strings.Contains(p.Text(), "Forgot") {
		t.Error("there is a link to nowhere")
	}
	s.Browser().Get("/signin/forgot").Want(404)
	s.Rebrand(page.Branding{Support: "https://help.svalinn.example/password"})
	if got := s.Browser().Get("/signin").Link("Forgot your password?"); got != "https://help.svalinn.example/password" {
		t.Errorf("help is at %q", got)
	}
	s.Browser().Get("/signin/forgot").Want(404)
	a := s.mails()
	if got := s.Browser().Get("/signin").Link("Forgot your password?"); got != "/signin/forgot" {
		t.Errorf("it is at %q", got)
	}
	b := s.Browser()
	page := b.Get("/signin/forgot").Want(200)
	for name, value := range s.SignedIn("ada").Cookies {
		b.Cookies[name] = value
	}
	b.Get("/signin/forgot").Want(303)
	page.Press("/signin/forgot", "email", "tor@nordlys.example").Want(303)
	s.NoPasswords = true
	s.Browser().Get("/signin/forgot").Want(404)
	if p := s.Browser().Get("/signin"); strings.Contains(p.Text(), "Forgot") {
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
	page := s.Browser().Get("/signin/forgot").Want(200)
	s.NoPasswords = true
	page.Press("/signin/forgot", "email", "ada@nordlys.example").Want(404)
	s.NoPasswords, s.SignIn.Forgotten = false, nil
	page.Press("/signin/forgot", "email", "ada@nordlys.example").Want(404)
	if len(a.all) != 0 {
		t.Errorf("mails %v", a.all)
	}
}

// The pages keep what the person was about to do: back at the sign-in page, and in
// another language; and the title says that it is done.
func TestForgottenPasswordKeepsTheWay(t *testing.T) {
	s := newSite(t)
	s.mails()
	b := s.Browser()
	forgot := b.Get(b.Get(pagetest.Authorize()).Follow().Link("Forgot your password?")).Want(200)
	done := forgot.Press("/signin/forgot", "email", "ada@nordlys.example").Want(200)
	for _, p := range []*pagetest.Shown{forgot, done} {
		pagetest.SignIn(s.Browser().Get(p.Link("Back to signing in")), "ada@nordlys.example", pagetest.Password).Follow().Want(200).Says("An app wants")
	}
	german := done.Press("/language", "language", "de").Follow().Want(200)
	if got := german.Fill("/signin/forgot").Get("return"); s.ReturnPath(got) == "/" {
		t.Error("in another language the way is lost")
	}
	title := func(p *pagetest.Shown) string { return p.All(atom.Title)[0].FirstChild.Data }
	if title(done) == title(forgot) || strings.Contains(title(done), "Error") {
		t.Errorf("titles %q and %q", title(forgot), title(done))
	}
}

// From the consent flow and back to it, in the browser that asked and in no
// other: the link signs nobody in.
func TestForgottenPasswordInAFlow(t *testing.T) {
	s := newSite(t)
	a := s.mails()
	b := s.Browser()
	signIn := b.Get(pagetest.Authorize()).Follow()
	b.Get(signIn.Link("Forgot your password?")).Press("/signin/forgot", "email", "ada@nordlys.example").Want(200)
	back := a.all[0].Back
	if back == "" || strings.Contains(back, "st") && strings.Contains(back, "oauth") {
		t.Fatalf("back %q", back)
	}
	at := s.ResetLink("ada")
	link := at + "?back=" + url.QueryEscape(back)
	other := s.Browser()
	other.Get("/signin")
	for _, c := range []struct {
		b    *pagetest.Browser
		Href string
		ours bool
	}{{other, link, false}, {b, at, false}, {b, at + "?back=forged", false}, {b, link, true}} {
		page := c.b.Get(c.Href).Want(200)
		if c.b == b && c.ours {
			page = page.Press(at, "new", "short", "again", "short").Want(422) // kept
		} else if len(page.All(atom.Form)) == 0 {
			t.Fatal("no form")
		}
		if !c.ours {
			continue
		}
		done := page.Press(at, "new", pagetest.NewWord, "again", pagetest.NewWord).Want(200)
		if slices.ContainsFunc([]string{"session", "__Host-session"}, func(name string) bool { return c.b.Cookies[name] != "" }) {
			t.Error("the link signs in")
		}
		in := c.b.Get(done.Link("Sign in")).Want(200)
		pagetest.SignIn(in, "ada@nordlys.example", pagetest.NewWord).Follow().Want(200).Says("An app wants")
	}
	at = s.ResetLink("ada")
	link = at + "?back=" + url.QueryEscape(back)
	done := other.Get(link).Press(at, "new", pagetest.Password, "again", pagetest.Password).Want(200)
	if p := pagetest.SignIn(other.Get(done.Link("Sign in")), "ada@nordlys.example", pagetest.Password).Want(303); p.Header.Get("Location") != "/" {
		t.Errorf("another browser goes to %q", p.Header.Get("Location"))
	}
}
