package approvals

import (
	"context"
	"errors"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// unusedEvery is how often rows of approvals that ended unused are marked.
// Nothing depends on it: whoever asks is told by the clock.
const unusedEvery = time.Hour

// unusedAt is when an approval that was last used at a time, Unix seconds,
// ends for that (decision P11), and whether it does at all. The last use is
// true to the hour, so it is not later than it should be.
func (s *ApprovalStore) unusedAt(last int64) (at time.Time, ends bool) {
	return time.Unix(last, 0).Add(s.db.Options.EndUnusedAfter), s.db.Options.EndUnusedAfter > 0
}

// orUnused is a move that ends an approval instead which was not used for too
// long. A client that it does not belong to is told what the move tells.
func (s *ApprovalStore) orUnused(ctx context.Context, id approval.ID, m approval.Move) (approval.Move, error) {
	if s.db.Options.EndUnusedAfter == 0 {
		return m, nil
	}
	last, err := s.db.Engine.LastUse(ctx, id)
	if err != nil {
		return nil, err
	}
	at, _ := s.unusedAt(last)
	if last == 0 || s.db.Now().Before(at) {
		return m, nil
	}
	return func(a approval.Approval, st approval.Standing) (approval.State, approval.Verdict) {
		state, verdict := m(a, st)
		if verdict == approval.WrongClient || a.Phase != approval.Live {
			return state, verdict
		}
		state, _ = approval.End(approval.Unused, at)(a, st)
		return state, approval.Over
	}, nil
}

// standsAs is the state of a row as it must be shown now.
func (s *ApprovalStore) standsAs(r ApprovalRow, standing approval.Standing, now time.Time) approval.State {
	state := r.At(standing, now)
	if state.Phase != approval.Live && (r.Phase != approval.Live || state.Reason != approval.EndedOnDate) {
		return state
	}
	if at, ends := s.unusedAt(max(r.IssuedAt, r.LastUsed)); ends && !now.Before(at) {
		state, _ = approval.End(approval.Unused, at)(r.Approval, standing)
	}
	return state
}

// EndUnused marks the rows of approvals that have ended unused.
func (s *ApprovalStore) EndUnused(ctx context.Context) (ended int, err error) {
	now := s.db.Now()
	if s.db.Options.EndUnusedAfter == 0 || now.Unix()-s.unusedSwept.Load() < int64(unusedEvery/time.Second) {
		return 0, nil
	}
	f := ApprovalFilter{State: "live", UnusedSince: now.Add(-s.db.Options.EndUnusedAfter).Unix()}
	f.Limit = endBatch
	for {
		rows, next, err := s.ApprovalPage(ctx, f, func(ApprovalRow) bool { return true })
		if err != nil {
			return ended, err
		}
		n, err := s.endEach(rows)
		if ended += n; err != nil || ctx.Err() != nil {
			return ended, errors.Join(err, ctx.Err())
		}
		if f.After = next; next == "" {
			s.unusedSwept.Store(now.Unix())
			return ended, nil
		}
	}
}

// endEach ends those that are unused still.
func (s *ApprovalStore) endEach(rows []ApprovalRow) (ended int, err error) {
	err = s.db.ChangeFacts(func(tx *engine.Tx) error {
		ended = 0
		for _, r := range rows {
			last, err := tx.LastUse(r.ID)
			if err != nil {
				return err
			}
			at, _ := s.unusedAt(last)
			if last == 0 || s.db.Now().Before(at) {
				continue
			}
			_, _, did, err := tx.Move(r.ID, approval.End(approval.Unused, at), true, engine.Act{Actor: "system"})
			if err != nil && !errors.Is(err, engine.ErrNotFound) {
				return err
			}
			if did {
				ended++
			}
		}
		return nil
	})
	if err != nil {
		ended = 0
	}
	return ended, err
}

// Unused counts the approvals that the setting ends because nobody used them
// for so long (decision P11).
func (s *ApprovalStore) Unused(ctx context.Context) (int, error) {
	if s.db.Options.EndUnusedAfter == 0 {
		return 0, nil
	}
	f := ApprovalFilter{State: "live", UnusedSince: s.db.Now().Add(-s.db.Options.EndUnusedAfter).Unix(), Limit: 1000}
	for count := 0; ; {
		rows, next, err := s.ApprovalPage(ctx, f, func(ApprovalRow) bool { return true })
		if err != nil {
			return 0, err
		}
		if count += len(rows); next == "" {
			return count, nil
		}
		f.After = next
	}
}
