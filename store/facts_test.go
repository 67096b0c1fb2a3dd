package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
)

// Every fact that ends takes its approvals with it, at once and for good
// (spec 3; decisions P10, P12), and leaves the others alone.
func TestFactsThatEnd(t *testing.T) {
	ctx := context.Background()
	operator := Act{Actor: "operator", Reason: "test"}
	tests := []struct {
		name       string
		end, again func(h house) error
		reason     approval.Reason
		fjellLives bool // the person's approval in the other organization
	}{
		{"removed from the organization, and invited again",
			func(h house) error { return h.RemoveMember(ctx, "nordlys", "ada", operator) },
			func(h house) error { return h.SetMember(ctx, "nordlys", "ada", true, operator) },
			approval.LeftOrganization, true},
		{"account deactivated, and reactivated",
			func(h house) error { return h.SetActive(ctx, "ada", false, operator) },
			func(h house) error { return h.SetActive(ctx, "ada", true, operator) },
			approval.PersonDeactivated, false},
		{"client disabled, and enabled",
			func(h house) error { return h.SetClientEnabled(ctx, "quill", false, operator) },
			func(h house) error { return h.SetClientEnabled(ctx, "quill", true, operator) },
			approval.ClientDisabled, false},
		{"AI integration off, and on",
			func(h house) error { return h.SetIntegration(ctx, "nordlys", false, operator) },
			func(h house) error { return h.SetIntegration(ctx, "nordlys", true, operator) },
			approval.IntegrationOff, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t)
			id := h.live(t, h.answer(1))
			waiting, _, err := h.Approve(ctx, h.answer(2), Act{})
			if err != nil {
				t.Fatal(err)
			}
			elsewhere := h.answer(3)
			elsewhere.Organization, elsewhere.Grant = "fjell", grantset.Set{Kind: grantset.Everything}
			fjell := h.live(t, elsewhere)

			for range 2 { // repeated changes are fine
				if err := tt.end(h); err != nil {
					t.Fatal(err)
				}
			}
			check := func(when string) {
				t.Helper()
				if h.accepts(t, id) {
					t.Errorf("%s: accepted", when)
				}
				if got := h.accepts(t, fjell); got != tt.fjellLives && (when == "after the end" || !tt.fjellLives) {
					t.Errorf("%s: the approval in fjell is accepted: %v", when, got)
				}
				if v, err := h.refresh(id, 1); v != approval.Over || err != nil {
					t.Errorf("%s: refresh: got %v, %v; want over", when, v, err)
				}
				if v, err := h.exchange(approval.ID(waiting.ID()), h.Now().Unix()); v != approval.Over || err != nil {
					t.Errorf("%s: exchange: got %v, %v; want over", when, v, err)
				}
				row, err := h.Approval(ctx, id)
				if err != nil || row.Phase != approval.Ended || row.Reason != tt.reason {
					t.Errorf("%s: row: %v %v, %v; want ended, %v", when, row.Phase, row.Reason, err, tt.reason)
				}
			}
			var marked string // before anybody asks, and without a sweep
			if err := h.reader.QueryRow(`SELECT reason FROM approval WHERE id = $1`, id[:]).Scan(&marked); err != nil || marked != string(tt.reason) {
				t.Errorf("the row is marked %q, %v; want %v", marked, err, tt.reason)
			}
			check("after the end")
			if err := tt.again(h); err != nil {
				t.Fatal(err)
			}
			check("after it came back")
			h = h.reopen(t)
			check("after a restart")
			if id := h.live(t, h.answer(9)); !h.accepts(t, id) {
				t.Error("a new approval is not accepted after the fact came back")
			}
		})
	}
}

// reopen closes the store and opens it on the same file.
func (h house) reopen(t testing.TB) house {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, h.path, h.clock)
}

// Somebody who is no longer a member fills none of their roles, also not when
// they come back.
func TestRolesEmptyAtRemoval(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	if err := h.RemoveMember(ctx, "nordlys", "ada", Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.SetMember(ctx, "nordlys", "ada", false, Act{}); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"in memory", "after a restart"} {
		m, err := h.Member(ctx, "ada", "nordlys")
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Roles()) != 0 || m.Admin {
			t.Errorf("%s: got %d roles, admin %v; want none", when, len(m.Roles()), m.Admin)
		}
		h = h.reopen(t)
	}
}

// What a check sees of a person follows the facts at once (decision P6).
func TestMemberFollowsFacts(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	member := func() (admin, treasurer bool) {
		t.Helper()
		a, err := h.Check(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return a.Member().Admin, a.Member().Fills("treasurer")
	}
	steps := []struct {
		name             string
		do               func() error
		admin, treasurer bool
	}{
		{"at first", func() error { return nil }, true, true},
		{"role taken", func() error { return h.SetFiller(ctx, "treasurer", "ada", false, Act{}) }, true, false},
		{"role given again", func() error { return h.SetFiller(ctx, "treasurer", "ada", true, Act{}) }, true, true},
		{"admin right taken", func() error { return h.SetAdmin(ctx, "nordlys", "ada", false, Act{}) }, false, true},
		{"admin right given again", func() error { return h.SetAdmin(ctx, "nordlys", "ada", true, Act{}) }, true, true},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatal(s.name, err)
		}
		if admin, treasurer := member(); admin != s.admin || treasurer != s.treasurer {
			t.Errorf("%s: got admin %v, treasurer %v; want %v, %v", s.name, admin, treasurer, s.admin, s.treasurer)
		}
	}
	h = h.reopen(t)
	if admin, treasurer := member(); !admin || !treasurer {
		t.Errorf("after a restart: got admin %v, treasurer %v; want both", admin, treasurer)
	}
	a, err := h.Check(ctx, id)
	if err != nil || !a.Approval.Grant.Equal(h.answer(1).Grant) {
		t.Errorf("after a restart: got grant %+v, %v; want as approved", a.Approval.Grant, err)
	}
}

