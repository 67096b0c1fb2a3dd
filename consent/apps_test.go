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
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// Cases, ux 7.
func TestConnectedApps(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	ada.Get(pagetest.NordlysApps).Want(200).Says("Connected apps – Nordlys Cooperative – Svalinn",
		"No apps act for you in Nordlys Cooperative. Apps that use the API or MCP appear here after you approve them.")
	ada.Connect("grant", "roles", "role:treasurer", "change", "role:buddy", "read", "personal", "1")
	s.Pass(24 * time.Hour)
	ada = s.SignedIn("ada")
	second := ada.Connect("grant", "organization")
	tors := s.SignedIn("tor").Connect()
	ada.Connect("organization", "fjell")
	s.Do(s.Store.SetFiller(context.Background(), "buddy", "ada", false, store.Act{Actor: "operator"}))
	s.Store.Used(second)
	s.Do(s.Store.Ready(context.Background())) // written after what was queued
	p := ada.Get(pagetest.NordlysApps).Says("Apps that act for you in Nordlys Cooperative. Revoking works at once.",
		"Quill Assistant Not checked", "connect.quill.example",
		"Only selected roles: Treasurer (change); personal entries included", "Connected 21 November 2026 · Not used yet",
		"Everything in this organization", "Connected 22 November 2026 · Last used today at 10:00",
		"Treasurer Nordlys (anchor circle) Change", "None now: you left this role on 22 November 2026")
	if n := strings.Count(p.Text(), "Revoke…"); n != 1 {
		t.Errorf("%d buttons to revoke, want one per client (decision P2)", n)
	}

	confirm := ada.Get("/organizations/nordlys/profile/api/clients/quill/revoke?").Want(200).Says(
		`Revoke access of “Quill Assistant”?`, "In Nordlys Cooperative, it stops working at once, on every device. To use it again, you approve it again.",
		"What it has already changed or read stays as it is.", "quill.example")
	done := confirm.B.Post("/organizations/nordlys/profile/api/clients/quill/revoke", confirm.Fill("/organizations/nordlys/profile/api/clients/quill/revoke")).Follow().Want(200).
		Says(`Access of “Quill Assistant” is revoked. It must ask you again before it can do anything.`, "Revoked by you today at 10:00",
			"Had: Everything in this organization")
	if strings.Contains(done.Text(), "Apps that act for you") {
		t.Error("still listed")
	}
	for _, r := range s.Approvals("ada") {
		if (r.Reason == approval.RevokedByPerson) != (r.Organization == "nordlys") {
			t.Errorf("approval in %s: %+v", r.Organization, r.State)
		}
	}
	if e := s.Event("approval_ended"); e.Actor != "person:ada" || e.Reason != "revoked_by_person" || e.Address != s.From {
		t.Errorf("event %+v", e)
	}
	// Twice, or from a stale page: no error.
	confirm.B.Post("/organizations/nordlys/profile/api/clients/quill/revoke", confirm.Fill("/organizations/nordlys/profile/api/clients/quill/revoke")).Follow().Says("is revoked.")
	ada.Get("/organizations/nordlys/profile/api/clients/quill/revoke").Follow().Want(200)
	if a, err := s.Store.Check(context.Background(), tors); err != nil || a.Approval.Lost(a.Standing) != "" {
		t.Error("another person's connection has ended too")
	}
	// The note is true or absent, whatever the address says.
	if p := ada.Get("/organizations/fjell/profile/api?revoked=quill"); strings.Contains(p.Text(), "is revoked") {
		t.Error("the page says that access is revoked which is not")
	}
	ada.Connect()
	if p := ada.Get(pagetest.NordlysApps + "?revoked=quill"); strings.Contains(p.Text(), "is revoked") {
		t.Error("the page says that access is revoked which was approved again")
	}
}

// only one's own.
func TestOnlyOwnApprovals(t *testing.T) {
	s := newSite(t)
	ada, tor := s.SignedIn("ada"), s.SignedIn("tor")
	ada.Connect()
	if p := tor.Get(pagetest.NordlysApps).Want(200); strings.Contains(p.Text(), "Quill") {
		t.Error("another person's connection is listed")
	}
	csrf := tor.Get("/").Fill("/signout").Get("csrf")
	for _, target := range []string{
		"/organizations/nordlys/profile/api/clients/quill/revoke", "/organizations/fjell/profile/api/clients/quill/revoke",
		"/organizations/nowhere/profile/api/clients/quill/revoke", "/organizations/nordlys/profile/api/clients/nobody/revoke",
		"/organizations/nordlys/profile/api/clients/%00/revoke", "/organizations/%00/profile/api/clients/quill/revoke", "/organizations/%ff/leave",
	} {
		tor.Get(target).Want(404)
		tor.Post(target, url.Values{"csrf": {csrf}}).Want(404)
	}
	tor.Get("/organizations/fjell/profile/api").Want(404).Says("There is no such page.")
	if rows := s.Approvals("ada"); rows[0].Phase != approval.Live {
		t.Errorf("ended: %+v", rows[0].State)
	}
}

