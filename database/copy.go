package database

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
)

// IsFile reports whether the value of a flag that says where a database is names a file with
// its URL.
func IsFile(value string) bool {
	return !strings.HasPrefix(value, "sqlite:") && !strings.Contains(value, "://")
}

// PlaceOf reads the value of a flag, a URL or the name of a file with one; it never
// repeats a URL, which may have a password. The rest is as configured.
func PlaceOf(flag, value string, c config.Checked) (store.Place, error) {
	c.Path, c.Postgres, c.Database = "", "", config.Database{URL: value}
	if IsFile(value) {
		c.Database = config.Database{URLFile: value}
	}
	if err := c.CheckDatabase(); err != nil {
		wrong := new(fault.Error)
		if errors.As(err, &wrong) {
			_, what, _ := strings.Cut(wrong.What, ": ")
			hint := wrong.Hint
			if _, err := os.Stat(c.Database.URLFile); c.Database.URLFile != "" && errors.Is(err, fs.ErrNotExist) {
				hint += "; a database of SQLite is written " + flag + " sqlite:///path/to/file"
			}
			return store.Place{}, &fault.Error{Code: wrong.Code, What: flag + ": " + what, Hint: hint}
		}
		return store.Place{}, err
	}
	return store.Place{Path: c.Path, URL: c.Postgres}, nil
}

// Copy copies one database into an empty one.
func Copy(ctx context.Context, o store.CopyOptions) error {
	if err := store.Copy(ctx, o); err != nil {
		return copyError(err)
	}
	return nil
}

// copyError says what to do about what store refuses.
func copyError(err error) error {
	var differs *store.SchemaError
	switch {
	case errors.As(err, &differs) && differs.Older():
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "first, with that database in the configuration: grantkeeper migrate up"}
	case errors.As(err, &differs):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: server.LaterRelease(differs)}
	case errors.Is(err, store.ErrSchema):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "somebody has changed the table by hand: take that back, then copy once more"}
	case errors.Is(err, store.ErrInUse):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "stop every server on either database, and copy then"}
	case errors.Is(err, store.ErrRow):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "mend that row in the database that is copied, as the server would have written it, and copy once more"}
	case errors.Is(err, store.ErrAhead):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "set that clock right, or wait until then, and copy once more: what is over would live again"}
	case errors.Is(err, store.ErrNotEmpty):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "move it away, or drop it and make it anew: a copy never writes over a database"}
	case errors.Is(err, store.ErrUnfinished):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "copy the database that it was to be a copy of"}
	case fault.NoRoom(err):
		return fault.CannotOpen("make room there, and copy once more: it begins anew", "%v", err)
	case errors.Is(err, store.ErrCopyDiffers):
		return &fault.Error{Code: fault.Failed, What: err.Error(), Hint: "see the disks and the logs of both databases, and copy once more: it begins anew"}
	case errors.Is(err, fs.ErrNotExist):
		return fault.CannotOpen("see that the file is there, and the folder of the new one", "%v", err)
	}
	return server.OpenError(err)
}
