package store

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
)

// An error of the file says what is the matter with its disk, and the log what to
// do: a folder with room has another fault than a full one.
func TestCauseOfFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "grantkeeper.db")
	if free, err := Room(dir); err != nil || free < sqlite.NoRoom {
		t.Fatalf("%d bytes free, %v: the test needs a disk with room", free, err)
	}
	defer func(was int64) { sqlite.NoRoom = was }(sqlite.NoRoom)
	for _, tt := range []struct {
		err               error
		path, cause, says string
		full              bool // the disk
	}{
		{sqlite3.FULL, path, FullDisk, "make room in " + dir + ": ", false},
		{sqlite3.IOERR_WRITE, path, FullDisk, "make room in " + dir + ": ", true},
		{sqlite3.IOERR_WRITE, path, BadDisk, "ulimit -f", false},
		{sqlite3.IOERR_FSYNC, filepath.Join(dir, "gone", "x.db"), BadDisk, "disk of " + filepath.Join(dir, "gone"), true},
		{sqlite3.IOERR_WRITE, "", "", "", true},
		{sqlite3.BUSY, path, "", "", true},
		{errors.New("another"), path, "", "", true},
	} {
		if sqlite.NoRoom = 16 << 20; tt.full {
			sqlite.NoRoom = 1 << 62
		}
		e := engine.NewEnv(Options{Path: tt.path})
		s := &sqlite.Engine{Env: e, Writer: sqlite.NewWriter(e, &sqlite.Files{}, nil, nil)}
		err := fmt.Errorf("%w: %w", ErrUnavailable, tt.err)
		if got, told := sqlite.CauseOfFile(err, tt.path), s.WhyNot(err); got != tt.cause || told != "" {
			t.Errorf("%v: %q, want %q; doors tell %q", tt.err, got, tt.cause, told)
		}
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Error("x", s.Writer.Mend("err", err)...)
		if !strings.Contains(log.String(), tt.says) || strings.Contains(log.String(), "fix=") != (tt.says != "") {
			t.Errorf("%v: %s", tt.err, log.String())
		}
	}
}
