package engine

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/grantkeeper/grantkeeper/store/schema"
)

// A CopySide is one of the two databases of a copy, on which nobody else works. All
// that is done on Conn is one transaction: of the one that is read a snapshot, of the one
// that is written all or nothing.
type CopySide interface {
	Conn() *sql.Conn
	// Columns are in the order of their names.
	Columns(ctx context.Context, table string) ([]schema.Column, error)
	// InsertRows writes rows until next gives io.EOF.
	InsertRows(ctx context.Context, t schema.Table, next func() ([]any, error)) error
	// Text is the text that the engine holds for this one.
	Text(text string) string
	// Seen is the database's own time where its rows do not say it, in Unix seconds; else 0.
	Seen(ctx context.Context) (int64, error)
	// Finish commits.
	Finish(ctx context.Context) error
	// Explain gives an error that says what to mend.
	Explain(err error) error
	// Close undoes what was not finished. The mark of the copy stands then.
	Close() error
}

// MarkCopy leaves nothing in meta but that a copy is under way.
func MarkCopy(exec func(text string, args ...any) error) error {
	if err := exec(`DELETE FROM meta`); err != nil {
		return err
	}
	return exec(PutMeta, schema.MetaCopying, "")
}

// ColumnsOf reads the columns that a catalog gives, names and what they hold.
func ColumnsOf(rows *sql.Rows, err error) ([]schema.Column, error) {
	return ListOf(rows, err, func(r Scanner, c *schema.Column) error {
		err := r.Scan(&c.Name, &c.Holds)
		switch c.Holds {
		case "bigint":
			c.Holds = schema.Numbers
		case "text":
			c.Holds = schema.Texts
		case "bytea":
			c.Holds = schema.Octets
		}
		return err
	})
}

// SameSchema refuses to copy from a schema that is not this release's.
func SameSchema(has schema.State) error {
	if has.Version != schema.Version {
		return &schema.Error{Has: has.Version, Knows: schema.Version, Oldest: has.Oldest, Release: has.Release}
	}
	return nil
}

// CopyValue is a value as every engine holds it: SQLite has text in a column of octets
// where a migration has filled it.
func CopyValue(v any, c schema.Column, text func(string) string) (any, error) {
	switch v := v.(type) {
	case int64:
		if c.Holds == schema.Numbers {
			return v, nil
		}
	case string:
		switch c.Holds {
		case schema.Texts:
			return text(v), nil
		case schema.Octets:
			return []byte(v), nil
		}
	case []byte:
		switch c.Holds {
		case schema.Texts:
			return text(string(v)), nil
		case schema.Octets:
			return append([]byte{}, v...), nil // never NULL, and the driver's own
		}
	}
	return nil, fmt.Errorf("%w: column %s of %s has %T", ErrRow, c.Name, c.Holds, v)
}
