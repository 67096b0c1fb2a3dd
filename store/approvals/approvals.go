// Package approvals keeps approvals: how they are checked, moved, listed and counted, and
// how they end, one by one, many at once and by themselves.
package approvals

import (
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// An ApprovalStore is safe for concurrent use.
type ApprovalStore struct {
	db          engine.Handle
	unusedSwept atomic.Int64 // Unix seconds
}

// On gives those of an open database.
func On(db engine.Handle) *ApprovalStore { return &ApprovalStore{db: db} }
