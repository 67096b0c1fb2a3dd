package engine

import "time"

// NodeLife is how long after its last sign a node counts as alive.
const NodeLife = 35 * time.Second

// Node is one process at work on the database.
type Node struct {
	ID        string
	StartedAt int64 // Unix seconds
	SeenAt    int64 // Unix seconds
	Key       int   // number of the newest key that it has
	Version   int64 // of the facts in its memory
	Self      bool
}

// ClientUse is how much a client is in use.
type ClientUse struct {
	Live     int   // approvals that have not ended and whose code was exchanged
	LastUsed int64 // Unix seconds, true to the hour; 0 is never
}
