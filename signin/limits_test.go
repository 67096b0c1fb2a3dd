package signin

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/org"
)

// patient tries whenever it may, for so long, and counts.
func patient(lasts time.Duration, try func(now time.Time) (wait time.Duration)) (n int) {
	begin := time.Unix(1_800_000_000, 0)
	for now := begin; now.Before(begin.Add(lasts)); {
		wait := try(now)
		if wait == 0 {
			n++
		}
		now = now.Add(wait)
	}
	return n
}

func sooner(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// What docs/limits.md says that each limit lets through, by the counters that the
// pages ask. A month is a number there; an hour is ten or three times that of one.
func TestWhatLimitsLetThrough(t *testing.T) {
	doc, err := os.ReadFile("../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	const month = 30 * 24 * time.Hour
	one := func(int) netip.Addr { return netip.MustParseAddr("192.0.2.1") }
	ten := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(i % 10), 1}) }
	network := func(i int) netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, byte(i >> 8), byte(i), 15: 1}) // a /64 each of one /48
	}
	failing := func(nodes int, name string, person func(i int) string, from func(int) netip.Addr) func(time.Time) time.Duration {
		all := []*failures{}
		for range nodes {
			limit := signInAccount
			if name == "second" {
				limit = secondAccount
			}
			all = append(all, newFailures(nil, name, limit))
		}
		i := 0
		return func(now time.Time) (wait time.Duration) {
			for range 40 * nodes { // each address is tried, at each node, before the time passes
				i++
				f := all[i%nodes]
				next := f.wait(person(i), from(i/nodes), now)
				if next == 0 {
					return f.add(person(i), from(i/nodes), now)
				}
				wait = sooner(wait, next)
			}
			return wait
		}
	}
	ada := func(int) string { return "ada@nordlys.example" }
	each := func(i int) string { return fmt.Sprintf("p%d@nordlys.example", i) }
	forgetting := func(nodes int, person func(i int) string, from func(int) netip.Addr) func(time.Time) time.Duration {
		var all []forgotLimits
		for range nodes {
			all = append(all, newForgotLimits(nil))
		}
		i := 0
		return func(now time.Time) (wait time.Duration) {
			for range 40 * nodes {
				i++
				f := all[i%nodes]
				next := max(f.address.Wait(from(i/nodes), now), f.network.Wait(from(i/nodes), now), f.account.Wait(org.EmailKey(person(i)), now))
				if wait = sooner(wait, next); next == 0 {
					f.address.Allow(from(i/nodes), now)
					f.network.Allow(from(i/nodes), now)
					f.account.Allow(org.EmailKey(person(i)), now)
					return 0
				}
			}
			return wait
		}
	}
	for _, l := range []struct {
		name  string
		lasts time.Duration
		try   func(time.Time) time.Duration
		want  int
		said  bool
	}{
		{"an account, from an address", 15 * time.Minute, failing(1, "signin", ada, one), 10, false},
		{"an account, from an address, for a month", month, failing(1, "signin", ada, one), 28_800, true},
		{"an account, from ten addresses", time.Hour, failing(1, "signin", ada, ten), 100, false},
		{"an account, from a /48", time.Hour, failing(1, "signin", ada, network), 100, false},
		{"an account, at three nodes", time.Hour, failing(3, "signin", ada, ten), 300, false},
		{"an account, for a month", month, failing(1, "signin", ada, ten), 72_000, true},
		{"an address", 10 * time.Minute, failing(1, "signin", each, one), 60, false},
		{"ten addresses", 10 * time.Minute, failing(1, "signin", each, ten), 600, false},
		{"an address, at three nodes", 10 * time.Minute, failing(3, "signin", each, one), 180, false},
		{"second factors, from an address", 15 * time.Minute, failing(1, "second", ada, one), 10, false},
		{"second factors, from ten addresses", time.Hour, failing(1, "second", ada, ten), 20, false},
		{"second factors, from a /48", time.Hour, failing(1, "second", ada, network), 20, false},
		{"second factors, at three nodes", time.Hour, failing(3, "second", ada, ten), 60, false},
		{"mails to an email", time.Hour, forgetting(1, ada, ten), 3, false},
		{"mails to an email, from a /48", time.Hour, forgetting(1, ada, network), 3, false},
		{"mails to an email, for a month", month, forgetting(1, ada, ten), 2_160, true},
		{"mails from an address", time.Hour, forgetting(1, each, one), 20, false},
		{"mails from ten addresses", time.Hour, forgetting(1, each, ten), 200, false},
		{"mails from a /48", time.Hour, forgetting(1, each, network), 100, false},
		{"mails, at three nodes", time.Hour, forgetting(3, each, one), 60, false},
	} {
		if got := patient(l.lasts, l.try); got != l.want {
			t.Errorf("%s: %d in %v, want %d", l.name, got, l.lasts, l.want)
		}
		if text := fmt.Sprintf("%d,%03d", l.want/1000, l.want%1000); l.said && !strings.Contains(string(doc), text) {
			t.Errorf("%s: docs/limits.md does not say %s", l.name, text)
		}
	}
}
