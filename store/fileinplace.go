package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// holdFiles remembers what was opened: the database, its log of writes, and the
// lock that keeps a second server off it.
func (s *Store) holdFiles() error {
	real, err := filepath.EvalSymlinks(s.options.Path) // beside which SQLite has the log
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	for _, path := range []string{s.options.Path, real + "-wal", s.options.Path + ".lock"} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("database: %w", err)
		}
		s.files = append(s.files, openFile{path, info})
	}
	return nil
}

// inPlace is asked before every commit. A file that was deleted can be written
// to for as long as it is open, and then is gone, with all that was acknowledged;
// and whoever makes one of its name can start a second server beside this one.
func (s *Store) inPlace() error {
	for _, f := range s.files {
		info, err := os.Stat(f.path)
		if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(info, f.info) {
			return fmt.Errorf("database: %s: %w", f.path, errMoved)
		}
	}
	return nil
}
