package signin_test

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

// Decision P9: from a page of their own, with a reason, shown on every page,
// and back. The session has another value each time.
func TestActAs(t *testing.T) {
	s := newSite(t)
	s.WithSupport()
	s.SignedIn("ada").Connect()
	b := s.SignedIn("nils")
	values := map[string]bool{b.Cookies["__Host-session"]: true}
	b.Get("/").Says("Support: see a member's pages")
	b.Get("/support").Want(200).Says("It ends after an hour.")
	b.Get("/support?find=ADA").Want(200).Says("Ada Lindqvist ada@nordlys.example", "View as a member of Nordlys Cooperative…", "View as a member of Fjell Foundation…")
	b.Get("/support?find=siri").Want(200).Says("Support staff: nobody can see their pages as them.")
	b.Get("/support?find=eve").Want(200).Says("Not a member of any organization.")
	b.Get("/support?find=nobody").Want(200).Says("Nobody has that name or email.")
	b.Get("/support?find=%00").Want(200)
	page := b.Get(pagetest.AsAda).Want(200).Says("View Svalinn as Ada Lindqvist?", "You see what Ada Lindqvist (ada@nordlys.example) sees in Nordlys Cooperative")
	page.Press(pagetest.AsAda, "reason", " ").Want(422).Says("Error: View as a member", "Say why.")
	long := page.Press(pagetest.AsAda, "reason", strings.Repeat("x", signin.MaxReason+1)).Want(422).Says("The reason is too long")
	if got := long.Fill(pagetest.AsAda).Get("reason"); len(got) != signin.MaxReason+1 {
		t.Errorf("what was entered is gone: %q", got)
	}
	page.Press(pagetest.AsAda, "reason", "a\x00b").Want(422)
	shown := page.Press(pagetest.AsAda, "reason", "ticket 17").Follow().Want(200).Says("You are viewing Svalinn as Ada Lindqvist.", "Stop impersonating",
		"Signed in as Nils Dahl (nils@svalinn.example)", "Apps that act for you in Nordlys Cooperative.")
	values[b.Cookies["__Host-session"]] = true
	if e := s.Event("impersonation_started"); e.Actor != "person:nils" || e.Person != "ada" || e.Organization != "nordlys" || e.Reason != "ticket 17" || e.Address != s.From {
		t.Errorf("event %+v", e)
	}
	if p := b.Get("/").Says("You are viewing Svalinn as Ada Lindqvist.", "Nordlys Cooperative"); strings.Contains(p.Text(), "Fjell") {
		t.Error("other organizations are shown")
	}
	b.Get("/organizations/fjell/profile/api").Want(404).Says("You are viewing Svalinn as Ada Lindqvist.")
	b.Get(pagetest.NordlysSettings).Want(200).Says("1 of 1 connections")
	b.Get("/nowhere").Want(404).Says("You are viewing Svalinn as Ada Lindqvist.")
	shown.Press("/support/stop").Follow().Want(200).Says("Signed in as Nils Dahl", "Find a person")
	values[b.Cookies["__Host-session"]] = true
	if len(values) != 3 {
		t.Errorf("%d values of the session, want another at each change", len(values))
	}
	if e := s.Event("impersonation_stopped"); e.Actor != "person:nils" || e.Person != "ada" {
		t.Errorf("event %+v", e)
	}
	b.Post("/support/stop", url.Values{"csrf": {b.Get("/").Fill("/signout").Get("csrf")}}).Follow().Want(200) // twice is no error
}

// Case A-12, UX-14, ux 6 (E3): nobody approves for somebody else.
func TestA12ActingCannotApprove(t *testing.T) {
	s := newSite(t)
	s.WithSupport()
	b := s.Acting()
	p := b.Get(pagetest.Authorize()).Want(403).Says("You are viewing Svalinn as Ada Lindqvist.", "Only Ada Lindqvist can approve apps for this account.",
		"You are signed in as Nils Dahl and are impersonating someone. An app can be approved only by the person whose account it will use.",
		"Stop impersonating, continue as myself")
	refused := func(p *pagetest.Shown) {
		t.Helper()
		p.Want(403).Says("Only Ada Lindqvist can approve apps for this account.")
		if e := s.Event("approval_refused"); e.Reason != "impersonating" || e.Actor != "person:nils" || e.Person != "ada" || e.Client != "quill" {
			t.Errorf("event %+v", e)
		}
		s.Nothing("ada")
		s.Nothing("nils")
	}
	refused(p)
	for _, decision := range []string{"approve", "", "x"} {
		refused(p.Approve("decision", decision))
	}
	refused(p.Press("/oauth/authorize", "action", "preview", "organization", "nordlys"))
	refused(p.Press("/oauth/authorize", "action", "stop_impersonating", "csrf", "forged"))
	refused(p.Press("/oauth/authorize", "decision", "cancel", "csrf", "forged"))
	if got := p.Cancel().Sent(pagetest.Callback); got.Get("error") != "access_denied" || got.Get("state") != "st" {
		t.Errorf("sent %v", got)
	}
	b.Get(pagetest.Authorize("scope", "x")).Want(400) // nobody is thrown to an address, whatever Ada has approved
	again := p.Press("/oauth/authorize", "action", "stop_impersonating").Follow().Want(403)
	again.Says("You are not a member of any organization.", "Signed in as Nils Dahl", "see a member's pages under Support") // they decide for themselves
	for _, p := range []*pagetest.Shown{again, b.Get("/"), b.Get("/connected-apps")} {
		if p.Says("no app can act for you"); strings.Contains(p.Text(), "ask an admin of your organization") || !strings.Contains(p.Body, `<a href="/support">Support</a>`) {
			t.Errorf("staff read %q", p.Text())
		}
	}
	if e := s.Event("impersonation_stopped"); e.Actor != "person:nils" || e.Person != "ada" {
		t.Errorf("event %+v", e)
	}
}

