// The race detector has goroutines run in another order each time, and a seed decides it.
//go:build !race

package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/postgres"
)

// A cluster is one seed of several nodes: the PostgreSQL engine as it is shipped, three times,
// over a network that the seed decides. What arrives at PostgreSQL arrives one by one.
type cluster struct {
	workload
	real  *real
	nodes []*node
	dead  []*node // and not closed yet

	wire    sync.Mutex
	dialled []*conn // since everybody stood still last
	conns   []*conn
	dials   int
	says    []string // what nodes have logged since then

	blocked   []*conn      // those that the server has wait for a lock, in the order in which they began
	lingering []*conn      // those that are lost, which the server has not noticed
	unsure    []*operation // facts that may have been lost, or be written yet
	ended     []*operation // by whom of what: the others are to be asked about it
	settling  bool         // nothing breaks any more
	closing   bool
	away      bool // the person is no member, or may be none
	begun     int
	altered   int // statements that a planted fault has changed

	breaks, kills, waits, timeouts int
}

// A node is one life of a node.
type node struct {
	*cluster
	n, life int
	skew    time.Duration // of the machine's clock
	store   *store.Store  // nil until it has started
	opened  bool
	failed  error     // why it has not
	again   time.Time // when it is tried again

	dead   bool
	closed bool
	refuse int   // connections that are refused
	frozen int64 // nothing of it is carried until that step
}

var running *cluster // the one whose nodes connect

func init() {
	postgres.ConfigOf = func(c *pgxpool.Config) {
		if running == nil {
			return
		}
		// Of two timers at one instant the Go runtime chooses the first itself.
		c.ConnConfig.ConnectTimeout, c.PingTimeout = 4700*time.Millisecond, 700*time.Millisecond
		for _, at := range running.nodes {
			if at.name() == c.ConnConfig.RuntimeParams["application_name"] {
				c.ConnConfig.DialFunc = at.dial
			}
		}
	}
}

func (at *node) name() string { return fmt.Sprintf("n%d.%d", at.n, at.life) }

func (at *node) dial(context.Context, string, string) (net.Conn, error) {
	s := at.cluster
	s.wire.Lock()
	defer s.wire.Unlock()
	if at.dead || at.refuse > 0 {
		at.refuse--
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	c := newConn(at)
	s.dialled = append(s.dialled, c)
	return c, nil
}

// simulateNodes runs a seed.
func simulateNodes(t *testing.T, seed uint64, traced bool) *cluster {
	cryptotest.SetGlobalRandom(t, seed)
	s := &cluster{real: behind}
	s.begins(t, seed, traced)
	running = s
	defer func() { running = nil }()
	synctest.Test(t, func(*testing.T) {
		// Moments are counted from the start of the process, and are not negative.
		time.Sleep(time.Until(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)))
		defer s.close()
		s.run()
	})
	return s
}

func (s *cluster) run() {
	for n := range 3 {
		s.boot(n)
		s.sleep(time.Duration(1+s.random.IntN(1000)) * time.Microsecond)
	}
	if !s.drain(s.allUp) {
		s.fault("the nodes do not start")
		return
	}
	s.once("approve", 0, nil, s.nodes[0])
	for most := s.begun + 30 + s.random.IntN(30); s.begun < most && s.step.Load() < 3000; {
		s.turn()
	}
	s.settle()
}

// boot starts a node.
func (s *cluster) boot(n int) {
	at := &node{cluster: s, n: n}
	if n < len(s.nodes) {
		at.life, at.skew = s.nodes[n].life+1, s.nodes[n].skew
		s.nodes[n] = at
	} else {
		at.skew = time.Duration(s.random.IntN(1200)-600) * time.Second
		s.nodes = append(s.nodes, at)
	}
	o := store.Options{
		URL:  "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable&application_name=" + at.name(),
		Ring: keys, DatabaseTime: s.machineTime,
		Now: func() time.Time { return s.machineTime().Add(at.skew) },
		Log: slog.New(slog.NewTextHandler(tracer{at}, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: timeless})),
	}
	if s.random.IntN(4) == 0 { // as behind pgbouncer
		o.URL += "&default_query_exec_mode=exec"
	}
	o.MaxStaleness = planted.staleness
	go func() {
		st, err := store.Open(ctx, o)
		s.mu.Lock()
		defer s.mu.Unlock()
		at.store, at.failed, at.opened = st, err, true
	}()
}

