package sqlite

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
)

// MovedFile is the cause of refusals while the embedded engine's files are not
// where they were opened.
const MovedFile = "its file was moved or deleted"

var errMoved = errors.New(MovedFile)

// openFile is a file of the database, as it was when it was opened.
type openFile struct {
	path string
	info os.FileInfo
}

// files are those of a database on a disk; none in memory.
type files struct {
	named string // what it was opened by, which may be a link
	lock  fileLock
	all   []openFile
}

// lockAll keeps a second server off the database: both would believe that
// their memory is the truth.
func (f *files) lockAll(path string, log *slog.Logger) (err error) {
	if err := refuseForeign(path); err != nil {
		return err
	}
	if f.lock, err = lockFor(path); err != nil {
		return err
	}
	if err := errors.Join(refuseParted(path), refuseRestoring(path)); err != nil {
		return err
	}
	if err := closeToOthers(path, log); err != nil {
		return err
	}
	return f.lock.lockDatabase(path) // which may be new
}

// holdAll remembers what was opened: the database, its log of writes, the index of the log, and
// the lock that keeps a second server off it. A connection that is opened while the index is
// gone makes one of its own: it never sees what is written from then on, and a checkpoint by
// it puts pages where others belong.
func (f *files) holdAll(path string) error {
	return f.hold(slices.Compact([]string{f.named, path, path + "-wal", path + "-shm", path + ".lock"})...)
}

func (f *files) hold(paths ...string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("database: %w", err)
		}
		f.all = append(f.all, openFile{path, info})
	}
	return nil
}

// inPlace is asked before every commit. A file that was deleted can be written
// to for as long as it is open, and then is gone, with all that was acknowledged;
// and whoever makes one of its name can start a second server beside this one.
func (f *files) inPlace() error {
	for _, one := range f.all {
		info, err := os.Stat(one.path)
		if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(info, one.info) {
			return fmt.Errorf("database: %s: %w", one.path, errMoved)
		}
	}
	return nil
}

func (f *files) close() error { return f.lock.Close() }
