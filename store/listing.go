package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
)

// fewRows is how many rows are rather fetched by ID than looked for in order.
const fewRows = 2000

// Approvals lists approvals, newest first, and gives the cursor of the next
// page or "".
func (s *Store) Approvals(ctx context.Context, f ApprovalFilter) ([]ApprovalRow, string, error) {
	limit := pageSize(f.Limit)
	if _, _, err := readCursor(f.After); f.After != "" && err != nil {
		return nil, "", err
	}
	if f.UnusedSince > 0 {
		f.State = "live"
	}
	var out []ApprovalRow
	for after := f.After; ; {
		rows, err := s.approvalPage(ctx, f, after, limit)
		if err != nil {
			return nil, "", err
		}
		for i, a := range rows {
			if i == limit {
				break
			}
			if f.State == "" || a.StateName() == f.State {
				out = append(out, a)
			}
			if len(out) == limit && (i+1 < len(rows)) {
				return out, cursor(a.CreatedAt, a.ID.String()), nil
			}
		}
		if len(rows) <= limit {
			return out, "", nil
		}
		last := rows[limit-1]
		after = cursor(last.CreatedAt, last.ID.String())
	}
}

// approvalPage gives up to limit+1 rows, and perhaps some that the state of
// the filter does not match: what a row says may have been overtaken.
func (s *Store) approvalPage(ctx context.Context, f ApprovalFilter, after string, limit int) ([]ApprovalRow, error) {
	switch {
	case f.UnusedSince > 0 && s.shared == nil:
		if ids := s.inMemory(f, fewRows, func(h *hot) bool {
			return h.phase == approval.Live && int64(atomic.LoadUint32(&h.used)) <= f.UnusedSince
		}); len(ids) <= fewRows {
			rows, err := s.approvalsByID(ctx, ids, after)
			rows = slices.DeleteFunc(rows, func(r ApprovalRow) bool { return max(r.CreatedAt, r.LastUsed) > f.UnusedSince })
			return rows[:min(len(rows), limit+1)], err
		}
	case f.State == "ended":
		return s.endedPage(ctx, f, after, limit)
	}
	return s.approvalsInOrder(ctx, f, after, limit)
}

// endedPage gives those whose rows say that they have ended, and those that
// have without a row saying so yet.
func (s *Store) endedPage(ctx context.Context, f ApprovalFilter, after string, limit int) ([]ApprovalRow, error) {
	ids, err := s.unsaid(ctx, f)
	if err != nil {
		return nil, err
	}
	unsaid, err := s.approvalsByID(ctx, ids, after)
	if err != nil {
		return nil, err
	}
	if s.shared != nil { // there the filter was not asked yet
		unsaid = slices.DeleteFunc(unsaid, func(r ApprovalRow) bool { return !r.matches(f) })
	}
	said, err := s.approvalsInOrder(ctx, f, after, limit)
	if err != nil {
		return nil, err
	}
	all := append(said, unsaid...)
	slices.SortFunc(all, newestFirst)
	all = slices.CompactFunc(all, func(a, b ApprovalRow) bool { return a.ID == b.ID })
	return all[:min(len(all), limit+1)], nil
}

// unsaid lists the approvals that have ended without a row saying so.
func (s *Store) unsaid(ctx context.Context, f ApprovalFilter) ([]approval.ID, error) {
	now := s.Now().Add(-approval.CodeLifetime)
	if s.shared != nil {
		ids, _, err := s.shared.dueAt(ctx, now)
		return ids, err
	}
	return s.inMemory(f, math.MaxInt, func(h *hot) bool {
		if h.phase == approval.Live {
			if at, ends := s.unusedAt(h.lastUse()); ends && !s.Now().Before(at) {
				return true
			}
		}
		return approval.Standing(h.epochs()) != h.standing() || h.phase == approval.CodeIssued && int64(h.issuedAt) <= now.Unix()
	}), nil
}

