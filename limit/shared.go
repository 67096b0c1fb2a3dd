package limit

import (
	"crypto/tls"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	redigo "github.com/gomodule/redigo/redis"
)

// A Server is where the counters are that several nodes have in common: Valkey,
// or Redis from 5 on.
type Server struct {
	address  string      // host:port
	tls      *tls.Config // nil is none
	greeting [][]any     // what is said first: who asks, and in which database

	forgets atomic.Bool // as it said last
}

// errServer does not repeat the address: it may hold a password.
var errServer = errors.New("not an address such as redis://user:password@host:6379/0")

// ParseServer reads the setting limiter.url: redis: or valkey:, rediss: or
// valkeys: for TLS, and at the end perhaps the number of a database.
func ParseServer(address string) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errServer
	}
	port, database := u.Port(), strings.TrimPrefix(u.Path, "/")
	if port == "" {
		port = "6379"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, errServer
	}
	s := &Server{address: net.JoinHostPort(u.Hostname(), port)}
	switch u.Scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		s.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	default:
		return nil, errServer
	}
	password, _ := u.User.Password()
	if name := u.User.Username(); name != "" {
		s.greeting = append(s.greeting, []any{"AUTH", name, password})
	} else if password != "" {
		s.greeting = append(s.greeting, []any{"AUTH", password})
	}
	if database != "" {
		n, err := strconv.ParseUint(database, 10, 31)
		if err != nil {
			return nil, errServer
		}
		s.greeting = append(s.greeting, []any{"SELECT", n})
	}
	return s, nil
}

const (
	// patience is how long a request may wait for the shared counter.
	patience = 500 * time.Millisecond
	// again is how long a counter that did not answer is left alone.
	again = time.Second
)

// SharedOptions are for [Share]. The zero value will do.
type SharedOptions struct {
	Log *slog.Logger // is told when the server goes away and comes back; nil discards

	// Nodes is how many nodes live now, this one included; nil is one.
	Nodes func() int
	// Changed is told when the server goes away and comes back; nil is nobody.
	Changed func(away bool)

	patience time.Duration              // 0 is patience
	room     int                        // 0 is Remembered
	now      func(time.Time) (us int64) // of a test: the time to count by; nil is the server's own
}

// Shared makes counters that several nodes have in common, so that a limit holds
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
// The nil Shared makes counters in memory, which are this node's alone. It is
// safe for use by many goroutines.
type Shared struct {
	SharedOptions
	server *Server

	lines  sync.Mutex
	line   *line // nil before the first question
	hungUp bool

	born     time.Time
	away     atomic.Bool
	returned atomic.Int64 // nanoseconds since born; 0 is never

	mu     sync.Mutex
	closed bool
	done   chan struct{}
	probes sync.WaitGroup
}

// Share connects to the server. One that cannot be reached yet is away, and is no
// error.
func Share(server *Server, o SharedOptions) *Shared {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Nodes == nil {
		o.Nodes = func() int { return 1 }
	}
	if o.Changed == nil {
		o.Changed = func(bool) {}
	}
	if o.patience == 0 {
		o.patience = patience
	}
	if o.room == 0 {
		o.room = Remembered
	}
	s := &Shared{SharedOptions: o, server: server, born: time.Now(), done: make(chan struct{})}
	if err := s.probe(); err != nil {
		s.lost(err)
	}
	s.warn()
	return s
}

// Forgets reports whether the server drops counters when its memory is full, which
// lets strangers through, instead of refusing new ones.
func (s *Shared) Forgets() bool { return s != nil && s.server.forgets.Load() }

func (s *Shared) warn() {
	if s.Forgets() {
		s.Log.Warn("the shared rate limits do not hold when their server's memory is full: it drops counters; set maxmemory-policy noeviction there")
	}
}

// Close ends the connection. Counters that are asked later count in memory.
func (s *Shared) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.done)
	s.mu.Unlock()
	s.away.Store(true)
	s.probes.Wait()
	s.hangUp()
}

// Away reports whether this node counts by itself, because the server does not
// answer.
func (s *Shared) Away() bool { return s != nil && s.away.Load() }

// Addresses makes a counter for each client address. The name tells it from other
// counters of the same server, and is the same on all nodes.
func (s *Shared) Addresses(name string, l Limit, networks Networks) *Addresses {
	w := NewAddresses(l, networks)
	w.shared = s.counted(name, l)
	return w
}

