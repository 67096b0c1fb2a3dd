package limit

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"
)

// stranger is the i-th of as many IPv4 addresses as are wanted, from many networks.
func stranger(i int) netip.Addr {
	i = int(uint32(i+1) * 2654435761) // a permutation of 32 bits
	return netip.AddrFrom4([4]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)})
}

// stranger6 is the i-th address of as many /64, /48 and /32 as there are.
func stranger6(i int) netip.Addr {
	i = int(uint32(i+1) * 2654435761)
	return netip.AddrFrom16([16]byte{0x20, byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i), byte(i), 15: 1})
}

// heap is what lives after a collection, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestI11_MemoryIsBounded(t *testing.T) {
	if a, n := NewAddresses(Token, nil).c.room, NewNames(API).c.room; a != 1_000_000 || n != 1_000_000 {
		t.Errorf("room for %d addresses and %d names, want a million (decision L1)", a, n)
	}
	before := heap()
	w := newAddresses(Token, nil, fill)
	for i := range fill {
		if ok, _ := w.Allow(stranger(i), noon.Add(time.Duration(i)*time.Microsecond)); !ok {
			t.Fatalf("address %d refused at its first request", i)
		}
	}
	full := heap() - before
	t.Logf("%d addresses: %.1f bytes each", fill, float64(full)/fill)
	if full > 100*fill {
		t.Errorf("%d addresses take %d bytes, want at most 100 each", fill, full)
	}
	if got := w.c.size.Load(); got != fill {
		t.Errorf("%d remembered, want %d", got, fill)
	}
	// What comes then is counted with its network, and of these only a quarter is remembered.
	for i := range fill / 3 {
		w.Allow(stranger(fill+i), after(2))
		w.Allow(stranger6(i), after(2))
	}
	bounded(t, w.c, fill)
	crowded := heap() - before
	t.Logf("after many more strangers: %.1f bytes each", float64(crowded)/fill)
	if crowded > 150*fill {
		t.Errorf("more strangers made it %d bytes, want at most %d", crowded, 150*fill)
	}
	runtime.KeepAlive(w)
}

func TestI11_MemoryIsGivenBack(t *testing.T) {
	const room = 50_000
	before := heap()
	w := newAddresses(Token, nil, room)
	for i := range 2 * room {
		for range 3 {
			w.Allow(stranger(i), noon)
		}
	}
	if full := heap() - before; full < 50*room {
		t.Fatalf("%d bytes for %d addresses: nothing is remembered", full, room)
	}
	for i := range 100 {
		let(t, w, stranger(i), 8, after(599))
	}
	// A hundred addresses stay, and their requests clear the rest away.
	for i := range 10 * room {
		w.Allow(stranger(i%100), after(601))
	}
	if got, crowds := w.c.size.Load(), w.c.wideEntries.Load(); got != 100 || crowds != 0 {
		t.Errorf("%d addresses and %d networks remembered after all but 100 have gone", got, crowds)
	}
	if left := heap() - before; left > 10*room {
		t.Errorf("%d bytes are left after all but 100 have gone", left)
	}
	for i := range 100 {
		refused(t, w, stranger(i), after(601))
	}
	for i := range 100 {
		if got := w.Remaining(stranger(i), after(1198)); got != 0 {
			t.Fatalf("%d left for address %d, whose requests have moved with it", got, i)
		}
	}
	for i := range 100 {
		if got := w.Remaining(stranger(i), after(1199)); got != 8 {
			t.Fatalf("%d left for address %d a window after its first 8, want 8", got, i)
		}
	}
}

// How much room is spare, the seed of a counter's hash decides: several are looked at.
func TestI11_ARememberedRequestTakesFiveBytes(t *testing.T) {
	const addresses = 2000
	before := heap()
	var all [3]*Addresses
	for n := range all {
		all[n] = NewAddresses(Token, nil)
		for i := range addresses * 300 {
			if ok, _ := all[n].Allow(stranger(i%addresses), noon.Add(time.Duration(i)*time.Microsecond)); !ok {
				t.Fatalf("request %d refused", i)
			}
		}
	}
	each := float64(heap()-before) / float64(len(all)*addresses*300)
	t.Logf("%.2f bytes each", each)
	if each > 6 { // the entries and spare room included
		t.Errorf("%.2f bytes for each remembered request, want at most 6", each)
	}
	runtime.KeepAlive(all)
}

