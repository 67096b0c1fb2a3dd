package limit

import "math"

// A table remembers, for each key, when its requests were let through. It has no
// lock and no clock; times are nanoseconds since the counter's start.
//
// The newest request of a key stands in its entry, so one request costs no more
// than the entry. Older ones are four bytes each, in chunks that form a ring per
// key. Entries and chunks lie in two slices and name each other by index: with a
// key without pointers the garbage collector has nothing to follow, and nothing is
// allocated once the slices have grown to what the load needs.
type table[K comparable] struct {
	window int64 // nanoseconds
	tick   int64 // nanoseconds: the grain of the older requests' times

	index   map[K]uint32
	entries []entry[K] // the first one is never used: index 0 is "none"
	chunks  []chunk    // likewise

	freeEntry uint32 // chained by tail
	freeChunk uint32 // chained by next
	inUse     int    // chunks that hold something
	hand      uint32 // the entry that sweep looked at last
}

// An entry is a queue of times, oldest first. All of them lie a whole number of
// ticks before last: the first time of an empty queue is kept to the nanosecond,
// and each later one is rounded up to the next tick from there. Rounding up can
// only make a request count longer, by less than a tick.
type entry[K comparable] struct {
	last  int64  // the newest time
	n     uint32 // times in the queue, the newest included
	tail  uint32 // the chunk with the newest of the older times; the chunk after it has the oldest
	off   uint8  // where the oldest time stands in its chunk
	used  bool
	young bool // requests of this key from before its first time here may be counted elsewhere
	key   K
}

const perChunk = 7 // with next 32 bytes, half a cache line

type chunk struct {
	next   uint32
	stamps [perChunk]uint32 // the low bits of time/tick
}

// newTable picks the finest tick with which a window fits into 32 bits: a
// microsecond for ten minutes and for an hour.
func newTable[K comparable](window int64) table[K] {
	tick := int64(1)
	for window/tick >= math.MaxUint32-1 {
		tick *= 10
	}
	return table[K]{window: window, tick: tick}
}

func (t *table[K]) find(k K) uint32 { return t.index[k] }

// add makes an empty entry. Pointers to other entries are void after it.
func (t *table[K]) add(k K) uint32 {
	if t.index == nil {
		t.index = make(map[K]uint32)
		t.entries = make([]entry[K], 1, 4)
	}
	i := t.freeEntry
	if i != 0 {
		t.freeEntry = t.entries[i].tail
	} else {
		i = uint32(len(t.entries))
		t.entries = append(t.entries, entry[K]{})
	}
	t.entries[i] = entry[K]{used: true, key: k}
	t.index[k] = i
	return i
}

func (t *table[K]) remove(i uint32) {
	e := &t.entries[i]
	t.clear(e)
	delete(t.index, e.key)
	*e = entry[K]{tail: t.freeEntry}
	t.freeEntry = i
}

// push adds a time. Call expire first: what is older than a window does not fit.
func (t *table[K]) push(e *entry[K], at int64) {
	if e.n == 0 {
		e.last, e.n = at, 1
		return
	}
	slot := (uint32(e.off) + e.n - 1) % perChunk
	if slot == 0 {
		e.tail = t.link(e.tail)
	}
	t.chunks[e.tail].stamps[slot] = uint32(e.last / t.tick)
	e.n++
	if d := at - e.last; d > 0 {
		e.last += (d + t.tick - 1) / t.tick * t.tick
	}
}

// link puts a chunk after tail into its ring, and makes the ring if there is none.
func (t *table[K]) link(tail uint32) uint32 {
	c := t.freeChunk
	if c != 0 {
		t.freeChunk = t.chunks[c].next
	} else {
		if t.chunks == nil {
			t.chunks = make([]chunk, 1, 2)
		}
		c = uint32(len(t.chunks))
		t.chunks = append(t.chunks, chunk{})
	}
	t.inUse++
	if tail == 0 {
		t.chunks[c].next = c
	} else {
		t.chunks[c].next = t.chunks[tail].next
		t.chunks[tail].next = c
	}
	return c
}

