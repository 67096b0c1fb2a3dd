// The race detector has goroutines run in another order each time, and a seed decides it.
//go:build !race

package simulate

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

var (
	count  = flag.Int("seeds", 100, "how many seeds TestSeeds goes through")
	first  = flag.Uint64("first", 0, "the first of them")
	every  = flag.Uint64("every", 1, "how far they lie apart")
	traced = flag.Bool("trace", false, "print what happens in each seed")
)

// run goes through one seed with a fault of the server, or none.
func run(t *testing.T, seed uint64, with plant, traced bool) (s *simulation) {
	prepare(t)
	if planted = with; planted.rule == nil {
		planted.rule = func(m approval.Move) approval.Move { return m }
	}
	t.Run(fmt.Sprint(seed), func(t *testing.T) { s = simulate(t, seed, traced, (*simulation).run) })
	if s == nil {
		t.FailNow()
	}
	return s
}

// excused reports whether what is wrong comes from harm to the last commit of the log, which is
// as if the power had gone before it.
func (s *simulation) excused() bool { return s.last && s.disk.harmed != "" }

// F-11, F-10: whatever the seed, nothing is doubled, lost or revived that was acknowledged,
// the service comes back once nothing is broken, and content that was harmed is never
// answered from: it is as written, or an error says so.
func TestSeeds(t *testing.T) {
	start, spent := time.Now(), processorTime()
	var operations, unanswered, losses, harmed, named, last int
	for n := range uint64(*count) {
		seed := *first + n**every
		s := run(t, seed, plant{}, *traced)
		if *traced {
			t.Logf("%s%s", s.log, &s.logged)
		}
		if len(s.wrong) > 0 && !s.excused() {
			t.Errorf("%s; harmed: %q. Again, with all that happens:\n\tgo test ./store/simulate -run '^TestSeeds$' -v -args -seeds 1 -first %d -trace", s.wrong[0], s.disk.harmed, seed)
		}
		operations, unanswered, losses = operations+s.operations, unanswered+s.unanswered, losses+s.powerLosses
		for what, counts := range map[*int]bool{&harmed: s.disk.harmed != "", &named: s.named != "", &last: len(s.wrong) > 0} {
			if counts {
				*what++
			}
		}
	}
	t.Logf("%d seeds in %v, %v of a processor each: %d operations, %d without an answer; power lost %d times; content harmed in %d, of which %d were refused by name and %d lost the last commit",
		*count, time.Since(start).Round(time.Millisecond), ((processorTime() - spent) / time.Duration(*count)).Round(10*time.Microsecond), operations, unanswered, losses, harmed, named, last)
	if *count >= 100 && (unanswered < *count || losses < *count/2 || harmed < *count/10 || named < *count/50) {
		t.Error("too little happened for this to mean anything")
	}
}

func processorTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// A seed is the same twice: what happens, in which order, down to each call to the disk. Where
// the machine may have disturbed that, it is compared again.
func TestSeedsReplay(t *testing.T) {
	replay(t, *count/4, func(seed uint64) *workload {
		// The collector has goroutines wait behind others in the midst of their work.
		runtime.GC()
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
		return &run(t, seed, plant{}, true).workload
	})
}

// replay compares seeds with themselves, up to three times where the machine disturbs them.
func replay(t *testing.T, count int, run func(seed uint64) *workload) {
	t.Helper()
	alike, disturbed := 0, 0
	for n := range uint64(count) {
		seed := *first + n**every
		for range 3 {
			a, b := run(seed), run(seed)
			if a.log.String() == b.log.String() {
				alike++
				break
			}
			if !a.disturbed && !b.disturbed {
				same(t, seed, a.log.String(), b.log.String())
				break
			}
			disturbed++
		}
	}
	if t.Logf("%d seeds were the same twice; %d times the machine disturbed one", alike, disturbed); alike == 0 {
		t.Error("no seed could be compared with itself: the machine is too busy")
	}
}

func same(t *testing.T, seed uint64, once, again string) {
	t.Helper()
	a, b := strings.Split(once, "\n"), strings.Split(again, "\n")
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			t.Errorf("seed %d differs in line %d: after\n%s\nthen\n%s\nor\n%s", seed, i, strings.Join(a[max(0, i-5):min(i, len(a))], "\n"), linesFrom(a, i), linesFrom(b, i))
			return
		}
	}
}

func linesFrom(lines []string, i int) string {
	return strings.Join(lines[min(i, len(lines)):min(i+3, len(lines))], "\n")
}

