//go:build unix

package connect

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/grantkeeper/grantkeeper/fault"
)

// private refuses a file that is not this person's alone.
func private(file string) error {
	at, err := os.Lstat(file)
	if err != nil {
		return err
	}
	of, known := at.Sys().(*syscall.Stat_t)
	switch {
	case !at.Mode().IsRegular():
		return fault.CannotOpen("name another file: --store FILE", "%s is not a plain file", file)
	case known && int(of.Uid) != os.Getuid():
		return fault.CannotOpen("name another file: --store FILE", "%s belongs to another user", file)
	case at.Mode().Perm()&0o077 != 0:
		return fault.CannotOpen("others may have its access: run grantkeeper connect URL --sign-out, then delete it", "%s can be read by other users", file)
	}
	return nil
}

// lockFile locks a file unless another program has.
func lockFile(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