// pop takes the oldest of two or more times.
func (t *table[K]) pop(e *entry[K]) {
	e.off++
	e.n--
	// The first time ever pushed is the first one popped. A window has passed
	// since then, and whatever was counted elsewhere before has passed too.
	e.young = false
	if e.off < perChunk && e.n > 1 {
		return
	}
	e.off = 0
	head := t.chunks[e.tail].next
	if head == e.tail {
		e.tail = 0
	} else {
		t.chunks[e.tail].next = t.chunks[head].next
	}
	t.chunks[head].next = t.freeChunk
	t.freeChunk = head
	t.inUse--
}

// clear takes all times at once.
func (t *table[K]) clear(e *entry[K]) {
	if e.tail != 0 {
		t.inUse -= e.chunks()
		head := t.chunks[e.tail].next
		t.chunks[e.tail].next = t.freeChunk
		t.freeChunk = head
	}
	e.n, e.tail, e.off, e.young = 0, 0, 0, false
}

// chunks is how many chunks the queue has.
func (e *entry[K]) chunks() int {
	if e.n < 2 {
		return 0
	}
	return (int(e.off) + int(e.n) - 1 + perChunk - 1) / perChunk
}

// expire takes the times that no longer count at a given time. A request at t
// counts until just before t+window, so that a wait of exactly a window is enough.
func (t *table[K]) expire(e *entry[K], at int64) {
	if at-e.last >= t.window {
		t.clear(e)
		return
	}
	for e.n > 1 && at-t.nth(e, 0) >= t.window {
		t.pop(e)
	}
}

// nth is the time that stands k places after the oldest one.
func (t *table[K]) nth(e *entry[K], k int) int64 {
	if k >= int(e.n)-1 {
		return e.last
	}
	c := t.chunks[e.tail].next
	for k += int(e.off); k >= perChunk; k -= perChunk {
		c = t.chunks[c].next
	}
	return t.time(e, t.chunks[c].stamps[k])
}

func (t *table[K]) time(e *entry[K], stamp uint32) int64 {
	return e.last - int64(uint32(e.last/t.tick)-stamp)*t.tick
}

// appendTimes appends the times up to bound, oldest first.
func (t *table[K]) appendTimes(times []int64, e *entry[K], bound int64) []int64 {
	c, off := uint32(0), e.off
	if e.n > 1 {
		c = t.chunks[e.tail].next
	}
	for left := e.n; left > 0; left-- {
		at := e.last
		if left > 1 {
			at = t.time(e, t.chunks[c].stamps[off])
		}
		if at > bound {
			break
		}
		times = append(times, at)
		if off++; off == perChunk {
			c, off = t.chunks[c].next, 0
		}
	}
	return times
}

// sweep looks at the next few entries, removes those of which nothing counts any
// more and says how many it removed. Whoever adds an entry sweeps four: then those
// that wait for removal are about a third of those that live, at most.
func (t *table[K]) sweep(at int64, few int) (removed int) {
	for ; few > 0 && len(t.entries) > 1; few-- {
		t.hand++
		if int(t.hand) >= len(t.entries) {
			t.hand = 0
			t.compact()
			continue
		}
		if e := &t.entries[t.hand]; e.used && at-e.last >= t.window {
			t.remove(t.hand)
			removed++
		}
	}
	if removed > 0 && len(t.index) == 0 {
		t.compact() // nobody may come for another round
	}
	return removed
}

// compact gives memory back when three quarters of it have become idle. Sweep
// calls it once a round, so that its cost is spread over the round's requests.
func (t *table[K]) compact() {
	const small = 64
	idleEntries := len(t.entries) > small && len(t.index) < len(t.entries)/4
	idleChunks := len(t.chunks) > small && t.inUse < len(t.chunks)/4
	if !idleEntries && !idleChunks {
		return
	}
	fresh := table[K]{
		window: t.window, tick: t.tick,
		index:   make(map[K]uint32, len(t.index)),
		entries: make([]entry[K], 1, len(t.index)+1),
		chunks:  make([]chunk, 1, t.inUse+1),
	}
	for i := range t.entries {
		e := &t.entries[i]
		if !e.used {
			continue
		}
		moved := *e
		moved.tail = 0
		for c, left := e.tail, e.chunks(); left > 0; left-- {
			c = t.chunks[c].next
			moved.tail = fresh.link(moved.tail)
			fresh.chunks[moved.tail].stamps = t.chunks[c].stamps
		}
		fresh.entries[fresh.add(e.key)] = moved
	}
	*t = fresh
}
