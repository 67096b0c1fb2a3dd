package consent

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// rulesFor sets the rules of an organization, in place of those that it has.
func (s *site) rulesFor(organization, by string, p policy.Policy) {
	s.T.Helper()
	old, err := s.Store.Policy(context.Background(), organization)
	s.Do(err)
	r := store.Rules{Organization: organization, Policy: p}
	if old != nil {
		r.Seen = old.Version
	}
	_, _, err = s.Store.SetPolicy(context.Background(), r, store.Act{Actor: by})
	s.Do(err)
}

// open lists the requests that wait in an organization.
func (s *site) open(organization string) []store.Request {
	s.T.Helper()
	all, _, err := s.Store.Requests(context.Background(), store.RequestFilter{Organization: organization})
	s.Do(err)
	return all
}

// decide decides the request that waits in Nordlys.
func (s *site) decides(state store.RequestState, reason string) {
	s.T.Helper()
	_, err := s.Store.DecideRequest(context.Background(), store.Decision{Organization: "nordlys", Request: s.open("nordlys")[0].ID, Admin: "ada",
		State: state, Reason: reason}, store.Act{Actor: "person:ada"})
	s.Do(err)
}

// asksFirst has rules by which an admin of Nordlys must allow every app, and Tor there.
func asksFirst(t testing.TB) (*site, *pagetest.Browser) {
	t.Helper()
	s := newSite(t)
	s.rulesFor("nordlys", "person:ada", policy.Policy{Unknown: policy.Ask})
	return s, s.SignedIn("tor")
}

// Whoever asks gets a page that says who has it; what the app learns is that there
// is no access, and nothing is stored before the button (decision A13).
func TestAsk(t *testing.T) {
	s, tor := asksFirst(t)
	p := tor.Get(pagetest.Authorize()).Want(200).Says("An admin must allow this app first",
		"In Nordlys Cooperative, an admin decides before anybody connects a new app. Asking gives the app nothing.", "Did you start this yourself, just now, at quill.example?", "choose Cancel and do not ask.")
	if len(s.open("nordlys")) != 0 || len(p.All(atom.Select)) != 0 {
		t.Error("looking has asked, or something can be approved")
	}
	sent := p.Press("/oauth/authorize", "decision", "ask", "message", " Line one\r\nline <b>two</b> “\u202e ")
	if to := sent.Header.Get("Location"); !strings.HasPrefix(to, "/oauth/authorize/asked?") {
		t.Fatalf("asking leads to %q", to)
	}
	page := sent.Follow().Want(200).Says("Your request is sent", "The admins of Nordlys Cooperative have it: Ada Lindqvist.", "line <b>two</b>",
		"you see it by starting again in the app", "Today at 10:00", "if they allow it, start again in the app")
	if strings.Contains(page.Text(), "email") {
		t.Error("an email is promised where none is sent")
	}
	all := s.open("nordlys")
	if len(all) != 1 || all[0].Person != "tor" || all[0].Host != "connect.quill.example" || all[0].Message != "Line one\nline <b>two</b> “\u202e" {
		t.Fatalf("stored %+v", all)
	}
	s.Mails = true
	again := tor.Get(pagetest.Authorize()).Want(200).Says("Your request is sent", "You get an email when one of them has decided.")
	p.Press("/oauth/authorize", "decision", "ask", "message", "once more").Follow().Says("Line one")
	p.Press("/oauth/authorize", "decision", "approve", "grant", "everything").Want(200).Says("Your request is sent")
	if len(s.open("nordlys")) != 1 || len(s.Approvals("tor")) != 0 {
		t.Error("a second request, or an approval")
	}
	back := again.Press("/oauth/authorize", "decision", "cancel").Sent(pagetest.Callback)
	if back.Get("error") != "access_denied" || back.Get("state") != "st" || len(back) != 4 {
		t.Errorf("the app is told %v", back)
	}
	if len(s.open("nordlys")) != 1 {
		t.Error("going back has taken the request back")
	}
}

// A request can be taken back, by whose it is, as often as they like.
func TestWithdraw(t *testing.T) {
	s, tor := asksFirst(t)
	first := tor.Get(pagetest.Authorize())
	sent := first.Press("/oauth/authorize", "decision", "ask").Follow().Want(200)
	ada := s.SignedIn("ada").Get(pagetest.Authorize())
	ada.Press("/oauth/authorize", "organization", "nordlys", "decision", "withdraw").Want(303)
	if len(s.open("nordlys")) != 1 {
		t.Fatal("somebody else has taken it back")
	}
	sent.Press("/oauth/authorize", "decision", "withdraw").Follow().Want(200).Says("Your request is withdrawn.", "What do you need it for?")
	sent.Press("/oauth/authorize", "decision", "withdraw").Follow().Want(200)
	if len(s.open("nordlys")) != 0 {
		t.Error("it is still there")
	}
	first.Press("/oauth/authorize", "decision", "ask").Follow().Want(200).Says("Your request is sent")
}

