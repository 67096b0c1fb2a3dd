package approvals

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// EndApproval ends one approval. One that has ended already is left as it is;
// ErrNotFound means that there is none.
func (s *ApprovalStore) EndApproval(_ context.Context, id approval.ID, why approval.Reason, act engine.Act) error {
	return s.db.ChangeFacts(func(tx *engine.Tx) error {
		_, err := tx.End(id, why, act)
		return err
	})
}

// EndApprovals ends all that match the filter's client, person, organization
// and grant set, in one step, and counts them.
func (s *ApprovalStore) EndApprovals(_ context.Context, f ApprovalFilter, why approval.Reason, act engine.Act) (ended int, err error) {
	err = s.db.ChangeFacts(func(tx *engine.Tx) error {
		ended = 0
		ids, err := unended(tx, f)
		if err != nil {
			return err
		}
		for _, id := range ids {
			did, err := tx.End(id, why, act)
			if err != nil {
				return err
			}
			if did {
				ended++
			}
		}
		return nil
	})
	return ended, err
}

func unended(tx *engine.Tx, f ApprovalFilter) ([]approval.ID, error) {
	q := query.Builder{Text: `SELECT id FROM approval`, Conditions: []string{"phase < " + engine.SQLEnded}}
	q.Equals("client", f.Client)
	q.Equals("person", f.Person)
	q.Equals("organization", f.Organization)
	q.Equals("grant_kind", string(f.Grant))
	q.End = " ORDER BY id"
	return engine.ApprovalIDs(tx.Query(q.Whole(), q.Args...))
}

// EndAsAdmin ends one approval in an organization by one of its admins
// (decision P8). One that has ended stays as it ended. ErrNotFound: there is
// no such approval there; ErrNotAllowed: the person is no admin.
func (s *ApprovalStore) EndAsAdmin(_ context.Context, organizationID, adminID string, id approval.ID, act engine.Act) error {
	return s.db.ChangeFacts(func(tx *engine.Tx) error {
		if err := tx.IsAdmin(adminID, organizationID); err != nil {
			return err
		}
		a, _, err := tx.Read(id, false)
		if err != nil {
			return err
		}
		if a.Organization != organizationID {
			return fmt.Errorf("approval %s: %w", id, engine.ErrNotFound)
		}
		_, err = tx.End(id, approval.RevokedByAdmin, act)
		return err
	})
}

// endBatch is how many approvals end in one commit, so that nobody waits for
// long.
const endBatch = 100

// EndMatching ends every approval that has not ended and matches the filter,
// and counts them; a dry run counts alone. It goes by batches: what it has
// ended stays so, and is journaled, when it fails or nobody waits for it any more.
func (s *ApprovalStore) EndMatching(ctx context.Context, f ApprovalFilter, why approval.Reason, dry bool, act engine.Act) (ended int, err error) {
	ids, err := s.unendedIDs(ctx, f)
	if err != nil || dry {
		return len(ids), err
	}
	for batch := range slices.Chunk(ids, endBatch) {
		var n int
		n, err = s.MoveBatch(batch, approval.End(why, s.db.Now()), act)
		ended += n
		if err = cmp.Or(err, ctx.Err()); err != nil {
			break
		}
	}
	return ended, s.db.JournalMany(ended, err, engine.Event{Client: f.Client, Person: f.Person, Organization: f.Organization,
		Detail: fmt.Sprintf("%d approvals revoked", ended)}.By(act))
}

func (s *ApprovalStore) unendedIDs(ctx context.Context, f ApprovalFilter) (ids []approval.ID, err error) {
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

// MoveBatch makes a move of some approvals in one commit, and counts those that
// it ended.
func (s *ApprovalStore) MoveBatch(ids []approval.ID, m approval.Move, act engine.Act) (ended int, err error) {
	err = s.db.ChangeFacts(func(tx *engine.Tx) (err error) {
		ended, err = MoveRows(tx, ids, m, act)
		return err
	})
	if err != nil {
		ended = 0
	}
	return ended, err
}
