package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Every duration counts in a bucket that holds it and is narrow.
func TestBuckets(t *testing.T) {
	for bucket := 1; bucket < buckets; bucket++ {
		low, high := upperEdge(bucket-1)+1, upperEdge(bucket)
		if high < low {
			t.Fatalf("bucket %d is from %d to %d", bucket, low, high)
		}
		if bucketOf(low) != bucket || bucketOf(high) != bucket {
			t.Fatalf("%d counts in %d and %d in %d, want %d", low, bucketOf(low), high, bucketOf(high), bucket)
		}
		if high-low > low/64 {
			t.Fatalf("bucket %d is %d wide at %d", bucket, high-low, low)
		}
	}
	if upperEdge(buckets-1) != 1<<longest-1 || bucketOf(time.Hour) != buckets-1 || bucketOf(-1) != 0 {
		t.Fatalf("the ends are %d, %d and %d", upperEdge(buckets-1), bucketOf(time.Hour), bucketOf(-1))
	}
}

func TestQuantile(t *testing.T) {
	var h histogram
	if h.quantile(0.5) != 0 {
		t.Fatalf("median of nothing is %v", h.quantile(0.5))
	}
	for i := range 100 {
		h.add(time.Duration(i + 1))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 0.991: 100, 1: 100} {
		if got := h.quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

// A quantile is never below the truth, and less than 1/64 above it; it does
// not matter which connection counted what.
func TestQuantileOfMany(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var merged, other histogram
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(random.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		if i%3 == 0 {
			other.add(d)
		} else {
			merged.add(d)
		}
	}
	merged.merge(&other)
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		truth := all[max(int(q*float64(len(all)))-1, 0)]
		if got := merged.quantile(q); got < truth || got > truth+truth/64+1 {
			t.Errorf("quantile %v is %v, the truth %v", q, got, truth)
		}
	}
}
