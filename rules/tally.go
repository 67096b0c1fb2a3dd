package rules

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// maxTally bounds how many calls a Tally tells apart: names and paths are the
// clients' choice.
const maxTally = 100

// Tally counts the calls that are denied because no rule names them, so that
// operators are told (decision V30). The zero Tally is empty.
type Tally struct {
	mu   sync.Mutex
	seen map[string]*count // by the rule that would name them; "" is where there is none, or no room
}

type count struct{ all, told int }

// Unnamed is a call that no rule names.
type Unnamed struct {
	Rule  string `json:"rule"` // to paste and complete, as Suggest gives it; "" is all others
	Count int    `json:"count"`
}

// Note counts a call if it was denied because no rule names it.
func (t *Tally) Note(c Call, d Decision) {
	if d.Allowed || d.Reason != Unlisted && d.Reason != UnknownMethod {
		return
	}
	rule := Suggest(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seen = map[string]*count{"": {}}
	}
	if t.seen[rule] == nil && len(t.seen) > maxTally {
		rule = ""
	}
	if t.seen[rule] == nil {
		t.seen[rule] = new(count)
	}
	t.seen[rule].all++
}

// Forget counts anew, for other rules.
func (t *Tally) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = nil
}

// All gives what was counted, the most frequent first.
func (t *Tally) All() []Unnamed { return t.list(func(c *count) int { return c.all }) }

// News gives what was counted since it was called last.
func (t *Tally) News() []Unnamed {
	return t.list(func(c *count) int {
		n := c.all - c.told
		c.told = c.all
		return n
	})
}

func (t *Tally) list(of func(*count) int) (all []Unnamed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for rule, c := range t.seen {
		if n := of(c); n > 0 {
			all = append(all, Unnamed{rule, n})
		}
	}
	slices.SortFunc(all, func(a, b Unnamed) int { return cmp.Or(b.Count-a.Count, strings.Compare(a.Rule, b.Rule)) })
	return all
}
