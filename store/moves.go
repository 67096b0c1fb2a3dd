package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/approval"
)

// moveLine is where moves wait. Of one approval at most one is under way; the
// next is computed from the row as that one leaves it.
type moveLine struct {
	line[*operation]
	underWay map[approval.ID][]*operation // with those that wait for it
}

func (l *moveLine) init() {
	l.line.init()
	l.underWay = map[approval.ID][]*operation{}
}

func (l *moveLine) join(o *operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	behind, busy := l.underWay[o.id]
	if busy {
		l.underWay[o.id] = append(behind, o)
		return
	}
	l.underWay[o.id] = nil
	l.waits = append(l.waits, o)
	l.wake.Signal()
}

// finish answers the caller, and lets the next move of the approval go.
func (l *moveLine) finish(o *operation) {
	l.mu.Lock()
	if behind := l.underWay[o.id]; len(behind) > 0 {
		l.underWay[o.id] = behind[1:]
		l.waits = append(l.waits, behind[0])
		l.wake.Signal()
	} else {
		delete(l.underWay, o.id)
	}
	l.mu.Unlock()
	o.done <- struct{}{}
}

// makeMoves makes the moves that wait, together, until the line is closed.
func (p *shared) makeMoves() {
	var batch []*operation
	for {
		clear(batch)
		if batch = p.moves.take(batch[:0], maxBatch, 1); len(batch) == 0 {
			return
		}
		p.makeBatch(batch)
	}
}

// makeBatch makes each move of a batch once. A row that has changed between
// reading and saving is read and moved again.
func (p *shared) makeBatch(batch []*operation) {
	left := append([]*operation(nil), batch...)
	for try := range maxTries {
		var err error
		if left, err = p.tryBatch(left, try == 0); err != nil {
			err = p.unavailable("move", err)
			for _, o := range left {
				o.err = err
				p.rows.drop(o.id)
				p.moves.finish(o)
			}
			return
		}
		if len(left) == 0 {
			return
		}
	}
	for _, o := range left {
		o.err = fmt.Errorf("approval %s keeps changing: %w", o.id, ErrUnavailable)
		p.moves.finish(o)
	}
}

// tryBatch reads, moves and saves. It gives those that are to be tried again,
// or that an error concerns: of these nothing is known but that the caller can
// rely on nothing.
//
// What is remembered need not be read: such a move is saved only if row and
// facts still are what it was computed from. One that would change nothing is
// tried again, from the row.
func (p *shared) tryBatch(batch []*operation, remembered bool) (again []*operation, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	rows, unread, err := p.rowsFor(ctx, batch, remembered)
	if err != nil {
		return batch, err
	}
	guard := int64(unguarded)
	if len(unread) > 0 {
		guard = p.version()
	}
	var changed []moved
	for _, o := range batch {
		at := rows[o.id]
		if at == nil {
			o.err = fmt.Errorf("approval %s: %w", o.id, ErrNotFound)
			p.moves.finish(o)
			continue
		}
		m, alone := p.move(o, at)
		switch {
		case alone:
			go p.moveAlone(o)
		case m.after != m.before:
			changed = append(changed, m)
		case unread[o.id]:
			again = append(again, o)
		default:
			p.moves.finish(o)
		}
	}
	if len(changed) == 0 {
		return again, nil
	}
	missed, err := p.saveAll(ctx, changed, guard)
	return append(again, missed...), err
}

// lookUp reads the row of a live move that is not remembered, as a check does:
// together with what else is asked for, and beside what is being saved. What
// does not live is read whole, later.
func (p *shared) lookUp(o *operation) error {
	if !o.live || p.rows.get(o.id) != nil {
		return nil
	}
	r, err := p.readNow(context.Background(), o.id)
	if err == nil && r != nil && r.a.Phase == approval.Live {
		o.row = r
	}
	return err
}

// rowsFor gives the rows of a batch, and which of them are remembered alone. What
// was looked up before counts as read, the first time.
func (p *shared) rowsFor(ctx context.Context, batch []*operation, remembered bool) (rows map[approval.ID]*row, unread map[approval.ID]bool, err error) {
	unread = map[approval.ID]bool{}
	known := map[approval.ID]*row{}
	var r reading
	r.begin(wholes)
	for _, o := range batch {
		if o.row != nil && remembered {
			known[o.id] = o.row
			continue
		}
		if at := p.rows.get(o.id); at != nil && remembered && o.live {
			unread[o.id], known[o.id] = true, at
			continue
		}
		r.ask(o.id, nil)
	}
	if len(r.ids) == 0 {
		return known, unread, nil
	}
	if err := p.read(ctx, &r); err != nil {
		return nil, nil, err
	}
	for id, at := range known {
		r.rows[id] = at
	}
	return r.rows, unread, nil
}

