package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/approval"
)

// moved is a move that changes its row.
type moved struct {
	o             *operation
	before, after approval.State
	used          uint32 // Unix seconds; 0 where it is none
	version       int64  // that the facts are to have still
}

// entries are what the journal says of the move.
func (m *moved) entries() []Event { return events(m.o.result, m.before, m.o.act) }

// unguarded is the version for moves that were computed from rows that were
// just read.
const unguarded = -1

// move computes a move from what is remembered. One that ends others with it is
// made alone.
func (p *shared) move(o *operation, at *row) (m moved, alone bool) {
	a := at.a
	m = moved{o: o, before: a.State}
	mem := p.store.memory
	mem.mu.RLock()
	standing := mem.standing(a)
	m.version = mem.version
	mem.mu.RUnlock()
	a.State, o.verdict = o.move(a, standing)
	a.State = o.act.given(m.before, a.State)
	o.result, m.after = a, a.State
	if m.after.Refreshes(m.before) {
		m.used = uint32(p.store.Now().Unix())
	}
	alone = at.replaces != "" && m.before.Phase == approval.CodeIssued && a.Phase == approval.Live
	return m, alone
}

// moveAlone makes a move in a transaction of its own, with what it ends.
func (p *shared) moveAlone(o *operation) {
	var refused error
	err := p.change(func(w *writer) (func(), error) {
		o.err = nil
		err := w.makeMove(o)
		refused = o.err
		return nil, err
	})
	if o.err = refused; err != nil {
		o.err = err
		if !errors.Is(err, ErrUnavailable) && !refusal(err) {
			o.err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	p.rows.drop(o.id)
	p.moves.finish(o)
}

// saveRows locks the rows in the order of their IDs, because grouped updates
// of several nodes deadlock otherwise, and saves by compare-and-set: of the row,
// and of the facts' version unless that is unguarded.
const saveRows = `
	WITH locked AS (
		SELECT id FROM approval WHERE id = ANY($1::bytea[]) ORDER BY id FOR UPDATE
	), hit AS (
		UPDATE approval a
		   SET phase = u.phase, generation = u.generation, key_number = u.key_number, reason = u.reason,
		       ended_at = u.ended_at, network = u.network,
		       used_at = CASE WHEN a.used_at < u.used_at THEN u.used_at ELSE a.used_at END
		  FROM locked l
		  JOIN unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[],
		              $9::bigint[], $10::bigint[], $11::bigint[])
		       AS u (id, old_phase, old_generation, phase, generation, key_number, reason, ended_at, network, used_at, version) ON u.id = l.id
		 WHERE a.id = l.id AND a.phase = u.old_phase AND a.generation = u.old_generation
		   AND (u.version < 0 OR u.version = (SELECT version FROM facts WHERE one = 1))
		RETURNING a.id
	)`

// savePlain is for moves that leave nothing in the journal, as refreshes do.
const savePlain = saveRows + ` SELECT id FROM hit`

// saveJournaled writes the entries of those moves alone that hit their row.
var saveJournaled = saveRows + `, entry AS (
		` + insertArrays(12, ` JOIN hit ON hit.id = decode(e.approval, 'hex')`) + `
	) SELECT id FROM hit`

func (p *shared) saveArgs(moves []moved) (args []any, journaled bool) {
	n := len(moves)
	ids, reasons := make([][]byte, n), make([]string, n)
	var numbers [9][]int64
	for i := range numbers {
		numbers[i] = make([]int64, n)
	}
	var entries []Event
	now := p.store.Now()
	for i := range moves {
		m := &moves[i]
		ids[i], reasons[i] = m.o.id[:], string(m.after.Reason)
		for c, v := range [9]int64{
			int64(m.before.Phase), m.before.Generation,
			int64(m.after.Phase), m.after.Generation, int64(m.after.Key), m.after.EndedAt,
			int64(m.after.Network), int64(m.used), m.version,
		} {
			numbers[c][i] = v
		}
		for _, e := range m.entries() {
			e.ID, e.At = p.store.ids.next(now), now.Unix()
			entries = append(entries, e)
		}
	}
	args = []any{ids, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], reasons, numbers[5], numbers[6], numbers[7], numbers[8]}
	if len(entries) == 0 {
		return args, false
	}
	return append(args, eventColumns(entries)...), true
}

// saveAndRead saves the moves of a trip in one statement, and tells which rows were
// still as they were read. In the same transaction, so that it costs nobody another
// turn, it reads what is asked for, and reports whether it has.
func (p *shared) saveAndRead(t *trip, r *reading) (hit map[approval.ID]bool, read bool, err error) {
	if len(t.saves) == 0 {
		return nil, false, nil
	}
	defer p.store.timed("group", time.Now())
	ctx, cancel := context.WithTimeout(context.Background(), p.patience)
	defer cancel()
	args, journaled := p.saveArgs(t.saves)
	text := savePlain
	if journaled {
		text = saveJournaled
	}
	var b pgx.Batch
	if read = len(r.ids) > 0 && !t.late; read {
		r.start(p.version())
		b.Queue(reads[r.what], r.keys)
	}
	b.Queue(text, args...)
	results := p.pool.SendBatch(ctx, &b)
	if read {
		rows, queried := results.Query()
		read = p.take(r, rows, queried) == nil // endReading tells what is wrong
	}
	hit = make(map[approval.ID]bool, len(t.saves))
	rows, _ := results.Query() // its error is the rows' as well
	var id []byte
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		hit[approval.ID(id)] = true
		return nil
	})
	if closed := results.Close(); err == nil { // the commit
		err = closed
	}
	return hit, read && err == nil, p.lost(err)
}

// endReading brings a reading to its end: what was read together with saving is learnt,
// and otherwise it is read now.
func (p *shared) endReading(r *reading, read bool, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if read {
		return p.learn(ctx, r)
	}
	start := time.Now()
	err := p.read(ctx, r)
	p.pace.took(time.Since(start))
	return err
}
