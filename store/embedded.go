package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/store/schema"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/vfs/memdb"
)

// embeddedEngine is SQLite: this process is the only one who writes, and has all
// facts and all approvals that have not ended in memory.
type embeddedEngine struct {
	*env
	writer *writer
	files  files
	reader *sql.DB

	unnoted atomic.Int64 // Unix seconds until which no use is noted
	copying sync.Mutex   // one backup at a time
	stop    chan struct{}
	stopped sync.WaitGroup
}

// openEmbedded opens a file, or a database in memory.
func openEmbedded(ctx context.Context, env *env) (engine, error) {
	if env.options.Migrate && env.options.Path != "" {
		if err := migrateAtStart(ctx, env); err != nil {
			return nil, err
		}
	}
	e := &embeddedEngine{env: env, stop: make(chan struct{})}
	if err := e.open(ctx); err != nil {
		e.closeFiles()
		return nil, err
	}
	e.stopped.Go(e.writer.run)
	e.stopped.Go(e.tick)
	return e, nil
}

func (e *embeddedEngine) open(ctx context.Context) error {
	path := e.options.Path
	if path != "" {
		if err := e.files.lockAll(path, e.log); err != nil {
			return err
		}
	}
	dsn := dsn(path)
	db, err := openSQLite(dsn + "&_txlock=immediate")
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return cannotOpen(path, err)
	}
	e.writer = newWriter(e.env, &e.files, db, conn)
	if path != "" {
		dsn += "&mode=rw" // whoever reads makes no file of the name, were it gone
	}
	if e.reader, err = openSQLite(dsn + "&_pragma=query_only(1)"); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	e.reader.SetMaxOpenConns(4)
	e.reader.SetMaxIdleConns(4)
	if err := e.prepareSchema(ctx); err != nil {
		return err
	}
	if err := e.writer.atStart(ctx, func(tx *txn) error { return tx.matchKeyRows(e.options.Ring) }); err != nil {
		return fmt.Errorf("database: keys: %w", err)
	}
	if err := e.writer.atStart(ctx, (*txn).checkKeys); err != nil {
		return err
	}
	if err := e.loadClock(ctx); err != nil {
		return err
	}
	if path != "" {
		if err := e.files.hold(path); err != nil {
			return err
		}
	}
	return loadAll(ctx, conn, e.memory)
}

