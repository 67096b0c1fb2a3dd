package approvals

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// walkMemory goes on where p stopped, in memory: it has all that live.
func (p *approvalsPage) walkMemory(ctx context.Context) error {
	for !p.full() && !p.whole {
		found := p.newestInMemory(p.f, p.to, p.limit+1, p.livesAs)
		p.whole = len(found) <= p.limit
		rows, err := p.byID(ctx, idsAt(found))
		if err != nil {
			return err
		}
		for _, r := range rows { // one that has changed since is left out
			if p.is(r) {
				p.rows = append(p.rows, r)
			}
		}
		if len(found) > 0 {
			p.to = found[len(found)-1]
		}
	}
	return nil
}

func idsAt(places []query.Place) []approval.ID {
	out := make([]approval.ID, len(places))
	for i, p := range places {
		out[i] = p.ID
	}
	return out
}

// livesAs reports whether an approval may be what the filter asks for; what is
// ended and not written yet is left to p.is.
func (p *approvalsPage) livesAs(h *engine.CachedApproval) bool {
	switch {
	case p.f.State == "code_issued":
		return h.Phase == approval.CodeIssued
	case p.f.UnusedSince > 0:
		return h.Phase == approval.Live && max(h.CreatedAt(), int64(atomic.LoadUint32(&h.Used))) <= p.f.UnusedSince
	}
	return h.Phase == approval.Live
}

// newestInMemory gives the places of the newest approvals in memory behind one
// place that match the filter's client, person, organization and grant set,
// newest first and so many at most.
func (s *ApprovalStore) newestInMemory(f ApprovalFilter, from query.Place, most int, is func(*engine.CachedApproval) bool) (found []query.Place) {
	of, ok := cacheFilterOf(s.db.Memory, f)
	if !ok {
		return nil
	}
	var more []query.Place
	s.db.Memory.NewestChunks(func(newest int64) bool { return len(found) < most || newest >= found[most-1].At }, func(id approval.ID, h *engine.CachedApproval) {
		if len(found) == most && h.CreatedAt() < found[most-1].At || !of.matches(h) || !is(h) {
			return
		}
		if at := (query.Place{At: h.CreatedAt(), ID: id}); from == (query.Place{}) || at.Compare(from) > 0 {
			more = append(more, at)
		}
	}, func() {
		if len(more) > 0 {
			found = append(found, more...)
			slices.SortFunc(found, query.Place.Compare)
			found, more = found[:min(len(found), most)], more[:0]
		}
	})
	return found
}

// cacheFilter is a filter of what memory has of an approval.
type cacheFilter struct {
	client *facts.Client
	person *facts.Person
	org    *facts.Organization
	kind   grantset.Kind
}

// cacheFilterOf is false where nothing can match.
func cacheFilterOf(m *engine.Memory, f ApprovalFilter) (of cacheFilter, ok bool) {
	m.RLock()
	defer m.RUnlock()
	of = cacheFilter{m.Clients[f.Client], m.People.Get(f.Person), m.Orgs[f.Organization], f.Grant}
	return of, (f.Client == "") == (of.client == nil) && (f.Person == "") == (of.person == nil) && (f.Organization == "") == (of.org == nil)
}

func (of *cacheFilter) matches(h *engine.CachedApproval) bool {
	return (of.client == nil || of.client == h.Client) && (of.kind == "" || of.kind == h.GrantKind()) &&
		(of.person == nil || of.person == h.Member.Person) && (of.org == nil || of.org == h.Member.Org)
}
