package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/grantkeeper/grantkeeper/approval"
)

// shared is what a store on PostgreSQL has where the embedded engine has one
// writer and its memory. Other nodes write at the same time, so everything is
// asked of the database: what waits is read together, moves that wait are
// saved together, and a change of facts holds the row of their version.
type shared struct {
	store *Store
	pool  *pgxpool.Pool
	db    *sql.DB // the same pool, for the statements that both engines share

	turn     chan struct{} // one transaction of this node at a time
	readTurn chan struct{} // its holder takes the next questions
	catching sync.Mutex    // one loads changed facts

	asked   line[*question]
	moves   moveLine
	clients line[*registration]
	notes   line[note]
	uses    uses
	rows    rowCache
	pace    pace

	patience time.Duration // askTimeout, but in tests
	slowRead time.Duration // slowRead, but in tests
	stalled  time.Duration // stalled, but in tests

	measured atomic.Pointer[measure]
	refusals refusals
	asOf     atomic.Int64 // when the read began by which memory was found up to date, of since
	node     string
	others   atomic.Int64 // nodes that live beside this one
	outgrown atomic.Bool  // the schema takes newer releases alone
	lacksKey atomic.Bool  // a key seals that this node does not have
	keysAt   atomic.Int64 // when it looked last which do, by moment
	stopped  chan struct{}

	counting  sync.Mutex
	living    int
	countedAt time.Time
}

func newShared(s *Store, pool *pgxpool.Pool) *shared {
	p := &shared{
		store: s, pool: pool, turn: make(chan struct{}, 1), readTurn: make(chan struct{}, 1), stopped: make(chan struct{}),
		node: s.ids.next(time.Now()),
	}
	p.db = sql.OpenDB(connector{stdlib.GetPoolConnector(pool)})
	p.db.SetMaxIdleConns(0) // the pool keeps them
	p.rows.most, p.patience, p.slowRead, p.stalled = maxCached, askTimeout, slowRead, stalled
	p.asked.init()
	p.moves.init()
	p.clients.init()
	p.notes.init()
	return p
}

func (p *shared) start(stopped *sync.WaitGroup) {
	for range maxReaders {
		stopped.Go(p.answerAsked)
	}
	p.readTurn <- struct{}{}
	// One of each: two would save smaller groups.
	stopped.Go(p.makeMoves)
	stopped.Go(p.registerClients)
	stopped.Go(p.writeNotes)
	stopped.Go(p.noteUses)
	stopped.Go(p.tick)
}

// close lets everybody who works finish what waits. Nobody enters any more.
func (p *shared) close() {
	close(p.stopped)
	p.moves.close()
	p.clients.close()
	p.notes.close()
	p.asked.close()
}

// line is where those wait whose turn comes together.
type line[T any] struct {
	mu     sync.Mutex
	wake   sync.Cond
	waits  []T
	closed bool
}

func (l *line[T]) init() { l.wake.L = &l.mu }

// join reports whether there was room for one more; most of 0 is no bound.
func (l *line[T]) join(one T, most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || most > 0 && len(l.waits) >= most {
		return false
	}
	l.waits = append(l.waits, one)
	l.wake.Signal()
	return true
}

// take waits until somebody does, and takes up to most of them, or one share of
// so many. It gives none when the line is closed and empty.
func (l *line[T]) take(out []T, most, shares int) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waits) == 0 && !l.closed {
		l.wake.Wait()
	}
	n := min(most, (len(l.waits)+shares-1)/shares)
	out = append(out, l.waits[:n]...)
	rest := copy(l.waits, l.waits[n:])
	clear(l.waits[rest:])
	l.waits = l.waits[:rest]
	if rest > 0 {
		l.wake.Signal()
	}
	return out
}

func (l *line[T]) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.wake.Broadcast()
}

// do runs an operation that is not the embedded engine's.
func (p *shared) do(o *operation) error {
	if o.move != nil {
		if err := p.lookUp(o); err != nil {
			return err
		}
		p.moves.join(o)
		<-o.done
		return o.err
	}
	return p.change(o.runSafely)
}

// tx is what a transaction has gathered for its end.
type tx struct {
	ctx     context.Context
	events  []Event
	changes []factChange
	touched map[string]bool  // tables of facts that a row has changed in
	unnamed map[string]int64 // how many of their rows nobody has named yet
	last    string           // table that the last statement changed
	rows    int64            // how many of its rows
}

