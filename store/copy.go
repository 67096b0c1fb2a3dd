package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"time"

	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/postgres"
	"github.com/grantkeeper/grantkeeper/store/schema"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
	"github.com/grantkeeper/grantkeeper/token"
)

// CopyOptions say which database is copied, and where to.
type CopyOptions struct {
	From, To Place
	Ring     *token.Ring // whose keys must be those of the database
	Release  string      // which one copies

	Told func(CopiedTable) // of each, once it is compared; may be nil
}

// A Place is a SQLite file, or a PostgreSQL database.
type Place struct{ Path, URL string }

// Name is for people, without a password.
func (p Place) Name() string {
	if p.URL != "" {
		return postgres.NameOf(p.URL)
	}
	return p.Path
}

// A CopiedTable is what was copied and compared of one.
type CopiedTable struct {
	Table  string `json:"table"`
	Rows   int64  `json:"rows"`
	Digest string `json:"digest"` // of the rows of either side, in hexadecimal
	Mended int64  `json:"mended"` // texts that the engine cannot hold: PostgreSQL neither NUL nor what is no UTF-8
}

// Copy copies all rows of a database into an empty one, of this release's schema, on
// either engine; nobody works on either meanwhile (ErrInUse). What it has written it reads
// again and compares. The copy is there whole, or as one that is not finished:
// ErrUnfinished for a server, and made anew by the next copy. ErrNotEmpty refuses to write
// over a database, ErrSchema one of another schema, ErrKeys one of other keys, ErrAhead where
// the other one's clock is behind (decision T12), ErrRow what it cannot hold.
func Copy(ctx context.Context, o CopyOptions) error {
	from, err := copyFrom(ctx, o)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := copyTo(ctx, o)
	if err != nil {
		return err
	}
	defer to.Close()
	seen, err := timeOf(ctx, from, to)
	if err != nil {
		return err
	}
	for _, name := range schema.SharedTables() {
		done, err := copyTable(ctx, from, to, name)
		if err != nil {
			return fmt.Errorf("copy of table %s: %w", name, err)
		}
		if o.Told != nil {
			o.Told(done)
		}
	}
	if err := settleCopy(ctx, to, seen); err != nil {
		return to.Explain(err)
	}
	return nil
}

func copyFrom(ctx context.Context, o CopyOptions) (engine.CopySide, error) {
	if o.From.URL != "" {
		return postgres.CopyFrom(ctx, o.From.URL, o.Ring)
	}
	return sqlite.CopyFrom(ctx, o.From.Path, o.Ring)
}

func copyTo(ctx context.Context, o CopyOptions) (engine.CopySide, error) {
	if o.To.URL != "" {
		return postgres.CopyTo(ctx, o.To.URL, o.Release)
	}
	return sqlite.CopyTo(ctx, o.To.Path, o.Release)
}

// timeOf is the time that a database has seen, in Unix seconds. Codes and tokens that are
// over would live again where time is before that.
func timeOf(ctx context.Context, from, to engine.CopySide) (int64, error) {
	seen, err := seenBy(ctx, from)
	if err != nil {
		return 0, from.Explain(err)
	}
	now, err := to.Seen(ctx)
	switch {
	case err != nil:
		return 0, to.Explain(err)
	case now > 0 && seen > now:
		return 0, fmt.Errorf("database: it has seen %v, and the other one's clock is %v behind that: %w", time.Unix(seen, 0).UTC().Format(time.RFC3339), time.Duration(seen-now)*time.Second, ErrAhead)
	}
	return seen, nil
}

