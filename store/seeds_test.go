package store

import (
	"errors"
	arguments "flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/simulate"
	"github.com/grantkeeper/grantkeeper/token"
)

var seedCount = arguments.Int("seeds", 300, "how many seeds TestF11NodesInOneProcess goes through")

// A wire is what connects a node to the server. It breaks at a given message, which is
// lost with all connections, and refuses some new ones after that.
type wire struct {
	listener net.Listener

	mu     sync.Mutex
	conns  map[net.Conn]bool
	left   int // messages until it breaks; less than one is never
	refuse int
	gone   bool
	breaks *atomic.Int64
}

func newWire(breaks *atomic.Int64) (*wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{listener: l, conns: map[net.Conn]bool{}, breaks: breaks}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go w.carry(in)
		}
	}()
	return w, nil
}

func (w *wire) carry(in net.Conn) {
	defer in.Close()
	w.mu.Lock()
	refused := w.gone || w.refuse > 0
	w.refuse = max(0, w.refuse-1)
	w.mu.Unlock()
	if refused {
		return
	}
	out, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", server.Port()))
	if err != nil {
		return
	}
	defer out.Close()
	w.mu.Lock()
	w.conns[in], w.conns[out] = true, true
	w.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			defer in.Close()
			defer out.Close()
			b := make([]byte, 32<<10)
			for {
				n, err := way[0].Read(b)
				if err != nil || w.broken() {
					return
				}
				if _, err := way[1].Write(b[:n]); err != nil {
					return
				}
			}
		})
	}
	both.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, in)
	delete(w.conns, out)
}

// broken counts a message, and reports whether it is the one that is lost.
func (w *wire) broken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left--; w.left != 0 {
		return false
	}
	w.breaks.Add(1)
	for c := range w.conns {
		c.Close()
	}
	return true
}

func (w *wire) arm(left, refuse int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.refuse = left, refuse
}

// cut is for good.
func (w *wire) cut() {
	w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	for c := range w.conns {
		c.Close()
	}
}

// A seeded is several nodes of one installation in this process, on a clock that only
// the test moves. Lanes go through the seeds, each with a person of its own.
type seeded struct {
	*testing.T
	clock *machine
	at    string // the database's URL behind host and port
	ring  *token.Ring
	nodes [3]atomic.Pointer[seededNode]
	turn  sync.Mutex // one node is killed at a time
	rule  func(approval.Move) approval.Move

	breaks, kills, operations, unanswered, wrong atomic.Int64
}

type seededNode struct {
	house
	wire *wire
}

var simulated = simulate.Model(simulate.Protocol, int64(engine.PageLife.Seconds()))

const seedLanes = 12

// seedNodes makes three nodes on one database.
func seedNodes(t *testing.T, rule func(approval.Move) approval.Move) *seeded {
	t.Helper()
	s := &seeded{T: t, clock: &machine{now: time.Unix(1_800_000_000, 0)}, ring: ring(t), rule: rule}
	url, err := server.Schema()
	if err != nil {
		t.Fatal(err)
	}
	_, s.at, _ = strings.Cut(url, fmt.Sprint(server.Port()))
	s.at += "&synchronous_commit=off" // no seed kills the server, so none needs its disk
	for n := range s.nodes {
		s.boot(n)
	}
	h := s.nodes[0].Load().house
	h.furnish(t)
	var d directory.Directory
	for lane := range seedLanes {
		id := fmt.Sprint("p", lane)
		d.People = append(d.People, directory.Person{Person: org.Person{ID: id, Email: id + "@nordlys.example", Name: id, Active: true}})
		d.Members = append(d.Members, directory.Member{Person: id, Organization: "nordlys", Admin: false})
	}
	if err := h.AddDirectory(ctx, d, Act{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for n := range s.nodes {
			s.nodes[n].Load().Close()
			s.nodes[n].Load().wire.cut()
		}
	})
	return s
}

