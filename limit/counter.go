package limit

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A counter keeps one sliding window for each key.
//
// Keys are spread over many tables with a lock each. When as many keys are
// remembered as memory was meant for, a new key is counted together with its
// neighbours under a wider key, and when there are too many of those, under the
// widest: memory is bounded and nobody who is remembered is forgotten for a
// stranger (decision L1).
//
// A key that was counted under a wider one may later get an entry of its own.
// It then is young for a window: what the wider keys counted before that entry
// began counts for it too, so that moving never gives a second budget, while what
// strangers do after that costs it nothing.
type counter[K comparable] struct {
	limit Limit
	room  int64            // keys remembered on their own
	keep  func(K) K        // makes a key fit to be remembered
	wider func(K, level) K // the key that k is counted under when there is no room
	seed  maphash.Seed     // strangers cannot aim at one lock
	start atomic.Pointer[time.Time]

	seen   atomic.Int64  // the highest time seen, nanoseconds since start
	size   atomic.Int64  // keys remembered on their own, or about to be
	next   atomic.Uint32 // the table to tidy
	shards [shards]shard[K]

	mu          sync.Mutex // after a shard's lock, never before
	wideTables  [2]table[K]
	wideEntries atomic.Int64 // entries in wideTables
}

// A level of wider keys.
type level int

const (
	wide   level = iota // at most a quarter of room
	widest              // so few keys that there is always room
)

const shards = 64

// sweepBatch is after how many calls a table's caller sweeps, and how many entries then.
// It goes through all the tables in turn, so that entries go wherever nobody calls.
const sweepBatch = 16

type shard[K comparable] struct {
	mu    sync.Mutex
	calls uint32
	table[K]
	_ [64]byte // no two locks in one cache line
}

func newCounter[K comparable](l Limit, room int, keep func(K) K, wider func(K, level) K) *counter[K] {
	if l.N < 1 || l.Window < time.Second {
		panic("limit: a limit without requests or without time")
	}
	c := &counter[K]{limit: l, room: int64(room), keep: keep, wider: wider, seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].table = newTable[K](int64(l.Window))
	}
	for i := range c.wideTables {
		c.wideTables[i] = newTable[K](int64(l.Window))
	}
	return c
}

// ask says how many of n requests k has left, and if none how long to wait. It
// takes so many of them, all or none: if fewer are left, the wait is until they
// are, or the whole window where n is less.
func (c *counter[K]) ask(k K, n int, now time.Time, take int) (left int, wait time.Duration) {
	if n < 1 {
		return 0, c.limit.Window.Truncate(time.Second)
	}
	given := c.since(now)
	s := &c.shards[maphash.Comparable(c.seed, k)%shards]
	left, wait, tidy := c.askShard(s, k, n, given, take)
	if tidy {
		c.tidy(given)
	}
	return left, wait
}

func (c *counter[K]) askShard(s *shard[K], k K, n int, given int64, take int) (left int, wait time.Duration, tidy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := c.advance(given)
	s.calls++
	tidy = s.calls%sweepBatch == 0
	i := s.find(k)
	if i == 0 || s.entries[i].young {
		left, wait = c.askWider(s, i, k, n, at, given, take)
		return left, wait, tidy
	}
	e := &s.entries[i]
	s.expire(e, at)
	left, wait = c.settle(&s.table, e, nil, n, at, given, take)
	return left, wait, tidy
}

// settle decides by the times of one entry and by older times counted elsewhere.
func (c *counter[K]) settle(t *table[K], e *entry[K], older []int64, n int, at, given int64, take int) (int, time.Duration) {
	left := n - len(older) - int(e.n)
	if left >= max(take, 1) {
		for range take {
			t.push(e, at)
		}
		return left, 0
	}
	if take > n {
		return max(left, 0), c.limit.Window.Truncate(time.Second)
	}
	over := max(take, 1) - 1 - left // so many of the oldest do not stand in the way
	if over < len(older) {
		return max(left, 0), c.wait(older[over], given)
	}
	return max(left, 0), c.wait(t.nth(e, over-len(older)), given)
}

// wait is how long it takes, in whole seconds from the caller's own now, until a
// request at a time no longer counts.
func (c *counter[K]) wait(at, given int64) time.Duration {
	rest := time.Duration(int64(c.limit.Window) - (given - at))
	return (rest + time.Second - 1).Truncate(time.Second)
}

