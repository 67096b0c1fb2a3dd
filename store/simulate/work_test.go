// The race detector has goroutines run in another order each time, and a seed decides it.
//go:build !race

package simulate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/token"
)

const (
	redirect = "https://connect.quill.example/callback"
	issuer   = "https://app.svalinn.example"
	verifier = "a-verifier-of-43-characters-or-more-0123456789"
)

var (
	ctx     = context.Background()
	judge   = Model(Protocol, int64(engine.PageLife.Seconds()))
	started = time.Unix(1_800_000_000, 0)
	planted plant // what is broken on purpose, one thing at a time
	keys    *token.Ring
)

// A plant is a fault of the server.
type plant struct {
	rule func(approval.Move) approval.Move

	pragmas      []string
	liesAboutLog bool
	staysBroken  bool // the disk, or what the server thinks of it
	forgets      bool // a check answers as it did before
	shut         bool // checks are refused

	statements []string      // of several nodes: a part of one, and what stands there instead
	staleness  time.Duration // of several nodes
	rollsBack  string        // of several nodes: transactions with such a statement, though the answer says that they were committed
	keepsLocks bool          // of several nodes: the server never notices that a connection is lost
}

// A workload is what a seed asks for, and what it was told. All of it comes from the number.
type workload struct {
	*testing.T
	seed   uint64
	random *rand.Rand
	pages  []*pages
	made   int          // pages that somebody has approved, or wanted to
	now    atomic.Int64 // the machine's time, in nanoseconds

	mu      sync.Mutex
	pending []*operation
	step    atomic.Int64
	tracing sync.Mutex

	disturbed bool // the machine has held the server up, so that another run may be another

	log    *strings.Builder // nil without a trace
	logged bytes.Buffer     // what the server has logged

	wrong                  []string
	operations, unanswered int
}

// pages is one approval.
type pages struct {
	id      approval.ID
	issued  int64
	newest  int64 // generation that somebody was told of
	history []porcupine.Operation
	reused  int
	over    bool // as somebody was told
}

type operation struct {
	in      Input
	page    *pages // nil: of all
	node    *node  // where it is asked, if there are several
	result  *pages // of approve
	away    bool   // the person was, when it began
	call    int
	done    bool
	verdict approval.Verdict
	err     error
	worker  int
}

// begins makes a workload ready.
func (w *workload) begins(t *testing.T, seed uint64, traced bool) {
	w.T, w.seed, w.random = t, seed, rand.New(rand.NewPCG(seed, 17))
	w.now.Store(started.UnixNano())
	if traced {
		w.log = &strings.Builder{}
	}
}

// fault is true of what is wrong in the run.
func (w *workload) fault(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	w.trace("WRONG "+format, args...)
}

func (w *workload) trace(format string, args ...any) {
	w.tracing.Lock()
	defer w.tracing.Unlock()
	if w.log != nil {
		fmt.Fprintf(w.log, "%4d %s\n", w.step.Load(), fmt.Sprintf(format, args...))
	}
}

func (w *workload) machineTime() time.Time { return time.Unix(0, w.now.Load()) }

// start lets an operation begin.
func (w *workload) start(o *operation, do func() (approval.Verdict, error)) {
	o.in = at(o.in, o.page)
	o.call = int(w.step.Load())
	for o.worker = range 64 {
		if !slices.ContainsFunc(w.pending, func(q *operation) bool { return q.worker == o.worker }) {
			break
		}
	}
	w.trace("%s %d of %d begins", o.in.Kind, o.in.Generation, slices.Index(w.pages, o.page))
	w.pending = append(w.pending, o)
	go func() {
		v, err := do()
		w.mu.Lock()
		defer w.mu.Unlock()
		o.verdict, o.err, o.done = v, err, true
	}()
}

// at is what is asked, of an approval.
func at(in Input, p *pages) Input {
	if p != nil {
		in.Issued, in.Expires = p.issued, math.MaxInt64
	}
	return in
}

