package store

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
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

func idsAt(places []place) []approval.ID {
	out := make([]approval.ID, len(places))
	for i, p := range places {
		out[i] = p.id
	}
	return out
}

// livesAs reports whether an approval may be what the filter asks for; what is
// ended and not written yet is left to p.is.
func (p *approvalsPage) livesAs(h *cachedApproval) bool {
	switch {
	case p.f.State == "code_issued":
		return h.phase == approval.CodeIssued
	case p.f.UnusedSince > 0:
		return h.phase == approval.Live && max(h.createdAt(), int64(atomic.LoadUint32(&h.used))) <= p.f.UnusedSince
	}
	return h.phase == approval.Live
}

// newestInMemory gives the places of the newest approvals in memory behind one
// place that match the filter's client, person, organization and grant set,
// newest first and so many at most.
func (s *Store) newestInMemory(f ApprovalFilter, from place, most int, is func(*cachedApproval) bool) []place {
	m := s.memory
	m.RLock()
	chunk := len(m.approvals.chunks)
	of, ok := m.cacheFilter(f)
	m.RUnlock()
	var found []place
	for ; chunk > 0 && ok; chunk-- { // those that were made last lie last, by and large
		m.RLock()
		if chunk <= len(m.approvals.chunks) && (len(found) < most || m.approvals.newest[chunk-1] >= found[most-1].at) {
			found = m.approvals.newestOf(chunk-1, of, from, found, most, is)
		}
		m.RUnlock()
	}
	return found
}

// newestOf adds those of a chunk.
func (t *approvalCache) newestOf(chunk int, of cacheFilter, from place, found []place, most int, is func(*cachedApproval) bool) []place {
	var more []place
	for i := range t.chunks[chunk] {
		h := &t.chunks[chunk][i]
		if h.phase == 0 || len(found) == most && h.createdAt() < found[most-1].at || !of.matches(h) || !is(h) {
			continue
		}
		at := place{h.createdAt(), t.ids[chunk][i]}
		if from == (place{}) || at.compare(from) > 0 {
			more = append(more, at)
		}
	}
	if len(more) == 0 {
		return found
	}
	found = append(found, more...)
	slices.SortFunc(found, place.compare)
	return found[:min(len(found), most)]
}

// cacheFilter is a filter of what memory has of an approval.
type cacheFilter struct {
	client *facts.Client
	person *facts.Person
	org    *facts.Organization
	kind   grantset.Kind
}

// cacheFilter is false where nothing can match.
func (m *memory) cacheFilter(f ApprovalFilter) (of cacheFilter, ok bool) {
	of = cacheFilter{m.Clients[f.Client], m.People.Get(f.Person), m.Orgs[f.Organization], f.Grant}
	return of, (f.Client == "") == (of.client == nil) && (f.Person == "") == (of.person == nil) && (f.Organization == "") == (of.org == nil)
}

func (of *cacheFilter) matches(h *cachedApproval) bool {
	return (of.client == nil || of.client == h.client) && (of.kind == "" || of.kind == h.grantKind()) &&
		(of.person == nil || of.person == h.member.Person) && (of.org == nil || of.org == h.member.Org)
}
