package operator

import (
	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

// newRecord is a call of a client without titles of items: those are not the operators' to
// read (decision V72).
func newRecord(r activity.Record) activity.RecordLine { return activity.Viewer{}.Line(r) }

// activityPage is a page of records, with what is counted and from when to when records
// may be missing.
type activityPage struct {
	listPage[activity.RecordLine]
	Tallies  []activity.TallyLine `json:"tallies"`  // of the first page alone
	Gaps     []activity.GapLine   `json:"gaps"`     // of the first page alone
	Complete int64                `json:"complete"` // what was answered before, Unix seconds, is here or lies in a gap; 0: nothing is recorded now
}

// activity answers GET /v1/approvals/{id}/activity.
func (s *Server) activity(c Call) (any, error) {
	f, of, row, err := s.activityFilter(c)
	if err != nil {
		return nil, err
	}
	of.After, of.Limit = f.After, f.Limit
	rows, next, err := s.Store.Activity(c.Context(), of)
	if err != nil {
		return nil, f.CursorError(err)
	}
	p := activityPage{listPage: newListPage(rows, next, newRecord), Tallies: []activity.TallyLine{}, Gaps: []activity.GapLine{}}
	if f.After != "" {
		return p, nil
	}
	tallies, err := s.Store.ActivityTallies(c.Context(), row.ID, of.Since, of.Until)
	if err != nil {
		return nil, err
	}
	for _, t := range tallies {
		p.Tallies = append(p.Tallies, t.Line())
	}
	kept, err := s.Store.ActivityGaps(c.Context(), row.CreatedAt, endedAt(row), of.Since)
	if err != nil {
		return nil, err
	}
	for _, g := range kept.Gaps {
		p.Gaps = append(p.Gaps, g.Line())
	}
	p.Complete = kept.Complete
	return p, nil
}

func endedAt(r store.ApprovalRow) int64 {
	if r.Phase != approval.Ended {
		return 0
	}
	return r.EndedAt
}

// activityFilter reads which records of which approval are asked for.
func (s *Server) activityFilter(c Call) (f Filter, of store.ActivityFilter, row store.ApprovalRow, err error) {
	id, err := c.ApprovalID()
	if err != nil {
		return f, of, row, err
	}
	if f, err = c.Filter("outcome", "order", "since", "until"); err != nil {
		return f, of, row, err
	}
	outcome, err := f.OneOf("outcome", "refused", "other")
	if err != nil {
		return f, of, row, err
	}
	order, err := f.OneOf("order", "newest", "oldest")
	if err != nil {
		return f, of, row, err
	}
	of = store.ActivityFilter{OldestFirst: order == "oldest", Approval: id, Refused: outcome == "refused", Done: outcome == "other"}
	now := s.Store.Now()
	if of.Since, err = f.time("since", now); err != nil {
		return f, of, row, err
	}
	if of.Until, err = f.time("until", now); err != nil {
		return f, of, row, err
	}
	row, err = s.Store.Approval(c.Context(), id)
	return f, of, row, err
}
