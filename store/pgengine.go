package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgresEngine is PostgreSQL, where the embedded engine has one writer and its memory.
// Other nodes write at the same time, so everything is
// asked of the database: what waits is read together, moves that wait are
// saved together, and a change of facts holds the row of their version.
type postgresEngine struct {
	*env
	gate
	pool *pgxpool.Pool
	db   *sql.DB // the same pool, for the statements that both engines share

	changeSlot  chan struct{} // one transaction of this node at a time
	readSlot    chan struct{} // its holder takes the next reads
	refreshSlot chan struct{} // its holder takes the next refreshes
	catching    sync.Mutex    // one loads changed facts

	reads     queue[*question]
	moves     moveQueue
	refreshes queue[*refresh]
	clients   queue[*registration]
	notes     queue[note]
	uses      uses
	rows      rowCache
	pace      pace
	saving    pace // of the groups of refreshes

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
	working  sync.WaitGroup

	counting  sync.Mutex
	living    int
	countedAt time.Time
}

func newPostgres(env *env, pool *pgxpool.Pool) *postgresEngine {
	p := &postgresEngine{
		env: env, gate: gate{closed: make(chan struct{})}, pool: pool, changeSlot: make(chan struct{}, 1), readSlot: make(chan struct{}, 1), refreshSlot: make(chan struct{}, 1), stopped: make(chan struct{}),
		node: env.ids.next(time.Now()),
	}
	p.db = sql.OpenDB(connector{stdlib.GetPoolConnector(pool)})
	p.db.SetMaxIdleConns(0) // the pool keeps them
	p.rows.most, p.patience, p.slowRead, p.stalled = maxCached, askTimeout, slowRead, stalled
	p.reads.init()
	p.moves.init()
	p.refreshes.init()
	p.clients.init()
	p.notes.init()
	return p
}

func (p *postgresEngine) start() {
	for range maxReaders {
		p.working.Go(p.answerReads)
	}
	p.readSlot <- struct{}{}
	for range moveWorkers {
		p.working.Go(p.makeMoves)
	}
	for range refreshWorkers {
		p.working.Go(p.saveRefreshes)
	}
	p.refreshSlot <- struct{}{}
	// One of each: two would save smaller groups.
	p.working.Go(p.registerClients)
	p.working.Go(p.writeNotes)
	p.working.Go(p.noteUses)
	p.working.Go(p.tick)
}

// Close lets everybody who works finish what waits. Nobody enters any more.
func (p *postgresEngine) Close() error {
	p.gate.close()
	close(p.stopped)
	p.refreshes.close()
	p.moves.close()
	p.clients.close()
	p.notes.close()
	p.reads.close()
	p.working.Wait()
	return p.closePool()
}

func (p *postgresEngine) closePool() error {
	err := p.db.Close()
	p.pool.Close()
	return err
}

// enter keeps the engine from closing until leave is called.
func (p *postgresEngine) enter() (leave func(), err error) {
	if leave, err = p.gate.enter(); err != nil {
		return nil, err
	}
	if err := p.tooOld(); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// Reader is the pool, as far as others may use it.
func (p *postgresEngine) Reader() *sql.DB { return p.db }

// Change holds the row of the facts' version, as ChangeFacts does.
func (p *postgresEngine) Change(run func(*txn) error) error { return p.ChangeFacts(run) }

// ChangeFacts makes a change; see change.
func (p *postgresEngine) ChangeFacts(run func(*txn) error) error {
	leave, err := p.enter()
	if err != nil {
		return err
	}
	defer leave()
	return p.change(func(tx *txn) error { return runSafely(tx, run) })
}

// Integrity is pg_amcheck's to tell.
func (p *postgresEngine) Integrity(context.Context) (whole bool, err error) { return false, nil }

// Backup is ErrNotAllowed.
func (p *postgresEngine) Backup(context.Context, string) (time.Time, error) {
	return time.Time{}, fmt.Errorf("backup: PostgreSQL is backed up by its own means: %w", ErrNotAllowed)
}

// BackupFile is no name: there is nothing to put there.
func (p *postgresEngine) BackupFile() string { return "" }

// tell passes entries of the journal on that are durable.
func (p *postgresEngine) tell(entries []Event) {
	if len(entries) > 0 {
		p.refusals.wrote()
	}
	for _, e := range entries {
		if e.provesRewound() {
			p.Later((*txn).noteRewound, nil)
		}
		if told := p.options.Journaled; told != nil {
			told(e)
		}
	}
}

// change runs a change with the facts as they are: it holds the row of their
// version, has caught up, and logs what it changes.
func (p *postgresEngine) change(run func(*txn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), changeTimeout)
	defer cancel()
	select {
	case p.changeSlot <- struct{}{}:
		defer func() { <-p.changeSlot }()
	case <-ctx.Done():
		return fmt.Errorf("waiting for the changes before: %w", ErrUnavailable)
	}
	var err error
	for range maxTries {
		var made *txn
		var from, to int64
		err = p.transact(ctx, func(tx *txn) (err error) {
			made = tx
			from, to, err = p.changeFacts(tx, run)
			return err
		})
		switch {
		case err == nil:
			p.apply(from, to, made)
			return nil
		case refusal(err) && code(err) != "40001":
			return err
		case errors.Is(err, errUnknown), !retryable(err) && !cut(err):
			return p.unavailable("change", err)
		}
	}
	return p.unavailable("change", err)
}

// changeFacts gives the version that the facts had, and the one that they have
// after the commit; 0 when they have not changed.
func (p *postgresEngine) changeFacts(tx *txn, run func(*txn) error) (from, to int64, err error) {
	if err := tx.queryRow(`SELECT version FROM facts WHERE one = 1 FOR UPDATE`).Scan(&from); errors.Is(err, sql.ErrNoRows) {
		return 0, 0, errNoFacts
	} else if err != nil {
		return 0, 0, err
	}
	if p.version() != from {
		if err := raw(tx.conn, func(c *pgx.Conn) error { return p.load(tx.ctx, c, false, func() {}) }); err != nil {
			return 0, 0, err
		}
	}
	if err := run(tx); err != nil {
		return 0, 0, err
	}
	tables, keys := changedRows(tx)
	if len(tables) == 0 {
		return from, 0, nil
	}
	to = from + step()
	_, err = tx.exec(`
		INSERT INTO fact_change (version, what, key)
		SELECT DISTINCT $1::bigint, u.what, u.key FROM unnest($2::text[], $3::text[]) AS u (what, key)`, to, tables, keys)
	if err != nil {
		return 0, 0, err
	}
	_, err = tx.exec(`UPDATE facts SET version = $1 WHERE one = 1`, to)
	return from, to, err
}

// apply does to memory what a committed change has put. It is left out when
// others have loaded newer facts meanwhile; to is 0 when it changed none.
func (p *postgresEngine) apply(from, to int64, tx *txn) {
	m := p.memory
	m.Lock()
	defer m.Unlock()
	facts := to > 0
	if len(tx.changes) > 0 && (!facts || m.version == from) {
		tx.apply()
		m.changes++
	}
	if facts && m.version == from {
		m.version = to
	}
}

func (p *postgresEngine) version() int64 {
	p.memory.RLock()
	defer p.memory.RUnlock()
	return p.memory.version
}

// unavailable is what a caller is told when the database could not: nothing
// that it may rely on has happened.
func (p *postgresEngine) unavailable(what string, err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	p.refusals.note(err, p.options.Now())
	p.log.Error("the database could not", "what", what, "err", err)
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
}
