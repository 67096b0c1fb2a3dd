package limit

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Any history of one address gets the answers of the list of times.
func TestSharedFollowsTheModel(t *testing.T) {
	windows := sharedWindows(t)
	random := rand.New(rand.NewPCG(3, 4))
	for range 12 {
		l := Limit{N: 1 + random.IntN(40), Window: time.Duration(1+random.IntN(100)) * time.Second}
		w, m := windows.addresses(l, nil), newModel(l)
		now := noon
		for range 300 {
			switch random.IntN(6) {
			case 0:
				now = now.Add(time.Duration(random.IntN(1_000_000)) * time.Microsecond)
			case 1:
				now = now.Add(l.Window / time.Duration(1+random.IntN(50))).Truncate(time.Microsecond).Add(789)
			case 2:
				now = now.Add(l.Window - time.Duration(random.IntN(2))*time.Microsecond)
			}
			follow(t, w, m, client, now)
		}
	}
}

// Of many at once, spread over three nodes whose clocks are minutes apart, exactly N
// are let through in the sum.
func TestI12_TheLimitHoldsInTheSum(t *testing.T) {
	r := newServer(t)
	clocks := []time.Duration{0, 5 * time.Minute, -5 * time.Minute}
	var passed, ofName atomic.Int64
	var group sync.WaitGroup
	for _, ahead := range clocks {
		s := r.share(t, ValkeyOptions{timeout: time.Minute, Nodes: func() int { return len(clocks) }})
		w, names := s.Addresses("token", Token, nil), s.Names("api", Limit{100, time.Hour})
		for range 8 {
			group.Go(func() {
				for range 60 {
					if ok, _ := w.Allow(client, time.Now().Add(ahead)); ok {
						passed.Add(1)
					}
					if ok, _ := names.Allow("o1", time.Now().Add(ahead)); ok {
						ofName.Add(1)
					}
				}
			})
		}
		t.Cleanup(func() {
			if s.Away() {
				t.Error("the server was away")
			}
		})
	}
	group.Wait()
	if passed.Load() != 300 || ofName.Load() != 100 {
		t.Errorf("%d and %d let through by three nodes, want 300 and 100", passed.Load(), ofName.Load())
	}
}

// What is refused tells the wait by the server's time, whatever the nodes' clocks say.
func TestI12_TheWaitIsByTheServersTime(t *testing.T) {
	r := newServer(t)
	one := r.share(t, ValkeyOptions{timeout: time.Minute}).Addresses("token", Limit{2, time.Minute}, nil)
	other := r.share(t, ValkeyOptions{timeout: time.Minute}).Addresses("token", Limit{2, time.Minute}, nil)
	begun := time.Now()
	let(t, one, client, 2, time.Now().Add(5*time.Minute))
	if wait := refused(t, other, client, time.Now().Add(-5*time.Minute)); wait < time.Minute-time.Since(begun) || wait > time.Minute {
		t.Errorf("wait %s, want the minute", wait)
	}
}

// Two limits of one server, and two names, do not touch each other.
func TestSharedCountersAreApart(t *testing.T) {
	s := newServer(t).share(t, ValkeyOptions{timeout: time.Minute})
	l := Limit{1, time.Minute}
	let(t, s.Addresses("a", l, nil), client, 1, noon)
	let(t, s.Addresses("b", l, nil), client, 1, noon)
	refused(t, s.Addresses("a", l, nil), client, noon)
	let(t, s.Addresses("a", l, nil), netip.Addr{}, 1, noon)
	let(t, s.Addresses("a", l, nil), addr("2001:db8::1"), 1, noon)
	refused(t, s.Addresses("a", l, nil), addr("2001:db8::2"), noon)
}

// changes follows what a node tells of its server.
type changes struct {
	away atomic.Bool
	n    atomic.Int32
}

func (c *changes) changed(away bool) { c.away.Store(away); c.n.Add(1) }

