package limit

import (
	"net/netip"
	"testing"
	"time"
)

// An address that was counted with its network and then gets an entry of its own takes along what it
// may have used, and nothing that strangers use later.
func TestAnEntryOfItsOwnIsNoSecondBudget(t *testing.T) {
	w := newAddresses(Limit{5, 10 * time.Minute}, nil, 1)
	b := addr("192.0.2.2")
	let(t, w, holder, 1, noon)
	let(t, w, a, 2, after(300)) // no room: counted with 192.0.2.0/24
	gone(t, w, a, after(600))
	let(t, w, a, 3, after(600)) // on its own
	if w.c.size.Load() != 1 {
		t.Fatal("there is room, and it has no entry of its own")
	}
	if wait := refused(t, w, a, after(600)); wait != 300*time.Second {
		t.Fatalf("wait %s, want 300s: the first two were at 300 s", wait)
	}
	if wait := refused(t, w, a, after(899)); wait != time.Second {
		t.Fatalf("wait %s, want 1s", wait)
	}
	let(t, w, b, 3, after(899)) // no room again: counted with the network, with the two from before
	refused(t, w, b, after(899))
	let(t, w, a, 2, after(900)) // the first two are over, and b's are no business of a
	refused(t, w, a, after(900))
	let(t, w, b, 2, after(900))
	refused(t, w, b, after(900))
	let(t, w, a, 3, after(1200)) // a window on, the network's count is no business of a at all
	refused(t, w, a, after(1200))
	refused(t, w, a, after(1499))
	let(t, w, a, 2, after(1500))
}

// A time that was rounded up is not overlooked by an entry that begins before it.
func TestAnEntryOfItsOwnTakesRoundedTimesAlong(t *testing.T) {
	w := newAddresses(Limit{2, 10 * time.Minute}, nil, 1)
	let(t, w, holder, 1, noon.Add(100)) // still there at 600 s, whichever shard is swept
	let(t, w, addr("192.0.2.2"), 1, after(600).Add(-500))
	let(t, w, a, 1, after(600))
	gone(t, w, a, after(600).Add(100))
	refused(t, w, a, after(600))
	let(t, w, a, 1, after(1200).Add(-500))
	refused(t, w, a, after(1200).Add(-1))
	let(t, w, a, 1, after(1200).Add(500))
}

// The network's count may be long, and all of it is taken along.
func TestAnEntryOfItsOwnTakesManyAlong(t *testing.T) {
	w := newAddresses(Limit{100, 10 * time.Minute}, nil, 1)
	let(t, w, holder, 1, noon)
	for s := range 60 {
		let(t, w, a, 1, after(300+s))
	}
	gone(t, w, a, after(600))
	let(t, w, a, 40, after(600))
	for s := range 60 {
		if wait := refused(t, w, a, after(900+s-1)); wait != time.Second {
			t.Fatalf("wait %s at %d s, want 1s", wait, 900+s-1)
		}
		let(t, w, a, 1, after(900+s))
	}
}

// Where the network's budget is used up, a newcomer from it waits, room or not.
func TestANewEntryWaitsForItsNetwork(t *testing.T) {
	w := newAddresses(Limit{2, 10 * time.Minute}, nil, 1)
	let(t, w, holder, 1, noon)
	let(t, w, a, 1, after(300))
	let(t, w, a, 1, after(310))
	gone(t, w, a, after(600))
	for _, s := range []int{600, 600, 899} {
		if wait := refused(t, w, a, after(s)); wait != time.Duration(900-s)*time.Second {
			t.Fatalf("wait %s at %d s, want until 900 s", wait, s)
		}
	}
	if got := w.c.size.Load(); got != 0 {
		t.Fatalf("%d places are taken by refused requests", got)
	}
	if got := w.Remaining(addr("192.0.2.77"), after(900)); got != 1 {
		t.Errorf("a neighbour has %d left, want 1", got)
	}
	if got := w.Remaining(addr("192.0.3.1"), after(900)); got != 2 {
		t.Errorf("another network has %d left, want 2", got)
	}
	let(t, w, a, 1, after(900))
	if wait := refused(t, w, a, after(900)); wait != 10*time.Second {
		t.Fatalf("wait %s, want 10s", wait)
	}
	let(t, w, a, 1, after(910))
	refused(t, w, a, after(910))
}

// gone waits until no address is remembered on its own.
func gone(t *testing.T, w *Addresses, a netip.Addr, now time.Time) {
	t.Helper()
	for n := range 2 * shards * sweepBatch { // sweepBatch calls sweep one shard a little
		if w.c.size.Load() == 0 {
			return
		}
		w.Remaining(a, now)
		w.Remaining(netip.AddrFrom4([4]byte{10, byte(n), byte(n), byte(n)}), now)
	}
	t.Fatal("somebody is still remembered on their own")
}

var (
	holder = addr("198.51.100.1") // of the one place for addresses
	other  = addr("203.0.113.1")  // of the one place for networks
	a, z   = addr("192.0.2.1"), addr("192.0.3.1")
)