// What an admin declined says who, when and why, and can be asked for again after 30
// days, not before; what they allowed leads to the consent page.
func TestDecided(t *testing.T) {
	s, known := newSite(t), pagetest.Authorize("client_id", "assistant", "redirect_uri", "https://assistant.example/cb")
	s.rulesFor("nordlys", "person:ada", policy.Policy{Known: policy.Ask})
	tor := s.SignedIn("tor")
	first := tor.Get(known)
	asked := first.Press("/oauth/authorize", "decision", "ask").Header.Get("Location")
	s.decides(store.RequestDeclined, "It keeps <i>copies</i>.")
	const who = "Ada Lindqvist declined it on 21 November 2026: “It keeps <i>copies</i>.”"
	p := tor.Get(asked).Want(200).Says("An admin must allow this app first", who, "You can ask again from 21 December 2026.")
	if len(p.All(atom.Textarea)) != 0 {
		t.Error("it can be asked for at once")
	}
	first.Press("/oauth/authorize", "decision", "ask").Want(409).Says(who)
	s.Pass(30*24*time.Hour - time.Minute)
	tor = s.SignedIn("tor")
	early := tor.Get(known).Says("You can ask again from")
	early.Press("/oauth/authorize", "organization", "nordlys", "decision", "ask").Want(409)
	s.Pass(2 * time.Minute)
	tor.Get(known).Says(who, "What do you need it for?").Press("/oauth/authorize", "decision", "ask").Follow().Says("Your request is sent")
	s.decides(store.RequestAllowedPerson, "")
	tor.Get(asked).Follow().Want(200).Says("An app wants to use your Svalinn account")
	s.SignedIn("ada").Get(known).Want(200).Says("an admin must allow this app first; you can ask")
}

// What is wrong with a message, or with how it comes, asks nobody.
func TestAskRefuses(t *testing.T) {
	s, tor := asksFirst(t)
	p := tor.Get(pagetest.Authorize())
	for message, says := range map[string]string{
		strings.Repeat("ü", 501): "too long: at most 500 characters", "a\x00b": "a character that is none", "a\tb": "a character that is none", "\xff": "a character that is none", "a\rb": "a character that is none",
	} {
		got := p.Press("/oauth/authorize", "decision", "ask", "message", message).Want(422).Says(says)
		if title := pagetest.Attr(got.All(atom.Textarea)[0], "aria-invalid"); title != "true" {
			t.Error("the field is not marked")
		}
	}
	form := p.Fill("/oauth/authorize")
	csrf := form.Get("csrf")
	form.Del("csrf")
	form.Set("decision", "ask")
	form.Set("message", "x")
	tor.Post("/oauth/authorize", form).Want(403).Says("Check your choices", "What do you need it for?")
	form.Set("csrf", csrf)
	form.Set("organization", "fjell") // where Tor is no member
	tor.Post("/oauth/authorize", form).Want(200)
	form.Set("organization", "nordlys")
	s.SignedIn("ada").Post("/oauth/authorize", form).Want(409)
	s.Browser().Post("/oauth/authorize", form).Want(303)
	tor.Header.Set("Origin", "https://evil.example")
	tor.Post("/oauth/authorize", form).Want(403)
	tor.Header.Del("Origin")
	s.Pass(31 * time.Minute)
	tor.Post("/oauth/authorize", form).Want(200).Says("This page was open for a long time.")
	if len(s.open("nordlys")) != 0 {
		t.Fatal("somebody was asked")
	}
	s.rulesFor("nordlys", "person:ada", policy.Policy{})
	p = s.SignedIn("tor").Get(pagetest.Authorize()).Says("An app wants to use")
	p.Press("/oauth/authorize", "decision", "ask", "grant", "everything").Want(200).Says("An app wants to use")
	if len(s.open("nordlys"))+len(s.Approvals("tor")) != 0 {
		t.Error("asked, or approved, where nobody has to be asked")
	}
}

// What was written is kept through signing in again, and the page comes back with it.
func TestAskAfterSigningIn(t *testing.T) {
	s, tor := asksFirst(t)
	p := tor.Get(pagetest.Authorize())
	s.Do(s.Store.EndSession(t.Context(), tor.Cookies[tor.CookieName("session")]))
	in := p.Press("/oauth/authorize", "decision", "ask", "message", "for the figures").Follow().Want(200)
	back := pagetest.SignIn(in, "tor@nordlys.example", pagetest.Password).Follow().Want(200).Says("An admin must allow this app first")
	if text := back.All(atom.Textarea)[0].FirstChild; text == nil || strings.TrimSpace(text.Data) != "for the figures" {
		t.Error("what was written is lost")
	}
}

