// Package query builds the texts of statements whose conditions depend on what is asked
// for: lists that go on behind a cursor, searches, and changes of many rows by their keys.
package query

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/client"
)

// Builder gathers the conditions of a list. Only constants of the store's packages
// become text; every value is a parameter.
type Builder struct {
	Text       string
	Conditions []string
	Args       []any
	End        string // behind the conditions, of a statement that is no list
}

// Where adds a condition, which ends in its operator.
func (q *Builder) Where(condition string, value any) {
	q.Args = append(q.Args, value)
	q.Conditions = append(q.Conditions, fmt.Sprintf("%s$%d", condition, len(q.Args)))
}

// Equals asks for a column that has the value; "" asks for nothing.
func (q *Builder) Equals(column, value string) {
	if value != "" {
		q.Where(column+" = ", value)
	}
}

// EqualsIndexed is Equals for a column whose index has no row where it is "". SQLite does not
// infer that from the value, and would read the whole table.
func (q *Builder) EqualsIndexed(column, value string) {
	if value != "" {
		q.Where(column+" = ", value)
		q.Conditions = append(q.Conditions, column+" <> ''")
	}
}

// OneOf asks for a column that has one of the values.
func (q *Builder) OneOf(column string, values []any) {
	places := make([]string, len(values))
	for i, v := range values {
		q.Args = append(q.Args, v)
		places[i] = fmt.Sprintf("$%d", len(q.Args))
	}
	q.Conditions = append(q.Conditions, column+" IN ("+strings.Join(places, ", ")+")")
}

// Pairs asks for rows whose two columns have one of the values, both in turn.
func (q *Builder) Pairs(columns string, values []any) {
	var places []string
	for _, pair := range Padded(slices.Collect(slices.Chunk(values, 2))) {
		q.Args = append(q.Args, pair...)
		places = append(places, fmt.Sprintf("($%d, $%d)", len(q.Args)-1, len(q.Args)))
	}
	q.Conditions = append(q.Conditions, columns+" IN (VALUES "+strings.Join(places, ", ")+")")
}

// EachOf reads, of each key, the rows whose condition has it, the first in an order and as
// many as is said of that key: all together, also those that are found by two keys. Each key
// is a part that ends with its own limit, because PostgreSQL looks for a list of keys in the
// whole table for as long as it has no statistics of it. The last key is repeated until there
// is a power of two of them, so that there are few texts to prepare.
func (q *Builder) EachOf(condition, order string, most map[string]int) {
	keys := slices.Sorted(maps.Keys(most))
	for len(keys)&(len(keys)-1) != 0 {
		keys = append(keys, keys[len(keys)-1])
	}
	parts := make([]string, len(keys))
	for i, key := range keys {
		q.Args = append(q.Args, key, most[key])
		parts[i] = fmt.Sprintf(`SELECT * FROM (%s WHERE %s$%d ORDER BY %s LIMIT $%d) AS part`, q.Text, condition, len(q.Args)-1, order, len(q.Args))
	}
	q.Text = strings.Join(parts, " UNION ALL ")
}

// Values adds rows of so many columns, whose values follow one another.
func (q *Builder) Values(columns int, values []any) {
	var rows []string
	for row := range slices.Chunk(values, columns) {
		places := make([]string, len(row))
		for i, v := range row {
			q.Args = append(q.Args, v)
			places[i] = fmt.Sprintf("$%d", len(q.Args))
		}
		rows = append(rows, "("+strings.Join(places, ", ")+")")
	}
	q.Text += " VALUES " + strings.Join(rows, ", ")
}

// Search asks for rows with a part in their text, or with one of the values, if any, in
// a column.
func (q *Builder) Search(text, part, column string, values []any) {
	q.Args = append(q.Args, "%"+part+"%")
	either := fmt.Sprintf("%s LIKE $%d", text, len(q.Args))
	if len(values) > 0 {
		q.OneOf(column, Padded(values))
		last := len(q.Conditions) - 1
		either += " OR " + q.Conditions[last]
		q.Conditions = q.Conditions[:last]
	}
	q.Conditions = append(q.Conditions, "("+either+")")
}

// Behind begins behind a place.
func (q *Builder) Behind(p Place) {
	if p == (Place{}) {
		return
	}
	q.Args = append(q.Args, p.At, p.ID[:])
	q.Conditions = append(q.Conditions, fmt.Sprintf("(a.created_at, a.id) < ($%d, $%d)", len(q.Args)-1, len(q.Args)))
}

// WithText is the query with another text.
func (q Builder) WithText(text string) Builder {
	return Builder{Text: text, Conditions: slices.Clone(q.Conditions), Args: slices.Clone(q.Args), End: q.End}
}

// Among looks at the rows of a way alone, whose IDs the text gives. The query
// begins with the conditions of the way: with more conditions beside these
// another index would be taken, and a limit, which nothing reaches, keeps them
// apart. They come first, for SQLite counts parameters as they come.
func (q *Builder) Among(text string, way Builder, order string) {
	looked := way.WithText(text)
	q.Conditions = append([]string{"id IN (" + looked.Page(order, math.MaxInt32) + ")"}, q.Conditions[len(way.Conditions):]...)
}

// Nth asks for one row, after n-1 others.
func (q Builder) Nth(order string, n int) string {
	return q.Page(order, 0) + fmt.Sprintf(" OFFSET %d", n-1)
}

// Count asks how many rows there are, counting no further than most.
func (q Builder) Count(most int) string {
	return fmt.Sprintf(`SELECT COUNT(*) FROM (%s LIMIT %d) AS few`, q.Whole(), most)
}

// Whole is the statement, when it is no list.
func (q *Builder) Whole() string {
	text := q.Text
	if len(q.Conditions) > 0 {
		text += " WHERE " + strings.Join(q.Conditions, " AND ")
	}
	return text + q.End
}

// Page closes the statement; it asks for one row more than the page, which
// tells whether there is a next one.
func (q *Builder) Page(order string, limit int) string {
	return fmt.Sprintf("%s ORDER BY %s LIMIT %d", q.Whole(), order, limit+1)
}

// Named adds a condition of a text and of the key of a part of a name; "" is none.
func (q *Builder) Named(text, condition string) {
	if text == "" {
		return
	}
	key := cmp.Or(client.NameKey(text), "/") // no key has a slash, nor a character that LIKE knows
	q.Args = append(q.Args, text, "%"+key+"%")
	q.Conditions = append(q.Conditions, fmt.Sprintf(condition, len(q.Args)-1, len(q.Args)))
}

// NoDrills leaves out what is of a client.Drill.
func (q *Builder) NoDrills() {
	q.Where(fmt.Sprintf("SUBSTR(client, 1, %d) <> ", len(client.DrillID)), client.DrillID)
}

// Padded repeats the last of some values until there are 16, 32, 64 and so on:
// so that statements about lists have few texts to prepare.
func Padded[T any](values []T) []T {
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

// IDs gives what each of a list is named by, as parameters.
func IDs[T any](list []T, id func(T) any) []any {
	out := make([]any, len(list))
	for i, one := range list {
		out[i] = id(one)
	}
	return out
}

// Anys gives a list as parameters.
func Anys[T any](list []T) []any { return IDs(list, func(one T) any { return one }) }
