package server

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ForgetStart lets go of the pages of the program itself that were needed to
// start and seldom are again: half of what a server with few approvals holds.
// Those that are needed come back from the system's cache of the file. Only what
// cannot be written to is let go: it is the same in the file.
func ForgetStart() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uintptr
		var mode string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %4s", &from, &to, &mode); n != 3 {
			continue
		}
		if mode[1] == '-' && mode[3] == 'p' && strings.HasSuffix(lines.Text(), " "+self) {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
		}
	}
}
