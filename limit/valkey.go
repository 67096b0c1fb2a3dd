package limit

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// answerTimeout is how long a request may wait for the shared counter.
	answerTimeout = 500 * time.Millisecond
	// retryInterval is how long a server that did not answer is left alone. It is
	// longer than answerTimeout: by then no request waits for the old connections.
	retryInterval = time.Second
)

// ValkeyOptions are for [Connect]. The zero value will do.
type ValkeyOptions struct {
	Log *slog.Logger // is told when the server goes away and comes back; nil discards

	// Nodes is how many nodes live now, this one included; nil is one.
	Nodes func() int
	// Changed is told when the server goes away and comes back; nil is nobody.
	Changed func(away bool)

	timeout time.Duration              // 0 is answerTimeout
	room    int                        // 0 is Remembered
	now     func(time.Time) (us int64) // of a test: the time to count by; nil is the server's own
}

// Valkey makes counters that several nodes have in common, so that a limit holds
// in their sum. The server's own clock counts, so nodes need not agree on the time.
//
// While the server does not answer, each node counts by itself and lets through
// its share: a limit divided by the nodes that live, at least one request. It asks
// again every second, and nobody waits for that. From the server's return on,
// the node's share holds beside the common count for as long as the window of the
// limit, because what was let through meanwhile is in nobody's count but its own.
//
// Memory there, for each limit: a key for each address or name that was let
// through within the window, with at most as many times as the limit has requests,
// about ten bytes each. Where the database has [Remembered] keys, new ones are
// counted with their neighbours, as [Addresses] and [Names] do in memory.
//
// The nil Valkey makes counters in memory, which are this node's alone. It is
// safe for use by many goroutines.
type Valkey struct {
	ValkeyOptions
	server  *Server
	client  atomic.Pointer[redis.Client] // nil until the server answered once
	forgets atomic.Bool                  // whether it evicts counters, as it said last

	born     time.Time
	away     atomic.Bool
	returned atomic.Int64 // nanoseconds since born; 0 is never

	mu     sync.Mutex
	closed bool
	done   chan struct{}
	probes sync.WaitGroup
}

// Connect connects to the server. One that cannot be reached yet is away, and is no
// error.
func Connect(server *Server, o ValkeyOptions) *Valkey {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Nodes == nil {
		o.Nodes = func() int { return 1 }
	}
	if o.Changed == nil {
		o.Changed = func(bool) {}
	}
	if o.timeout == 0 {
		o.timeout = answerTimeout
	}
	if o.room == 0 {
		o.room = Remembered
	}
	v := &Valkey{ValkeyOptions: o, server: server, born: time.Now(), done: make(chan struct{})}
	if err := v.connect(); err != nil {
		v.lost(err)
	}
	v.warn()
	return v
}

// connect puts new connections in the place of the old ones, of which each may be
// dead. It counts a request of its own first, so that a server which cannot write,
// or runs no scripts, is as good as away.
func (v *Valkey) connect() error {
	c := v.server.client()
	if _, _, err := v.run(c, []string{"grantkeeper:probe"}, 1000, 1_000_000, 1, v.room, 0); err != nil {
		c.Close()
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), v.timeout)
	defer cancel()
	memory := c.InfoMap(ctx, "memory") // an ACL may forbid it, then nothing is known
	policy := memory.Item("Memory", "maxmemory_policy")
	v.forgets.Store(policy != "" && policy != "noeviction" && memory.Item("Memory", "maxmemory") != "0")
	if old := v.client.Swap(c); old != nil {
		old.Close()
	}
	return nil
}

// Forgets reports whether the server drops counters when its memory is full, which
// lets strangers through, instead of refusing new ones.
func (v *Valkey) Forgets() bool { return v != nil && v.forgets.Load() }

func (v *Valkey) warn() {
	if v.Forgets() {
		v.Log.Warn("the shared rate limits do not hold when their server'v memory is full: it drops counters; set maxmemory-policy noeviction there")
	}
}

// Close ends the connections. Counters that are asked later count in memory.
func (v *Valkey) Close() {
	if v == nil {
		return
	}
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return
	}
	v.closed = true
	close(v.done)
	v.mu.Unlock()
	v.away.Store(true)
	v.probes.Wait()
	if c := v.client.Load(); c != nil {
		c.Close()
	}
}