// answered takes the operations that have an answer, in the order in which they were asked for.
func (w *workload) answered() (done []*operation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []*operation
	for _, o := range w.pending {
		if o.done {
			done = append(done, o)
		} else {
			left = append(left, o)
		}
	}
	w.pending = left
	return done
}

// heard puts an operation into the histories of the approvals that it is about. One that is
// lost may have been done or not.
func (w *workload) heard(o *operation, of []*pages, lost bool) {
	for _, p := range of {
		in := at(o.in, p)
		e := porcupine.Operation{ClientId: o.worker, Input: in, Output: o.verdict, Call: int64(o.call), Return: w.step.Load()}
		switch {
		case o.in.Kind == "back" || lost && o.in.Kind == "check":
			continue
		case lost:
			e.Output, e.Return = nil, math.MaxInt64
		case o.verdict == approval.OK && in.Kind == "exchange":
			p.newest = max(p.newest, 1)
		case o.verdict == approval.OK && in.Kind == "refresh":
			p.newest = max(p.newest, in.Generation+1)
		case o.verdict == approval.Reused:
			p.reused++
		}
		p.history = append(p.history, e)
	}
}

// do does what is asked of a store.
func (o *operation) do(at *store.Store) (v approval.Verdict, err error) {
	now := at.Now()
	switch in := o.in; in.Kind {
	case "exchange":
		_, v, err = at.Apply(ctx, o.page.id, planted.rule(approval.Exchange("quill", issuer, redirect, verifier, o.page.issued, 1, now)), store.Act{})
	case "refresh":
		_, v, err = at.ApplyExpected(ctx, approval.Expected(o.page.id, "quill", in.Generation), planted.rule(approval.Refresh("quill", in.Generation, 1, now)), store.Act{Generation: in.Generation})
	case "stranger":
		_, v, err = at.ApplyLive(ctx, o.page.id, planted.rule(approval.Refresh("mallory", max(1, o.page.newest), 1, now)), store.Act{})
	case "revoke":
		_, v, err = at.ApplyLive(ctx, o.page.id, planted.rule(approval.Revoke("quill", now)), store.Act{})
	case "fact":
		v = approval.OK
		err = at.RemoveMember(ctx, "nordlys", "ada", store.Act{})
	case "back":
		v = approval.OK
		err = at.SetMember(ctx, "nordlys", "ada", false, store.Act{})
	case "check":
		v, err = o.check(at)
	}
	return v, err
}

func (o *operation) check(at *store.Store) (approval.Verdict, error) {
	a, err := at.Check(ctx, o.page.id)
	v := approval.Over
	if err == nil && a.Approval.Accepts(a.Standing, a.Approval.Generation, math.MaxInt64, at.Now()) && !planted.shut {
		v = approval.OK
	}
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return v, err
}

// approve presses Approve on a page.
func (w *workload) approve(at *store.Store, page byte) (*pages, error) {
	nonce := [16]byte{page}
	h, issued, err := at.Approve(ctx, store.Answer{
		Handle: func(attempt uint32) token.Handle { h, _ := keys.Handle(1, nonce, attempt); return h },
		Client: "quill", Person: "ada", Organization: "nordlys", Grant: grantset.Set{Kind: grantset.Everything},
		RedirectURI: redirect, Issuer: issuer, Challenge: challenge(),
	}, store.Act{})
	return &pages{id: approval.ID(h.ID()), issued: issued}, err
}

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// undisturbed lets the server, or the nodes, run, and notes when that took so long that the Go runtime may
// have had a goroutine wait behind others: after ten milliseconds it does.
func (w *workload) undisturbed(run func()) {
	runtime.Gosched() // what is left of the scheduler's time is not theirs: it has waited for the server
	start := realTime()
	run()
	if realTime()-start > 9*time.Millisecond {
		w.disturbed = true
	}
}

// realTime is the machine's, of which the bubble knows nothing.
func realTime() time.Duration {
	var t syscall.Timeval
	must(syscall.Gettimeofday(&t))
	return time.Duration(t.Nano())
}
