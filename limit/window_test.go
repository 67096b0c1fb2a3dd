package limit

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// An odd time of day with nanoseconds, as a real clock gives it.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

var client = addr("203.0.113.9")

// let asks n times and wants every request let through.
func let(t *testing.T, w *Addresses, a netip.Addr, n int, now time.Time) {
	t.Helper()
	for i := range n {
		if ok, wait := w.Allow(a, now); !ok || wait != 0 {
			t.Fatalf("request %d of %d from %s: %v, wait %s; want it let through", i+1, n, a, ok, wait)
		}
	}
}

// refused wants a refusal and gives the wait.
func refused(t *testing.T, w *Addresses, a netip.Addr, now time.Time) time.Duration {
	t.Helper()
	ok, wait := w.Allow(a, now)
	if ok {
		t.Fatalf("request from %s at +%s let through, want it refused", a, now.Sub(noon))
	}
	if wait < time.Second || wait%time.Second != 0 {
		t.Fatalf("wait %s, want whole seconds from 1", wait)
	}
	return wait
}

func TestI01_OneBudgetForASlash64(t *testing.T) {
	both(t, func(t *testing.T, windows windows) {
		w := windows.addresses(Register, nil)
		let(t, w, addr("2001:db8:1:1::1"), 20, noon)
		refused(t, w, addr("2001:db8:1:1::2"), noon)
		refused(t, w, addr("2001:db8:1:1:ffff:ffff:ffff:ffff"), noon)
		let(t, w, addr("2001:db8:1:2::1"), 20, noon)
		let(t, w, addr("2001:db8:2:1::1"), 20, noon)
	})
}

func TestI03_OneBudgetForMappedAndPlain(t *testing.T) {
	both(t, func(t *testing.T, windows windows) {
		w := windows.addresses(Register, nil)
		for range 10 {
			let(t, w, addr("::ffff:203.0.113.9"), 1, noon)
			let(t, w, addr("203.0.113.9"), 1, noon)
		}
		refused(t, w, addr("::ffff:203.0.113.9"), noon)
		refused(t, w, addr("203.0.113.9"), noon)
		refused(t, w, addr("::ffff:cb00:7109"), noon)
		let(t, w, addr("203.0.113.10"), 1, noon)
		let(t, w, addr("::203.0.113.9"), 1, noon) // IPv4-compatible is IPv6
	})
}

func TestZoneAndInvalidAddress(t *testing.T) {
	both(t, func(t *testing.T, windows windows) {
		w := windows.addresses(Limit{2, time.Minute}, nil)
		let(t, w, addr("fe80::1%eth0"), 1, noon)
		let(t, w, addr("fe80::1%eth1"), 1, noon)
		refused(t, w, addr("fe80::1"), noon)
		let(t, w, netip.Addr{}, 2, noon)
		refused(t, w, netip.Addr{}, noon)
		let(t, w, addr("0.0.0.0"), 2, noon)
		let(t, w, addr("::"), 2, noon)
	})
}

func TestI08_SlidingWindow(t *testing.T) {
	both(t, func(t *testing.T, windows windows) {
		w := windows.addresses(Authorize, nil)
		let(t, w, client, 150, noon)
		refused(t, w, client, after(599))
		let(t, w, client, 150, after(601))
		refused(t, w, client, after(601))
	})
}

func TestI08_ExactlyOneWindowIsEnough(t *testing.T) {
	both(t, func(t *testing.T, windows windows) {
		for _, l := range []Limit{Authorize, Token, Register, API} {
			w := windows.addresses(l, nil)
			let(t, w, client, l.N, noon)
			if wait := refused(t, w, client, noon); wait != l.Window {
				t.Errorf("%s: wait %s at once, want the window", l, wait)
			}
			if wait := refused(t, w, client, noon.Add(l.Window-1)); wait != time.Second {
				t.Errorf("%s: wait %s a nanosecond before the end, want 1s", l, wait)
			}
			let(t, w, client, l.N, noon.Add(l.Window))
			refused(t, w, client, noon.Add(l.Window))
		}
	})
}

func TestI09_NoDoubleBudgetAtABoundary(t *testing.T) {
	both(t, func(t *testing.T, windows windows) {
		w := windows.addresses(Authorize, nil)
		let(t, w, addr("198.51.100.1"), 1, noon) // a fixed window would begin here
		let(t, w, client, 150, after(599))
		refused(t, w, client, after(601))
		refused(t, w, client, after(1198))
		let(t, w, client, 150, after(1199))
	})
}

func TestI10_RetryAfterIsTrueToTheSecond(t *testing.T) {
	for _, l := range []Limit{Authorize, Token, Register, {1, time.Second}, {3, 24 * time.Hour}, {2, 7 * time.Second}} {
		for _, gap := range []time.Duration{0, 1, 999, time.Microsecond, 333333333, time.Second, 1700 * time.Millisecond} {
			for _, later := range []time.Duration{0, 1, 500 * time.Millisecond, 999999999, time.Second} {
				exactWait(t, l, gap, later)
			}
		}
	}
}

