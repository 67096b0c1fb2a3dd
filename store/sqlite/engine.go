// Package sqlite is the embedded engine: this process is the only one who writes, in
// commits that those who wait share, and all facts and the approvals that have not ended
// are in memory, where they change after, and only after, the durable commit of the row.
package sqlite

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

	"github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/vfs/memdb"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
)

// Engine is SQLite: this process is the only one who writes, and has all
// facts and all approvals that have not ended in memory.
type Engine struct {
	*engine.Env
	Writer *writer
	files  files
	reader *sql.DB

	unnoted atomic.Int64 // Unix seconds until which no use is noted
	Copying sync.Mutex   // one backup at a time
	stop    chan struct{}
	stopped sync.WaitGroup
}

// Open opens a file, or a database in memory.
func Open(ctx context.Context, env *engine.Env) (engine.Engine, error) {
	named := env.Options.Path
	env.Options.Path = realPath(named)
	if env.Options.Migrate && env.Options.Path != "" {
		if err := migrateAtStart(ctx, env); err != nil {
			return nil, err
		}
	}
	e := &Engine{Env: env, files: files{named: named}, stop: make(chan struct{})}
	if err := e.open(ctx); err != nil {
		e.closeFiles()
		return nil, err
	}
	e.stopped.Go(e.Writer.run)
	e.stopped.Go(e.tick)
	return e, nil
}

func (e *Engine) open(ctx context.Context) error {
	path := e.Options.Path
	if path != "" {
		if err := e.files.lockAll(path, e.Log); err != nil {
			return err
		}
		done, err := recoverWAL(path)
		if err != nil {
			return err
		}
		defer done()
	}
	dsn := DSN(path)
	db, err := Connect(dsn + "&_txlock=immediate")
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return cannotOpen(path, err)
	}
	e.Writer = newWriter(e.Env, &e.files, db, conn)
	if path != "" {
		dsn += "&mode=rw" // whoever reads makes no file of the name, were it gone
	}
	// A connection to another file of the name would take this one's log for its own.
	if e.reader, err = connectWhile(dsn+"&_pragma=query_only(1)", e.files.inPlace); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	e.reader.SetMaxOpenConns(4)
	e.reader.SetMaxIdleConns(4)
	e.Writer.reader = e.reader
	if err := e.prepareSchema(ctx); err != nil {
		return err
	}
	if err := e.Writer.atStart(ctx, func(tx *engine.Tx) error { return tx.MatchKeyRows(e.Options.Ring) }); err != nil {
		return fmt.Errorf("database: keys: %w", damaged(err))
	}
	if err := e.Writer.atStart(ctx, (*engine.Tx).CheckKeys); err != nil {
		return damaged(err)
	}
	if err := e.bringBackLeft(ctx); err != nil {
		return err
	}
	if err := e.loadClock(ctx); err != nil {
		return err
	}
	if err := e.Writer.log.watch(e); err != nil {
		return err
	}
	if path != "" {
		if err := e.files.holdAll(path); err != nil {
			return err
		}
	}
	return damaged(Load(ctx, conn, e.Memory))
}

// cannotOpen tells a file that is something else, and a damaged one, from one that
// cannot be read.
func cannotOpen(path string, err error) error {
	switch {
	case errors.Is(err, schema.ErrForeign), errors.Is(err, schema.ErrUnfinished):
		return fmt.Errorf("database: %s: %w", path, err)
	case errors.Is(err, sqlite3.NOTADB), errors.Is(err, sqlite3.ERROR): // no such table
		return fmt.Errorf("database: %s: %w: %w", path, schema.ErrForeign, err)
	case errors.Is(err, sqlite3.CORRUPT), errors.Is(err, sqlite3.IOERR_DATA):
		return fmt.Errorf("database: %s: %w: %w", path, engine.ErrDamaged, err)
	}
	return fmt.Errorf("database: cannot open %s: %w", path, err)
}

// SettingsOf adds to the settings of a file, where it is set. Tests have others.
var SettingsOf func(path string, settings url.Values)

// checkpointPages is how long the log of writes gets before what it says goes
// into the database.
const checkpointPages = "2000"

var memoryNames atomic.Int64

// DSN names the database with its settings. Every commit is on the disk
// before it is answered: WAL with synchronous=FULL.
func DSN(path string) string {
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
	if SettingsOf != nil {
		SettingsOf(path, pragmas)
	}
	return FileURL(path, pragmas)
}

