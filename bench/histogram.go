package main

import (
	"math"
	"math/bits"
	"time"
)

// A histogram counts durations in buckets that are at most 1/64 of their
// value wide, from a nanosecond to about two minutes; longer ones count as
// that. One connection fills it, without a lock.
type histogram struct {
	counts [buckets]uint32
	n      uint64
}

const (
	fine    = 6  // bits of a value that its bucket keeps
	longest = 37 // bits of the longest duration, in nanoseconds
	buckets = (longest - fine + 1) << fine
)

// bucketOf gives the bucket of a duration: below 128 ns each has its own, and
// from there on each doubling has 64.
func bucketOf(d time.Duration) int {
	v := uint64(min(max(d, 0), 1<<longest-1))
	if v < 1<<fine {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - fine
	return shift<<fine + int(v>>shift)
}

// upperEdge is the longest duration that counts in the bucket.
func upperEdge(bucket int) time.Duration {
	if bucket < 2<<fine {
		return time.Duration(bucket)
	}
	shift := bucket>>fine - 1
	return time.Duration((bucket-shift<<fine+1)<<shift - 1)
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.n++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
}

// quantile gives the duration that a part q of all, from 0 to 1, did not
// exceed: the upper edge of its bucket, so never less than the truth. It is 0
// when nothing was counted.
func (h *histogram) quantile(q float64) time.Duration {
	rank := max(uint64(math.Ceil(q*float64(h.n))), 1)
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += uint64(n); seen >= rank {
			return upperEdge(i)
		}
	}
	return 0
}