// wait waits until the server is away or there.
func (c *changes) wait(t *testing.T, away bool) {
	t.Helper()
	for range 6000 {
		if c.away.Load() == away {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("away is not %v", away)
}

func TestI13_EachNodesMemoryTakesOver(t *testing.T) {
	r := newServer(t)
	l := Limit{20, time.Hour}
	var nodes [3]*Addresses
	var told [3]changes
	var logs [3]logged
	for i := range nodes {
		s := r.share(t, ValkeyOptions{timeout: time.Minute, Nodes: func() int { return 3 }, Changed: told[i].changed, Log: logs[i].logger()})
		nodes[i] = s.Addresses("register", l, nil)
		let(t, nodes[i], client, 3, time.Now())
	}
	r.kill()
	for i, w := range nodes {
		let(t, w, addr("192.0.2.77"), 6, time.Now()) // 20 by 3
		refused(t, w, addr("192.0.2.77"), time.Now())
		let(t, w, client, 3, time.Now()) // three of its share are gone
		refused(t, w, client, time.Now())
		if !told[i].away.Load() {
			t.Errorf("node %d does not say that the server is away", i)
		}
	}
	r.start(t)
	for i := range nodes {
		told[i].wait(t, false)
		if got := strings.Count(logs[i].String(), "\n"); got != 2 || told[i].n.Load() != 2 {
			t.Errorf("node %d logged %d lines and told %d changes, want 2 and 2:\n%s", i, got, told[i].n.Load(), logs[i].String())
		}
	}
	// What was let through meanwhile is in no common count: the share still holds.
	for _, w := range nodes {
		refused(t, w, client, time.Now())
	}
	// And the common count holds again: 20 and not one more, whoever asks.
	passed := 0
	for i := range 60 {
		if ok, _ := nodes[i%3].Allow(addr("198.51.100.5"), time.Now()); ok {
			passed++
		}
	}
	if passed != 18 {
		t.Errorf("%d let through by the three together, want 18: each its share of 6", passed)
	}
}

// A window after the server's return the share is over, and the sum alone counts.
func TestI13_TheShareEndsAWindowAfterTheReturn(t *testing.T) {
	for window := 2 * time.Second; !shareEnds(t, window); window *= 2 {
		if window > time.Minute {
			t.Fatal("this machine is too busy to count anything within a window")
		}
	}
}

// shareEnds gives false when the window was over before all was asked in it.
func shareEnds(t *testing.T, window time.Duration) bool {
	t.Helper()
	r := newServer(t)
	var told changes
	s := r.share(t, ValkeyOptions{timeout: time.Minute, Nodes: func() int { return 10 }, Changed: told.changed})
	w := s.Addresses("token", Limit{100, window}, nil)
	share := func(a netip.Addr, since time.Time) bool {
		passed := 0
		for range 11 {
			if ok, _ := w.Allow(a, time.Now()); ok {
				passed++
			}
		}
		if time.Since(since) >= window {
			return false
		}
		if passed != 10 {
			t.Errorf("%d of %s let through, want 10", passed, a)
		}
		return true
	}
	r.kill()
	if !share(client, time.Now()) {
		return false
	}
	back := time.Now() // or later
	r.start(t)
	told.wait(t, false)
	if !share(addr("192.0.2.1"), back) {
		return false
	}
	time.Sleep(window)
	let(t, w, addr("192.0.2.1"), 100, time.Now())
	return true
}

// A server that hangs stalls nobody for long: those who ask at once wait a moment, more of
// them than there are connections, and the rest not at all.
func TestI13_AHangingServerStallsNobody(t *testing.T) {
	r := newServer(t)
	var told changes
	w := r.share(t, ValkeyOptions{Changed: told.changed}).Addresses("token", Token, nil)
	let(t, w, client, 1, time.Now())
	if err := r.process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var passed atomic.Int32
	var group sync.WaitGroup
	for range 2000 {
		group.Go(func() {
			if ok, _ := w.Allow(client, time.Now()); ok {
				passed.Add(1)
			}
		})
	}
	group.Wait()
	let(t, w, addr("192.0.2.1"), 300, time.Now()) // 300 times the time limit would be minutes
	if passed.Load() != 299 || !told.away.Load() {
		t.Errorf("%d let through, away %v; want 299 and away", passed.Load(), told.away.Load())
	}
	if err := r.process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	told.wait(t, false)
}

// A server that answers, and cannot count, is away as well.
func TestI13_AServerThatCannotWrite(t *testing.T) {
	r := newServer(t)
	var told changes
	s := r.share(t, ValkeyOptions{timeout: time.Minute, Changed: told.changed})
	w := s.Addresses("token", Limit{3, time.Hour}, nil)
	let(t, w, client, 1, time.Now())
	for _, fault := range [][2]string{{"maxmemory", "1"}} {
		if got := r.command("CONFIG", "SET", fault[0], fault[1]); got != "+OK" {
			t.Fatalf("CONFIG SET %v: %s", fault, got)
		}
		let(t, w, client, 2, time.Now())
		refused(t, w, client, time.Now())
		if !s.Away() {
			t.Errorf("%v: the server is not away", fault)
		}
		if got := r.command("CONFIG", "SET", fault[0], "0"); got != "+OK" {
			t.Fatalf("CONFIG SET %v: %s", fault, got)
		}
		told.wait(t, false)
	}
	// The scripts of a server may be forgotten while it lives.
	if got := r.command("SCRIPT", "FLUSH"); got != "+OK" {
		t.Fatalf("SCRIPT FLUSH: %s", got)
	}
	let(t, w, addr("192.0.2.1"), 3, time.Now())
	if s.Away() {
		t.Error("a forgotten script took the server away")
	}
}

// A server that is not there yet stops no start.
func TestI13_AServerThatIsNotThereYet(t *testing.T) {
	r := newServer(t)
	r.kill()
	var told changes
	var log logged
	s := r.share(t, ValkeyOptions{Nodes: func() int { return 2 }, Changed: told.changed, Log: log.logger()})
	if !s.Away() || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("away %v, logged %q; want it away and one line", s.Away(), log.String())
	}
	let(t, s.Addresses("token", Limit{4, time.Hour}, nil), client, 2, time.Now())
	r.start(t)
	told.wait(t, false)
}

func TestNoSharedCounterIsMemory(t *testing.T) {
	var s *Valkey
	w := s.Addresses("token", Limit{1, time.Minute}, nil)
	let(t, w, client, 1, noon)
	refused(t, w, client, noon)
	if names := s.Names("api", API); names.Limit() != API || names.remote != nil {
		t.Error("names are not in memory")
	}
	if s.Away() {
		t.Error("what is not there is away")
	}
	s.Close()
}

func TestClosedCountsInMemory(t *testing.T) {
	s := newServer(t).share(t, ValkeyOptions{timeout: time.Minute})
	w := s.Addresses("token", Limit{2, time.Minute}, nil)
	let(t, w, client, 1, noon)
	s.Close()
	s.Close()
	let(t, w, client, 1, noon)
	refused(t, w, client, noon)
}

func (r *testServer) size(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(r.command("DBSIZE"), ":"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Memory in the server is bounded: as many keys as were meant, a quarter more for
// networks, and nobody who is remembered is forgotten for a stranger.
func TestI11_SharedMemoryIsBounded(t *testing.T) {
	const room = 100
	r := newServer(t)
	l := Limit{5, 10 * time.Minute}
	s := r.share(t, ValkeyOptions{timeout: time.Minute, room: room})
	w := s.Addresses("token", l, nil)
	residents := make([]netip.Addr, 50)
	for i := range residents {
		residents[i] = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		let(t, w, residents[i], 1+i%5, noon)
	}
	for i := range 3000 {
		a := stranger(i % 1000)
		if i%3 == 0 {
			a = netip.AddrFrom4([4]byte{192, 0, 2, 100 + byte(i%100)}) // neighbours
		}
		w.Allow(a, noon)
	}
	names := s.Names("signin", Limit{3, time.Minute})
	for i := range 500 {
		names.Allow(fmt.Sprint("stranger ", i), noon)
	}
	// 1,000 networks /16 at most are possible of as many strangers, and 500 crowds.
	if got := r.size(t); got > room+room/4+1000+500 {
		t.Errorf("%d keys", got)
	}
	for i, a := range residents {
		if got := w.Remaining(a, noon); got != 4-i%5 {
			t.Fatalf("resident %d has %d left, want %d", i, got, 4-i%5)
		}
	}
	// Whoever found no room is counted with the /24, and stays there.
	wide := 0
	for i := range 1000 {
		if len := r.command("LLEN", "grantkeeper:token:"+networkOf(stranger(i)).wider(0).String()); len != ":0" {
			wide++
		}
	}
	if wide == 0 {
		t.Error("no network was counted")
	}
}

// A key has no more times than the limit has requests, and lives for a window.
func TestSharedKeysEnd(t *testing.T) {
	r := newServer(t)
	s := r.share(t, ValkeyOptions{timeout: time.Minute})
	w := s.Addresses("token", Limit{50, time.Hour}, nil)
	for range 200 {
		w.Allow(client, time.Now())
	}
	key := "grantkeeper:token:" + client.String() + "/32"
	if got := r.command("LLEN", key); got != ":50" {
		t.Errorf("%s times after 200 requests, want 50", got)
	}
	number := func(words ...string) int64 {
		n, err := strconv.ParseInt(strings.TrimPrefix(r.command(words...), ":"), 10, 64)
		if err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		return n
	}
	newest := r.value("LINDEX", key, "-1")
	at, err := strconv.ParseInt(newest, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	const hour = 3600e6
	if ends := number("PEXPIRETIME", key); ends*1000 < at+hour || ends*1000 > at+hour+2000 {
		t.Errorf("the key of %d us ends at %d ms, want an hour later", at, ends)
	}
	s.Addresses("brief", Limit{50, time.Second}, nil).Allow(client, time.Now())
	time.Sleep(1100 * time.Millisecond)
	if got := r.command("EXISTS", "grantkeeper:brief:"+client.String()+"/32"); got != ":0" {
		t.Error("the key outlives its window")
	}
}

// Time that goes back in the server counts as the newest time that it has.
func TestSharedTimeThatGoesBack(t *testing.T) {
	w := sharedWindows(t).addresses(Limit{2, time.Minute}, nil)
	let(t, w, client, 1, after(30))
	let(t, w, client, 1, noon)
	refused(t, w, client, after(89))
	let(t, w, client, 2, after(90))
}

// Who was counted with neighbours stays there while anything of it counts: room that
// comes later is no second budget.
func TestSharedRoomIsNoSecondBudget(t *testing.T) {
	const room = 40
	r := newServer(t)
	w := r.share(t, ValkeyOptions{timeout: time.Minute, room: room}).Addresses("token", Limit{5, 10 * time.Minute}, nil)
	for i := range room {
		let(t, w, stranger(i), 1, noon)
	}
	let(t, w, addr("192.0.2.1"), 3, noon)
	if got := r.command("EXISTS", "grantkeeper:token:192.0.2.0/24"); got != ":1" {
		t.Fatalf("the network is not counted: %s", got)
	}
	for i := range room {
		r.command("DEL", "grantkeeper:token:"+networkOf(stranger(i)).String())
	}
	let(t, w, addr("192.0.2.1"), 2, noon)
	refused(t, w, addr("192.0.2.1"), noon)
	let(t, w, addr("198.51.100.1"), 5, noon) // has room of its own
	if got := r.command("EXISTS", "grantkeeper:token:198.51.100.1/32"); got != ":1" {
		t.Errorf("a new one is not counted on its own: %s", got)
	}
}

func TestParseServer(t *testing.T) {
	for _, address := range []string{
		"redis://127.0.0.1", "redis://127.0.0.1:6379", "redis://[::1]:6379/3", "valkey://limits.example/1",
		"rediss://name:secret@limits.example:6380/0", "valkeys://:secret@limits.example",
	} {
		s, err := ParseServer(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if tls := s.tls != nil; tls != strings.HasPrefix(address, "rediss:") && tls != strings.HasPrefix(address, "valkeys:") {
			t.Errorf("%s: TLS %v", address, tls)
		}
	}
	for _, address := range []string{
		"", "redis:", "redis://", "127.0.0.1:6379", "http://127.0.0.1", "unix:///run/redis.sock", "redis://h/x", "redis://h/-1", "redis://h/0/1",
		"redis://h:0", "redis://h:99999", "redis://h:x", "redis://user:hidden@h?skip_verify=true", "redis://user:hidden@h/0?db=1", "redis://user:hidden@h#x",
		"redis://user:hidden%zz@h", "://user:hidden@h",
	} {
		_, err := ParseServer(address)
		if err == nil {
			t.Errorf("%q is taken", address)
		} else if strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: the error has the password: %v", address, err)
		}
	}
}

// A password that is wrong is not told, and neither is the right one.
func TestSharedTellsNoPassword(t *testing.T) {
	r := newServer(t)
	r.kill()
	r.start(t, "--requirepass", "very-secret-one")
	var log logged
	server, err := ParseServer(strings.Replace(r.url(), "://", "://:not-that-secret@", 1))
	if err != nil {
		t.Fatal(err)
	}
	s := Connect(server, ValkeyOptions{Log: log.logger()})
	defer s.Close()
	if !s.Away() || !strings.Contains(log.String(), "WRONGPASS") || strings.Contains(log.String(), "secret") {
		t.Errorf("away %v, log %s", s.Away(), log.String())
	}
	server, _ = ParseServer(strings.Replace(r.url(), "://", "://:very-secret-one@", 1))
	right := Connect(server, ValkeyOptions{timeout: time.Minute})
	defer right.Close()
	if right.Away() {
		t.Error("away with the right password")
	}
}

func BenchmarkValkey(b *testing.B) {
	r := newServer(b)
	w := r.share(b, ValkeyOptions{timeout: time.Minute}).Names("api", Limit{1_000_000, time.Hour})
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			w.Allow("o1", time.Now())
		}
	})
}

// A server that drops counters when its memory is full is told from one that does
// not, when a node connects.
func TestServerThatForgets(t *testing.T) {
	r := newServer(t)
	for _, tt := range []struct {
		options []string
		want    bool
	}{
		{nil, false},
		{[]string{"--maxmemory", "64mb"}, false},
		{[]string{"--maxmemory-policy", "allkeys-lru"}, false}, // of a memory without bounds
		{[]string{"--maxmemory", "64mb", "--maxmemory-policy", "volatile-ttl"}, true},
	} {
		r.kill()
		r.start(t, tt.options...)
		var log strings.Builder
		s := r.share(t, ValkeyOptions{Log: slog.New(slog.NewTextHandler(&log, nil)), timeout: time.Minute})
		if s.Forgets() != tt.want || strings.Contains(log.String(), "noeviction") != tt.want {
			t.Errorf("%v: %v, %s", tt.options, s.Forgets(), log.String())
		}
		s.Close()
	}
	if (*Valkey)(nil).Forgets() {
		t.Error("memory forgets")
	}
}
