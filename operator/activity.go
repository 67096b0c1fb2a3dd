package operator

import (
	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

// A recordObject is one call of a client. Titles of items are not the operators' to read
// (decision V72).
type recordObject struct {
	ID       string `json:"id"`
	At       int64  `json:"at"`      // Unix seconds
	Way      string `json:"way"`     // api, mcp or gateway
	Outcome  string `json:"outcome"` // done, failed, refused, unanswered or allowed
	Status   int    `json:"status"`  // of the service's answer; 0 is none
	Method   string `json:"method"`
	Path     string `json:"path"` // without the query; … where it may name what is not told
	Tool     string `json:"tool"`
	Reason   string `json:"reason"`
	Kind     string `json:"kind"` // of the item, as the service says
	Did      string `json:"did"`
	Role     string `json:"role"` // ID
	Private  bool   `json:"private"`
	Personal bool   `json:"personal"`
}

func newRecord(r activity.Record) recordObject {
	r, _ = activity.Viewer{}.Tell(r)
	i := r.Item
	return recordObject{r.ID, r.At, string(r.Way), string(r.Outcome), r.Status, r.Method, r.Path, r.Tool, r.Reason, i.Kind, string(i.Did), i.Role, i.Private, i.Personal}
}

type tallyObject struct {
	Hour     int64  `json:"hour"` // Unix seconds at which it begins
	What     string `json:"what"` // reads, changes, refused or unseen
	Kind     string `json:"kind"`
	Calls    int64  `json:"calls"`
	Items    int64  `json:"items"`
	Private  int64  `json:"private"`
	Personal int64  `json:"personal"`
}

type gapObject struct {
	From int64  `json:"from"` // Unix seconds
	To   int64  `json:"to"`   // Unix seconds; 0: it goes on
	Why  string `json:"why"`  // stopped, full, off, set_back or before
}

// activityPage is a page of records, with what is counted and from when to when records
// may be missing.
type activityPage struct {
	listPage[recordObject]
	Tallies  []tallyObject `json:"tallies"`  // of the first page alone
	Gaps     []gapObject   `json:"gaps"`     // of the first page alone
	Complete int64         `json:"complete"` // what was answered before, Unix seconds, is here or lies in a gap; 0: nothing is recorded now
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
	p := activityPage{listPage: newListPage(rows, next, newRecord), Tallies: []tallyObject{}, Gaps: []gapObject{}}
	if f.After != "" {
		return p, nil
	}
	tallies, err := s.Store.ActivityTallies(c.Context(), row.ID, of.Since, of.Until)
	if err != nil {
		return nil, err
	}
	for _, t := range tallies {
		p.Tallies = append(p.Tallies, tallyObject{t.Hour, string(t.What), t.Kind, t.Calls, t.Items, t.Private, t.Personal})
	}
	kept, err := s.Store.ActivityGaps(c.Context(), row.CreatedAt, endedAt(row), of.Since)
	if err != nil {
		return nil, err
	}
	for _, g := range kept.Gaps {
		p.Gaps = append(p.Gaps, gapObject{g.From, g.To, string(g.Why)})
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
