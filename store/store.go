package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/ncruces/go-sqlite3/vfs/memdb"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/store/schema"
	"github.com/grantkeeper/grantkeeper/token"
)

// Errors that a caller decides on.
var (
	ErrNotFound    = directory.ErrNotFound
	ErrConflict    = directory.ErrConflict
	ErrChanged     = errors.New("it is not any more as it was read")
	ErrSchema      = schema.ErrVersion
	ErrForeign     = schema.ErrForeign                            // not a database of Grantkeeper
	ErrUnavailable = errors.New("the database cannot answer now") // 503: nothing that anybody may rely on has happened
	ErrAnswered    = errors.New("the page was answered and its code exchanged")
	ErrNotAllowed  = errors.New("a fact that this stands on has ended")
	ErrInUse       = errors.New("another process works on this database")
	ErrParted      = errors.New("the log of a database that is gone, or empty")
	ErrDamaged     = errors.New("the database is damaged")
	ErrNodes       = errors.New("nodes of an older release work on this database")
	ErrKeys        = errors.New("the secret keys are not the database's")
)

// Options say where the rows are and what belongs to them.
type Options struct {
	Path string           // of the SQLite file; empty keeps everything in memory
	URL  string           // of a PostgreSQL database, postgres://; then Path is not asked
	Ring *token.Ring      // its keys must be those of the database (decision T11)
	Now  func() time.Time // the machine's clock; nil is time.Now
	Log  *slog.Logger     // nil discards

	Migrate bool   // take an older schema forward first
	Release string // which one this is, for the database to say who has migrated it

	SessionIdle time.Duration // 0 is 12 hours (decision S2)
	SessionMax  time.Duration // 0 is 30 days

	Impersonal       bool          // the service has no personal items: no authority has any (decision P4)
	EndUnusedAfter   time.Duration // ends approvals that nobody used for so long; 0 ends none (decision P11)
	JournalRetention time.Duration // how long the journal keeps its entries; 0 is 365 days

	// Journaled, unless nil, is told of every entry of the journal once it is
	// durable; Took, how long the database took for something, by a few names.
	// Journaled is called by those who write, on PostgreSQL by several at once,
	// Took by whoever asks, so they must not wait.
	Journaled func(Event)
	Took      func(query string, took time.Duration)
	Swept     func(Swept) // unless nil, is told what each sweep has done, also one that failed

	// MaxStaleness is how old the rows and facts may be by which Check and
	// CheckAPIKey accept. 0 is exact: they are read after the request arrived.
	// What is missing or refused is asked for first (decision B8). On PostgreSQL only.
	MaxStaleness time.Duration

	// databaseTime stands in for the database's own clock, in tests that let
	// time pass by themselves.
	databaseTime func() time.Time
}

// Store is safe for concurrent use.
type Store struct {
	env     *env
	options *Options // the environment's, as log and memory
	log     *slog.Logger
	memory  *memory
	engine  engine
	reader  *sql.DB // the engine's

	recorded    recorded
	fullSaid    atomic.Int64 // Unix seconds: when it was logged last that nobody can register
	pressedSaid atomic.Int64 // the same, that many clients wait

	unusedSwept atomic.Int64 // Unix seconds

	writingEnds sync.Mutex // held by writeEnds: one at a time
	closing     sync.Once
}

// Open opens the database, creates what is missing in an empty one, and loads
// what lives in memory. ErrInUse, ErrSchema and ErrKeys are final.
func Open(ctx context.Context, o Options) (*Store, error) {
	e := newEnv(o)
	engine, err := openEngine(ctx, e)
	if err != nil {
		return nil, err
	}
	return &Store{env: e, options: &e.options, log: e.log, memory: e.memory, engine: engine, reader: engine.Reader()}, nil
}

// change makes a change that may share its commit with others.
func (s *Store) change(run func(*Tx) error) error { return s.engine.Change(within(run)) }

// changeFacts makes a change in which the facts are those of now.
func (s *Store) changeFacts(run func(*Tx) error) error { return s.engine.ChangeFacts(within(run)) }

// later queues a change that nobody waits for; false when the queue is full. lost,
// unless nil, may be called when it was queued and then could not be written.
func (s *Store) later(run func(*Tx) error, lost func()) bool {
	return s.engine.Later(within(run), lost)
}

// Tx is a transaction with what the store does in one.
type Tx struct{ *txn }

func within(run func(*Tx) error) func(*txn) error {
	return func(tx *txn) error { return run(&Tx{tx}) }
}

// Close waits for what is under way, and closes the database. It may be called
// again.
func (s *Store) Close() (err error) {
	s.closing.Do(func() { err = s.engine.Close() })
	return err
}

// Ready reports whether the database answers a write before ctx ends: a disk
// that hangs gives no error.
func (s *Store) Ready(ctx context.Context) error {
	answer := make(chan error, 1)
	go func() { answer <- s.engine.Ready() }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}
