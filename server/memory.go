package server

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The collector runs when the heap has grown by half, but not before it has
// leastHeap: with a small database it would otherwise run some twenty times a
// second under load and take a sixth of the time that a request takes, and
// with a large one the runtime's own 100 percent would double its memory.
//
// On PostgreSQL what is stored lives elsewhere, and what is made for each
// question to it is the larger part: there the heap may treble, as long as it
// grows by no more than postgresRoom. With 100,000 people in memory to grow by
// half took a quarter of the time. To collect the 0.7 GB of a million takes 0.6
// to 0.8 s of a processor, and half as much again is soon answered.
const (
	gcPercent    = 50
	leastHeap    = 28 << 20  // bytes
	postgresHeap = 128 << 20 // bytes: leastHeap on PostgreSQL
	postgresRoom = 1 << 30   // bytes
)

// TuneMemory sets the collector up for a process that is one server, with its rows in
// PostgreSQL or not, unless whoever starts it has said how (GOGC). A program that does
// more than serve has its own idea of its memory, and leaves it.
func TuneMemory(onPostgres bool) {
	least, room := uint64(leastHeap), uint64(0)
	if onPostgres {
		least, room = postgresHeap, postgresRoom
	}
	if os.Getenv("GOGC") == "" {
		afterCollection(least, room)
	}
}

// afterCollection sets the percentage by what the last collection has left: least is
// the heap in bytes that is not collected before, room what it may grow by until it is
// thrice what it was. It comes back after the next: a finalizer runs once for each.
func afterCollection(least, room uint64) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(percentFor(live[0].Value.Uint64(), least, room))
	runtime.SetFinalizer(new(collected), func(*collected) { afterCollection(least, room) })
}

// collected is garbage at once. It is larger than what the runtime packs into
// one block with others, whose finalizers may wait for them.
type collected [64]byte

// percentFor gives how much a heap of this many bytes may grow, in percent.
// The runtime itself lets a heap grow to the percentage of 4 MB at least.
func percentFor(live, least, room uint64) int {
	goal := max(least, live+min(2*live, room))
	if live < 4<<20 {
		return int(goal * 100 / (4 << 20))
	}
	return max(gcPercent, int(goal*100/live)-100)
}