// exactWait uses the limit up with a gap between requests, asks once more, and follows the
// answer: refused one second before, let through then.
func exactWait(t *testing.T, l Limit, gap, later time.Duration) {
	t.Helper()
	if gap*time.Duration(l.N)+later >= l.Window {
		return
	}
	full := func() (*Addresses, time.Time) {
		w, now := NewAddresses(l, nil), noon
		for range l.N {
			let(t, w, client, 1, now)
			now = now.Add(gap)
		}
		return w, now.Add(later)
	}
	w, now := full()
	wait := refused(t, w, client, now)
	if wait > l.Window {
		t.Fatalf("%s, gap %s: wait %s is longer than the window", l, gap, wait)
	}
	if before := refused(t, w, client, now.Add(wait-time.Second)); before != time.Second {
		t.Fatalf("%s, gap %s: a second before the end the wait is %s", l, gap, before)
	}
	let(t, w, client, 1, now.Add(wait))
	if gap >= time.Second { // the next of the old requests counts still
		refused(t, w, client, now.Add(wait))
	}
}

func TestI10_TheWaitDoesNotGrow(t *testing.T) {
	both(t, func(t *testing.T, windows windows) {
		w := windows.addresses(Register, nil)
		let(t, w, client, 20, noon)
		for s := range 3600 {
			if wait := refused(t, w, client, after(s)); wait != time.Duration(3600-s)*time.Second {
				t.Fatalf("wait %s after %d s, want %d s", wait, s, 3600-s)
			}
		}
		let(t, w, client, 20, after(3600))
	})
}

func TestI10_ByARealClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewAddresses(Authorize, nil)
		for range 150 {
			let(t, w, client, 1, time.Now())
			time.Sleep(1234567 * time.Nanosecond)
		}
		wait := refused(t, w, client, time.Now())
		time.Sleep(wait - time.Second)
		refused(t, w, client, time.Now())
		time.Sleep(time.Second)
		let(t, w, client, 1, time.Now())
	})
}

func TestTimeThatGoesBack(t *testing.T) {
	w := NewAddresses(Authorize, nil)
	let(t, w, client, 100, after(1000))
	for _, back := range []time.Time{noon, after(-100000), after(999), {}} {
		let(t, w, client, 10, back)
	}
	let(t, w, client, 10, after(1000))
	for _, back := range []time.Time{after(1000), noon, after(401), after(-100000), {}} {
		refused(t, w, client, back)
	}
	// The wait is told by the asker's own clock and is true by it.
	if wait := refused(t, w, client, after(900)); wait != 700*time.Second {
		t.Errorf("wait %s, want 700s", wait)
	}
	refused(t, w, client, after(1599))
	// What was let through at an earlier time counted as of the highest time seen.
	let(t, w, client, 150, after(1600))
	refused(t, w, client, after(2199))

	// Another key's later time counts too: there is one clock.
	let(t, w, addr("198.51.100.1"), 1, after(10000))
	let(t, w, client, 150, after(3000))
	refused(t, w, client, after(10599))
	let(t, w, client, 1, after(10600))
}

func TestTimesFarApart(t *testing.T) {
	w := NewAddresses(Limit{1, time.Hour}, nil)
	far := []time.Time{{}, noon, noon.AddDate(60, 0, 0), noon.AddDate(10000, 0, 0), noon.AddDate(-20000, 0, 0)}
	for _, a := range far {
		for _, b := range far {
			w.Allow(client, a)
			if ok, wait := w.Allow(client, b); !ok && wait < time.Second {
				t.Fatalf("%s, then %s: wait %s", a, b, wait)
			}
		}
	}
	refused(t, w, client, far[3])
}

func TestRemaining(t *testing.T) {
	both(t, func(t *testing.T, windows windows) {
		w := windows.addresses(Authorize, nil)
		want := func(n int, now time.Time) {
			t.Helper()
			if got := w.Remaining(client, now); got != n {
				t.Fatalf("%d left, want %d", got, n)
			}
		}
		want(150, noon)
		let(t, w, client, 1, noon)
		want(149, noon)
		want(149, noon)
		let(t, w, client, 149, after(10))
		want(0, after(10))
		refused(t, w, client, after(10))
		want(0, after(599))
		want(1, after(600))
		want(150, after(610))
		let(t, w, client, 150, after(610))
	})
}

func TestNames(t *testing.T) {
	both(t, func(t *testing.T, windows windows) {
		w := windows.names(Limit{3, time.Minute})
		long := make([]byte, 5000)
		for _, name := range []string{"", "o1", "o2", "O1", string(long), string(long[:4999])} {
			for i := range 4 {
				ok, wait := w.Allow(name, noon)
				if ok != (i < 3) || (wait == time.Minute) != (i == 3) {
					t.Errorf("%d. request of %.8q: %v, wait %s", i+1, name, ok, wait)
				}
			}
		}
	})
}

