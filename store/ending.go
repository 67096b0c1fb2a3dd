package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/grantkeeper/grantkeeper/approval"
)

// endBatch is how many approvals end in one commit, so that nobody waits for
// long.
const endBatch = 100

// EndMatching ends every approval that has not ended and matches the filter,
// and counts them; a dry run counts alone. It goes by batches: what it has
// ended stays so when it fails.
func (s *Store) EndMatching(ctx context.Context, f ApprovalFilter, why approval.Reason, dry bool, act Act) (ended int, err error) {
	ids, err := s.unendedIDs(ctx, f)
	if err != nil || dry {
		return len(ids), err
	}
	for batch := range slices.Chunk(ids, endBatch) {
		n, err := s.endBatch(batch, why, act)
		if ended += n; err != nil {
			return ended, err
		}
		if ctx.Err() != nil {
			return ended, ctx.Err()
		}
	}
	return ended, s.writer.change(func(w *writer) (func(), error) {
		return nil, w.journal(Event{Kind: "operator_changed", Client: f.Client, Person: f.Person, Organization: f.Organization,
			Detail: fmt.Sprintf("%d approvals revoked", ended)}.by(act))
	})
}

func (s *Store) unendedIDs(ctx context.Context, f ApprovalFilter) (ids []approval.ID, err error) {
	states := []string{"code_issued", "live"} // a code that is exchanged meanwhile is found again
	if f.UnusedSince > 0 {
		states = states[1:]
	}
	f.Limit = 1000
	seen := map[approval.ID]bool{}
	for _, f.State = range states {
		for f.After = ""; ; {
			rows, next, err := s.Approvals(ctx, f)
			if err != nil {
				return nil, err
			}
			for _, r := range rows {
				if !seen[r.ID] {
					ids, seen[r.ID] = append(ids, r.ID), true
				}
			}
			if f.After = next; next == "" {
				break
			}
		}
	}
	return ids, nil
}

func (s *Store) endBatch(ids []approval.ID, why approval.Reason, act Act) (ended int, err error) {
	err = s.writer.changeFacts(func(w *writer) (after func(), err error) {
		ended, after, err = w.moveRows(ids, approval.End(why, w.store.Now()), act)
		return after, err
	})
	if err != nil {
		ended = 0
	}
	return ended, err
}
