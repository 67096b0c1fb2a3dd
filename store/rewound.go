package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// WentBack is when it was last seen that the database had gone back in time, by a
// token or by a node from after the moment that it was set back to: what was
// revoked since that moment may live. It is zero when nobody has seen that since
// all approvals were ended for it (SettleRestored, Restore).
func (s *Store) WentBack(ctx context.Context) (time.Time, error) {
	return s.metaTime(ctx, engine.MetaRewound)
}

// metaTime reads a row of meta with a time; zero when it is not there.
func (s *Store) metaTime(ctx context.Context, name string) (time.Time, error) {
	var value string
	err := s.db.Reader.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = $1`, name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	} else if err != nil {
		return time.Time{}, engine.Unavailable(name, err)
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", name, err)
	}
	return time.Unix(seconds, 0), nil
}
