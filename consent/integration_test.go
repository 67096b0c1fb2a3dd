package consent

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
	"github.com/grantkeeper/grantkeeper/store"
)

const nordlysSettings = "/organizations/nordlys/settings/ai-integration"

// ux 8.
func TestIntegration(t *testing.T) {
	s := newSite(t)
	ada, tor := s.signedIn("ada"), s.signedIn("tor")
	ada.get(nordlysSettings).want(200).says("AI integration – Nordlys Cooperative – Svalinn", "AI integration On",
		"Members can connect apps that act for them here. Each app gets only what that member chooses.",
		"On since 21 November 2026.", "No apps act for members here yet.")
	s.register(client.Client{ID: "board", Name: "Board Pack Generator", RedirectURIs: []string{"https://oauth.boardpack.example/cb"}})
	ada.connect("grant", "roles", "role:treasurer", "change", "role:buddy", "read", "personal", "1")
	second := tor.connect()
	s.Store.Used(second)
	ada.connect()
	ada.connect("grant", "organization")
	ada.connect("organization", "fjell")
	p := ada.get(nordlysSettings).want(200).says("4 connections of 2 people", "Everything in this organization",
		"Everything they can access", "Only selected roles: Treasurer (change), Buddy (read)", "Today at 10:00", "Never", "Quill Assistant Not checked", "connect.quill.example")
	var order []string
	for _, row := range p.all(atom.Tr)[1:] {
		order = append(order, cells(row))
	}
	for i, want := range []string{"Ada Lindqvist Everything in this organization Never", "Tor Haugen Everything they can access Today at 10:00",
		"Ada Lindqvist Everything they can access Never", "Ada Lindqvist Only selected roles: Treasurer (change), Buddy (read) Never"} {
		if !strings.Contains(order[i], want) {
			t.Errorf("row %d is %q, want %q", i, order[i], want)
		}
	}
	// Which roles, as far as they are filled now; personal items are the person's alone.
	if strings.Contains(p.text(), "personal entries") || len(p.all(atom.Tr)) != 5 {
		t.Errorf("the table says %q", order)
	}
	s.do(s.Store.SetFiller(t.Context(), "buddy", "ada", false, store.Act{Actor: "operator"}))
	if p := ada.get(nordlysSettings).says("Only selected roles: Treasurer (change)"); strings.Contains(p.text(), "Buddy") {
		t.Error("a role that is left is said to be had")
	}
	s.do(s.Store.SetFiller(t.Context(), "buddy", "ada", true, store.Act{Actor: "operator"}))
	for query, want := range map[string]string{
		"find=tor": "1 connection of 1 person", "find=QUILL.example": "4 connections of 2 people", "access=organization": "1 connection of 1 person",
		"access=everything": "2 connections of 2 people", "access=roles&find=+ada+": "1 connection of 1 person", "access=everything&find=nordlys.example": "2 connections of 2 people",
		"find=nobody": "No connection matches.", "access=x": "4 connections of 2 people", "page=9": "4 connections of 2 people", "page=-1": "4 connections of 2 people",
	} {
		ada.get(nordlysSettings + "?" + query).want(200).says(want)
	}
	shared := nordlysSettings + "?find=tor&access=everything"
	ada.get(shared).want(200)
	if got := signin(s.browser().get(shared).follow(), "ada@nordlys.example", password).header.Get("Location"); got != shared {
		t.Errorf("signing in leads to %q, not to what was shared", got)
	}
	if p := ada.get(nordlysSettings + `?find="><script>`); len(p.all(atom.Script)) != 1 || p.fill(nordlysSettings).Get("find") != `"><script>` {
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
	s.do(s.Store.SetAdmin(context.Background(), "nordlys", "tor", true, store.Act{}))
	id := s.signedIn("ada").connect("grant", "roles", "role:treasurer", "change", "role:buddy", "read", "personal", "1")
	s.do(s.Store.SetFiller(context.Background(), "buddy", "ada", false, store.Act{Actor: "operator"}))
	p := s.signedIn("tor").get(nordlysSettings+"/"+id.String()).want(200).says("Ada Lindqvist (ada@nordlys.example)",
		"Only selected roles: Treasurer (change)", "Treasurer Nordlys (anchor circle) Change", "Buddy People & Onboarding None now: they left this role")
	if strings.Contains(strings.ToLower(p.text()), "personal") {
		t.Errorf("it tells of personal items: %s", p.text())
	}
}

// Decision P8, ux 8: the event names the admin, and the member is told.
func TestIntegrationRevoke(t *testing.T) {
	s := newSite(t)
	ada, tor := s.signedIn("ada"), s.signedIn("tor")
	id, other := tor.connect(), tor.connect()
	at := connectionPath("nordlys", id) + "/revoke"
	s.hostile("ada", at, url.Values{}, func() bool { return s.lives(id) })
	confirm := ada.get(at).want(200).says(`Revoke access of “Quill Assistant” for Tor Haugen?`,
		"In Nordlys Cooperative, it stops working at once, on every device.", "What it has already changed or read stays as it is.", "quill.example")
	for range 2 { // twice is no error
		confirm.press(at).follow().want(200).says(`Access of “Quill Assistant” for Tor Haugen is revoked.`, "1 connection of 1 person")
	}
	ada.get(at).follow().want(200).says("is revoked.")
	ada.get(connectionPath("nordlys", id)).follow().want(200).says("is revoked.")
	if s.lives(id) || !s.lives(other) {
		t.Errorf("lives: %v and %v, want the other alone", s.lives(id), s.lives(other))
	}
	if e := s.event("approval_ended"); e.Actor != "person:ada" || e.Person != "tor" || e.Organization != "nordlys" || e.Reason != "revoked_by_admin" || e.Approval != id.String() {
		t.Errorf("event %+v", e)
	}
	tor.get(nordlysApps).says("Revoked by an admin of Nordlys Cooperative today at 10:00")
	// The note is true or absent.
	if p := ada.get(nordlysSettings + "?revoked=" + other.String()); strings.Contains(p.text(), "is revoked") {
		t.Error("it says that what lives is revoked")
	}
	s.do(s.Store.EndApproval(context.Background(), other, approval.RevokedByPerson, store.Act{Actor: "person:tor"}))
	ada.get(nordlysSettings + "?revoked=" + other.String()).says("had ended already")
}

func (s *site) lives(id approval.ID) bool {
	s.t.Helper()
	a, err := s.Store.Check(context.Background(), id)
	return err == nil && a.Approval.Lost(a.Standing) == ""
}

// Decision P7, ux 8.2.
func TestIntegrationOffAndOn(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	mine, tors, elsewhere := ada.connect(), s.signedIn("tor").connect(), ada.connect("organization", "fjell")
	isOn := func() bool {
		o, err := s.Store.Organization(context.Background(), "nordlys")
		s.do(err)
		return o.AIIntegration
	}
	s.hostile("ada", nordlysSettings+"/off", url.Values{}, func() bool { return isOn() && s.lives(mine) })
	ada.get(nordlysSettings+"/off").want(200).says("Turn off AI integration in Nordlys Cooperative?",
		"All 2 connections of 2 people end at once. Turning it on again does not bring them back: each person approves again.")
	s.pass(24 * time.Hour)
	ada = s.signedIn("ada")
	confirm := ada.get(nordlysSettings + "/off").want(200)
	for range 2 {
		p := confirm.press(nordlysSettings+"/off").follow().want(200).says("AI integration Off", "AI integration is off. Nobody can connect apps here.")
		if strings.Contains(p.text(), "Turned on by") {
			t.Error("it says who turned on what is off")
		}
	}
	if isOn() || s.lives(mine) || s.lives(tors) || !s.lives(elsewhere) {
		t.Errorf("on %v, alive %v %v and elsewhere %v", isOn(), s.lives(mine), s.lives(tors), s.lives(elsewhere))
	}
	if e := s.event("directory_changed"); e.Actor != "person:ada" || e.Organization != "nordlys" || e.Detail != "AI integration off" {
		t.Errorf("event %+v", e)
	}
	ada.get(nordlysApps).says("AI integration was turned off today at 10:00")
	ada.get(nordlysSettings + "/off").follow().want(200).says("AI integration Off")
	s.hostile("ada", nordlysSettings+"/on", url.Values{}, func() bool { return !isOn() })
	page := ada.get(nordlysSettings)
	for range 2 {
		page.press(nordlysSettings+"/on").follow().want(200).says("AI integration On", "Turned on by Ada Lindqvist on 22 November 2026.")
	}
	if s.lives(mine) || s.lives(tors) {
		t.Error("turning it on again has brought something back")
	}
}

// To everybody but the admins the pages do not exist.
func TestIntegrationIsForAdmins(t *testing.T) {
	s := newSite(t)
	id := s.signedIn("ada").connect()
	elsewhere := s.signedIn("ada").connect("organization", "fjell")
	paths := []string{nordlysSettings, nordlysSettings + "/off", nordlysSettings + "/" + id.String(), nordlysSettings + "/" + id.String() + "/revoke"}
	for person, b := range map[string]*browser{"a member": s.signedIn("tor"), "an admin elsewhere": s.signedIn("ola"), "a stranger": s.signedIn("eve")} {
		for _, path := range paths {
			if p := b.get(path); p.status != 404 || strings.Contains(p.text(), "Nordlys") {
				t.Errorf("%s, %s: %d %s", person, path, p.status, p.text())
			}
		}
		csrf := url.Values{"csrf": {b.get("/").fill("/signout").Get("csrf")}}
		for _, path := range []string{nordlysSettings + "/off", nordlysSettings + "/on", nordlysSettings + "/" + id.String() + "/revoke"} {
			b.post(path, csrf).want(404)
		}
	}
	ada := s.signedIn("ada")
	for _, path := range []string{
		"/organizations/fjell/settings/ai-integration", "/organizations/nowhere/settings/ai-integration", "/organizations/%00/settings/ai-integration",
		nordlysSettings + "/" + elsewhere.String(), nordlysSettings + "/" + elsewhere.String() + "/revoke", nordlysSettings + "/x", nordlysSettings + "/x/revoke",
		nordlysSettings + "/" + strings.Repeat("0", 32), nordlysSettings + "/" + strings.Repeat("0", 32) + "/revoke",
	} {
		ada.get(path).want(404)
	}
	csrf := url.Values{"csrf": {ada.get("/").fill("/signout").Get("csrf")}}
	ada.post(nordlysSettings+"/"+elsewhere.String()+"/revoke", csrf).want(404)
	if !s.lives(id) || !s.lives(elsewhere) {
		t.Error("something has ended")
	}
	// The right is asked for again when it counts.
	page := ada.get(nordlysSettings + "/off")
	s.do(s.Store.SetAdmin(context.Background(), "nordlys", "ada", false, store.Act{}))
	page.press(nordlysSettings + "/off").want(404)
	if !s.lives(id) {
		t.Error("somebody who is an admin no more has turned it off")
	}
	if p := ada.get("/"); strings.Contains(p.text(), "AI integration is on AI integration") || strings.Contains(renderText(p.doc), nordlysSettings) {
		t.Error("the page is offered to somebody who cannot see it")
	}
	s.browser().get(nordlysSettings).follow().want(200).says("Sign in")
	// E4 leads here.
	p := s.signedIn("ola").get(authorize()).want(403)
	for _, a := range p.all(atom.A) {
		if strings.HasSuffix(attr(a, "href"), "ai-integration") {
			p.b.get(attr(a, "href")).want(200).says("AI integration Off")
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
	s.do(s.Store.AddDirectory(context.Background(), d, store.Act{Actor: "system"}))
	want := 2*connectionsShown + 7
	for i := range want {
		b := s.signedIn(fmt.Sprintf("p%d", i%3))
		s.AuthorizeLimit = limit.NewAddresses(limit.Authorize, nil)
		b.get(authorize()).approve().want(303)
	}
	ada, seen := s.signedIn("ada"), map[string]bool{}
	for path, pages := nordlysSettings+"?access=everything", 1; path != ""; pages++ {
		p := ada.get(path).want(200).says(fmt.Sprintf("%d connections of 3 people", want))
		path = ""
		for _, a := range p.all(atom.A) {
			if strings.HasSuffix(attr(a, "href"), "/revoke") {
				seen[attr(a, "href")] = true
			}
		}
		for _, a := range p.all(atom.A) {
			if a.FirstChild != nil && a.FirstChild.Data == "Next" {
				path = attr(a, "href")
			}
		}
		if last := path == ""; last != (pages == 3) {
			t.Fatalf("page %d is the last: %v", pages, last)
		}
	}
	if len(seen) != want {
		t.Errorf("%d connections on the pages, want %d", len(seen), want)
	}
}
