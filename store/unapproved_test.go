package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/query"
)

func from(network string) Origin { return Origin{Network: netip.MustParsePrefix(network)} }

func (h house) registerFrom(t testing.TB, id string, o Origin) {
	t.Helper()
	c := client.Client{ID: id, Name: "From " + id, RedirectURIs: []string{redirect}, IssuedAt: h.Now().Unix()}
	if err := h.AddClient(ctx, c, o, Act{}); err != nil {
		t.Fatal(err)
	}
}

// Beyond a fiftieth of either bound a network has a thousandth of both.
func TestRoomForOneMoreClient(t *testing.T) {
	w := facts.Weight{Network: facts.BlockOf("192.0.2.0/24"), Bytes: 100}
	for _, c := range []struct {
		name      string
		there, of facts.Held
		w         facts.Weight
		shares    int
		want      string
	}{
		{"nobody waits", facts.Held{}, facts.Held{}, w, 1, ""},
		{"one network, below pressure", facts.Held{Clients: UnapprovedPressure - 1, Bytes: 0}, facts.Held{Clients: UnapprovedPressure - 1, Bytes: 0}, w, 1, ""},
		{"under pressure, and a new network", facts.Held{Clients: UnapprovedPressure, Bytes: 0}, facts.Held{}, w, 1, ""},
		{"under pressure, the last of its share", facts.Held{Clients: UnapprovedPressure, Bytes: 0}, facts.Held{Clients: networkClients - 1, Bytes: 0}, w, 1, ""},
		{"under pressure, its share is used up", facts.Held{Clients: UnapprovedPressure, Bytes: 0}, facts.Held{Clients: networkClients, Bytes: 0}, w, 1, "network's clients"},
		{"twice the share", facts.Held{Clients: UnapprovedPressure, Bytes: 0}, facts.Held{Clients: networkClients, Bytes: 0}, w, 2, ""},
		{"twice the share is used up", facts.Held{Clients: UnapprovedPressure, Bytes: 0}, facts.Held{Clients: 2 * networkClients, Bytes: 0}, w, 2, "network's clients"},
		{"pressure by bytes", facts.Held{Clients: 1, Bytes: UnapprovedPressureBytes}, facts.Held{Clients: networkClients, Bytes: 0}, w, 1, "network's clients"},
		{"just below it", facts.Held{Clients: 1, Bytes: UnapprovedPressureBytes - 1}, facts.Held{Clients: networkClients, Bytes: 0}, w, 1, ""},
		{"its share of bytes, exactly", facts.Held{Clients: UnapprovedPressure, Bytes: 0}, facts.Held{Clients: 1, Bytes: networkBytes - 100}, w, 1, ""},
		{"one byte more", facts.Held{Clients: UnapprovedPressure, Bytes: 0}, facts.Held{Clients: 1, Bytes: networkBytes - 99}, w, 1, "network's bytes"},
		{"no network", facts.Held{Clients: UnapprovedPressure, Bytes: 0}, facts.Held{Clients: networkClients, Bytes: networkBytes}, facts.Weight{Bytes: 1}, 1, ""},
		{"the last of all", facts.Held{Clients: MaxUnapproved - 1, Bytes: 0}, facts.Held{}, w, 1, ""},
		{"one more than all", facts.Held{Clients: MaxUnapproved, Bytes: 0}, facts.Held{}, w, 1000, "clients"},
		{"the last bytes of all", facts.Held{Clients: 1, Bytes: MaxUnapprovedBytes - 100}, facts.Held{}, w, 1, ""},
		{"one more byte than all", facts.Held{Clients: 1, Bytes: MaxUnapprovedBytes - 99}, facts.Held{}, w, 1000, "bytes"},
	} {
		if got := room(c.there, c.of, c.w, c.shares); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestBlocks(t *testing.T) {
	seen := map[facts.Block]string{}
	for _, network := range []string{"192.0.2.0/24", "192.0.3.0/24", "0.0.0.0/24", "2001:db8:2::/48", "2001:db8:3::/48", "::/48", "c0:2::/48"} {
		b := facts.BlockOf(network)
		if b == 0 || seen[b] != "" {
			t.Errorf("%s is %x, as %q is", network, b, seen[b])
		}
		seen[b] = network
	}
	for _, none := range []string{"", "x", "192.0.2.0", "192.0.0.0/16", "2001:db8::/32"} {
		if b := facts.BlockOf(none); b != 0 {
			t.Errorf("%q is a network: %x", none, b)
		}
	}
}

// What is counted for each network and in bytes follows the rows: through
// approvals, deletions and the sweep, over a restart, and at another node.
func TestNetworksOfUnapprovedClientsAreCounted(t *testing.T) {
	h := furnished(t)
	h.registerFrom(t, "one", from("2001:db8:2::/48"))
	h.registerFrom(t, "two", from("2001:db8:2::/48"))
	h.registerFrom(t, "three", from("192.0.2.0/24"))
	count := func(h house, network string) facts.Held {
		if err := h.fresh(ctx); err != nil {
			t.Fatal(err)
		}
		h.db.Memory.RLock()
		defer h.db.Memory.RUnlock()
		return h.db.Memory.Waiting.Networks[facts.BlockOf(network)]
	}
	each := int64(4*len("From one") + len(redirect))
	want := func(when string, six, four int) {
		t.Helper()
		if got := count(h, "2001:db8:2::/48"); got != (facts.Held{Clients: six, Bytes: int64(six) * each}) {
			t.Errorf("%s: the /48 has %v, want %d clients", when, got, six)
		}
		if got := count(h, "192.0.2.0/24"); got.Clients != four {
			t.Errorf("%s: the /24 has %v, want %d clients", when, got, four)
		}
		h.same(t, when)
	}
	want("registered", 2, 1)
	if !embedded() {
		other := h.second(t)
		other.registerFrom(t, "elsewhere", from("2001:db8:4::/48"))
		h.registerFrom(t, "here", from("2001:db8:5::/48"))
		// The node that did nothing but register knows of the other's.
		h.db.Memory.RLock()
		n := h.db.Memory.Waiting.Networks[facts.BlockOf("2001:db8:4::/48")].Clients
		h.db.Memory.RUnlock()
		if got := count(other, "2001:db8:2::/48"); got.Clients != 2 || n != 1 {
			t.Errorf("another node counts %v, and this one %d of the other's", got, n)
		}
		other.Close()
	}
	h = h.reopen(t)
	want("after a restart", 2, 1)
	a := h.answer(9)
	a.Client = "one"
	h.live(t, a)
	want("one was approved", 1, 1)
	if err := h.SetClientEnabled(ctx, "two", false, Act{}); err != nil {
		t.Fatal(err)
	}
	want("one was disabled", 1, 1)
	if err := h.DeleteClient(ctx, "two", Act{}); err != nil {
		t.Fatal(err)
	}
	want("one was deleted", 0, 1)
	h.clock.add(client.UnapprovedRetention)
	if _, err := h.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	want("14 days later", 0, 0)
}

// Of 300 that register at once no more get in than there is room for, in all and
// of one network.
func TestRegistrationsAtOnceKeepTheBounds(t *testing.T) {
	for _, c := range []struct {
		name    string
		waiting facts.Held
		of      facts.Held // its network
		want    int64
	}{
		{"in all", facts.Held{Clients: MaxUnapproved - 3, Bytes: 0}, facts.Held{}, 3},
		{"one network", facts.Held{Clients: UnapprovedPressure, Bytes: 0}, facts.Held{Clients: networkClients - 5, Bytes: 0}, 5},
		{"one network, by bytes", facts.Held{Clients: UnapprovedPressure, Bytes: 0}, facts.Held{Clients: 0, Bytes: networkBytes - 4*int64(len(redirect))}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := furnished(t)
			o := from("2001:db8:2::/48")
			h.db.Memory.Lock()
			h.db.Memory.Waiting.Held = c.waiting
			h.db.Memory.Waiting.Networks = map[facts.Block]facts.Held{facts.BlockOfPrefix(o.Network): c.of}
			h.db.Memory.Unlock()
			var in atomic.Int64
			var all sync.WaitGroup
			for i := range 300 {
				all.Go(func() {
					err := h.AddClient(ctx, client.Client{ID: fmt.Sprint("c", i), RedirectURIs: []string{redirect}, IssuedAt: h.Now().Unix()}, o, Act{})
					switch {
					case err == nil:
						in.Add(1)
					case !errors.Is(err, ErrUnavailable):
						t.Error(err)
					}
				})
			}
			all.Wait()
			if in.Load() != c.want {
				t.Errorf("%d got in, want %d", in.Load(), c.want)
			}
			if h.db.Memory.Arriving.Held != (facts.Held{}) || len(h.db.Memory.Arriving.Networks) != 0 {
				t.Errorf("still arriving: %+v", h.db.Memory.Arriving)
			}
			other := client.Client{ID: "other", RedirectURIs: []string{redirect}, IssuedAt: h.Now().Unix()}
			if err := h.AddClient(ctx, other, from("2001:db8:3::/48"), Act{}); (err == nil) != (c.waiting.Clients == UnapprovedPressure) {
				t.Errorf("another network: %v", err)
			}
		})
	}
}

// That there is no room is not said before another node is asked for what it has
// deleted.
func TestRoomThatAnotherNodeMade(t *testing.T) {
	all := nodes(t, 2)
	first, second := all[0], all[1]
	second.db.Memory.Lock()
	second.db.Memory.Waiting.Clients = MaxUnapproved // quill is one of them
	second.db.Memory.Unlock()
	add := func(id string) error {
		return second.AddClient(ctx, client.Client{ID: id, RedirectURIs: []string{redirect}, IssuedAt: second.Now().Unix()}, Origin{}, Act{})
	}
	if err := add("before"); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("there is room before: %v", err)
	}
	if err := first.DeleteClient(ctx, "quill", Act{}); err != nil {
		t.Fatal(err)
	}
	if err := add("new"); err != nil {
		t.Error(err)
	}
	if err := add("one more"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("more than there is room for: %v", err)
	}
	if second.db.Memory.Arriving.Held != (facts.Held{}) {
		t.Errorf("still arriving: %+v", second.db.Memory.Arriving)
	}
}