// Away reports whether this node counts by itself, because the server does not
// answer.
func (v *Valkey) Away() bool { return v != nil && v.away.Load() }

// Addresses makes a counter for each client address. The name tells it from other
// counters of the same server, and is the same on all nodes.
func (v *Valkey) Addresses(name string, l Limit, networks Networks) *Addresses {
	w := NewAddresses(l, networks)
	w.remote = v.counted(name, l)
	return w
}

// Blocks makes a counter for each /24 and /48, as [NewBlocks] does.
func (v *Valkey) Blocks(name string, l Limit, networks Networks) *Addresses {
	w := NewBlocks(l, networks)
	w.remote = v.counted(name, l)
	return w
}

// Names makes a counter for each name, as [Valkey.Addresses] does for addresses.
func (v *Valkey) Names(name string, l Limit) *Names {
	w := NewNames(l)
	w.remote = v.counted(name, l)
	return w
}

func (v *Valkey) counted(name string, l Limit) *remote {
	if v == nil {
		return nil
	}
	return &remote{Valkey: v, prefix: "grantkeeper:" + name + ":", window: l.Window}
}

// lost notes that the server did not answer.
func (v *Valkey) lost(why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed || !v.away.CompareAndSwap(false, true) {
		return
	}
	v.Log.Warn("the shared rate limits are away: this node counts by itself and lets its share through",
		"nodes", v.Nodes(), "err", why)
	v.Changed(true)
	v.probes.Go(v.probing)
}

// probing asks until the server answers.
func (v *Valkey) probing() {
	since := time.Now()
	t := time.NewTicker(retryInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-v.done:
			return
		}
		if v.connect() == nil {
			break
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return
	}
	v.returned.Store(int64(time.Since(v.born)))
	v.away.Store(false)
	v.Log.Info("the shared rate limits are back", "away_s", int64(time.Since(since).Seconds()))
	v.warn()
	v.Changed(false)
}

//go:embed window.lua
var windowScript string

var window = redis.NewScript(windowScript)

// run runs the script, with the arguments that it documents.
func (v *Valkey) run(c *redis.Client, keys []string, arguments ...any) (left int, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), v.timeout)
	defer cancel()
	answer, err := window.Run(ctx, c, keys, arguments...).Int64Slice()
	if err != nil {
		return 0, 0, err
	}
	if len(answer) != 2 || answer[0] < 0 || answer[1] < 0 {
		return 0, 0, fmt.Errorf("the script answers %v", answer)
	}
	rest := time.Duration(answer[1]) * time.Microsecond
	return int(answer[0]), (rest + time.Second - 1).Truncate(time.Second), nil
}

// A remote is one limit's counter in the server.
type remote struct {
	*Valkey
	prefix string
	window time.Duration
}

// askRemote is counter.ask, of the common count while there is one. In memory is
// counted what this node let through: that is its start when the server goes away.
func askRemote[K comparable](r *remote, c *counter[K], key func(prefix string) []string, k K, n int, now time.Time, take int) (left int, wait time.Duration) {
	if n < 1 || r.away.Load() {
		return c.ask(k, r.share(n), now, take)
	}
	own := n
	if r.recent() {
		if own, wait = c.ask(k, r.share(n), now, 0); wait == 0 && own < take {
			own, wait = c.ask(k, r.share(n), now, take) // takes none: there are fewer
		}
		if wait > 0 {
			return own, wait
		}
	}
	var at int64 // the server's own time
	if r.now != nil {
		at = r.now(now)
	}
	left, wait, err := r.run(r.client.Load(), key(r.prefix), n, r.window.Microseconds(), take, r.room, at)
	if err != nil {
		r.lost(err)
		return c.ask(k, r.share(n), now, take)
	}
	if take > 0 && wait == 0 {
		c.ask(k, n, now, take)
	}
	return min(left, own), wait
}

// share is what this node may let through of n by itself.
func (r *remote) share(n int) int {
	if n < 1 {
		return n
	}
	return max(n/max(r.Nodes(), 1), 1)
}

// recent reports whether the server came back less than a window ago.
func (r *remote) recent() bool {
	returned := r.returned.Load()
	return returned != 0 && int64(time.Since(r.born))-returned < int64(r.window)
}
