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
		fs.ErrInvalid:   "choose another place",
		syscall.ENOTDIR: "choose another place",
		syscall.EFBIG:   "choose another place", // of 4 GiB and more on FAT
		syscall.EIO:     "choose another place",
	} {
		if got := MendWriting(&os.PathError{Op: "write", Path: "x", Err: err}); got != want {
			t.Errorf("%v: %s", err, got)
		}
	}
}