// boot starts a node, and tries again while its wire breaks.
func (s *seeded) boot(n int) {
	w, err := newWire(&s.breaks)
	if err != nil {
		s.Fatal(err)
	}
	o := Options{URL: "postgres://postgres@" + w.listener.Addr().String() + s.at, Ring: s.ring, Now: s.clock.Now}
	o.DatabaseTime = o.Now
	for {
		st, err := Open(ctx, o)
		if err == nil {
			s.nodes[n].Store(&seededNode{house{Store: st, clock: s.clock, ring: s.ring}, w})
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// kill ends a node without a word, and starts another in its place.
func (s *seeded) kill(n int) {
	s.turn.Lock()
	defer s.turn.Unlock()
	old := s.nodes[n].Load()
	old.wire.cut()
	s.kills.Add(1)
	s.boot(n)
	go old.Close()
}

// run goes through seeds until it finds a history that the protocol does not allow, if
// it is to stop then.
func (s *seeded) run(seeds int, stop bool) {
	var lanes sync.WaitGroup
	for lane := range seedLanes {
		lanes.Go(func() {
			for seed := lane; seed < seeds && !(stop && s.wrong.Load() > 0); seed += seedLanes {
				s.seed(lane, seed)
			}
		})
	}
	lanes.Wait()
}

// A trial is one approval of one seed.
type trial struct {
	*seeded
	person  string
	calm    bool // hardly anything ends it: one worker refreshes, and the others look on
	id      approval.ID
	issued  int64
	expires int64
	start   time.Time

	mu      sync.Mutex
	newest  int64 // generation that somebody was told of
	history []porcupine.Operation
}

func (s *seeded) seed(lane, seed int) {
	random := rand.New(rand.NewPCG(uint64(seed), 5))
	x := &trial{seeded: s, person: fmt.Sprint("p", lane), calm: seed/seedLanes%10 > 3, start: time.Now()}
	a := s.nodes[0].Load().unique(seed)
	a.Person, a.Grant = x.person, grantset.Set{Kind: grantset.Everything}
	for {
		handle, issued, err := s.any(random).Approve(ctx, a, Act{})
		if x.id, x.issued, x.expires = approval.ID(handle.ID()), issued, issued+1800; err == nil {
			break
		}
		if errors.Is(err, ErrNotAllowed) { // removed by what nobody has heard of
			_ = s.any(random).SetMember(ctx, "nordlys", x.person, false, Act{})
		}
	}
	switch n := random.IntN(len(s.nodes)); random.IntN(8) {
	case 0, 1, 2:
		s.nodes[n].Load().wire.arm(1+random.IntN(30), random.IntN(3))
	case 3:
		go s.kill(n)
	}
	var workers sync.WaitGroup
	for worker := range 3 {
		random := rand.New(rand.NewPCG(uint64(seed), uint64(10+worker)))
		workers.Go(func() {
			for range 4 + random.IntN(4) {
				x.step(worker, random)
			}
		})
	}
	workers.Wait()
	for range s.nodes {
		x.ask(9, random, simulate.Input{Kind: "check"})
	}
	if !porcupine.CheckOperations(simulated, x.history) {
		if s.wrong.Add(1); s.rule == nil {
			for _, o := range x.history {
				s.Logf("%d %+v -> %v [%d, %d]", o.ClientId, o.Input, o.Output, o.Call, o.Return)
			}
			s.Errorf("seed %d: not linearizable", seed)
		}
	}
	s.operations.Add(int64(len(x.history)))
}

func (s *seeded) any(random *rand.Rand) house {
	return s.nodes[random.IntN(len(s.nodes))].Load().house
}

// step is one thing that a worker does, at any node.
func (x *trial) step(worker int, random *rand.Rand) {
	x.mu.Lock()
	newest := x.newest
	x.mu.Unlock()
	in := simulate.Input{Kind: "refresh", Generation: newest}
	of := 100
	if x.calm {
		of = 1000
	}
	switch n := random.IntN(of); {
	case n < 4:
		x.clock.add(time.Duration([]int{1, 60, 150, 900}[random.IntN(4)]) * time.Second)
		return
	case n < 6:
		x.leave(worker, random)
		return
	case n < 9:
		in.Kind = "revoke"
	case x.calm && worker > 0 && n >= 60:
		in.Kind = "check"
	case newest == 0:
		in.Kind = "exchange"
	case n < 50:
		in.Kind = "check"
	case n < 54:
		in.Kind = "exchange"
	case n < 60:
		in.Generation = max(1, newest-1)
	}
	x.ask(worker, random, in)
}

func (x *trial) ask(worker int, random *rand.Rand, in simulate.Input) {
	h := x.any(random)
	in.From, in.Issued, in.Expires = h.Now().Unix(), x.issued, x.expires
	call := time.Since(x.start)
	var v approval.Verdict
	var err error
	switch in.Kind {
	case "exchange":
		_, v, err = h.Apply(ctx, x.id, x.move(approval.Exchange("quill", issuer, redirect, verifier, x.issued, 1, h.Now())), Act{})
	case "refresh":
		if x.calm { // though reads seem slow on a machine that is busy
			h.postgres().Pace.Slow.Store(false)
			h.postgres().Saving.Average.Store(0)
		}
		if x.rule == nil {
			v, err = h.refresh(x.id, in.Generation)
		} else {
			_, v, err = h.ApplyLive(ctx, x.id, x.rule(approval.Refresh("quill", in.Generation, 1, h.Now())), Act{})
		}
	case "revoke":
		_, v, err = h.ApplyLive(ctx, x.id, x.move(approval.Revoke("quill", h.Now())), Act{})
	case "check":
		var a Access
		v = approval.Over
		if a, err = h.Check(ctx, x.id); err == nil && a.Approval.Accepts(a.Standing, a.Approval.Generation, x.expires, h.Now()) {
			v = approval.OK
		}
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
	}
	x.record(worker, in, call, v, err)
}

func (x *trial) move(m approval.Move) approval.Move {
	if x.rule == nil {
		return m
	}
	return x.rule(m)
}

// leave takes the person out of the organization, and back in until that is done.
func (x *trial) leave(worker int, random *rand.Rand) {
	h := x.any(random)
	in := simulate.Input{Kind: "fact", From: h.Now().Unix()}
	call := time.Since(x.start)
	err := h.RemoveMember(ctx, "nordlys", x.person, Act{})
	if !errors.Is(err, ErrNotFound) { // another worker, or a try before, was quicker
		x.record(worker, in, call, approval.OK, err)
	}
	for x.any(random).SetMember(ctx, "nordlys", x.person, false, Act{}) != nil {
		time.Sleep(time.Millisecond)
	}
}

func (x *trial) record(worker int, in simulate.Input, call time.Duration, v approval.Verdict, err error) {
	in.To = x.clock.Now().Unix()
	o := porcupine.Operation{ClientId: worker, Input: in, Output: v, Call: int64(call), Return: int64(time.Since(x.start))}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case err != nil && !errors.Is(err, ErrUnavailable):
		x.Errorf("%+v: %v", in, err)
	case err != nil:
		x.unanswered.Add(1)
		if in.Kind == "check" {
			return
		}
		o.Output, o.Return = nil, math.MaxInt64
	case v == approval.OK && in.Kind == "exchange":
		x.newest = max(x.newest, 1)
	case v == approval.OK && in.Kind == "refresh":
		x.newest = max(x.newest, in.Generation+1)
	}
	x.history = append(x.history, o)
}

// F-11, F-09, F-10: three nodes on one database, whose connections break at any message
// and which are killed, while a person approves and leaves and the time goes by.
// Whatever the seed, what is told is a history that the protocol allows.
func TestF11NodesInOneProcess(t *testing.T) {
	if embedded() {
		return // TestF11PowerLoss is its own
	}
	s := seedNodes(t, nil)
	s.run(*seedCount, false)
	t.Logf("%d seeds: %d operations, %d without an answer; %d times connections broke, %d nodes were killed; %d histories that the protocol does not allow",
		*seedCount, s.operations.Load(), s.unanswered.Load(), s.breaks.Load(), s.kills.Load(), s.wrong.Load())
	if int(s.breaks.Load()) < *seedCount/20 || int(s.kills.Load()) < *seedCount/20 || int(s.unanswered.Load()) < *seedCount/20 {
		t.Error("too little happened for this to mean anything")
	}
}

// The checker finds each rule that is broken on purpose.
func TestF11FindsABrokenRule(t *testing.T) {
	if embedded() {
		return
	}
	forgive := func(verdict approval.Verdict, instead approval.Verdict) func(approval.Move) approval.Move {
		return func(m approval.Move) approval.Move {
			return func(a approval.Approval, s approval.Standing) (approval.State, approval.Verdict) {
				if after, v := m(a, s); v != verdict {
					return after, v
				}
				return a.State, instead
			}
		}
	}
	for name, rule := range map[string]func(approval.Move) approval.Move{
		"a used token gets tokens":                forgive(approval.Reused, approval.OK),
		"a used token is refused, and that is it": forgive(approval.Reused, approval.Reused),
		"a code never expires":                    forgive(approval.Expired, approval.OK),
		"an end is told, and forgotten": func(m approval.Move) approval.Move {
			return func(a approval.Approval, s approval.Standing) (approval.State, approval.Verdict) {
				after, v := m(a, s)
				if v == approval.OK && after.Phase == approval.Ended {
					return a.State, v
				}
				return after, v
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := seedNodes(t, rule)
			s.run(*seedCount, true)
			if s.wrong.Load() == 0 {
				t.Errorf("not found in %d seeds", *seedCount)
			}
		})
	}
}
