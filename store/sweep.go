package store

import (
	"context"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/store/accounts"
	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/oversight"
	"github.com/grantkeeper/grantkeeper/store/records"
)

// Sweep does what time brings: nothing depends on when it runs, for expiry is
// asked and never written. It can be repeated, and stops at the first error.
func (s *Store) Sweep(ctx context.Context) (Swept, error) {
	out, err := s.sweep(ctx)
	if s.db.Options.Swept != nil {
		s.db.Options.Swept(out)
	}
	return out, err
}

func (s *Store) sweep(ctx context.Context) (Swept, error) {
	var out Swept
	var err error
	if mine, err := s.db.Engine.Sweeps(ctx); err != nil || !mine { // one of the nodes does it for all
		return out, err
	}
	if out.Ended, err = s.ends.Write(ctx); err != nil {
		return out, fmt.Errorf("pending ends: %w", err)
	}
	unused, err := s.EndUnused(ctx)
	if out.Ended += unused; err != nil {
		return out, fmt.Errorf("unused: %w", err)
	}
	if err := s.sweepRows(ctx, &out); err != nil {
		return out, err
	}
	if err := s.TellReviews(ctx); err != nil {
		return out, fmt.Errorf("reviews: %w", err)
	}
	out.Activity, err = s.SweepActivity(func() bool { return ctx.Err() == nil })
	return out, err
}

// sweepRows deletes what has been kept for long enough, a batch in a commit.
func (s *Store) sweepRows(ctx context.Context, out *Swept) error {
	now, uncounted := s.Now(), 0
	for _, step := range []struct {
		count *int
		run   func(*Tx, time.Time) (rows int, err error)
	}{
		{&out.Clients, (*Tx).sweepClients},
		{&out.Clients, (*Tx).sweepDeleted},
		{&out.Approvals, (*Tx).sweepApprovals},
		{&out.Sessions, sweepOf(accounts.SweepActing)},
		{&out.Sessions, sweepOf(accounts.SweepSessions)},
		{&out.Sessions, sweepOf(accounts.SweepOperatorSessions)},
		{&out.Resets, sweepOf(accounts.SweepResets)},
		{&uncounted, sweepOf(accounts.SweepSpent)},
		{&uncounted, (*Tx).sweepDirectoryEvents},
		{&uncounted, sweepOf(accounts.SweepCosts)},
		{&uncounted, sweepOf(oversight.SweepRequests)},
		{&uncounted, sweepOf(oversight.TellEnds)},
		{&uncounted, sweepOf(records.SweepAttempts)},
		{&out.Events, sweepOf(records.SweepJournal)},
		{&uncounted, sweepOf(records.SweepLeaves)},
	} {
		for more := true; more; {
			var n int
			var begun time.Time
			err := s.changeFacts(func(tx *Tx) (err error) {
				begun = time.Now()
				n, err = step.run(tx, now)
				return err
			})
			if err != nil {
				return fmt.Errorf("sweep: %w", err)
			}
			*step.count += n
			if more = n >= sweptApprovals; ctx.Err() != nil {
				return ctx.Err()
			}
			if more {
				approvals.Yield(begun)
			}
		}
	}
	return nil
}

// sweepOf is for a sweep of another room.
func sweepOf(run func(*engine.Tx, time.Time) (int, error)) func(*Tx, time.Time) (int, error) {
	return func(tx *Tx, now time.Time) (int, error) { return run(tx.Tx, now) }
}

// sweptApprovals is how many approvals one commit deletes: each is in six indexes, all
// over the file. It is the least that a step does where there is more to do.
const sweptApprovals = 100

// sweepApprovals deletes what has been listed as ended for long enough.
func (tx *Tx) sweepApprovals(now time.Time) (int, error) {
	n, err := tx.Exec(`
		DELETE FROM approval WHERE id IN (
			SELECT id FROM approval WHERE ended_at > 0 AND ended_at <= $1 ORDER BY ended_at, id LIMIT 100)`,
		now.Add(-EndedRetention).Unix())
	return int(n), err
}
