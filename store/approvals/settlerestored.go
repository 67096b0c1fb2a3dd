package approvals

import (
	"context"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// SettleRestored does, on a database that was restored by its own means, what
// Restore does: it ends all that could live again, and journals that. It does all of it, whoever
// waits: half of it is as if nothing had been done.
func (s *ApprovalStore) SettleRestored(ctx context.Context, act engine.Act) (ended int, err error) {
	ctx = context.WithoutCancel(ctx)
	if err := s.db.ChangeFacts(func(tx *engine.Tx) error { return engine.NoteRestored(tx.Exec, tx.Env.Now()) }); err != nil {
		return 0, err
	}
	if ended, err = s.EndMatching(ctx, ApprovalFilter{}, approval.Restored, false, act); err != nil {
		return ended, err
	}
	return ended, s.db.ChangeFacts(func(tx *engine.Tx) error {
		keys, err := engine.ReviveNothing(tx.Exec)
		if err != nil {
			return err
		}
		tx.Put(facts.APIKeysGone{})
		return tx.Journal(engine.RestoredEvent("", ended, keys).By(act))
	})
}
