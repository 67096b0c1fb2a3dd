// Package postgres is the engine on PostgreSQL, where any number of processes work on one
// database. Memory holds the facts alone, as a replica whose version is asked for after
// each request has arrived; approvals are read as they stand.
package postgres

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

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Engine is PostgreSQL, where the embedded engine has one writer and its memory.
// Other nodes write at the same time, so everything is
// asked of the database: what waits is read together, moves that wait are
// saved together, and a change of facts holds the row of their version.
type Engine struct {
	*engine.Env
	engine.Gate
	Pool *pgxpool.Pool
	DB   *sql.DB // the same pool, for the statements that both engines share

	changeSlot  chan struct{} // one transaction of this node at a time
	readSlot    chan struct{} // its holder takes the next reads
	refreshSlot chan struct{} // its holder takes the next refreshes
	catching    chan struct{} // its holder loads changed facts, or has changed them and is about to apply that

	Reads     queue[*Question]
	Moves     moveQueue
	refreshes queue[*Refresh]
	clients   queue[*registration]
	notes     queue[note]
	uses      uses
	Rows      rowCache
	Pace      pace
	Saving    pace // of the groups of refreshes

	questions, moveRequests, refreshRequests sync.Pool // used again, with the channel of each

	IsPostgreSQL bool          // the server is PostgreSQL, and none that speaks its protocol alone
	Few          int           // fewRows, but in tests
	Patience     time.Duration // askTimeout, but in tests
	SlowRead     time.Duration // slowRead, but in tests
	Stalled      time.Duration // stalled, but in tests

	measured atomic.Pointer[measure]
	refusals refusals
	AsOf     atomic.Int64 // when the read began by which memory was found up to date, of since
	node     string
	others   atomic.Int64 // nodes that live beside this one
	outgrown atomic.Bool  // the schema takes newer releases alone
	lacksKey atomic.Bool  // a key seals that this node does not have
	KeysAt   atomic.Int64 // when it looked last which do, by moment
	Stopped  chan struct{}
	working  sync.WaitGroup

	counting  sync.Mutex
	living    int
	countedAt time.Time
}

// newEngine gives an engine that nobody works for yet.
func newEngine(env *engine.Env, pool *pgxpool.Pool) *Engine {
	p := &Engine{
		Env: env, Gate: engine.Gate{Closed: make(chan struct{})}, Pool: pool, changeSlot: make(chan struct{}, 1), readSlot: make(chan struct{}, 1), refreshSlot: make(chan struct{}, 1), catching: make(chan struct{}, 1), Stopped: make(chan struct{}),
		node: env.Ids.Next(time.Now()),
	}
	p.questions.New, p.moveRequests.New, p.refreshRequests.New = newQuestion, newMoveRequest, newRefresh
	p.DB = sql.OpenDB(connector{stdlib.GetPoolConnector(pool)})
	p.DB.SetMaxIdleConns(0) // the pool keeps them
	p.Rows.Most, p.Few, p.Patience, p.SlowRead, p.Stalled = maxCached, fewRows, askTimeout, slowRead, stalled
	p.Reads.init()
	p.Moves.init()
	p.refreshes.init()
	p.clients.init()
	p.notes.init()
	return p
}

