package store

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// query gathers the conditions of a list. Only constants of this package
// become text; every value is a parameter.
type query struct {
	text       string
	conditions []string
	args       []any
	end        string // behind the conditions, of a statement that is no list
}

func (q *query) where(condition string, value any) {
	q.args = append(q.args, value)
	q.conditions = append(q.conditions, fmt.Sprintf("%s$%d", condition, len(q.args)))
}

func (q *query) equal(column, value string) {
	if value != "" {
		q.where(column+" = ", value)
	}
}

// in asks for a column that has one of the values.
func (q *query) in(column string, values []any) {
	places := make([]string, len(values))
	for i, v := range values {
		q.args = append(q.args, v)
		places[i] = fmt.Sprintf("$%d", len(q.args))
	}
	q.conditions = append(q.conditions, column+" IN ("+strings.Join(places, ", ")+")")
}

// pairs asks for rows whose two columns have one of the values, both in turn.
func (q *query) pairs(columns string, values []any) {
	var places []string
	for _, pair := range padded(slices.Collect(slices.Chunk(values, 2))) {
		q.args = append(q.args, pair...)
		places = append(places, fmt.Sprintf("($%d, $%d)", len(q.args)-1, len(q.args)))
	}
	q.conditions = append(q.conditions, columns+" IN (VALUES "+strings.Join(places, ", ")+")")
}

// finds asks for rows with a part in their text, or with one of the values, if any, in
// a column.
func (q *query) finds(text, part, column string, values []any) {
	q.args = append(q.args, "%"+part+"%")
	either := fmt.Sprintf("%s LIKE $%d", text, len(q.args))
	if len(values) > 0 {
		q.in(column, padded(values))
		last := len(q.conditions) - 1
		either += " OR " + q.conditions[last]
		q.conditions = q.conditions[:last]
	}
	q.conditions = append(q.conditions, "("+either+")")
}

// behind begins behind a place.
func (q *query) behind(p place) {
	if p == (place{}) {
		return
	}
	q.args = append(q.args, p.at, p.id[:])
	q.conditions = append(q.conditions, fmt.Sprintf("(a.created_at, a.id) < ($%d, $%d)", len(q.args)-1, len(q.args)))
}

// as is the query with another text.
func (q query) as(text string) query {
	return query{text: text, conditions: slices.Clone(q.conditions), args: slices.Clone(q.args), end: q.end}
}

// among looks at the rows of a way alone, whose IDs the text gives. The query
// begins with the conditions of the way: with more conditions beside these
// another index would be taken, and a limit, which nothing reaches, keeps them
// apart. They come first, for SQLite counts parameters as they come.
func (q *query) among(text string, way query, order string) {
	looked := way.as(text)
	q.conditions = append([]string{"id IN (" + looked.page(order, math.MaxInt32) + ")"}, q.conditions[len(way.conditions):]...)
}

// nth asks for one row, after n-1 others.
func (q query) nth(order string, n int) string {
	return q.page(order, 0) + fmt.Sprintf(" OFFSET %d", n-1)
}

// count asks how many rows there are, counting no further than most.
func (q query) count(most int) string {
	return fmt.Sprintf(`SELECT COUNT(*) FROM (%s LIMIT %d) AS few`, q.whole(), most)
}

// whole is the statement, when it is no list.
func (q *query) whole() string {
	text := q.text
	if len(q.conditions) > 0 {
		text += " WHERE " + strings.Join(q.conditions, " AND ")
	}
	return text + q.end
}

// page closes the statement; it asks for one row more than the page, which
// tells whether there is a next one.
func (q *query) page(order string, limit int) string {
	return fmt.Sprintf("%s ORDER BY %s LIMIT %d", q.whole(), order, limit+1)
}

func pageSize(limit int) int {
	if limit <= 0 {
		return 50
	}
	return min(limit, 1000)
}

// errCursor is for what no list has given as its next.
var errCursor = fmt.Errorf("cursor: %w", ErrNotFound)

// lookedAt is how many rows a page is made of: all where a search keeps few.
func lookedAt(limit int, find string) int {
	if find != "" {
		return math.MaxInt32 - 1
	}
	return limit
}

// found is listOf for rows that are kept, and no more than limit and one.
func found[T any](rows *sql.Rows, err error, limit int, read func(engine.Scanner, *T) error, keep func(T) bool) (list []T, _ error) {
	enough := errors.New("enough")
	err = engine.EachRow(rows, err, func(r engine.Scanner) error {
		var one T
		if err := read(r, &one); err != nil {
			return err
		}
		if keep(one) {
			list = append(list, one)
		}
		if len(list) > limit {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return nil, err
	}
	return list, nil
}

// padded repeats the last of some values until there are 16, 32, 64 and so on:
// so that statements about lists have few texts to prepare.
func padded[T any](values []T) []T {
	places := 16
	for places < len(values) {
		places *= 2
	}
	out := make([]T, places)
	for i := range out {
		out[i] = values[min(i, len(values)-1)]
	}
	return out
}

// idsOf gives what each of a list is named by, as parameters.
func idsOf[T any](list []T, id func(T) any) []any {
	out := make([]any, len(list))
	for i, one := range list {
		out[i] = id(one)
	}
	return out
}

// anys gives a list as parameters.
func anys[T any](list []T) []any { return idsOf(list, func(one T) any { return one }) }
