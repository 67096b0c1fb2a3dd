package limit

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// A model is the limit as one would say it: a list of times.
type model struct {
	limit Limit
	now   time.Time // the highest seen
	let   map[netip.Addr][]time.Time
}

func newModel(l Limit) *model {
	return &model{limit: l, now: noon, let: map[netip.Addr][]time.Time{}}
}

func (m *model) see(now time.Time) {
	if now.After(m.now) {
		m.now = now
	}
}

func (m *model) counts(a netip.Addr) (times []time.Time) {
	for _, at := range m.let[a] {
		if m.now.Sub(at) < m.limit.Window {
			times = append(times, at)
		}
	}
	return times
}

func (m *model) allow(a netip.Addr, n int, now time.Time) (bool, time.Duration) {
	m.see(now)
	m.let[a] = m.counts(a)
	if over := len(m.let[a]) - n; over >= 0 {
		rest := m.let[a][over].Add(m.limit.Window).Sub(now)
		return false, (rest + time.Second - 1).Truncate(time.Second)
	}
	m.let[a] = append(m.let[a], m.now)
	return true, 0
}

// follow asks a window and the model the same and wants the same answers.
func follow(t *testing.T, w *Addresses, m *model, a netip.Addr, now time.Time) {
	t.Helper()
	m.see(now)
	if got, want := w.Remaining(a, now), m.limit.N-len(m.counts(a)); got != want {
		t.Fatalf("%s at +%s: %d left, want %d", a, now.Sub(noon), got, want)
	}
	ok, wait := w.Allow(a, now)
	wantOK, wantWait := m.allow(a, m.limit.N, now)
	if ok != wantOK || wait != wantWait {
		t.Fatalf("%s at +%s: %v, wait %s; want %v, %s", a, now.Sub(noon), ok, wait, wantOK, wantWait)
	}
}

// Any history gets the answers of the list of times, whether time goes on, stands, jumps or goes back.
func walk(t *testing.T, history []byte) {
	if len(history) < 2 {
		return
	}
	l := Limit{N: 1 + int(history[0]%40), Window: time.Duration(1+history[1]%100) * time.Second}
	w, m := NewAddresses(l, nil), newModel(l)
	now := noon
	w.Allow(netip.Addr{}, now) // the model's clock begins here too
	for rest := history[2:]; len(rest) >= 3; rest = rest[3:] {
		step := time.Duration(binary.BigEndian.Uint16(rest[1:]))
		switch rest[0] >> 5 {
		case 0, 1: // at once
		case 2:
			now = now.Add(step * time.Microsecond)
		case 3, 4:
			now = now.Add(step * time.Millisecond / 16)
		case 5:
			now = now.Add(-step * time.Millisecond)
		case 6:
			now = now.Add(l.Window - step%2*time.Microsecond)
		case 7:
			now = now.Add(step * time.Second)
		}
		follow(t, w, m, netip.AddrFrom4([4]byte{192, 0, 2, rest[0] % 4}), now)
	}
	sound(t, w.c)
}

func FuzzAgainstTheModel(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 2, 5, 100, 1000, 3000} {
		history := make([]byte, size)
		for i := range history {
			history[i] = byte(random.Uint32())
		}
		f.Add(history)
	}
	f.Fuzz(walk)
}

func TestAgainstTheModel(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 150 {
		history := make([]byte, 2+3*random.IntN(1500))
		for i := range history {
			history[i] = byte(random.Uint32())
		}
		walk(t, history)
	}
}

// Requests at the contract's pace and times fine as a clock's: never more than N in any window,
// and nobody is refused who has fewer than N in the window and one tick before it.
func TestAnyWindow(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, l := range []Limit{Authorize, Token, Register, API, {100, 24 * time.Hour}} {
		w := NewAddresses(l, nil)
		tick := time.Duration(w.c.shards[0].tick)
		var passed []time.Time
		now := noon
		for range 20 * l.N {
			now = now.Add(time.Duration(random.Int64N(int64(l.Window) / int64(l.N) * 3 / 2)))
			ok, wait := w.Allow(client, now)
			if ok {
				passed = append(passed, now)
				if k := len(passed) - 1 - l.N; k >= 0 && now.Sub(passed[k]) < l.Window {
					t.Fatalf("%s: %d within %s", l, l.N+1, now.Sub(passed[k]))
				}
				continue
			}
			rest := passed[len(passed)-l.N].Add(l.Window).Sub(now)
			if rest <= -tick || wait < rest || wait >= rest+tick+time.Second {
				t.Fatalf("%s: wait %s, want %s", l, wait, rest)
			}
			if random.IntN(4) == 0 {
				now = now.Add(l.Window)
			}
		}
	}
}

