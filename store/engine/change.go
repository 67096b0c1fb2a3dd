package engine

import (
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/approval"
)

// effect is a change of something else than memory: of the ring of keys.
type effect func()

func (e effect) apply(*Memory) { e() }

// approvalMade caches an approval, made when it is applied: the
// roles that it picks get their places then.
type approvalMade struct{ approval.Approval }

func (c approvalMade) apply(m *Memory) {
	if m.Approvals.Elsewhere {
		return
	}
	m.Remember(c.Grant.Picks)
	if h, err := m.cached(c.Approval); err == nil { // it was asked before: facts are never forgotten
		m.Approvals.Put(c.ID, h)
	}
}

// approvalMoved takes the state of an approval after a move. used is in Unix
// seconds, when the move is a use.
type approvalMoved struct {
	id   approval.ID
	to   approval.State
	used uint32
}

func (c approvalMoved) apply(m *Memory) {
	h := m.Approvals.At(c.id)
	switch {
	case h == nil:
	case c.to.Phase == approval.Ended:
		m.Approvals.drop(c.id)
	default:
		if c.to.Refreshes(approval.State{Phase: h.Phase, Generation: h.generation}) {
			atomic.StoreUint32(&h.Used, c.used)
		}
		h.Phase, h.generation, h.key, h.network = c.to.Phase, c.to.Generation, uint16(c.to.Key), c.to.Network
		h.bind(c.to.Bound)
	}
}

// grantEdited takes another grant set of an approval, and when it ends.
type grantEdited struct{ approval.Approval }

func (c grantEdited) apply(m *Memory) {
	h := m.Approvals.At(c.ID)
	if h == nil {
		return
	}
	m.Remember(c.Grant.Picks)
	if next, err := m.cached(c.Approval); err == nil {
		h.picks, h.kind, h.endsAt = next.picks, next.kind, next.endsAt
	}
}

// PutMade caches an approval that was made.
func (tx *Tx) PutMade(a approval.Approval) error { return tx.putCached(a, approvalMade{a}) }

// PutEdited takes an approval's other grant set, and when it ends.
func (tx *Tx) PutEdited(a approval.Approval) error { return tx.putCached(a, grantEdited{a}) }

func (tx *Tx) putCached(a approval.Approval, c change) error {
	_, err := tx.Memory.cached(a) // facts that are not there are found now, not after the commit
	if err == nil {
		tx.later(c)
	}
	return err
}

// endsBy has what memory has of an organization's approvals end by a time, in Unix
// seconds.
type endsBy struct {
	organization string
	at           int64
}

func (c endsBy) apply(m *Memory) {
	org := m.Orgs[c.organization]
	for _, chunk := range m.Approvals.chunks {
		for i := range chunk {
			if h := &chunk[i]; h.Phase != 0 && h.Member.Org == org && (h.endsAt == 0 || int64(h.endsAt) > c.at) {
				h.endsAt = uint32(c.at)
			}
		}
	}
}

// PutEndsBy has all approvals in an organization end by a time, in Unix seconds.
func (tx *Tx) PutEndsBy(organization string, at int64) { tx.later(endsBy{organization, at}) }

// AfterCommit does something else than to change memory, such as to change the ring of
// keys; memory's lock is held.
func (tx *Tx) AfterCommit(f func()) { tx.later(effect(f)) }
