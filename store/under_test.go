package store

import (
	"context"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
)

// Under tells of what has ended too, where Check finds nothing.
func TestUnder(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	row, err := h.Approval(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Under(row); got.Approval.Lost(got.Standing) != "" || !got.Member().Fills("treasurer") || got.Approval.Phase != approval.Live {
		t.Errorf("live: %+v", got)
	}
	if err := h.RemoveMember(ctx, "nordlys", "ada", Act{}); err != nil {
		t.Fatal(err)
	}
	if row, err = h.Approval(ctx, id); err != nil {
		t.Fatal(err)
	}
	if got := h.Under(row); got.Approval.Lost(got.Standing) != approval.LeftOrganization || got.Member().Exists() || got.Approval.Reason != approval.LeftOrganization {
		t.Errorf("after the removal: %+v", got)
	}
}
