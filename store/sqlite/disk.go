package sqlite

import (
	"errors"
	"path/filepath"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// noRoom is less room, in bytes, than the log of the embedded engine takes. A
// test has another.
var noRoom int64 = 16 << 20

// causeOfFile is causeOf for the embedded engine, whose errors tell a full disk
// from one that fails only sometimes. It is for the log: no door tells it.
func causeOfFile(err error, path string) string {
	switch {
	case errors.Is(err, sqlite3.FULL):
		return engine.FullDisk
	case path == "", !errors.Is(err, sqlite3.IOERR):
		return ""
	}
	if free, err := Room(filepath.Dir(path)); err == nil && free < noRoom {
		return engine.FullDisk
	}
	return engine.BadDisk
}

// Room is how many bytes of a folder's disk are free for this user.
func Room(dir string) (int64, error) {
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	return int64(fs.Bavail) * int64(fs.Bsize), err
}

// mend adds to what is logged of an error what is the matter with the embedded
// engine's disk, and what to do about it.
func (w *writer) mend(of ...any) []any {
	err, _ := of[len(of)-1].(error)
	if w.Options.Path == "" {
		return of
	}
	dir := filepath.Dir(w.Options.Path)
	if errors.Is(err, engine.ErrDamaged) {
		return append(of, "cause", engine.ErrDamaged.Error(), "fix", "restore a backup: grantkeeper backup restore FILE")
	}
	switch cause := causeOfFile(err, w.Options.Path); cause {
	case engine.FullDisk:
		return append(of, "cause", cause, "fix", "make room in "+dir+": the server goes on by itself then")
	case engine.BadDisk:
		return append(of, "cause", cause, "fix", "see the system's log about the disk of "+dir+", and ulimit -f")
	}
	return of
}
