package orgadmin

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// ux 8.
func TestIntegration(t *testing.T) {
	s := newSite(t)
	ada, tor := s.SignedIn("ada"), s.SignedIn("tor")
	ada.Get(pagetest.NordlysSettings).Want(200).Says("AI integration – Nordlys Cooperative – Svalinn", "AI integration On",
		"Members can connect apps that act for them here. Each app gets only what that member chooses.",
		"On since 21 November 2026.", "No apps act for members here yet.")
	s.Register(client.Client{ID: "board", Name: "Board Pack Generator", RedirectURIs: []string{"https://oauth.boardpack.example/cb"}})
	ada.Connect("grant", "roles", "role:treasurer", "change", "role:buddy", "read", "personal", "1")
	second := tor.Connect()
	s.Store.Used(second)
	s.Pass(time.Second) // of two alike, the newer is first
	ada.Connect()
	ada.Connect("grant", "organization")
	ada.Connect("organization", "fjell")
	p := ada.Get(pagetest.NordlysSettings).Want(200).Says("4 connections", "2 people", "4 of 4 connections, widest access first", "Everything in this organization",
		"Everything they can access", "Only selected roles: Treasurer (change), Buddy (read)", "Today at 10:00", "Never", "Quill Assistant Not checked", "connect.quill.example")
	var order []string
	for _, row := range p.All(atom.Tr)[1:] {
		order = append(order, cells(row))
	}
	for i, want := range []string{"Ada Lindqvist Everything in this organization Never", "Ada Lindqvist Everything they can access Never",
		"Tor Haugen Everything they can access Today at 10:00", "Ada Lindqvist Only selected roles: Treasurer (change), Buddy (read) Never"} {
		if !strings.Contains(order[i], want) {
			t.Errorf("row %d is %q, want %q", i, order[i], want)
		}
	}
	// Which roles, as far as they are filled now; personal items are the person's alone.
	if strings.Contains(p.Text(), "personal entries") || len(p.All(atom.Tr)) != 5 {
		t.Errorf("the table says %q", order)
	}
	s.Do(s.Store.SetFiller(t.Context(), "buddy", "ada", false, store.Act{Actor: "operator"}))
	if p := ada.Get(pagetest.NordlysSettings).Says("Only selected roles: Treasurer (change)"); strings.Contains(p.Text(), "Buddy") {
		t.Error("a role that is left is said to be had")
	}
	s.Do(s.Store.SetFiller(t.Context(), "buddy", "ada", true, store.Act{Actor: "operator"}))
	for query, want := range map[string]string{
		"find=tor": "1 of 4 connections", "find=QUILL.example": "4 of 4 connections", "access=organization": "1 of 4 connections",
		"access=everything": "2 of 4 connections", "access=roles&find=+ada+": "1 of 4 connections", "access=everything&find=nordlys.example": "2 of 4 connections",
		"find=nobody": "No connection matches.", "access=x": "4 of 4 connections", "show=x": "4 of 4 connections", "show=unreviewed": "No connection matches.",
		"show=unused": "No connection matches.", "show=ending": "No connection matches.", "show=beyond": "No connection matches.",
	} {
		ada.Get(pagetest.NordlysSettings + "?" + query).Want(200).Says(want)
	}
	shared := pagetest.NordlysSettings + "?find=tor&access=everything"
	ada.Get(shared).Want(200)
	if got := pagetest.SignIn(s.Browser().Get(shared).Follow(), "ada@nordlys.example", pagetest.Password).Header.Get("Location"); got != shared {
		t.Errorf("signing in leads to %q, not to what was shared", got)
	}
	if p := ada.Get(pagetest.NordlysSettings + `?find="><script>`); len(p.All(atom.Script)) != 1 || p.Fill(pagetest.NordlysSettings).Get("find") != `"><script>` {
		t.Error("what was looked for is not as it was entered")
	}
}