// cannotOpen tells a file that is something else, and a damaged one, from one that
// cannot be read.
func cannotOpen(path string, err error) error {
	switch {
	case errors.Is(err, schema.ErrForeign):
		return fmt.Errorf("database: %s: %w", path, err)
	case errors.Is(err, sqlite3.NOTADB), errors.Is(err, sqlite3.ERROR): // no such table
		return fmt.Errorf("database: %s: %w: %w", path, schema.ErrForeign, err)
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

var memoryNames atomic.Int64

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

func (e *embeddedEngine) prepareSchema(ctx context.Context) error {
	var tables int
	if err := e.writer.conn.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_master`).Scan(&tables); err != nil {
		return cannotOpen(e.options.Path, err)
	}
	if tables == 0 {
		if e.options.Path != "" {
			e.log.Info("a new, empty database is made", "file", e.options.Path)
		}
		return e.writer.atStart(ctx, func(tx *txn) error {
			if err := e.writer.begin(); err != nil {
				return err
			}
			return tx.makeSchema(false)
		})
	}
	has, err := schema.Read(ctx, e.writer.conn)
	if err != nil {
		return cannotOpen(e.options.Path, err)
	}
	return has.Works()
}

// loadClock goes on from the time that the database has seen (decision T12).
func (e *embeddedEngine) loadClock(ctx context.Context) error {
	v, err := newTx(ctx, e.env, e.writer.conn, e.writer).meta(metaTime)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // an empty database has seen nothing
	} else if err != nil {
		return fmt.Errorf("database: time: %w", err)
	}
	if err := e.clock.goOnFrom(v); err != nil {
		return fmt.Errorf("database: time: %w", err)
	}
	return nil
}

// tick saves the time once a minute, so that an idle server that restarts
// with its clock set back revives nothing that it has called expired.
func (e *embeddedEngine) tick() {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-t.C:
			e.warnBehind()
			if err := e.Ready(); err != nil {
				e.log.Warn("the time cannot be saved", "err", err)
			}
		}
	}
}

// Move makes a move in the batch that is next.
func (e *embeddedEngine) Move(id approval.ID, m approval.Move, live bool, act Act) (approval.Approval, approval.Verdict, error) {
	return e.writer.move(id, m, live, act)
}

// MoveExpected leaves all to Move, which has the approval in memory.
func (e *embeddedEngine) MoveExpected(approval.Approval, approval.Move, Act) (none approval.State, _ error) {
	return none, nil
}

// Change makes a change that may share a batch.
func (e *embeddedEngine) Change(run func(*txn) error) error {
	return e.writer.do(&operation{run: run, done: make(chan struct{}, 1)})
}

// ChangeFacts makes a change that no other operation may share a batch with.
func (e *embeddedEngine) ChangeFacts(run func(*txn) error) error {
	return e.writer.do(&operation{run: run, alone: true, done: make(chan struct{}, 1)})
}

// Later queues a change that nobody waits for.
func (e *embeddedEngine) Later(run func(*txn) error, lost func()) bool {
	select {
	case e.writer.notes <- &operation{run: run, lost: lost}:
		return true
	default:
		return false
	}
}

// Reader gives connections that can only read.
func (e *embeddedEngine) Reader() *sql.DB { return e.reader }

// Ready saves the time, behind what waits.
func (e *embeddedEngine) Ready() error { return e.Change((*txn).saveTime) }

// Close saves the time at last.
func (e *embeddedEngine) Close() error {
	close(e.stop)
	e.writer.gate.close()
	e.stopped.Wait()
	return e.closeFiles()
}

func (e *embeddedEngine) closeFiles() error {
	var errs []error
	if e.reader != nil {
		errs = append(errs, e.reader.Close())
	}
	if e.writer != nil {
		for _, st := range e.writer.statements {
			errs = append(errs, st.Close())
		}
		errs = append(errs, e.writer.conn.Close(), e.writer.db.Close())
	}
	return errors.Join(append(errs, e.files.close()...)...)
}

// Size is that of the file and its log of writes; 0 in memory.
func (e *embeddedEngine) Size() (bytes int64) {
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(e.options.Path + suffix); err == nil && e.options.Path != "" {
			bytes += info.Size()
		}
	}
	return bytes
}

// Integrity reads through the database until ctx ends, and reports whether it
// came to the end.
func (e *embeddedEngine) Integrity(ctx context.Context) (whole bool, err error) {
	var said string
	err = e.reader.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&said)
	switch {
	case ctx.Err() != nil:
		return false, nil
	case err != nil:
		return false, unavailable("integrity", err)
	case said != "ok":
		return false, errors.New("the database is damaged: " + said)
	}
	return true, nil
}

// Nodes gives this one, which is alone; so nothing is to be told to others, and none
// can have another key.
func (e *embeddedEngine) Nodes(context.Context) ([]Node, error) {
	return []Node{{ID: "embedded", SeenAt: e.Now().Unix(), Key: newestKey(e.options.Ring), Self: true}}, nil
}

// LiveNodes is 1.
func (e *embeddedEngine) LiveNodes() int { return 1 }

// Sweeps is always so.
func (e *embeddedEngine) Sweeps(context.Context) (bool, error) { return true, nil }

// SyncKeys has nothing to do.
func (e *embeddedEngine) SyncKeys(context.Context) error { return nil }

// Opens is always nil.
func (e *embeddedEngine) Opens() error { return nil }

// Refused is always zero: what the disk refuses is in the log, with what to do.
func (e *embeddedEngine) Refused() Refused { return Refused{} }

// WhyNot knows a file that is not where it was, and a write that takes too long.
func (e *embeddedEngine) WhyNot(err error) string {
	switch {
	case errors.Is(err, errMoved):
		return MovedFile
	case errors.Is(err, context.DeadlineExceeded):
		return Slow
	}
	return ""
}
