package sqlite

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// An error of the file says what is the matter with its disk, and the log what to
// do: a folder with room has another fault than a full one.
func TestCauseOfFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "grantkeeper.db")
	if free, err := Room(dir); err != nil || free < noRoom {
		t.Fatalf("%d bytes free, %v: the test needs a disk with room", free, err)
	}
	defer func(was int64) { noRoom = was }(noRoom)
	for _, tt := range []struct {
		err               error
		path, cause, says string
		full              bool // the disk
	}{
		{sqlite3.FULL, path, engine.FullDisk, "make room in " + dir + ": ", false},
		{sqlite3.IOERR_WRITE, path, engine.FullDisk, "make room in " + dir + ": ", true},
		{sqlite3.IOERR_WRITE, path, engine.BadDisk, "ulimit -f", false},
		{sqlite3.IOERR_FSYNC, filepath.Join(dir, "gone", "x.db"), engine.BadDisk, "disk of " + filepath.Join(dir, "gone"), true},
		{sqlite3.IOERR_WRITE, "", "", "", true},
		{sqlite3.BUSY, path, "", "", true},
		{errors.New("another"), path, "", "", true},
	} {
		if noRoom = 16 << 20; tt.full {
			noRoom = 1 << 62
		}
		e := engine.NewEnv(engine.Options{Path: tt.path})
		s := &Engine{Env: e, Writer: newWriter(e, &files{}, nil, nil)}
		err := fmt.Errorf("%w: %w", engine.ErrUnavailable, tt.err)
		if got, told := causeOfFile(err, tt.path), s.WhyNot(err); got != tt.cause || told != "" {
			t.Errorf("%v: %q, want %q; doors tell %q", tt.err, got, tt.cause, told)
		}
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Error("x", s.Writer.mend("err", err)...)
		if !strings.Contains(log.String(), tt.says) || strings.Contains(log.String(), "fix=") != (tt.says != "") {
			t.Errorf("%v: %s", tt.err, log.String())
		}
	}
}
