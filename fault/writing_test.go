package fault

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// What could not be written for want of room is not mended by another user.
func TestMendWriting(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC:  "make room there, or choose another place",
		syscall.EDQUOT:  "make room there, or choose another place",
		syscall.EROFS:   "choose a place that is not read-only",
		fs.ErrNotExist:  "make the folder, or choose another place",
		syscall.EACCES:  "choose a place that this user may write in",
		fs.ErrInvalid:   "choose a place that this user may write in",
		syscall.ENOTDIR: "choose a place that this user may write in",
	} {
		if got := MendWriting(&os.PathError{Op: "write", Path: "x", Err: err}); got != want {
			t.Errorf("%v: %s", err, got)
		}
	}
}