func TestChangesOfTheUnknown(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	for name, err := range map[string]error{
		"person":              h.SetActive(ctx, "nobody", false, Act{}),
		"organization":        h.SetIntegration(ctx, "nowhere", false, Act{}),
		"client":              h.SetClientEnabled(ctx, "none", false, Act{}),
		"member of nowhere":   h.SetMember(ctx, "nowhere", "ada", false, Act{}),
		"nobody as member":    h.SetMember(ctx, "nordlys", "nobody", false, Act{}),
		"admin, no member":    h.SetAdmin(ctx, "fjell", "tor", true, Act{}),
		"role":                h.SetFiller(ctx, "none", "ada", true, Act{}),
		"filler, no member":   h.SetFiller(ctx, "reviewer", "tor", true, Act{}),
		"removal, no person":  h.RemoveMember(ctx, "nordlys", "nobody", Act{}),
		"approval":            h.EndApproval(ctx, approval.ID{1}, approval.RevokedByOperator, Act{}),
		"password":            h.SetPassword(ctx, "nobody", "x", Act{}),
		"filler of directory": h.AddDirectory(ctx, directory.Directory{Fillers: []directory.Filler{{Role: "reviewer", Person: "tor"}}}, Act{}),
		"session of nobody":   h.AddSession(ctx, "value", "nobody", Act{}),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: got %v, want not found", name, err)
		}
	}
	if err := h.RemoveMember(ctx, "fjell", "tor", Act{}); err != nil {
		t.Errorf("removing one who is no member: %v", err)
	}
}

// A directory that contradicts itself or what is there changes nothing.
func TestDirectoryAllOrNothing(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	d := directory.Directory{
		People: []directory.Person{{}, {}},
	}
	d.People[0].ID, d.People[0].Email = "eva", "eva@nordlys.example"
	d.People[1].ID, d.People[1].Email = "other", "ADA@nordlys.example"
	if err := h.AddDirectory(ctx, d, Act{}); !errors.Is(err, ErrConflict) {
		t.Errorf("another's email: got %v, want a conflict", err)
	}
	if _, err := h.Person(ctx, "eva"); !errors.Is(err, ErrNotFound) {
		t.Errorf("half of it stands: %v", err)
	}
}

// The clock of the house never goes back, also not across a restart
// (decision T12; case T-19).
func TestT19ClockJumpsBack(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	handle, issued, err := h.Approve(ctx, h.answer(1), Act{})
	if err != nil {
		t.Fatal(err)
	}
	h.clock.add(10 * time.Minute)
	if v, _ := h.exchange(approval.ID(handle.ID()), issued); v != approval.Expired {
		t.Fatalf("got %v, want expired", v)
	}
	if err := h.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	seen := h.Now()
	for _, when := range []string{"at once", "after a restart"} {
		if when != "at once" && !embedded() {
			break // the database has a clock of its own
		}
		h.clock.add(-time.Hour)
		if v, _ := h.exchange(approval.ID(handle.ID()), issued); v != approval.Expired {
			t.Errorf("%s: got %v, want expired", when, v)
		}
		if h.Now().Unix() < seen.Unix() {
			t.Errorf("%s: the time went back", when)
		}
		h = h.reopen(t)
	}
}

// An approval on a fact that was lost, before any row says so, is not edited;
// and a membership that ends marks the row.
func TestLostApprovalIsNotEdited(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	h.withFaults(t)
	lift := h.plant(t, cannot, "UPDATE", "approval")
	if err := h.RemoveMember(ctx, "nordlys", "ada", Act{}); err != nil {
		t.Fatal(err)
	}
	lift()
	all := grantset.Set{Kind: grantset.Everything}
	if err := h.EditGrant(ctx, id, "ada", h.answer(1).Grant, all, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("edited: %v, want not found", err)
	}
	if err := h.SetMember(ctx, "nordlys", "ada", true, Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.EditGrant(ctx, id, "ada", h.answer(1).Grant, all, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("edited after the membership came back: %v, want not found", err)
	}
	next := h.live(t, h.answer(2))
	if err := h.EditGrant(ctx, next, "tor", h.answer(2).Grant, all, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("edited by somebody else: %v, want not found", err)
	}
	if err := h.RemoveMember(ctx, "nordlys", "ada", Act{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []approval.ID{id, next} {
		var reason string
		if err := h.reader.QueryRow(`SELECT reason FROM approval WHERE id = $1`, id[:]).Scan(&reason); err != nil || reason != string(approval.LeftOrganization) {
			t.Errorf("the row is marked %q, %v", reason, err)
		}
	}
}
