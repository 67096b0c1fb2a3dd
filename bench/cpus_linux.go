package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitCPUs confines this process, and all that it starts, to the first n of
// the processors that it may use; 0 leaves it as it is. The program begins
// again for that, because the runtime counts processors once.
func limitCPUs(n int) error {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return fmt.Errorf("processors: %w", err)
	}
	switch {
	case n == 0 || may.Count() == n:
		return nil
	case n < 0 || may.Count() < n:
		return fmt.Errorf("%d processors are wanted, and there are %d", n, may.Count())
	}
	var first unix.CPUSet
	for cpu := 0; first.Count() < n; cpu++ {
		if may.IsSet(cpu) {
			first.Set(cpu)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // what this thread may use is what the new image may
	if err := unix.SchedSetaffinity(0, &first); err != nil {
		return fmt.Errorf("processors: %w", err)
	}
	return syscall.Exec(self, os.Args, os.Environ())
}
