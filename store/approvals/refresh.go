package approvals

import (
	"context"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Refresh is ApplyLive for approval.Refresh, and expects that the approval is bound to
// the key that is proved, or to none where none is. It gives the generation that the
// approval has after it.
func (s *ApprovalStore) Refresh(ctx context.Context, id approval.ID, client string, generation int64, key int, act engine.Act) (int64, approval.Verdict, error) {
	act.Generation = generation
	expected := approval.Expected(id, client, generation)
	expected.Bound = act.Proof.Key
	return s.ApplyExpected(ctx, expected, approval.Refresh(client, generation, key, s.db.Now()), act)
}

// ApplyExpected is ApplyLive for a move that asks no more of an approval than an
// expected one has. On PostgreSQL the move is made on that one, and what it gives
// is saved where the row is as expected; all else reads the row.
func (s *ApprovalStore) ApplyExpected(ctx context.Context, expected approval.Approval, m approval.Move, act engine.Act) (int64, approval.Verdict, error) {
	switch after, err := s.db.Engine.MoveExpected(expected, m, act); {
	case err != nil:
		return 0, 0, err
	case after.Phase == approval.Live:
		return after.Generation, approval.OK, nil
	}
	a, v, err := s.ApplyLive(ctx, expected.ID, m, act)
	return a.Generation, v, err
}
