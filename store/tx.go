package store

import (
	"context"
	"database/sql"

	"github.com/grantkeeper/grantkeeper/store/schema"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
)

// txn is one transaction that changes rows, on either engine. The changes of
// memory that it gathers are applied once the commit is durable, or not at all.
// Inside it the facts in memory are current, and do not change.
type txn struct {
	env     *env
	memory  *memory
	ctx     context.Context
	conn    *sql.Conn
	engine  statements
	events  []Event  // entries of the journal, for Options.Journaled
	changes []change // of memory, in their order
}

// statements is how an engine runs the statements of a transaction.
type statements interface {
	// exec gives the number of rows that changed. ErrConflict: a constraint refuses.
	Exec(tx *txn, text string, args ...any) (int64, error)
	Query(tx *txn, text string, args ...any) (*sql.Rows, error)
	// save makes transitions by compare-and-set, and gives those whose row was as
	// it was read.
	Save(tx *txn, all []transition) (saved map[approval.ID]bool, err error)
	// journal writes entries, at the latest before the commit.
	Journal(tx *txn, entries []Event) error
	// lock is what a query ends with whose rows stay as they are read until the
	// commit, when others write at the same time.
	Lock() string
	// lastUse is when a live approval was last used or its code issued, in Unix
	// seconds; else 0.
	LastUse(tx *txn, id approval.ID) (int64, error)
	// roomy gives room for very many rows, or takes it back.
	Roomy(on bool) error
}

func newTx(ctx context.Context, e *env, conn *sql.Conn, engine statements) *txn {
	return &txn{env: e, memory: e.memory, ctx: ctx, conn: conn, engine: engine}
}

// Put adds changes of the facts.
func (tx *txn) Put(changes ...facts.Change) {
	for _, c := range changes {
		tx.later(onFacts{c})
	}
}

// later adds another change of memory.
func (tx *txn) later(c change) { tx.changes = append(tx.changes, c) }

// apply does to memory what was put; its lock is the caller's.
func (tx *txn) apply() {
	for _, c := range tx.changes {
		c.apply(tx.memory)
	}
}

// mark and back undo what was gathered since, when a savepoint is rolled back.
func (tx *txn) mark() [2]int { return [2]int{len(tx.events), len(tx.changes)} }

func (tx *txn) back(to [2]int) { tx.events, tx.changes = tx.events[:to[0]], tx.changes[:to[1]] }

func (tx *txn) exec(text string, args ...any) (int64, error) {
	return tx.engine.Exec(tx, text, args...)
}

func (tx *txn) query(text string, args ...any) (*sql.Rows, error) {
	return tx.engine.Query(tx, text, args...)
}

// queryRow runs a query of which one row is asked for.
func (tx *txn) queryRow(text string, args ...any) *sql.Row {
	return tx.conn.QueryRowContext(tx.ctx, text, args...)
}

func (tx *txn) save(all []transition) (saved map[approval.ID]bool, err error) {
	return tx.engine.Save(tx, all)
}

func (tx *txn) lastUse(id approval.ID) (int64, error) { return tx.engine.LastUse(tx, id) }

func (tx *txn) lock() string { return tx.engine.Lock() }

func (tx *txn) roomy(on bool) error { return tx.engine.Roomy(on) }

// makeSchema makes all tables in an empty database.
func (tx *txn) makeSchema(postgres bool) error {
	return schema.Make(postgres, tx.env.options.Release, func(text string) error {
		_, err := tx.conn.ExecContext(tx.ctx, text)
		return err
	}, tx.putMeta)
}
