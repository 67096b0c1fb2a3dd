package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/grantkeeper/grantkeeper/approval"
)

// statement prepares a statement once. The texts are constants of this
// package, so their number is bounded.
func (w *writer) statement(text string) (*sql.Stmt, error) {
	if st, ok := w.statements[text]; ok {
		return st, nil
	}
	st, err := w.conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	w.statements[text] = st
	return st, nil
}

// exec begins the transaction of a batch at its first write.
func (w *writer) Exec(_ *txn, text string, args ...any) (int64, error) {
	if err := w.begin(); err != nil {
		return 0, err
	}
	return w.runText(text, args...)
}

func (w *writer) runText(text string, args ...any) (int64, error) {
	st, err := w.statement(text)
	if err != nil {
		return 0, err
	}
	r, err := st.ExecContext(context.Background(), args...)
	if errors.Is(err, sqlite3.CONSTRAINT) {
		return 0, fmt.Errorf("%w: %w", ErrConflict, err)
	} else if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (w *writer) Query(_ *txn, text string, args ...any) (*sql.Rows, error) {
	st, err := w.statement(text)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(context.Background(), args...)
}

func (w *writer) Save(tx *txn, all []transition) (map[approval.ID]bool, error) {
	saved := make(map[approval.ID]bool, len(all))
	for _, t := range all {
		var n int64
		var err error
		if t.after.Phase == approval.Ended {
			n, err = tx.exec(`
				UPDATE approval
				   SET phase = $1, reason = $2, ended_at = $3
				 WHERE id = $4 AND phase = $5 AND generation = $6`,
				int64(t.after.Phase), string(t.after.Reason), t.after.EndedAt, t.id[:], int64(t.before.Phase), t.before.Generation)
		} else { // every exchange and refresh: it touches no indexed column
			n, err = tx.exec(`
				UPDATE approval
				   SET phase = $1, generation = $2, key_number = $3, network = $4,
				       used_at = CASE WHEN used_at < $5 THEN $5 ELSE used_at END
				 WHERE id = $6 AND phase = $7 AND generation = $8`,
				int64(t.after.Phase), t.after.Generation, int64(t.after.Key), int64(t.after.Network), int64(t.used), t.id[:], int64(t.before.Phase), t.before.Generation)
		}
		if err != nil {
			return nil, err
		}
		saved[t.id] = n == 1
	}
	return saved, nil
}

// lock is empty: nobody else writes.
func (w *writer) Lock() string { return "" }

func (w *writer) LastUse(tx *txn, id approval.ID) (int64, error) { return tx.memory.lastUse(id), nil }

// eventsEach are how many entries of the journal one statement writes: each
// copies every page that it changes, for it may fail, so the fewer the better.
var eventsEach = []int{1000, 64, 1}

var insertEvents = func() map[int]string {
	texts := map[int]string{}
	for _, n := range eventsEach {
		all := make([]string, n)
		for i := range all {
			all[i] = eventPlaces(i)
		}
		text := strings.Replace(insertEvent, eventPlaces(0), strings.Join(all, ", "), 1)
		// To SQLite $1 is a name, which it looks for among all the others.
		texts[n] = strings.ReplaceAll(text, "$", "?")
	}
	return texts
}()

// eventPlaces are the parameters of the entry after n others.
func eventPlaces(n int) string {
	const columns = 12
	all := make([]string, columns)
	for i := range all {
		all[i] = fmt.Sprintf("$%d", n*columns+i+1)
	}
	return "(" + strings.Join(all, ", ") + ")"
}

func (w *writer) Journal(tx *txn, entries []Event) error {
	for _, e := range entries {
		if e.provesRewound() {
			if err := tx.noteRewound(); err != nil {
				return err
			}
			break
		}
	}
	for _, n := range eventsEach {
		for ; len(entries) >= n; entries = entries[n:] {
			args := make([]any, 0, 12*n)
			for _, e := range entries[:n] {
				args = append(args, e.values()...)
			}
			if _, err := tx.exec(insertEvents[n], args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// roomy gives the engine more memory and a longer log for as long as very many
// rows change: most of their pages come once more, and with little room each was
// read and written every time.
func (w *writer) Roomy(on bool) error {
	if w.wide == on {
		return nil
	}
	text := `PRAGMA cache_size = -2000; PRAGMA wal_autocheckpoint = ` + checkpointPages
	if on {
		text = `PRAGMA cache_size = -16000; PRAGMA wal_autocheckpoint = 8000`
	}
	// Both are done when they are prepared, so they are prepared every time.
	_, err := w.conn.ExecContext(context.Background(), text)
	w.wide = on && err == nil
	return err
}

// scanner is one row, of many or alone.
type scanner interface{ Scan(...any) error }

// eachRow reads what a query gives, row by row, to its end or an error.
func eachRow(rows *sql.Rows, err error, read func(scanner) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// listOf is eachRow for rows that become a list.
func listOf[T any](rows *sql.Rows, err error, read func(scanner, *T) error) (list []T, _ error) {
	err = eachRow(rows, err, func(r scanner) error {
		var one T
		err := read(r, &one)
		list = append(list, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// column is listOf for rows of one column.
func column[T any](rows *sql.Rows, err error) ([]T, error) {
	return listOf(rows, err, func(r scanner, one *T) error { return r.Scan(one) })
}

func (tx *txn) meta(name string) (value string, err error) {
	err = tx.queryRow(`SELECT value FROM meta WHERE name = $1`, name).Scan(&value)
	return value, err
}

const putMeta = `
	INSERT INTO meta (name, value) VALUES ($1, $2)
	ON CONFLICT (name) DO UPDATE SET value = excluded.value`

func (tx *txn) putMeta(name, value string) error {
	_, err := tx.exec(putMeta, name, value)
	return err
}

// lookup says what the error of one row means: ErrNotFound that it is not there.
func lookup(what string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return unavailable(what, err)
}

// approvalKey is how an approval's ID is asked for.
func approvalKey(id approval.ID) any { return id[:] }

// approvalIDs is column for the IDs of approvals.
func approvalIDs(rows *sql.Rows, err error) ([]approval.ID, error) {
	return listOf(rows, err, func(r scanner, id *approval.ID) error {
		var b []byte
		err := r.Scan(&b)
		copy(id[:], b)
		return err
	})
}

// unavailable marks an error of the database as one to be tried again.
func unavailable(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
