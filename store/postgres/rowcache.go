package postgres

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// row is an approval as it was read. Nobody changes it: a new state is a new
// row.
type row struct {
	A        approval.Approval
	Picks    string // of the grant set, as they are written
	replaces string
	Used     uint32 // Unix seconds: the last use; 0 is never

	Read atomic.Int64 // when the newest read began that found it so, by moment

	// Who calls again and again finds the facts here, side by side, and not all over
	// memory; nil until somebody asks.
	Under atomic.Pointer[engine.Under]
}

// With gives a row that is remembered with another state, grant set and use.
func (r *row) With(a approval.Approval, picks string, used uint32, read int64) *row {
	out := &row{A: a, Picks: picks, Used: used}
	out.Read.Store(read)
	return out
}

// bare gives the row without what only its code asks for.
func (r *row) bare() *row {
	if r.A.Challenge == "" && r.replaces == "" {
		return r
	}
	out := &row{A: r.A, Picks: r.Picks, Used: r.Used}
	out.A.RedirectURI, out.A.Issuer, out.A.Challenge = "", "", ""
	out.Read.Store(r.Read.Load())
	return out
}

// found notes that the row was read again, and was as it is.
func (r *row) found(read int64) {
	for {
		old := r.Read.Load()
		if old >= read || r.Read.CompareAndSwap(old, read) {
			return
		}
	}
}

// processStart is what moments are counted from: by the monotonic clock, which
// nobody sets.
var processStart = time.Now().Add(-time.Hour)

// Moment is a time in nanoseconds since the process began, or a little more.
func Moment(t time.Time) int64 { return int64(t.Sub(processStart)) }

// rowCache remembers approvals that lived when they were read, for checks: what of
// such a row ever changes is its state and its grant set, so that no more is read
// again. Of those that have ended it remembers that alone. What was not asked for in
// a while is forgotten: when there is no room for more, the earlier half.
type rowCache struct {
	mu      sync.RWMutex
	rows    map[approval.ID]*row
	earlier map[approval.ID]*row
	Most    int
}

// maxCached bounds its memory, at under a kilobyte each.
const maxCached = 50_000

// Get gives nil for a row that is not remembered.
func (c *rowCache) Get(id approval.ID) *row {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.at(id)
}

// at is get for those who hold the lock.
func (c *rowCache) at(id approval.ID) *row {
	if r := c.last(id); r != nil && r.A.Phase == approval.Live {
		return r
	}
	return nil
}

// last is at, or that the approval has ended.
func (c *rowCache) last(id approval.ID) *row {
	if r := c.rows[id]; r != nil {
		return r
	}
	return c.earlier[id]
}

// Put remembers what a read has found. What was remembered, and is not found to
// live any more, has ended.
func (c *rowCache) Put(r *Reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, found := range r.Rows {
		c.learn(id, found, r.Began)
	}
	if len(r.Rows) == len(r.ids) {
		return
	}
	for id, known := range r.known {
		if known != nil && r.Rows[id] == nil {
			c.learn(id, ended(id, known.A.State, r.Began), r.Began)
		}
	}
}

// learn remembers what a read has found that began at a moment. Reads overtake
// one another, and moves overtake reads: what was read later stays, and so does
// a state further on, because no approval goes back.
func (c *rowCache) learn(id approval.ID, r *row, read int64) {
	at := c.last(id)
	newer := at != nil && (at.Read.Load() > read || at.A.Phase > r.A.Phase || at.A.Generation > r.A.Generation)
	if r.A.Phase >= approval.Live && !newer {
		c.keep(id, r.bare())
	}
}

// ended gives the row that keeps an older read from bringing an approval back.
func ended(id approval.ID, last approval.State, read int64) *row {
	last.Phase = approval.Ended
	return (&row{}).With(approval.Approval{ID: id, State: last}, "", 0, read)
}

// keep remembers a row among the later half.
func (c *rowCache) keep(id approval.ID, r *row) {
	if c.rows == nil || len(c.rows) >= max(1, c.Most/2) && c.rows[id] == nil {
		c.earlier, c.rows = c.rows, make(map[approval.ID]*row, len(c.rows))
	}
	c.rows[id] = r
}

// moved remembers the state and the use that a move has saved, which began at a
// moment. The grant set is as old as it was.
func (c *rowCache) moved(id approval.ID, to approval.State, used uint32, began int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.at(id)
	switch {
	case to.Phase == approval.Ended:
		c.keep(id, ended(id, to, began))
	case at != nil && at.A.Generation < to.Generation:
		a := at.A
		a.State = to
		c.keep(id, at.With(a, at.Picks, max(at.Used, used), at.Read.Load()))
	}
}

// Drop forgets an approval.
func (c *rowCache) Drop(id approval.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.rows, id)
	delete(c.earlier, id)
}

// clear forgets everything.
func (c *rowCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows, c.earlier = nil, nil
}
