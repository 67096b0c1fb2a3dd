//go:build amd64 || arm64

package sqlite

import "syscall"

// forget drops what the system has in memory of a file that was synced, so that the next
// read asks the disk.
func forget(fd uintptr, off, n int64) {
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, fd, uintptr(off), uintptr(n), dontNeed, 0, 0)
}
