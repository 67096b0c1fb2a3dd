package orgadmin

import (
	"context"
	"encoding/csv"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// Decision P21: only admins of the organization, now, change anything there, by a form of theirs.
func TestAdminFormsAreForAdmins(t *testing.T) {
	s := newSite(t)
	s.Unlisted()
	id := s.SignedIn("tor").Connect()
	s.WithRules(policy.Policy{Apps: []policy.App{{Host: "app.ledgerlens.example", Name: "Ledger Lens", Rule: policy.Ask}}})
	r, before := s.Asks("tor", "ledgerlens", ""), s.RulesNow()
	forms := map[string]url.Values{
		pagetest.NordlysConnections: {"connection": {id.String()}, "action": {"ended"}},
		pagetest.NordlysRequests:    {"request": {r.ID}, "decision": {"allow"}},
		pagetest.NordlysRules:       {"rules": {pagetest.Attr(pagetest.Input(s.SignedIn("ada").Get(pagetest.NordlysRules), "rules"), "value")}, "action": {"save"}, "checked": {"1"}},
	}
	untouched := func() bool {
		now, err := s.Store.Request(context.Background(), "nordlys", r.ID)
		s.Do(err)
		return s.Lives(id) && now.State == store.RequestOpen && s.RulesNow().Version == before.Version
	}
	for path, form := range forms {
		full := form
		if path != pagetest.NordlysRequests { // those hold very many
			full = url.Values{}
			for i := range page.ChoiceFields - 50 {
				full.Set(fmt.Sprintf("y%d", i), "1")
			}
			maps.Copy(full, form)
		}
		s.Hostile("ada", path, full, untouched)
		for person, want := range map[string]int{"tor": 403, "ola": 404, "eve": 404} { // a member may have been an admin
			b := s.SignedIn(person)
			form.Set("csrf", b.Get("/").Fill("/signout").Get("csrf"))
			if b.Post(path, form).Want(want); !untouched() {
				t.Errorf("%s has changed something at %s", person, path)
			}
		}
	}
	s.WithSupport()
	acting := s.Acting()
	csrf := acting.Get("/").Fill("/signout").Get("csrf")
	for path, form := range forms {
		form.Set("csrf", csrf)
		if acting.Post(path, form).Want(403); !untouched() {
			t.Errorf("support staff have changed something at %s", path)
		}
	}
	for _, path := range []string{pagetest.NordlysRequests, pagetest.NordlysRules, pagetest.NordlysSettings} {
		if p := acting.Get(path).Want(200); strings.Contains(p.Body, `class="act"`) || strings.Contains(p.Body, "decision") {
			t.Errorf("support staff are offered to change something at %s", path)
		}
	}
	acting.Get(pagetest.NordlysConnections + ".csv").Want(403)
	for _, path := range []string{pagetest.NordlysRequests, pagetest.NordlysRules, pagetest.NordlysConnections + ".csv", pagetest.NordlysRequests + "/" + r.ID + "/decline"} {
		s.SignedIn("tor").Get(path).Want(404)
		s.SignedIn("ola").Get(path).Want(404)
		s.Browser().Get(path).Want(303)
	}
	// Who loses the right between a page and its form, and where it was turned off.
	open := s.SignedIn("ada").Get(pagetest.NordlysRequests)
	s.Do(s.Store.SetAdmin(context.Background(), "nordlys", "ada", false, store.Act{}))
	if pagetest.Pressed(open, pagetest.NordlysRequests, "decision", "allow").Want(403).Says("You are not an admin there any more", "Nothing was changed."); !untouched() {
		t.Error("somebody who is an admin no more has decided")
	}
	s.Do(s.Store.SetAdmin(context.Background(), "nordlys", "ada", true, store.Act{}))
	s.Do(s.Store.SwitchIntegration(context.Background(), "nordlys", "ada", false, store.Act{Actor: "person:ada"}))
	pagetest.Pressed(open, pagetest.NordlysRequests, "decision", "allow").Follow().Want(200).Says("AI integration was turned off meanwhile. Nothing was saved.")
}

// What an admin names is of their organization, whatever the form says.
func TestAdminFormsStayInside(t *testing.T) {
	s := newSite(t)
	ada, ola := s.SignedIn("ada"), s.SignedIn("ola")
	s.Do(s.Store.SwitchIntegration(context.Background(), "havn", "ola", true, store.Act{Actor: "person:ola"}))
	mine := ola.Connect("organization", "havn")
	theirs := ada.Connect("organization", "havn")
	s.Do(s.Store.SetAdmin(context.Background(), "havn", "ola", true, store.Act{}))
	csrf := ada.Get("/").Fill("/signout").Get("csrf")
	post := func(path string, form url.Values) *pagetest.Shown {
		form.Set("csrf", csrf)
		return ada.Post(path, form)
	}
	for _, action := range []string{"ended", "review", "end"} {
		p := post(pagetest.NordlysConnections, url.Values{"action": {action}, "connection": {mine.String(), theirs.String()}}).Follow().Want(200)
		if strings.Contains(p.Text(), "2 connections are") || strings.Contains(p.Text(), "2 connections have") {
			t.Errorf("%s reaches into another organization: %s", action, p.Text())
		}
	}
	if !s.Lives(mine) || !s.Lives(theirs) {
		t.Error("a connection of another organization has ended")
	}
	post(pagetest.NordlysConnections, url.Values{"action": {"ended"}, "connection": {"x"}}).Want(400)
	post(pagetest.NordlysConnections, url.Values{"action": {"x"}, "connection": {mine.String()}}).Want(400)
	post(pagetest.NordlysConnections, url.Values{"action": {"review"}}).Want(422).Says("Select at least one connection.")
	many := url.Values{"action": {"review"}}
	for i := range 1001 {
		many.Add("connection", fmt.Sprintf("%032x", i))
	}
	post(pagetest.NordlysConnections, many).Want(422).Says("At most 1,000 connections at once.")
	post(pagetest.NordlysRequests, url.Values{"decision": {"allow"}, "request": {"x"}}).Want(404)
	havn := pagetest.Attr(pagetest.Input(ola.Get("/organizations/havn/settings/ai-integration/rules"), "rules"), "value")
	post(pagetest.NordlysRules, url.Values{"rules": {havn}, "action": {"check"}}).Want(400) // sealed for another
	post(pagetest.NordlysRules, url.Values{"rules": {"x"}, "action": {"check"}}).Want(400)
}

// Connections are reviewed and ended together, and the note is in the journal.
func TestReviewAndEnd(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	a, b := s.SignedIn("tor").Connect(), ada.Connect()
	page := ada.Get(pagetest.NordlysSettings)
	reviewed := pagetest.Pressed(page, pagetest.NordlysConnections, "action", "review", "connection", a.String()).Follow().Want(200).Says("1 connection is marked as reviewed.", "Ada Lindqvist, 21 November 2026")
	ada.Get(connectionPath("nordlys", a)).Want(200).Says("Ada Lindqvist, 21 November 2026")
	if again := ada.Get(pagetest.NordlysSettings); strings.Contains(again.Text(), "is marked as reviewed") {
		t.Error("it says so without the note")
	}
	tor := s.SignedIn("tor")
	s.Do(s.Store.SetAdmin(context.Background(), "nordlys", "tor", true, store.Act{}))
	if p := tor.Get(reviewed.B.Get(pagetest.NordlysSettings).Link("Connections") + "?done=x"); strings.Contains(p.Text(), "is marked") {
		t.Error("anybody can say that something was done")
	}
	ask := pagetest.Pressed(page, pagetest.NordlysConnections, "action", "end", "connection", a.String()).Want(200).Says("End 1 connection?", "Quill Assistant", "For Tor Haugen")
	ask.Press(pagetest.NordlysConnections, "action", "ended", "note", "bad\x00note").Want(422)
	ask.Press(pagetest.NordlysConnections, "action", "ended", "note", "We use another one now.").Follow().Want(200).Says("1 connection has ended.")
	if s.Lives(a) || !s.Lives(b) {
		t.Errorf("lives: %v and %v, want the other alone", s.Lives(a), s.Lives(b))
	}
	if e := s.Event("approval_ended"); e.Actor != "person:ada" || e.Detail != "We use another one now." {
		t.Errorf("event %+v", e)
	}
	s.SignedIn("tor").Get(pagetest.NordlysApps).Want(200).Says("Revoked by an admin of Nordlys Cooperative", "“We use another one now.”")
	ask.Press(pagetest.NordlysConnections, "action", "ended").Follow().Want(200).Says("Nothing is left to do: they had ended before.")
	s.Pass(91 * 24 * time.Hour)
	ada = s.SignedIn("ada")
	due := ada.Get(pagetest.NordlysSettings+"?show=unreviewed").Want(200).Says("1 not reviewed for 90 days", "1 of 1 connections")
	pagetest.Pressed(due, pagetest.NordlysConnections, "action", "all").Want(200).Says("Mark 1 connection as reviewed?").Press(pagetest.NordlysConnections, "action", "review").Follow().Want(200)
	ada.Get(pagetest.NordlysSettings).Says("0 not reviewed for 90 days")
	// In another tab, where the list has them still: they live.
	if late := pagetest.Pressed(due, pagetest.NordlysConnections, "action", "all").Follow().Want(200).Says("No connection matches."); strings.Contains(late.Text(), "before") {
		t.Error("what lives is said to have ended")
	}
}

// The download has all that the filter shows, and no cell that a spreadsheet would run.
func TestExport(t *testing.T) {
	s := newSite(t)
	s.Do(s.Store.AddDirectory(context.Background(), store.Directory{People: []store.DirectoryPerson{{Person: org.Person{ID: "tor", Email: "tor@nordlys.example", Name: "=1+2", Active: true}}}}, store.Act{Actor: "operator"}))
	s.Register(client.Client{ID: "at", Name: "@SUM(A1), \"x\"", RedirectURIs: []string{"https://at.example/cb"}})
	s.SignedIn("tor").Connect("grant", "roles", "role:secretary", "change")
	s.SignedIn("ada").Connect()
	ada := s.SignedIn("ada")
	p := ada.Get(pagetest.NordlysConnections + ".csv").Want(200)
	rows, err := csv.NewReader(strings.NewReader(p.Body)).ReadAll()
	s.Do(err)
	if len(rows) != 3 || !slices.Equal(rows[0], exportColumns) || rows[2][4] != "'=1+2" || rows[2][7] != "Secretary (change)" || rows[1][6] != "everything" {
		t.Errorf("%q", rows)
	}
	if p.Header.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.HasPrefix(p.Header.Get("Content-Disposition"), "attachment;") {
		t.Errorf("headers %v", p.Header)
	}
	if e := s.Event("connections_exported"); e.Actor != "person:ada" || e.Organization != "nordlys" {
		t.Errorf("event %+v", e)
	}
	rows, err = csv.NewReader(strings.NewReader(ada.Get(pagetest.NordlysConnections + ".csv?access=roles").Want(200).Body)).ReadAll()
	if s.Do(err); len(rows) != 2 {
		t.Errorf("filtered: %q", rows)
	}
}

// Decision P20: an approval of a request is a rule, which Undo takes back; who decides second is told
// who was first.
func TestDecideRequests(t *testing.T) {
	s := newSite(t)
	s.Unlisted()
	s.WithRules(policy.Policy{Unknown: policy.Ask})
	s.Asks("tor", "ledgerlens", "Figures.")
	s.Asks("ada", "ledgerlens", "")
	one := s.Asks("tor", "sync", "")
	s.Do(s.Store.SetAdmin(context.Background(), "nordlys", "tor", true, store.Act{}))
	ada, tor := s.SignedIn("ada"), s.SignedIn("tor")
	first, second := ada.Get(pagetest.NordlysRequests).Want(200).Says("2 requests are waiting", "1 other person asked too", "Figures."), tor.Get(pagetest.NordlysRequests)
	if n := strings.Count(first.Text(), "This name looks like Svalinn's own"); n != 1 {
		t.Errorf("%d warnings of a name that is alike, want 1", n)
	}
	done := pagetest.Pressed(first, pagetest.NordlysRequests, "decision", "allow").Follow().Want(200).Says("Everybody in Nordlys Cooperative may now connect “Ledger Lens”. Undo", "1 request is waiting", "Approved")
	if strings.Contains(done.Text(), "email") {
		t.Error("it promises an email where none is sent")
	}
	pagetest.Pressed(second, pagetest.NordlysRequests, "decision", "allow").Follow().Want(200).Says("Ada Lindqvist was first and approved “Ledger Lens” today at 10:00. Nothing of yours was saved.")
	// A press that came twice is one, and nobody else's.
	pagetest.Pressed(first, pagetest.NordlysRequests, "decision", "allow").Follow().Want(200).Says("Everybody in Nordlys Cooperative may now connect “Ledger Lens”. Undo")
	pagetest.Pressed(first, pagetest.NordlysRequests, "decision", "person").Follow().Want(200).Says("Ada Lindqvist was first and approved “Ledger Lens” today at 10:00.")
	rule, app := func() (policy.Rule, *policy.App) {
		p := s.RulesNow()
		return p.Decide(client.Hosts{App: "app.ledgerlens.example"}, "Ledger Lens", "ola", false)
	}()
	if rule != policy.Allow || app == nil || app.By != "person:ada" {
		t.Errorf("the rule is %s, %+v", rule, app)
	}
	undone := pagetest.Pressed(done, pagetest.NordlysRequests, "decision", "undo").Follow().Want(200).Says("The rule that allowed “Ledger Lens” is removed.")
	if p := s.RulesNow(); len(p.Apps) != 0 {
		t.Errorf("rules %+v", p)
	}
	undone.Says("Approved The rules do not allow it any more.")
	if strings.Contains(done.Text(), "any more") {
		t.Error("what is allowed is said not to be")
	}
	// Undone twice is no error, but what somebody has changed since is not theirs to undo.
	pagetest.Pressed(done, pagetest.NordlysRequests, "decision", "undo").Follow().Want(200).Says("The rule that allowed “Ledger Lens” is removed.")
	s.Pass(time.Second)
	_, _, err := s.Store.SetPolicy(t.Context(), store.Rules{Organization: "nordlys", Seen: s.RulesNow().Version, Policy: policy.Policy{
		Unknown: policy.Ask, Apps: []policy.App{{Host: "app.ledgerlens.example", Name: "Ledger Lens", Rule: policy.Ask}}}}, store.Act{Actor: "person:tor"})
	s.Do(err)
	pagetest.Pressed(done, pagetest.NordlysRequests, "decision", "undo").Follow().Want(200).Says("The rules have changed since then")
	s.WithRules(policy.Policy{Unknown: policy.Ask})
	pagetest.Pressed(undone, pagetest.NordlysRequests, "decision", "person").Follow().Want(200).Says("Tor Haugen may now connect “Svalinn Sync”.")
	if p := s.RulesNow(); len(p.Apps) != 1 || p.Apps[0].Person != "tor" {
		t.Errorf("rules %+v", p)
	}
	ada.Get(pagetest.NordlysRequests + "/" + one.ID + "/decline").Follow().Want(200).Says("Ada Lindqvist was first and approved “Svalinn Sync”")
	// A decline for another reason is another press.
	three := s.Asks("tor", "ledgerlens", "")
	no := ada.Get(pagetest.NordlysRequests + "/" + three.ID + "/decline").Want(200)
	for _, reason := range []string{"We have one.", "We have one."} {
		no.Press(pagetest.NordlysRequests, "decision", "decline", "reason", reason).Follow().Want(200).Says("is declined")
	}
	no.Press(pagetest.NordlysRequests, "decision", "decline", "reason", "Not now.").Follow().Want(200).Says("Ada Lindqvist was first and declined “Ledger Lens”")
}

// Of two admins who decide differently at the same moment one is told that it is done, and the
// other who was first and with what; both from the page that they had.
func TestDecidedDifferentlyAtOnce(t *testing.T) {
	s := newSite(t)
	s.WithRules(policy.Policy{Unknown: policy.Ask})
	s.Do(s.Store.SetAdmin(context.Background(), "nordlys", "tor", true, store.Act{}))
	ada, tor := s.SignedIn("ada"), s.SignedIn("tor")
	for round := range 10 {
		id := fmt.Sprint("app", round)
		s.Register(client.Client{ID: id, Name: id, RedirectURIs: []string{"https://app." + id + ".example/cb"}})
		r, before := s.Asks("tor", id, ""), len(s.RulesNow().Apps)
		yes, no := ada.Get(pagetest.NordlysRequests).Want(200), tor.Get(pagetest.NordlysRequests+"/"+r.ID+"/decline").Want(200)
		var allows, declines *pagetest.Shown
		var wg sync.WaitGroup
		both := [2]func(){
			func() { allows = pagetest.Pressed(yes, pagetest.NordlysRequests, "decision", "allow") },
			func() { declines = no.Press(pagetest.NordlysRequests, "decision", "decline", "reason", "We have one.") },
		}
		if wg.Go(both[round%2]); round < 2 { // each is first once
			wg.Wait()
		}
		wg.Go(both[1-round%2])
		wg.Wait()
		now, err := s.Store.Request(t.Context(), "nordlys", r.ID)
		s.Do(err)
		rules := len(s.RulesNow().Apps) - before
		switch {
		case now.State == store.RequestAllowed && now.DecidedBy == "person:ada" && now.Reason == "" && rules == 1:
			allows.Follow().Want(200).Says("Everybody in Nordlys Cooperative may now connect “" + id + "”.")
			declines.Follow().Want(200).Says("Ada Lindqvist was first and approved “" + id + "” today at 10:00. Nothing of yours was saved.")
		case now.State == store.RequestDeclined && now.DecidedBy == "person:tor" && now.Reason == "We have one." && rules == 0:
			declines.Follow().Want(200).Says("“" + id + "” is declined.")
			allows.Follow().Want(200).Says("Tor Haugen was first and declined “" + id + "” today at 10:00. Nothing of yours was saved.")
		default:
			t.Errorf("half of each: %+v, %d rules", now, rules)
		}
	}
}

// What keeps an app from being allowed is said as it is: a block of its address, or that
// there are as many rules as there can be.
func TestWhyARequestCannotBeAllowed(t *testing.T) {
	for says, apps := range map[string][]policy.App{
		"The rules block this address": {{Host: "ledgerlens.example", Rule: policy.Block}},
		"There are too many rules, at most 1,000, so “Ledger Lens” cannot be approved.": func() (all []policy.App) {
			for i := range policy.MaxApps {
				all = append(all, policy.App{Host: fmt.Sprintf("a%d.example", i), Rule: policy.Block})
			}
			return all
		}(),
	} {
		s := newSite(t)
		s.Unlisted()
		s.WithRules(policy.Policy{Unknown: policy.Ask})
		s.Asks("tor", "ledgerlens", "")
		open := s.SignedIn("ada").Get(pagetest.NordlysRequests).Want(200)
		p := policy.Policy{Unknown: policy.Ask, Apps: apps}
		s.WithRules(p)
		pagetest.Pressed(open, pagetest.NordlysRequests, "decision", "allow").Follow().Want(200).Says(says, "1 request is waiting")
		if got := len(s.RulesNow().Apps); got != len(apps) {
			t.Errorf("%d rules", got)
		}
	}
}

// A role that has gone while rules were written is named as what is wrong with them.
func TestRulesWithARoleThatIsGone(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	found := pagetest.Pressed(ada.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "find", "role", "people").Want(200)
	taken := pagetest.Pressed(found, pagetest.NordlysRules, "take", "buddy", "role", "").Want(200)
	check := pagetest.Pressed(taken, pagetest.NordlysRules, "action", "check").Want(200)
	role := org.Role{ID: "buddy"}
	_, err := s.Store.TellDirectory(context.Background(), store.DirectoryEvent{ID: "e", Version: 1, Role: &role, Gone: true}, store.Act{})
	s.Do(err)
	check.Press(pagetest.NordlysRules, "action", "save").Want(422).Says("Error: Rules", "A role that is never given to apps is not there any more.")
	if p := s.RulesNow(); p.Version != 0 {
		t.Errorf("saved: %+v", p)
	}
}

// Who asked has left while the page was open: the admin, who is one still, is told that
// the request does not wait.
func TestDecideForOneWhoLeft(t *testing.T) {
	s := newSite(t)
	s.Unlisted()
	s.WithRules(policy.Policy{Unknown: policy.Ask})
	s.Asks("tor", "ledgerlens", "")
	open := s.SignedIn("ada").Get(pagetest.NordlysRequests).Want(200)
	s.Do(s.Store.RemoveMember(context.Background(), "nordlys", "tor", store.Act{}))
	pagetest.Pressed(open, pagetest.NordlysRequests, "decision", "person").Follow().Want(200).Says("does not wait any more")
	if apps := s.RulesNow().Apps; len(apps) > 0 {
		t.Errorf("rules: %v", apps)
	}
}

// Rules and requests are of an address and a name: an app whose client was deleted, or forgotten
// because nobody had approved it, is shown, decided and undone as before, and rules are for the
// next client that is called so there.
func TestAppsWhoseClientIsGone(t *testing.T) {
	for name, goes := range map[string]func(*site){
		"deleted": func(s *site) {
			for _, id := range []string{"ledgerlens", "sync"} {
				s.Do(s.Store.DeleteClient(t.Context(), id, store.Act{Actor: "operator"}))
			}
		},
		"forgotten": func(s *site) { s.Pass(15 * 24 * time.Hour) },
	} {
		s := newSite(t)
		s.Unlisted()
		s.Pass(time.Second)
		s.WithRules(policy.Policy{Unknown: policy.Ask, Apps: []policy.App{{Host: "app.sync.example", Name: "Svalinn Sync", Rule: policy.Ask, Reason: "Which data?"}}})
		s.Asks("tor", "ledgerlens", "Figures.")
		s.Asks("tor", "sync", "")
		goes(s)
		_, err := s.Store.Sweep(t.Context())
		s.Do(err)
		if c, err := s.Store.Client(t.Context(), "ledgerlens"); err == nil {
			t.Fatalf("%s: %+v is there", name, c)
		}
		ada := s.SignedIn("ada")
		open := ada.Get(pagetest.NordlysRequests).Want(200).Says("2 requests are waiting", "Ledger Lens", "app.ledgerlens.example", "Figures.", "This name looks like Svalinn's own")
		ada.Get(pagetest.NordlysSettings).Want(200).Says("Ledger Lens")
		ada.Get(pagetest.NordlysRules).Want(200).Says("Svalinn Sync", "app.sync.example", "“Which data?”")
		done := pagetest.Pressed(open, pagetest.NordlysRequests, "decision", "allow").Follow().Want(200).Says("Everybody in Nordlys Cooperative may now connect “Ledger Lens”.")
		p := s.RulesNow()
		if rule, _ := p.Decide(client.Hosts{App: "app.ledgerlens.example"}, "ledger lens", "ola", false); rule != policy.Allow {
			t.Errorf("%s: the next client is under %s", name, rule)
		}
		pagetest.Pressed(done, pagetest.NordlysRequests, "decision", "undo").Follow().Want(200).Says("The rule that allowed “Ledger Lens” is removed.")
		check := pagetest.Pressed(ada.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "check", "rule:0", "block").Want(200).Says("Save these rules?")
		check.Press(pagetest.NordlysRules, "action", "save").Follow().Want(200).Says("The rules are saved.")
		d, err := s.Store.ExportDirectory(t.Context())
		s.Do(err)
		if apps := d.Rules["nordlys"].Apps; len(apps) != 1 || apps[0].Rule != policy.Block || apps[0].Name != "Svalinn Sync" {
			t.Errorf("%s: exported %+v", name, apps)
		}
		if rows := strings.Count(ada.Get(pagetest.NordlysConnections+".csv").Want(200).Body, "\n"); rows != 1 {
			t.Errorf("%s: %d rows are exported", name, rows)
		}
	}
}

// Where an app would be allowed without the rule, Undo has members ask for it, as before.
func TestUndoNeverAllows(t *testing.T) {
	s := newSite(t)
	s.Unlisted()
	s.WithRules(policy.Policy{Apps: []policy.App{{Host: "app.ledgerlens.example", Name: "Ledger Lens", Rule: policy.Ask}}})
	s.Asks("tor", "ledgerlens", "")
	done := pagetest.Pressed(s.SignedIn("ada").Get(pagetest.NordlysRequests), pagetest.NordlysRequests, "decision", "allow").Follow()
	for range 2 { // pressed twice, each some seconds after what was before
		s.Pass(2 * time.Second)
		pagetest.Pressed(done, pagetest.NordlysRequests, "decision", "undo").Follow().Want(200).Says("The rule that allowed “Ledger Lens” is removed.")
	}
	s.Pass(6 * time.Minute)
	pagetest.Pressed(done, pagetest.NordlysRequests, "decision", "undo").Follow().Want(200).Says("It is too late to undo this here. Nothing was changed.")
	p := s.RulesNow()
	if rule, _ := p.Decide(client.Hosts{App: "app.ledgerlens.example"}, "Ledger Lens", "tor", false); rule != policy.Ask {
		t.Errorf("the rule is %s", rule)
	}
}

// Rules are checked with what they do, and then saved; nothing is before.
func TestSaveRules(t *testing.T) {
	s := newSite(t)
	ada, id := s.SignedIn("ada"), s.SignedIn("tor").Connect()
	form := ada.Get(pagetest.NordlysRules).Want(200)
	added := pagetest.Pressed(form, pagetest.NordlysRules, "action", "add", "new", "https://connect.quill.example/callback", "newname", "")
	check := pagetest.Pressed(added.Want(200).Says("1 app has a rule of its own"), pagetest.NordlysRules, "action", "check", "days", "14", "default", "ask").Want(200).Says("Save these rules?",
		"Block: connect.quill.example. 1 connection ends at once.", "Apps that are not listed: Ask an admin first.", "How long at most is now 14 days.", "Save, and end 1 connection")
	if !s.Lives(id) || s.RulesNow().Version != 0 {
		t.Error("something was saved before it was asked about")
	}
	back := check.Press(pagetest.NordlysRules, "action", "back").Want(200).Says("1 app has a rule of its own")
	check = pagetest.Pressed(back, pagetest.NordlysRules, "action", "check").Want(200)
	check.Press(pagetest.NordlysRules, "action", "save", "reason", "It keeps copies.").Follow().Want(200).Says("The rules are saved.", "“It keeps copies.”")
	p := s.RulesNow()
	if s.Lives(id) || p.Unknown != policy.Ask || p.MaxDays != 14 || len(p.Apps) != 1 || p.Apps[0].Rule != policy.Block || p.Apps[0].Host != "connect.quill.example" || p.Apps[0].Reason != "It keeps copies." {
		t.Errorf("lives %v, rules %+v", s.Lives(id), p)
	}
	pagetest.Pressed(ada.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "check").Want(200).Says("Nothing is different from the rules that hold now.")
	// What contradicts itself is told where it stands, and the form is kept.
	both := pagetest.Pressed(ada.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "add", "new", "connect.quill.example", "newname", "Quill")
	pagetest.Pressed(both, pagetest.NordlysRules, "action", "check", "days", "30").Want(422).Says("Error: Rules", "This rule never holds, because connect.quill.example is blocked", "2 apps have a rule of their own")
	for _, host := range []string{"no host", "localhost", "10.0.0.1", "a..b", "https://", "x.example:99999"} {
		if p := pagetest.Pressed(ada.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "check", "new", host); p.Status == 303 || s.RulesNow().Version != 1 {
			t.Errorf("%q: %d", host, p.Status)
		}
	}
	pagetest.Pressed(ada.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "check", "new", "a.example").Want(200).Says("What you had written is in the form now.")
}

// An admin whose session is over is led back to the page that they were at, and nothing is
// done unseen.
func TestAdminsComeBackAfterSigningIn(t *testing.T) {
	s := newSite(t)
	tor := s.SignedIn("tor")
	id := tor.Connect("grant", "everything")
	for path, back := range map[string]string{
		pagetest.NordlysRules: pagetest.NordlysRules, pagetest.NordlysRequests: pagetest.NordlysRequests, pagetest.NordlysConnections: pagetest.NordlysSettings,
		pagetest.NordlysSettings + "/off":                        pagetest.NordlysSettings + "/off", // which asks once more
		pagetest.NordlysSettings + "/" + id.String() + "/revoke": pagetest.NordlysSettings + "/" + id.String() + "/revoke",
	} {
		p := s.Browser().Post(path, url.Values{"action": {"ended"}, "connection": {id.String()}}).Follow().Want(200)
		if at := pagetest.SignIn(p, "ada@nordlys.example", pagetest.Password).Want(303).Header.Get("Location"); at != back {
			t.Errorf("%s: leads to %q, want %q", path, at, back)
		}
	}
	// What the list showed is of its form, and so is the one connection that was looked at.
	ada := s.SignedIn("ada")
	for from, back := range map[string]string{
		pagetest.NordlysSettings + "?find=quill": pagetest.NordlysSettings + "?find=quill",
		connectionPath("nordlys", id):            connectionPath("nordlys", id),
	} {
		form := ada.Get(from).Want(200).Fill(pagetest.NordlysConnections)
		form["action"], form["connection"] = []string{"review"}, []string{id.String()}
		p := s.Browser().Post(pagetest.NordlysConnections, form).Follow().Want(200)
		if at := pagetest.SignIn(p, "ada@nordlys.example", pagetest.Password).Want(303).Header.Get("Location"); at != back {
			t.Errorf("%s: leads to %q, want %q", from, at, back)
		}
	}
	if !s.Lives(id) {
		t.Error("it has ended")
	}
}

// The page of rules is long: it comes back at the list that a press has changed or
// searched, and where a fault is told there instead.
func TestRulesComeBackWhereTheyWere(t *testing.T) {
	ada := newSite(t).SignedIn("ada")
	press := func(p *pagetest.Shown, name, value, want string, changes ...string) *pagetest.Shown {
		t.Helper()
		p = pagetest.Pressed(p, pagetest.NordlysRules, name, value, changes...)
		for _, n := range slices.Collect(p.Doc.Descendants()) {
			if pagetest.Has(n, "autofocus") {
				if text := strings.Join(strings.Fields(textOf(n)), " "); text != want || !pagetest.Has(n, "tabindex") && n.DataAtom != atom.Input {
					t.Errorf("%s=%s: the focus is on %q", name, value, text)
				}
				return p
			}
		}
		t.Errorf("%s=%s: the focus is nowhere", name, value)
		return p
	}
	p := press(ada.Get(pagetest.NordlysRules), "action", "add", "One one.example", "new", "one.example", "newname", "One")
	p = press(p, "action", "add", "Two two.example", "new", "two.example", "newname", "Two")
	p = press(p, "forget", "0", "1 app has a rule of its own")
	p = press(p, "forget", "0", "") // the field for a new one
	p = press(p, "action", "find", "Treasurer Nordlys (anchor circle) Add", "role", "treasurer")
	p = press(p, "take", "treasurer", "Roles that are never given")
	p = press(p, "give", "treasurer", "Roles that are never given")
	press(p, "action", "add", "These rules cannot be saved: “ no host! ” is no address of an app. Write it as connect.example.", "new", "no host!")
}

// One thing of a page takes the focus, also where there is more to tell: of rules that cannot
// be beside those that another admin has saved, or beside what was typed and not added.
func TestOneFocusOnTheRules(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	one := func(p *pagetest.Shown) {
		t.Helper()
		n := 0
		for node := range p.Doc.Descendants() {
			if pagetest.Has(node, "autofocus") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d things take the focus: %s", n, p.Text())
		}
	}
	p := pagetest.Pressed(ada.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "add", "new", "sub.one.example", "newname", "One")
	check := pagetest.Pressed(p, pagetest.NordlysRules, "action", "check").Want(200)
	s.WithRules(policy.Policy{Apps: []policy.App{{Host: "one.example", Rule: policy.Block}}})
	p = check.Press(pagetest.NordlysRules, "action", "save").Want(409).Says("These rules cannot be saved:")
	one(p)
	one(pagetest.Pressed(p, pagetest.NordlysRules, "action", "check", "new", "two.example").Says("What you had written is in the form now.", "These rules cannot be saved:"))
}

func textOf(n *html.Node) (text string) {
	for n := range n.Descendants() {
		if n.Type == html.TextNode {
			text += n.Data + " "
		}
	}
	return text
}

// However an admin types a host it is one rule, which a client meets by the spelling of its
// redirect URI.
func TestOneSpellingOfAHost(t *testing.T) {
	s := newSite(t)
	id := s.SignedIn("tor").Connect()
	ada := s.SignedIn("ada")
	for want, typed := range map[string][]string{
		"xn--bcher-kva.example": {"b\u00fccher.example", "xn--bcher-kva.example", "XN--BCHER-KVA.Example", "B\u00dcCHER.example.", "bu\u0308cher.example", "https://b\u00fccher.example:8443/a?b", "b\u00fccher\u3002example", "b%C3%BCcher.example"},
		"connect.quill.example": {"Connect.Quill.EXAMPLE", "connect.quill.example.", "connect.quill.example:443", "http://connect.quill.example:80/cb", "\uff43onnect.quill.example"},
		"a--b.c---d.example":    {"a--b.c---d.example", "A--B.C---D.EXAMPLE:1"},
		"[2606:4700::1111]":     {"[2606:4700:0::1111]", "https://[2606:4700::1111]:8443/", "[2606:4700:0:0:0:0:0:1111]:443"},
	} {
		form := ada.Get(pagetest.NordlysRules).Want(200)
		for i, text := range typed {
			added := pagetest.Pressed(form, pagetest.NordlysRules, "action", "add", "new", text, "newname", "")
			if i == 0 {
				form = added.Want(200).Says("1 app has a rule of its own", want)
				continue
			}
			added.Want(422).Says("This app is in the list already.")
		}
	}
	for _, text := range []string{"b\u00fccher", "x\u0301.\u200b.example", "a b.example", "\u202eexample.com", "xn--a.example", "-.example", "..", "[::1", "https:///x", "user@\u00fc.local"} {
		pagetest.Pressed(ada.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "add", "new", text, "newname", "").Want(422)
	}
	// A block is told as what it is, for a host, also where the row has a name.
	named := pagetest.Pressed(ada.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "add", "new", "connect.quill.example", "newname", "Just One").Want(200)
	pagetest.Pressed(named, pagetest.NordlysRules, "action", "check", "rule:0", "block").Want(200).Says("Block: connect.quill.example. 1 connection ends at once.")
	blocks := pagetest.Pressed(ada.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "add", "new", "Quill.Example.", "newname", "").Want(200)
	pagetest.Pressed(blocks, pagetest.NordlysRules, "action", "check").Want(200).Says("1 connection ends at once.").Press(pagetest.NordlysRules, "action", "save").Want(303)
	if p := s.RulesNow(); len(p.Apps) != 1 || p.Apps[0].Host != "quill.example" || s.Lives(id) {
		t.Errorf("%+v, lives %v", p.Apps, s.Lives(id))
	}
}

// Of two admins the second sees what the first has changed, and loses nothing.
func TestRulesOvertaken(t *testing.T) {
	s := newSite(t)
	s.Do(s.Store.SetAdmin(context.Background(), "nordlys", "tor", true, store.Act{}))
	ada, tor := s.SignedIn("ada"), s.SignedIn("tor")
	theirs := pagetest.Pressed(tor.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "check", "days", "7", "readonly", "1").Want(200)
	alike := pagetest.Pressed(ada.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "check", "days", "7", "readonly", "1").Want(200)
	another := pagetest.Pressed(tor.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "check", "days", "1").Want(200)
	mine := pagetest.Pressed(ada.Get(pagetest.NordlysRules), pagetest.NordlysRules, "action", "check", "days", "30", "nopersonal", "1").Want(200)
	theirs.Press(pagetest.NordlysRules, "action", "save").Want(303)
	theirs.Press(pagetest.NordlysRules, "action", "save").Want(303) // pressed twice
	another.Press(pagetest.NordlysRules, "action", "save").Want(409).Says("Nothing was saved.")
	alike.Press(pagetest.NordlysRules, "action", "save").Want(409).Says("Tor Haugen changed the rules", "Nothing was saved.")
	kept := mine.Press(pagetest.NordlysRules, "action", "save").Want(409).Says("Tor Haugen changed the rules today at 10:00, after you opened this page:", "How long at most is now 7 days.", "Nothing was saved.")
	if p := s.RulesNow(); p.MaxDays != 7 || p.Version != 1 {
		t.Errorf("rules %+v", p)
	}
	pagetest.Pressed(kept, pagetest.NordlysRules, "action", "check").Want(200).Says("How long at most is now 30 days.").Press(pagetest.NordlysRules, "action", "save").Want(303)
	if p := s.RulesNow(); p.MaxDays != 30 || !p.Ceiling.ReadOnly || !p.Ceiling.NoPersonal || p.Version != 2 {
		t.Errorf("rules %+v, want both changes", p)
	}
}

// A draft is carried onto other rules: what it changes stands, and nothing else does.
func TestDraftOnto(t *testing.T) {
	app := func(host string, rule policy.Rule) policy.App { return policy.App{Host: host, Name: "A", Rule: rule} }
	base := policy.Policy{Apps: []policy.App{app("a.example", policy.Ask), app("b.example", policy.Ask), app("c.example", policy.Ask)}, Ceiling: grantset.Ceiling{Never: []string{"r", "s"}}, MaxDays: 7}
	mine, now := base, base
	mine.Apps = []policy.App{app("a.example", policy.Allow), app("c.example", policy.Ask), app("d.example", policy.Block)}
	mine.Ceiling.Never = []string{"s", "t"}
	now.Apps = []policy.App{app("a.example", policy.Block), app("b.example", policy.Ask), app("e.example", policy.Ask)}
	now.Ceiling.Never, now.MaxDays, now.Version = []string{"r", "s", "u"}, 30, 9
	got := draft{base, mine}.onto(now)
	want := []policy.App{app("a.example", policy.Allow), app("e.example", policy.Ask), app("d.example", policy.Block)}
	if !slices.Equal(got.Mine.Apps, want) || !slices.Equal(got.Mine.Ceiling.Never, []string{"s", "t", "u"}) || got.Mine.MaxDays != 30 || got.Base.Version != 9 {
		t.Errorf("%+v", got.Mine)
	}
}

// To turn AI integration on asks which apps members may connect.
func TestTurnOnWithRules(t *testing.T) {
	s := newSite(t)
	ola, at := s.SignedIn("ola"), "/organizations/havn/settings/ai-integration"
	page := ola.Get(at).Want(200).Says("Which apps may members connect?")
	if got := page.Fill(at + "/on").Get("default"); got != "ask" {
		t.Errorf("%q is chosen", got)
	}
	page.Press(at+"/on", "default", "x").Want(400)
	page.Press(at+"/on").Follow().Want(200).Says("AI integration On", "No apps act for members here yet.")
	if p, err := s.Store.Policy(context.Background(), "havn"); err != nil || p == nil || p.Unknown != policy.Ask {
		t.Errorf("rules %+v, %v", p, err)
	}
}
