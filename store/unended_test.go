package store

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
)

// What has not ended is a list of its own: codes that wait and what lives.
func TestUnendedApprovals(t *testing.T) {
	h := furnished(t)
	waits, lives, ends := h.unique(1), h.live(t, h.unique(2)), h.live(t, h.unique(3))
	if _, _, err := h.Approve(ctx, waits, Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.EndApproval(ctx, ends, approval.RevokedByPerson, Act{}); err != nil {
		t.Fatal(err)
	}
	seen := map[approval.Phase]int{}
	for f := (ApprovalFilter{Organization: "nordlys", Unended: true, Limit: 1}); ; {
		rows, next, err := h.Approvals(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			seen[r.Phase]++
			if r.Phase == approval.Live && r.ID != lives {
				t.Errorf("%v lives", r.ID)
			}
		}
		if f.After = next; next == "" {
			break
		}
	}
	if len(seen) != 2 || seen[approval.Live] != 1 || seen[approval.CodeIssued] != 1 {
		t.Errorf("by phase: %v", seen)
	}
}
