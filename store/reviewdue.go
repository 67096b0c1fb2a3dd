package store

import (
	"context"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"time"
)

// DueForReview counts the connections of an organization that were neither made nor
// reviewed for so many days. The grant sets are all there are: an index is by them.
func (s *Store) DueForReview(ctx context.Context, organization string, days int) (n int, err error) {
	defer s.timed("connections", time.Now())
	now := s.Now()
	err = s.reader.QueryRowContext(ctx, `
		SELECT COUNT(*) FROM approval
		 WHERE organization = $1 AND ended_at = 0 AND (ends_at = 0 OR ends_at > $2) AND created_at <= $3 AND reviewed_at <= $3
		   AND grant_kind IN ('roles', 'everything', 'organization')`,
		organization, now.Unix(), now.Add(-time.Duration(days)*day).Unix()).Scan(&n)
	if err != nil {
		return 0, engine.Unavailable("connections", err)
	}
	return n, nil
}