// A network's clients, or those of a time, are deleted together. What somebody
// approved, disabled or preregistered stays.
func TestDeleteUnapproved(t *testing.T) {
	h := furnished(t) // with quill, of no network
	flood := from("2001:db8:2::/48")
	start := h.Now().Unix()
	for i := range 2*query.Batch + 3 {
		h.registerFrom(t, fmt.Sprint("flood", i), flood)
	}
	for _, id := range []string{"approved", "disabled", "wide"} {
		h.registerFrom(t, id, flood)
	}
	a := h.answer(9)
	a.Client = "approved"
	h.live(t, a)
	if err := h.SetClientEnabled(ctx, "disabled", false, Act{}); err != nil {
		t.Fatal(err)
	}
	h.clock.add(time.Hour)
	h.registerFrom(t, "later", flood)
	h.registerFrom(t, "neighbour", from("2001:db8:3::/48"))
	h.registerFrom(t, "four", from("192.0.2.0/24"))
	network := func(s string) netip.Prefix { return netip.MustParsePrefix(s) }
	hour := start + 3600
	for _, c := range []struct {
		f    UnapprovedFilter
		want int
	}{
		{UnapprovedFilter{}, 2*query.Batch + 8},
		{UnapprovedFilter{Network: network("2001:db8:2::/48")}, 2*query.Batch + 5},
		{UnapprovedFilter{Network: network("2001:db8::/32")}, 2*query.Batch + 6},
		{UnapprovedFilter{Network: network("0.0.0.0/0")}, 1},
		{UnapprovedFilter{Network: network("192.0.3.0/24")}, 0},
		{UnapprovedFilter{Network: network("2001:db8:2::/64")}, 0}, // narrower than what is stored
		{UnapprovedFilter{Since: hour}, 3},
		{UnapprovedFilter{Until: hour}, 2*query.Batch + 5},
		{UnapprovedFilter{Since: hour, Until: hour}, 0},
		{UnapprovedFilter{Network: network("2001:db8:2::/48"), Until: hour}, 2*query.Batch + 4},
	} {
		n, most, err := h.DeleteUnapproved(ctx, c.f, true, Act{})
		if n != c.want || err != nil || c.want > 3 && most[0].Clients < 2*query.Batch {
			t.Errorf("%v: %d, %v, %v; want %d", c.f, n, most, err, c.want)
		}
	}
	// What changed after it was found stays.
	if n, err := h.forgetUnapproved([]string{"approved", "disabled", "nobody", "flood1"}); n != 1 || err != nil {
		t.Errorf("of a batch that is stale: %d, %v", n, err)
	}
	before := h.db.Memory.Waiting.Clients
	cut := gone{ctx, func() bool { return h.db.Memory.Waiting.Clients < before }}
	some, _, err := h.DeleteUnapproved(cut, UnapprovedFilter{Network: network("2001:db8:2::/48"), Until: hour}, false, Act{Actor: "operator", Reason: "cut off"})
	if !errors.Is(err, context.Canceled) || some != query.Batch {
		t.Errorf("cut off: %d, %v", some, err)
	}
	n, _, err := h.DeleteUnapproved(ctx, UnapprovedFilter{Network: network("2001:db8:2::/48"), Until: hour}, false, Act{Actor: "operator", Reason: "a flood"})
	if err != nil || n+some != 2*query.Batch+3 || h.db.Memory.Waiting.Clients != before-n-some {
		t.Errorf("deleted %d and %d, %v; %d wait, and before it %d", some, n, err, h.db.Memory.Waiting.Clients, before)
	}
	for id, want := range map[string]ClientState{
		"flood0": ClientUnknown, "wide": ClientUnknown, "approved": ClientEnabled, "disabled": ClientDisabled,
		"later": ClientEnabled, "neighbour": ClientEnabled, "four": ClientEnabled, "quill": ClientEnabled,
	} {
		if got, err := h.ClientState(ctx, id); got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", id, got, err, want)
		}
	}
	entries, _, err := h.Events(ctx, EventFilter{Kinds: []journal.Kind{"operator_changed"}})
	if err != nil || len(entries) != 2 || entries[0].Reason != "a flood" ||
		!strings.HasPrefix(entries[0].Detail, fmt.Sprintf("%d clients deleted that nobody had approved: of 2001:db8:2::/48, until ", n)) ||
		entries[1].Reason != "cut off" || !strings.HasPrefix(entries[1].Detail, fmt.Sprint(some, " clients deleted ")) || !strings.HasSuffix(entries[1].Detail, ", then broken off") {
		t.Errorf("journal: %+v, %v", entries, err)
	}
	h.same(t, "after deleting")
}