func (e *Engine) prepareSchema(ctx context.Context) error {
	var tables int
	if err := e.Writer.Conn.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_master`).Scan(&tables); err != nil {
		return cannotOpen(e.Options.Path, err)
	}
	if tables == 0 {
		if e.Options.Path != "" {
			e.Log.Info("a new, empty database is made", "file", e.Options.Path)
			if err := withSums(ctx, e.Writer.Conn); err != nil {
				return cannotOpen(e.Options.Path, err)
			}
		}
		return e.Writer.atStart(ctx, func(tx *engine.Tx) error {
			if err := e.Writer.begin(); err != nil {
				return err
			}
			return tx.MakeSchema(false)
		})
	}
	has, err := schema.Read(ctx, e.Writer.Conn)
	if err != nil {
		return cannotOpen(e.Options.Path, err)
	}
	return has.Works()
}

// loadClock goes on from the time that the database has seen (decision T12).
func (e *Engine) loadClock(ctx context.Context) error {
	v, err := engine.NewTx(ctx, e.Env, e.Writer.Conn, e.Writer).Meta(engine.MetaTime)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // an empty database has seen nothing
	} else if err != nil {
		return fmt.Errorf("database: time: %w", damaged(err))
	}
	if err := e.Clock.GoOnFrom(v); err != nil {
		return fmt.Errorf("database: time: %w", err)
	}
	return nil
}

// tick saves the time once a minute, so that an idle server that restarts
// with its clock set back revives nothing that it has called expired.
func (e *Engine) tick() {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-t.C:
			e.WarnBehind()
			if err := e.Ready(); err != nil {
				e.Log.Warn("the time cannot be saved", "err", err)
			}
		}
	}
}

// Move makes a move in the batch that is next.
func (e *Engine) Move(id approval.ID, m approval.Move, live bool, act engine.Act) (approval.Approval, approval.Verdict, error) {
	return e.Writer.move(id, m, live, act)
}

// MoveExpected leaves all to Move, which has the approval in memory.
func (e *Engine) MoveExpected(approval.Approval, approval.Move, engine.Act) (none approval.State, _ error) {
	return none, nil
}

// Change makes a change that may share a batch.
func (e *Engine) Change(run func(*engine.Tx) error) error {
	return e.Writer.do(&Operation{run: run, done: make(chan struct{}, 1)})
}

// ChangeFacts makes a change that no other operation may share a batch with.
func (e *Engine) ChangeFacts(run func(*engine.Tx) error) error {
	return e.Writer.do(&Operation{run: run, alone: true, done: make(chan struct{}, 1)})
}

// ChangeMany is ChangeFacts beside which refreshes go on.
func (e *Engine) ChangeMany(run func(*engine.Tx) error) error {
	return e.Writer.do(&Operation{run: run, alone: true, long: true, done: make(chan struct{}, 1)})
}

// Apart is Change, which holds nobody up.
func (e *Engine) Apart(run func(*engine.Tx) error) error { return e.Change(run) }

// Later queues a change that nobody waits for.
func (e *Engine) Later(run func(*engine.Tx) error, lost func()) bool {
	select {
	case e.Writer.Notes <- &Operation{run: run, lost: lost}:
		return true
	default:
		return false
	}
}

// Reader gives connections that can only read.
func (e *Engine) Reader() *sql.DB { return e.reader }

// Ready saves the time, behind what waits.
func (e *Engine) Ready() error { return e.Change((*engine.Tx).SaveTime) }

// Close saves the time at last.
func (e *Engine) Close() error {
	close(e.stop)
	e.Writer.Gate.Close()
	e.stopped.Wait()
	e.Writer.log.stop()
	return e.closeFiles()
}

func (e *Engine) closeFiles() error {
	var errs []error
	if e.reader != nil {
		errs = append(errs, e.reader.Close())
	}
	if e.Writer != nil {
		for _, st := range e.Writer.statements {
			errs = append(errs, st.Close())
		}
		if e.Writer.beside.conn != nil { // the next start brings it back
			errs = append(errs, e.Writer.beside.conn.Close())
		}
		errs = append(errs, e.Writer.Conn.Close(), e.Writer.db.Close())
	}
	return errors.Join(append(errs, e.files.close())...)
}

// Size is that of the file and its log of writes; 0 in memory.
func (e *Engine) Size() (bytes int64) {
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(e.Options.Path + suffix); err == nil && e.Options.Path != "" {
			bytes += info.Size()
		}
	}
	return bytes
}

// Integrity reads through the database until ctx ends, and reports whether it
// came to the end.
func (e *Engine) Integrity(ctx context.Context) (whole bool, err error) {
	var said string
	err = e.reader.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&said)
	switch {
	case ctx.Err() != nil:
		return false, nil
	case err != nil:
		return false, engine.Unavailable("integrity", damaged(err))
	case said != "ok":
		return false, errors.New("the database is damaged: " + said)
	}
	return true, nil
}

// Nodes gives this one, which is alone; so nothing is to be told to others, and none
// can have another key.
func (e *Engine) Nodes(context.Context) ([]engine.Node, error) {
	return []engine.Node{{ID: "embedded", SeenAt: e.Now().Unix(), Key: engine.NewestKey(e.Options.Ring), Self: true}}, nil
}

// LiveNodes is 1.
func (e *Engine) LiveNodes() int { return 1 }

// Sweeps is always so.
func (e *Engine) Sweeps(context.Context) (bool, error) { return true, nil }

// SyncKeys has nothing to do.
func (e *Engine) SyncKeys(context.Context) error { return nil }

// Opens is always nil.
func (e *Engine) Opens() error { return nil }

// Refused is always zero: what the disk refuses is in the log, with what to do.
func (e *Engine) Refused() engine.Refused { return engine.Refused{} }

// WhyNot knows a file that is not where it was, and a write that takes too long.
func (e *Engine) WhyNot(err error) string {
	switch {
	case errors.Is(err, errMoved):
		return MovedFile
	case errors.Is(err, context.DeadlineExceeded):
		return engine.Slow
	}
	return ""
}
