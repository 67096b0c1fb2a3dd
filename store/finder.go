package store

import (
	"hash/maphash"
	"math"
	"slices"
	"strings"
)

// finder finds facts by a text of theirs, as a map from the text does. But the
// collector follows each pointer in a map, and waits for memory at nearly each of
// them, because they lie in no order; with a million people that took a quarter of
// the processor. Here what is in no order has no pointers, and the list that has
// them is in the order in which the facts were made.
type finder[T any] struct {
	by    func(*T) string // the text
	seed  maphash.Seed
	mask  uint64            // of hashes: all, but in tests
	at    map[uint64]uint32 // index into all, by the text's hash
	all   []*T              // with nil where one was dropped
	free  []uint32
	clash map[string]*T // whose hash another text has
}

// newFinder makes one with room for so many.
func newFinder[T any](n int, by func(*T) string) finder[T] {
	return finder[T]{by: by, seed: maphash.MakeSeed(), mask: math.MaxUint64, at: make(map[uint64]uint32, n), all: make([]*T, 0, n)}
}

// get gives nil for a text that nobody has.
func (l *finder[T]) get(text string) *T {
	if i, ok := l.at[l.hash(text)]; ok && l.by(l.all[i]) == text {
		return l.all[i]
	}
	return l.clash[text]
}

func (l *finder[T]) hash(text string) uint64 { return maphash.String(l.seed, text) & l.mask }

// put takes one by its text. The text must not change while it is there.
func (l *finder[T]) put(one *T) {
	text := l.by(one)
	hash := l.hash(text)
	i, taken := l.at[hash]
	if !taken {
		delete(l.clash, text)
	}
	switch n := len(l.free); {
	case taken && l.by(l.all[i]) == text:
		l.all[i] = one
	case taken:
		if l.clash == nil {
			l.clash = map[string]*T{}
		}
		l.clash[text] = one
	case n > 0:
		i, l.free = l.free[n-1], l.free[:n-1]
		l.at[hash], l.all[i] = i, one
	default:
		l.at[hash], l.all = uint32(len(l.all)), append(l.all, one)
	}
}

// drop forgets who has the text.
func (l *finder[T]) drop(text string) {
	hash := l.hash(text)
	if i, ok := l.at[hash]; ok && l.by(l.all[i]) == text {
		delete(l.at, hash)
		l.all[i], l.free = nil, append(l.free, i)
		return
	}
	delete(l.clash, text)
}

func (l *finder[T]) len() int { return len(l.at) + len(l.clash) }

// each goes through all, in no order that anybody may rely on.
func (l *finder[T]) each(yield func(string, *T) bool) {
	for _, one := range l.all {
		if one != nil && !yield(l.by(one), one) {
			return
		}
	}
	for text, one := range l.clash {
		if !yield(text, one) {
			return
		}
	}
}

// inOrder gives all by their texts.
func (l *finder[T]) inOrder() []*T {
	out := make([]*T, 0, l.len())
	for _, one := range l.each {
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b *T) int { return strings.Compare(l.by(a), l.by(b)) })
	return out
}