// Where a sync has failed, the system shows what it has not written, and never will: a server
// that starts on it commits nothing behind it, and tells nothing of it, before it is durable
// (decision T19).
func TestWhatAFailedSyncLeft(t *testing.T) {
	prepare(t)
	planted = plant{rule: func(m approval.Move) approval.Move { return m }}
	for seed := range uint64(40) { // the disk keeps other parts of what was not synced
		simulate(t, seed, false, func(s *simulation) {
			s.boot()
			s.approve()
			s.approve()
			s.once("exchange", 0, s.pages[0]) // the log has begun
			s.disk.syncs = 1
			if o := s.once("exchange", 0, s.pages[1]); o.err == nil {
				t.Error("the sync did not fail")
			}
			s.disk.broken = true // so that the log is left as it is
			s.close()
			s.disk.mend()
			s.boot()
			told := s.once("check", 0, s.pages[1])
			if s.disk.broken = seed%2 == 0; !s.disk.broken { // and another commit
				s.once("refresh", 1, s.pages[0])
			}
			s.disk.mu.Lock()
			s.disk.losePower()
			s.disk.mu.Unlock()
			s.close()
			s.disk.mend()
			s.boot()
			if o := s.once("check", 0, s.pages[1]); o.err != nil || o.verdict != told.verdict || o.verdict != approval.OK {
				t.Errorf("a check that was told %v is told %v: %v", told.verdict, o.verdict, o.err)
			}
			if o := s.once("refresh", 2, s.pages[0]); seed%2 != 0 && (o.err != nil || o.verdict != approval.OK) {
				t.Errorf("what was acknowledged is gone: %v %v", o.verdict, o.err)
			}
			if len(s.wrong) > 0 {
				t.Error(s.wrong)
			}
		})
	}
}

// instead tells another verdict, and changes nothing.
func instead(of, tell approval.Verdict) func(approval.Move) approval.Move {
	return func(m approval.Move) approval.Move {
		return func(a approval.Approval, s approval.Standing) (approval.State, approval.Verdict) {
			after, v := m(a, s)
			if v == of {
				return a.State, tell
			}
			return after, v
		}
	}
}

// changed changes the state that a verdict comes with.
func changed(of approval.Verdict, to func(before, after approval.State) approval.State) func(approval.Move) approval.Move {
	return func(m approval.Move) approval.Move {
		return func(a approval.Approval, s approval.Standing) (approval.State, approval.Verdict) {
			after, v := m(a, s)
			if v == of {
				after = to(a.State, after)
			}
			return after, v
		}
	}
}

// plants are faults of the server. Each has to be found in so few seeds that make test has
// time for it.
var plants = map[string]plant{
	"a used token gets tokens":                {rule: instead(approval.Reused, approval.OK)},
	"a used token is refused, and that is it": {rule: instead(approval.Reused, approval.Reused)},
	"a code never expires":                    {rule: instead(approval.Expired, approval.OK)},
	"what has ended is told to be well":       {rule: instead(approval.Over, approval.OK)},
	"an end is told, and forgotten": {rule: changed(approval.OK, func(before, after approval.State) approval.State {
		if after.Phase == approval.Ended {
			return before
		}
		return after
	})},
	"a refresh leaves its token as it was": {rule: changed(approval.OK, func(before, after approval.State) approval.State {
		if before.Phase == approval.Live && after.Phase == approval.Live {
			return before
		}
		return after
	})},
	"a refresh skips a generation": {rule: changed(approval.OK, func(before, after approval.State) approval.State {
		if before.Phase == approval.Live && after.Phase == approval.Live {
			after.Generation++
		}
		return after
	})},
	"what is refused ends the approval": {rule: changed(approval.WrongClient, func(before, _ approval.State) approval.State {
		return approval.State{Phase: approval.Ended, Generation: before.Generation, Reason: approval.RefreshReused, EndedAt: started.Unix()}
	})},
	"commits are answered before they are synced": {pragmas: []string{"synchronous(off)"}},
	"a sync of the log does nothing":              {liesAboutLog: true},
	"a check answers from before":                 {forgets: true},
	"nobody is let through":                       {shut: true},
	"the disk stays broken for the server":        {staysBroken: true},
}

func TestEveryPlantedFaultIsFound(t *testing.T) {
	for name, p := range plants {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				if s := run(t, seed, p, false); len(s.wrong) > 0 && !s.excused() {
					t.Logf("seed %d: %s", seed, s.wrong[0])
					return
				}
			}
			t.Error("not found")
		})
	}
}