// cells are the texts of a row.
func cells(row *html.Node) string {
	var b strings.Builder
	for n := range row.Descendants() {
		switch {
		case n.Type == html.TextNode:
			b.WriteString(n.Data)
		case n.DataAtom == atom.Td:
			b.WriteString(" ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// The detail page shows which roles, and not what is the person's alone.
func TestIntegrationDetails(t *testing.T) {
	s := newSite(t)
	s.Do(s.Store.SetAdmin(context.Background(), "nordlys", "tor", true, store.Act{}))
	id := s.SignedIn("ada").Connect("grant", "roles", "role:treasurer", "change", "role:buddy", "read", "personal", "1")
	s.Do(s.Store.SetFiller(context.Background(), "buddy", "ada", false, store.Act{Actor: "operator"}))
	p := s.SignedIn("tor").Get(pagetest.NordlysSettings+"/"+id.String()).Want(200).Says("Ada Lindqvist (ada@nordlys.example)",
		"Only selected roles: Treasurer (change)", "Treasurer Nordlys (anchor circle) Change", "Buddy People & Onboarding None now: they left this role")
	if strings.Contains(strings.ToLower(p.Text()), "personal") {
		t.Errorf("it tells of personal items: %s", p.Text())
	}
}

// Decision P8, ux 8: the event names the admin, and the member is told.
func TestIntegrationRevoke(t *testing.T) {
	s := newSite(t)
	ada, tor := s.SignedIn("ada"), s.SignedIn("tor")
	id, other := tor.Connect(), tor.Connect()
	at := connectionPath("nordlys", id) + "/revoke"
	s.Hostile("ada", at, url.Values{}, func() bool { return s.Lives(id) })
	confirm := ada.Get(at).Want(200).Says(`Revoke access of “Quill Assistant” for Tor Haugen?`,
		"In Nordlys Cooperative, it stops working at once, on every device.", "What it has already changed or read stays as it is.", "quill.example")
	for range 2 { // twice is no error
		confirm.Press(at).Follow().Want(200).Says(`Access of “Quill Assistant” for Tor Haugen is revoked.`, "1 of 1 connections")
	}
	ada.Get(at).Follow().Want(200).Says("is revoked.")
	ada.Get(connectionPath("nordlys", id)).Follow().Want(200).Says("is revoked.")
	if s.Lives(id) || !s.Lives(other) {
		t.Errorf("lives: %v and %v, want the other alone", s.Lives(id), s.Lives(other))
	}
	if e := s.Event("approval_ended"); e.Actor != "person:ada" || e.Person != "tor" || e.Organization != "nordlys" || e.Reason != "revoked_by_admin" || e.Approval != id.String() {
		t.Errorf("event %+v", e)
	}
	tor.Get(pagetest.NordlysApps).Says("Revoked by an admin of Nordlys Cooperative today at 10:00")
	// The note is true or absent.
	if p := ada.Get(pagetest.NordlysSettings + "?revoked=" + other.String()); strings.Contains(p.Text(), "is revoked") {
		t.Error("it says that what lives is revoked")
	}
	s.Do(s.Store.EndApproval(context.Background(), other, approval.RevokedByPerson, store.Act{Actor: "person:tor"}))
	ada.Get(pagetest.NordlysSettings + "?revoked=" + other.String()).Says("had ended already")
}

// Decision P7, ux 8.2.
func TestIntegrationOffAndOn(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	mine, tors, elsewhere := ada.Connect(), s.SignedIn("tor").Connect(), ada.Connect("organization", "fjell")
	isOn := func() bool {
		o, err := s.Store.Organization(context.Background(), "nordlys")
		s.Do(err)
		return o.AIIntegration
	}
	s.Hostile("ada", pagetest.NordlysSettings+"/off", url.Values{}, func() bool { return isOn() && s.Lives(mine) })
	ada.Get(pagetest.NordlysSettings+"/off").Want(200).Says("Turn off AI integration in Nordlys Cooperative?",
		"All 2 connections of 2 people end at once. Turning it on again does not bring them back: each person approves again.")
	s.Pass(24 * time.Hour)
	ada = s.SignedIn("ada")
	confirm := ada.Get(pagetest.NordlysSettings + "/off").Want(200)
	for range 2 {
		p := confirm.Press(pagetest.NordlysSettings+"/off").Follow().Want(200).Says("AI integration Off", "AI integration is off. Nobody can connect apps here.")
		if strings.Contains(p.Text(), "Turned on by") {
			t.Error("it says who turned on what is off")
		}
	}
	if isOn() || s.Lives(mine) || s.Lives(tors) || !s.Lives(elsewhere) {
		t.Errorf("on %v, alive %v %v and elsewhere %v", isOn(), s.Lives(mine), s.Lives(tors), s.Lives(elsewhere))
	}
	if e := s.Event("directory_changed"); e.Actor != "person:ada" || e.Organization != "nordlys" || e.Detail != "AI integration off" {
		t.Errorf("event %+v", e)
	}
	ada.Get(pagetest.NordlysApps).Says("AI integration was turned off today at 10:00")
	ada.Get(pagetest.NordlysSettings + "/off").Follow().Want(200).Says("AI integration Off")
	s.Hostile("ada", pagetest.NordlysSettings+"/on", url.Values{}, func() bool { return !isOn() })
	page := ada.Get(pagetest.NordlysSettings)
	for range 2 {
		page.Press(pagetest.NordlysSettings+"/on").Follow().Want(200).Says("AI integration On", "Turned on by Ada Lindqvist on 22 November 2026.")
	}
	if s.Lives(mine) || s.Lives(tors) {
		t.Error("turning it on again has brought something back")
	}
}

// To everybody but the admins the pages do not exist.
func TestIntegrationIsForAdmins(t *testing.T) {
	s := newSite(t)
	id := s.SignedIn("ada").Connect()
	elsewhere := s.SignedIn("ada").Connect("organization", "fjell")
	paths := []string{pagetest.NordlysSettings, pagetest.NordlysSettings + "/off", pagetest.NordlysSettings + "/" + id.String(), pagetest.NordlysSettings + "/" + id.String() + "/revoke"}
	for person, posts := range map[string]int{"tor": 403, "ola": 404, "eve": 404} { // a member may have been an admin (decision P21)
		b := s.SignedIn(person)
		for _, path := range paths {
			if p := b.Get(path); p.Status != 404 || strings.Contains(p.Text(), "Nordlys") {
				t.Errorf("%s, %s: %d %s", person, path, p.Status, p.Text())
			}
		}
		csrf := url.Values{"csrf": {b.Get("/").Fill("/signout").Get("csrf")}}
		for _, path := range []string{pagetest.NordlysSettings + "/off", pagetest.NordlysSettings + "/on", pagetest.NordlysSettings + "/" + id.String() + "/revoke"} {
			b.Post(path, csrf).Want(posts)
		}
	}
	ada := s.SignedIn("ada")
	for _, path := range []string{
		"/organizations/fjell/settings/ai-integration", "/organizations/nowhere/settings/ai-integration", "/organizations/%00/settings/ai-integration",
		pagetest.NordlysSettings + "/" + elsewhere.String(), pagetest.NordlysSettings + "/" + elsewhere.String() + "/revoke", pagetest.NordlysSettings + "/x", pagetest.NordlysSettings + "/x/revoke",
		pagetest.NordlysSettings + "/" + strings.Repeat("0", 32), pagetest.NordlysSettings + "/" + strings.Repeat("0", 32) + "/revoke",
	} {
		ada.Get(path).Want(404)
	}
	csrf := url.Values{"csrf": {ada.Get("/").Fill("/signout").Get("csrf")}}
	ada.Post(pagetest.NordlysSettings+"/"+elsewhere.String()+"/revoke", csrf).Want(404)
	if !s.Lives(id) || !s.Lives(elsewhere) {
		t.Error("something has ended")
	}
	// The right is asked for again when it counts.
	page := ada.Get(pagetest.NordlysSettings + "/off")
	s.Do(s.Store.SetAdmin(context.Background(), "nordlys", "ada", false, store.Act{}))
	page.Press(pagetest.NordlysSettings+"/off").Want(403).Says("You are not an admin there any more", "Nothing was changed.")
	if !s.Lives(id) {
		t.Error("somebody who is an admin no more has turned it off")
	}
	if p := ada.Get("/"); strings.Contains(p.Text(), "AI integration is on AI integration") || strings.Contains(p.Body, pagetest.NordlysSettings) {
		t.Error("the page is offered to somebody who cannot see it")
	}
	s.Browser().Get(pagetest.NordlysSettings).Follow().Want(200).Says("Sign in")
	// E4 leads here.
	p := s.SignedIn("ola").Get(pagetest.Authorize()).Want(403)
	for _, a := range p.All(atom.A) {
		if strings.HasSuffix(pagetest.Attr(a, "href"), "ai-integration") {
			p.B.Get(pagetest.Attr(a, "href")).Want(200).Says("AI integration Off")
			return
		}
	}
	t.Error("E4 does not lead to the setting")
}

// More than fit are on further pages, each once.
func TestIntegrationPages(t *testing.T) {
	s := newSite(t)
	d := store.Directory{}
	for i := range 3 {
		id := "p" + strconv.Itoa(i)
		d.People = append(d.People, store.DirectoryPerson{Person: org.Person{ID: id, Email: id + "@nordlys.example", Name: "Person " + id, Active: true}})
		d.Members = append(d.Members, store.DirectoryMember{Person: id, Organization: "nordlys"})
	}
	s.Do(s.Store.AddDirectory(context.Background(), d, store.Act{Actor: "system"}))
	const want = 2*25 + 7
	for i := range want {
		s.SignedIn(fmt.Sprintf("p%d", i%3)).Connect()
		s.consent.AuthorizeLimit = limit.NewAddresses(limit.Authorize, nil)
	}
	ada, seen := s.SignedIn("ada"), map[string]bool{}
	for path, pages := pagetest.NordlysSettings+"?access=everything", 1; path != ""; pages++ {
		p := ada.Get(path).Want(200)
		path = ""
		for _, n := range p.All(atom.Input) {
			if pagetest.Attr(n, "name") == "connection" {
				seen[pagetest.Attr(n, "value")] = true
			}
		}
		for _, a := range p.All(atom.A) {
			if a.FirstChild != nil && a.FirstChild.Data == "Next" {
				path = pagetest.Attr(a, "href")
			}
		}
		if last := path == ""; last != (pages == 3) {
			t.Fatalf("page %d is the last: %v", pages, last)
		}
	}
	if len(seen) != want {
		t.Errorf("%d connections on the pages, want %d", len(seen), want)
	}
	for _, after := range []string{"x", "everything.x", "roles.0.0", "everything.-1." + strings.Repeat("0", 32)} {
		if p := ada.Get(pagetest.NordlysSettings + "?after=" + after); p.Status != 400 && p.Status != 200 {
			t.Errorf("place %q: %d", after, p.Status)
		}
	}
}