// gone is the context of somebody who stops waiting once something is so.
type gone struct {
	context.Context
	when func() bool
}

func (g gone) Err() error {
	if g.when() {
		return context.Canceled
	}
	return g.Context.Err()
}

// goneAtAll is the same for statements too.
type goneAtAll struct{ gone }

func (g goneAtAll) Done() <-chan struct{} {
	if g.when() {
		done := make(chan struct{})
		close(done)
		return done
	}
	return g.Context.Done()
}

// What waits for its first approval grows by its document no farther than one more client
// would have room.
func TestDocumentsGrowWithinTheBounds(t *testing.T) {
	h, of := furnished(t), facts.BlockOf("192.0.2.0/24")
	h.db.Memory.Arriving.Add(facts.Weight{Network: facts.BlockOf("198.51.100.0/24"), Bytes: UnapprovedPressureBytes}, 1)
	put := func(n int, uris ...string) error {
		c := client.Of(client.Metadata{RedirectURIs: uris}, fmt.Sprintf("https://assistant.example/%d", n), h.Now(), h.Now())
		_, err := h.PutDocument(ctx, c, from("192.0.2.0/24"), Act{Actor: "system"})
		return err
	}
	const all = 200
	for n := range all {
		if err := put(n, redirect); err != nil {
			t.Fatal(err)
		}
	}
	long := redirect + strings.Repeat("a", 1900)
	grown := 0
	for ; grown < all; grown++ {
		if err := put(grown, long+"1", long+"2", long+"3", long+"4"); errors.Is(err, ErrUnavailable) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if got := h.db.Memory.Waiting.Networks[of]; grown == 0 || grown == all || got.Clients != all || got.Bytes > networkBytes || got.Bytes < networkBytes-10_000 {
		t.Errorf("%d have grown, and the network holds %+v", grown, got)
	}
	if c, err := h.Client(ctx, fmt.Sprintf("https://assistant.example/%d", grown)); err != nil || len(c.RedirectURIs) != 1 {
		t.Errorf("the one that may not: %+v, %v", c, err)
	}
	if err := put(0, redirect); err != nil {
		t.Errorf("one that shrinks: %v", err)
	}
	if err := put(grown, long+"1", long+"2", long+"3", long+"4"); err != nil {
		t.Errorf("one that has room again: %v", err)
	}
	if got := h.db.Memory.Arriving.Networks[of]; got != (facts.Held{}) {
		t.Errorf("room is still held: %+v", got)
	}
	h.same(t, "in the end")
}
