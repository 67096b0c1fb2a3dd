package consent

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

const nordlysApps = "/organizations/nordlys/profile/api"

// connect gives a live approval.
func (b *browser) connect(changes ...string) approval.ID {
	b.s.t.Helper()
	code := b.get(authorize()).approve(changes...).sent(callback).Get("code")
	if v := b.s.exchange(code); v != approval.OK {
		b.s.t.Fatalf("exchange: %v", v)
	}
	return approval.ID(b.s.claim(code).Handle.ID())
}

// Cases, ux 7.
func TestConnectedApps(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	ada.get(nordlysApps).want(200).says("Connected apps – Nordlys Cooperative – Svalinn",
		"No apps act for you in Nordlys Cooperative. Apps that use the API or MCP appear here after you approve them.")
	ada.connect("grant", "roles", "role:treasurer", "change", "role:buddy", "read", "personal", "1")
	s.pass(24 * time.Hour)
	ada = s.signedIn("ada")
	second := ada.connect("grant", "organization")
	tors := s.signedIn("tor").connect()
	ada.connect("organization", "fjell")
	s.do(s.Store.SetFiller(context.Background(), "buddy", "ada", false, store.Act{Actor: "operator"}))
	s.Store.Used(second)
	s.do(s.Store.Ready(context.Background())) // written after what was queued
	p := ada.get(nordlysApps).says("Apps that act for you in Nordlys Cooperative. Revoking works at once.",
		"Quill Assistant Not checked", "connect.quill.example",
		"Only selected roles: Treasurer (change); personal entries included", "Connected 21 November 2026 · Not used yet",
		"Everything in this organization", "Connected 22 November 2026 · Last used today at 10:00",
		"Treasurer Nordlys (anchor circle) Change", "None now: you left this role on 22 November 2026")
	if n := strings.Count(p.text(), "Revoke…"); n != 1 {
		t.Errorf("%d buttons to revoke, want one per client (decision P2)", n)
	}

	confirm := ada.get("/organizations/nordlys/profile/api/clients/quill/revoke?").want(200).says(
		`Revoke access of “Quill Assistant”?`, "In Nordlys Cooperative, it stops working at once, on every device. To use it again, you approve it again.",
		"What it has already changed or read stays as it is.", "quill.example")
	done := confirm.b.post("/organizations/nordlys/profile/api/clients/quill/revoke", confirm.fill("/organizations/nordlys/profile/api/clients/quill/revoke")).follow().want(200).
		says(`Access of “Quill Assistant” is revoked. It must ask you again before it can do anything.`, "Revoked by you today at 10:00",
			"Had: Everything in this organization")
	if strings.Contains(done.text(), "Apps that act for you") {
		t.Error("still listed")
	}
	for _, r := range s.approvals("ada") {
		if (r.Reason == approval.RevokedByPerson) != (r.Organization == "nordlys") {
			t.Errorf("approval in %s: %+v", r.Organization, r.State)
		}
	}
	if e := s.event("approval_ended"); e.Actor != "person:ada" || e.Reason != "revoked_by_person" || e.Address != s.address {
		t.Errorf("event %+v", e)
	}
	// Twice, or from a stale page: no error.
	confirm.b.post("/organizations/nordlys/profile/api/clients/quill/revoke", confirm.fill("/organizations/nordlys/profile/api/clients/quill/revoke")).follow().says("is revoked.")
	ada.get("/organizations/nordlys/profile/api/clients/quill/revoke").follow().want(200)
	if a, err := s.Store.Check(context.Background(), tors); err != nil || a.Approval.Lost(a.Standing) != "" {
		t.Error("another person's connection has ended too")
	}
	// The note is true or absent, whatever the address says.
	if p := ada.get("/organizations/fjell/profile/api?revoked=quill"); strings.Contains(p.text(), "is revoked") {
		t.Error("the page says that access is revoked which is not")
	}
	ada.connect()
	if p := ada.get(nordlysApps + "?revoked=quill"); strings.Contains(p.text(), "is revoked") {
		t.Error("the page says that access is revoked which was approved again")
	}
}

