package consent

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

const asAda = "/support/nordlys/ada"

// withSupport adds Nils and Siri of the support staff.
func (s *site) withSupport() {
	s.t.Helper()
	s.do(s.Store.AddDirectory(context.Background(), store.Directory{
		People: []store.DirectoryPerson{
			{Person: org.Person{ID: "nils", Email: "nils@svalinn.example", Name: "Nils Dahl", Active: true, Support: true}},
			{Person: org.Person{ID: "siri", Email: "siri@svalinn.example", Name: "Siri Vik", Active: true, Support: true}},
		},
		Members: []store.DirectoryMember{{Person: "siri", Organization: "nordlys"}},
	}, store.Act{Actor: "system"}))
}

// acting is the browser of Nils, who sees the pages of Ada in Nordlys.
func (s *site) acting() *browser {
	s.t.Helper()
	b := s.signedIn("nils")
	b.get(asAda).want(200).press(asAda, "reason", "ticket 17").want(303)
	return b
}

// Decision P9: from a page of their own, with a reason, shown on every page,
// and back. The session has another value each time.
func TestActAs(t *testing.T) {
	s := newSite(t)
	s.withSupport()
	s.signedIn("ada").connect()
	b := s.signedIn("nils")
	values := map[string]bool{b.cookies["__Host-session"]: true}
	b.get("/").says("Support: see a member's pages")
	b.get("/support").want(200).says("It ends after an hour.")
	b.get("/support?find=ADA").want(200).says("Ada Lindqvist ada@nordlys.example", "View as a member of Nordlys Cooperative…", "View as a member of Fjell Foundation…")
	b.get("/support?find=siri").want(200).says("Support staff: nobody can see their pages as them.")
	b.get("/support?find=eve").want(200).says("Not a member of any organization.")
	b.get("/support?find=nobody").want(200).says("Nobody has that name or email.")
	b.get("/support?find=%00").want(200)
	page := b.get(asAda).want(200).says("View Svalinn as Ada Lindqvist?", "You see what Ada Lindqvist (ada@nordlys.example) sees in Nordlys Cooperative")
	page.press(asAda, "reason", " ").want(422).says("Error: View as a member", "Say why.")
	long := page.press(asAda, "reason", strings.Repeat("x", maxReason+1)).want(422).says("The reason is too long")
	if got := long.fill(asAda).Get("reason"); len(got) != maxReason+1 {
		t.Errorf("what was entered is gone: %q", got)
	}
	page.press(asAda, "reason", "a\x00b").want(422)
	shown := page.press(asAda, "reason", "ticket 17").follow().want(200).says("You are viewing Svalinn as Ada Lindqvist.", "Stop impersonating",
		"Signed in as Nils Dahl (nils@svalinn.example)", "Apps that act for you in Nordlys Cooperative.")
	values[b.cookies["__Host-session"]] = true
	if e := s.event("impersonation_started"); e.Actor != "person:nils" || e.Person != "ada" || e.Organization != "nordlys" || e.Reason != "ticket 17" || e.Address != s.address {
		t.Errorf("event %+v", e)
	}
	if p := b.get("/").says("You are viewing Svalinn as Ada Lindqvist.", "Nordlys Cooperative"); strings.Contains(p.text(), "Fjell") {
		t.Error("other organizations are shown")
	}
	b.get("/organizations/fjell/profile/api").want(404).says("You are viewing Svalinn as Ada Lindqvist.")
	b.get(nordlysSettings).want(200).says("1 connection of 1 person")
	b.get("/nowhere").want(404).says("You are viewing Svalinn as Ada Lindqvist.")
	shown.press("/support/stop").follow().want(200).says("Signed in as Nils Dahl", "Find a person")
	values[b.cookies["__Host-session"]] = true
	if len(values) != 3 {
		t.Errorf("%d values of the session, want another at each change", len(values))
	}
	if e := s.event("impersonation_stopped"); e.Actor != "person:nils" || e.Person != "ada" {
		t.Errorf("event %+v", e)
	}
	b.post("/support/stop", url.Values{"csrf": {b.get("/").fill("/signout").Get("csrf")}}).follow().want(200) // twice is no error
}