// Cases: it begins, or ends, while a page is open.
func TestA13ActingBeginsUnderThePage(t *testing.T) {
	s := newSite(t)
	s.WithSupport()
	s.Do(s.Store.SetMember(context.Background(), "nordlys", "nils", false, store.Act{}))
	b := s.SignedIn("nils")
	page := b.Get(pagetest.Authorize()).Want(200)
	b.Get(pagetest.AsAda).Press(pagetest.AsAda, "reason", "ticket 17").Want(303)
	page.Approve().Want(403).Says("Only Ada Lindqvist can approve apps for this account.")
	s.Nothing("ada")
	s.Nothing("nils")
	// And the other way round: what support staff were shown is theirs no more.
	acting := b.Get(pagetest.Authorize()).Want(403)
	b.Get("/").Press("/support/stop").Want(303)
	acting.Approve().Want(409).Says("You are now signed in as Nils Dahl.")
	s.Nothing("ada")
	s.Nothing("nils")
}

// What only the person may do, and where support staff are told so. Each
// attempt is an event that names both.
func TestActingChangesNothing(t *testing.T) {
	s := newSite(t)
	s.WithSupport()
	ada := s.SignedIn("ada")
	id := ada.Connect()
	edit, settings := pagetest.NordlysApps+"/"+id.String()+"/edit", pagetest.NordlysSettings+"/"+id.String()
	open := ada.Get(edit).Fill(edit)
	b := s.Acting()
	csrf := b.Get("/").Fill("/signout").Get("csrf")
	open.Set("csrf", csrf)
	open.Set("decision", "save")
	open.Set("grant", "organization")
	for _, at := range []string{edit, "/organizations/nordlys/leave", pagetest.NordlysSettings + "/off", pagetest.NordlysSettings + "/on", settings + "/revoke", "/support/nordlys/tor"} {
		if !strings.HasSuffix(at, "/on") {
			b.Get(at).Want(403).Says("Only Ada Lindqvist can do this.")
		}
		b.Post(at, open).Want(403).Says("Only Ada Lindqvist can do this. Nothing was changed.")
		if e := s.Event("impersonation_refused"); e.Actor != "person:nils" || e.Person != "ada" || !strings.HasPrefix(e.Detail, "POST /") || e.Reason != "impersonating" {
			t.Errorf("%s: event %+v", at, e)
		}
	}
	b.Get("/support").Want(403)
	// What cannot be done is not offered.
	shown := []string{settings, settings + "/activity", pagetest.NordlysRequests, pagetest.NordlysRules, pagetest.NordlysAttempts}
	for _, at := range []string{"/", pagetest.NordlysApps, pagetest.NordlysSettings, settings} {
		p := b.Get(at).Want(200)
		for _, n := range append(p.All(atom.A), p.All(atom.Form)...) {
			to := pagetest.Attr(n, "href") + pagetest.Attr(n, "action")
			if strings.HasSuffix(to, "/edit") || strings.HasSuffix(to, "/leave") || strings.HasPrefix(to, "/account") || strings.HasPrefix(to, pagetest.NordlysSettings+"/") && !slices.Contains(shown, to) {
				t.Errorf("%s offers %s", at, to)
			}
		}
	}
	if !s.Lives(id) || s.Approvals("ada")[0].Grant.Kind != "everything" {
		t.Error("something has changed")
	}
}

