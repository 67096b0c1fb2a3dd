package consent

import (
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/policy"
)

// offeredEnds are the options of the field: what each says, "-" before those that are
// shut and "*" before the chosen one.
func offeredEnds(p *pagetest.Shown) (out []string) {
	for _, n := range p.All(atom.Option) {
		text := n.FirstChild.Data
		if pagetest.Has(n, "disabled") {
			text = "-" + text
		}
		if pagetest.Has(n, "selected") {
			text = "*" + text
		}
		out = append(out, text)
	}
	return out
}

func wantEnds(t *testing.T, p *pagetest.Shown, want ...string) {
	t.Helper()
	got := offeredEnds(p)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("offers %q, want %q", got, want)
		}
	}
}

const inSeconds = int64(24 * 60 * 60)

// An approval lasts for as long as was chosen, counted from Approve, and by default
// until somebody ends it (decision A14).
func TestEnds(t *testing.T) {
	for value, days := range map[string]int64{"": 0, "1": 1, "7": 7, "30": 30} {
		s := newSite(t)
		p := s.SignedIn("tor").Get(pagetest.Authorize()).Says("How long?")
		wantEnds(t, p, "*Until I end it", "1 day (22 November 2026)", "7 days (28 November 2026)", "30 days (21 December 2026)")
		s.Pass(time.Minute)
		p.Press("/oauth/authorize", "grant", "everything", "ends", value, "decision", "approve").Want(303)
		want := int64(0)
		if days > 0 {
			want = s.Clock.Now().Unix() + days*inSeconds
		}
		if row := s.Approvals("tor")[0]; row.EndsAt != want {
			t.Errorf("%q: ends at %d, want %d", value, row.EndsAt, want)
		}
	}
}

// What is not offered is refused, and nothing is approved.
func TestEndsRefused(t *testing.T) {
	s := newSite(t)
	tor := s.SignedIn("tor")
	for _, value := range []string{"2", "max", "07", "1.0", "-1", "31", "x", " 7", "9223372036854775808"} {
		p := tor.Get(pagetest.Authorize()).Press("/oauth/authorize", "grant", "everything", "ends", value, "decision", "approve").Want(422).Says("Choose how long once more.")
		wantEnds(t, p, "*Until I end it", "1 day (22 November 2026)", "7 days (28 November 2026)", "30 days (21 December 2026)")
	}
	form := tor.Get(pagetest.Authorize()).Fill("/oauth/authorize")
	form.Set("grant", "everything")
	form.Set("decision", "approve")
	form["ends"] = []string{"1", "7"}
	tor.Post("/oauth/authorize", form).Want(422)
	s.Nothing("tor")
}

// The most that an organization or the operator allows is offered, chosen and held.
func TestEndsBound(t *testing.T) {
	s := newSite(t)
	s.rulesFor("nordlys", "person:ada", policy.Policy{MaxDays: 14})
	tor := s.SignedIn("tor")
	p := tor.Get(pagetest.Authorize()).Says("Nordlys Cooperative lets access last at most 14 days. Then you approve again.", "until 5 December 2026")
	wantEnds(t, p, "-Until I end it (not in \u2068Nordlys Cooperative\u2069)", "1 day (22 November 2026)", "7 days (28 November 2026)", "*14 days (5 December 2026), max.",
		"-30 days (\u2068Nordlys Cooperative\u2069 allows at most 14)")
	for _, value := range []string{"", "30"} {
		p := p.Press("/oauth/authorize", "grant", "everything", "ends", value, "decision", "approve").Want(422).Says("Nordlys Cooperative lets access last at most 14 days. Choose how long.")
		if n := p.All(atom.Select)[0]; pagetest.Attr(n, "aria-invalid") != "true" || pagetest.Attr(n, "aria-describedby") != "fault-ends" {
			t.Error("the field is not marked")
		}
	}
	s.Nothing("tor")
	p.Press("/oauth/authorize", "grant", "everything", "ends", "max", "decision", "approve").Want(303)
	if row := s.Approvals("tor")[0]; row.EndsAt != s.Clock.Now().Unix()+14*inSeconds {
		t.Errorf("ends at %d", row.EndsAt)
	}
	s.MaxDays = 7
	wantEnds(t, tor.Get(pagetest.Authorize()).Says("Svalinn lets access last at most 7 days."), "-Until I end it (not in \u2068Svalinn\u2069)", "1 day (22 November 2026)",
		"*7 days (28 November 2026), max.", "-30 days (\u2068Svalinn\u2069 allows at most 7)")
	s.MaxDays = 400
	s.rulesFor("nordlys", "person:ada", policy.Policy{})
	wantEnds(t, tor.Get(pagetest.Authorize()), "-Until I end it (not in \u2068Svalinn\u2069)", "1 day (22 November 2026)", "7 days (28 November 2026)",
		"30 days (21 December 2026)", "*400 days (26 December 2027), max.")
}

