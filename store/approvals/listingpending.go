package approvals

import (
	"context"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// addPendingEnds finds approvals that have ended and whose rows do not say so yet,
// where the list would have them.
func (p *approvalsPage) addPendingEnds(ctx context.Context) error {
	if p.f.State != "ended" {
		return nil
	}
	from, err := query.ReadPlace(p.f.After)
	if err != nil {
		return err
	}
	found, err := p.pendingPlaces(ctx, from)
	if err != nil {
		return err
	}
	if len(found) > p.limit && (p.most == query.Place{} || found[p.limit].Compare(p.most) < 0) {
		p.most = found[p.limit]
	}
	rows, err := p.byID(ctx, idsAt(found))
	if err != nil {
		return err
	}
	for _, r := range rows { // one may have been used meanwhile, and live
		if p.is(r) && r.Matches(p.f) && (from == query.Place{} || r.Place().Compare(from) > 0) {
			p.aside = append(p.aside, r)
		}
	}
	return nil
}

// pendingPlaces gives those of them that come next behind a place, one more
// than the page has at most.
func (p *approvalsPage) pendingPlaces(ctx context.Context, from query.Place) ([]query.Place, error) {
	now := p.db.Now()
	expired := now.Add(-approval.CodeLifetime)
	if !p.db.Memory.HasApprovals() {
		return p.pendingInRows(ctx, from, expired)
	}
	p.db.Memory.RLock()
	lost := p.db.Memory.Ended != p.db.Memory.EndsWritten
	p.db.Memory.RUnlock()
	return p.newestInMemory(p.f, from, p.limit+1, func(h *engine.CachedApproval) bool {
		switch h.Phase {
		case approval.CodeIssued:
			if int64(h.IssuedAt) <= expired.Unix() {
				return true
			}
		case approval.Live:
			if at, ends := p.unusedAt(h.LastUse()); ends && !now.Before(at) || h.Over(now) {
				return true
			}
		}
		return lost && h.Lost()
	}), nil
}

// pendingInRows is pendingPlaces where memory has no approvals.
func (p *approvalsPage) pendingInRows(ctx context.Context, from query.Place, expired time.Time) ([]query.Place, error) {
	ids, _, err := p.db.Engine.PendingEnds(ctx, expired)
	if err != nil {
		return nil, err
	}
	found, err := p.newestOf(ctx, ids, from)
	if err != nil || p.db.Options.EndUnusedAfter == 0 {
		return found, err
	}
	f := p.f
	f.State, f.Limit, f.UnusedSince = "live", p.limit, p.db.Now().Add(-p.db.Options.EndUnusedAfter).Unix()
	if begins := (query.Place{At: f.UnusedSince + 1}); from == (query.Place{}) || begins.Compare(from) > 0 {
		f.After = begins.Cursor()
	}
	// Where so many live that this looks at some of them alone, the others are
	// listed once the sweep has written their ends: within the hour.
	unused, next, err := p.ApprovalPage(ctx, f, func(r ApprovalRow) bool { return r.StateName() == "ended" })
	if err != nil {
		return nil, err
	}
	for _, r := range unused {
		found = append(found, r.Place())
	}
	if next != "" && len(unused) == p.limit {
		p.most = unused[p.limit-1].Place()
	}
	slices.SortFunc(found, query.Place.Compare)
	found = slices.Compact(found)
	return found[:min(len(found), p.limit+1)], nil
}

// newestOf gives those approvals that come next behind a place, of all whose
// rows the filter matches but for the state.
func (p *approvalsPage) newestOf(ctx context.Context, ids []approval.ID, from query.Place) ([]query.Place, error) {
	f := p.f
	f.State = ""
	var found []query.Place
	for batch := range slices.Chunk(ids, 8*query.Batch) {
		q := query.Builder{Text: walkedRows}
		q.Behind(from)
		q.OneOf("a.id", query.Padded(query.IDs(batch, engine.ApprovalKey)))
		rows, err := p.readWalked(ctx, q.Whole(), q.Args)
		if err != nil {
			return nil, err
		}
		for _, w := range rows {
			if w.matches(f) {
				found = append(found, w.Place)
			}
		}
	}
	slices.SortFunc(found, query.Place.Compare)
	return found[:min(len(found), p.limit+1)], nil
}

func (r ApprovalRow) Matches(f ApprovalFilter) bool {
	return (f.Client == "" || f.Client == r.Client) && (f.Person == "" || f.Person == r.Person) &&
		(f.Organization == "" || f.Organization == r.Organization) && (f.Grant == "" || f.Grant == r.Grant.Kind)
}
