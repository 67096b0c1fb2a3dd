package approvals

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// ApprovalFilter narrows lists and ends; empty fields match all. State is
// code_issued, live or ended. Limit is at most 1000, 0 is 50.
type ApprovalFilter struct {
	Client, Person, Organization string
	Grant                        grantset.Kind
	State                        string
	Unended                      bool // leaves out those that have ended
	// UnusedSince leaves those that live and were neither made nor used after
	// that time, Unix seconds; 0 leaves all. Only Approvals asks for it.
	UnusedSince int64
	After       string
	Limit       int
}

// ApprovalRow is an approval as it is shown: its State is what stands now,
// also where no row says so yet.
type ApprovalRow struct {
	approval.Approval
	ClientName    string
	Preregistered bool
	LastUsed      int64 // Unix seconds, true to the hour; 0 is never
}

// StateName is the word of ApprovalFilter for where the approval stands.
func (r ApprovalRow) StateName() string {
	return [...]string{"", "code_issued", "live", "ended"}[r.Phase]
}

const SelectApprovals = `SELECT ` + engine.ApprovalColumns + `,
	       c.name, c.preregistered, a.used_at
	  FROM approval a
	  JOIN client c ON c.id = a.client`

func (s *ApprovalStore) ApprovalRows(ctx context.Context, text string, args ...any) ([]ApprovalRow, error) {
	defer s.db.Timed("approvals", time.Now())
	rows, err := s.db.Reader.QueryContext(ctx, text, args...)
	now := s.db.Now()
	out, err := engine.ListOf(rows, err, func(rows engine.Scanner, r *ApprovalRow) (err error) {
		var preregistered int64
		r.Approval, _, err = engine.ScanApproval(rows, &r.ClientName, &preregistered, &r.LastUsed)
		r.Preregistered = preregistered != 0
		return err
	})
	if err != nil {
		return nil, engine.Unavailable("approvals", err)
	}
	if err := s.db.Fresh(ctx); err != nil { // the facts are no older than the rows
		return nil, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	for i := range out {
		s.Stands(&out[i], now)
	}
	return out, nil
}

// Stands has a row say what stands now; the lock of memory is the caller's.
func (s *ApprovalStore) Stands(r *ApprovalRow, now time.Time) {
	if h := s.db.Memory.Approvals.At(r.ID); h != nil { // the row comes a moment later
		r.LastUsed = max(r.LastUsed, int64(atomic.LoadUint32(&h.Used)))
	}
	r.State = s.standsAs(*r, s.db.Memory.Standing(r.Approval), now)
}

// Approval gives one approval as it is shown, or ErrNotFound.
func (s *ApprovalStore) Approval(ctx context.Context, id approval.ID) (ApprovalRow, error) {
	rows, err := s.ApprovalRows(ctx, SelectApprovals+` WHERE a.id = $1`, id[:])
	if err != nil {
		return ApprovalRow{}, err
	}
	if len(rows) == 0 {
		return ApprovalRow{}, fmt.Errorf("approval %s: %w", id, engine.ErrNotFound)
	}
	return rows[0], nil
}

// HasApproved reports whether the person has approved the client before
// (decision A2).
func (s *ApprovalStore) HasApproved(ctx context.Context, person, clientID string) (bool, error) {
	defer s.db.Timed("approved_before", time.Now())
	var n int
	err := s.db.Reader.QueryRowContext(ctx,
		`SELECT COUNT(*) FROM (SELECT 1 FROM approval WHERE person = $1 AND client = $2 LIMIT 1) AS one`,
		person, clientID).Scan(&n)
	if err != nil {
		return false, engine.Unavailable("approvals", err)
	}
	return n > 0, nil
}

// LastReuse tells when an old token or code of the client last came back to the
// person's, Unix seconds, and 0 where none did or the person has approved the
// client since. It looks at all rows: one that ended long after it was made
// stands behind many newer ones in a list.
func (s *ApprovalStore) LastReuse(ctx context.Context, person, clientID string) (int64, error) {
	defer s.db.Timed("approved_before", time.Now())
	var reused, approved int64
	err := s.db.Reader.QueryRowContext(ctx, `
		SELECT COALESCE(MAX(CASE WHEN reason IN ($1, $2) THEN ended_at END), 0), COALESCE(MAX(created_at), 0)
		  FROM approval WHERE person = $3 AND client = $4`,
		string(approval.RefreshReused), string(approval.CodeReused), person, clientID).Scan(&reused, &approved)
	if err != nil {
		return 0, engine.Unavailable("approvals", err)
	}
	if approved > reused {
		return 0, nil
	}
	return reused, nil
}

// UsedBy counts the people with a live approval of the client in each of the
// organizations; those without one are left out.
func (s *ApprovalStore) UsedBy(ctx context.Context, clientID string, organizations []string) (map[string]int, error) {
	out := map[string]int{}
	for _, o := range organizations {
		var n int
		err := s.db.Reader.QueryRowContext(ctx, `
			SELECT COUNT(DISTINCT person) FROM approval
			 WHERE client = $1 AND organization = $2 AND phase = `+engine.SQLLive, clientID, o).Scan(&n)
		if err != nil {
			return nil, engine.Unavailable("approvals", err)
		}
		if n > 0 {
			out[o] = n
		}
	}
	return out, nil
}