func TestI11_NoLiveEntryIsEvictedByStrangers(t *testing.T) {
	const room = 1000
	l := Limit{5, 10 * time.Minute}
	w := newAddresses(l, nil, room)
	residents := make([]netip.Addr, 100)
	for i := range residents {
		residents[i] = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		let(t, w, residents[i], 1+i%5, noon)
	}
	for i := range 200_000 {
		a := stranger(i)
		if i%3 == 0 {
			a = stranger6(i)
		} else if i%3 == 1 {
			a = netip.AddrFrom4([4]byte{192, 0, 2, 100 + byte(i%150)}) // neighbours
		}
		w.Allow(a, noon.Add(time.Duration(i)*time.Microsecond))
	}
	bounded(t, w.c, room)
	for i, a := range residents {
		let(t, w, a, 4-i%5, after(599))
		refused(t, w, a, after(599))
	}
	let(t, w, residents[4], 5, after(600))
	refused(t, w, addr("192.0.2.200"), after(600)) // its neighbours use up what strangers there have
}

func TestI11_ChunksAreGivenBack(t *testing.T) {
	w := NewAddresses(Token, nil)
	chunks := func() (n int) {
		for i := range w.c.shards {
			n += len(w.c.shards[i].chunks)
		}
		return n
	}
	for i := range 1000 {
		let(t, w, stranger(i), 300, noon)
	}
	if got := chunks(); got < 40_000 {
		t.Fatalf("%d chunks for 300,000 requests", got)
	}
	for i := range 20_000 { // all thousand stay, with 20 requests each
		let(t, w, stranger(i%1000), 1, after(600))
	}
	if got := chunks(); got > 13_000 {
		t.Errorf("%d chunks for 20,000 requests", got)
	}
	sound(t, w.c)
}

func TestI11_EntriesAreGivenBack(t *testing.T) {
	w := NewAddresses(Token, nil)
	entries := func() (n int) {
		for i := range w.c.shards {
			n += len(w.c.shards[i].entries)
		}
		return n
	}
	for i := range 100_000 {
		w.Allow(stranger(i), noon)
	}
	for i := range 300_000 {
		w.Allow(stranger(i%1000), after(600))
	}
	if got := entries(); got > 64*65 {
		t.Errorf("room for %d entries is kept for 1,000 addresses", got)
	}
	sound(t, w.c)
}

func TestI11_OldEntriesGo(t *testing.T) {
	const room = 2000
	w := newAddresses(Authorize, nil, room)
	for i := range 3 * room {
		w.Allow(stranger(i), noon)
	}
	if got := w.c.size.Load(); got != room {
		t.Fatalf("%d remembered, want %d", got, room)
	}
	// As many new ones find room at once, and each its own.
	for i := range room {
		let(t, w, stranger(room+i), 150, after(600))
	}
	refused(t, w, stranger(room), after(600))
	if got := w.c.wideEntries.Load(); got != 0 {
		t.Errorf("%d networks counted though there was room", got)
	}
}

func TestNamesAreBounded(t *testing.T) {
	const room = 100
	w := newNames(Limit{5, time.Minute}, room)
	for i := range room {
		w.AllowUpTo(fmt.Sprint("account ", i), 5, noon)
	}
	for i := range 20000 {
		w.Allow(fmt.Sprint("stranger ", i), noon)
	}
	bounded(t, w.c, room)
	if got := len(w.c.wideTables[widest].index); got == 0 || got > 1<<16 {
		t.Errorf("%d shared counters, want some and at most 65536", got)
	}
	for i := range room {
		if got := w.Remaining(fmt.Sprint("account ", i), 5, noon); got != 4 {
			t.Errorf("account %d has %d left, want 4", i, got)
		}
	}
}

func TestANameKeepsNothingElse(t *testing.T) {
	before := heap()
	w := NewNames(API)
	for i := range 500 {
		body := strings.Repeat(fmt.Sprintf("%08d", i), 8000)
		w.Allow(body[:8], noon)
		w.Allow(body, noon)
	}
	if got := heap() - before; got > 1000*1000 {
		t.Errorf("%d bytes for a thousand names", got)
	}
	runtime.KeepAlive(w)
}

func TestAllowAllocatesNothing(t *testing.T) {
	w, names := NewAddresses(Token, nil), NewNames(API)
	now := noon
	step := func(seconds int) {
		for i := range 100 {
			now = now.Add(time.Duration(seconds) * time.Second / 100)
			w.Allow(stranger(i), now)
			w.Allow(stranger6(i), now)
			names.Allow("o1", now)
		}
	}
	for range 700 { // more than a window of each
		step(1)
	}
	if n := testing.AllocsPerRun(200, func() { step(1) }); n != 0 {
		t.Errorf("%v allocations for 300 requests", n)
	}
}