// Changes need the session, its form token, and no sign of another origin.
func TestChangesAreGuarded(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	ada.Connect()
	good := ada.Get("/").Fill("/signout")
	for _, target := range []string{"/organizations/nordlys/profile/api/clients/quill/revoke", "/organizations/nordlys/leave"} {
		ada.Post(target, url.Values{}).Want(403).Says("Nothing was changed.")
		ada.Post(target, url.Values{"csrf": {s.SignedIn("ada").Get("/").Fill("/signout").Get("csrf")}}).Want(403)
		ada.Header.Set("Origin", "https://evil.example")
		ada.Post(target, good).Want(403)
		ada.Header.Del("Origin")
		ada.Header.Set("Sec-Fetch-Site", "cross-site")
		ada.Post(target, good).Want(403)
		ada.Header.Del("Sec-Fetch-Site")
		ada.Post(target, pagetest.Many(good, 100)).Want(413)
		if got := s.Browser().Post(target, good).Want(303).Header.Get("Location"); !strings.HasPrefix(got, "/signin?return=") {
			t.Errorf("nobody signed in: leads to %q", got)
		}
		s.Browser().Get(target).Follow().Want(200).Says("Sign in")
	}
	if rows := s.Approvals("ada"); rows[0].Phase != approval.Live {
		t.Errorf("ended: %+v", rows[0].State)
	}
}

// Each end is told in plain words.
func TestEnded(t *testing.T) {
	s := newSite(t)
	ctx := context.Background()
	ada := s.SignedIn("ada")
	says := map[approval.Reason]string{
		approval.RevokedByAdmin: "Revoked by an admin of Nordlys Cooperative today", approval.RevokedByOperator: "Ended by Svalinn today",
		approval.RevokedByClient: "The app ended it today", approval.Replaced: "A later connection took its place today",
		approval.RefreshReused: "Why is not known: the app may have sent it twice, or someone may have copied it. To be safe, all keys of this connection were ended.",
		approval.Unused:        "Ended after a long time without use today", approval.KeyRetired: "Ended today at 10:00: Svalinn retired the key of its access",
		approval.Restored: "Ended today at 10:00: Svalinn was restored from a backup", approval.StateLost: "Ended today at 10:00: Svalinn had lost the state of this connection",
		approval.CodeReused: "Ended today at 10:00: an old key was used again", approval.EndedOnDate: "Ended on 21 November 2026, its end date",
		approval.AppBlocked: "Nordlys Cooperative blocked this app today at 10:00", approval.RedirectGone: "Ended today at 10:00: the app gave up the address that this access went to",
	}
	for _, reason := range approval.Reasons { // each in its own words, or as below
		if words := says[reason]; words == "" && !slices.Contains([]approval.Reason{approval.RevokedByPerson, approval.NeverConnected, approval.LeftOrganization,
			approval.PersonDeactivated, approval.ClientDisabled, approval.IntegrationOff}, reason) {
			t.Errorf("%s is said in no words", reason)
		}
	}
	for reason, want := range says {
		s.Pass(time.Second)
		s.Do(s.Store.EndApproval(ctx, ada.Connect(), reason, store.Act{Actor: "operator"}))
		ada.Get(pagetest.NordlysApps).Says(want)
	}
	ada.Get(pagetest.Authorize()).Approve().Sent(pagetest.Callback) // never exchanged (decision P13)
	ada.Get(pagetest.NordlysApps).Says("Everything I can access", "Not used yet")
	s.Pass(approval.CodeLifetime)
	p := ada.Get(pagetest.NordlysApps).Says("Never connected: the app did not fetch its keys (ended today at 10:05)")
	if strings.Contains(p.Text(), "Apps that act for you") {
		t.Error("an approval whose code expired counts as connected")
	}
	ada.Connect()
	s.Do(s.Store.SetIntegration(ctx, "nordlys", false, store.Act{Actor: "operator"}))
	ada.Get(pagetest.NordlysApps).Says("AI integration was turned off today")
	s.Do(s.Store.SetIntegration(ctx, "nordlys", true, store.Act{Actor: "operator"}))
	ada.Connect()
	s.Do(s.Store.SetClientEnabled(ctx, "quill", false, store.Act{Actor: "operator"}))
	ada.Get(pagetest.NordlysApps).Says("Svalinn disabled the app today")
}

