package facts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

type lettered struct{ name string }

func (n *lettered) text() string { return n.name }

// An index gives what a map would, also when the hashes of many texts are the same.
func TestIndex(t *testing.T) {
	for _, clashes := range []bool{false, true} {
		f, want := newIndex(4, (*lettered).text), map[string]*lettered{}
		if clashes {
			f.mask = 7
		}
		for range 20_000 {
			name := fmt.Sprint(rand.IntN(120))
			if rand.IntN(2) == 0 {
				one := &lettered{name}
				f.Put(one)
				want[name] = one
			} else {
				f.Drop(name)
				delete(want, name)
			}
			name = fmt.Sprint(rand.IntN(120))
			if got := f.Get(name); got != want[name] {
				t.Fatalf("%q: got %v, want %v", name, got, want[name])
			}
			if f.Len() != len(want) || len(f.all) > 120 {
				t.Fatalf("%d of %d, %d places", f.Len(), len(want), len(f.all))
			}
		}
		seen := 0
		for name, one := range f.Each {
			if seen++; want[name] != one || one == nil {
				t.Errorf("each: %q is %v, want %v", name, one, want[name])
			}
		}
		if seen != len(want) {
			t.Errorf("each: %d of %d", seen, len(want))
		}
		for range f.Each { // whoever has seen enough stops
			break
		}
		if got := Sorted(&f); len(got) != len(want) || !slices.IsSortedFunc(got, func(a, b *lettered) int { return slices.Compare([]byte(a.name), []byte(b.name)) }) {
			t.Errorf("in order: %d of %d", len(got), len(want))
		}
	}
}
