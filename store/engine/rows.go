package engine

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
)

// Scanner is one row, of many or alone.
type Scanner interface{ Scan(...any) error }

// EachRow reads what a query gives, row by row, to its end or an error.
func EachRow(rows *sql.Rows, err error, read func(Scanner) error) error {
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

// ListOf is eachRow for rows that become a list.
func ListOf[T any](rows *sql.Rows, err error, read func(Scanner, *T) error) (list []T, _ error) {
	err = EachRow(rows, err, func(r Scanner) error {
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

// Column is listOf for rows of one column.
func Column[T any](rows *sql.Rows, err error) ([]T, error) {
	return ListOf(rows, err, func(r Scanner, one *T) error { return r.Scan(one) })
}

// Meta reads a row of meta: sql.ErrNoRows where there is none.
func (tx *Tx) Meta(name string) (value string, err error) {
	err = tx.QueryRow(`SELECT value FROM meta WHERE name = $1`, name).Scan(&value)
	return value, err
}

// PutMeta writes a row of meta.
const PutMeta = `
	INSERT INTO meta (name, value) VALUES ($1, $2)
	ON CONFLICT (name) DO UPDATE SET value = excluded.value`

// PutMeta writes a row of meta.
func (tx *Tx) PutMeta(name, value string) error {
	_, err := tx.Exec(PutMeta, name, value)
	return err
}

// ApprovalKey is how an approval's ID is asked for.
func ApprovalKey(id approval.ID) any { return id[:] }

// ApprovalIDs is column for the IDs of approvals.
func ApprovalIDs(rows *sql.Rows, err error) ([]approval.ID, error) {
	return ListOf(rows, err, func(r Scanner, id *approval.ID) error {
		var b []byte
		err := r.Scan(&b)
		copy(id[:], b)
		return err
	})
}

// Unavailable marks an error of the database as one to be tried again.
func Unavailable(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
}

// Unwritable reports whether a database refuses what is to be written, such as a text that
// an index cannot hold, and not the writing: the same is refused every time (SQLSTATE
// classes 22, 23 and 54). Only what it holds for unwritable may be given up: other codes
// pass, such as that of a password that is changed (28P01).
func Unwritable(err error) bool {
	var e interface{ SQLState() string }
	return errors.As(err, &e) && slices.ContainsFunc([]string{"22", "23", "54"}, func(class string) bool { return strings.HasPrefix(e.SQLState(), class) })
}

// Flag is how a column has it.
func Flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// MetaTime is the row of meta with the highest time that the database has seen,
// Unix seconds (decision T12).
const MetaTime = "time"

// MetaBackup is the row of meta with the time of the last backup, Unix seconds.
const MetaBackup = "backup"
