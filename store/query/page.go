package query

import (
	"bytes"
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// PageSize is how many rows a page has of those asked for: 1 to 1000, and 50 for 0.
func PageSize(limit int) int {
	if limit <= 0 {
		return 50
	}
	return min(limit, 1000)
}

// ErrCursor is for what no list has given as its next.
var ErrCursor = fmt.Errorf("cursor: %w", engine.ErrNotFound)

// LookedAt is how many rows a page is made of: all where a search keeps few.
func LookedAt(limit int, find string) int {
	if find != "" {
		return math.MaxInt32 - 1
	}
	return limit
}

// Found is engine.ListOf for rows that are kept, and no more than limit and one.
func Found[T any](rows *sql.Rows, err error, limit int, read func(engine.Scanner, *T) error, keep func(T) bool) (list []T, _ error) {
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

// A Place is where an approval stands in lists, newest first; the zero place
// is before all of them.
type Place struct {
	At int64 // when it was made, Unix seconds
	ID approval.ID
}

// ReadPlace takes what Cursor has given and nothing else, or "" for the zero place.
// ErrCursor: it is neither.
func ReadPlace(cursor string) (p Place, err error) {
	if cursor == "" {
		return p, nil
	}
	left, right, ok := strings.Cut(cursor, ".")
	if p.At, err = strconv.ParseInt(left, 10, 64); !ok || err != nil {
		return Place{}, ErrCursor
	}
	if p.ID, err = approval.ParseID(right); err != nil {
		return Place{}, ErrCursor
	}
	return p, nil
}

// Compare is below 0 where p comes before q.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(q.At, p.At), bytes.Compare(q.ID[:], p.ID[:]))
}

// Cursor names the last row of a page.
func (p Place) Cursor() string { return strconv.FormatInt(p.At, 10) + "." + p.ID.String() }

// MaxTime bounds the times that are asked about, in Unix seconds: the year 5138.
const MaxTime = 100_000_000_000

// IDAt is what the IDs of entries from a time on, Unix seconds, come behind.
func IDAt(at int64) string { return fmt.Sprintf("%016x", min(max(at, 0), MaxTime)*1000<<16) }
