package store

import (
	"context"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// addPendingEnds finds approvals that have ended and whose rows do not say so yet,
// where the list would have them.
func (p *approvalsPage) addPendingEnds(ctx context.Context) error {
	if p.f.State != "ended" {
		return nil
	}
	from, err := readPlace(p.f.After)
	if err != nil {
		return err
	}
	found, err := p.pendingPlaces(ctx, from)
	if err != nil {
		return err
	}
	if len(found) > p.limit && (p.most == place{} || found[p.limit].compare(p.most) < 0) {
		p.most = found[p.limit]
	}
	rows, err := p.byID(ctx, idsAt(found))
	if err != nil {
		return err
	}
	for _, r := range rows { // one may have been used meanwhile, and live
		if p.is(r) && r.matches(p.f) && (from == place{} || r.place().compare(from) > 0) {
			p.aside = append(p.aside, r)
		}
	}
	return nil
}

// pendingPlaces gives those of them that come next behind a place, one more
// than the page has at most.
func (p *approvalsPage) pendingPlaces(ctx context.Context, from place) ([]place, error) {
	now := p.Now()
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
func (p *approvalsPage) pendingInRows(ctx context.Context, from place, expired time.Time) ([]place, error) {
	ids, _, err := p.db.Engine.PendingEnds(ctx, expired)
	if err != nil {
		return nil, err
	}
	found, err := p.newestOf(ctx, ids, from)
	if err != nil || p.db.Options.EndUnusedAfter == 0 {
		return found, err
	}
	f := p.f
	f.State, f.Limit, f.UnusedSince = "live", p.limit, p.Now().Add(-p.db.Options.EndUnusedAfter).Unix()
	if begins := (place{at: f.UnusedSince + 1}); from == (place{}) || begins.compare(from) > 0 {
		f.After = begins.cursor()
	}
	// Where so many live that this looks at some of them alone, the others are
	// listed once the sweep has written their ends: within the hour.
	unused, next, err := p.approvalPage(ctx, f, func(r ApprovalRow) bool { return r.StateName() == "ended" })
	if err != nil {
		return nil, err
	}
	for _, r := range unused {
		found = append(found, r.place())
	}
	if next != "" && len(unused) == p.limit {
		p.most = unused[p.limit-1].place()
	}
	slices.SortFunc(found, place.compare)
	found = slices.Compact(found)
	return found[:min(len(found), p.limit+1)], nil
}

// newestOf gives those approvals that come next behind a place, of all whose
// rows the filter matches but for the state.
func (p *approvalsPage) newestOf(ctx context.Context, ids []approval.ID, from place) ([]place, error) {
	f := p.f
	f.State = ""
	var found []place
	for batch := range slices.Chunk(ids, 8*sweepBatch) {
		q := query{text: walkedRows}
		q.behind(from)
		q.in("a.id", padded(idsOf(batch, engine.ApprovalKey)))
		rows, err := p.readWalked(ctx, q.whole(), q.args)
		if err != nil {
			return nil, err
		}
		for _, w := range rows {
			if w.matches(f) {
				found = append(found, w.place)
			}
		}
	}
	slices.SortFunc(found, place.compare)
	return found[:min(len(found), p.limit+1)], nil
}

func (r ApprovalRow) matches(f ApprovalFilter) bool {
	return (f.Client == "" || f.Client == r.Client) && (f.Person == "" || f.Person == r.Person) &&
		(f.Organization == "" || f.Organization == r.Organization) && (f.Grant == "" || f.Grant == r.Grant.Kind)
}