// Support staff may end what apps do for that person; the event names both.
func TestActingRevokes(t *testing.T) {
	s := newSite(t)
	s.WithSupport()
	ada := s.SignedIn("ada")
	id, elsewhere, tors := ada.Connect(), ada.Connect("organization", "fjell"), s.SignedIn("tor").Connect()
	b := s.Acting()
	at := pagetest.NordlysApps + "/clients/quill/revoke"
	b.Get(at).Want(200).Press(at).Follow().Want(200).Says(`Access of “Quill Assistant” is revoked.`, "Ended by Svalinn today at 10:00")
	if s.Lives(id) || !s.Lives(elsewhere) || !s.Lives(tors) {
		t.Error("not exactly that one has ended")
	}
	if e := s.Event("approval_ended"); e.Actor != "person:nils" || e.Person != "ada" {
		t.Errorf("event %+v", e)
	}
	ada.Get(pagetest.NordlysApps).Says("Ended by Svalinn today at 10:00")
	b.Get("/organizations/fjell/profile/api/clients/quill/revoke").Want(404)
	b.Post("/organizations/fjell/profile/api/clients/quill/revoke", url.Values{"csrf": {b.Get("/").Fill("/signout").Get("csrf")}}).Want(404)
	if !s.Lives(elsewhere) {
		t.Error("one in another organization has ended")
	}
}

// Decision P9: what ends it.
func TestActingEnds(t *testing.T) {
	ctx := context.Background()
	for name, end := range map[string]func(s *site, b *pagetest.Browser){
		"an hour":      func(s *site, b *pagetest.Browser) { s.Pass(time.Hour) },
		"actor's end":  func(s *site, b *pagetest.Browser) { s.Do(s.Store.SetActive(ctx, "nils", false, store.Act{})) },
		"person's end": func(s *site, b *pagetest.Browser) { s.Do(s.Store.SetActive(ctx, "ada", false, store.Act{})) },
		"signing out":  func(s *site, b *pagetest.Browser) { b.Get("/").Press("/signout").Want(303) },
		"no more staff": func(s *site, b *pagetest.Browser) {
			s.Do(s.Store.AddDirectory(ctx, store.Directory{People: []store.DirectoryPerson{
				{Person: org.Person{ID: "nils", Email: "nils@svalinn.example", Name: "Nils Dahl", Active: true}}}}, store.Act{}))
		},
	} {
		s := newSite(t)
		s.WithSupport()
		b := s.Acting()
		s.Pass(time.Hour - time.Second)
		b.Get("/").Want(200).Says("You are viewing Svalinn as Ada Lindqvist.")
		s.Pass(time.Second - time.Hour)
		page := b.Get(pagetest.Authorize())
		kept := b.Cookies["__Host-session"]
		end(s, b)
		b.Cookies["__Host-session"] = kept
		if p := b.Get("/"); p.Status != 303 || !strings.HasPrefix(p.Header.Get("Location"), "/signin") {
			t.Errorf("%s: %d %s", name, p.Status, p.Text())
		}
		page.Approve().Want(303)
		s.Nothing("ada")
		if name == "signing out" {
			s.Event("impersonation_stopped")
		}
	}
}

// Nobody but support staff, and as nobody of the support staff.
func TestActAsRefused(t *testing.T) {
	s := newSite(t)
	s.WithSupport()
	is := func(b *pagetest.Browser, name string) {
		t.Helper()
		b.Get("/").Want(200).Says("Signed in as " + name)
	}
	try := func(b *pagetest.Browser, at string, status int) {
		t.Helper()
		b.Get(at).Want(status)
		b.Post(at, url.Values{"csrf": {b.Get("/").Fill("/signout").Get("csrf")}, "reason": {"ticket 17"}}).Want(status)
	}
	ada, nils := s.SignedIn("ada"), s.SignedIn("nils")
	ada.Get("/support").Want(404)
	if p := ada.Get("/"); strings.Contains(p.Text(), "Support") {
		t.Error("the way is shown to somebody who cannot go it")
	}
	try(ada, "/support/nordlys/tor", 404)
	if e := s.Event("impersonation_refused"); e.Actor != "person:ada" || e.Person != "tor" || e.Organization != "nordlys" {
		t.Errorf("event %+v", e)
	}
	is(ada, "Ada Lindqvist")
	for _, at := range []string{"/support/nordlys/siri", "/support/nordlys/ola", "/support/nowhere/ada", "/support/nordlys/nils", "/support/nordlys/%00", "/support/%ff/ada", "/support/nordlys/nobody"} {
		try(nils, at, 404)
		if e := s.Event("impersonation_refused"); e.Actor != "person:nils" || e.Reason != "not_allowed" {
			t.Errorf("%s: event %+v", at, e)
		}
	}
	is(nils, "Nils Dahl")
	s.Browser().Get("/support").Follow().Want(200).Says("Sign in")
	none := func() bool {
		events, _, err := s.Store.Events(t.Context(), store.EventFilter{Kind: "impersonation_started"})
		return err == nil && len(events) == 0
	}
	s.Hostile("nils", pagetest.AsAda, url.Values{"reason": {"ticket 17"}}, none)
}
