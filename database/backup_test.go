package database

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store"
)

// Where there is no room, the folder is named that wants it: nothing is the
// matter with the backup.
func TestNoRoomToUnpack(t *testing.T) {
	t.Setenv("TMPDIR", "/scratch")
	full := fmt.Errorf("backup: x.gz: %w", &fs.PathError{Op: "write", Path: "/scratch/1/backup.db", Err: syscall.ENOSPC})
	_, missing := Verify(t.Context(), "x.gz")
	for err, want := range map[error][2]string{
		temporaryError("x.gz", full):        {"x.gz cannot be unpacked: there is no room in the folder for temporary files, /scratch", "make room there, or set TMPDIR"},
		missing:                             {"x.gz cannot be unpacked: stat /scratch: no such file or directory", "set TMPDIR"},
		restoreError(full.Error(), full):    {"backup: x.gz: write /scratch/1/backup.db: no space left on device", "make room there"},
		temporaryError("x", syscall.EDQUOT): {"x cannot be unpacked: there is no room in the folder for temporary files, /scratch", "make room there"},
	} {
		var e *fault.Error
		if !errors.As(err, &e) || e.Code != 4 || e.What != want[0] || !strings.HasPrefix(e.Hint, want[1]) {
			t.Errorf("%+v, want %q", err, want)
		}
	}
}

// What can be read and is no good backup ends with 1, as the help of backup verify has it: 4 is
// for what cannot be read.
func TestNoGoodBackup(t *testing.T) {
	for err, code := range map[error]int{
		store.ErrForeign: 1, store.ErrEmpty: 1, store.ErrDamaged: 1, store.ErrUnfinished: 1,
		store.ErrLogBeside: 6, store.ErrSchema: 6, fs.ErrNotExist: 4,
	} {
		wrapped := fmt.Errorf("database: x.db: %w", err)
		if got := fault.CodeOf(restoreError(wrapped.Error(), wrapped)); got != code {
			t.Errorf("%v: exit code %d, want %d", err, got, code)
		}
	}
}