// Case A-12, UX-14, ux 6 (E3): nobody approves for somebody else.
func TestA12ActingCannotApprove(t *testing.T) {
	s := newSite(t)
	s.withSupport()
	b := s.acting()
	p := b.get(authorize()).want(403).says("You are viewing Svalinn as Ada Lindqvist.", "Only Ada Lindqvist can approve apps for this account.",
		"You are signed in as Nils Dahl and are impersonating someone. An app can be approved only by the person whose account it will use.",
		"Stop impersonating, continue as myself")
	refused := func(p *shown) {
		t.Helper()
		p.want(403).says("Only Ada Lindqvist can approve apps for this account.")
		if e := s.event("approval_refused"); e.Reason != "impersonating" || e.Actor != "person:nils" || e.Person != "ada" || e.Client != "quill" {
			t.Errorf("event %+v", e)
		}
		s.nothing("ada")
		s.nothing("nils")
	}
	refused(p)
	for _, decision := range []string{"approve", "", "x"} {
		refused(p.approve("decision", decision))
	}
	refused(p.press("/oauth/authorize", "action", "preview", "organization", "nordlys"))
	refused(p.press("/oauth/authorize", "action", "stop_impersonating", "csrf", "forged"))
	refused(p.press("/oauth/authorize", "decision", "cancel", "csrf", "forged"))
	if got := p.cancel().sent(callback); got.Get("error") != "access_denied" || got.Get("state") != "st" {
		t.Errorf("sent %v", got)
	}
	b.get(authorize("scope", "x")).want(400) // nobody is thrown to an address, whatever Ada has approved
	again := p.press("/oauth/authorize", "action", "stop_impersonating").follow().want(403)
	again.says("You are not a member of any organization.", "Signed in as Nils Dahl", "see a member's pages under Support") // they decide for themselves
	for _, p := range []*shown{again, b.get("/"), b.get("/connected-apps")} {
		if p.says("no app can act for you"); strings.Contains(p.text(), "ask an admin of your organization") || !strings.Contains(p.body, `<a href="/support">Support</a>`) {
			t.Errorf("staff read %q", p.text())
		}
	}
	if e := s.event("impersonation_stopped"); e.Actor != "person:nils" || e.Person != "ada" {
		t.Errorf("event %+v", e)
	}
}

// Cases: it begins, or ends, while a page is open.
func TestA13ActingBeginsUnderThePage(t *testing.T) {
	s := newSite(t)
	s.withSupport()
	s.do(s.Store.SetMember(context.Background(), "nordlys", "nils", false, store.Act{}))
	b := s.signedIn("nils")
	page := b.get(authorize()).want(200)
	b.get(asAda).press(asAda, "reason", "ticket 17").want(303)
	page.approve().want(403).says("Only Ada Lindqvist can approve apps for this account.")
	s.nothing("ada")
	s.nothing("nils")
	// And the other way round: what support staff were shown is theirs no more.
	acting := b.get(authorize()).want(403)
	b.get("/").press("/support/stop").want(303)
	acting.approve().want(409).says("You are now signed in as Nils Dahl.")
	s.nothing("ada")
	s.nothing("nils")
}

// What only the person may do, and where support staff are told so. Each
// attempt is an event that names both.
func TestActingChangesNothing(t *testing.T) {
	s := newSite(t)
	s.withSupport()
	ada := s.signedIn("ada")
	id := ada.connect()
	edit, settings := editPath("nordlys", id), connectionPath("nordlys", id)
	open := ada.get(edit).fill(edit)
	b := s.acting()
	csrf := b.get("/").fill("/signout").Get("csrf")
	open.Set("csrf", csrf)
	open.Set("decision", "save")
	open.Set("grant", "organization")
	for _, at := range []string{edit, "/organizations/nordlys/leave", nordlysSettings + "/off", nordlysSettings + "/on", settings + "/revoke", "/support/nordlys/tor"} {
		if !strings.HasSuffix(at, "/on") {
			b.get(at).want(403).says("Only Ada Lindqvist can do this.")
		}
		b.post(at, open).want(403).says("Only Ada Lindqvist can do this. Nothing was changed.")
		if e := s.event("impersonation_refused"); e.Actor != "person:nils" || e.Person != "ada" || !strings.HasPrefix(e.Detail, "POST /") || e.Reason != "impersonating" {
			t.Errorf("%s: event %+v", at, e)
		}
	}
	b.get("/support").want(403)
	// What cannot be done is not offered.
	for _, at := range []string{"/", nordlysApps, nordlysSettings, settings} {
		p := b.get(at).want(200)
		for _, n := range append(p.all(atom.A), p.all(atom.Form)...) {
			to := attr(n, "href") + attr(n, "action")
			if strings.HasSuffix(to, "/edit") || strings.HasSuffix(to, "/leave") || strings.HasPrefix(to, "/account") || strings.HasPrefix(to, nordlysSettings+"/") && to != settings {
				t.Errorf("%s offers %s", at, to)
			}
		}
	}
	if !s.lives(id) || s.approvals("ada")[0].Grant.Kind != "everything" {
		t.Error("something has changed")
	}
}

