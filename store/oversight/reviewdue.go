package oversight

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// ReviewEvery is how often it is asked whether reviews are due.
const ReviewEvery = time.Hour

// toldName is what meta calls when an organization was last told that a review is due.
func toldName(organization string) string { return "review.told." + organization }

// TellReviews writes into the journal where connections are due for review, once in each
// of an organization's periods, so that its admins can be told.
func (s *OversightStore) TellReviews(ctx context.Context) error {
	now := s.db.Now()
	if last := s.reviewsAsked.Load(); now.Unix()-last < int64(ReviewEvery/time.Second) {
		return nil
	}
	due, err := s.reviewing(ctx)
	if err != nil {
		return err
	}
	for _, one := range due {
		n, err := s.DueForReview(ctx, one.organization, one.days)
		if err == nil && n > 0 {
			err = s.db.ChangeFacts(func(tx *engine.Tx) error { return TellReview(tx, one.organization, one.days, n) })
		}
		if err != nil {
			return err
		}
	}
	s.reviewsAsked.Store(now.Unix())
	return nil
}

// reviewed is an organization whose rules have connections reviewed every so many days.
type reviewed struct {
	organization string
	days         int
}

func (s *OversightStore) reviewing(ctx context.Context) (all []reviewed, err error) {
	if err := s.db.Fresh(ctx); err != nil {
		return nil, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	for _, at := range facts.InOrder(s.db.Memory.Orgs) {
		if p := at.Policy; p != nil && p.ReviewDays > 0 && at.AIIntegration {
			all = append(all, reviewed{at.ID, p.ReviewDays})
		}
	}
	return all, nil
}

// TellReview is tellReviews of one organization, unless it was told in this period.
func TellReview(tx *engine.Tx, organization string, days, connections int) error {
	now := tx.Env.Now()
	text, err := tx.Meta(toldName(organization))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if last, err := strconv.ParseInt(text, 10, 64); err == nil && now.Before(time.Unix(last, 0).Add(time.Duration(days)*day)) {
		return nil
	}
	if err := tx.PutMeta(toldName(organization), strconv.FormatInt(now.Unix(), 10)); err != nil {
		return err
	}
	return tx.Journal(engine.Event{Kind: journal.ReviewDue, Organization: organization, Actor: "system", Detail: fmt.Sprintf("%d connections", connections)})
}

// DueForReview counts the connections of an organization that were neither made nor
// reviewed for so many days. The grant sets are all there are: an index is by them.
func (s *OversightStore) DueForReview(ctx context.Context, organization string, days int) (n int, err error) {
	defer s.db.Timed("connections", time.Now())
	now := s.db.Now()
	err = s.db.Reader.QueryRowContext(ctx, `
		SELECT COUNT(*) FROM approval
		 WHERE organization = $1 AND ended_at = 0 AND (ends_at = 0 OR ends_at > $2) AND created_at <= $3 AND reviewed_at <= $3
		   AND grant_kind IN ('roles', 'everything', 'organization')`,
		organization, now.Unix(), now.Add(-time.Duration(days)*day).Unix()).Scan(&n)
	if err != nil {
		return 0, engine.Unavailable("connections", err)
	}
	return n, nil
}
