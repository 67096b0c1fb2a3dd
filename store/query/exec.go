package query

import (
	"slices"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Batch is how many rows one commit changes, so that nobody waits for long.
const Batch = 500

// ExecEach is ExecIn for any number of values.
func ExecEach(tx *engine.Tx, q Builder, column string, values []any) error {
	for batch := range slices.Chunk(values, Batch) {
		if err := ExecIn(tx, q, column, batch); err != nil {
			return err
		}
	}
	return nil
}

// ExecIn runs a statement on the rows whose column has one of the values.
func ExecIn(tx *engine.Tx, q Builder, column string, values []any) error {
	q.OneOf(column, Padded(values))
	_, err := tx.Exec(q.Whole(), q.Args...)
	return err
}

// ExecPairs is ExecEach for rows that two columns name, with the values of both
// in turn.
func ExecPairs(tx *engine.Tx, q Builder, columns string, values []any) error {
	for batch := range slices.Chunk(values, 2*Batch) {
		one := q.WithText(q.Text)
		one.Pairs(columns, batch)
		if _, err := tx.Exec(one.Whole(), one.Args...); err != nil {
			return err
		}
	}
	return nil
}

// insertSizes are how many rows one statement inserts: few sizes, so that there are few texts
// to prepare.
var insertSizes = []int{128, 16, 1}

// Insert adds or updates rows, which have equally many columns. The text of q ends before
// VALUES. ErrConflict: a constraint refuses one of them. What ON CONFLICT updates must not come
// twice.
func Insert(tx *engine.Tx, q Builder, rows [][]any) error {
	for _, size := range insertSizes {
		text := ""
		for ; len(rows) >= size; rows = rows[size:] {
			values := slices.Concat(rows[:size]...)
			if text == "" {
				one := q.WithText(q.Text)
				one.Values(len(rows[0]), values)
				text = one.Whole()
			}
			if _, err := tx.Exec(text, values...); err != nil {
				return err
			}
		}
	}
	return nil
}
