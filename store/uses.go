package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

// useGrain is how true the last use is (decision P11).
const useGrain = time.Hour

// noteAgainAfter is how long no use is noted after one that could not be
// written: a disk that is full is not asked at each request.
const noteAgainAfter = time.Minute

// Used notes that an approval is in use, at most hourly. It never waits; what
// finds the queue full is noted at a later use.
func (s *Store) Used(id approval.ID) {
	now := uint32(s.Now().Unix())
	if s.shared != nil {
		s.shared.uses.see(id, now)
		return
	}
	if int64(now) < s.unnoted.Load() {
		return
	}
	s.memory.mu.RLock()
	h := s.memory.approvals.at(id)
	due, old := false, uint32(0)
	if h != nil {
		old = atomic.LoadUint32(&h.used)
		due = idle(old, now) && atomic.CompareAndSwapUint32(&h.used, old, now)
	}
	s.memory.mu.RUnlock()
	if !due {
		return
	}
	back := func() {
		s.memory.mu.RLock()
		defer s.memory.mu.RUnlock()
		if h := s.memory.approvals.at(id); h != nil {
			atomic.CompareAndSwapUint32(&h.used, now, old)
		}
	}
	ok := s.writer.note(func(w *writer) (func(), error) {
		_, err := w.exec(`
			INSERT INTO approval_use (approval, used_at) VALUES ($1, $2)
			ON CONFLICT (approval) DO UPDATE SET used_at = excluded.used_at`, id[:], int64(now))
		return nil, err
	}, func() {
		back()
		s.unnoted.Store(int64(now) + int64(noteAgainAfter/time.Second))
	})
	if !ok {
		back()
	}
}

func idle(used, now uint32) bool { return now-used >= uint32(useGrain/time.Second) }

// uses are the approvals whose use is to be noted, and of which of them that
// was done within the hour. What it knows is bounded: to forget one costs one
// more write.
type uses struct {
	mu      sync.Mutex
	due     map[approval.ID]uint32
	now     map[approval.ID]uint32
	earlier map[approval.ID]uint32
}

const maxUses = 500_000

// see notes the use, unless there was one within the hour.
func (u *uses) see(id approval.ID, at uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	last, ok := u.now[id]
	if !ok {
		last = u.earlier[id]
	}
	if at-last < uint32(useGrain/time.Second) {
		return
	}
	if u.now == nil || len(u.now) >= maxUses {
		u.earlier, u.now = u.now, map[approval.ID]uint32{}
	}
	if u.due == nil {
		u.due = map[approval.ID]uint32{}
	}
	u.now[id], u.due[id] = at, at
}

func (u *uses) take() map[approval.ID]uint32 {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.due
	u.due = nil
	return out
}

func (u *uses) none() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.due) == 0
}

// giveBack takes what could not be written, as far as there is room.
func (u *uses) giveBack(due map[approval.ID]uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, at := range due {
		if len(u.due) >= maxUses {
			return
		}
		if u.due == nil {
			u.due = map[approval.ID]uint32{}
		}
		u.due[id] = max(u.due[id], at)
	}
}

// usesEvery is how often uses are written: where many approvals are used for the
// first time within the hour, many together cost much less.
const usesEvery = 250 * time.Millisecond

// noteUses has uses written that wait, by an empty note.
func (p *shared) noteUses() {
	for p.pause(usesEvery) {
		if !p.uses.none() {
			p.notes.join(note{run: func(*writer) (func(), error) { return nil, nil }}, 1)
		}
	}
}

// writeUses notes uses, in the order of IDs: two nodes may note the same. What
// another has noted within the hour is not locked.
func writeUses(w *writer, used map[approval.ID]uint32) error {
	if len(used) == 0 {
		return nil
	}
	ids, at := make([][]byte, 0, len(used)), make([]int64, 0, len(used))
	for id, t := range used {
		ids, at = append(ids, id[:]), append(at, int64(t))
	}
	_, err := w.exec(`
		INSERT INTO approval_use (approval, used_at)
		SELECT u.id, u.at FROM unnest($1::bytea[], $2::bigint[]) AS u (id, at)
		  LEFT JOIN approval_use a ON a.approval = u.id
		 WHERE a.used_at IS NULL OR a.used_at <= u.at - 3600
		 ORDER BY u.id
		ON CONFLICT (approval) DO UPDATE SET used_at = excluded.used_at
		 WHERE approval_use.used_at <= excluded.used_at - 3600`, ids, at)
	return err
}