// askWider is ask for a key without an entry, or with a young one.
func (c *counter[K]) askWider(s *shard[K], i uint32, k K, n int, at, given int64, take int) (int, time.Duration) {
	reserved := i == 0 && c.reserve(s, at)
	if reserved && c.wideEntries.Load() == 0 {
		return c.enter(&s.table, k, nil, n, at, given, take, true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.noteWide()

	found := c.findWider(k, at)
	// The narrowest entry that k has or can have is where it is counted from now on.
	t, j, from := &s.table, i, wide
	if i == 0 && !reserved {
		t, j, from = &c.wideTables[wide], found[wide], widest
		if j == 0 && int64(len(t.index)) >= max(c.room/4, 1) {
			t, j, from = &c.wideTables[widest], found[widest], widest+1
		}
		k = c.wider(k, from-1)
	}
	if j == 0 {
		return c.enter(t, k, c.older(found, from, at), n, at, given, take, reserved)
	}
	e := &t.entries[j]
	t.expire(e, at)
	if !e.young {
		return c.settle(t, e, nil, n, at, given, take)
	}
	return c.settle(t, e, c.older(found, from, t.nth(e, 0)), n, at, given, take)
}

// findWider gives the entries of wider keys that k is counted under, by level; 0 is none.
func (c *counter[K]) findWider(k K, at int64) (found [2]uint32) {
	for l := range c.wideTables {
		t := &c.wideTables[l]
		t.sweep(at, 4)
		if found[l] = t.find(c.wider(k, level(l))); found[l] != 0 {
			t.expire(&t.entries[found[l]], at)
		}
	}
	return found
}

// older gives the times that the levels from here on may have counted for a key until
// its own entry began: an entry that is not young has counted everything of the key for
// a window, and nobody wider has. Rounding may have put a time a tick after the
// beginning.
func (c *counter[K]) older(found [2]uint32, from level, began int64) (times []int64) {
	for l := from; l <= widest; l++ {
		if found[l] == 0 {
			continue
		}
		t := &c.wideTables[l]
		e := &t.entries[found[l]]
		times = t.appendTimes(times, e, began+t.tick)
		if !e.young {
			break
		}
		began = min(began, t.nth(e, 0))
	}
	slices.Sort(times)
	return times
}

// enter makes an entry for k if its request is let through.
func (c *counter[K]) enter(t *table[K], k K, older []int64, n int, at, given int64, take int, reserved bool) (int, time.Duration) {
	var none entry[K]
	if take == 0 || len(older)+take > n {
		if reserved {
			c.size.Add(-1)
		}
		return c.settle(t, &none, older, n, at, given, take)
	}
	e := &t.entries[t.add(c.keep(k))]
	e.young = len(older) > 0
	return c.settle(t, e, older, n, at, given, take)
}

// reserve takes a place for one more key, if there is one.
func (c *counter[K]) reserve(s *shard[K], at int64) bool {
	c.sweep(s, at, 4)
	if c.size.Add(1) > c.room {
		c.size.Add(-1)
		return false
	}
	return true
}

func (c *counter[K]) sweep(s *shard[K], at int64, few int) {
	if removed := s.sweep(at, few); removed > 0 {
		c.size.Add(-int64(removed))
	}
}

// tidy sweeps the next of the tables, and those of wider keys while there is anything in them.
func (c *counter[K]) tidy(given int64) {
	s := &c.shards[c.next.Add(1)%shards]
	s.mu.Lock()
	at := c.advance(given)
	c.sweep(s, at, sweepBatch)
	s.mu.Unlock()
	if c.wideEntries.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.wideTables {
		c.wideTables[l].sweep(at, sweepBatch)
	}
	c.noteWide()
}

// noteWide lets callers see without the lock whether there are entries of wider keys.
func (c *counter[K]) noteWide() {
	c.wideEntries.Store(int64(len(c.wideTables[wide].index) + len(c.wideTables[widest].index)))
}

// since turns a time into nanoseconds since the first one that was asked about,
// by the monotonic clock if both have a reading of it.
func (c *counter[K]) since(now time.Time) int64 {
	start := c.start.Load()
	if start == nil {
		start = c.begin(now)
	}
	const far = 1 << 61 // about 73 years: beyond, sums might overflow
	return min(max(int64(now.Sub(*start)), -far), far)
}

func (c *counter[K]) begin(now time.Time) *time.Time {
	c.start.CompareAndSwap(nil, &now)
	return c.start.Load()
}

// advance gives the highest time seen: time never goes back (decision T12).
// Called under a shard's lock, so the times in a shard never go back either.
func (c *counter[K]) advance(given int64) int64 {
	for {
		seen := c.seen.Load()
		if given <= seen {
			return seen
		}
		if c.seen.CompareAndSwap(seen, given) {
			return given
		}
	}
}
