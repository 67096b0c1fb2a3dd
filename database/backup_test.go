package database

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
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
