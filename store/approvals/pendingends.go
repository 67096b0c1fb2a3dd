package approvals

import (
	"context"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// EndsBatch is how many approvals end in one commit. They lie together by age
// in one place and all over by ID in others: the more at once, the fewer pages
// each changes. A test has a lower one.
var EndsBatch = 1000

const (
	// longestPause bounds how long the writer is left to others between two batches: on a
	// machine that is busy a batch seems to take longer than it does.
	longestPause = 90 * time.Millisecond

	// EndedRetention is how long an ended approval stays listed.
	EndedRetention = 90 * 24 * time.Hour
)

// Ends writes into rows that they have ended. It is safe for concurrent use.
type Ends struct {
	db      engine.Handle
	writing sync.Mutex // held by Write: one at a time
}

// EndsOf gives those of an open database.
func EndsOf(db engine.Handle) *Ends { return &Ends{db: db} }

// WriteSoon writes the end into rows that a lost fact has ended. From the fact's commit
// on they are dead anyway, so an error waits for the next sweep.
func (e *Ends) WriteSoon(ctx context.Context) {
	if _, err := e.Write(ctx); err != nil {
		e.db.Log.Warn("rows are not marked ended yet", "err", err)
	}
}

// Write writes the end into rows that have ended by a lost fact, or by a code
// that nobody can ask for again, and gives how many. It yields to others between
// batches.
func (e *Ends) Write(ctx context.Context) (written int, err error) {
	e.writing.Lock()
	defer e.writing.Unlock()
	e.db.Memory.RLock()
	endedBefore := e.db.Memory.Ended
	e.db.Memory.RUnlock()
	pending, done, err := e.Pending(ctx)
	if err != nil {
		return 0, err
	}
	for len(pending) > 0 {
		batch, ends := pending[:min(EndsBatch, len(pending))], 0
		pending = pending[len(batch):]
		var begun time.Time
		// It has a commit to itself: beside others it would need a savepoint,
		// within which all that it changes is copied first.
		err := e.db.ChangeFacts(func(tx *engine.Tx) (err error) {
			begun = time.Now()
			if err := tx.Roomy(len(pending) > 0); err != nil {
				return err
			}
			ends, err = MoveRows(tx, batch, writeEnd(tx.Env.Now()), engine.Act{Actor: "system"})
			return err
		})
		if err != nil {
			return written, err
		}
		written += ends
		if ctx.Err() != nil {
			return written, ctx.Err()
		}
		if len(pending) > 0 {
			Yield(begun)
		}
	}
	e.db.Memory.Lock()
	e.db.Memory.EndsWritten = endedBefore
	e.db.Memory.Unlock()
	return written, done()
}

// Yield leaves the writer to others after a batch that began at a time: they have most of
// it.
func Yield(begun time.Time) { time.Sleep(min(time.Since(begun)*3/2, longestPause)) }

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

// Pending lists the approvals that have ended and whose rows do not say so yet.
// The caller calls done when all of them are written.
func (e *Ends) Pending(ctx context.Context) (out []approval.ID, done func() error, err error) {
	return e.db.Engine.PendingEnds(ctx, e.db.Now().Add(-engine.PageLife))
}
