package store

import (
	"context"
	"errors"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
)

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
		if err := h.db.Reader.QueryRow(`SELECT reason FROM approval WHERE id = $1`, id[:]).Scan(&reason); err != nil || reason != string(approval.LeftOrganization) {
			t.Errorf("the row is marked %q, %v", reason, err)
		}
	}
}