func TestNamesWithTheirOwnNumber(t *testing.T) {
	both(t, func(t *testing.T, windows windows) {
		w := windows.names(Limit{3, time.Minute})
		allow := func(n int, at int, want bool) time.Duration {
			t.Helper()
			ok, wait := w.AllowUpTo("o1", n, after(at))
			if ok != want {
				t.Fatalf("up to %d at %d s: %v, want %v", n, at, ok, want)
			}
			return wait
		}
		for i := range 20 {
			allow(20, i, true)
		}
		allow(20, 20, false)
		if got := w.Remaining("o1", 25, after(20)); got != 5 {
			t.Errorf("%d left of 25, want 5", got)
		}
		// A number that was lowered waits until all but that many are over.
		if wait := allow(3, 20, false); wait != 57*time.Second {
			t.Errorf("wait %s, want 57s: the 18th was at 17 s", wait)
		}
		allow(3, 76, false)
		allow(3, 77, true)
		if wait := allow(0, 1000, false); wait != time.Minute {
			t.Errorf("wait %s with no requests at all, want the window", wait)
		}
		if got := w.Remaining("o1", 0, after(1000)); got != 0 {
			t.Errorf("%d left of none", got)
		}
	})
}

func TestLimitWithoutRequestsOrTime(t *testing.T) {
	for _, l := range []Limit{{}, {0, time.Minute}, {1, 0}, {1, time.Second - 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v makes a window", l)
				}
			}()
			NewAddresses(l, nil)
		}()
	}
}

// Of many at once, exactly N are let through, whoever asks.
func TestManyAtOnce(t *testing.T) {
	both(t, func(t *testing.T, windows windows) {
		w := windows.addresses(Token, nil)
		same := windows.names(API)
		var passed, passedSame atomic.Int64
		var group sync.WaitGroup
		for g := range 20 {
			group.Go(func() {
				for i := range 250 {
					now := noon.Add(time.Duration(i*g) * time.Microsecond) // out of order among them
					a := netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 8)})
					if ok, _ := w.Allow(a, now); ok {
						passed.Add(1)
					}
					if ok, _ := same.Allow("o1", now); ok {
						passedSame.Add(1)
					}
				}
			})
		}
		group.Wait()
		if got := passed.Load(); got != 8*300 {
			t.Errorf("%d let through for 8 addresses, want 2400", got)
		}
		if got := passedSame.Load(); got != 3000 {
			t.Errorf("%d let through for one organization, want 3000", got)
		}
	})
}

func TestKey(t *testing.T) {
	for in, want := range map[string]string{
		"203.0.113.9":          "203.0.113.9/32",
		"::ffff:203.0.113.9":   "203.0.113.9/32",
		"2001:db8:1:1::1":      "2001:db8:1:1::/64",
		"2001:db8:1:1:2:3:4:5": "2001:db8:1:1::/64",
		"fe80::1%eth0":         "fe80::/64",
	} {
		if got := Key(addr(in)).String(); got != want {
			t.Errorf("Key(%s) = %s, want %s", in, got, want)
		}
	}
	if got := Key(netip.Addr{}); got.IsValid() {
		t.Errorf("Key of no address is %s", got)
	}
}

func TestNetworks(t *testing.T) {
	both(t, func(t *testing.T, windows windows) {
		var networks Networks
		for cidr, multiple := range map[string]int{
			"198.51.100.0/24": 10, "198.51.100.7": 2, "198.51.0.0/16": 3, "::ffff:192.0.2.0/120": 5, "2001:db8:5::/48": 4,
		} {
			n, err := ParseNetwork(cidr, multiple)
			if err != nil {
				t.Fatal(err)
			}
			networks = append(networks, n)
		}
		l := Limit{2, time.Minute}
		w := windows.addresses(l, networks)
		for a, n := range map[string]int{
			"198.51.100.1": 20, "198.51.100.2": 20, "198.51.100.7": 4, "198.51.101.1": 6, "198.52.0.1": 2,
			"::ffff:198.51.100.3": 20, "192.0.2.1": 10, "2001:db8:5:1::1": 8, "2001:db8:6::1": 2,
		} {
			if got := w.Remaining(addr(a), noon); got != n {
				t.Errorf("%s has %d, want %d", a, got, n)
			}
			let(t, w, addr(a), n, noon)
			refused(t, w, addr(a), noon)
		}
		let(t, windows.addresses(l, nil), addr("198.51.100.1"), 2, noon)
	})
}

func TestParseNetworkRefuses(t *testing.T) {
	for cidr, multiple := range map[string]int{
		"": 2, "example": 2, "198.51.100.0/33": 2, "198.51.100.1/24": 2, "fe80::1%eth0": 2, "fe80::%eth0/64": 2, "2001:db8::1/48": 2,
		"198.51.100.0/24": 0, "198.51.101.0/24": -1, "198.51.102.0/24": 1001,
	} {
		if got, err := ParseNetwork(cidr, multiple); err == nil {
			t.Errorf("ParseNetwork(%q, %d) = %+v", cidr, multiple, got)
		}
	}
}