// Blocks makes a counter for each /24 and /48, as [NewBlocks] does.
func (s *Shared) Blocks(name string, l Limit, networks Networks) *Addresses {
	w := NewBlocks(l, networks)
	w.shared = s.counted(name, l)
	return w
}

// Names makes a counter for each name, as [Shared.Addresses] does for addresses.
func (s *Shared) Names(name string, l Limit) *Names {
	w := NewNames(l)
	w.shared = s.counted(name, l)
	return w
}

func (s *Shared) counted(name string, l Limit) *shared {
	if s == nil {
		return nil
	}
	return &shared{
		Shared: s, prefix: "grantkeeper:" + name + ":", window: l.Window,
		windowText: strconv.FormatInt(l.Window.Microseconds(), 10), roomText: strconv.Itoa(s.room),
	}
}

// lost notes that the server did not answer.
func (s *Shared) lost(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.away.CompareAndSwap(false, true) {
		return
	}
	s.Log.Warn("the shared rate limits are away: this node counts by itself and lets its share through",
		"nodes", s.Nodes(), "err", why)
	s.Changed(true)
	s.probes.Go(s.probing)
}

// probing asks until the server answers.
func (s *Shared) probing() {
	since := time.Now()
	t := time.NewTicker(again)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.done:
			return
		}
		if s.probe() == nil {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.returned.Store(int64(time.Since(s.born)))
	s.away.Store(false)
	s.Log.Info("the shared rate limits are back", "away_s", int64(time.Since(since).Seconds()))
	s.warn()
	s.Changed(false)
}

// probe takes a request of its own, so that a server which cannot write, or runs
// no scripts, is as good as away.
func (s *Shared) probe() error {
	_, _, err := s.run([]string{"grantkeeper:probe"}, "1000", "1000000", "1", strconv.Itoa(s.room), "0")
	return err
}

//go:embed window.lua
var windowScript string

var window = redigo.NewScript(-1, windowScript)

// run asks the server.
func (s *Shared) run(keys []string, arguments ...string) (left int, wait time.Duration, err error) {
	words := make([]any, 0, 1+len(keys)+len(arguments))
	words = append(words, len(keys))
	for _, k := range keys {
		words = append(words, k)
	}
	for _, a := range arguments {
		words = append(words, a)
	}
	answer, err := redigo.Int64s(s.call(words))
	if err != nil {
		return 0, 0, err
	}
	if len(answer) != 2 || answer[0] < 0 || answer[1] < 0 {
		return 0, 0, fmt.Errorf("the script answers %v", answer)
	}
	rest := time.Duration(answer[1]) * time.Microsecond
	return int(answer[0]), (rest + time.Second - 1).Truncate(time.Second), nil
}

// A shared is the common part of one limit's counter.
type shared struct {
	*Shared
	prefix               string
	window               time.Duration
	windowText, roomText string
}

// askShared is counter.ask, of the common count while there is one. In memory is
// counted what this node let through: that is its start when the server goes away.
func askShared[K comparable](s *shared, c *counter[K], key func(prefix string) []string, k K, n int, now time.Time, take int) (left int, wait time.Duration) {
	if n < 1 || s.away.Load() {
		return c.ask(k, s.share(n), now, take)
	}
	own := n
	if s.recent() {
		if own, wait = c.ask(k, s.share(n), now, 0); wait == 0 && own < take {
			own, wait = c.ask(k, s.share(n), now, take) // takes none: there are fewer
		}
		if wait > 0 {
			return own, wait
		}
	}
	at := "0"
	if s.now != nil {
		at = strconv.FormatInt(s.now(now), 10)
	}
	left, wait, err := s.run(key(s.prefix), strconv.Itoa(n), s.windowText, strconv.Itoa(take), s.roomText, at)
	if err != nil {
		s.lost(err)
		return c.ask(k, s.share(n), now, take)
	}
	if take > 0 && wait == 0 {
		c.ask(k, n, now, take)
	}
	return min(left, own), wait
}

// share is what this node may let through of n by itself.
func (s *shared) share(n int) int {
	if n < 1 {
		return n
	}
	return max(n/max(s.Nodes(), 1), 1)
}

// recent reports whether the server came back less than a window ago.
func (s *shared) recent() bool {
	returned := s.returned.Load()
	return returned != 0 && int64(time.Since(s.born))-returned < int64(s.window)
}
