package store

import (
	"context"

	"github.com/grantkeeper/grantkeeper/approval"
)

// Refresh is ApplyLive for approval.Refresh, and gives the generation that the
// approval has after it.
func (s *Store) Refresh(ctx context.Context, id approval.ID, client string, generation int64, key int, act Act) (int64, approval.Verdict, error) {
	act.Generation = generation
	return s.applyExpected(ctx, approval.Expected(id, client, generation), approval.Refresh(client, generation, key, s.Now()), act)
}

// applyExpected is ApplyLive for a move that asks no more of an approval than an
// expected one has. On PostgreSQL the move is made on that one, and what it gives
// is saved where the row is as expected; all else reads the row.
func (s *Store) applyExpected(ctx context.Context, expected approval.Approval, m approval.Move, act Act) (int64, approval.Verdict, error) {
	switch after, err := s.db.Engine.MoveExpected(expected, m, act); {
	case err != nil:
		return 0, 0, err
	case after.Phase == approval.Live:
		return after.Generation, approval.OK, nil
	}
	a, v, err := s.ApplyLive(ctx, expected.ID, m, act)
	return a.Generation, v, err
}
