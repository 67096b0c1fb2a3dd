package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// ballast is never touched, so it takes no memory but counts as heap: the
// collector waits until that much more was allocated than it would. With a
// small database it would otherwise run some twenty times a second under load
// and take a sixth of the time that a request takes.
var ballast []byte

// A heap that is large because of its approvals grows to less in exchange,
// before it is collected: gcPercent is below the runtime's 100.
const (
	ballastBytes = 32 << 20
	gcPercent    = 75
)

// tuneMemory sets the collector up for a server, unless whoever starts it has
// said how (GOGC).
func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		ballast = make([]byte, ballastBytes)
		runtime.KeepAlive(ballast)
		debug.SetGCPercent(gcPercent)
	}
}