// saveAll saves moves and answers those that hit; the others are tried again.
func (p *shared) saveAll(ctx context.Context, changed []moved, guard int64) (missed []*operation, err error) {
	start := time.Now()
	hit, err := p.save(ctx, changed, guard)
	p.store.timed("group", start)
	for i := range changed {
		m := &changed[i]
		if err != nil || !hit[m.o.id] {
			missed = append(missed, m.o)
			continue
		}
		p.rows.moved(m.o.id, m.after, m.used, moment(start))
		p.tell(m.entries())
		p.moves.finish(m.o)
	}
	if err != nil && retryable(err) {
		err = nil // undone by the server: all of them again
	}
	return missed, err
}

// moved is a move that changes its row.
type moved struct {
	o             *operation
	before, after approval.State
	used          uint32 // Unix seconds; 0 where it is none
}

// entries are what the journal says of the move.
func (m *moved) entries() []Event { return events(m.o.result, m.before, m.o.act) }

// move computes a move. One that ends others with it is made alone.
func (p *shared) move(o *operation, at *row) (m moved, alone bool) {
	a := at.a
	m = moved{o: o, before: a.State}
	mem := p.store.memory
	mem.mu.RLock()
	standing := mem.standing(a)
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
// and of the facts' version unless that is unguarded. It is a transaction by
// itself.
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
		              $9::bigint[], $10::bigint[])
		       AS u (id, old_phase, old_generation, phase, generation, key_number, reason, ended_at, network, used_at) ON u.id = l.id
		 WHERE a.id = l.id AND a.phase = u.old_phase AND a.generation = u.old_generation
		   AND ($11::bigint < 0 OR $11 = (SELECT version FROM facts WHERE one = 1))
		RETURNING a.id
	)`

// savePlain is for moves that leave nothing in the journal, as refreshes do.
const savePlain = saveRows + ` SELECT id FROM hit`

// saveJournaled writes the entries of those moves alone that hit their row.
var saveJournaled = saveRows + `, entry AS (
		` + insertArrays(12, ` JOIN hit ON hit.id = decode(e.approval, 'hex')`) + `
	) SELECT id FROM hit`

// unguarded is the version for moves that were computed from rows that were
// just read.
const unguarded = -1

// save saves moves in one statement, and tells which rows were still as they
// were read.
func (p *shared) save(ctx context.Context, moves []moved, guard int64) (map[approval.ID]bool, error) {
	args, journaled := p.saveArgs(moves, guard)
	text := savePlain
	if journaled {
		text = saveJournaled
	}
	hit := make(map[approval.ID]bool, len(moves))
	rows, err := p.pool.Query(ctx, text, args...)
	if err != nil {
		return nil, p.lost(err)
	}
	var id []byte
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		hit[approval.ID(id)] = true
		return nil
	})
	return hit, p.lost(err)
}

func (p *shared) saveArgs(moves []moved, guard int64) (args []any, journaled bool) {
	n := len(moves)
	ids, reasons := make([][]byte, n), make([]string, n)
	var numbers [8][]int64
	for i := range numbers {
		numbers[i] = make([]int64, n)
	}
	var entries []Event
	now := p.store.Now()
	for i := range moves {
		m := &moves[i]
		ids[i], reasons[i] = m.o.id[:], string(m.after.Reason)
		for c, v := range [8]int64{
			int64(m.before.Phase), m.before.Generation,
			int64(m.after.Phase), m.after.Generation, int64(m.after.Key), m.after.EndedAt,
			int64(m.after.Network), int64(m.used),
		} {
			numbers[c][i] = v
		}
		for _, e := range m.entries() {
			e.ID, e.At = p.store.ids.next(now), now.Unix()
			entries = append(entries, e)
		}
	}
	args = []any{ids, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], reasons, numbers[5], numbers[6], numbers[7], guard}
	if len(entries) == 0 {
		return args, false
	}
	return append(args, eventColumns(entries)...), true
}