func (p *Engine) start() {
	for range MaxReaders {
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
func (p *Engine) Close() error {
	p.Gate.Close()
	close(p.Stopped)
	p.refreshes.close()
	p.Moves.close()
	p.clients.close()
	p.notes.close()
	p.Reads.close()
	p.working.Wait()
	return p.closePool()
}

func (p *Engine) closePool() error {
	err := p.DB.Close()
	p.Pool.Close()
	return err
}

// enter keeps the engine from closing until leave is called.
func (p *Engine) enter() (leave func(), err error) {
	if leave, err = p.Gate.Enter(); err != nil {
		return nil, err
	}
	if err := p.tooOld(); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// Reader is the pool, as far as others may use it.
func (p *Engine) Reader() *sql.DB { return p.DB }

// Change holds the row of the facts' version, as ChangeFacts does.
func (p *Engine) Change(run func(*engine.Tx) error) error { return p.ChangeFacts(run) }

// ChangeFacts makes a change; see change.
func (p *Engine) ChangeFacts(run func(*engine.Tx) error) error { return p.changeIn(ChangeTimeout, run) }

// ChangeMany is ChangeFacts, which no refresh waits for, and which may take long: other
// changes of facts wait for it, each until its own time is up.
func (p *Engine) ChangeMany(run func(*engine.Tx) error) error {
	return p.changeIn(longChangeTimeout, func(tx *engine.Tx) error {
		// PostgreSQL finds the rows that a statement names by their index then. Else it reads a
		// whole table for some hundred of them, and again for the next.
		if p.IsPostgreSQL {
			if _, err := tx.Exec(`SET LOCAL random_page_cost = 1`); err != nil {
				return err
			}
		}
		return run(tx)
	})
}

func (p *Engine) changeIn(bound time.Duration, run func(*engine.Tx) error) error {
	leave, err := p.enter()
	if err != nil {
		return err
	}
	defer leave()
	return p.change(bound, func(tx *engine.Tx) error { return engine.RunSafely(tx, run) })
}

// Apart makes a change without the row of the facts' version. It is tried once.
func (p *Engine) Apart(run func(*engine.Tx) error) error {
	leave, err := p.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(context.Background(), ChangeTimeout)
	defer cancel()
	err = p.Transact(ctx, func(tx *engine.Tx) error { return engine.RunSafely(tx, run) })
	if err == nil || engine.Refusal(err) {
		return err
	}
	return p.unavailable("change", err)
}

// Integrity is pg_amcheck's to tell.
func (p *Engine) Integrity(context.Context) (whole bool, err error) { return false, nil }

// Backup is ErrNotAllowed.
func (p *Engine) Backup(context.Context, string) (time.Time, error) {
	return time.Time{}, fmt.Errorf("backup: PostgreSQL is backed up by its own means: %w", engine.ErrNotAllowed)
}

// BackupFile is no name: there is nothing to put there.
func (p *Engine) BackupFile() string { return "" }

// tell passes entries of the journal on that are durable.
func (p *Engine) tell(entries []engine.Event) {
	if len(entries) > 0 {
		p.refusals.wrote()
	}
	for _, e := range entries {
		if e.ProvesRewound() {
			p.Later((*engine.Tx).NoteRewound, nil)
		}
		if told := p.Options.Journaled; told != nil {
			told(e)
		}
	}
}

// change runs a change with the facts as they are: it holds the row of their
// version, has caught up, and logs what it changes.
func (p *Engine) change(bound time.Duration, run func(*engine.Tx) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	select {
	case p.changeSlot <- struct{}{}:
		defer func() { <-p.changeSlot }()
	case <-ctx.Done():
		return fmt.Errorf("waiting for the changes before: %w", engine.ErrUnavailable)
	}
	var err error
	for range engine.MaxTries {
		var made *engine.Tx
		var from, to int64
		ours := false // what this change does to memory nobody has to load
		err = p.Transact(ctx, func(tx *engine.Tx) (err error) {
			made = tx
			if from, to, err = p.changeFacts(tx, run); err == nil && to > 0 {
				select {
				case p.catching <- struct{}{}:
					ours = true
				default:
				}
			}
			return err
		})
		if err == nil {
			p.apply(from, to, made)
		}
		if ours {
			<-p.catching
		}
		switch {
		case err == nil:
			return nil
		case engine.Refusal(err) && Code(err) != "40001":
			return err
		case errors.Is(err, errUnknown), !retryable(err) && !cut(err):
			return p.unavailable("change", err)
		}
	}
	return p.unavailable("change", err)
}

// changeFacts gives the version that the facts had, and the one that they have
// after the commit; 0 when they have not changed.
func (p *Engine) changeFacts(tx *engine.Tx, run func(*engine.Tx) error) (from, to int64, err error) {
	if err := tx.QueryRow(`SELECT version FROM facts WHERE one = 1 FOR UPDATE`).Scan(&from); errors.Is(err, sql.ErrNoRows) {
		return 0, 0, errNoFacts
	} else if err != nil {
		return 0, 0, err
	}
	if p.Version() != from {
		if err := Raw(tx.Conn, func(c *pgx.Conn) error { return p.Load(tx.Ctx, c, false, func() {}) }); err != nil {
			return 0, 0, err
		}
	}
	if err := run(tx); err != nil {
		return 0, 0, err
	}
	tables, keys, err := p.factChanges(tx)
	if len(tables) == 0 || err != nil {
		return from, 0, err
	}
	to = from + step()
	_, err = tx.Exec(`
		INSERT INTO fact_change (version, what, key)
		SELECT DISTINCT $1::bigint, u.what, u.key FROM unnest($2::text[], $3::text[]) AS u (what, key)`, to, tables, keys)
	if err != nil {
		return 0, 0, err
	}
	_, err = tx.Exec(`UPDATE facts SET version = $1 WHERE one = 1`, to)
	return from, to, err
}

// apply does to memory what a committed change has put. It is left out when
// others have loaded newer facts meanwhile; to is 0 when it changed none.
func (p *Engine) apply(from, to int64, tx *engine.Tx) {
	m := p.Memory
	m.Lock()
	defer m.Unlock()
	facts := to > 0
	if len(tx.Changes) > 0 && (!facts || m.Version == from) {
		tx.Apply()
		m.Changes++
	}
	if facts && m.Version == from {
		m.Version = to
	}
}

// Version is that of the facts in memory.
func (p *Engine) Version() int64 {
	p.Memory.RLock()
	defer p.Memory.RUnlock()
	return p.Memory.Version
}

// unavailable is what a caller is told when the database could not: nothing
// that it may rely on has happened.
func (p *Engine) unavailable(what string, err error) error {
	if err == nil || errors.Is(err, engine.ErrUnavailable) {
		return err
	}
	p.refusals.note(err, p.Options.Now())
	p.Log.Error("the database could not", "what", what, "err", err)
	return fmt.Errorf("%s: %w: %w", what, engine.ErrUnavailable, err)
}
