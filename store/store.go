package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/vfs/memdb"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/token"
)

// Errors that a caller decides on.
var (
	ErrNotFound    = directory.ErrNotFound
	ErrConflict    = directory.ErrConflict
	ErrChanged     = errors.New("it is not any more as it was read")
	ErrUnavailable = errors.New("the database cannot answer now") // 503: nothing that anybody may rely on has happened
	ErrAnswered    = errors.New("the page was answered and its code exchanged")
	ErrNotAllowed  = errors.New("a fact that this stands on has ended")
	ErrInUse       = errors.New("another process works on this database")
	ErrParted      = errors.New("the log of a database that is gone, or empty")
	ErrDamaged     = errors.New("the database is damaged")
	ErrSchema      = errors.New("the database has a schema of another release")
	ErrNodes       = errors.New("nodes of an older release work on this database")
	ErrKeys        = errors.New("the secret keys are not the database's")
)

// SchemaVersion is the newest schema that this release knows: the number of
// the last file of schema/.
const SchemaVersion = 6

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
	lock    *os.File
	held    *os.File   // the database's own file
	files   []openFile // of the embedded engine, on a disk
	reader  *sql.DB
	writer  *writer
	memory  *memory
	shared  *shared // PostgreSQL's part; nil on the embedded engine

	recorded    recorded
	fullSaid    atomic.Int64 // Unix seconds: when it was logged last that nobody can register
	pressedSaid atomic.Int64 // the same, that many clients wait

	unusedSwept atomic.Int64 // Unix seconds
	unnoted     atomic.Int64 // Unix seconds until which no use is noted

	writingEnds sync.Mutex // held by writeEnds: one at a time
	copying     sync.Mutex // one backup at a time
	closing     sync.Once
	stop        chan struct{}
	stopped     sync.WaitGroup
}

var memoryNames atomic.Int64