func newTx(ctx context.Context) *tx {
	return &tx{ctx: ctx, touched: map[string]bool{}, unnamed: map[string]int64{}}
}

// runText is the writer's exec in a transaction on PostgreSQL.
func (x *tx) runText(w *writer, text string, args ...any) (int64, error) {
	r, err := w.conn.ExecContext(x.ctx, text, args...)
	if strings.HasPrefix(code(err), "23") {
		return 0, fmt.Errorf("%w: %w", ErrConflict, err)
	} else if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	x.last, x.rows = changedTable(text), n
	if n > 0 && factTables[x.last] {
		x.touched[x.last] = true
		x.unnamed[x.last] += n
	}
	return n, err
}

// changedTable gives the table that a statement changes.
func changedTable(text string) string {
	words := strings.Fields(text)
	if len(words) < 3 {
		return ""
	}
	if words[0] == "UPDATE" {
		return words[1]
	}
	return words[2] // INSERT INTO, DELETE FROM
}

// begin opens a transaction in one step with its bounds.
const begin = `BEGIN ISOLATION LEVEL READ COMMITTED;
	SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '10s'`

// errUnknown is a commit whose outcome nobody knows: it is not tried again.
var errUnknown = errors.New("the connection was lost during the commit")

// transact runs f in one transaction, once. Its error tells what became of it.
func (p *shared) transact(ctx context.Context, f func(*writer) error) error {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		p.spoilt(conn, err)
		return err
	}
	w := &writer{store: p.store, conn: conn, tx: newTx(ctx)}
	start := time.Now()
	if err := f(w); err != nil {
		p.rollback(conn, err)
		return err
	}
	if err := w.tx.flush(w); err != nil {
		p.rollback(conn, err)
		return err
	}
	w.store.timed("group", start)
	start = time.Now()
	if _, err := conn.ExecContext(ctx, `COMMIT`); err != nil {
		p.spoilt(conn, err)
		if code(err) == "" {
			return fmt.Errorf("%w: %w", errUnknown, err)
		}
		return err
	}
	w.store.timed("commit", start)
	p.tell(w.told)
	return nil
}

// tell passes entries of the journal on that are durable.
func (p *shared) tell(entries []Event) {
	if len(entries) > 0 {
		p.refusals.wrote()
	}
	for _, e := range entries {
		if e.provesIt() {
			p.note(func(w *writer) (func(), error) { return nil, w.noteWentBack() })
		}
		if told := p.store.options.Journaled; told != nil {
			told(e)
		}
	}
}

func (p *shared) rollback(conn *sql.Conn, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if _, err := conn.ExecContext(ctx, `ROLLBACK`); err != nil || cut(why) {
		p.spoilt(conn, errors.Join(why, err))
	}
}

// spoilt throws a connection away: nobody shall find what was left on it.
func (p *shared) spoilt(conn *sql.Conn, why error) {
	_ = raw(conn, func(c *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return c.Close(ctx)
	})
	if cut(why) {
		p.pool.Reset() // the others lead to the same server
	}
}

// flush writes what the transaction has gathered.
func (x *tx) flush(w *writer) error {
	if len(x.events) == 0 {
		return nil
	}
	columns := eventColumns(x.events)
	x.events = nil
	_, err := w.exec(insertGathered, columns...)
	return err
}

var insertGathered = insertArrays(1, "")

// change runs a change with the facts as they are: it holds the row of their
// version, has caught up, and logs what it changes.
func (p *shared) change(run func(*writer) (func(), error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), changeTimeout)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return fmt.Errorf("waiting for the changes before: %w", ErrUnavailable)
	}
	var err error
	for range maxTries {
		var after func()
		var from, to int64
		err = p.transact(ctx, func(w *writer) (err error) {
			after, from, to, err = p.changeFacts(w, run)
			return err
		})
		switch {
		case err == nil:
			p.apply(from, to, after)
			return nil
		case refusal(err) && code(err) != "40001":
			return err
		case errors.Is(err, errUnknown), !retryable(err) && !cut(err):
			return p.unavailable("change", err)
		}
	}
	return p.unavailable("change", err)
}