// Support staff ask nobody as somebody else.
func TestAskActing(t *testing.T) {
	s, _ := asksFirst(t)
	s.WithSupport()
	nils := s.SignedIn("nils")
	nils.Get(pagetest.AsAda).Press(pagetest.AsAda, "reason", "ticket 17").Want(303)
	p := nils.Get(pagetest.Authorize()).Want(403)
	p.Press("/oauth/authorize", "organization", "nordlys", "decision", "ask").Want(403).Says("can approve apps for this account")
	nils.Get(strings.Replace(pagetest.Authorize(), "authorize?", "authorize/asked?", 1) + "&organization=nordlys").Want(403)
	if len(s.open("nordlys")) != 0 {
		t.Error("support staff have asked")
	}
}

// What support staff read as somebody makes no link by which that person finds choices
// made that they did not make.
func TestActingChoosesNothing(t *testing.T) {
	s := newSite(t)
	s.WithSupport()
	nils := s.SignedIn("nils")
	nils.Get(pagetest.AsAda).Press(pagetest.AsAda, "reason", "ticket 17").Want(303)
	sent := func(b *pagetest.Browser) url.Values {
		form := b.Get(pagetest.Authorize()).Fill("/oauth/authorize")
		form.Set("organization", "nordlys")
		form.Set("grant", "everything")
		return form
	}
	ada := s.SignedIn("ada")
	for who, tt := range map[string]struct {
		form url.Values
		want string
	}{"staff": {sent(nils), "roles"}, "Ada": {sent(ada), "everything"}} {
		to, err := url.Parse(s.Browser().Post("/oauth/authorize", tt.form).Want(303).Header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		if got := ada.Get(s.ReturnPath(to.Query().Get("return"))).Want(200).Fill("/oauth/authorize").Get("grant"); got != tt.want {
			t.Errorf("by a link of %s: %q is chosen, want %q", who, got, tt.want)
		}
	}
}

// An organization without an admin says that nobody can allow it, and whom to write to.
func TestAskNobody(t *testing.T) {
	s, _ := asksFirst(t)
	s.Do(s.Store.SetAdmin(t.Context(), "nordlys", "ada", false, store.Act{Actor: "operator"}))
	tor := s.SignedIn("tor")
	p := tor.Get(pagetest.Authorize()).Want(200).Says("Nordlys Cooperative has no admin, so nobody can allow it.", "choose Cancel.")
	if len(p.All(atom.Textarea)) != 0 {
		t.Error("it can be asked for")
	}
	p.Press("/oauth/authorize", "decision", "ask").Want(200)
	if len(s.open("nordlys")) != 0 {
		t.Error("nobody was asked")
	}
	b := s.Pages.Branding
	b.Support = "https://help.example/"
	s.Pages.Rebrand(b)
	tor.Get(pagetest.Authorize()).Says("write to the support of Svalinn.")
}

// The page of a request leads nowhere for whoever has none.
func TestAskedElsewhere(t *testing.T) {
	s, tor := asksFirst(t)
	at := strings.Replace(pagetest.Authorize(), "authorize?", "authorize/asked?", 1)
	tor.Get(at + "&organization=nordlys").Want(200).Says("What do you need it for?")
	tor.Get(at + "&organization=fjell").Follow().Want(200)
	tor.Get(at).Follow().Want(200)
	s.Browser().Get(at + "&organization=nordlys").Want(303)
	tor.Get("/oauth/authorize/asked").Want(400)
}

// One app at a host is asked for at a time: the page is of that one.
func TestAskedUnderAnotherName(t *testing.T) {
	s, tor := asksFirst(t)
	tor.Get(pagetest.Authorize()).Press("/oauth/authorize", "decision", "ask").Want(303)
	s.Register(client.Client{ID: "other", Name: "Other Name", RedirectURIs: []string{pagetest.Callback}})
	p := tor.Get(pagetest.Authorize("client_id", "other")).Want(200).Says("Your request is sent", "Quill Assistant")
	if strings.Contains(p.Text(), "Other Name") {
		t.Error("it names an app that was not asked for")
	}
}

// In one of several organizations an admin is asked first.
func TestAskAmongSeveral(t *testing.T) {
	s, _ := asksFirst(t)
	ada := s.SignedIn("ada")
	p := ada.Get(pagetest.Authorize()).Want(200).Says("You are an admin · an admin must allow this app first; you can ask", "Ask an admin…")
	p.Press("/oauth/authorize", "organization", "nordlys", "action", "ask").Want(200).Says("What do you need it for?").
		Press("/oauth/authorize", "decision", "ask").Follow().Says("Your request is sent")
	p.Press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "decision", "approve").Want(200).Says("Your request is sent")
	p.Press("/oauth/authorize", "organization", "fjell", "grant", "roles", "role:reviewer", "read", "decision", "approve").Want(303).Sent(pagetest.Callback)
}

