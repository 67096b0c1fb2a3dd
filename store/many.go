package store

import (
	"context"

	"github.com/grantkeeper/grantkeeper/approval"
)

// moveRows makes a move of many approvals that may end them and asks nothing
// of the code, as part of a larger change: a few statements for all of them.
// What is not there any more, or has ended meanwhile, is left out of the count.
func (w *writer) moveRows(ids []approval.ID, m approval.Move, act Act) (ended int, after func(), err error) {
	all, err := w.readMany(ids)
	if err != nil {
		return 0, nil, err
	}
	ends := map[approval.State][]approval.Approval{} // by what the rows are to say
	for _, a := range all {
		before := a.State
		a.State, _ = m(a, w.store.memory.standing(a))
		if a.State != before && a.Phase == approval.Ended {
			row := approval.State{Reason: a.Reason, EndedAt: a.EndedAt}
			ends[row] = append(ends[row], a)
		}
	}
	var over []approval.Approval
	for row, some := range ends {
		hit, err := w.saveEnds(row, some)
		if err != nil {
			return 0, nil, err
		}
		over = append(over, hit...)
	}
	var entries []Event
	for _, a := range over {
		entries = append(entries, events(a, approval.State{Phase: approval.Live}, act)...)
	}
	if err := w.journalAll(entries); err != nil {
		return 0, nil, err
	}
	return len(over), func() {
		for _, a := range over {
			w.remember(a)()
		}
	}, nil
}

// readMany gives those of the approvals that are there: from memory where that
// is enough, else from their rows, which on PostgreSQL stay as they are read.
func (w *writer) readMany(ids []approval.ID) ([]approval.Approval, error) {
	out := make([]approval.Approval, 0, len(ids))
	var rest []any
	for _, id := range ids {
		if h := w.store.memory.approvals.at(id); h != nil && h.phase == approval.Live {
			out = append(out, w.store.memory.cool(id, h))
			continue
		}
		rest = append(rest, id[:])
	}
	if len(rest) == 0 {
		return out, nil
	}
	q := query{text: selectApproval}
	if w.tx != nil {
		q.end = ` ORDER BY id FOR UPDATE`
	}
	q.in("id", padded(rest))
	rows, err := w.query(q.whole(), q.args...)
	return out, eachRow(rows, err, func(r scanner) error {
		a, _, err := scanApproval(r)
		out = append(out, a)
		return err
	})
}

// saveEnds writes one end into the rows of those approvals that have not ended
// yet, and gives these.
func (w *writer) saveEnds(row approval.State, of []approval.Approval) ([]approval.Approval, error) {
	q := query{
		text:       `UPDATE approval SET phase = 3, reason = $1, ended_at = $2`,
		args:       []any{string(row.Reason), row.EndedAt},
		conditions: []string{"phase < 3"},
		end:        ` RETURNING id`,
	}
	ids, by := make([]any, len(of)), make(map[approval.ID]approval.Approval, len(of))
	for i := range of {
		ids[i], by[of[i].ID] = of[i].ID[:], of[i]
	}
	q.in("id", padded(ids))
	hit, err := approvalIDs(w.query(q.whole(), q.args...))
	out := make([]approval.Approval, len(hit))
	for i, id := range hit {
		out[i] = by[id]
	}
	return out, err
}

// roomy gives the embedded engine more memory and a longer log for as long as
// very many rows change: most of their pages come once more, and with little
// room each was read and written every time.
func (w *writer) roomy(on bool) error {
	if w.tx != nil || w.wide == on {
		return nil
	}
	text := `PRAGMA cache_size = -2000; PRAGMA wal_autocheckpoint = ` + checkpointPages
	if on {
		text = `PRAGMA cache_size = -16000; PRAGMA wal_autocheckpoint = 8000`
	}
	// Both are done when they are prepared, so they are prepared every time.
	_, err := w.conn.ExecContext(context.Background(), text)
	w.wide = on && err == nil
	return err
}
