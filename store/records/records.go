// Package records keeps what somebody asks about later: the journal with its blocks and its
// proof, what clients did (package activity), and how they tried to connect (package attempt).
package records

import (
	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Records are safe for concurrent use.
type Records struct {
	db        engine.Handle
	approvals *approvals.ApprovalStore

	recorded recorded
	sealer   sealer
}

// On gives those of an open database.
func On(db engine.Handle, approved *approvals.ApprovalStore) *Records {
	return &Records{db: db, approvals: approved}
}
