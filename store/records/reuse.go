package records

import (
	"context"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Reuse gives what the used refresh token that ended an approval looked like;
// LooksUnknown also where the journal does not know, or any more.
func (s *Records) Reuse(ctx context.Context, id approval.ID) (string, error) {
	row, err := s.approvals.Approval(ctx, id)
	if err != nil {
		return "", err
	}
	events, _, err := s.Events(ctx, EventFilter{
		Kind: journal.RefreshReused, Approval: id.String(), Since: row.EndedAt - 1, Until: row.EndedAt + 2, Limit: 1,
	})
	if err != nil {
		return "", err
	}
	if len(events) == 1 && events[0].Reason != "" {
		return events[0].Reason, nil
	}
	return engine.LooksUnknown, nil
}
