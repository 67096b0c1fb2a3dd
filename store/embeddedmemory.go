package store

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
)

// What the embedded engine answers out of memory.

// Check answers exactly as it stands.
func (e *embeddedEngine) Check(_ context.Context, id approval.ID) (Access, error) {
	e.memory.RLock()
	defer e.memory.RUnlock()
	h := e.memory.approvals.at(id)
	if h == nil {
		return Access{}, ErrNotFound
	}
	a := e.memory.uncached(id, h)
	a.Grant = e.memory.grantSet(h)
	return Access{
		Approval: a, Standing: h.standing(), Authority: a.Grant.Narrow(h.member.AsMember(), nil),
		PersonName: h.member.Person.Name, OrganizationName: h.member.Org.Name,
		Stamp: h.member.Org.Stamp, used: atomic.LoadUint32(&h.used),
	}, nil
}

// CheckNow is Check behind the commit that is under way.
func (e *embeddedEngine) CheckNow(ctx context.Context, id approval.ID) (Access, error) {
	e.memory.awaitCommit()
	return e.Check(ctx, id)
}

// CheckAllNow is CheckNow of each.
func (e *embeddedEngine) CheckAllNow(ctx context.Context, all []Asked) {
	e.memory.awaitCommit()
	for i := range all {
		if a := &all[i]; a.ByKey {
			a.Access, a.Err = e.memory.apiKey(a.Key)
		} else {
			a.Access, a.Err = e.Check(ctx, a.Approval)
		}
	}
}

// Fresh has nothing to do: the facts are those of now.
func (e *embeddedEngine) Fresh(context.Context) error { return nil }

// FreshNow waits for the commit that is under way.
func (e *embeddedEngine) FreshNow(context.Context) error {
	e.memory.awaitCommit()
	return nil
}

// Checked gives the context back.
func (e *embeddedEngine) Checked(ctx context.Context) context.Context { return ctx }

// Recent is never so: there is nothing older than now.
func (e *embeddedEngine) Recent() bool { return false }

// LastUse asks memory.
func (e *embeddedEngine) LastUse(_ context.Context, id approval.ID) (int64, error) {
	e.memory.RLock()
	defer e.memory.RUnlock()
	return e.memory.lastUse(id), nil
}

// Live counts a chunk at a time.
func (e *embeddedEngine) Live(context.Context) (n int, _ error) {
	e.memory.eachCached(func(_ approval.ID, h *cachedApproval) {
		if h.phase == approval.Live && !h.lost() {
			n++
		}
	})
	return n, nil
}

// ClientUses counts a chunk at a time.
func (e *embeddedEngine) ClientUses(context.Context) (map[string]ClientUse, error) {
	by := map[*facts.Client]ClientUse{}
	e.memory.eachCached(func(_ approval.ID, h *cachedApproval) {
		if h.phase == approval.Live && !h.lost() {
			of := by[h.client]
			by[h.client] = ClientUse{of.Live + 1, max(of.LastUsed, int64(atomic.LoadUint32(&h.used)))}
		}
	})
	out := make(map[string]ClientUse, len(by))
	for c, use := range by {
		out[c.ID] = use
	}
	return out, nil
}

// PendingEnds looks at all.
func (e *embeddedEngine) PendingEnds(_ context.Context, issued time.Time) (out []approval.ID, done func() error, err error) {
	e.memory.eachCached(func(id approval.ID, h *cachedApproval) {
		if h.lost() || h.phase == approval.CodeIssued && int64(h.issuedAt) <= issued.Unix() {
			out = append(out, id)
		}
	})
	return out, func() error { return nil }, nil
}

// Register adds a client in the batch under way.
func (e *embeddedEngine) Register(c client.Client, network string, at *reserved, act Act) error {
	return e.Change(func(tx *txn) error {
		if err := tx.insertClient(c, network); err != nil {
			return err
		}
		if err := tx.journal(Event{Kind: journal.ClientRegistered, Client: c.ID}.by(act)); err != nil {
			return err
		}
		tx.Put(facts.ClientChange{Client: c, Weight: at.Weight})
		tx.later(effect(func() { tx.memory.leave(at) }))
		return nil
	})
}

// Used notes a use in memory first, so that the next call of the hour finds it.
func (e *embeddedEngine) Used(id approval.ID) {
	now := uint32(e.Now().Unix())
	if int64(now) < e.unnoted.Load() {
		return
	}
	e.memory.RLock()
	h := e.memory.approvals.at(id)
	due, old := false, uint32(0)
	if h != nil {
		old = atomic.LoadUint32(&h.used)
		due = idle(old, now) && atomic.CompareAndSwapUint32(&h.used, old, now)
	}
	e.memory.RUnlock()
	if !due {
		return
	}
	back := func() {
		e.memory.RLock()
		defer e.memory.RUnlock()
		if h := e.memory.approvals.at(id); h != nil {
			atomic.CompareAndSwapUint32(&h.used, now, old)
		}
	}
	ok := e.Later(func(tx *txn) error {
		_, err := tx.exec(`
			UPDATE approval SET used_at = $1 WHERE id = $2 AND used_at < $1`, int64(now), id[:])
		return err
	}, func() {
		back()
		e.unnoted.Store(int64(now) + int64(noteAgainAfter/time.Second))
	})
	if !ok {
		back()
	}
}
