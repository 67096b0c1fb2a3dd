package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/approval"
)

// begin opens a transaction in one step with its bounds.
const begin = `BEGIN ISOLATION LEVEL READ COMMITTED;
	SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '10s'`

// errUnknown is a commit whose outcome nobody knows: it is not tried again.
var errUnknown = errors.New("the connection was lost during the commit")

// transact runs f in one transaction, once. Its error tells what became of it.
func (p *postgresEngine) transact(ctx context.Context, f func(*txn) error) error {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		p.spoilt(conn, err)
		return err
	}
	tx := newTx(ctx, p.env, conn, pgStatements{})
	start := time.Now()
	err = f(tx)
	if err == nil && len(tx.events) > 0 {
		_, err = tx.exec(insertGathered, eventColumns(tx.events)...)
	}
	if err != nil {
		p.rollback(conn, err)
		return err
	}
	p.timed("group", start)
	start = time.Now()
	if _, err := conn.ExecContext(ctx, `COMMIT`); err != nil {
		p.spoilt(conn, err)
		if code(err) == "" || cut(err) { // pgbouncer has a code for a server that has gone
			return fmt.Errorf("%w: %w", errUnknown, err)
		}
		return err
	}
	p.timed("commit", start)
	p.tell(tx.events)
	return nil
}

func (p *postgresEngine) rollback(conn *sql.Conn, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if _, err := conn.ExecContext(ctx, `ROLLBACK`); err != nil || cut(why) {
		p.spoilt(conn, errors.Join(why, err))
	}
}

// spoilt throws a connection away: nobody shall find what was left on it.
func (p *postgresEngine) spoilt(conn *sql.Conn, why error) {
	_ = raw(conn, func(c *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return c.Close(ctx)
	})
	if cut(why) {
		p.pool.Reset() // the others lead to the same server
	}
}

// lost throws away the connections to a server that is none any more.
func (p *postgresEngine) lost(err error) error {
	if err != nil && cut(err) {
		p.pool.Reset()
	}
	return err
}

// pgStatements runs the statements of a transaction on PostgreSQL.
type pgStatements struct{}

func (pgStatements) Exec(tx *txn, text string, args ...any) (int64, error) {
	r, err := tx.conn.ExecContext(tx.ctx, text, args...)
	if strings.HasPrefix(code(err), "23") {
		return 0, fmt.Errorf("%w: %w", ErrConflict, err)
	} else if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (pgStatements) Query(tx *txn, text string, args ...any) (*sql.Rows, error) {
	return tx.conn.QueryContext(tx.ctx, text, args...)
}

// journal leaves the entries to transact, which writes all in one statement.
func (pgStatements) Journal(*txn, []Event) error { return nil }

func (pgStatements) Lock() string { return ` FOR UPDATE` }

func (pgStatements) LastUse(tx *txn, id approval.ID) (int64, error) {
	return scanLastUse(tx.queryRow(selectLastUse, id[:]))
}

func (pgStatements) Roomy(bool) error { return nil }

var insertGathered = insertArrays(1, "")
