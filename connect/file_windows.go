package connect

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"

	"github.com/grantkeeper/grantkeeper/fault"
)

// private refuses what is no plain file. Whose it is, the folder's list of access says:
// the one of a person's settings is theirs alone.
func private(file string) error {
	at, err := os.Lstat(file)
	if err != nil {
		return err
	}
	if !at.Mode().IsRegular() {
		return fault.CannotOpen("name another file: --store FILE", "%s is not a plain file", file)
	}
	return nil
}

// lockFile locks a file unless another program has.
func lockFile(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
