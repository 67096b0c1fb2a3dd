//go:build amd64 || arm64

package sqlite

import "syscall"

// Advice of posix_fadvise(2).
const (
	willNeed = 3
	dontNeed = 4
)

// forget drops what the system has in memory of a file that was synced, so that the next
// read asks the disk.
func forget(fd uintptr, off, n int64) { advise(fd, off, n, dontNeed) }

// readAhead has the system begin to read, and waits for nothing.
func readAhead(fd uintptr, off, n int64) { advise(fd, off, n, willNeed) }

func advise(fd uintptr, off, n int64, advice uintptr) {
	_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, fd, uintptr(off), uintptr(n), advice, 0, 0)
}
