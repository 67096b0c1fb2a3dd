// Package database is what commands do to a database that no server of theirs runs on:
// whether a backup can be restored, and restoring it, which schema there is and what is
// pending, copying it to the other engine, going on without lost keys; and what people
// are told to do about what the store refuses.
package database

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
)

// Verify reads a backup to its last page. It checks a copy: what is checked is what
// would be restored. A backup that cannot be, by this release, is an error.
func Verify(ctx context.Context, name string) (store.Info, error) {
	dir, err := os.MkdirTemp("", "grantkeeper-verify-")
	if err != nil {
		return store.Info{}, temporaryError(name, err)
	}
	defer os.RemoveAll(dir)
	copied := filepath.Join(dir, "backup.db")
	err = store.Unpack(name, copied)
	if fault.NoRoom(err) {
		return store.Info{}, temporaryError(name, err)
	}
	var info store.Info
	if err == nil {
		info, err = store.Verify(ctx, copied)
	}
	if err == nil && info.Schema > store.SchemaVersion {
		err = info.CheckSchema()
	}
	if err != nil {
		return store.Info{}, restoreError(strings.ReplaceAll(err.Error(), copied, name), err)
	}
	return info, nil
}

// temporaryError says where a backup could not be unpacked: nothing is the matter
// with the backup.
func temporaryError(name string, err error) error {
	if fault.NoRoom(err) {
		return fault.CannotOpen("make room there, or set TMPDIR to a folder that has it", "%s cannot be unpacked: there is no room in the folder for temporary files, %s", name, os.TempDir())
	}
	return fault.CannotOpen("set TMPDIR to a folder that this user may write in", "%s cannot be unpacked: %v", name, err)
}

// Restore puts a backup where there is no database.
func Restore(ctx context.Context, o store.RestoreOptions) (store.Restored, error) {
	done, err := store.Restore(ctx, o)
	if err != nil {
		return done, restoreError(err.Error(), err)
	}
	return done, nil
}

// restoreError says what to do about what store refuses.
func restoreError(what string, err error) error {
	switch {
	case errors.Is(err, store.ErrForeign), errors.Is(err, store.ErrDamaged), errors.Is(err, store.ErrUnfinished):
		return &fault.Error{Code: fault.Failed, What: what, Hint: "take another backup: this one cannot be restored"}
	case errors.Is(err, store.ErrLogBeside):
		return &fault.Error{Code: fault.State, What: what, Hint: "it is a database and no backup: start grantkeeper serve on it and make one (grantkeeper backup create FILE), or stop the server in good order, which empties what is beside it"}
	case errors.Is(err, store.ErrSchema):
		return &fault.Error{Code: fault.State, What: what, Hint: "restore it with the release that made it, or a later one"}
	case errors.Is(err, store.ErrInUse):
		return &fault.Error{Code: fault.State, What: what, Hint: "stop the server, and move its database away"}
	case errors.Is(err, store.ErrNotEmpty):
		return &fault.Error{Code: fault.State, What: what, Hint: "move it away: a restore never writes over a database"}
	case errors.Is(err, fs.ErrPermission) && strings.HasPrefix(what, "database: "):
		return server.Denied(err)
	case errors.Is(err, store.ErrKeys):
		return fault.BadConfig("use the key file of the installation that made the backup", "secret key: %s", what)
	case fault.NoRoom(err):
		return fault.CannotOpen("make room there", "%s", what)
	case strings.HasPrefix(what, "database: "): // its place, and not the backup
		return fault.CannotOpen("see that its folder exists, that this user may write in it, and that its disk is not read-only", "%s", what)
	}
	return fault.CannotOpen("see that the file is there and that this user may read and write", "%s", what)
}