// changeFacts gives what is to be done to memory after the commit, the version
// that the facts had, and the one that they have then; 0 when they have not
// changed.
func (p *shared) changeFacts(w *writer, run func(*writer) (func(), error)) (after func(), from, to int64, err error) {
	if err := w.conn.QueryRowContext(w.tx.ctx, `SELECT version FROM facts WHERE one = 1 FOR UPDATE`).Scan(&from); err != nil {
		return nil, 0, 0, err
	}
	if p.version() != from {
		if err := raw(w.conn, func(c *pgx.Conn) error { return p.load(w.tx.ctx, c, false, func() {}) }); err != nil {
			return nil, 0, 0, err
		}
	}
	if after, err = run(w); err != nil {
		return nil, 0, 0, err
	}
	changes := w.tx.factChanges()
	if len(changes) == 0 {
		return after, from, 0, nil
	}
	to = from + step()
	what, keys := make([]string, len(changes)), make([]string, len(changes))
	for i, c := range changes {
		what[i], keys[i] = c.what, c.key
	}
	_, err = w.exec(`
		INSERT INTO fact_change (version, what, key)
		SELECT DISTINCT $1::bigint, u.what, u.key FROM unnest($2::text[], $3::text[]) AS u (what, key)`, to, what, keys)
	if err != nil {
		return nil, 0, 0, err
	}
	_, err = w.exec(`UPDATE facts SET version = $1 WHERE one = 1`, to)
	return after, from, to, err
}

// apply does what a committed change has to do after it. What it would do to
// the facts in memory is left out when others have loaded newer ones
// meanwhile; to is 0 when it changed none.
func (p *shared) apply(from, to int64, after func()) {
	m := p.store.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	facts := to > 0
	if after != nil && (!facts || m.version == from) {
		after()
	}
	if facts && m.version == from {
		m.version = to
	}
}

func (p *shared) version() int64 {
	p.store.memory.mu.RLock()
	defer p.store.memory.mu.RUnlock()
	return p.store.memory.version
}

// unavailable is what a caller is told when the database could not: nothing
// that it may rely on has happened.
func (p *shared) unavailable(what string, err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	p.refusals.note(err, p.store.options.Now())
	p.store.log.Error("the database could not", "what", what, "err", err)
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
}

// --- notes

// maxNotes bounds what nobody waits for.
const maxNotes = 4096

// note is a change that nobody waits for, but who asks whether it is written.
type note struct {
	run     func(*writer) (func(), error)
	written chan struct{} // or nil
}

func (p *shared) note(run func(*writer) (func(), error)) bool {
	return p.notes.join(note{run: run}, maxNotes)
}

// writeNotes writes what nobody waits for, together. What cannot be written is
// tried again until there is no more room for it.
func (p *shared) writeNotes() {
	var unwritten repeated
	for {
		batch := p.notes.take(nil, maxBatch, 1)
		if len(batch) == 0 && p.uses.none() {
			return
		}
		used := p.uses.take()
		ctx, cancel := context.WithTimeout(context.Background(), changeTimeout)
		err := p.transact(ctx, func(w *writer) error {
			for _, n := range batch {
				if _, err := n.run(w); err != nil && !refusal(err) {
					return err
				}
			}
			return writeUses(w, used)
		})
		cancel()
		if err == nil {
			for _, n := range batch {
				if n.written != nil {
					close(n.written)
				}
			}
			continue
		}
		p.refusals.note(err, p.store.options.Now())
		if n, say := unwritten.again(p.store.options.Now()); say {
			p.store.log.Warn("what was noted is not written yet", "tries", n, "notes", len(batch), "uses", len(used), "err", err)
		}
		p.uses.giveBack(used) // of these each can be written, whatever was the matter with a note
		if !p.pause(time.Second) || !retryable(err) && !cut(err) && causeOf(err) == "" && code(err) != "" {
			if len(batch) == 0 {
				p.uses.take() // closing: there is no more to wait for
			}
			continue // closing, or one of them can never be written
		}
		for _, n := range batch {
			p.notes.join(n, maxNotes)
		}
	}
}

// pause waits, and reports false when the store closes meanwhile.
func (p *shared) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-p.stopped:
		return false
	}
}

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
