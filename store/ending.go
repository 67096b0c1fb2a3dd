package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// EndApproval ends one approval. One that has ended already is left as it is;
// ErrNotFound means that there is none.
func (s *Store) EndApproval(_ context.Context, id approval.ID, why approval.Reason, act Act) error {
	return s.changeFacts(func(tx *Tx) error {
		_, err := tx.End(id, why, act)
		return err
	})
}

// EndApprovals ends all that match the filter's client, person, organization
// and grant set, in one step, and counts them.
func (s *Store) EndApprovals(_ context.Context, f ApprovalFilter, why approval.Reason, act Act) (ended int, err error) {
	err = s.changeFacts(func(tx *Tx) error {
		ended = 0
		ids, err := tx.unended(f)
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

func (tx *Tx) unended(f ApprovalFilter) ([]approval.ID, error) {
	q := query{text: `SELECT id FROM approval`, conditions: []string{"phase < " + engine.SQLEnded}}
	q.equal("client", f.Client)
	q.equal("person", f.Person)
	q.equal("organization", f.Organization)
	q.equal("grant_kind", string(f.Grant))
	q.end = " ORDER BY id"
	return engine.ApprovalIDs(tx.Query(q.whole(), q.args...))
}

// EndAsAdmin ends one approval in an organization by one of its admins
// (decision P8). One that has ended stays as it ended. ErrNotFound: there is
// no such approval there; ErrNotAllowed: the person is no admin.
func (s *Store) EndAsAdmin(_ context.Context, organizationID, adminID string, id approval.ID, act Act) error {
	return s.changeFacts(func(tx *Tx) error {
		if err := tx.isAdmin(adminID, organizationID); err != nil {
			return err
		}
		a, _, err := tx.Read(id, false)
		if err != nil {
			return err
		}
		if a.Organization != organizationID {
			return fmt.Errorf("approval %s: %w", id, ErrNotFound)
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
// ended stays so when it fails.
func (s *Store) EndMatching(ctx context.Context, f ApprovalFilter, why approval.Reason, dry bool, act Act) (ended int, err error) {
	ids, err := s.unendedIDs(ctx, f)
	if err != nil || dry {
		return len(ids), err
	}
	for batch := range slices.Chunk(ids, endBatch) {
		n, err := s.moveBatch(batch, approval.End(why, s.Now()), act)
		if ended += n; err != nil {
			return ended, err
		}
		if ctx.Err() != nil {
			return ended, ctx.Err()
		}
	}
	return ended, s.change(func(tx *Tx) error {
		return tx.Journal(Event{Kind: journal.OperatorChanged, Client: f.Client, Person: f.Person, Organization: f.Organization,
			Detail: fmt.Sprintf("%d approvals revoked", ended)}.By(act))
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

// moveBatch makes a move of some approvals in one commit, and counts those that
// it ended.
func (s *Store) moveBatch(ids []approval.ID, m approval.Move, act Act) (ended int, err error) {
	err = s.changeFacts(func(tx *Tx) (err error) {
		ended, err = tx.moveRows(ids, m, act)
		return err
	})
	if err != nil {
		ended = 0
	}
	return ended, err
}
