package accounts

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// How long a named operator stays signed in: at most, and unused (decision O7).
const (
	OperatorSessionMax  = 12 * time.Hour
	OperatorSessionIdle = time.Hour
)

// OperatorSession is a named operator signed in at a browser. Whether that operator
// still may is for who asks.
type OperatorSession struct {
	Operator          string // name
	Way               string // by which they signed in
	Bound             string // what the session stands on, as BeginOperatorSession was told
	CreatedAt, SeenAt int64  // Unix seconds
}

// BeginOperatorSession stores a session under the hash of its value, and journals
// the sign-in.
func (s *Accounts) BeginOperatorSession(_ context.Context, value string, o OperatorSession, act engine.Act) error {
	hash, now := sha256.Sum256([]byte(value)), s.db.Now().Unix()
	return s.db.Change(func(tx *engine.Tx) error {
		_, err := tx.Exec(`
			INSERT INTO operator_session (hash, operator, way, bound, created_at, seen_at, address)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, hash[:], o.Operator, o.Way, o.Bound, now, now, act.Address)
		if err != nil {
			return err
		}
		return tx.Journal(engine.Event{Kind: journal.OperatorSignedIn, Detail: o.Way}.By(act))
	})
}

// OperatorSession gives a session that is neither idle nor too old; ErrNotFound for
// any other value.
func (s *Accounts) OperatorSession(ctx context.Context, value string) (o OperatorSession, err error) {
	defer s.db.Timed("session", time.Now())
	hash, now := sha256.Sum256([]byte(value)), s.db.Now().Unix()
	err = s.db.Reader.QueryRowContext(ctx, `SELECT operator, way, bound, created_at, seen_at FROM operator_session WHERE hash = $1`, hash[:]).
		Scan(&o.Operator, &o.Way, &o.Bound, &o.CreatedAt, &o.SeenAt)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return OperatorSession{}, fmt.Errorf("operator session: %w", engine.ErrNotFound)
	case err != nil:
		return OperatorSession{}, engine.Unavailable("operator session", err)
	case now-o.SeenAt >= int64(OperatorSessionIdle.Seconds()), now-o.CreatedAt >= int64(OperatorSessionMax.Seconds()):
		return OperatorSession{}, fmt.Errorf("operator session: %w", engine.ErrNotFound)
	}
	if now-o.SeenAt >= seenGrain {
		s.db.Later(func(tx *engine.Tx) error {
			_, err := tx.Exec(`UPDATE operator_session SET seen_at = $1 WHERE hash = $2`, now, hash[:])
			return err
		}, nil)
	}
	return o, nil
}

// EndOperatorSession deletes a session and journals that; one that is not there is
// fine, and no entry.
func (s *Accounts) EndOperatorSession(_ context.Context, value string, act engine.Act) error {
	hash := sha256.Sum256([]byte(value))
	return s.db.Change(func(tx *engine.Tx) error {
		n, err := tx.Exec(`DELETE FROM operator_session WHERE hash = $1`, hash[:])
		if err != nil || n == 0 {
			return err
		}
		return tx.Journal(engine.Event{Kind: journal.OperatorSignedOut}.By(act))
	})
}

// SweepOperatorSessions deletes those that were idle or lasted too long.
func SweepOperatorSessions(tx *engine.Tx, now time.Time) (int, error) {
	n, err := tx.Exec(`
		DELETE FROM operator_session WHERE hash IN (
			SELECT hash FROM operator_session WHERE seen_at <= $1 OR created_at <= $2 LIMIT 500)`,
		now.Add(-OperatorSessionIdle).Unix(), now.Add(-OperatorSessionMax).Unix())
	return int(n), err
}
