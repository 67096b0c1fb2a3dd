package faults

import (
	"cmp"
	"flag"
	"maps"
	mrand "math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

var (
	lasting  = flag.Duration("for", 12*time.Second, "how long each test makes faults")
	many     = flag.Int("at", 24, "approvals at once that three nodes have without a pooler, of 5/3 as many people")
	askers   = flag.Int("askers", 3, "clients at once of each approval")
	steps    = flag.Int("steps", 17, "what each of them does, on average")
	most     = flag.Int64("operations", 0, "end as soon as so many were asked; 0 is never before the time")
	detector = flag.Bool("race-detector", true, "build the nodes with it, which makes them some five times slower")
	thinking = flag.Duration("thinking", 400*time.Millisecond, "how long each waits at most before it does the next")
	seed     = flag.Uint64("seed", 0, "of the order of the faults; 0 is a new one")
)

// A maker makes faults, one after another.
type maker struct {
	*testing.T
	seed   uint64
	random *mrand.Rand
	made   tally
	asked  func() int64 // operations until now
	kind   string       // of the last fault
	before int64        // operations before it
}

func newMaker(t *testing.T, l *load) *maker {
	m := &maker{T: t, seed: cmp.Or(*seed, mrand.Uint64()), made: tally{}, asked: l.asked.Load}
	m.random = mrand.New(mrand.NewPCG(m.seed, 1))
	t.Logf("seed %d", m.seed)
	return m
}

// A fault is made, and mended before it returns.
type fault struct {
	name string
	make func(m *maker)
}

// one makes a fault, and counts it: what is asked from now on until the next one is beside it.
func (m *maker) one(f fault) {
	m.count()
	m.kind = f.name
	f.make(m)
}

// count adds what was asked beside the last fault.
func (m *maker) count() {
	asked := m.asked()
	if m.kind != "" {
		n := m.made[m.kind]
		m.made[m.kind] = count{n.faults + 1, n.beside + asked - m.before}
	}
	m.kind, m.before = "", asked
}

// work makes faults for as long as was asked, and until the load has done enough for a
// verdict to mean something: on a busy machine that is later.
func (m *maker) work(l *load, faults ...fault) {
	end := time.Now().Add(*lasting)
	for time.Now().Before(end) && (*most == 0 || l.asked.Load() < *most) || !l.enough() && time.Now().Before(end.Add(3*time.Minute)) {
		m.sleep(300, 2000)
		f := faults[m.random.IntN(len(faults))]
		m.one(f)
	}
	m.count()
}

// beside makes one fault again and again, while others are made, until the func is
// called.
func (m *maker) beside(f fault) (stop func()) {
	other := &maker{T: m.T, random: mrand.New(mrand.NewPCG(m.seed, 2)), made: tally{}, asked: m.asked}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			other.one(f)
			select {
			case <-end:
				return
			case <-time.After(3 * time.Second):
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		other.count()
		maps.Copy(m.made, other.made) // of a kind that the others are not
	}
}

// sleep is for so many milliseconds, at least and at most.
func (m *maker) sleep(least, most int) {
	time.Sleep(time.Duration(least+m.random.IntN(most-least)) * time.Millisecond)
}

// kill is kill -9; the node is started again at once.
func kill(c *cluster) fault {
	return fault{"node killed", func(m *maker) {
		c.nodes[m.random.IntN(len(c.nodes))].signal(syscall.SIGKILL)
	}}
}

// freeze stops a node for longer than clients wait, and wakes it.
func freeze(c *cluster, least, most int) fault { return pause(c, "node paused", least, most) }

// longPause is for longer than any timeout of server, database or client, which are 15
// seconds at most; where there is time, the others count the node as dead meanwhile.
func longPause(c *cluster) fault {
	return pause(c, "node paused for long", 17_000, int(longestPause()/time.Millisecond))
}

// longestPause is how long a node stands still at most.
func longestPause() time.Duration {
	if *lasting > time.Minute {
		return 45 * time.Second
	}
	return 20 * time.Second
}

func pause(c *cluster, name string, least, most int) fault {
	return fault{name, func(m *maker) {
		n := c.nodes[m.random.IntN(len(c.nodes))]
		n.signal(syscall.SIGSTOP)
		m.sleep(least, most)
		n.signal(syscall.SIGCONT)
	}}
}

// F-11, F-09, F-10: the embedded engine under load, killed and paused.
func TestF11_Embedded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil, place{binary: binaries[0], database: "sqlite://" + filepath.Join(t.TempDir(), "grantkeeper.db")})
	c.furnish(16)
	l := newLoad(c)
	l.run(12)
	m := newMaker(t, l)
	m.work(l, kill(c), freeze(c, 300, 1500))
	c.ready(c.nodes[0])
	l.stop()
	l.verdict(t)
	t.Logf("faults: %v", m.made)
}