// Open opens the database, creates what is missing in an empty one, and loads
// what lives in memory. ErrInUse, ErrSchema and ErrKeys are final.
func Open(ctx context.Context, o Options) (*Store, error) {
	e := newEnv(o)
	s := &Store{env: e, options: &e.options, log: e.log, memory: e.memory, stop: make(chan struct{})}
	if o.Migrate && o.URL == "" && o.Path != "" {
		if err := s.migrateAtStart(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.open(ctx); err != nil {
		s.closeFiles()
		return nil, err
	}
	s.start()
	return s, nil
}

// start lets those work who work until Close.
func (s *Store) start() {
	if s.shared != nil {
		s.shared.start(&s.stopped)
		return
	}
	s.stopped.Add(2)
	go s.writer.run(&s.stopped)
	go s.tick()
}

func (s *Store) open(ctx context.Context) error {
	if s.options.URL != "" {
		return s.openShared(ctx)
	}
	if s.options.Path != "" {
		if err := s.lockFile(); err != nil {
			return err
		}
	}
	dsn := dsn(s.options.Path)
	db, err := openSQLite(dsn + "&_txlock=immediate")
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return s.cannotOpen(err)
	}
	s.writer = newWriter(s, db, conn)
	if s.options.Path != "" {
		dsn += "&mode=rw" // whoever reads makes no file of the name, were it gone
	}
	if s.reader, err = openSQLite(dsn + "&_pragma=query_only(1)"); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	s.reader.SetMaxOpenConns(4)
	s.reader.SetMaxIdleConns(4)
	if err := s.prepareSchema(ctx); err != nil {
		return err
	}
	if err := s.writer.atStart(ctx, func(tx *Tx) error { return tx.matchKeyRows(s.options.Ring) }); err != nil {
		return fmt.Errorf("database: keys: %w", err)
	}
	if err := s.writer.atStart(ctx, (*Tx).checkKeys); err != nil {
		return err
	}
	if err := s.loadClock(ctx); err != nil {
		return err
	}
	if s.options.Path != "" {
		if err := s.holdFiles(); err != nil {
			return err
		}
	}
	return s.load(ctx, conn)
}

func (s *Store) cannotOpen(err error) error { return cannotOpen(s.options.Path, err) }

// cannotOpen tells a file that is something else, and a damaged one, from one that
// cannot be read.
func cannotOpen(path string, err error) error {
	switch {
	case errors.Is(err, ErrForeign):
		return fmt.Errorf("database: %s: %w", path, err)
	case errors.Is(err, sqlite3.NOTADB), errors.Is(err, sqlite3.ERROR): // no such table
		return fmt.Errorf("database: %s: %w: %w", path, ErrForeign, err)
	case errors.Is(err, sqlite3.CORRUPT):
		return fmt.Errorf("database: %s: %w: %w", path, ErrDamaged, err)
	}
	return fmt.Errorf("database: cannot open %s: %w", path, err)
}

// diskOf names the VFS that a file is opened through; nil is the operating
// system's. Tests have one that loses power.
var diskOf func(path string) string

// checkpointPages is how long the log of writes gets before what it says goes
// into the database.
const checkpointPages = "2000"

// dsn names the database with its settings. Every commit is on the disk
// before it is answered: WAL with synchronous=FULL.
func dsn(path string) string {
	pragmas := url.Values{"_pragma": {"busy_timeout(5000)", "temp_store(2)"}}
	if path == "" {
		name := fmt.Sprintf("/grantkeeper-%d", memoryNames.Add(1))
		return "file:" + name + "?vfs=memdb&" + pragmas.Encode()
	}
	for _, p := range []string{
		"journal_mode(wal)", "synchronous(full)", "wal_autocheckpoint(" + checkpointPages + ")", "journal_size_limit(16777216)",
	} {
		pragmas.Add("_pragma", p)
	}
	if diskOf != nil {
		pragmas.Set("vfs", diskOf(path))
	}
	return fileURL(path, pragmas)
}

// lockFile keeps a second server off the database: both would believe that
// their memory is the truth. The file itself is locked as well, which may have
// another name: but not where SQLite would wait for that lock, as on BSD.
func (s *Store) lockFile() (err error) {
	path := s.options.Path
	if err := refuseForeign(path); err != nil {
		return err
	}
	if s.lock, err = lockFor(path); err != nil {
		return err
	}
	if err := refuseParted(path); err != nil {
		return err
	}
	if err := closeToOthers(path, s.log); err != nil || runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		return err
	}
	if s.held, err = os.Open(path); err != nil {
		return fmt.Errorf("database: cannot open %s: %w", path, err)
	}
	return lock(s.held, path)
}

func (s *Store) prepareSchema(ctx context.Context) error {
	var tables int
	if err := s.writer.conn.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_master`).Scan(&tables); err != nil {
		return s.cannotOpen(err)
	}
	if tables == 0 {
		if s.options.Path != "" {
			s.log.Info("a new, empty database is made", "file", s.options.Path)
		}
		return s.writer.atStart(ctx, func(tx *Tx) error {
			if err := s.writer.begin(); err != nil {
				return err
			}
			return tx.makeSchema(false)
		})
	}
	schema, err := readSchema(ctx, s.writer.conn)
	if err != nil {
		return s.cannotOpen(err)
	}
	return schema.works()
}

// Close waits for what is under way, and closes the database. It may be called
// again.
func (s *Store) Close() (err error) {
	s.closing.Do(func() {
		close(s.stop)
		s.writer.close()
		if s.shared != nil {
			s.shared.close()
		}
		s.stopped.Wait()
		err = s.closeFiles()
	})
	return err
}

func (s *Store) closeFiles() error {
	var errs []error
	if s.reader != nil {
		errs = append(errs, s.reader.Close())
	}
	if s.shared != nil {
		s.shared.pool.Close()
	} else if s.writer != nil {
		for _, st := range s.writer.statements {
			errs = append(errs, st.Close())
		}
		errs = append(errs, s.writer.conn.Close())
		errs = append(errs, s.writer.db.Close())
	}
	for _, f := range []*os.File{s.held, s.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// Ready reports whether the database answers a write before ctx ends: a disk
// that hangs gives no error.
func (s *Store) Ready(ctx context.Context) error {
	answer := make(chan error, 1)
	go func() {
		if s.shared != nil {
			answer <- s.shared.ready()
			return
		}
		answer <- s.writer.change(func(tx *Tx) error { return tx.saveTime() })
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}