// A tracer has what a node logs in the trace.
type tracer struct{ *node }

func (t tracer) Write(b []byte) (int, error) {
	t.wire.Lock()
	defer t.wire.Unlock()
	t.says = append(t.says, fmt.Sprintf("    %s says %s", t.name(), b[:len(b)-1]))
	return len(b), nil
}

// still waits until everybody waits for what the seed decides. What several goroutines have
// done until then gets an order that does not come from the one in which they ran.
func (s *cluster) still() {
	s.undisturbed(synctest.Wait)
	s.wire.Lock()
	defer s.wire.Unlock()
	slices.Sort(s.says)
	for _, line := range s.says {
		s.trace("%s", line)
	}
	slices.SortStableFunc(s.dialled, func(a, b *conn) int {
		return cmp.Or(cmp.Compare(a.node.name(), b.node.name()), cmp.Compare(a.cancels(), b.cancels()))
	})
	for _, c := range s.dialled {
		s.dials++
		c.n = s.dials
	}
	s.conns, s.dialled, s.says = append(s.conns, s.dialled...), nil, nil
}

func timeless(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func (s *cluster) allUp() bool {
	return !slices.ContainsFunc(s.nodes, func(at *node) bool { return at.store == nil })
}

// turn is one thing that happens.
func (s *cluster) turn() {
	s.step.Add(1)
	ready := s.ready()
	switch n := s.random.IntN(1000); {
	case len(s.ended) > 0 && n < 700:
		s.askElsewhere()
	case n < 40:
		s.happen()
	case len(s.pending) < 6 && (n < 160 || len(ready) == 0):
		s.begin()
	case len(ready) > 0:
		s.carry(ready[s.random.IntN(len(ready))], s.random.IntN(4) > 0)
	default: // everybody waits, for a lock or for time
		s.sleep(time.Duration(1+s.random.IntN(2000)) * time.Millisecond)
	}
	pass := time.Duration(1+s.random.IntN(200)) * time.Microsecond
	if s.random.IntN(12) == 0 {
		pass *= 100
	}
	s.sleep(pass)
}

// ready are the connections on which something can be carried.
func (s *cluster) ready() (out []*conn) {
	for _, c := range s.conns {
		if c.node.frozen <= s.step.Load() && (len(c.reply) > 0 || c.waits.IsZero() && c.sent()) {
			out = append(out, c)
		}
	}
	return out
}

// carry brings an answer to the node, or what it has sent to the server, and then the answer
// at once or later. A node that starts is not held up at each step.
func (s *cluster) carry(c *conn, atOnce bool) {
	for range 12 {
		if len(c.reply) == 0 {
			s.deliver(c)
		}
		if !atOnce || len(c.reply) == 0 {
			return
		}
		c.arrive(len(c.reply), nil)
		s.still()
		s.collect()
		if c.node.store != nil || !c.sent() || c.backend == nil {
			return
		}
	}
}

// begin lets one more operation begin.
func (s *cluster) begin() {
	at := s.nodes[s.random.IntN(len(s.nodes))]
	if at.store == nil || len(s.pages) == 0 {
		return
	}
	p, live := s.choose()
	r := s.random
	in := Input{Kind: "refresh", Generation: p.newest}
	settled := !s.waitsFor("fact") && !s.waitsFor("approve")
	switch n := r.IntN(100); {
	case s.away && n < 50 && !s.waitsFor("back"):
		in.Kind, p = "back", nil
	case n < 3:
		in.Kind = "revoke"
	case n < 8 && settled: // one at a time: a second at the same node would wait for a mutex
		in.Kind, p = "fact", nil
	case n < 16 && settled && live < 2 && len(s.pages) < 8:
		in.Kind, p = "approve", nil
	case n < 19:
		in.Kind = "stranger"
	case n < 40 && p.newest > 0:
		in.Kind = "check"
	case n < 42, p.newest == 0 && (n < 60 || !s.waitsFor("exchange")):
		in.Kind = "exchange"
	case p.newest == 0:
		in.Kind = "check"
	case n < 46:
		in.Generation = max(1, p.newest-1)
	}
	s.ask(in, p, at)
}

// askElsewhere asks another node about an approval of which one has just said that it has
// ended.
func (s *cluster) askElsewhere() {
	o := s.ended[0]
	s.ended = s.ended[1:]
	at := s.nodes[(o.node.n+1+s.random.IntN(2))%len(s.nodes)]
	if at.store != nil {
		s.ask(Input{Kind: []string{"check", "refresh", "refresh"}[s.random.IntN(3)], Generation: o.page.newest}, o.page, at)
	}
}

// choose gives a page, mostly one that has not ended, and how many such there are.
func (s *cluster) choose() (p *pages, live int) {
	of := slices.DeleteFunc(slices.Clone(s.pages), func(p *pages) bool { return p.over })
	if live = len(of); live == 0 || s.random.IntN(8) == 0 {
		of = s.pages
	}
	return of[s.random.IntN(len(of))], live
}

func (s *cluster) waitsFor(kind string) bool {
	return slices.ContainsFunc(s.pending, func(o *operation) bool { return o.in.Kind == kind })
}

func (s *cluster) ask(in Input, p *pages, at *node) *operation {
	s.begun++
	in.From = s.machineTime().Unix()
	o := &operation{in: in, page: p, node: at, away: s.away}
	if in.Kind == "approve" {
		s.made++
		nonce := byte(s.made)
		s.start(o, func() (_ approval.Verdict, err error) {
			o.result, err = s.approve(at.store, nonce)
			return approval.OK, err
		})
		return o
	}
	s.start(o, func() (approval.Verdict, error) { return o.do(at.store) })
	return o
}

// collect takes what has become of operations and of nodes that start, and of connections
// that their nodes have closed.
func (s *cluster) collect() {
	for _, o := range s.answered() {
		s.record(o)
	}
	for _, at := range s.nodes {
		switch {
		case at.failed == nil:
		case at.again.IsZero():
			s.trace("%s does not start: %v", at.name(), at.failed)
			at.again = time.Now().Add(100 * time.Millisecond)
		case time.Now().After(at.again):
			s.boot(at.n)
			s.still()
		}
	}
	for _, at := range s.dead {
		if !at.closed && at.opened && at.store != nil && !slices.ContainsFunc(s.pending, func(o *operation) bool { return o.node == at }) {
			at.closed = true
			go at.store.Close()
			s.still()
		}
	}
	for _, c := range s.conns {
		if c.gone() && c.waits.IsZero() && c.backend != nil && !slices.Contains(s.lingering, c) {
			s.recycle(c)
		}
	}
	s.wire.Lock()
	s.conns = slices.DeleteFunc(s.conns, func(c *conn) bool { return c.backend == nil && (c.gone() || c.cut) })
	s.wire.Unlock()
}

// record notes an answer, unless nobody has heard it.
func (s *cluster) record(o *operation) {
	lost := o.err != nil || o.node.dead
	s.trace("%s %d of %d at %s: %v %v", o.in.Kind, o.in.Generation, slices.Index(s.pages, o.page), o.node.name(), o.verdict, o.err)
	s.operations++
	switch {
	case o.in.Kind == "approve" && errors.Is(o.err, store.ErrNotAllowed) && (o.away || s.away || len(s.unsure) > 0):
		s.away = true // removed by what nobody has heard of
		return
	case o.err != nil && !errors.Is(o.err, store.ErrUnavailable):
		s.fault("%s: %v", o.in.Kind, o.err)
	}
	if lost {
		s.unanswered++
	}
	o.in.To = s.machineTime().Unix()
	of := []*pages{o.page}
	switch o.in.Kind {
	case "approve":
		if lost {
			return
		}
		s.pages = append(s.pages, o.result)
		for _, fact := range s.unsure {
			s.heard(fact, []*pages{o.result}, true)
		}
		return
	case "fact":
		if of, s.away = s.pages, true; lost {
			s.unsure = append(s.unsure, o)
		}
	case "back":
		s.away = s.away && lost
		return
	}
	s.heard(o, of, lost)
	if !lost && (o.in.Kind == "fact" || o.in.Kind == "revoke" || o.verdict == approval.Reused || o.verdict == approval.Over) {
		for _, p := range of { // who knows that, elsewhere?
			if p.newest > 0 && !p.over {
				s.ended = append(s.ended, &operation{page: p, node: o.node}, &operation{page: p, node: o.node})
			}
			p.over = true
		}
	}
}

// sleep lets time pass, and what is to happen in it.
func (s *cluster) sleep(d time.Duration) {
	end := time.Now().Add(d)
	for {
		next, strike := end, (*conn)(nil)
		for _, c := range s.conns {
			if at := c.expires(); !at.IsZero() && at.Before(next) {
				next, strike = at, c
			}
		}
		s.undisturbed(func() { time.Sleep(time.Until(next)) })
		s.still()
		s.collect()
		if strike == nil {
			return
		}
		s.timeouts++
		if at := strike.expires(); at.IsZero() || at.After(next) {
			continue // it has gone on meanwhile
		}
		if strike.waits.IsZero() {
			s.end(strike, "25P03", "terminating connection due to idle-in-transaction timeout")
		} else {
			s.cancel(strike)
		}
		s.still()
		s.collect()
	}
}

// idleTimeout is what the engine sets for a transaction.
const idleTimeout = 10 * time.Second

// expires is when the server's patience with a connection ends; zero is never.
func (c *conn) expires() (at time.Time) {
	switch b := c.backend; {
	case b == nil:
	case !c.waits.IsZero() && b.lockTimeout > 0:
		at = c.waits.Add(b.lockTimeout)
	case c.waits.IsZero() && !b.idle.IsZero() && !planted.keepsLocks:
		at = b.idle.Add(idleTimeout)
	}
	return at
}

// happen is a fault, or that the hour changes.
func (s *cluster) happen() {
	r := s.random
	at := s.nodes[r.IntN(len(s.nodes))]
	of := slices.DeleteFunc(slices.Clone(s.conns), func(c *conn) bool { return c.node != at || c.cut })
	n := r.IntN(100)
	s.trace("happens: %d to %s", n, at.name())
	switch {
	case n < 30 && len(of) > 0:
		s.breakOff(of[r.IntN(len(of))], r.IntN(3))
	case n < 38:
		for _, c := range of {
			s.breakOff(c, r.IntN(3))
			s.still()
		}
		at.refuse = r.IntN(4)
	case n < 45 && len(of) > 0:
		s.end(of[r.IntN(len(of))], "57P01", "terminating connection due to administrator command")
	case n < 55:
		s.kill(at)
	case n < 72:
		s.now.Add(int64(time.Duration([]int{1, 60, 150, 900, 2200}[r.IntN(5)]) * time.Second))
		s.trace("it is %d", s.machineTime().Unix())
	case n < 80:
		s.sleep(time.Duration(200+r.IntN(2000)) * time.Millisecond)
	case n < 86:
		s.sleep(time.Duration(4+r.IntN(8)) * time.Second)
	case n < 94:
		at.frozen = s.step.Load() + int64(20+r.IntN(100))
	default:
		s.notice()
	}
	s.still()
	s.collect()
}

// breakOff breaks a connection: before what is under way has reached the server, after it has
// taken effect there, or in the midst of its answer.
func (s *cluster) breakOff(c *conn, how int) {
	s.breaks++
	if how > 0 && c.waits.IsZero() && c.sent() {
		s.deliver(c)
	}
	if how == 2 && len(c.reply) > 0 {
		c.arrive(s.random.IntN(len(c.reply)), errReset)
	}
	s.cutOff(c)
}

// cutOff loses a connection. What the server has of it goes on there.
func (s *cluster) cutOff(c *conn) {
	c.take()
	c.arrive(0, errReset)
	c.cut = true
	if c.backend != nil && c.waits.IsZero() {
		s.part(c)
	}
}

// part is what the server does about a connection that is lost: it notices, or not yet.
func (s *cluster) part(c *conn) {
	if c.backend.status != 'I' && (s.random.IntN(2) == 0 || planted.keepsLocks) {
		s.trace("    %d is open at the server", c.n)
		s.lingering = append(s.lingering, c)
		return
	}
	s.recycle(c)
}

// notice has the server notice which connections are lost.
func (s *cluster) notice() {
	if planted.keepsLocks && !s.closing {
		return
	}
	for len(s.lingering) > 0 {
		s.recycle(s.lingering[0])
	}
}

// kill ends a node without a word, and starts another in its place.
func (s *cluster) kill(at *node) {
	s.kills++
	at.dead = true
	s.dead = append(s.dead, at)
	for _, c := range slices.Clone(s.conns) {
		if c.node == at && !c.cut {
			s.cutOff(c)
			s.still()
		}
	}
	s.collect()
	if s.nodes[at.n] == at {
		s.boot(at.n)
	}
}

// once asks one thing, and waits for its answer.
func (s *cluster) once(kind string, generation int64, p *pages, at *node) *operation {
	s.step.Add(1)
	o := s.ask(Input{Kind: kind, Generation: generation}, p, at)
	s.drain(func() bool { return !slices.Contains(s.pending, o) })
	return o
}

// drain carries everything until something is so, and gives up after a minute of nothing.
func (s *cluster) drain(until func() bool) bool {
	for start := time.Now(); time.Since(start) < time.Minute; {
		s.still()
		s.collect()
		if until() {
			return true
		}
		ready := s.ready()
		for _, c := range ready {
			s.carry(c, true)
			s.sleep(time.Microsecond)
		}
		if len(ready) == 0 {
			s.sleep(20 * time.Millisecond)
		}
	}
	return false
}

// settle is after all faults: every node answers at the first try, what lives goes on living,
// what ended is over, and somebody can approve.
func (s *cluster) settle() {
	s.trace("all is well from here on")
	s.settling = true
	for _, at := range s.nodes {
		at.frozen, at.refuse = 0, 0
	}
	s.notice()
	if !s.drain(func() bool { return len(s.pending) == 0 && len(s.blocked) == 0 && s.allUp() }) {
		s.fault("operations have no answer, and nothing is broken any more: %d of them, %d wait for locks", len(s.pending), len(s.blocked))
		return
	}
	pause := time.Now().Add(2 * time.Second) // connections that were idle are asked whether they are whole
	s.drain(func() bool { return time.Now().After(pause) })
	s.sure(s.once("back", 0, nil, s.any()))
	before := len(s.pages)
	s.sure(s.once("approve", 0, nil, s.any()))
	if len(s.pages) == before {
		s.fault("nobody can approve, and nothing is broken any more")
	}
	for _, p := range s.pages {
		s.settlePage(p)
	}
}

func (s *cluster) settlePage(p *pages) {
	if p.newest == 0 {
		s.sure(s.once("exchange", 0, p, s.any()))
	}
	for range 2 {
		if p.over && len(p.history) > 0 && s.random.IntN(2) == 0 {
			s.sure(s.once("check", 0, p, s.any()))
			break
		}
		if a, ok := s.look(p); ok && a.Phase == approval.Live {
			s.sure(s.once("refresh", a.Generation, p, s.any()))
		}
		for _, at := range s.nodes {
			s.sure(s.once("check", 0, p, at))
		}
	}
	if !porcupine.CheckOperations(judge, Reduce(p.history)) {
		s.fault("a history that the protocol does not allow")
		for _, o := range p.history {
			s.trace("%d %+v -> %v [%d, %d]", o.ClientId, o.Input, o.Output, o.Call, o.Return)
		}
	}
}

// look gives an approval as any node finds it.
func (s *cluster) look(p *pages) (a approval.Approval, ok bool) {
	at, done := s.any(), false
	var err error
	go func() {
		access, failed := at.store.Check(ctx, p.id)
		s.mu.Lock()
		defer s.mu.Unlock()
		a, err, done = access.Approval, failed, true
	}()
	s.drain(func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return done
	})
	return a, err == nil
}

func (s *cluster) any() *node { return s.nodes[s.random.IntN(len(s.nodes))] }

func (s *cluster) sure(o *operation) {
	if o.err != nil || !o.done {
		s.fault("%s is not answered at %s, and nothing is broken any more: %v", o.in.Kind, o.node.name(), o.err)
	}
}

// close ends all nodes, and leaves the connections to the server to the next seed.
func (s *cluster) close() {
	s.closing = true
	closing := 0
	for _, at := range s.nodes {
		if at.store == nil {
			at.dead = true
			continue
		}
		closing++
		go func() {
			at.store.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			closing--
		}()
	}
	s.drain(func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return closing == 0
	})
	for _, at := range s.nodes {
		at.dead = true
	}
	s.notice()
	for _, c := range slices.Clone(s.conns) {
		c.take()
		c.arrive(0, errReset)
		c.cut = true
		s.still()
		if c.backend != nil {
			s.recycle(c)
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
