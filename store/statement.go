package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

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

func (w *writer) exec(text string, args ...any) (int64, error) {
	if w.tx != nil {
		return w.tx.runText(w, text, args...)
	}
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

func (w *writer) query(text string, args ...any) (*sql.Rows, error) {
	if w.tx != nil {
		return w.conn.QueryContext(w.tx.ctx, text, args...)
	}
	st, err := w.statement(text)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(context.Background(), args...)
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

func (w *writer) meta(name string) (value string, err error) {
	err = w.conn.QueryRowContext(context.Background(), `SELECT value FROM meta WHERE name = $1`, name).Scan(&value)
	return value, err
}

const putMeta = `
	INSERT INTO meta (name, value) VALUES ($1, $2)
	ON CONFLICT (name) DO UPDATE SET value = excluded.value`

func (w *writer) putMeta(name, value string) error {
	_, err := w.exec(putMeta, name, value)
	return err
}

// lookup says what the error of one row means: ErrNotFound that it is not there.
func lookup(what string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return unavailable(what, err)
}

// timed tells how long a query took, to its last row: defer it.
func (s *Store) timed(query string, start time.Time) {
	if s.options.Took != nil {
		s.options.Took(query, time.Since(start))
	}
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
