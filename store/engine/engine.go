// Package engine is the seam between the store and what keeps its rows: Engine, which
// SQLite and PostgreSQL implement, the transaction that both give, and what both have of
// rows and memory: how an approval is read and moved, what the journal is told, and the
// facts with the approvals that have not ended.
package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
)

// An Engine keeps rows durable and the facts in memory current. Two exist: the
// embedded one, SQLite, and PostgreSQL. Its errors are those of the store: of what
// returns ErrUnavailable nothing has happened that anybody may rely on.
type Engine interface {
	// Move makes a move of one approval: row and journal are durable when it returns. A
	// live move asks nothing of the code, so that the approval lacks the code's fields.
	Move(id approval.ID, m approval.Move, live bool, act Act) (approval.Approval, approval.Verdict, error)
	// MoveExpected makes a move that asks no more of an approval than an expected one
	// has, and saves what it gives where the row is as expected. It gives the state that
	// it saved, or the zero State where it left the move to Move.
	MoveExpected(expected approval.Approval, m approval.Move, act Act) (approval.State, error)
	// Change runs one change, which may share its commit with others; an error undoes
	// this one alone. ChangeFacts runs one that reads or changes facts: they are current
	// inside, and nobody else changes them meanwhile. ChangeMany is for very many: nobody
	// who refreshes waits for it, and it may read approvals by Tx alone.
	Change(run func(*Tx) error) error
	ChangeFacts(run func(*Tx) error) error
	ChangeMany(run func(*Tx) error) error
	// Apart runs one change that neither reads nor changes facts, and holds nobody up who
	// does. After an error it may have been made all the same.
	Apart(run func(*Tx) error) error
	// Later queues a change that nobody waits for; false when the queue is full. lost,
	// unless nil, may be called when it was queued and then could not be written.
	Later(run func(*Tx) error, lost func()) bool
	// Used queues that an approval was used, unless it was within the hour.
	Used(id approval.ID)
	// Register adds a client for which there is room.
	Register(c client.Client, network string, at *Reserved, act Act) error

	// Check gives an approval that has not ended, as it stands or within
	// Options.MaxStaleness; CheckNow and CheckAllNow, as it stands. ErrNotFound: it has.
	Check(ctx context.Context, id approval.ID) (Access, error)
	CheckNow(ctx context.Context, id approval.ID) (Access, error)
	CheckAllNow(ctx context.Context, all []Asked)
	// Fresh brings the facts in memory to where they were when it was called, or later;
	// a context that Checked gave has seen to that before. FreshNow does whatever the
	// context says. Recent reports whether Options.MaxStaleness spares asking.
	Fresh(ctx context.Context) error
	FreshNow(ctx context.Context) error
	Checked(ctx context.Context) context.Context
	Recent() bool

	// LastUse is when a live approval was last used or its code issued, in Unix seconds;
	// else 0.
	LastUse(ctx context.Context, id approval.ID) (int64, error)
	// Live counts the approvals that live; ClientUses does by client.
	Live(ctx context.Context) (int, error)
	ClientUses(ctx context.Context) (map[string]ClientUse, error)
	// PendingEnds lists the approvals that have ended and whose rows do not say so yet:
	// by a fact, or by a code that was issued by a time. The caller calls done when all
	// of them are written.
	PendingEnds(ctx context.Context, issued time.Time) (all []approval.ID, done func() error, err error)
	// Sweeps reports whether this process is the one that sweeps.
	Sweeps(ctx context.Context) (bool, error)

	// Reader is for statements that read, and wait for nobody who writes.
	Reader() *sql.DB
	// Ready reports whether the database takes a write. It may hang as long as a disk.
	Ready() error
	// WhyNot says what is the matter with a database that gave an error, or "". Refused
	// is what was the matter last.
	WhyNot(err error) string
	Refused() Refused
	Size() (bytes int64)
	Integrity(ctx context.Context) (whole bool, err error)
	Backup(ctx context.Context, path string) (time.Time, error)
	BackupFile() string

	// Nodes lists the processes at work on the database, this one first; LiveNodes
	// counts them as of a while ago.
	Nodes(ctx context.Context) ([]Node, error)
	LiveNodes() int
	// SyncKeys tells other nodes which keys this one has, and follows theirs. Opens is
	// nil unless another may have let a key seal that this one lacks.
	SyncKeys(ctx context.Context) error
	Opens() error

	// Close waits for what is under way.
	Close() error
}

// Gate lets callers in until it is closed.
type Gate struct {
	// entering is held by those who wait for an answer; closing waits for them, so that
	// nobody is left without one.
	entering sync.RWMutex
	Closed   chan struct{}
}

// Enter keeps the gate from closing until leave is called.
func (g *Gate) Enter() (leave func(), err error) {
	g.entering.RLock()
	select {
	case <-g.Closed:
		g.entering.RUnlock()
		return nil, fmt.Errorf("closing: %w", ErrUnavailable)
	default:
		return g.entering.RUnlock, nil
	}
}

// Close waits for those inside, and lets nobody in any more.
func (g *Gate) Close() {
	g.entering.Lock()
	defer g.entering.Unlock()
	close(g.Closed)
}

// RunSafely makes a fault in a caller's function an error that undoes the
// batch: the engine must outlive it.
func RunSafely(tx *Tx, run func(*Tx) error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("a change panicked: %v", fault)
			tx.Env.Log.Error("a change panicked", "fault", fault, "stack", string(debug.Stack()))
		}
	}()
	return run(tx)
}

// Refusal tells a change that may not be from a database that cannot.
func Refusal(err error) bool {
	for _, e := range []error{ErrNotFound, ErrConflict, ErrAnswered, ErrNotAllowed, ErrKeys, ErrChanged, ErrRules, ErrFull} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
