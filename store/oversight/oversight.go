// Package oversight keeps what organizations decide about apps: the rules that admins set,
// what these do to approvals, what members ask for, the connections that admins look
// through, and their reviews.
package oversight

import (
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// An OversightStore is safe for concurrent use.
type OversightStore struct {
	db           engine.Handle
	approvals    *approvals.ApprovalStore
	reviewsAsked atomic.Int64 // Unix seconds
}

// On gives that of an open database.
func On(db engine.Handle, approved *approvals.ApprovalStore) *OversightStore {
	return &OversightStore{db: db, approvals: approved}
}
