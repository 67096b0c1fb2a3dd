// The race detector has goroutines run in another order each time, and a seed decides it.
//go:build !race

package simulate

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

var nodeCount = flag.Int("node-seeds", 40, "how many seeds TestNodeSeeds goes through")

// runNodes goes through one seed with a fault of the server, or none.
func runNodes(t *testing.T, seed uint64, with plant, traced bool) (s *cluster) {
	prepareReal(t)
	if planted = with; planted.rule == nil {
		planted.rule = func(m approval.Move) approval.Move { return m }
	}
	behind.reset()
	// The collector has goroutines wait behind others in the midst of their work.
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	t.Run(fmt.Sprint(seed), func(t *testing.T) { s = simulateNodes(t, seed, traced) })
	if s == nil {
		t.FailNow()
	}
	return s
}

// F-11, F-09, F-10: whatever the seed, what several nodes tell is a history that the protocol
// allows, and all of them answer once nothing is broken.
func TestNodeSeeds(t *testing.T) {
	prepareReal(t)
	start, spent := time.Now(), processorTime()
	sum := &cluster{}
	var disturbed int
	for n := range uint64(*nodeCount) {
		seed := *first + n**every
		s := runNodes(t, seed, plant{}, *traced)
		if *traced {
			t.Logf("%s", s.log)
		}
		if len(s.wrong) > 0 {
			t.Errorf("%s. Again, with all that happens (the machine disturbed the order: %v):\n\tgo test ./store/simulate -run '^TestNodeSeeds$' -v -args -node-seeds 1 -first %d -trace", s.wrong[0], s.disturbed, seed)
		}
		sum.add(s)
		if s.disturbed {
			disturbed++
		}
	}
	t.Logf("%d seeds in %v, %v of a processor each beside PostgreSQL's: %d operations, %d without an answer; %d connections broke, %d nodes were killed, a lock was waited for %d times, and %d times longer than the server has patience; in %d the machine disturbed the order",
		*nodeCount, time.Since(start).Round(time.Millisecond), ((processorTime() - spent) / time.Duration(*nodeCount)).Round(10*time.Microsecond),
		sum.operations, sum.unanswered, sum.breaks, sum.kills, sum.waits, sum.timeouts, disturbed)
	if n := *nodeCount; n >= 40 && (sum.unanswered < n || sum.breaks < n || sum.kills < n/4 || sum.waits < n/4 || sum.timeouts < n/20) {
		t.Error("too little happened for this to mean anything")
	}
}

// add counts what happened in another seed.
func (s *cluster) add(o *cluster) {
	s.operations += o.operations
	s.unanswered += o.unanswered
	s.breaks += o.breaks
	s.kills += o.kills
	s.waits += o.waits
	s.timeouts += o.timeouts
}

// A seed is the same twice: what happens, in which order, down to each message between a node
// and PostgreSQL. Where the machine may have disturbed that, it is compared again.
func TestNodeSeedsReplay(t *testing.T) {
	replay(t, *nodeCount/4, func(seed uint64) *workload { return &runNodes(t, seed, plant{}, true).workload })
}

// nodePlants are faults of several nodes: of a rule, as those of one, and of what nodes do so
// that they know of each other, by a part of a statement that is another.
var nodePlants = map[string]plant{
	"a node answers from the rows that it remembers":    {staleness: 24 * time.Hour},
	"a node does not ask for the facts' version":        {statements: []string{"FROM facts f LEFT JOIN", "FROM (SELECT one, %version AS version FROM facts) f LEFT JOIN"}},
	"a change of facts does not raise their version":    {statements: []string{"UPDATE facts SET version = $1 WHERE one = 1", "UPDATE facts SET version = version WHERE version < $1"}},
	"a refresh does not ask for the facts' version":     {statements: []string{"(SELECT version FROM facts WHERE one = 1) = $8::bigint", "0 < $8::bigint"}},
	"a refresh is saved whatever the row says":          {statements: []string{"a.generation = u.generation\n", "a.generation > 0\n"}},
	"a move is saved whatever the row says":             {statements: []string{" AND a.phase = u.old_phase AND a.generation = u.old_generation", ""}},
	"a commit that is answered was rolled back":         {rollsBack: "UPDATE facts SET version"},
	"a connection that stops in the midst keeps a lock": {keepsLocks: true},
	"nobody is let through":                             {shut: true},
}

func TestEveryPlantedFaultOfNodesIsFound(t *testing.T) {
	for _, name := range []string{"a used token gets tokens", "a used token is refused, and that is it", "a code never expires",
		"an end is told, and forgotten", "a refresh skips a generation"} {
		nodePlants[name] = plants[name]
	}
	for _, name := range slices.Sorted(maps.Keys(nodePlants)) {
		t.Run(name, func(t *testing.T) {
			altered := 0
			for seed := range uint64(100) {
				s := runNodes(t, seed, nodePlants[name], false)
				if altered += s.altered; len(s.wrong) > 0 {
					t.Logf("seed %d: %s", seed, s.wrong[0])
					if again := runNodes(t, seed, nodePlants[name], false); !s.disturbed && !again.disturbed && !slices.Equal(again.wrong, s.wrong) {
						t.Errorf("the same seed finds %q", again.wrong)
					}
					return
				}
			}
			t.Errorf("not found; %d statements were others", altered)
		})
	}
}
