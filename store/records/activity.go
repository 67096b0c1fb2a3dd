package records

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// ActivityFilter narrows the records of one approval. Since and Until are Unix seconds,
// Until not included, and 0 for no bound; Limit is at most 1000, 0 is 50.
type ActivityFilter struct {
	Approval     approval.ID
	Since, Until int64
	Refused      bool // those that were refused alone
	Done         bool // those that were not refused alone
	OldestFirst  bool
	After        string
	Limit        int
}

// Activity lists the records of an approval, newest first unless the filter says otherwise,
// and gives the cursor of the next page or "". What is kept no longer is not in it.
func (s *Records) Activity(ctx context.Context, f ActivityFilter) ([]activity.Record, string, error) {
	defer s.db.Timed("activity", time.Now())
	limit, order := query.PageSize(f.Limit), "id DESC"
	q := query.Builder{Text: `SELECT ` + activityColumns + ` FROM activity`}
	q.Where("approval = ", f.Approval[:])
	q.Where("id >= ", query.IDAt(s.since(f.Since)))
	if f.Until > 0 {
		q.Where("id < ", query.IDAt(f.Until))
	}
	if f.After != "" {
		if id, err := hex.DecodeString(f.After); err != nil || len(id) != engine.EventIDLen || hex.EncodeToString(id) != f.After {
			return nil, "", query.ErrCursor
		}
		if f.OldestFirst {
			q.Where("id > ", f.After)
		} else {
			q.Where("id < ", f.After)
		}
	}
	if f.OldestFirst {
		order = "id"
	}
	switch {
	case f.Refused:
		q.Where("outcome = ", string(activity.Refused))
	case f.Done:
		q.Where("outcome <> ", string(activity.Refused))
	}
	rows, err := s.db.Reader.QueryContext(ctx, q.Page(order, limit), q.Args...)
	out, err := engine.ListOf(rows, err, scanRecord)
	if err != nil {
		return nil, "", engine.Unavailable("activity", err)
	}
	for i := range out {
		out[i].Approval = f.Approval
	}
	if len(out) > limit {
		return out[:limit], out[limit-1].ID, nil
	}
	return out, "", nil
}

// ActivityAt is the time of a cursor that Activity gave, in Unix seconds; 0 of what is none.
func ActivityAt(cursor string) int64 {
	id, err := hex.DecodeString(cursor)
	if err != nil || len(id) != engine.EventIDLen {
		return 0
	}
	return int64(binary.BigEndian.Uint64(id)>>16) / 1000
}

// ActivityLatest gives what was said last of items of an organization, by their IDs,
// whichever client touched them: the record of each, as far as one is kept.
func (s *Records) ActivityLatest(ctx context.Context, organization string, items []string) (out []activity.Record, err error) {
	defer s.db.Timed("activity", time.Now())
	for _, item := range items {
		rows, err := s.db.Reader.QueryContext(ctx, `
			SELECT `+ofActivity+` FROM activity c JOIN approval a ON a.id = c.approval
			 WHERE c.item = $1 AND c.item <> '' AND c.outcome = $2 AND a.organization = $3 ORDER BY c.id DESC LIMIT 1`,
			item, string(activity.Done), organization)
		some, err := engine.ListOf(rows, err, scanRecord)
		if err != nil {
			return nil, engine.Unavailable("activity", err)
		}
		out = append(out, some...)
	}
	return out, nil
}

// since is from when on anything is told that was asked for from a time on.
func (s *Records) since(at int64) int64 {
	return max(at, activity.FirstDay(s.db.Now(), s.db.Options.ActivityKeep)*24*3600)
}

// ActivityTallies gives what is counted of an approval in the hours that begin between two
// times, the latest first: one for each hour, what and kind.
func (s *Records) ActivityTallies(ctx context.Context, id approval.ID, since, until int64) ([]activity.Tally, error) {
	defer s.db.Timed("activity", time.Now())
	if until == 0 {
		until = query.MaxTime
	}
	rows, err := s.db.Reader.QueryContext(ctx, `
		SELECT hour, what, kind, SUM(calls), SUM(items), SUM(private), SUM(personal)
		  FROM activity_tally WHERE approval = $1 AND hour >= $2 AND hour < $3
		 GROUP BY hour, what, kind ORDER BY hour DESC, what, kind`, id[:], s.since(since), until)
	out, err := engine.ListOf(rows, err, func(r engine.Scanner, t *activity.Tally) error {
		t.Approval = id
		return r.Scan(&t.Hour, &t.What, &t.Kind, &t.Calls, &t.Items, &t.Private, &t.Personal)
	})
	return out, engine.Unavailable("activity", err)
}

// ActivityCount counts the records of an approval between two times, Until not included:
// changes, which are those that were done or may have been, and what was refused.
func (s *Records) ActivityCount(ctx context.Context, id approval.ID, since, until int64) (changes, refused int, err error) {
	defer s.db.Timed("activity", time.Now())
	err = s.db.Reader.QueryRowContext(ctx, `
		SELECT COALESCE(SUM(CASE WHEN outcome IN ($1, $2) THEN 0 ELSE 1 END), 0), COALESCE(SUM(CASE WHEN outcome = $1 THEN 1 ELSE 0 END), 0)
		  FROM activity WHERE approval = $3 AND id >= $4 AND id < $5`,
		string(activity.Refused), string(activity.Failed), id[:], query.IDAt(s.since(since)), query.IDAt(until)).Scan(&changes, &refused)
	return changes, refused, engine.Unavailable("activity", err)
}

