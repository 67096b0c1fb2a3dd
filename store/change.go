package store

import (
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/approval"
)

// effect is a change of something else than memory: of the ring of keys.
type effect func()

func (e effect) apply(*memory) { e() }

// approvalMade caches an approval, made when it is applied: the
// roles that it picks get their places then.
type approvalMade struct{ approval.Approval }

func (c approvalMade) apply(m *memory) {
	if m.approvals.elsewhere {
		return
	}
	m.Remember(c.Grant.Picks)
	if h, err := m.cached(c.Approval); err == nil { // it was asked before: facts are never forgotten
		m.approvals.put(c.ID, h)
	}
}

// approvalMoved takes the state of an approval after a move. used is in Unix
// seconds, when the move is a use.
type approvalMoved struct {
	id   approval.ID
	to   approval.State
	used uint32
}

func (c approvalMoved) apply(m *memory) {
	h := m.approvals.at(c.id)
	switch {
	case h == nil:
	case c.to.Phase == approval.Ended:
		m.approvals.drop(c.id)
	default:
		if c.to.Refreshes(approval.State{Phase: h.phase, Generation: h.generation}) {
			atomic.StoreUint32(&h.used, c.used)
		}
		h.phase, h.generation, h.key, h.network = c.to.Phase, c.to.Generation, uint16(c.to.Key), c.to.Network
	}
}

// grantEdited takes another grant set of an approval.
type grantEdited struct{ approval.Approval }

func (c grantEdited) apply(m *memory) {
	h := m.approvals.at(c.ID)
	if h == nil {
		return
	}
	m.Remember(c.Grant.Picks)
	if next, err := m.cached(c.Approval); err == nil {
		h.picks, h.kind = next.picks, next.kind
	}
}
