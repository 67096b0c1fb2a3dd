//go:build !linux || (!amd64 && !arm64)

package sqlite

// forget is for Linux alone: elsewhere a read may be answered from memory.
func forget(uintptr, int64, int64) {}

func readAhead(uintptr, int64, int64) {}
