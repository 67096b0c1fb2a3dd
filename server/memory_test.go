package server

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// A small heap may grow to leastHeap before it is collected, a large one by
// half; in between the bound is the larger of the two. On PostgreSQL it may treble
// before it grows by half.
func TestPercentFor(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		live, least, room uint64
		want              uint64 // heap at the next collection
	}{
		{0, leastHeap, 0, leastHeap}, {3 * mb, leastHeap, 0, leastHeap}, {4 * mb, leastHeap, 0, leastHeap},
		{12 * mb, leastHeap, 0, leastHeap}, {16 * mb, leastHeap, 0, leastHeap},
		{20 * mb, leastHeap, 0, 30 * mb}, {400 * mb, leastHeap, 0, 600 * mb},
		{0, postgresHeap, postgresRoom, postgresHeap}, {40 * mb, postgresHeap, postgresRoom, postgresHeap},
		{100 * mb, postgresHeap, postgresRoom, 300 * mb}, {400 * mb, postgresHeap, postgresRoom, 1200 * mb},
		{1000 * mb, postgresHeap, postgresRoom, 2024 * mb}, {4000 * mb, postgresHeap, postgresRoom, 6000 * mb},
	} {
		p := uint64(percentFor(tt.live, tt.least, tt.room))
		goal := max(tt.live*(100+p)/100, 4*mb*p/100) // as the runtime reckons
		if goal < tt.want*98/100 || goal > tt.want*102/100 {
			t.Errorf("live %d MB: collected at %d MB, want %d", tt.live/mb, goal/mb, tt.want/mb)
		}
	}
}

// What afterCollection has set up goes on by itself after each collection.
func TestTuningGoesOn(t *testing.T) {
	percent := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	t.Setenv("GOGC", "")
	TuneMemory(false)
	kept := make([]byte, 400<<20)
	for range 100 {
		if runtime.GC(); percent() == gcPercent {
			break
		}
	}
	if got := percent(); got != gcPercent {
		t.Errorf("with a large heap: %d percent, want %d", got, gcPercent)
	}
	runtime.KeepAlive(kept)
}
