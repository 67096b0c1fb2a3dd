package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// moved is a move that changes its row.
type moved struct {
	o *MoveRequest
	engine.Transition
}

// entries are what the journal says of the move.
func (m *moved) entries() []engine.Event { return engine.Events(m.o.Result, m.Before, m.o.Act) }

// move computes a move from its row. One that ends others with it is made alone.
func (p *Engine) move(o *MoveRequest, at *row) (m moved, alone bool) {
	a := at.A
	before := a.State
	mem := p.Memory
	mem.RLock()
	standing := mem.Standing(a)
	mem.RUnlock()
	a.State, o.Verdict = o.Move(a, standing)
	o.Result = a
	m = moved{o, p.Transition(a, before)}
	alone = at.replaces != "" && m.Before.Phase == approval.CodeIssued && a.Phase == approval.Live
	return m, alone
}

// moveAlone makes a move in a transaction of its own, with what it ends.
func (p *Engine) moveAlone(o *MoveRequest) {
	o.Err = p.change(ChangeTimeout, func(tx *engine.Tx) (err error) {
		o.Result, o.Verdict, _, err = tx.Move(o.ID, o.Move, o.Live, o.Act)
		return err
	})
	if o.Err != nil && !errors.Is(o.Err, engine.ErrUnavailable) && !engine.Refusal(o.Err) {
		o.Err = fmt.Errorf("%w: %w", engine.ErrUnavailable, o.Err)
	}
	p.Rows.Drop(o.ID)
	p.Moves.finish(o)
}

// saveRows locks the rows in the order of their IDs, because grouped updates
// of several nodes deadlock otherwise, and saves by compare-and-set. It has locked all
// before it saves the first. That the locked rows are counted and not joined spares
// PostgreSQL a fifth of what refreshes take of it, because it carries along whole each
// row that an UPDATE is joined with.
//
// With proofs it spends first those of rows that are as they were read, which nobody can
// change by then, and saves none whose proof was spent before.
func saveRows(proofs bool) string {
	spend, arrays, columns, unspent := "", "", "", ""
	if proofs {
		spend, arrays, columns, unspent = `, `+spendProofs(`unnest($1::bytea[], $2::bigint[], $3::bigint[], $12::bytea[], $13::bigint[])
		       AS u (id, old_phase, old_generation, proof, until)`, `l.phase = u.old_phase AND l.generation = u.old_generation`),
			`, $12::bytea[]`, `, proof`, unspentProof
	}
	return `
	WITH locked AS (
		SELECT id, phase, generation FROM approval WHERE id = ANY($1::bytea[]) ORDER BY id FOR UPDATE
	)` + spend + `, hit AS (
		UPDATE approval a
		   SET phase = u.phase, generation = u.generation, key_number = u.key_number, reason = u.reason,
		       ended_at = u.ended_at, network = u.network, bound = u.bound,
		       used_at = CASE WHEN a.used_at < u.used_at THEN u.used_at ELSE a.used_at END
		  FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[],
		              $9::bigint[], $10::bigint[], $11::bytea[]` + arrays + `)
		       AS u (id, old_phase, old_generation, phase, generation, key_number, reason, ended_at, network, used_at, bound` + columns + `)
		 WHERE (SELECT COUNT(*) FROM locked) > 0
		   AND a.id = u.id AND a.phase = u.old_phase AND a.generation = u.old_generation` + unspent + `
		RETURNING a.id
	)`
}

// spendProofs spends the proofs in u of rows that are locked and as expected. In the
// order of their hashes, so that nodes which are sent the same ones wait for each other
// and not in a ring.
func spendProofs(u, expected string) string {
	return `proved AS (
		INSERT INTO spent (hash, ends_at)
		SELECT u.proof, u.until FROM ` + u + `
		  JOIN locked l ON l.id = u.id AND ` + expected + `
		 WHERE u.proof <> '' ORDER BY u.proof
		ON CONFLICT (hash) DO NOTHING RETURNING hash
	)`
}

const unspentProof = ` AND (u.proof = '' OR u.proof IN (SELECT hash FROM proved))`

// savePlain is for moves that leave nothing in the journal, as refreshes do; without
// proofs, and with.
var savePlain = [2]string{saveRows(false) + ` SELECT id FROM hit`, saveRows(true) + ` SELECT id FROM hit`}

// saveJournaled writes the entries of those moves alone that hit their row.
var saveJournaled = [2]string{saveRows(false) + entriesOf(12), saveRows(true) + entriesOf(14)}

func entriesOf(first int) string {
	return `, entry AS (
		` + insertArrays(first, ` JOIN hit ON hit.id = decode(e.approval, 'hex')`) + `
	) SELECT id FROM hit`
}

// proofsOf are the arguments that spendProofs takes: of one that is not used up, and of
// none, an empty hash.
type proofsOf struct {
	hashes [][]byte
	until  []int64
	any    int // 1 where there is one
	seen   map[[sha256.Size]byte]bool
}