// A Busy approval is one with how many calls were made by it.
type Busy struct {
	approvals.ApprovalRow
	Calls int
}

// mostBusy bounds among how many of the approvals that were used last the busiest are found.
const mostBusy = 200

// Busiest gives the approvals of an organization by which the most calls were made since a
// time, Unix seconds, among the 200 that were used last: no more than most.
func (s *Records) Busiest(ctx context.Context, organization string, since int64, most int) (out []Busy, err error) {
	used, err := s.approvals.ApprovalRows(ctx, approvals.SelectApprovals+` WHERE a.organization = $1 AND a.used_at >= $2 ORDER BY a.used_at DESC, a.id LIMIT $3`, organization, since-3600, mostBusy) // a use is true to the hour
	if err != nil || len(used) == 0 {
		return nil, err
	}
	defer s.db.Timed("activity", time.Now())
	calls := map[approval.ID]int{}
	tallies, records := query.Builder{Text: `SELECT approval, SUM(calls) FROM activity_tally`, End: ` GROUP BY approval`}, query.Builder{Text: `SELECT approval, COUNT(*) FROM activity`, End: ` GROUP BY approval`}
	tallies.Where("hour >= ", since)
	records.Where("id >= ", query.IDAt(since))
	for _, q := range []*query.Builder{&tallies, &records} {
		q.OneOf("approval", query.Padded(query.IDs(used, func(r approvals.ApprovalRow) any { return r.ID[:] })))
		rows, err := s.db.Reader.QueryContext(ctx, q.Whole(), q.Args...)
		err = engine.EachRow(rows, err, func(r engine.Scanner) error {
			var id []byte
			var n int
			err := r.Scan(&id, &n)
			if err == nil && len(id) == len(approval.ID{}) {
				calls[approval.ID(id)] += n
			}
			return err
		})
		if err != nil {
			return nil, engine.Unavailable("activity", err)
		}
	}
	for _, r := range used {
		if calls[r.ID] > 0 {
			out = append(out, Busy{r, calls[r.ID]})
		}
	}
	slices.SortStableFunc(out, func(a, b Busy) int { return b.Calls - a.Calls })
	return out[:min(most, len(out))], nil
}

// Recording says from when to when records may be missing, and how far they are written.
type Recording struct {
	Gaps     []activity.Gap // the latest first
	Complete int64          // what was answered before is here, or lies in a gap; 0: nobody records
}

// ActivityGaps gives the gaps that concern an approval, ended being 0 while it lives, from
// a time on.
func (s *Records) ActivityGaps(ctx context.Context, created, ended, since int64) (of Recording, err error) {
	defer s.db.Timed("activity", time.Now())
	now := s.db.Now().Unix()
	rows, err := s.db.Reader.QueryContext(ctx, `SELECT id, opened_at, written_to, seen_at FROM activity_session`)
	sessions, err := engine.ListOf(rows, err, scanRecording)
	if err != nil {
		return of, engine.Unavailable("activity", err)
	}
	rows, err = s.db.Reader.QueryContext(ctx, `SELECT id, from_at, to_at, why FROM activity_gap WHERE to_at = 0 OR to_at >= $1`, s.since(since))
	gaps, err := engine.ListOf(rows, err, func(r engine.Scanner, g *activity.Gap) error { return r.Scan(&g.ID, &g.From, &g.To, &g.Why) })
	if err != nil {
		return of, engine.Unavailable("activity", err)
	}
	for _, one := range sessions { // read first: one that ends meanwhile is among the gaps
		if s.db.Options.URL != "" && one.Seen < now-int64(engine.NodeLife/time.Second) { // nobody has found it out yet
			gaps = append(gaps, one.Ended(now))
			continue
		}
		if of.Complete == 0 || one.Written < of.Complete {
			of.Complete = one.Written
		}
	}
	told := map[string]bool{}
	for _, g := range gaps {
		if !told[g.ID] && g.Touches(created, ended) {
			told[g.ID] = true
			of.Gaps = append(of.Gaps, g.Within(created, ended))
		}
	}
	slices.SortFunc(of.Gaps, activity.Gap.Compare)
	return of, nil
}

// KeepsActivity is for how long what calls did is kept; 0 is that it is not.
func (s *Records) KeepsActivity() time.Duration { return s.db.Options.ActivityKeep }

// EachActivity calls each with the records of an approval that a filter leaves, page by
// page, until it gives an error.
func (s *Records) EachActivity(ctx context.Context, f ActivityFilter, each func(activity.Record) error) error {
	f.Limit = cmp.Or(f.Limit, 1000)
	for {
		rows, next, err := s.Activity(ctx, f)
		if err != nil {
			return fmt.Errorf("each: %w", err)
		}
		for _, r := range rows {
			if err := each(r); err != nil {
				return err
			}
		}
		if f.After = next; next == "" {
			return nil
		}
	}
}
