package store

import (
	"context"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
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
	// JournalRetention is how long the journal keeps its entries unless the
	// options say otherwise.
	JournalRetention = 365 * 24 * time.Hour
	// pageLife bounds how long a page can be answered again, with room: until
	// then an approval whose code has expired is left for that (decision A12).
	pageLife = 35 * time.Minute
)

// writeEndsSoon writes the end into rows that a lost fact has ended. From the fact's commit
// on they are dead anyway, so an error waits for the next sweep.
func (s *Store) writeEndsSoon(ctx context.Context) {
	if _, err := s.writeEnds(ctx); err != nil {
		s.log.Warn("rows are not marked ended yet", "err", err)
	}
}

// writeEnds writes the end into rows that have ended by a lost fact, or by a code
// that nobody can ask for again, and gives how many. It yields to others between
// batches.
func (s *Store) writeEnds(ctx context.Context) (written int, err error) {
	s.writingEnds.Lock()
	defer s.writingEnds.Unlock()
	s.memory.RLock()
	endedBefore := s.memory.Ended
	s.memory.RUnlock()
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
			if err := tx.roomy(len(pending) > 0); err != nil {
				return err
			}
			ends, err = tx.moveRows(batch, writeEnd(tx.env.Now()), Act{Actor: "system"})
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
	s.memory.Lock()
	s.memory.endsWritten = endedBefore
	s.memory.Unlock()
	return written, done()
}

// writeEnd is the move that writes an end which has come by itself, and nothing
// else. A code
// that has expired is left until its page cannot be answered any more.
func writeEnd(now time.Time) approval.Move {
	return func(a approval.Approval, s approval.Standing) (approval.State, approval.Verdict) {
		if a.Lost(s) == "" && a.IssuedAt > now.Add(-pageLife).Unix() {
			return a.State, approval.OK
		}
		return a.At(s, now), approval.OK
	}
}

// pendingEnds lists the approvals that have ended and whose rows do not say so yet.
// The caller calls done when all of them are written.
func (s *Store) pendingEnds(ctx context.Context) (out []approval.ID, done func() error, err error) {
	return s.engine.PendingEnds(ctx, s.Now().Add(-pageLife))
}

// pendingEndRows finds approvals that stand on facts which have ended since the rows
// were last written, by the facts' names and so by index, and codes that nobody
// can ask for any more.
const pendingEndRows = `
	SELECT a.id FROM fact_change f JOIN approval a ON a.person = f.key JOIN person p ON p.id = f.key
	 WHERE f.what = 'person' AND f.version > $1 AND a.phase < ` + sqlEnded + ` AND a.person_epoch <> p.epoch
	UNION
	SELECT a.id FROM fact_change f
	  JOIN membership m ON m.person = split_part(f.key, ' ', 1) AND m.organization = split_part(f.key, ' ', 2)
	  JOIN approval a ON a.person = m.person AND a.organization = m.organization
	 WHERE f.what = 'membership' AND f.version > $1 AND a.phase < ` + sqlEnded + ` AND a.membership_epoch <> m.epoch
	UNION
	SELECT a.id FROM fact_change f JOIN approval a ON a.organization = f.key JOIN organization o ON o.id = f.key
	 WHERE f.what = 'organization' AND f.version > $1 AND a.phase < ` + sqlEnded + ` AND a.organization_epoch <> o.epoch
	UNION
	SELECT a.id FROM fact_change f JOIN approval a ON a.client = f.key JOIN client c ON c.id = f.key
	 WHERE f.what = 'client' AND f.version > $1 AND a.phase < ` + sqlEnded + ` AND a.client_epoch <> c.epoch
	UNION
	SELECT id FROM approval WHERE phase = ` + sqlCodeIssued + ` AND created_at > $2 AND created_at <= $3 AND issued_at <= $3
	UNION
	SELECT a.id FROM approval a
	  JOIN person p ON p.id = a.person JOIN organization o ON o.id = a.organization JOIN client c ON c.id = a.client
	  JOIN membership m ON m.person = a.person AND m.organization = a.organization
	 WHERE $4 AND a.phase < ` + sqlEnded + ` AND (a.person_epoch <> p.epoch OR a.organization_epoch <> o.epoch
	       OR a.client_epoch <> c.epoch OR a.membership_epoch <> m.epoch)`

// PendingEnds asks the rows.
func (p *postgresEngine) PendingEnds(ctx context.Context, issued time.Time) (out []approval.ID, done func() error, err error) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx = context.WithoutCancel(ctx)
	var version, written, at int64
	if err := p.db.QueryRowContext(ctx, `
		SELECT f.version, l.version, l.at FROM facts f CROSS JOIN lease l WHERE f.one = 1 AND l.name = 'sweep'`).
		Scan(&version, &written, &at); err != nil {
		return nil, nil, unavailable("pending ends", err)
	}
	var all bool
	if err := p.db.QueryRowContext(ctx, `
		SELECT COUNT(*) > 0 FROM fact_change WHERE what = '*' AND version > $1`, written).Scan(&all); err != nil {
		return nil, nil, unavailable("pending ends", err)
	}
	expired := issued.Unix()
	ids, err := column[[]byte](p.db.QueryContext(ctx, pendingEndRows, written, at-2*int64(pageLife/time.Second), expired, all))
	if err != nil {
		return nil, nil, unavailable("pending ends", err)
	}
	for _, id := range ids {
		out = append(out, approval.ID(id))
	}
	return out, func() error {
		_, err := p.db.ExecContext(ctx, `
			UPDATE lease SET version = GREATEST(version, $1), at = GREATEST(at, $2)
			 WHERE name = 'sweep' AND (version < $1 OR at < $2)`, version, expired)
		if err != nil {
			return unavailable("pending ends", err)
		}
		return nil
	}, nil
}
