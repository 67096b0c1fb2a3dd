package approvals

import (
	"context"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Apply makes a move of an approval: state and journal are on the disk when it
// returns. The approval is given as it stands after the move. ErrNotFound
// means that there is no such row, ErrUnavailable that nothing has changed.
func (s *ApprovalStore) Apply(_ context.Context, id approval.ID, m approval.Move, act engine.Act) (approval.Approval, approval.Verdict, error) {
	return s.db.Engine.Move(id, m, false, act)
}

// ApplyLive is Apply for moves that ask nothing of the code, such as
// approval.Refresh, Revoke and End. It saves reading the row; the approval
// that it gives lacks redirect URI, issuer and challenge.
func (s *ApprovalStore) ApplyLive(ctx context.Context, id approval.ID, m approval.Move, act engine.Act) (approval.Approval, approval.Verdict, error) {
	m, err := s.orUnused(ctx, id, m)
	if err != nil {
		return approval.Approval{}, 0, err
	}
	return s.db.Engine.Move(id, m, true, act)
}