// only one's own.
func TestOnlyOwnApprovals(t *testing.T) {
	s := newSite(t)
	ada, tor := s.signedIn("ada"), s.signedIn("tor")
	ada.connect()
	if p := tor.get(nordlysApps).want(200); strings.Contains(p.text(), "Quill") {
		t.Error("another person's connection is listed")
	}
	csrf := tor.get("/").fill("/signout").Get("csrf")
	for _, target := range []string{
		"/organizations/nordlys/profile/api/clients/quill/revoke", "/organizations/fjell/profile/api/clients/quill/revoke",
		"/organizations/nowhere/profile/api/clients/quill/revoke", "/organizations/nordlys/profile/api/clients/nobody/revoke",
		"/organizations/nordlys/profile/api/clients/%00/revoke", "/organizations/%00/profile/api/clients/quill/revoke", "/organizations/%ff/leave",
	} {
		tor.get(target).want(404)
		tor.post(target, url.Values{"csrf": {csrf}}).want(404)
	}
	tor.get("/organizations/fjell/profile/api").want(404).says("There is no such page.")
	if rows := s.approvals("ada"); rows[0].Phase != approval.Live {
		t.Errorf("ended: %+v", rows[0].State)
	}
}

// Changes need the session, its form token, and no sign of another origin.
func TestChangesAreGuarded(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	ada.connect()
	good := ada.get("/").fill("/signout")
	for _, target := range []string{"/organizations/nordlys/profile/api/clients/quill/revoke", "/organizations/nordlys/leave"} {
		ada.post(target, url.Values{}).want(403).says("Nothing was changed.")
		ada.post(target, url.Values{"csrf": {s.signedIn("ada").get("/").fill("/signout").Get("csrf")}}).want(403)
		ada.header.Set("Origin", "https://evil.example")
		ada.post(target, good).want(403)
		ada.header.Del("Origin")
		ada.header.Set("Sec-Fetch-Site", "cross-site")
		ada.post(target, good).want(403)
		ada.header.Del("Sec-Fetch-Site")
		ada.post(target, many(good, 100)).want(413)
		if got := s.browser().post(target, good).want(303).header.Get("Location"); !strings.HasPrefix(got, "/signin?return=") {
			t.Errorf("nobody signed in: leads to %q", got)
		}
		s.browser().get(target).follow().want(200).says("Sign in")
	}
	if rows := s.approvals("ada"); rows[0].Phase != approval.Live {
		t.Errorf("ended: %+v", rows[0].State)
	}
}

// Each end is told in plain words.
func TestEnded(t *testing.T) {
	s := newSite(t)
	ctx := context.Background()
	ada := s.signedIn("ada")
	says := map[approval.Reason]string{
		approval.RevokedByAdmin: "Revoked by an admin of Nordlys Cooperative today", approval.RevokedByOperator: "Ended by Svalinn today",
		approval.RevokedByClient: "The app ended it today", approval.Replaced: "A later connection took its place today",
		approval.RefreshReused: "Why is not known: the app may have sent it twice, or someone may have copied it. To be safe, all keys of this connection were ended.",
		approval.Unused:        "Ended after a long time without use today", approval.KeyRetired: "Ended today at 10:00: Svalinn retired the key of its access",
		approval.Restored: "Ended today at 10:00: Svalinn was restored from a backup", approval.StateLost: "Ended today at 10:00: Svalinn had lost the state of this connection",
		approval.CodeReused: "Ended today at 10:00: an old key was used again",
	}
	for _, reason := range approval.Reasons { // each in its own words, or as below
		if words := says[reason]; words == "" && !slices.Contains([]approval.Reason{approval.RevokedByPerson, approval.NeverConnected, approval.LeftOrganization,
			approval.PersonDeactivated, approval.ClientDisabled, approval.IntegrationOff}, reason) {
			t.Errorf("%s is said in no words", reason)
		}
	}
	for reason, want := range says {
		s.pass(time.Second)
		s.do(s.Store.EndApproval(ctx, ada.connect(), reason, store.Act{Actor: "operator"}))
		ada.get(nordlysApps).says(want)
	}
	ada.get(authorize()).approve().sent(callback) // never exchanged (decision P13)
	ada.get(nordlysApps).says("Everything I can access", "Not used yet")
	s.pass(approval.CodeLifetime)
	p := ada.get(nordlysApps).says("Never connected: the app did not fetch its keys (ended today at 10:05)")
	if strings.Contains(p.text(), "Apps that act for you") {
		t.Error("an approval whose code expired counts as connected")
	}
	ada.connect()
	s.do(s.Store.SetIntegration(ctx, "nordlys", false, store.Act{Actor: "operator"}))
	ada.get(nordlysApps).says("AI integration was turned off today")
	s.do(s.Store.SetIntegration(ctx, "nordlys", true, store.Act{Actor: "operator"}))
	ada.connect()
	s.do(s.Store.SetClientEnabled(ctx, "quill", false, store.Act{Actor: "operator"}))
	ada.get(nordlysApps).says("Svalinn disabled the app today")
}

