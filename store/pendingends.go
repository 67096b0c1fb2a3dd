package store

import (
	"context"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// endsBatch is how many approvals end in one commit. They lie together by age
// in one place and all over by ID in others: the more at once, the fewer pages
// each changes. A test has a lower one.
var endsBatch = 1000

const (
	sweepBatch = 500 // rows in one commit, so that nobody waits for long

	// endsPause bounds how long the writer is left to others between two batches: on a
	// machine that is busy a batch seems to take longer than it does.
	endsPause = 90 * time.Millisecond

	// EndedRetention is how long an ended approval stays listed.
	EndedRetention = 90 * 24 * time.Hour
)

// writeEndsSoon writes the end into rows that a lost fact has ended. From the fact's commit
// on they are dead anyway, so an error waits for the next sweep.
func (s *Store) writeEndsSoon(ctx context.Context) {
	if _, err := s.writeEnds(ctx); err != nil {
		s.db.Log.Warn("rows are not marked ended yet", "err", err)
	}
}

// writeEnds writes the end into rows that have ended by a lost fact, or by a code
// that nobody can ask for again, and gives how many. It yields to others between
// batches.
func (s *Store) writeEnds(ctx context.Context) (written int, err error) {
	s.writingEnds.Lock()
	defer s.writingEnds.Unlock()
	s.db.Memory.RLock()
	endedBefore := s.db.Memory.Ended
	s.db.Memory.RUnlock()
	pending, done, err := s.pendingEnds(ctx)
	if err != nil {
		return 0, err
	}
	for len(pending) > 0 {
		batch, ends := pending[:min(endsBatch, len(pending))], 0
		pending = pending[len(batch):]
		var begun time.Time
		// It has a commit to itself: beside others it would need a savepoint,
		// within which all that it changes is copied first.
		err := s.changeFacts(func(tx *Tx) (err error) {
			begun = time.Now()
			if err := tx.Roomy(len(pending) > 0); err != nil {
				return err
			}
			ends, err = tx.moveRows(batch, writeEnd(tx.Env.Now()), Act{Actor: "system"})
			return err
		})
		if err != nil {
			return written, err
		}
		written += ends
		if ctx != nil && ctx.Err() != nil {
			return written, ctx.Err()
		}
		if len(pending) > 0 {
			time.Sleep(min(time.Since(begun)*3/2, endsPause)) // most of the writer's time is others'
		}
	}
	s.db.Memory.Lock()
	s.db.Memory.EndsWritten = endedBefore
	s.db.Memory.Unlock()
	return written, done()
}

// writeEnd is the move that writes an end which has come by itself, and nothing
// else. A code
// that has expired is left until its page cannot be answered any more.
func writeEnd(now time.Time) approval.Move {
	return func(a approval.Approval, s approval.Standing) (approval.State, approval.Verdict) {
		if a.Phase == approval.CodeIssued && a.Lost(s) == "" && a.IssuedAt > now.Add(-engine.PageLife).Unix() {
			return a.State, approval.OK
		}
		return a.At(s, now), approval.OK
	}
}

// pendingEnds lists the approvals that have ended and whose rows do not say so yet.
// The caller calls done when all of them are written.
func (s *Store) pendingEnds(ctx context.Context) (out []approval.ID, done func() error, err error) {
	return s.db.Engine.PendingEnds(ctx, s.Now().Add(-engine.PageLife))
}
