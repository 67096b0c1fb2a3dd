package operator

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

// newRecord is a call of a client without titles of items: those are not the operators' to
// read (decision V72).
func newRecord(r activity.Record) activity.RecordLine { return activity.Viewer{}.Line(r) }

// ActivityPage is a page of records, with what is counted and from when to when records
// may be missing.
type ActivityPage struct {
	listPage[activity.RecordLine]
	Tallies  []activity.TallyLine `json:"tallies"`  // of the first page alone
	Gaps     []activity.GapLine   `json:"gaps"`     // of the first page alone
	Complete int64                `json:"complete"` // what was answered before, Unix seconds, is here or lies in a gap; 0: nothing is recorded now
}

// activity answers GET /v1/approvals/{id}/activity.
func (s *Server) activity(c Call) (any, error) {
	p, err := s.Activity(c)
	return p, err
}

// Activity lists what the client of the approval in the path did, as the query asks.
func (s *Server) Activity(c Call) (p ActivityPage, err error) {
	f, of, row, err := s.activityFilter(c)
	if err != nil {
		return p, err
	}
	of.After, of.Limit = f.After, f.Limit
	rows, next, err := s.Store.Activity(c.Context(), of)
	if err != nil {
		return p, f.CursorError(err)
	}
	p = ActivityPage{listPage: newListPage(rows, next, newRecord), Tallies: []activity.TallyLine{}, Gaps: []activity.GapLine{}}
	if f.After != "" {
		return p, nil
	}
	tallies, err := s.Store.ActivityTallies(c.Context(), row.ID, of.Since, of.Until)
	if err != nil {
		return p, err
	}
	for _, t := range tallies {
		p.Tallies = append(p.Tallies, t.Line())
	}
	kept, err := s.Store.ActivityGaps(c.Context(), row.CreatedAt, endedAt(row), of.Since)
	if err != nil {
		return p, err
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
	if of.Since, of.Until, err = f.span(s.Store.Now()); err != nil {
		return f, of, row, err
	}
	row, err = s.Store.Approval(c.Context(), id)
	return f, of, row, err
}

// exportedBy says whose approval a line of an export is of.
type exportedBy struct {
	Approval     string `json:"approval"`
	Client       string `json:"client"`
	Person       string `json:"person"`
	Organization string `json:"organization"`
}

type exportedRecord struct {
	exportedBy
	activity.RecordLine
}

type exportedTally struct {
	exportedBy
	activity.TallyLine
}

// exportEnd is the closing line of an export: how many lines there are before it.
type exportEnd struct {
	Approvals int `json:"approvals"` // with anything to tell
	Records   int `json:"records"`
	Counts    int `json:"counts"`
	Gaps      int `json:"gaps"`
}

// exportActivity answers GET /v1/activity/export, line by line. What fails once a line was
// sent breaks the answer off: it has no closing line then.
func (s *Server) exportActivity(w http.ResponseWriter, r *http.Request) {
	c, out := s.NewCall(w, r), &begun{ResponseWriter: w}
	err := s.writeActivity(c, json.NewEncoder(out))
	switch {
	case err == nil:
	case out.is:
		s.Log.WarnContext(c.Context(), "the export of activity broke off", "request_id", c.Reference, "err", err)
		panic(http.ErrAbortHandler)
	default:
		s.refuse(w, c, err)
	}
}

// writeActivity writes what the clients of the approvals did that the query names, the
// newest approval first, and of each the oldest first.
func (s *Server) writeActivity(c Call, to *json.Encoder) error {
	f, err := c.Filter("client", "person", "organization", "approval", "since", "until")
	if err != nil {
		return err
	}
	of, err := s.approvalFilter(c, f)
	if err != nil {
		return err
	}
	var span store.ActivityFilter
	if span.Since, span.Until, err = f.span(s.Store.Now()); err != nil {
		return err
	}
	kept, err := s.Store.ActivityGaps(c.Context(), span.Since, span.Until, span.Since)
	if err != nil {
		return err
	}
	var end exportEnd
	if one := f.Get("approval"); one != "" {
		id, err := approval.ParseID(one)
		if err != nil {
			return NotFound("approval")
		}
		row, err := s.Store.Approval(c.Context(), id)
		if errors.Is(err, store.ErrNotFound) {
			return NotFound("approval")
		} else if err != nil {
			return err
		}
		if err := s.writeActivityOf(c, row, span, to, &end); err != nil {
			return err
		}
	} else {
		for of.After, of.Limit = "", MaxItems; ; {
			rows, next, err := s.Store.Approvals(c.Context(), of)
			if err != nil {
				return err
			}
			for _, row := range rows {
				if err := s.writeActivityOf(c, row, span, to, &end); err != nil {
					return err
				}
			}
			if of.After = next; next == "" {
				break
			}
		}
	}
	for _, g := range kept.Gaps {
		end.Gaps++
		if err := to.Encode(g.Line()); err != nil {
			return err
		}
	}
	return to.Encode(end)
}

// writeActivityOf writes what was done with one approval.
func (s *Server) writeActivityOf(c Call, row store.ApprovalRow, of store.ActivityFilter, to *json.Encoder, end *exportEnd) error {
	of.Approval, of.OldestFirst = row.ID, true
	by, before := exportedBy{row.ID.String(), row.Client, row.Person, row.Organization}, *end
	err := s.Store.EachActivity(c.Context(), of, func(r activity.Record) error {
		end.Records++
		return to.Encode(exportedRecord{by, newRecord(r)})
	})
	if err != nil {
		return err
	}
	tallies, err := s.Store.ActivityTallies(c.Context(), row.ID, of.Since, of.Until)
	if err != nil {
		return err
	}
	for _, t := range tallies {
		end.Counts++
		if err := to.Encode(exportedTally{by, t.Line()}); err != nil {
			return err
		}
	}
	if end.Records+end.Counts > before.Records+before.Counts {
		end.Approvals++
	}
	return nil
}
