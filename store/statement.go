package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
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

// column reads what a query gives that has one column.
func column[T any](rows *sql.Rows, err error) (all []T, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one T
		if err := rows.Scan(&one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
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

// timed tells how long a query took, to its last row: defer it.
func (s *Store) timed(query string, start time.Time) {
	if s.options.Took != nil {
		s.options.Took(query, time.Since(start))
	}
}

// unavailable marks an error of the database as one to be tried again.
func unavailable(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
