package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

// row is an approval as it was read. Nobody changes it: a new state is a new
// row.
type row struct {
	a        approval.Approval
	picks    string // of the grant set, as they are written
	replaces string
	used     uint32 // Unix seconds: the last use; 0 is never

	read atomic.Int64 // when the newest read began that found it so, by moment

	// Who calls again and again finds the facts here, side by side, and not all over
	// memory; nil until somebody asks.
	under atomic.Pointer[under]
}

// with gives a row that is remembered with another state, grant set and use.
func (r *row) with(a approval.Approval, picks string, used uint32, read int64) *row {
	out := &row{a: a, picks: picks, used: used}
	out.read.Store(read)
	return out
}

// bare gives the row without what only its code asks for.
func (r *row) bare() *row {
	if r.a.Challenge == "" && r.replaces == "" {
		return r
	}
	out := &row{a: r.a, picks: r.picks, used: r.used}
	out.a.RedirectURI, out.a.Issuer, out.a.Challenge = "", "", ""
	out.read.Store(r.read.Load())
	return out
}

// found notes that the row was read again, and was as it is.
func (r *row) found(read int64) {
	for {
		old := r.read.Load()
		if old >= read || r.read.CompareAndSwap(old, read) {
			return
		}
	}
}

// processStart is what moments are counted from: by the monotonic clock, which
// nobody sets.
var processStart = time.Now().Add(-time.Hour)

// moment is a time in nanoseconds since the process began, or a little more.
func moment(t time.Time) int64 { return int64(t.Sub(processStart)) }

// rowCache remembers approvals that lived when they were read, for checks: what of
// such a row ever changes is its state and its grant set, so that no more is read
// again. Of those that have ended it remembers that alone. What was not asked for in
// a while is forgotten: when there is no room for more, the earlier half.
type rowCache struct {
	mu      sync.RWMutex
	rows    map[approval.ID]*row
	earlier map[approval.ID]*row
	most    int
}

// maxCached bounds its memory, at under a kilobyte each.
const maxCached = 50_000

// get gives nil for a row that is not remembered.
func (c *rowCache) get(id approval.ID) *row {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.at(id)
}

// at is get for those who hold the lock.
func (c *rowCache) at(id approval.ID) *row {
	if r := c.last(id); r != nil && r.a.Phase == approval.Live {
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

// put remembers what a read has found. What was remembered, and is not found to
// live any more, has ended.
func (c *rowCache) put(r *reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, found := range r.rows {
		c.learn(id, found, r.began)
	}
	if len(r.rows) == len(r.ids) {
		return
	}
	for id, known := range r.known {
		if known != nil && r.rows[id] == nil {
			c.learn(id, ended(id, known.a.State, r.began), r.began)
		}
	}
}

// learn remembers what a read has found that began at a moment. Reads overtake
// one another, and moves overtake reads: what was read later stays, and so does
// a state further on, because no approval goes back.
func (c *rowCache) learn(id approval.ID, r *row, read int64) {
	at := c.last(id)
	newer := at != nil && (at.read.Load() > read || at.a.Phase > r.a.Phase || at.a.Generation > r.a.Generation)
	if r.a.Phase >= approval.Live && !newer {
		c.keep(id, r.bare())
	}
}

// ended gives the row that keeps an older read from bringing an approval back.
func ended(id approval.ID, last approval.State, read int64) *row {
	last.Phase = approval.Ended
	return (&row{}).with(approval.Approval{ID: id, State: last}, "", 0, read)
}

// keep remembers a row among the later half.
func (c *rowCache) keep(id approval.ID, r *row) {
	if c.rows == nil || len(c.rows) >= max(1, c.most/2) && c.rows[id] == nil {
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
	case at != nil && at.a.Generation < to.Generation:
		a := at.a
		a.State = to
		c.keep(id, at.with(a, at.picks, max(at.used, used), at.read.Load()))
	}
}

func (c *rowCache) drop(id approval.ID) {
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
