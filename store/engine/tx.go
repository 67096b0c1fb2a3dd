package engine

import (
	"context"
	"database/sql"
	"strconv"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/store/schema"
)

// Tx is one transaction that changes rows, on either engine. The changes of
// memory that it gathers are applied once the commit is durable, or not at all.
// Inside it the facts in memory are current, and do not change.
type Tx struct {
	Env     *Env
	Memory  *Memory
	Ctx     context.Context
	Conn    *sql.Conn
	Engine  Statements
	Events  []Event  // entries of the journal, for Options.Journaled
	Changes []change // of memory, in their order
}

// Statements is how an engine runs the statements of a transaction.
type Statements interface {
	// Exec gives the number of rows that changed. ErrConflict: a constraint refuses.
	Exec(tx *Tx, text string, args ...any) (int64, error)
	Query(tx *Tx, text string, args ...any) (*sql.Rows, error)
	// Save makes transitions by compare-and-set, and gives those whose row was as
	// it was read.
	Save(tx *Tx, all []Transition) (saved map[approval.ID]bool, err error)
	// Journal writes entries, at the latest before the commit.
	Journal(tx *Tx, entries []Event) error
	// Lock is what a query ends with whose rows stay as they are read until the
	// commit, when others write at the same time.
	Lock() string
	// LastUse is when a live approval was last used or its code issued, in Unix
	// seconds; else 0.
	LastUse(tx *Tx, id approval.ID) (int64, error)
	// Roomy gives room for very many rows, or takes it back.
	Roomy(on bool) error
}

// NewTx gives the transaction that a connection has open, or that the statements open.
func NewTx(ctx context.Context, e *Env, conn *sql.Conn, engine Statements) *Tx {
	return &Tx{Env: e, Memory: e.Memory, Ctx: ctx, Conn: conn, Engine: engine}
}

// Put adds changes of the facts.
func (tx *Tx) Put(changes ...facts.Change) {
	for _, c := range changes {
		tx.later(onFacts{facts.Ready(c)})
	}
}

// later adds another change of memory.
func (tx *Tx) later(c change) { tx.Changes = append(tx.Changes, c) }

// Apply does to memory what was put; its lock is the caller's.
func (tx *Tx) Apply() {
	for _, c := range tx.Changes {
		c.apply(tx.Memory)
	}
}

// Mark and Back undo what was gathered since, when a savepoint is rolled back.
func (tx *Tx) Mark() [2]int { return [2]int{len(tx.Events), len(tx.Changes)} }

// Back is to what Mark gave.
func (tx *Tx) Back(to [2]int) { tx.Events, tx.Changes = tx.Events[:to[0]], tx.Changes[:to[1]] }

// Exec gives the number of rows that changed. ErrConflict: a constraint refuses.
func (tx *Tx) Exec(text string, args ...any) (int64, error) {
	return tx.Engine.Exec(tx, text, args...)
}

// Query runs a query; its rows are read before the next statement.
func (tx *Tx) Query(text string, args ...any) (*sql.Rows, error) {
	return tx.Engine.Query(tx, text, args...)
}

// QueryRow runs a query of which one row is asked for.
func (tx *Tx) QueryRow(text string, args ...any) *sql.Row {
	return tx.Conn.QueryRowContext(tx.Ctx, text, args...)
}

// Save makes transitions, and gives those whose row was as it was read.
func (tx *Tx) Save(all []Transition) (saved map[approval.ID]bool, err error) {
	return tx.Engine.Save(tx, all)
}

// LastUse is that of Statements.
func (tx *Tx) LastUse(id approval.ID) (int64, error) { return tx.Engine.LastUse(tx, id) }

// Lock is that of Statements.
func (tx *Tx) Lock() string { return tx.Engine.Lock() }

// Roomy is that of Statements.
func (tx *Tx) Roomy(on bool) error { return tx.Engine.Roomy(on) }

// MakeSchema makes all tables in an empty database.
func (tx *Tx) MakeSchema(postgres bool) error {
	return schema.Make(postgres, tx.Env.Options.Release, func(text string) error {
		_, err := tx.Conn.ExecContext(tx.Ctx, text)
		return err
	}, tx.PutMeta)
}

// SaveTime writes the time into the database (decision T12).
func (tx *Tx) SaveTime() error {
	now := tx.Env.Now().Unix()
	if err := tx.PutMeta(MetaTime, strconv.FormatInt(now, 10)); err != nil {
		return err
	}
	tx.Env.Clock.Saved.Store(now)
	return nil
}

// A ChangedRow is a row of facts that a transaction has changed.
type ChangedRow struct {
	Table, Key string
	Gone       bool // it is there no more
}

// ChangedRows names the rows of facts that the transaction has changed.
func (tx *Tx) ChangedRows() (rows []ChangedRow) {
	for _, c := range tx.Changes {
		if c, ok := c.(onFacts); ok {
			if table, key := c.Row(); table != "" {
				rows = append(rows, ChangedRow{table, key, facts.Gone(c.Change)})
			}
		}
	}
	return rows
}
