package store

import (
	"context"
	"time"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/records"
)

// Due counts what a sweep would do now, and does nothing.
func (s *Store) Due(ctx context.Context) (Swept, error) {
	due, _, err := s.ends.Pending(ctx)
	if err != nil {
		return Swept{}, err
	}
	out, err := s.Expired(ctx, s.Now())
	if err != nil {
		return Swept{}, err
	}
	var tombstones int
	if err := s.db.Reader.QueryRowContext(ctx, `
		SELECT COUNT(*) FROM client
		 WHERE disabled = `+engine.SQLDeleted+` AND NOT EXISTS (SELECT 1 FROM approval WHERE approval.client = client.id)`).Scan(&tombstones); err != nil {
		return Swept{}, engine.Unavailable("due", err)
	}
	out.Ended, out.Clients = len(due), out.Clients+tombstones
	return out, nil
}

// Expired counts the rows whose time was over at a time. What else a sweep does
// has no time that a row tells: how long it has waited cannot be asked.
func (s *Store) Expired(ctx context.Context, at time.Time) (Swept, error) {
	var out Swept
	var operators int
	idle, most := at.Add(-s.db.Options.SessionIdle).Unix(), at.Add(-s.db.Options.SessionMax).Unix()
	for _, c := range []struct {
		into *int
		text string
		args []any
	}{
		{&out.Clients, `SELECT COUNT(*) FROM client WHERE approved = ` + engine.SQLFalse + ` AND preregistered = ` + engine.SQLFalse + ` AND issued_at <= $1`,
			[]any{at.Add(-client.UnapprovedRetention).Unix()}},
		{&out.Ended, `SELECT COUNT(*) FROM approval WHERE ends_at > 0 AND ended_at = 0 AND ends_at <= $1`, []any{at.Unix()}},
		{&out.Approvals, `SELECT COUNT(*) FROM approval WHERE ended_at > 0 AND ended_at <= $1`, []any{at.Add(-EndedRetention).Unix()}},
		{&out.Sessions, `
			SELECT COUNT(*) FROM session
			 WHERE seen_at <= $1 OR created_at <= $2 OR acting_as <> '' AND acting_since <= $3`,
			[]any{idle, most, at.Add(-ActingLifetime).Unix()}},
		{&operators, `SELECT COUNT(*) FROM operator_session WHERE seen_at <= $1 OR created_at <= $2`,
			[]any{at.Add(-OperatorSessionIdle).Unix(), at.Add(-OperatorSessionMax).Unix()}},
		{&out.Resets, `SELECT COUNT(*) FROM reset WHERE ends_at <= $1`, []any{at.Unix()}},
		{&out.Events, `SELECT COUNT(*) FROM journal WHERE id < $1`, []any{records.JournalID(at.Add(-s.db.Options.JournalRetention))}},
		{&out.Activity, `SELECT (SELECT COUNT(*) FROM activity WHERE day < $1) + (SELECT COUNT(*) FROM activity_tally WHERE hour < $2)`,
			[]any{activity.FirstDay(at, s.db.Options.ActivityKeep), activity.FirstDay(at, s.db.Options.ActivityKeep) * 24 * 3600}},
	} {
		if err := s.db.Reader.QueryRowContext(ctx, c.text, c.args...).Scan(c.into); err != nil {
			return Swept{}, engine.Unavailable("expired", err)
		}
	}
	out.Sessions += operators
	return out, nil
}
