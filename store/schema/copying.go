package schema

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// MetaCopying is the one row of meta, beside tables that may be half full, while a copy
// of another database is written into this one. There is no version beside it, so that
// releases which do not know it refuse the database too.
const MetaCopying = "copying"

// ErrUnfinished is for a database into which a copy was begun and not finished.
var ErrUnfinished = errors.New("a copy of another database was begun in it, and not finished")

// What columns hold. There is nothing else in the schema, on either engine.
const (
	Numbers = "BIGINT"
	Texts   = "TEXT"
	Octets  = "BYTEA"
)

// A Column is one of a table, as its database has it.
type Column struct{ Name, Holds string }

// A Table is one that both engines have, its columns in the order of their names.
type Table struct {
	Name    string
	Columns []Column
}

// Same reports whether two databases have the table alike.
func (t Table) Same(as Table) bool { return t.Name == as.Name && slices.Equal(t.Columns, as.Columns) }

// Names are those of the columns.
func (t Table) Names() (names []string) {
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	return names
}

// Selecting is the statement that reads the whole table, less the mark of a copy.
func (t Table) Selecting() string {
	text := "SELECT " + strings.Join(t.Names(), ", ") + " FROM " + t.Name
	if t.Name == "meta" {
		text += " WHERE name <> '" + MetaCopying + "'"
	}
	return text
}

// Inserting is the statement that writes one row of it.
func (t Table) Inserting() string {
	names, places := t.Names(), []string{}
	for i := range names {
		places = append(places, "$"+strconv.Itoa(i+1))
	}
	return "INSERT INTO " + t.Name + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(places, ", ") + ")"
}

// SharedTables names the tables of this release's schema that both engines have, meta
// last. What PostgreSQL has beside them is of the nodes that work there.
func SharedTables() (names []string) {
	for _, m := range Migrations() {
		for _, made := range tableMade.FindAllStringSubmatch(m.SQL, -1) {
			if made[1] != "meta" {
				names = append(names, made[1])
			}
		}
	}
	return append(names, "meta")
}
