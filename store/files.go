package store

import (
	"context"

	"github.com/grantkeeper/grantkeeper/store/sqlite"
)

// What commands read and make of the embedded engine's files, by their names here.
type (
	Info           = sqlite.Info
	RestoreOptions = sqlite.RestoreOptions
	Restored       = sqlite.Restored
)

// MovedFile is the cause of refusals while the embedded engine's files are not
// where they were opened.
const MovedFile = sqlite.MovedFile

// Errors of files.
var (
	ErrEmpty = sqlite.ErrEmpty // nothing is in it yet: a server that starts makes what is missing
	ErrBusy  = sqlite.ErrBusy  // refuses a second one of what there can be only one at a time
)

// FilesOf lists a SQLite file, where its path leads, and the files that belong to it, whether or
// not they are there.
func FilesOf(path string) []string { return sqlite.FilesOf(path) }

// DatabaseOf names the SQLite file that one of FilesOf belongs to.
func DatabaseOf(file string) string { return sqlite.DatabaseOf(file) }

// Inspect reads a SQLite file, also one that a server works on. It neither
// locks nor changes it. fs.ErrNotExist, ErrForeign, ErrEmpty, ErrDamaged,
// ErrParted, ErrRestoring and ErrInUse, by another name, are for the caller.
func Inspect(ctx context.Context, path string) (Info, error) { return sqlite.Inspect(ctx, path) }

// HasClient says of a SQLite file, which it reads as Inspect does, whether a client of this ID
// is in it, and whether there is any client, person or organization.
func HasClient(ctx context.Context, path, id string) (has, filled bool, err error) {
	return sqlite.HasClient(ctx, path, id)
}

// Verify reads an unpacked backup to its last page: an error says that it
// cannot be restored. It is read as it stands, and not changed.
func Verify(ctx context.Context, path string) (Info, error) { return sqlite.Verify(ctx, path) }

// Unpack copies a backup into a new file, which is its owner's alone, and
// unpacks it when it is compressed by gzip.
func Unpack(from, to string) error { return sqlite.Unpack(from, to) }

// Restore puts a backup where the database is expected. It is there whole or
// not at all. ErrInUse and ErrNotEmpty refuse to touch another one; ErrForeign
// refuses a file that is damaged or no backup, ErrSchema one of a later
// release, ErrKeys one of other keys.
func Restore(ctx context.Context, o RestoreOptions) (Restored, error) { return sqlite.Restore(ctx, o) }

// Room is how many bytes of a folder's disk are free for this user.
func Room(dir string) (int64, error) { return sqlite.Room(dir) }
