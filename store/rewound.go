package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
)

// metaWentBack is the row of meta with the time when it was last seen that the
// database had gone back in time, Unix seconds (decision T13).
const metaRewound = "went_back"

const forgetRewound = `DELETE FROM meta WHERE name = 'went_back'`

// WentBack is when it was last seen that the database had gone back in time, by a
// token or by a node from after the moment that it was set back to: what was
// revoked since that moment may live. It is zero when nobody has seen that since
// all approvals were ended for it (SettleRestored, Restore).
func (s *Store) WentBack(ctx context.Context) (time.Time, error) {
	return s.metaTime(ctx, metaRewound)
}

// metaTime reads a row of meta with a time; zero when it is not there.
func (s *Store) metaTime(ctx context.Context, name string) (time.Time, error) {
	var value string
	err := s.reader.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = $1`, name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	} else if err != nil {
		return time.Time{}, unavailable(name, err)
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", name, err)
	}
	return time.Unix(seconds, 0), nil
}

// noteRewound keeps that the database went back in time.
func (tx *txn) noteRewound() error {
	return tx.putMeta(metaRewound, strconv.FormatInt(tx.env.Now().Unix(), 10))
}

// provesRewound reports whether an entry of the journal is of a token from the future.
func (e Event) provesRewound() bool {
	return e.Kind == journal.ApprovalEnded && e.Reason == string(approval.StateLost)
}

// rewound says that the database went back in time: it was set back to an earlier copy, or has
// lost what it had acknowledged. What is remembered of approvals is of later.
func (p *postgresEngine) rewound(from, to int64) {
	p.log.Error("the database went back in time: what was revoked since its copy may live again, until all approvals are ended",
		"run", "grantkeeper backup restore", "version", from, "found", to)
	p.rows.clear()
	p.Later((*txn).noteRewound, nil)
}