// A neighbourhood too small for its strangers: no address ever gets more than N in any window, those
// who were there first get exactly the model's answers, and what is remembered stays within bounds.
func fuzzWideKeys(t *testing.T, history []byte) {
	const room, window = 6, 40 * time.Second
	l := Limit{N: 6, Window: window}
	w, m := newAddresses(l, nil, room), newModel(l)
	resident := addr("192.0.2.1")
	now := noon
	let(t, w, resident, 1, now)
	m.allow(resident, l.N, now)
	passed := map[netip.Addr][]time.Time{}
	for rest := history; len(rest) >= 2; rest = rest[2:] {
		now = now.Add(time.Duration(rest[0]%16) * time.Second / 4)
		// The resident is never away for a whole window, and never refused for as long.
		held := m.let[resident]
		away := now.Sub(held[len(held)-1])
		if rest[0] >= 0xf0 && away < window/4 {
			now = now.Add(window / 2)
		} else if away > window/4 || away > window/12 && rest[0]&0x40 != 0 {
			follow(t, w, m, resident, now)
		}
		b := rest[1]
		a := netip.AddrFrom4([4]byte{192, 0, 2 + b>>6, 2 + b&3})
		if b&0x30 == 0x30 {
			a = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, b >> 6 & 1, 5: b & 1, 7: b >> 1 & 3})
		}
		for range 1 + b>>2&3 {
			left := w.Remaining(a, now)
			ok, wait := w.Allow(a, now)
			if ok && left == 0 || !ok && (wait < time.Second || wait > window) {
				t.Fatalf("%s: %d left, then %v, wait %s", a, left, ok, wait)
			}
			if !ok {
				continue
			}
			key := Key(a).Addr()
			passed[key] = append(passed[key], now)
			if k := len(passed[key]) - 1 - l.N; k >= 0 && now.Sub(passed[key][k]) < window {
				t.Fatalf("%s: %d within %s", a, l.N+1, now.Sub(passed[key][k]))
			}
		}
	}
	bounded(t, w.c, room)
	sound(t, w.c)
}

// sound wants every entry and every chunk to be in use or free, and nothing lost between.
func sound[K comparable](t *testing.T, c *counter[K]) {
	t.Helper()
	for i := range c.shards {
		soundTable(t, &c.shards[i].table)
	}
	soundTable(t, &c.wideTables[wide])
	soundTable(t, &c.wideTables[widest])
}

func soundTable[K comparable](t *testing.T, table *table[K]) {
	t.Helper()
	used, chunks := 0, 0
	for i, e := range table.entries {
		if !e.used {
			continue
		}
		used++
		ring := 0
		for c := e.tail; e.tail != 0 && (ring == 0 || c != e.tail); c = table.chunks[c].next {
			ring++
		}
		if ring != e.chunks() || table.index[e.key] != uint32(i) {
			t.Fatalf("entry %+v has %d chunks, want %d, and is found at %d", e, ring, e.chunks(), table.index[e.key])
		}
		chunks += ring
	}
	freeEntries, freeChunks := 0, 0
	for i := table.freeEntry; i != 0; i = table.entries[i].tail {
		freeEntries++
	}
	for i := table.freeChunk; i != 0; i = table.chunks[i].next {
		freeChunks++
	}
	if used != len(table.index) || used+freeEntries != max(len(table.entries)-1, 0) {
		t.Fatalf("%d entries: %d used, %d found, %d free", len(table.entries), used, len(table.index), freeEntries)
	}
	if chunks != table.inUse || chunks+freeChunks != max(len(table.chunks)-1, 0) {
		t.Fatalf("%d chunks: %d used, %d noted, %d free", len(table.chunks), chunks, table.inUse, freeChunks)
	}
}

func bounded[K comparable](t *testing.T, c *counter[K], room int) {
	t.Helper()
	entries := 0
	for i := range c.shards {
		entries += len(c.shards[i].index)
	}
	if entries > room || int64(entries) != c.size.Load() {
		t.Fatalf("%d remembered, %d noted, want at most %d", entries, c.size.Load(), room)
	}
	if got := len(c.wideTables[wide].index); got > max(room/4, 1) {
		t.Fatalf("%d networks remembered, want at most %d", got, room/4)
	}
}

func FuzzCrowd(f *testing.F) {
	random := rand.New(rand.NewPCG(7, 8))
	for _, size := range []int{0, 2, 100, 1000, 3000} {
		history := make([]byte, size)
		for i := range history {
			history[i] = byte(random.Uint32())
		}
		f.Add(history)
	}
	f.Fuzz(fuzzWideKeys)
}

func TestWideKeys(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for range 80 {
		history := make([]byte, 2000)
		for i := range history {
			history[i] = byte(random.Uint32())
		}
		fuzzWideKeys(t, history)
	}
}
