package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// begin opens a transaction in one step with its bounds.
const begin = `BEGIN ISOLATION LEVEL READ COMMITTED;
	SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '10s'`

// errUnknown is a commit whose outcome nobody knows: it is not tried again.
var errUnknown = fmt.Errorf("the connection was lost during the commit: %w", engine.ErrOutcome)

// Transact runs f in one transaction, once. Its error tells what became of it.
func (p *Engine) Transact(ctx context.Context, f func(*engine.Tx) error) error {
	conn, err := p.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		p.spoilt(conn, err)
		return err
	}
	tx := engine.NewTx(ctx, p.Env, conn, statements{})
	start := time.Now()
	err = f(tx)
	if err == nil && len(tx.Events) > 0 {
		_, err = tx.Exec(insertGathered, eventColumns(tx.Events)...)
	}
	if err != nil {
		p.rollback(conn, err)
		return err
	}
	p.Timed("group", start)
	start = time.Now()
	if err := Raw(conn, func(c *pgx.Conn) error {
		defer commits(c)()
		_, err := c.Exec(ctx, `COMMIT`)
		return err
	}); err != nil {
		p.spoilt(conn, err)
		if Code(err) == "" || cut(err) { // pgbouncer has a code for a server that has gone
			return fmt.Errorf("%w: %w", errUnknown, err)
		}
		return err
	}
	p.Timed("commit", start)
	p.tell(tx.Events)
	return nil
}

func (p *Engine) rollback(conn *sql.Conn, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if _, err := conn.ExecContext(ctx, `ROLLBACK`); err != nil || cut(why) {
		p.spoilt(conn, errors.Join(why, err))
	}
}

// spoilt throws a connection away: nobody shall find what was left on it.
func (p *Engine) spoilt(conn *sql.Conn, why error) {
	_ = Raw(conn, func(c *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return c.Close(ctx)
	})
	if cut(why) {
		p.Pool.Reset() // the others lead to the same server
	}
}

// lost throws away the connections to a server that is none any more.
func (p *Engine) lost(err error) error {
	if err != nil && cut(err) {
		p.Pool.Reset()
	}
	return err
}

// statements runs the statements of a transaction on PostgreSQL.
type statements struct{}

// Exec names a constraint that refuses.
func (statements) Exec(tx *engine.Tx, text string, args ...any) (int64, error) {
	r, err := tx.Conn.ExecContext(tx.Ctx, text, args...)
	if strings.HasPrefix(Code(err), "23") {
		return 0, fmt.Errorf("%w: %w", engine.ErrConflict, err)
	} else if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Query runs a query.
func (statements) Query(tx *engine.Tx, text string, args ...any) (*sql.Rows, error) {
	return tx.Conn.QueryContext(tx.Ctx, text, args...)
}

// Journal leaves the entries to transact, which writes all in one statement.
func (statements) Journal(*engine.Tx, []engine.Event) error { return nil }

// Lock holds rows until the commit.
func (statements) Lock() string { return ` FOR UPDATE` }

// LastUse asks the row.
func (statements) LastUse(tx *engine.Tx, id approval.ID) (int64, error) {
	return scanLastUse(tx.QueryRow(selectLastUse, id[:]))
}

// Roomy is the server's own business.
func (statements) Roomy(bool) error { return nil }

var insertGathered = insertArrays(1, "")
