package store

import (
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
)

// mostRecorded bounds the entries of one kind that an hour takes of what changes
// nothing else, on each node: strangers can be refused from as many addresses as
// they have. A test has a lower one.
var mostRecorded = 10_000

// recorded counts entries of this hour, by kind.
type recorded struct {
	mu    sync.Mutex
	hour  int64
	kinds map[journal.Kind]int
}

// take reports whether the hour takes one more; last is told once in an hour, of
// the last one of its kind.
func (r *recorded) take(kind journal.Kind, now time.Time) (ok, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hour := now.Unix() / 3600; r.kinds == nil || hour != r.hour {
		r.hour, r.kinds = hour, map[journal.Kind]int{}
	}
	r.kinds[kind]++
	return r.kinds[kind] <= mostRecorded, r.kinds[kind] == mostRecorded
}

// Record writes an entry for what changes nothing else, such as a refusal. It
// never waits; when the queue is full the entry is lost, and the log says so, and
// so it is when an hour has had as many of its kind as the journal takes.
func (s *Store) Record(e Event) {
	ok, last := s.recorded.take(e.Kind, s.Now())
	if last {
		s.db.Log.Warn("more of a kind than the journal takes: the rest of the hour's entries are left out", "kind", string(e.Kind), "entries", mostRecorded)
	}
	if !ok {
		return
	}
	lost := func() {
		s.db.Log.Warn("an entry of the journal could not be written and is lost", "kind", string(e.Kind))
	}
	ok = s.later(func(tx *Tx) error { return tx.Journal(e) }, lost)
	if !ok {
		s.db.Log.Warn("the journal's queue is full; an entry is lost", "kind", string(e.Kind))
	}
}