// A role that is gone is told from one that the person has left.
func TestPicksThatCountForNothing(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	ada.connect("grant", "roles", "role:treasurer", "change", "role:buddy", "read", "role:facilitator", "read")
	s.do(s.Store.SetFiller(t.Context(), "buddy", "ada", false, store.Act{Actor: "operator"}))
	_, err := s.Store.TellDirectory(t.Context(), store.Telling{ID: "gone", Version: 1, Role: &org.Role{ID: "treasurer"}, Gone: true}, store.Act{Actor: "operator"})
	s.do(err)
	ada.get(nordlysApps).says("Only selected roles: Facilitator (read)", "Facilitator Nordlys (anchor circle) Read",
		"Buddy People & Onboarding None now: you left this role on 21 November 2026", "treasurer None now: this role no longer exists")
}

// ux 7: a hint after 90 days without use, and the most recently used first.
func TestUnused(t *testing.T) {
	s := newSite(t)
	s.signedIn("ada").connect("grant", "organization")
	s.signedIn("ada").get(authorize("client_id", "assistant", "redirect_uri", "https://assistant.example/cb")).approve().want(303)
	s.pass(91 * 24 * time.Hour)
	ada := s.signedIn("ada")
	p := ada.get(nordlysApps).says("Not used for 91 days, and it can do everything here. Revoke it if you no longer need it.")
	if strings.Count(p.text(), "Not used for") != 1 {
		t.Error("a hint about what has ended")
	}
	id := ada.connect()
	s.pass(time.Hour)
	s.register(client.Client{ID: "other", Name: "Other App", RedirectURIs: []string{"https://other.example/cb"}})
	ada.get(authorize("client_id", "other", "redirect_uri", "https://other.example/cb")).approve().want(303) // newer, and not used
	s.Store.Used(id)
	s.do(s.Store.Ready(context.Background()))
	if h := ada.get(nordlysApps).all(atom.H3); !strings.Contains(renderText(h[0]), "Quill") {
		t.Error("the most recently used does not come first")
	}
}

// Decision P14, case A-03.
func TestLeave(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	id := ada.connect()
	fjell := ada.connect("organization", "fjell")
	ada.get("/").want(200).says("Your organizations", "Nordlys Cooperative", "You are an admin · 9 roles · AI integration is on", "Havn Studio", "AI integration is off")
	confirm := ada.get("/organizations/nordlys/leave").want(200).says("Leave Nordlys Cooperative?", "You also stop being an admin.",
		"1 connection of an app that acts for you there ends at once. If you are added again, you approve again.")
	if _, err := s.Store.Member(context.Background(), "ada", "nordlys"); err != nil {
		t.Fatal("looking at the page leaves")
	}
	left := ada.post("/organizations/nordlys/leave", confirm.fill("/organizations/nordlys/leave")).follow().want(200)
	if strings.Contains(left.text(), "Nordlys") {
		t.Error("still listed")
	}
	ada.get(nordlysApps).want(404)
	if a, err := s.Store.Check(context.Background(), id); err == nil && a.Approval.Lost(a.Standing) == "" {
		t.Error("the approval stands")
	}
	if a, err := s.Store.Check(context.Background(), fjell); err != nil || a.Approval.Lost(a.Standing) != "" {
		t.Error("the approval elsewhere has ended too")
	}
	ada.post("/organizations/nordlys/leave", confirm.fill("/organizations/nordlys/leave")).want(404)
}
