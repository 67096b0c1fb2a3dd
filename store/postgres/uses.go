package postgres

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Used keeps it until uses are written.
func (p *Engine) Used(id approval.ID) { p.uses.see(id, uint32(p.Now().Unix())) }

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
func (p *Engine) noteUses() {
	for p.pause(usesEvery) {
		if !p.uses.none() {
			p.notes.Join(note{run: func(*engine.Tx) error { return nil }}, 1)
		}
	}
}

// WriteUses notes uses. It locks the rows in the order of their IDs, as moves do, and
// none that was used within the hour before the first of them.
func WriteUses(tx *engine.Tx, used map[approval.ID]uint32) error {
	if len(used) == 0 {
		return nil
	}
	ids, at := make([][]byte, 0, len(used)), make([]int64, 0, len(used))
	for id, t := range used {
		ids, at = append(ids, id[:]), append(at, int64(t))
	}
	_, err := tx.Exec(`
		WITH locked AS (
			SELECT id FROM approval WHERE id = ANY($1::bytea[]) AND used_at <= $3::bigint - 3600 ORDER BY id FOR UPDATE
		)
		UPDATE approval a SET used_at = u.at
		  FROM unnest($1::bytea[], $2::bigint[]) AS u (id, at)
		 WHERE (SELECT COUNT(*) FROM locked) > 0
		   AND a.id = u.id AND a.used_at <= u.at - 3600`, ids, at, slices.Max(at))
	return err
}

// LastUse asks the row.
func (p *Engine) LastUse(ctx context.Context, id approval.ID) (int64, error) {
	return scanLastUse(p.DB.QueryRowContext(ctx, selectLastUse, id[:]))
}

const selectLastUse = `
	SELECT issued_at, used_at FROM approval WHERE id = $1 AND phase = ` + engine.SQLLive

func scanLastUse(row *sql.Row) (int64, error) {
	var issued, used int64
	err := row.Scan(&issued, &used)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	} else if err != nil {
		return 0, engine.Unavailable("last use", err)
	}
	return max(issued, used), nil
}