// add takes the next, unless that proof came before: of two moves by one proof a
// statement saves the first.
func (p *proofsOf) add(one engine.Proof, used bool) (twice bool) {
	hash := []byte{}
	if used && one.Given() {
		if p.seen == nil {
			p.seen = map[[sha256.Size]byte]bool{}
		}
		if p.seen[one.ID] {
			return true
		}
		p.seen[one.ID], p.any, hash = true, 1, one.ID[:]
	}
	p.hashes, p.until = append(p.hashes, hash), append(p.until, one.Until)
	return false
}

// saveArgs are the arguments of savePlain without proofs.
func saveArgs(all []engine.Transition) []any {
	n := len(all)
	ids, reasons, bound := make([][]byte, n), make([]string, n), make([][]byte, n)
	var numbers [8][]int64
	for i := range numbers {
		numbers[i] = make([]int64, n)
	}
	for i := range all {
		t := &all[i]
		ids[i], reasons[i], bound[i] = t.ID[:], string(t.After.Reason), engine.BoundTo(t.After.Bound)
		for c, v := range [8]int64{
			int64(t.Before.Phase), t.Before.Generation,
			int64(t.After.Phase), t.After.Generation, int64(t.After.Key), t.After.EndedAt,
			int64(t.After.Network), int64(t.Used),
		} {
			numbers[c][i] = v
		}
	}
	return []any{ids, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], reasons, numbers[5], numbers[6], numbers[7], bound}
}

// Save saves all in one statement.
func (statements) Save(tx *engine.Tx, all []engine.Transition) (map[approval.ID]bool, error) {
	ids, err := engine.ApprovalIDs(tx.Query(savePlain[0], saveArgs(all)...))
	saved := make(map[approval.ID]bool, len(ids))
	for _, id := range ids {
		saved[id] = true
	}
	return saved, err
}

// save saves moves in one statement, which is a transaction by itself, and tells which
// rows were still as they were read.
func (p *Engine) save(moves []moved) (hit map[approval.ID]bool, err error) {
	defer p.Timed("group", time.Now())
	ctx, cancel := context.WithTimeout(context.Background(), p.Patience)
	defer cancel()
	all := make([]engine.Transition, 0, len(moves))
	var entries []engine.Event
	var proofs proofsOf
	now := p.Now()
	for i := range moves {
		m := &moves[i]
		if proofs.add(m.o.Act.Proof, m.o.Verdict.Proven()) {
			continue // as one whose row was changed
		}
		all = append(all, m.Transition)
		for _, e := range m.entries() {
			e.ID, e.At = p.Ids.Next(now), now.Unix()
			entries = append(entries, e)
		}
	}
	text, args := savePlain[proofs.any], saveArgs(all)
	if proofs.any > 0 {
		args = append(args, proofs.hashes, proofs.until)
	}
	if len(entries) > 0 {
		text, args = saveJournaled[proofs.any], append(args, eventColumns(entries)...)
	}
	hit = make(map[approval.ID]bool, len(moves))
	var c columns
	err = p.InTime(ctx, text, args, func(rows pgx.Rows) {
		for c.fields = rows.FieldDescriptions(); rows.Next(); {
			c.next(rows.RawValues())
			hit[c.id()] = true
		}
	})
	return hit, errors.Join(err, c.err)
}

// setTimeouts bounds how long the server works on what comes after it in the
// transaction, and how long it waits for a lock: milliseconds.
const setTimeouts = `SELECT set_config('lock_timeout', $1::text, true), set_config('statement_timeout', $1::text, true)`

// InTime runs a statement in a transaction of its own, in one step, and takes its rows.
// The server gives up before the caller does: what a caller was told is not done shall
// not be done later, when a lock is free at last, because then the same token that is
// presented again ends its approval. What a connection took to come is off that time.
func (p *Engine) InTime(ctx context.Context, text string, args []any, take func(pgx.Rows)) error {
	conn, err := p.Pool.Acquire(ctx)
	if err != nil {
		return p.lost(err)
	}
	defer conn.Release()
	end, _ := ctx.Deadline()
	left := max(1, time.Until(end).Milliseconds()*4/5) // 0 is no bound
	var b pgx.Batch
	b.Queue(setTimeouts, strconv.FormatInt(left, 10))
	b.Queue(text, args...)
	defer commits(conn.Conn())()
	results := conn.SendBatch(ctx, &b)
	_, err = results.Exec()
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			take(rows)
			rows.Close()
			err = rows.Err()
		}
	}
	if closed := results.Close(); err == nil { // the commit
		err = closed
	}
	return p.lost(sent(err))
}

// sent marks an error that came after the statement was sent as one of unknown outcome:
// where the connection breaks then, pgx has an error in some of its modes that says
// that nothing was sent. What could not be prepared was not run: a new connection asks that
// first, and waits for who holds the table.
func sent(err error) error {
	switch {
	case err == nil, errors.As(err, new(pgx.ErrPreprocessingBatch)):
	case pgconn.SafeToRetry(err):
		return fmt.Errorf("%w: %v", errUnknown, err)
	case Code(err) == "", cut(err): // the server has not said that it has undone it
		return fmt.Errorf("%w: %w", engine.ErrOutcome, err)
	}
	return err
}
