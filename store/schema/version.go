package schema

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
)

// What meta says of the schema: its version, the oldest schema whose releases
// work on it, and which release has made it so.
const (
	MetaVersion = "schema"
	MetaOldest  = "schema_oldest"
	MetaRelease = "schema_release"
)

// Error says which schema a database has and which one this release
// knows. It is ErrVersion.
type Error struct {
	Has, Knows int
	Oldest     int    // schema whose releases work on it too; 0 when it does not say
	Release    string // that has made it so, where it is known
}

// Error says what differs, and from what.
func (e *Error) Error() string {
	switch {
	case e.Older():
		return fmt.Sprintf("database: schema %d, this release has %d: %v", e.Has, e.Knows, ErrVersion)
	case e.Oldest > e.Knows:
		return fmt.Sprintf("database: schema %d takes releases of schema %d and newer, this one has %d: %v", e.Has, e.Oldest, e.Knows, ErrVersion)
	}
	return fmt.Sprintf("database: schema %d is of a later release, this one has %d: %v", e.Has, e.Knows, ErrVersion)
}

// Is lets callers ask for ErrVersion.
func (e *Error) Is(target error) bool { return target == ErrVersion }

// Older reports whether a migration mends it.
func (e *Error) Older() bool { return e.Has < e.Knows }

// State is what a database says of its schema.
type State struct {
	Version int
	Oldest  int    // whose releases work on it; 0 when it does not say
	Release string // that has made it so; empty when it does not say
}

// Read reads it from a database or one of its connections. ErrForeign is
// for a table meta of something else, ErrUnfinished for a copy that was not finished.
func Read(ctx context.Context, db interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}) (s State, err error) {
	rows, err := db.QueryContext(ctx, `SELECT name, value FROM meta WHERE name IN ($1, $2, $3, $4)`, MetaVersion, MetaOldest, MetaRelease, MetaCopying)
	if err != nil {
		return s, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return s, err
		}
		if err := s.read(name, value); err != nil {
			return s, err
		}
	}
	if err = rows.Err(); err == nil && s.Version == 0 {
		err = fmt.Errorf("%w: it has no schema", ErrForeign)
	}
	return s, err
}

// read takes one row of meta.
func (s *State) read(name, value string) (err error) {
	into := &s.Version
	switch name {
	case MetaCopying:
		return ErrUnfinished
	case MetaRelease:
		s.Release = value
		return nil
	case MetaOldest:
		into = &s.Oldest
	}
	if *into, err = strconv.Atoi(value); err != nil {
		return fmt.Errorf("%w: its %s is %q", ErrForeign, name, value)
	}
	return nil
}

// Works is nil where this release works on a schema: its own, or a newer one
// that says so.
func (s State) Works() error {
	if s.Version == Version || s.Version > Version && s.Oldest > 0 && s.Oldest <= Version {
		return nil
	}
	return &Error{s.Version, Version, s.Oldest, s.Release}
}
