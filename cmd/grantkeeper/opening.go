package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store"
)

// checkedDatabase says of the configured database what serve would find: an
// fault.Error where it would not start.
func checkedDatabase(ctx context.Context, c config.Checked) (string, error) {
	if c.Postgres != "" {
		text, _, err := store.InspectURL(ctx, c.Postgres, c.Ring)
		if err != nil {
			return "", openError(err)
		}
		return text, nil
	}
	info, err := store.Inspect(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrEmpty) {
		return newDatabase(c.Path)
	}
	if err == nil {
		err = errors.Join(info.CheckKeys(c.Ring), info.CheckSchema())
	}
	if err == nil {
		if err = syscall.Access(c.Path, 2); err != nil { // to write
			err = &fs.PathError{Op: "open", Path: c.Path, Err: err}
		}
	}
	if err != nil {
		return "", openError(err)
	}
	return fmt.Sprintf("sqlite %s, schema %d, %s", c.Path, info.Schema, size(info.Bytes)), nil
}

// newDatabase says whether there can be one.
func newDatabase(path string) (string, error) {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil {
		return "", fault.CannotOpen("mkdir "+dir+", for the user who runs serve", "database: %v", err)
	} else if !info.IsDir() {
		return "", fault.CannotOpen("choose another database.url", "database: %s is not a folder", dir)
	}
	if err := syscall.Access(dir, 2); err != nil {
		return "", denied(&fs.PathError{Op: "open", Path: path, Err: err})
	}
	return "sqlite " + path + ", is made at the first start", nil
}

// laterRelease says which release a newer schema wants.
func laterRelease(schema *store.SchemaError) string {
	if schema != nil && schema.Release != "" {
		return "use release " + schema.Release + ", which this database belongs to, or a later one"
	}
	return "use the release that this database belongs to, or a later one"
}

// openError says what to do when the database does not open.
func openError(err error) error {
	var schema *store.SchemaError
	switch {
	case errors.As(err, &schema) && schema.Older():
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "run: grantkeeper migrate up"}
	case errors.Is(err, store.ErrInUse):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "stop the other one, or use another database"}
	case errors.Is(err, store.ErrSchema):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: laterRelease(schema)}
	case errors.Is(err, store.ErrNodes):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "stop them first, or give them the release before this one"}
	case errors.Is(err, store.ErrKeys):
		return fault.BadConfig("use the key file that this database was made with", "secret key: %v", err)
	case errors.Is(err, store.ErrDatabase):
		what, hint, _ := strings.Cut(err.Error(), "; ")
		return fault.CannotOpen(hint, "%s", what)
	case errors.Is(err, fs.ErrPermission):
		return denied(err)
	case errors.Is(err, store.ErrParted):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "put the database back beside its log, or move the log away: it holds what was written last"}
	case errors.Is(err, store.ErrDamaged):
		return fault.CannotOpen("restore a backup: grantkeeper backup restore FILE", "%v", err)
	case errors.Is(err, store.ErrForeign):
		return fault.CannotOpen("name another file, or move it away: an empty database is made where there is none", "%v", err)
	}
	return fault.CannotOpen("see that the folder exists, that this user may write in it, and that its disk has room and is not read-only", "%v", err)
}
