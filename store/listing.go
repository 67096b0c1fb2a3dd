package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Tests have lower ones.
var (
	// walkStep is how many rows are looked at together.
	walkStep = 512
	// maxWalk bounds how many rows a page looks at: a page that has not found
	// enough by then is a short one, and the next goes on where it stopped.
	maxWalk = 6144
	// longWalk is how long a page looks at rows beyond leastWalk: they may lie
	// apart on a disk that has to be read for each.
	longWalk  = 50 * time.Millisecond
	leastWalk = 1024
	// fewRows is how many rows are rather read all than walked in order.
	fewRows = 2000
)

// Approvals lists approvals, newest first, and gives the cursor of the next
// page or "". Where approvals that match are rare among many that nearly do, a
// page can have fewer than its limit, or none, and a next one all the same.
func (s *Store) Approvals(ctx context.Context, f ApprovalFilter) ([]ApprovalRow, string, error) {
	if f.UnusedSince > 0 {
		f.State = "live"
	}
	return s.approvalPage(ctx, f, func(r ApprovalRow) bool {
		return (f.State == "" || r.StateName() == f.State) && !(f.Unended && r.Phase == approval.Ended)
	})
}

// approvalPage is Approvals with another judgement of the rows' states: what
// they say may have been overtaken.
func (s *Store) approvalPage(ctx context.Context, f ApprovalFilter, is func(ApprovalRow) bool) ([]ApprovalRow, string, error) {
	limit := pageSize(f.Limit)
	if _, err := readPlace(f.After); err != nil {
		return nil, "", err
	}
	p := &approvalsPage{Store: s, f: f, is: is, limit: limit}
	// What ends meanwhile goes from here to there, so here is asked first.
	if err := p.addPendingEnds(ctx); err != nil {
		return nil, "", err
	}
	if err := p.walk(ctx); err != nil {
		return nil, "", err
	}
	return p.close()
}

// A place is where an approval stands in lists, newest first; the zero place
// is before all of them.
type place struct {
	at int64 // when it was made, Unix seconds
	id approval.ID
}

func readPlace(cursor string) (place, error) {
	if cursor == "" {
		return place{}, nil
	}
	at, id, err := readCursor(cursor)
	if err != nil {
		return place{}, err
	}
	return place{at, approval.ID(id)}, nil
}

// compare is below 0 where p comes before q.
func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(q.at, p.at), bytes.Compare(q.id[:], p.id[:]))
}

func (r ApprovalRow) place() place { return place{r.CreatedAt, r.ID} }

func (p place) cursor() string { return cursor(p.at, p.id.String()) }

// approvalsPage is a page as it is put together.
type approvalsPage struct {
	*Store
	f     ApprovalFilter
	is    func(ApprovalRow) bool
	limit int

	rows  []ApprovalRow // found on the way
	aside []ApprovalRow // found beside it, wherever they stand
	most  place         // as far as was looked beside it; the zero place is to the end
	to    place         // every one that matches and does not come behind it was found
	whole bool          // the list ends within the page
}

// close cuts the page where it is full, or where it was found to.
func (p *approvalsPage) close() ([]ApprovalRow, string, error) {
	if p.most != (place{}) && (p.whole || p.to.compare(p.most) > 0) {
		p.whole, p.to = false, p.most
	}
	p.rows = append(p.rows, p.aside...)
	slices.SortFunc(p.rows, func(a, b ApprovalRow) int { return a.place().compare(b.place()) })
	p.rows = slices.CompactFunc(p.rows, func(a, b ApprovalRow) bool { return a.ID == b.ID })
	if !p.whole {
		p.rows = slices.DeleteFunc(p.rows, func(r ApprovalRow) bool { return r.place().compare(p.to) > 0 })
	}
	if len(p.rows) > p.limit {
		p.rows = p.rows[:p.limit]
		return p.rows, p.rows[p.limit-1].place().cursor(), nil
	}
	if p.whole {
		return p.rows, "", nil
	}
	return p.rows, p.to.cursor(), nil
}

// full reports whether there are enough for the page, and one more.
func (p *approvalsPage) full() bool { return len(p.rows) > p.limit }

// walk finds rows by that index which leads furthest.
func (p *approvalsPage) walk(ctx context.Context) error {
	from, err := readPlace(p.f.After)
	if err != nil {
		return err
	}
	if few, err := p.pair(ctx, from); few || err != nil {
		return err
	}
	begin := time.Now()
	way, stretch, err := p.bestWay(ctx, from)
	if err != nil {
		return err
	}
	inMemory := p.db.Memory.HasApprovals() && (p.f.State == "live" || p.f.State == "code_issued")
	for walked := 0; ; {
		if err := p.take(ctx, stretch); err != nil || p.full() {
			return err
		}
		if p.whole = stretch.ends; p.whole {
			return nil
		}
		if inMemory {
			return p.walkMemory(ctx)
		}
		took, step := time.Since(begin), 4*walkStep
		if walked += len(stretch.rows); walked >= maxWalk || walked >= leastWalk && took > longWalk {
			return nil
		}
		if took > longWalk/4 {
			step = walkStep
		}
		if stretch, err = p.stretch(ctx, way, p.to, step); err != nil {
			return err
		}
	}
}

// take adds the rows of a stretch that match, until the page is full.
func (p *approvalsPage) take(ctx context.Context, s stretch) error {
	var ids []approval.ID
	for _, w := range s.rows {
		if w.matches(p.f) {
			ids = append(ids, w.id)
		}
	}
	for batch := range slices.Chunk(ids, max(p.limit+1, 64)) {
		rows, err := p.byID(ctx, batch)
		if err != nil {
			return err
		}
		for _, r := range rows { // newest first
			if p.is(r) {
				p.rows = append(p.rows, r)
			}
			if p.to = r.place(); p.full() {
				return nil
			}
		}
	}
	if n := len(s.rows); n > 0 {
		p.to = s.rows[n-1].place
	}
	return nil
}

// byID gives the rows that are there, newest first.
func (s *Store) byID(ctx context.Context, ids []approval.ID) ([]ApprovalRow, error) {
	var out []ApprovalRow
	for batch := range slices.Chunk(ids, sweepBatch) {
		q := query{text: approvalRows}
		q.in("a.id", padded(idsOf(batch, engine.ApprovalKey)))
		rows, err := s.approvalRows(ctx, q.whole(), q.args...)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	slices.SortFunc(out, func(a, b ApprovalRow) int { return a.place().compare(b.place()) })
	return out, nil
}

// cursor names the last row of a page; readCursor takes nothing else.
func cursor(at int64, id string) string { return strconv.FormatInt(at, 10) + "." + id }

func readCursor(s string) (at int64, id []byte, err error) {
	left, right, ok := strings.Cut(s, ".")
	if at, err = strconv.ParseInt(left, 10, 64); !ok || err != nil {
		return 0, nil, errCursor
	}
	parsed, err := approval.ParseID(right)
	if err != nil {
		return 0, nil, errCursor
	}
	return at, parsed[:], nil
}

// Collect gives every row of a list that the store gives page by page.
func Collect[T any](after *string, list func() ([]T, string, error)) (rows []T, err error) {
	for {
		some, next, err := list()
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		if rows, *after = append(rows, some...), next; next == "" {
			return rows, nil
		}
	}
}