// Where organizations allow different things, the one that is chosen counts.
func TestEndsAmongSeveral(t *testing.T) {
	s := newSite(t)
	s.rulesFor("fjell", "person:ada", policy.Policy{MaxDays: 1})
	ada := s.SignedIn("ada")
	s.rulesFor("nordlys", "person:ada", policy.Policy{Unknown: policy.Block, MaxDays: 3}) // where nothing can be approved counts for nothing
	wantEnds(t, ada.Get(pagetest.Authorize()), "-Until I end it (not in \u2068Fjell Foundation\u2069)", "*1 day (22 November 2026), max.",
		"-7 days (\u2068Fjell Foundation\u2069 allows at most 1)", "-30 days (\u2068Fjell Foundation\u2069 allows at most 1)")
	s.rulesFor("nordlys", "person:ada", policy.Policy{})
	p := ada.Get(pagetest.Authorize()).Says("Fjell Foundation lets access last at most 1 day.")
	wantEnds(t, p, "*Until I end it", "1 day (22 November 2026)", "7 days (28 November 2026)", "30 days (21 December 2026)", "As long as the organization allows")
	again := p.Press("/oauth/authorize", "organization", "fjell", "grant", "roles", "role:reviewer", "read", "ends", "7", "decision", "approve").Want(422).
		Says("Fjell Foundation lets access last at most 1 day. Choose how long.")
	wantEnds(t, again, "Until I end it", "1 day (22 November 2026)", "7 days (28 November 2026)", "30 days (21 December 2026)", "*As long as the organization allows")
	p.Press("/oauth/authorize", "organization", "nordlys", "grant", "roles", "role:treasurer", "read", "ends", "max", "decision", "approve").Want(422)
	again.Press("/oauth/authorize", "decision", "approve").Want(303)
	if row := s.Approvals("ada")[0]; row.Organization != "fjell" || row.EndsAt != s.Clock.Now().Unix()+inSeconds {
		t.Errorf("approved %+v", row)
	}
}

// The choice comes back after signing in.
func TestEndsAfterSigningIn(t *testing.T) {
	s := newSite(t)
	tor := s.SignedIn("tor")
	p := tor.Get(pagetest.Authorize())
	s.Do(s.Store.EndSession(t.Context(), tor.Cookies[tor.CookieName("session")]))
	in := p.Press("/oauth/authorize", "grant", "everything", "ends", "7", "decision", "approve").Follow().Want(200)
	wantEnds(t, pagetest.SignIn(in, "tor@nordlys.example", pagetest.Password).Follow().Want(200),
		"Until I end it", "1 day (22 November 2026)", "*7 days (28 November 2026)", "30 days (21 December 2026)")
}

// What another tab has saved as well does not swallow the end date that comes with it.
func TestShortenBesideAnotherTab(t *testing.T) {
	s := newSite(t)
	tor := s.SignedIn("tor")
	path := editPath("nordlys", tor.Connect("grant", "everything"))
	one, two := tor.Get(path), tor.Get(path)
	same := []string{"grant", "roles", "personal", "1", "decision", "save"}
	one.Press(path, same...).Follow().Says("is changed", "No end date")
	for range 2 { // pressed twice
		two.Press(path, append(same, "ends", "7")...).Follow().Want(200).Says("is changed", "Ends on 28 November 2026")
	}
}

// An approval can be made shorter while it lives, never longer, and says so under
// Connected apps; once its date has come it is over.
func TestShorten(t *testing.T) {
	s := newSite(t)
	tor := s.SignedIn("tor")
	id := tor.Connect("grant", "everything")
	tor.Get(pagetest.NordlysApps).Says("No end date", "Shorten…")
	path := editPath("nordlys", id)
	p := tor.Get(path).Want(200).Says("It can only be made shorter here.")
	wantEnds(t, p, "*Until I end it", "1 day (22 November 2026)", "7 days (28 November 2026)", "30 days (21 December 2026)")
	p.Press(path, "ends", "7", "decision", "save").Follow().Want(200).Says("is changed", "Ends on 28 November 2026")
	s.Pass(time.Minute)
	p.Press(path, "ends", "7", "decision", "save").Follow().Want(200) // twice
	week := s.Approvals("tor")[0].EndsAt
	p = tor.Get(path)
	wantEnds(t, p, "*As now: until 28 November 2026", "1 day (22 November 2026)")
	for _, value := range []string{"30", "max", "x"} {
		p.Press(path, "ends", value, "decision", "save").Want(422).Says("Choose how long once more.")
	}
	p.Press(path, "grant", "roles", "personal", "1", "ends", "", "decision", "save").Follow().Says("Ends on 28 November 2026")
	if row := s.Approvals("tor")[0]; row.EndsAt != week || row.Grant.Kind != grantset.Roles {
		t.Errorf("changed to %+v", row)
	}
	tor.Get(path).Press(path, "ends", "1", "decision", "save").Follow().Says("Ends on 22 November 2026")
	s.Pass(25 * time.Hour)
	tor = s.SignedIn("tor")
	tor.Get(pagetest.NordlysApps).Says("Ended on 22 November 2026, its end date")
	tor.Get(path).Want(409).Says("This connection has ended.")
	if row := s.Approvals("tor")[0]; row.Reason != approval.EndedOnDate {
		t.Errorf("ended as %q", row.Reason)
	}
}
