package approvals

import (
	"context"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// CheckNow is Check that answers from nothing that is remembered: a token may be
// younger than that. What has rows that can be read by then is in the answer, so
// that a Check before a read and a CheckNow after it, with one Stamp, have seen the
// facts that belong to what was read.
func (s *ApprovalStore) CheckNow(ctx context.Context, id approval.ID) (engine.Access, error) {
	return s.db.Engine.CheckNow(ctx, id)
}

// CheckAllNow answers many as CheckNow and CheckAPIKeyNow do. On PostgreSQL the
// questions go to the database together, up to 512 in one statement; the embedded
// engine has the answers in memory.
func (s *ApprovalStore) CheckAllNow(ctx context.Context, all []engine.Asked) {
	s.db.Engine.CheckAllNow(ctx, all)
}

// Check gives an approval that has not ended, exactly as it stands.
// ErrNotFound means that there is none.
func (s *ApprovalStore) Check(ctx context.Context, id approval.ID) (engine.Access, error) {
	return s.db.Engine.Check(ctx, id)
}

// Under gives what Check would find under an approval, whatever has become of
// it: for those who ask why it is refused.
func (s *ApprovalStore) Under(row ApprovalRow) engine.Access {
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	return s.db.Memory.Under(&row.Approval).Access(row.Approval, 0)
}

// Used notes a call, unless there was a use within the hour. It never waits; what
// finds the queue full is noted at a later call.
func (s *ApprovalStore) Used(id approval.ID) { s.db.Engine.Used(id) }

// Checked gives a context for what a request reads of facts alone after its
// credential was checked: they are no older than the check, which began after
// the request had arrived, so they are not asked for again. Who reads rows as
// well compares stamps by CheckNow afterwards: facts may be older than the rows.
func (s *ApprovalStore) Checked(ctx context.Context) context.Context { return s.db.Engine.Checked(ctx) }