// A role that is gone is told from one that the person has left.
func TestPicksThatCountForNothing(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	ada.Connect("grant", "roles", "role:treasurer", "change", "role:buddy", "read", "role:facilitator", "read")
	s.Do(s.Store.SetFiller(t.Context(), "buddy", "ada", false, store.Act{Actor: "operator"}))
	_, err := s.Store.TellDirectory(t.Context(), store.DirectoryEvent{ID: "gone", Version: 1, Role: &org.Role{ID: "treasurer"}, Gone: true}, store.Act{Actor: "operator"})
	s.Do(err)
	ada.Get(pagetest.NordlysApps).Says("Only selected roles: Facilitator (read)", "Facilitator Nordlys (anchor circle) Read",
		"Buddy People & Onboarding None now: you left this role on 21 November 2026", "treasurer None now: this role no longer exists")
}

// ux 7: a hint after 90 days without use, and the most recently used first.
func TestUnused(t *testing.T) {
	s := newSite(t)
	s.SignedIn("ada").Connect("grant", "organization")
	s.SignedIn("ada").Get(pagetest.Authorize("client_id", "assistant", "redirect_uri", "https://assistant.example/cb")).Approve().Want(303)
	s.Pass(91 * 24 * time.Hour)
	ada := s.SignedIn("ada")
	p := ada.Get(pagetest.NordlysApps).Says("Not used for 91 days, and it can do everything here. Revoke it if you no longer need it.")
	if strings.Count(p.Text(), "Not used for") != 1 {
		t.Error("a hint about what has ended")
	}
	id := ada.Connect()
	s.Pass(time.Hour)
	s.Register(client.Client{ID: "other", Name: "Other App", RedirectURIs: []string{"https://other.example/cb"}})
	ada.Get(pagetest.Authorize("client_id", "other", "redirect_uri", "https://other.example/cb")).Approve().Want(303) // newer, and not used
	s.Store.Used(id)
	s.Do(s.Store.Ready(context.Background()))
	if h := ada.Get(pagetest.NordlysApps).All(atom.H3); !strings.Contains(renderText(h[0]), "Quill") {
		t.Error("the most recently used does not come first")
	}
}

// Decision P14, case A-03.
func TestLeave(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	id := ada.Connect()
	fjell := ada.Connect("organization", "fjell")
	ada.Get("/").Want(200).Says("Your organizations", "Nordlys Cooperative", "You are an admin · 9 roles · AI integration is on", "Havn Studio", "AI integration is off")
	confirm := ada.Get("/organizations/nordlys/leave").Want(200).Says("Leave Nordlys Cooperative?", "You also stop being an admin.",
		"1 connection of an app that acts for you there ends at once. If you are added again, you approve again.")
	if _, err := s.Store.Member(context.Background(), "ada", "nordlys"); err != nil {
		t.Fatal("looking at the page leaves")
	}
	form := confirm.Fill("/organizations/nordlys/leave")
	s.Pass(10 * time.Minute) // to think it over
	for range 2 {            // pressed twice
		left := ada.Post("/organizations/nordlys/leave", form).Follow().Want(200).Says("You have left Nordlys Cooperative.")
		if strings.Count(left.Text(), "Nordlys") != 1 {
			t.Error("still listed")
		}
	}
	ada.Get(pagetest.NordlysApps).Want(404)
	if a, err := s.Store.Check(context.Background(), id); err == nil && a.Approval.Lost(a.Standing) == "" {
		t.Error("the approval stands")
	}
	if a, err := s.Store.Check(context.Background(), fjell); err != nil || a.Approval.Lost(a.Standing) != "" {
		t.Error("the approval elsewhere has ended too")
	}
	ada.Get("/organizations/nordlys/leave").Want(404)
	ada.Post("/organizations/svalbard/leave", form).Want(404)
	gone := ada.Post("/organizations/nordlys/leave", form).Want(303).Header.Get("Location")
	form.Del("member")
	ada.Post("/organizations/nordlys/leave", form).Want(404)
	s.Do(s.Store.SetMember(context.Background(), "nordlys", "ada", false, store.Act{Actor: "operator"}))
	if again := ada.Get(gone).Want(200).Says("Nordlys Cooperative"); strings.Contains(again.Text(), "You have left") {
		t.Error("a member is said to have left")
	}
}