// Support staff may end what apps do for that person; the event names both.
func TestActingRevokes(t *testing.T) {
	s := newSite(t)
	s.withSupport()
	ada := s.signedIn("ada")
	id, elsewhere, tors := ada.connect(), ada.connect("organization", "fjell"), s.signedIn("tor").connect()
	b := s.acting()
	at := nordlysApps + "/clients/quill/revoke"
	b.get(at).want(200).press(at).follow().want(200).says(`Access of “Quill Assistant” is revoked.`, "Ended by Svalinn today at 10:00")
	if s.lives(id) || !s.lives(elsewhere) || !s.lives(tors) {
		t.Error("not exactly that one has ended")
	}
	if e := s.event("approval_ended"); e.Actor != "person:nils" || e.Person != "ada" {
		t.Errorf("event %+v", e)
	}
	ada.get(nordlysApps).says("Ended by Svalinn today at 10:00")
	b.get("/organizations/fjell/profile/api/clients/quill/revoke").want(404)
	b.post("/organizations/fjell/profile/api/clients/quill/revoke", url.Values{"csrf": {b.get("/").fill("/signout").Get("csrf")}}).want(404)
	if !s.lives(elsewhere) {
		t.Error("one in another organization has ended")
	}
}

// Decision P9: what ends it.
func TestActingEnds(t *testing.T) {
	ctx := context.Background()
	for name, end := range map[string]func(s *site, b *browser){
		"an hour":      func(s *site, b *browser) { s.pass(time.Hour) },
		"actor's end":  func(s *site, b *browser) { s.do(s.Store.SetActive(ctx, "nils", false, store.Act{})) },
		"person's end": func(s *site, b *browser) { s.do(s.Store.SetActive(ctx, "ada", false, store.Act{})) },
		"signing out":  func(s *site, b *browser) { b.get("/").press("/signout").want(303) },
		"no more staff": func(s *site, b *browser) {
			s.do(s.Store.AddDirectory(ctx, store.Directory{People: []store.DirectoryPerson{
				{Person: org.Person{ID: "nils", Email: "nils@svalinn.example", Name: "Nils Dahl", Active: true}}}}, store.Act{}))
		},
	} {
		s := newSite(t)
		s.withSupport()
		b := s.acting()
		s.pass(time.Hour - time.Second)
		b.get("/").want(200).says("You are viewing Svalinn as Ada Lindqvist.")
		s.pass(time.Second - time.Hour)
		page := b.get(authorize())
		kept := b.cookies["__Host-session"]
		end(s, b)
		b.cookies["__Host-session"] = kept
		if p := b.get("/"); p.status != 303 || !strings.HasPrefix(p.header.Get("Location"), "/signin") {
			t.Errorf("%s: %d %s", name, p.status, p.text())
		}
		page.approve().want(303)
		s.nothing("ada")
		if name == "signing out" {
			s.event("impersonation_stopped")
		}
	}
}

// Nobody but support staff, and as nobody of the support staff.
func TestActAsRefused(t *testing.T) {
	s := newSite(t)
	s.withSupport()
	is := func(b *browser, name string) {
		t.Helper()
		b.get("/").want(200).says("Signed in as " + name)
	}
	try := func(b *browser, at string, status int) {
		t.Helper()
		b.get(at).want(status)
		b.post(at, url.Values{"csrf": {b.get("/").fill("/signout").Get("csrf")}, "reason": {"ticket 17"}}).want(status)
	}
	ada, nils := s.signedIn("ada"), s.signedIn("nils")
	ada.get("/support").want(404)
	if p := ada.get("/"); strings.Contains(p.text(), "Support") {
		t.Error("the way is shown to somebody who cannot go it")
	}
	try(ada, "/support/nordlys/tor", 404)
	if e := s.event("impersonation_refused"); e.Actor != "person:ada" || e.Person != "tor" || e.Organization != "nordlys" {
		t.Errorf("event %+v", e)
	}
	is(ada, "Ada Lindqvist")
	for _, at := range []string{"/support/nordlys/siri", "/support/nordlys/ola", "/support/nowhere/ada", "/support/nordlys/nils", "/support/nordlys/%00", "/support/%ff/ada", "/support/nordlys/nobody"} {
		try(nils, at, 404)
		if e := s.event("impersonation_refused"); e.Actor != "person:nils" || e.Reason != "not_allowed" {
			t.Errorf("%s: event %+v", at, e)
		}
	}
	is(nils, "Nils Dahl")
	s.browser().get("/support").follow().want(200).says("Sign in")
	none := func() bool {
		events, _, err := s.Store.Events(t.Context(), store.EventFilter{Kind: "impersonation_started"})
		return err == nil && len(events) == 0
	}
	s.hostile("nils", asAda, url.Values{"reason": {"ticket 17"}}, none)
}