func (r ApprovalRow) matches(f ApprovalFilter) bool {
	return (f.Client == "" || f.Client == r.Client) && (f.Person == "" || f.Person == r.Person) &&
		(f.Organization == "" || f.Organization == r.Organization) && (f.Grant == "" || f.Grant == r.Grant.Kind)
}

func newestFirst(a, b ApprovalRow) int {
	return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), bytes.Compare(b.ID[:], a.ID[:]))
}

// inMemory lists the approvals in memory that match the filter's client,
// person, organization and grant set. It stops where there are more than most.
func (s *Store) inMemory(f ApprovalFilter, most int, is func(*hot) bool) []approval.ID {
	var out []approval.ID
	for chunk := 0; ; chunk++ {
		s.memory.mu.RLock()
		t := &s.memory.approvals
		if chunk >= len(t.chunks) || len(out) > most {
			s.memory.mu.RUnlock()
			return out
		}
		for i := range t.chunks[chunk] {
			h := &t.chunks[chunk][i]
			if h.phase != 0 && is(h) && h.matches(f) {
				out = append(out, t.ids[chunk][i])
			}
		}
		s.memory.mu.RUnlock()
	}
}

func (h *hot) matches(f ApprovalFilter) bool {
	return (f.Client == "" || f.Client == h.client.id) && (f.Person == "" || f.Person == h.member.person.ID) &&
		(f.Organization == "" || f.Organization == h.member.org.ID) && (f.Grant == "" || f.Grant == grantset.Kinds[h.kind])
}

// approvalsByID gives the rows that are there, newest first, from a cursor on.
func (s *Store) approvalsByID(ctx context.Context, ids []approval.ID, after string) ([]ApprovalRow, error) {
	var out []ApprovalRow
	for batch := range slices.Chunk(ids, sweepBatch) {
		q := query{text: approvalRows}
		if err := q.after(after); err != nil {
			return nil, err
		}
		values := make([]any, len(batch))
		for i := range batch {
			values[i] = batch[i][:]
		}
		q.in("a.id", values)
		rows, err := s.approvalRows(ctx, q.page("a.created_at DESC, a.id DESC", len(batch)), q.args...)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	slices.SortFunc(out, newestFirst)
	return out, nil
}

// approvalsInOrder lets an index find the rows.
func (s *Store) approvalsInOrder(ctx context.Context, f ApprovalFilter, after string, limit int) ([]ApprovalRow, error) {
	q := query{text: approvalRows}
	q.equal("a.client", f.Client)
	q.equal("a.person", f.Person)
	q.equal("a.organization", f.Organization)
	q.equal("a.grant_kind", string(f.Grant))
	switch f.State {
	case "ended":
		q.conditions = append(q.conditions, "a.ended_at > 0")
	case "live":
		q.conditions = append(q.conditions, "a.ended_at = 0")
	case "code_issued": // after these the page that it came from cannot be answered any more
		q.conditions = append(q.conditions, "a.ended_at = 0")
		q.where("a.created_at > ", s.Now().Add(-pageLife-approval.CodeLifetime-time.Minute).Unix())
	}
	if f.UnusedSince > 0 {
		q.where("a.created_at <= ", f.UnusedSince)
		q.where("COALESCE(u.used_at, 0) <= ", f.UnusedSince)
	}
	if err := q.after(after); err != nil {
		return nil, err
	}
	return s.approvalRows(ctx, q.page("a.created_at DESC, a.id DESC", limit), q.args...)
}

// after begins behind a cursor.
func (q *query) after(cursor string) error {
	if cursor == "" {
		return nil
	}
	at, id, err := readCursor(cursor)
	if err != nil {
		return err
	}
	q.args = append(q.args, at, id)
	q.conditions = append(q.conditions, fmt.Sprintf("(a.created_at, a.id) < ($%d, $%d)", len(q.args)-1, len(q.args)))
	return nil
}