// seenBy asks a database for its time, and its rows where they say it; 0 where neither does.
func seenBy(ctx context.Context, side engine.CopySide) (seen int64, err error) {
	if seen, err = side.Seen(ctx); err != nil || seen > 0 {
		return seen, err
	}
	var text string
	err = side.Conn().QueryRowContext(ctx, `SELECT value FROM meta WHERE name = $1`, engine.MetaTime).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// settleCopy makes a database of the tables.
func settleCopy(ctx context.Context, to engine.CopySide, seen int64) error {
	if _, err := to.Conn().ExecContext(ctx, `DELETE FROM meta WHERE name = $1`, schema.MetaCopying); err != nil {
		return err
	}
	if seen > 0 {
		if _, err := to.Conn().ExecContext(ctx, engine.PutMeta, engine.MetaTime, strconv.FormatInt(seen, 10)); err != nil {
			return err
		}
	}
	return to.Finish(ctx)
}

// ErrCopyDiffers is for what was read again and is not what was written.
var ErrCopyDiffers = errors.New("what was written is not what was read")

func copyTable(ctx context.Context, from, to engine.CopySide, name string) (CopiedTable, error) {
	t, err := sameTable(ctx, from, to, name)
	if err != nil {
		return CopiedTable{}, err
	}
	rows, err := tableRows(ctx, from, t)
	if err != nil {
		return CopiedTable{}, from.Explain(err)
	}
	defer rows.Close()
	var read, written tableDigest
	var failed error // of the side that is read
	reader := newCopyReader(t, rows, to.Text)
	err = to.InsertRows(ctx, t, func() ([]any, error) {
		row, err := reader.next()
		if err == nil {
			read.add(row)
		} else if !errors.Is(err, io.EOF) {
			failed = err
		}
		return row, err
	})
	switch {
	case failed != nil:
		return CopiedTable{}, from.Explain(failed)
	case err != nil:
		return CopiedTable{}, to.Explain(err)
	}
	again, err := tableRows(ctx, to, t)
	if err != nil {
		return CopiedTable{}, to.Explain(err)
	}
	defer again.Close()
	for back := newCopyReader(t, again, to.Text); ; {
		row, err := back.next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return CopiedTable{}, to.Explain(err)
		}
		written.add(row)
	}
	if read != written {
		return CopiedTable{}, fmt.Errorf("%w: %d rows of digest %s, and %d of %s", ErrCopyDiffers, read.rows, read.text(), written.rows, written.text())
	}
	return CopiedTable{Table: name, Rows: read.rows, Digest: read.text(), Mended: reader.mended}, nil
}

// sameTable refuses a table that somebody has changed by hand.
func sameTable(ctx context.Context, from, to engine.CopySide, name string) (schema.Table, error) {
	has, err := from.Columns(ctx, name)
	if err != nil {
		return schema.Table{}, from.Explain(err)
	}
	wants, err := to.Columns(ctx, name)
	if err != nil {
		return schema.Table{}, to.Explain(err)
	}
	t := schema.Table{Name: name, Columns: wants}
	if !t.Same(schema.Table{Name: name, Columns: has}) {
		return t, fmt.Errorf("%w: its columns are %v, and the schema has %v", ErrSchema, has, wants)
	}
	return t, nil
}

func tableRows(ctx context.Context, side engine.CopySide, t schema.Table) (*sql.Rows, error) {
	return side.Conn().QueryContext(ctx, t.Selecting())
}

// A copyReader gives the rows of a table as every engine holds them.
type copyReader struct {
	table  schema.Table
	rows   *sql.Rows
	into   []any
	mended int64
	held   func(string) string
}

func newCopyReader(t schema.Table, rows *sql.Rows, text func(string) string) *copyReader {
	r := &copyReader{table: t, rows: rows, into: make([]any, len(t.Columns))}
	for i := range r.into {
		r.into[i] = new(any)
	}
	r.held = func(s string) string {
		as := text(s)
		if as != s {
			r.mended++
		}
		return as
	}
	return r
}

// next gives io.EOF behind the last row.
func (r *copyReader) next() ([]any, error) {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	if err := r.rows.Scan(r.into...); err != nil {
		return nil, err
	}
	row := make([]any, len(r.into))
	for i, c := range r.table.Columns {
		var err error
		if row[i], err = engine.CopyValue(*r.into[i].(*any), c, r.held); err != nil {
			return nil, err
		}
	}
	return row, nil
}

// A tableDigest is the sum, modulo 2 to the 256th, of the SHA-256 of all rows: engines give
// them in orders of their own.
type tableDigest struct {
	rows int64
	sum  [4]uint64
}

// add takes a row: of each value its kind, its length and its bytes.
func (d *tableDigest) add(row []any) {
	text := make([]byte, 0, 512)
	for _, v := range row {
		switch v := v.(type) {
		case int64:
			text = binary.BigEndian.AppendUint64(append(text, 'n'), uint64(v))
		case string:
			text = append(binary.BigEndian.AppendUint64(append(text, 't'), uint64(len(v))), v...)
		case []byte:
			text = append(binary.BigEndian.AppendUint64(append(text, 'o'), uint64(len(v))), v...)
		}
	}
	hash, carry := sha256.Sum256(text), uint64(0)
	for i := range d.sum {
		d.sum[i], carry = bits.Add64(d.sum[i], binary.LittleEndian.Uint64(hash[8*i:]), carry)
	}
	d.rows++
}

func (d *tableDigest) text() string {
	var b []byte
	for _, v := range d.sum {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return hex.EncodeToString(b)
}
