package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/store/accounts"
	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/oversight"
	"github.com/grantkeeper/grantkeeper/store/postgres"
	"github.com/grantkeeper/grantkeeper/store/query"
	"github.com/grantkeeper/grantkeeper/store/records"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
)

// Store is safe for concurrent use.
type Store struct {
	*accounts.Accounts
	*approvals.ApprovalStore
	*oversight.OversightStore
	*records.Records

	db engine.Handle

	fullSaid    atomic.Int64 // Unix seconds: when it was logged last that nobody can register
	pressedSaid atomic.Int64 // the same, that many clients wait

	ends    *approvals.Ends
	closing sync.Once
}

// Open opens the database, creates what is missing in an empty one, and loads
// what lives in memory. ErrInUse, ErrSchema and ErrKeys are final.
func Open(ctx context.Context, o Options) (*Store, error) {
	e := engine.NewEnv(o)
	engine, err := openEngine(ctx, e)
	if err != nil {
		return nil, err
	}
	db := e.Handle(engine)
	approved := approvals.On(db)
	return &Store{
		Accounts: accounts.On(db), ApprovalStore: approved, OversightStore: oversight.On(db, approved), Records: records.On(db, approved),
		db: db, ends: approvals.EndsOf(db),
	}, nil
}

// openEngine opens the one that the options name.
func openEngine(ctx context.Context, e *engine.Env) (engine.Engine, error) {
	if e.Options.URL != "" {
		return postgres.Open(ctx, e)
	}
	return sqlite.Open(ctx, e)
}

// change makes a change that may share its commit with others.
func (s *Store) change(run func(*Tx) error) error { return s.db.Engine.Change(within(run)) }

// changeFacts makes a change in which the facts are those of now.
func (s *Store) changeFacts(run func(*Tx) error) error { return s.db.Engine.ChangeFacts(within(run)) }

// changeMany is changeFacts of very many, beside which clients refresh.
func (s *Store) changeMany(run func(*Tx) error) error { return s.db.Engine.ChangeMany(within(run)) }

// Tx is a transaction with what the store does in one.
type Tx struct{ *engine.Tx }

// put writes rows, many in one statement, and puts what they change of the facts. The text of q
// ends before VALUES.
func put[T any](tx *Tx, q query.Builder, all []T, of func(T) (facts.Change, []any)) error {
	rows := make([][]any, len(all))
	for i, one := range all {
		change, row := of(one)
		tx.Put(change)
		rows[i] = row
	}
	return query.Insert(tx.Tx, q, rows)
}

func within(run func(*Tx) error) func(*engine.Tx) error {
	return func(tx *engine.Tx) error { return run(&Tx{tx}) }
}

// Now is the time of every decision. It never goes back (decision T12).
func (s *Store) Now() time.Time { return s.db.Env.Now() }

func (s *Store) timed(query string, start time.Time) { s.db.Env.Timed(query, start) }

// fresh brings the facts in memory up to where they were when it was called,
// or later. On the embedded engine they always are.
func (s *Store) fresh(ctx context.Context) error { return s.db.Engine.Fresh(ctx) }

// Close waits for what is under way, and closes the database. It may be called
// again.
func (s *Store) Close() (err error) {
	s.closing.Do(func() { err = s.db.Engine.Close() })
	return err
}

// Ready reports whether the database answers a write before ctx ends: a disk
// that hangs gives no error.
func (s *Store) Ready(ctx context.Context) error {
	answer := make(chan error, 1)
	go func() { answer <- s.db.Engine.Ready() }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// Refused says why the database refused something, until it takes such a thing
// again, and for a minute more; or for a minute, where reads would meet it too.
func (s *Store) Refused() Refused { return s.db.Engine.Refused() }

// WhyNot says what is the matter with the database that Ready gave such an error
// of, or "": also where it says nothing any more, if it did before.
func (s *Store) WhyNot(err error) string { return s.db.Engine.WhyNot(err) }

// IdentifyAPIKey names an API key, whether or not there is one.
func IdentifyAPIKey(key string) APIKeyID { return engine.IdentifyAPIKey(key) }

// Collect gives every row of a list that the store gives page by page.
func Collect[T any](after *string, list func() ([]T, string, error)) (rows []T, err error) {
	for {
		some, next, err := list()
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		if rows, *after = append(rows, some...), next; next == "" {
			return rows, nil
		}
	}
}
