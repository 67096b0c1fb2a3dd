package facts

import (
	"hash/maphash"
	"math"
	"slices"
	"strings"
)

// Index finds facts by a key of theirs, as a map from the key does. But the
// collector follows each pointer in a map, and waits for memory at nearly each of
// them, because they lie in no order; with a million people that took a quarter of
// the processor. Here what is in no order has no pointers, and the list that has
// them is in the order in which the facts were made.
type Index[K comparable, T any] struct {
	by    func(*T) K
	seed  maphash.Seed
	mask  uint64            // of hashes: all, but in tests
	at    map[uint64]uint32 // index into all, by the key's hash
	all   []*T              // with nil where one was dropped
	free  []uint32
	clash map[K]*T // whose hash another key has
}

// newIndex makes one with room for so many.
func newIndex[K comparable, T any](n int, by func(*T) K) Index[K, T] {
	return Index[K, T]{by: by, seed: maphash.MakeSeed(), mask: math.MaxUint64, at: make(map[uint64]uint32, n), all: make([]*T, 0, n)}
}

// Get gives nil for a key that nobody has.
func (f *Index[K, T]) Get(key K) *T {
	if i, ok := f.at[f.hash(key)]; ok && f.by(f.all[i]) == key {
		return f.all[i]
	}
	return f.clash[key]
}

func (f *Index[K, T]) hash(key K) uint64 { return maphash.Comparable(f.seed, key) & f.mask }

// Put takes one by its key, which must not change while it is there.
func (f *Index[K, T]) Put(one *T) {
	key := f.by(one)
	hash := f.hash(key)
	i, taken := f.at[hash]
	if !taken {
		delete(f.clash, key)
	}
	switch n := len(f.free); {
	case taken && f.by(f.all[i]) == key:
		f.all[i] = one
	case taken:
		if f.clash == nil {
			f.clash = map[K]*T{}
		}
		f.clash[key] = one
	case n > 0:
		i, f.free = f.free[n-1], f.free[:n-1]
		f.at[hash], f.all[i] = i, one
	default:
		f.at[hash], f.all = uint32(len(f.all)), append(f.all, one)
	}
}

// Drop forgets who has the key.
func (f *Index[K, T]) Drop(key K) {
	hash := f.hash(key)
	if i, ok := f.at[hash]; ok && f.by(f.all[i]) == key {
		delete(f.at, hash)
		f.all[i], f.free = nil, append(f.free, i)
		return
	}
	delete(f.clash, key)
}

func (f *Index[K, T]) Len() int { return len(f.at) + len(f.clash) }

// Each goes through all, in no order that anybody may rely on.
func (f *Index[K, T]) Each(yield func(K, *T) bool) {
	for _, one := range f.all {
		if one != nil && !yield(f.by(one), one) {
			return
		}
	}
	for key, one := range f.clash {
		if !yield(key, one) {
			return
		}
	}
}

// Sorted gives all by their texts.
func Sorted[T any](f *Index[string, T]) []*T {
	out := make([]*T, 0, f.Len())
	for _, one := range f.Each {
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b *T) int { return strings.Compare(f.by(a), f.by(b)) })
	return out
}
