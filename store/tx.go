package store

import (
	"context"
	"database/sql"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
)

// Tx is one transaction that changes rows, on either engine. The changes of
// memory that it gathers are applied once the commit is durable, or not at all.
// Inside it the facts in memory are current, and do not change.
type Tx struct {
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
	exec(tx *Tx, text string, args ...any) (int64, error)
	query(tx *Tx, text string, args ...any) (*sql.Rows, error)
	// save makes transitions by compare-and-set, and gives those whose row was as
	// it was read.
	save(tx *Tx, all []transition) (saved map[approval.ID]bool, err error)
	// journal writes entries, at the latest before the commit.
	journal(tx *Tx, entries []Event) error
	// lock is what a query ends with whose rows stay as they are read until the
	// commit, when others write at the same time.
	lock() string
	// lastUse is when a live approval was last used or its code issued, in Unix
	// seconds; else 0.
	lastUse(tx *Tx, id approval.ID) (int64, error)
	// roomy gives room for very many rows, or takes it back.
	roomy(on bool) error
}

func newTx(ctx context.Context, e *env, conn *sql.Conn, engine statements) *Tx {
	return &Tx{env: e, memory: e.memory, ctx: ctx, conn: conn, engine: engine}
}

// Put adds changes of the facts.
func (tx *Tx) Put(changes ...facts.Change) {
	for _, c := range changes {
		tx.later(onFacts{c})
	}
}

// later adds another change of memory.
func (tx *Tx) later(c change) { tx.changes = append(tx.changes, c) }

// apply does to memory what was put; its lock is the caller's.
func (tx *Tx) apply() {
	for _, c := range tx.changes {
		c.apply(tx.memory)
	}
}

// mark and back undo what was gathered since, when a savepoint is rolled back.
func (tx *Tx) mark() [2]int { return [2]int{len(tx.events), len(tx.changes)} }

func (tx *Tx) back(to [2]int) { tx.events, tx.changes = tx.events[:to[0]], tx.changes[:to[1]] }

func (tx *Tx) exec(text string, args ...any) (int64, error) { return tx.engine.exec(tx, text, args...) }

func (tx *Tx) query(text string, args ...any) (*sql.Rows, error) {
	return tx.engine.query(tx, text, args...)
}

// queryRow runs a query of which one row is asked for.
func (tx *Tx) queryRow(text string, args ...any) *sql.Row {
	return tx.conn.QueryRowContext(tx.ctx, text, args...)
}