// An address that was counted with its provider, then with its network and then on its own takes along
// both, and of the provider's count only what is from before the network's.
func TestAnEntryOfItsOwnTakesBothAlong(t *testing.T) {
	w := newAddresses(Limit{5, 10 * time.Minute}, nil, 1)
	let(t, w, holder, 1, after(0))
	let(t, w, other, 1, after(0))
	let(t, w, holder, 1, after(100))
	let(t, w, z, 3, after(300)) // 192.0.0.0/16
	let(t, w, a, 1, after(610)) // 192.0.2.0/24
	let(t, w, z, 1, after(650)) // 192.0.0.0/16
	if got := w.Remaining(a, after(650)); got != 1 {
		t.Fatalf("%d left with the network, want 1", got)
	}
	gone(t, w, a, after(700))
	let(t, w, a, 1, after(700))
	if wait := refused(t, w, a, after(700)); wait != 200*time.Second {
		t.Fatalf("wait %s, want 200s: the oldest three were at 300 s", wait)
	}
	let(t, w, a, 3, after(900))
	if wait := refused(t, w, a, after(900)); wait != 310*time.Second {
		t.Fatalf("wait %s, want 310s: the next was at 610 s", wait)
	}
}

// What the provider counted is no business of an address whose network has had an entry for a window.
func TestAnEntryOfItsOwnLeavesTheProviderAlone(t *testing.T) {
	w := newAddresses(Limit{5, 10 * time.Minute}, nil, 1)
	let(t, w, holder, 1, after(0))
	let(t, w, other, 1, after(0))
	let(t, w, holder, 1, after(100))
	let(t, w, a, 1, after(600)) // 192.0.2.0/24
	let(t, w, holder, 1, after(650))
	let(t, w, z, 5, after(699)) // 192.0.0.0/16
	let(t, w, a, 1, after(1100))
	let(t, w, a, 1, after(1200))
	gone(t, w, a, after(1250))
	let(t, w, a, 3, after(1250))
	refused(t, w, a, after(1250))
	refused(t, w, a, after(1699))
	let(t, w, a, 1, after(1700))
}

// Without room, whoever shares the first 24 or 48 bits shares a budget, and where there are too many of
// those, the first 16 or 20.
func TestWhoCountsTogether(t *testing.T) {
	w := newAddresses(Limit{1, time.Minute}, nil, 8) // and 2 networks
	for _, a := range []string{"1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4", "1.0.0.5", "1.0.0.6", "1.0.0.7", "1.0.0.8"} {
		let(t, w, addr(a), 1, noon)
	}
	let(t, w, addr("192.0.2.1"), 1, noon)
	refused(t, w, addr("192.0.2.255"), noon)
	let(t, w, addr("2001:db8:1:1::1"), 1, noon)
	refused(t, w, addr("2001:db8:1:ffff::1"), noon)

	let(t, w, addr("192.0.3.1"), 1, noon)
	refused(t, w, addr("192.0.255.1"), noon)
	let(t, w, addr("192.1.0.1"), 1, noon)
	let(t, w, addr("2001:db8:2:1::1"), 1, noon)
	refused(t, w, addr("2001:fff:2:1::1"), noon)
	let(t, w, addr("2001:1000::1"), 1, noon)

	let(t, w, netip.Addr{}, 1, noon)
	let(t, w, addr("::1"), 1, noon)
	let(t, w, addr("0.0.0.0"), 1, noon)
}

func TestNoAddressIsItsOwnNeighbourhood(t *testing.T) {
	w := newAddresses(Limit{1, time.Minute}, nil, 1)
	let(t, w, holder, 1, noon)
	let(t, w, netip.Addr{}, 1, noon) // the one network
	refused(t, w, netip.Addr{}, noon)
	let(t, w, addr("::1"), 1, noon)
}

// Limits hold for those who count together while time passes, and places become free.
func TestAllGoesOnceAWindowHasPassed(t *testing.T) {
	w := newAddresses(Limit{1, time.Minute}, nil, 8)
	for i := range 100 {
		w.Allow(stranger(i), noon)
	}
	for i := range 64 * sweepBatch * 3 {
		w.Remaining(stranger(1000+i%3), after(60))
	}
	if size, crowds := w.c.size.Load(), w.c.wideEntries.Load(); size != 0 || crowds != 0 {
		t.Errorf("%d addresses and %d networks remembered", size, crowds)
	}
	sound(t, w.c)
}

// A time is rounded up to the next tick, never down: a window later to the nanosecond it may still count.
func TestRoundingNeverMakesAWindowShorter(t *testing.T) {
	w := NewAddresses(Limit{2, 10 * time.Minute}, nil)
	at := func(ns int) time.Time { return noon.Add(time.Duration(ns)) }
	let(t, w, client, 1, at(0))
	let(t, w, client, 1, at(1500))
	let(t, w, client, 1, at(0).Add(10*time.Minute))
	refused(t, w, client, at(1499).Add(10*time.Minute))
	let(t, w, client, 1, at(2000).Add(10*time.Minute))
}

func TestTableTakesAnEarlierTimeAsTheLast(t *testing.T) {
	table := newTable[string](int64(time.Hour))
	e := &table.entries
	i := table.add("o1")
	for _, at := range []int64{5e9, 2e9, 7e9} {
		table.push(&(*e)[i], at)
	}
	for k, want := range []int64{5e9, 5e9, 7e9} {
		if got := table.nth(&(*e)[i], k); got != want {
			t.Errorf("time %d is %d, want %d", k, got, want)
		}
	}
	(*e)[i].young = true
	table.expire(&(*e)[i], 8e9+int64(time.Hour))
	if (*e)[i].young || (*e)[i].n != 0 {
		t.Errorf("%+v after a window", (*e)[i])
	}
}
