package approvals

import (
	"context"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// Tests have lower ones.
var (
	// WalkStep is how many rows are looked at together.
	WalkStep = 512
	// MaxWalk bounds how many rows a page looks at: a page that has not found
	// enough by then is a short one, and the next goes on where it stopped.
	MaxWalk = 6144
	// LongWalk is how long a page looks at rows beyond LeastWalk: they may lie
	// apart on a disk that has to be read for each.
	LongWalk  = 50 * time.Millisecond
	LeastWalk = 1024
	// FewRows is how many rows are rather read all than walked in order.
	FewRows = 2000
)

// Approvals lists approvals, newest first, and gives the cursor of the next
// page or "". Where approvals that match are rare among many that nearly do, a
// page can have fewer than its limit, or none, and a next one all the same.
func (s *ApprovalStore) Approvals(ctx context.Context, f ApprovalFilter) ([]ApprovalRow, string, error) {
	if f.UnusedSince > 0 {
		f.State = "live"
	}
	return s.ApprovalPage(ctx, f, func(r ApprovalRow) bool {
		return (f.State == "" || r.StateName() == f.State) && !(f.Unended && r.Phase == approval.Ended)
	})
}

// ApprovalPage is Approvals with another judgement of the rows' states: what
// they say may have been overtaken.
func (s *ApprovalStore) ApprovalPage(ctx context.Context, f ApprovalFilter, is func(ApprovalRow) bool) ([]ApprovalRow, string, error) {
	limit := query.PageSize(f.Limit)
	if _, err := query.ReadPlace(f.After); err != nil {
		return nil, "", err
	}
	p := &approvalsPage{ApprovalStore: s, f: f, is: is, limit: limit}
	// What ends meanwhile goes from here to there, so here is asked first.
	if err := p.addPendingEnds(ctx); err != nil {
		return nil, "", err
	}
	if err := p.walk(ctx); err != nil {
		return nil, "", err
	}
	return p.close()
}

func (r ApprovalRow) Place() query.Place { return query.Place{At: r.CreatedAt, ID: r.ID} }

// approvalsPage is a page as it is put together.
type approvalsPage struct {
	*ApprovalStore
	f     ApprovalFilter
	is    func(ApprovalRow) bool
	limit int

	rows  []ApprovalRow // found on the way
	aside []ApprovalRow // found beside it, wherever they stand
	most  query.Place   // as far as was looked beside it; the zero place is to the end
	to    query.Place   // every one that matches and does not come behind it was found
	whole bool          // the list ends within the page
}

// close cuts the page where it is full, or where it was found to.
func (p *approvalsPage) close() ([]ApprovalRow, string, error) {
	if p.most != (query.Place{}) && (p.whole || p.to.Compare(p.most) > 0) {
		p.whole, p.to = false, p.most
	}
	p.rows = append(p.rows, p.aside...)
	slices.SortFunc(p.rows, func(a, b ApprovalRow) int { return a.Place().Compare(b.Place()) })
	p.rows = slices.CompactFunc(p.rows, func(a, b ApprovalRow) bool { return a.ID == b.ID })
	if !p.whole {
		p.rows = slices.DeleteFunc(p.rows, func(r ApprovalRow) bool { return r.Place().Compare(p.to) > 0 })
	}
	if len(p.rows) > p.limit {
		p.rows = p.rows[:p.limit]
		return p.rows, p.rows[p.limit-1].Place().Cursor(), nil
	}
	if p.whole {
		return p.rows, "", nil
	}
	return p.rows, p.to.Cursor(), nil
}

// full reports whether there are enough for the page, and one more.
func (p *approvalsPage) full() bool { return len(p.rows) > p.limit }

// walk finds rows by that index which leads furthest.
func (p *approvalsPage) walk(ctx context.Context) error {
	from, err := query.ReadPlace(p.f.After)
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
		took, step := time.Since(begin), 4*WalkStep
		if walked += len(stretch.rows); walked >= MaxWalk || walked >= LeastWalk && took > LongWalk {
			return nil
		}
		if took > LongWalk/4 {
			step = WalkStep
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
			ids = append(ids, w.ID)
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
			if p.to = r.Place(); p.full() {
				return nil
			}
		}
	}
	if n := len(s.rows); n > 0 {
		p.to = s.rows[n-1].Place
	}
	return nil
}

// byID gives the rows that are there, newest first.
func (s *ApprovalStore) byID(ctx context.Context, ids []approval.ID) ([]ApprovalRow, error) {
	var out []ApprovalRow
	for batch := range slices.Chunk(ids, query.Batch) {
		q := query.Builder{Text: SelectApprovals}
		q.OneOf("a.id", query.Padded(query.IDs(batch, engine.ApprovalKey)))
		rows, err := s.ApprovalRows(ctx, q.Whole(), q.Args...)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	slices.SortFunc(out, func(a, b ApprovalRow) int { return a.Place().Compare(b.Place()) })
	return out, nil
}
