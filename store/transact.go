package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// begin opens a transaction in one step with its bounds.
const begin = `BEGIN ISOLATION LEVEL READ COMMITTED;
	SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '10s'`

// errUnknown is a commit whose outcome nobody knows: it is not tried again.
var errUnknown = errors.New("the connection was lost during the commit")

// transact runs f in one transaction, once. Its error tells what became of it.
func (p *shared) transact(ctx context.Context, f func(*writer) error) error {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		p.spoilt(conn, err)
		return err
	}
	w := &writer{store: p.store, conn: conn, tx: newTx(ctx)}
	start := time.Now()
	if err := f(w); err != nil {
		p.rollback(conn, err)
		return err
	}
	if err := w.tx.flush(w); err != nil {
		p.rollback(conn, err)
		return err
	}
	w.store.timed("group", start)
	start = time.Now()
	if _, err := conn.ExecContext(ctx, `COMMIT`); err != nil {
		p.spoilt(conn, err)
		if code(err) == "" || cut(err) { // pgbouncer has a code for a server that has gone
			return fmt.Errorf("%w: %w", errUnknown, err)
		}
		return err
	}
	w.store.timed("commit", start)
	p.tell(w.told)
	return nil
}

func (p *shared) rollback(conn *sql.Conn, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if _, err := conn.ExecContext(ctx, `ROLLBACK`); err != nil || cut(why) {
		p.spoilt(conn, errors.Join(why, err))
	}
}

// spoilt throws a connection away: nobody shall find what was left on it.
func (p *shared) spoilt(conn *sql.Conn, why error) {
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
func (p *shared) lost(err error) error {
	if err != nil && cut(err) {
		p.pool.Reset()
	}
	return err
}

// tx is what a transaction has gathered for its end.
type tx struct {
	ctx     context.Context
	events  []Event
	changes []factChange
	touched map[string]bool  // tables of facts that a row has changed in
	unnamed map[string]int64 // how many of their rows nobody has named yet
	last    string           // table that the last statement changed
	rows    int64            // how many of its rows
}

func newTx(ctx context.Context) *tx {
	return &tx{ctx: ctx, touched: map[string]bool{}, unnamed: map[string]int64{}}
}

// runText is the writer's exec in a transaction on PostgreSQL.
func (x *tx) runText(w *writer, text string, args ...any) (int64, error) {
	r, err := w.conn.ExecContext(x.ctx, text, args...)
	if strings.HasPrefix(code(err), "23") {
		return 0, fmt.Errorf("%w: %w", ErrConflict, err)
	} else if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	x.last, x.rows = changedTable(text), n
	if n > 0 && factTables[x.last] {
		x.touched[x.last] = true
		x.unnamed[x.last] += n
	}
	return n, err
}

// changedTable gives the table that a statement changes.
func changedTable(text string) string {
	words := strings.Fields(text)
	if len(words) < 3 {
		return ""
	}
	if words[0] == "UPDATE" {
		return words[1]
	}
	return words[2] // INSERT INTO, DELETE FROM
}

// flush writes what the transaction has gathered.
func (x *tx) flush(w *writer) error {
	if len(x.events) == 0 {
		return nil
	}
	columns := eventColumns(x.events)
	x.events = nil
	_, err := w.exec(insertGathered, columns...)
	return err
}

var insertGathered = insertArrays(1, "")
