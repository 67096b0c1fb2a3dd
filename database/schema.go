package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// Status is how far a database is.
type Status struct {
	Database string `json:"database"`
	Current  int    `json:"current"` // 0 when there is none yet
	Oldest   int    `json:"oldest"`  // schema whose releases work on it too; 0 when it does not say
	Release  string `json:"release"` // that has made the schema; empty when it does not say
	Newest   int    `json:"newest"`
	Pending  []int  `json:"pending"`
	Works    bool   `json:"works"` // this release starts on it
	Postgres bool   `json:"-"`
}

// Inspect says how far the configured database is, by the migrations that there are, in
// order. A database of a later release is no error, and where there is none yet Current
// is 0.
func Inspect(ctx context.Context, c config.Checked, all []store.Migration) (Status, error) {
	s := Status{Database: c.Path, Newest: all[len(all)-1].Version, Pending: []int{}, Works: true, Postgres: c.Postgres != ""}
	var schema store.Schema
	var err error
	if s.Postgres {
		s.Database, schema, err = store.InspectURL(ctx, c.Postgres, c.Ring)
		s.Database, _, _ = strings.Cut(s.Database, ",")
	} else {
		info, failed := store.Inspect(ctx, c.Path)
		if errors.Is(failed, fs.ErrNotExist) {
			return s, nil // the first start makes it, with the newest
		}
		schema, err = store.Schema{Version: info.Schema, Oldest: info.Oldest, Release: info.Release}, failed
		if err == nil {
			err = info.CheckSchema()
		}
	}
	if err != nil && !errors.Is(err, store.ErrSchema) {
		return s, server.OpenError(err)
	}
	s.Current, s.Oldest, s.Release = schema.Version, schema.Oldest, schema.Release
	if s.Current > 0 {
		for _, m := range store.Pending(all, s.Current, 0) {
			s.Pending = append(s.Pending, m.Version)
		}
	}
	s.Works = err == nil || s.Current == s.Newest // which tests invent
	return s, nil
}

func (s Status) String() string {
	switch {
	case s.Current == 0:
		return fmt.Sprintf("%s: not there; the first start makes it with schema %d", s.Database, s.Newest)
	case s.Current > s.Newest && s.Works:
		return fmt.Sprintf("%s: schema %d is of a later release, and this one, which has %d, works on it too", s.Database, s.Current, s.Newest)
	case s.Current > s.Newest:
		return fmt.Sprintf("%s: schema %d is of a later release, this one has %d", s.Database, s.Current, s.Newest)
	case len(s.Pending) == 0:
		return fmt.Sprintf("%s: schema %d, the newest", s.Database, s.Current)
	}
	return fmt.Sprintf("%s: schema %d, newest %d, pending: %s", s.Database, s.Current, s.Newest, terminal.Numbers(s.Pending))
}

// UpTo are the migrations that are pending up to a version; 0 is all of them. One that
// there is no way to is an error.
func (s Status) UpTo(all []store.Migration, to int) ([]store.Migration, error) {
	if err := s.checkTo(to); err != nil {
		return nil, err
	}
	return store.Pending(all, cmp.Or(s.Current, s.Newest), to), nil // none where there is no database yet
}

func (s Status) checkTo(to int) error {
	switch {
	case s.Current > s.Newest && !s.Works:
		return &fault.Error{Code: fault.State, What: s.String(), Hint: server.LaterRelease(&store.SchemaError{Release: s.Release})}
	case s.Current > s.Newest && to == 0:
		return nil // an old node's turn in a rolling upgrade: nothing is pending
	case to > 0 && to < s.Current:
		return &fault.Error{Code: fault.State, What: fmt.Sprintf("schema %d is past %d: migrations go forward only", s.Current, to), Hint: "the release before runs on it too: go back to its binary"}
	case to < 0 || to > s.Newest:
		return fault.WrongUse("see: grantkeeper migrate status", "--to: there is no schema %d in this release", to)
	}
	return nil
}

// Migrate runs what is pending, and gives the schemas before and after.
func Migrate(ctx context.Context, o store.MigrateOptions) (from, reached int, err error) {
	from, reached, err = store.Migrate(ctx, o)
	if err != nil {
		err = migrateError(err, reached)
	}
	return from, reached, err
}

// migrateError says where a migration that failed has left the schema.
func migrateError(err error, reached int) error {
	switch {
	case errors.Is(err, store.ErrInUse):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "stop the server, and run it again; or: grantkeeper serve --migrate"}
	case errors.Is(err, fs.ErrExist):
		return &fault.Error{Code: fault.State, What: err.Error() + ", nothing was changed", Hint: "choose another --backup FILE"}
	case errors.Is(err, store.ErrSchema), errors.Is(err, store.ErrNodes), errors.Is(err, store.ErrKeys), errors.Is(err, store.ErrDatabase):
		return server.OpenError(err)
	}
	return &fault.Error{Code: fault.Failed, What: err.Error(), Hint: fmt.Sprintf("the schema is %d, and the release of it goes on to run; report the fault", reached)}
}
