package attempt

import (
	"sync"

	"github.com/grantkeeper/grantkeeper/org"
)

// Bounds of what a Gatherer holds between two times that it is emptied.
const (
	MaxHeld      = 4096 // observations, of all
	maxStrangers = 256  // of them, of whom nobody knows a person or an approval
	maxOpening   = 128  // of these, at steps 1 and 2
	maxKey       = 2560 // bytes of a key: an index of PostgreSQL takes 2704 with what is beside it
)

// A Gatherer holds what doors have seen until it is taken. It never waits, and what
// it has no room for it counts. It is safe for concurrent use.
type Gatherer struct {
	mu        sync.Mutex
	held      []Observation
	strangers int
	opening   int
	last      map[Observation]int // the place of one that was seen already, its time and count left out
	counted   map[Reason]int
}

// Observe takes an observation. Of the same one, seen again before the next Take, it
// keeps the last time and how many there were.
func (g *Gatherer) Observe(o Observation) {
	o.Keys = o.storable()
	key := o
	key.At, key.Again = 0, 0
	g.mu.Lock()
	defer g.mu.Unlock()
	if at, ok := g.last[key]; ok && at == g.lastOf(o) {
		g.held[at].At, g.held[at].Again = max(o.At, g.held[at].At), g.held[at].Again+1
		return
	}
	stranger := o.Person == "" && o.Approval == ""
	opening := stranger && o.Step <= Metadata
	if len(g.held) >= MaxHeld || stranger && g.strangers >= maxStrangers || opening && g.opening >= maxOpening {
		if g.counted == nil {
			g.counted = map[Reason]int{}
		}
		g.counted[o.Reason]++
		return
	}
	if stranger {
		g.strangers++
	}
	if opening {
		g.opening++
	}
	if g.last == nil {
		g.last = map[Observation]int{}
	}
	g.last[key] = len(g.held)
	g.held = append(g.held, o)
}

// storable leaves out what not every database can hold (org.Storable), or what is too long:
// one key of a stranger would take along all that is written with it.
func (k Keys) storable() Keys {
	for _, at := range []*string{&k.Client, &k.Name, &k.Host, &k.Approval, &k.Walk, &k.Person, &k.Organization, &k.Address} {
		if len(*at) > maxKey || !org.Storable(*at) {
			*at = ""
		}
	}
	return k
}

// lastOf is the place of the last observation of the same keys, or of the machine up to
// the registration; only what is seen twice in a row is counted, so that order stays.
func (g *Gatherer) lastOf(o Observation) int {
	for i := len(g.held) - 1; i >= 0 && i >= len(g.held)-lookBack; i-- {
		h := &g.held[i]
		if h.Keys == o.Keys || o.Step <= Registration && h.Step <= Registration && h.Address == o.Address {
			return i
		}
	}
	return -1
}

// lookBack bounds how far the last observation of the same keys is looked for.
const lookBack = 64

// Take gives what is held, as records of one observation or more in the order in which
// they began, and what had no room since the last time: how many by their reason, ""
// where nothing was wrong.
func (g *Gatherer) Take() (all []Record, counted map[Reason]int) {
	g.mu.Lock()
	held := g.held
	counted = g.counted
	g.held, g.last, g.strangers, g.opening, g.counted = nil, nil, 0, 0, nil
	g.mu.Unlock()
	type together struct {
		Keys
		step Step // apart where no client is known: each may be of another
		turn int  // of the address
	}
	at, turns := map[together]int{}, map[string]turn{}
	for _, o := range held {
		key := together{Keys: o.Keys}
		if o.Client == "" && o.Step > Metadata {
			key.step = o.Step
		}
		if o.Step <= Registration {
			now := turns[o.Address].after(o)
			if turns[o.Address] = now; o.Client == "" {
				key.turn = now.n
			}
		}
		if i, ok := at[key]; ok {
			all[i] = Merge(all[i], Of(o))
			continue
		}
		at[key] = len(all)
		all = append(all, Of(o))
	}
	return all, counted
}

// A turn is one of the times that a machine begins: what it does after a registration,
// and a refusal after another client has registered, may be another's.
type turn struct {
	n     int
	tried bool // the last was a registration
}

func (t turn) after(o Observation) turn {
	opens := o.Step <= Metadata
	if opens && t.tried || !opens && !o.refusedRegistration() {
		t.n++
	}
	return turn{t.n, !opens}
}
