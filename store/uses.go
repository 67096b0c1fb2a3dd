package store

import (
	"slices"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

// useGrain is how true the last use is (decision P11). A refresh saves its own; so
// of calls, which come within 30 minutes of the refresh or the exchange that gave
// their token, at most the first is to be noted.
const useGrain = time.Hour

// noteAgainAfter is how long no use is noted after one that could not be
// written: a disk that is full is not asked at each request.
const noteAgainAfter = time.Minute

// Used notes a call, unless there was a use within the hour. It never waits; what
// finds the queue full is noted at a later call.
func (s *Store) Used(id approval.ID) { s.engine.Used(id) }

// Used keeps it until uses are written.
func (p *postgresEngine) Used(id approval.ID) { p.uses.see(id, uint32(p.Now().Unix())) }

func idle(used, now uint32) bool { return now-used >= uint32(useGrain/time.Second) }

// uses are the approvals of which a call is to be noted.
type uses struct {
	mu      sync.Mutex
	pending map[approval.ID]uint32 // Unix seconds
}

const maxUses = 500_000

func (u *uses) see(id approval.ID, at uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.add(id, at)
}

// add forgets what there is no room for: the next call says it again.
func (u *uses) add(id approval.ID, at uint32) {
	if u.pending == nil {
		u.pending = map[approval.ID]uint32{}
	}
	if len(u.pending) < maxUses {
		u.pending[id] = max(u.pending[id], at)
	}
}

func (u *uses) take() map[approval.ID]uint32 {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.pending
	u.pending = nil
	return out
}

func (u *uses) none() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.pending) == 0
}

// giveBack takes what could not be written.
func (u *uses) giveBack(due map[approval.ID]uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, at := range due {
		u.add(id, at)
	}
}

// usesEvery is how often uses are written: many together cost less.
const usesEvery = 250 * time.Millisecond

// noteUses has uses written that wait, by an empty note.
func (p *postgresEngine) noteUses() {
	for p.pause(usesEvery) {
		if !p.uses.none() {
			p.notes.join(note{run: func(*txn) error { return nil }}, 1)
		}
	}
}

// writeUses notes uses. It locks the rows in the order of their IDs, as moves do, and
// none that was used within the hour before the first of them.
func writeUses(tx *txn, used map[approval.ID]uint32) error {
	if len(used) == 0 {
		return nil
	}
	ids, at := make([][]byte, 0, len(used)), make([]int64, 0, len(used))
	for id, t := range used {
		ids, at = append(ids, id[:]), append(at, int64(t))
	}
	_, err := tx.exec(`
		WITH locked AS (
			SELECT id FROM approval WHERE id = ANY($1::bytea[]) AND used_at <= $3::bigint - 3600 ORDER BY id FOR UPDATE
		)
		UPDATE approval a SET used_at = u.at
		  FROM unnest($1::bytea[], $2::bigint[]) AS u (id, at)
		 WHERE (SELECT COUNT(*) FROM locked) > 0
		   AND a.id = u.id AND a.used_at <= u.at - 3600`, ids, at, slices.Max(at))
	return err
}