// rulePages visits the pages of an organization that has rules, and leaves none.
func (s *site) rulePages(visit func(name string, flow bool, p *pagetest.Shown)) {
	s.T.Helper()
	ada, tor := s.SignedIn("ada"), s.SignedIn("tor")
	full := grantset.Ceiling{Widest: grantset.Roles, ReadOnly: true, NoPersonal: true, Never: []string{"treasurer"}}
	id := ada.Connect("grant", "organization")
	tor.Connect("grant", "roles", "role:secretary", "change", "personal", "1")
	s.rulesFor("nordlys", "person:ada", policy.Policy{Ceiling: full, MaxDays: 14})
	s.rulesFor("fjell", "person:ada", policy.Policy{Apps: []policy.App{blocks("")}})
	p := ada.Get(pagetest.Authorize()).Want(200)
	visit("consent under ceilings and a block", true, p)
	visit("consent beyond a ceiling", true, p.Approve("grant", "everything").Want(422))
	visit("consent beyond a bound", true, p.Approve("grant", "roles", "role:buddy", "read", "ends", "30").Want(422))
	visit("consent under ceilings, of one", true, tor.Get(pagetest.Authorize()).Want(200))
	visit("connected apps, narrowed", false, ada.Get(pagetest.NordlysApps).Want(200))
	visit("edit, narrowed", false, ada.Get(editPath("nordlys", id)).Want(200))
	s.rulesFor("nordlys", "person:ada", policy.Policy{Unknown: policy.Ask})
	visit("asking among several", true, ada.Get(pagetest.Authorize()).Want(200))
	ask := tor.Get(pagetest.Authorize()).Want(200)
	visit("asking", true, ask)
	visit("asking with a fault", true, ask.Press("/oauth/authorize", "decision", "ask", "message", strings.Repeat("x", 501)).Want(422))
	sent := ask.Press("/oauth/authorize", "decision", "ask", "message", "For the quarterly figures.").Follow().Want(200)
	visit("asked", true, sent)
	visit("asking, withdrawn", true, sent.Press("/oauth/authorize", "decision", "withdraw").Follow().Want(200))
	ask.Press("/oauth/authorize", "decision", "ask").Want(303)
	s.decides(store.RequestDeclined, "It keeps copies.")
	visit("asking, declined", true, tor.Get(pagetest.Authorize()).Want(200))
	s.rulesFor("nordlys", "person:ada", policy.Policy{Apps: []policy.App{blocks("It keeps copies of our minutes."),
		{Host: "assistant.example", Name: "Assistant Connector", Rule: policy.Allow}, {Host: "scribe.example", Name: "Meeting Scribe", Rule: policy.Allow}}})
	visit("blocked", true, tor.Get(pagetest.Authorize()).Want(403))
	visit("blocked in all", true, ada.Get(pagetest.Authorize()).Want(403))
	visit("ended by a block", false, tor.Get(pagetest.NordlysApps).Want(200))
	s.rulesFor("nordlys", "person:ada", policy.Policy{})
	s.rulesFor("fjell", "person:ada", policy.Policy{})
}

// What is told of an attempt names an organization of the person's, whatever a form says:
// admins of the one that it names see attempts in it.
func TestAttemptsNameTheOwnOrganizations(t *testing.T) {
	s := newSite(t)
	ask := pagetest.Authorize()
	tor := s.SignedIn("tor")
	for chosen, want := range map[string]string{"fjell": "", strings.Repeat("x", 100_000): "", "nordlys": "nordlys"} {
		var seen []attempt.Observation
		s.Seen = func(_ *http.Request, o attempt.Observation) { seen = append(seen, o) }
		form := tor.Get(ask).Want(200).Fill("/oauth/authorize")
		form.Set("organization", chosen)
		form.Set("decision", "preview")
		seen = nil
		tor.Post("/oauth/authorize", form)
		if len(seen) == 0 {
			t.Errorf("%.20s: nothing is told", chosen)
		}
		for _, o := range seen {
			if o.Organization != want {
				t.Errorf("%.20s is chosen: told of %.20q, want %q", chosen, o.Organization, want)
			}
		}
	}
}
