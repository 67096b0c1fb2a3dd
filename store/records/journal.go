package records

import (
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
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
func (s *Records) Record(e engine.Event) {
	ok, last := s.recorded.take(e.Kind, s.db.Now())
	if last {
		s.db.Log.Warn("more of a kind than the journal takes: the rest of the hour's entries are left out", "kind", string(e.Kind), "entries", mostRecorded)
	}
	if !ok {
		return
	}
	lost := func() {
		s.db.Log.Warn("an entry of the journal could not be written and is lost", "kind", string(e.Kind))
	}
	ok = s.db.Later(func(tx *engine.Tx) error { return tx.Journal(e) }, lost)
	if !ok {
		s.db.Log.Warn("the journal's queue is full; an entry is lost", "kind", string(e.Kind))
	}
}

// SweepJournal deletes entries that were kept for long enough.
func SweepJournal(tx *engine.Tx, now time.Time) (int, error) {
	before := JournalID(now.Add(-tx.Env.Options.JournalRetention))
	n, err := tx.Exec(`
		DELETE FROM journal WHERE id IN (
			SELECT id FROM journal WHERE id < $1 ORDER BY id LIMIT 500)`,
		before)
	if err == nil && n > 0 {
		err = noteGone(tx, before)
	}
	return int(n), err
}

// SweepLeaves drops the hashes of entries that are gone. What the blocks say else stays,
// for anchors that name them (decision J5).
func SweepLeaves(tx *engine.Tx, now time.Time) (int, error) {
	before := JournalID(now.Add(-tx.Env.Options.JournalRetention))
	n, err := tx.Exec(`
		UPDATE journal_block SET kept = 0, leaves = $1 WHERE number IN (
			SELECT number FROM journal_block WHERE kept = 1 AND last_id < $2 ORDER BY last_id LIMIT 500)`,
		[]byte{}, before)
	if err == nil && n > 0 {
		err = noteGone(tx, before)
	}
	return int(n), err
}
