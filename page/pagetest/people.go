package pagetest

import (
	"context"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// NordlysApps is the path of Connected apps there.
const NordlysApps = "/organizations/nordlys/profile/api"

// Connect gives a live approval.
func (b *Browser) Connect(changes ...string) approval.ID {
	b.Site.T.Helper()
	code := b.Get(Authorize()).Approve(changes...).Sent(Callback).Get("code")
	if v := b.Site.Exchange(code); v != approval.OK {
		b.Site.T.Fatalf("exchange: %v", v)
	}
	return approval.ID(b.Site.Claim(code).Handle.ID())
}

// NordlysSettings is the path of its AI integration.
const NordlysSettings = "/organizations/nordlys/settings/ai-integration"

// Lives reports whether an approval has not ended.
func (s *Site) Lives(id approval.ID) bool {
	s.T.Helper()
	a, err := s.Store.Check(context.Background(), id)
	return err == nil && a.Approval.Lost(a.Standing) == ""
}

// NewWord is a good password.
const NewWord = "correct horse battery"

// ResetLink makes a reset link of a person.
func (s *Site) ResetLink(person string) string {
	s.T.Helper()
	secret := page.NewCookie()
	_, err := s.Store.AddReset(context.Background(), secret, person, store.ResetLifetime, store.Act{Actor: "operator"})
	s.Do(err)
	return "/reset/" + secret
}

// SignIn types an email and a password.
func SignIn(p *Shown, email, password string) *Shown {
	p.T.Helper()
	return p.Press("/signin", "email", email, "password", password)
}

// AsAda is where support staff begin to act as Ada.
const AsAda = "/support/nordlys/ada"

// WithSupport adds Nils and Siri of the support staff.
func (s *Site) WithSupport() {
	s.T.Helper()
	s.Do(s.Store.AddDirectory(context.Background(), store.Directory{
		People: []store.DirectoryPerson{
			{Person: org.Person{ID: "nils", Email: "nils@svalinn.example", Name: "Nils Dahl", Active: true, Support: true}},
			{Person: org.Person{ID: "siri", Email: "siri@svalinn.example", Name: "Siri Vik", Active: true, Support: true}},
		},
		Members: []store.DirectoryMember{{Person: "siri", Organization: "nordlys"}},
	}, store.Act{Actor: "system"}))
}

// Acting is the browser of Nils, who sees the pages of Ada in Nordlys.
func (s *Site) Acting() *Browser {
	s.T.Helper()
	b := s.SignedIn("nils")
	b.Get(AsAda).Want(200).Press(AsAda, "reason", "ticket 17").Want(303)
	return b
}

const (
	HandOffURL    = "https://svalinn.example/grantkeeper?from=app"
	HandOffSecret = "a secret that the service has too, of 32 bytes or more"
)

// Asserts gives where the service sends the browser to, after the person signed in
// there an hour ago.
func (s *Site) Asserts(q url.Values, person string, change func(*identity.Assertion)) string {
	s.T.Helper()
	a := identity.Assertion{Audience: q.Get("audience"), Challenge: q.Get("challenge"), Person: person, AuthTime: s.Store.Now().Add(-time.Hour)}
	if change != nil {
		change(&a)
	}
	signed, err := a.Sign([]byte(HandOffSecret), s.Store.Now())
	s.Do(err)
	return "/signin/callback/handoff?assertion=" + signed
}

// Many is a form with n more fields.
func Many(form url.Values, n int) url.Values {
	out := url.Values{}
	maps.Copy(out, form)
	for i := range n {
		out.Set("x"+strconv.Itoa(i), "1")
	}
	return out
}

// Link gives where a link with this text leads.
func (p *Shown) Link(text string) string {
	p.T.Helper()
	for _, n := range p.All(atom.A) {
		if n.FirstChild != nil && strings.TrimSpace(n.FirstChild.Data) == text {
			return Attr(n, "href")
		}
	}
	p.T.Fatalf("no link %q: %s", text, p.Text())
	return ""
}

// Input gives the field of a name.
func Input(p *Shown, name string) *html.Node {
	p.T.Helper()
	for _, n := range p.All(atom.Input) {
		if Attr(n, "name") == name {
			return n
		}
	}
	p.T.Fatalf("no field %s: %s", name, p.Text())
	return nil
}
