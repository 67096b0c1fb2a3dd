package sqlite

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// What the embedded engine answers out of memory.

// Check answers exactly as it stands.
func (e *Engine) Check(_ context.Context, id approval.ID) (engine.Access, error) {
	e.Memory.RLock()
	defer e.Memory.RUnlock()
	h := e.Memory.Approvals.At(id)
	if h == nil {
		return engine.Access{}, engine.ErrNotFound
	}
	a := e.Memory.Uncached(id, h)
	a.Grant = e.Memory.GrantSet(h)
	return engine.Access{
		Approval: a, Standing: h.Standing(), Authority: a.Grant.Narrow(h.Member.AsMember(), h.Member.Org.Limit),
		PersonName: h.Member.Person.Name, OrganizationName: h.Member.Org.Name,
		Stamp: h.Member.Org.Stamp, Used: atomic.LoadUint32(&h.Used),
	}, nil
}

// CheckNow is Check behind the commit that is under way.
func (e *Engine) CheckNow(ctx context.Context, id approval.ID) (engine.Access, error) {
	e.Memory.AwaitCommit()
	return e.Check(ctx, id)
}

// CheckAllNow is CheckNow of each.
func (e *Engine) CheckAllNow(ctx context.Context, all []engine.Asked) {
	e.Memory.AwaitCommit()
	for i := range all {
		if a := &all[i]; a.ByKey {
			a.Access, a.Err = e.Memory.APIKey(a.Key)
		} else {
			a.Access, a.Err = e.Check(ctx, a.Approval)
		}
	}
}

// Fresh has nothing to do: the facts are those of now.
func (e *Engine) Fresh(context.Context) error { return nil }

// FreshNow waits for the commit that is under way.
func (e *Engine) FreshNow(context.Context) error {
	e.Memory.AwaitCommit()
	return nil
}

// Checked gives the context back.
func (e *Engine) Checked(ctx context.Context) context.Context { return ctx }

// Recent is never so: there is nothing older than now.
func (e *Engine) Recent() bool { return false }

// LastUse asks memory.
func (e *Engine) LastUse(_ context.Context, id approval.ID) (int64, error) {
	e.Memory.RLock()
	defer e.Memory.RUnlock()
	return e.Memory.LastUse(id), nil
}

// Live counts a chunk at a time.
func (e *Engine) Live(context.Context) (n int, _ error) {
	e.Memory.EachCached(func(_ approval.ID, h *engine.CachedApproval) {
		if h.Phase == approval.Live && !h.Lost() {
			n++
		}
	})
	return n, nil
}

// ClientUses counts a chunk at a time.
func (e *Engine) ClientUses(context.Context) (map[string]engine.ClientUse, error) {
	by := map[*facts.Client]engine.ClientUse{}
	e.Memory.EachCached(func(_ approval.ID, h *engine.CachedApproval) {
		if h.Phase == approval.Live && !h.Lost() {
			of := by[h.Client]
			by[h.Client] = engine.ClientUse{Live: of.Live + 1, LastUsed: max(of.LastUsed, int64(atomic.LoadUint32(&h.Used)))}
		}
	})
	out := make(map[string]engine.ClientUse, len(by))
	for c, use := range by {
		out[c.ID] = use
	}
	return out, nil
}

// PendingEnds looks at all.
func (e *Engine) PendingEnds(_ context.Context, issued time.Time) (out []approval.ID, done func() error, err error) {
	now := e.Now()
	e.Memory.EachCached(func(id approval.ID, h *engine.CachedApproval) {
		if h.Lost() || h.Over(now) || h.Phase == approval.CodeIssued && int64(h.IssuedAt) <= issued.Unix() {
			out = append(out, id)
		}
	})
	return out, func() error { return nil }, nil
}

// Register adds a client in the batch under way.
func (e *Engine) Register(c client.Client, network string, at *engine.Reserved, act engine.Act) error {
	return e.Change(func(tx *engine.Tx) error {
		if err := tx.InsertClient(c, network); err != nil {
			return err
		}
		if err := tx.Journal(engine.Event{Kind: journal.ClientRegistered, Client: c.ID}.By(act)); err != nil {
			return err
		}
		tx.Put(facts.ClientChange{Client: c, Weight: at.Weight})
		tx.AfterCommit(func() { tx.Memory.Leave(at) })
		return nil
	})
}

// Used notes a use in memory first, so that the next call of the hour finds it.
func (e *Engine) Used(id approval.ID) {
	now := uint32(e.Now().Unix())
	if int64(now) < e.unnoted.Load() {
		return
	}
	e.Memory.RLock()
	h := e.Memory.Approvals.At(id)
	due, old := false, uint32(0)
	if h != nil {
		old = atomic.LoadUint32(&h.Used)
		due = engine.Idle(old, now) && atomic.CompareAndSwapUint32(&h.Used, old, now)
	}
	e.Memory.RUnlock()
	if !due {
		return
	}
	back := func() {
		e.Memory.RLock()
		defer e.Memory.RUnlock()
		if h := e.Memory.Approvals.At(id); h != nil {
			atomic.CompareAndSwapUint32(&h.Used, now, old)
		}
	}
	ok := e.Later(func(tx *engine.Tx) error {
		_, err := tx.Exec(`
			UPDATE approval SET used_at = $1 WHERE id = $2 AND used_at < $1`, int64(now), id[:])
		return err
	}, func() {
		back()
		e.unnoted.Store(int64(now) + int64(NoteAgainAfter/time.Second))
	})
	if !ok {
		back()
	}
}

// NoteAgainAfter is how long no use is noted after one that could not be
// written: a disk that is full is not asked at each request.
const NoteAgainAfter = time.Minute
