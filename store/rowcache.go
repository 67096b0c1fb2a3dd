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

	read atomic.Int64 // when the newest read began that found it so, by moment
}

// with gives a row that is remembered with another state and grant set.
func (r *row) with(a approval.Approval, picks string, read int64) *row {
	out := &row{a: a, picks: picks}
	out.read.Store(read)
	return out
}

// bare gives the row without what only its code asks for.
func (r *row) bare() *row {
	if r.a.Challenge == "" && r.replaces == "" {
		return r
	}
	out := &row{a: r.a, picks: r.picks}
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

// rowCache remembers approvals that lived when they were read. What of such a
// row ever changes is its state and its grant set; a move can be computed from
// it, because it is saved only if the row still is in that state. What was not
// asked for in a while is forgotten: when there is no room for more, the
// earlier half.
type rowCache struct {
	mu      sync.RWMutex
	rows    map[approval.ID]*row
	earlier map[approval.ID]*row
	most    int
}

// maxCached bounds its memory, at about 500 bytes each.
const maxCached = 50_000

// get gives nil for a row that is not remembered.
func (c *rowCache) get(id approval.ID) *row {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.at(id)
}

// at is get for those who hold the lock.
func (c *rowCache) at(id approval.ID) *row {
	if r := c.rows[id]; r != nil {
		return r
	}
	return c.earlier[id]
}

// put remembers what a read has found that began at a moment.
func (c *rowCache) put(rows map[approval.ID]*row, read int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, r := range rows {
		at := c.at(id)
		switch {
		case at != nil && at.read.Load() > read:
		case r.a.Phase != approval.Live:
			c.forget(id)
		default:
			c.keep(id, r.bare())
		}
	}
}

// keep remembers a row among the later half.
func (c *rowCache) keep(id approval.ID, r *row) {
	if c.rows == nil || len(c.rows) >= max(1, c.most/2) && c.rows[id] == nil {
		c.earlier, c.rows = c.rows, make(map[approval.ID]*row, len(c.rows))
	}
	c.rows[id] = r
}

// moved remembers the state that a move has saved, which began at a moment.
func (c *rowCache) moved(id approval.ID, to approval.State, began int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.at(id)
	switch {
	case at == nil:
	case to.Phase != approval.Live:
		c.forget(id)
	case at.a.Generation < to.Generation:
		a := at.a
		a.State = to
		c.keep(id, at.with(a, at.picks, began))
	}
}

func (c *rowCache) drop(id approval.ID) {
	c.mu.Lock()
	c.forget(id)
	c.mu.Unlock()
}

func (c *rowCache) forget(id approval.ID) {
	delete(c.rows, id)
	delete(c.earlier, id)
}
