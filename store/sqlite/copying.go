package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"github.com/grantkeeper/grantkeeper/durable"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
	"github.com/grantkeeper/grantkeeper/token"
)

// copySide is a file of a copy.
type copySide struct {
	path string
	lock fileLock
	db   *sql.DB
	conn *sql.Conn
	done func() // with what is known of its log
}

// CopyFrom opens a file to be copied: ErrInUse while a server works on it.
func CopyFrom(ctx context.Context, path string, ring *token.Ring) (engine.CopySide, error) {
	path = realPath(path)
	info, err := Inspect(ctx, path) // before anything is made where there is nothing
	if err != nil {
		return nil, err
	}
	if err := engine.SameSchema(schema.State{Version: info.Schema, Oldest: info.Oldest, Release: info.Release}); err != nil {
		return nil, err
	}
	if err := info.CheckKeys(ring); err != nil {
		return nil, err
	}
	s := &copySide{path: path}
	if err = s.lockAndRecover(ctx); err == nil {
		s.db, err = OpenReading(ctx, path)
	}
	if err == nil {
		err = s.beginCopy(ctx, `BEGIN`)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// lockAndRecover does to a file that nobody works on what a server would at its start: it takes the lock
// and the log of writes, and brings back refreshes that another one left beside it.
func (s *copySide) lockAndRecover(ctx context.Context) (err error) {
	if s.lock, err = lockFor(s.path); err != nil {
		return err
	}
	if s.done, err = recoverWAL(s.path); err != nil {
		return err
	}
	return settleFile(ctx, s.path)
}

// settleFile brings back refreshes that were left beside a file.
func settleFile(ctx context.Context, path string) error {
	moved, spent, err := leftBeside(path)
	if err != nil || moved == nil {
		return err
	}
	db, err := Connect(DSN(path) + "&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := bringBack(fileTx{ctx, tx}.exec, moved, spent); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return (&beside{}).remove(path)
}

// fileTx is a transaction of a file that nobody works on.
type fileTx struct {
	ctx context.Context
	*sql.Tx
}

func (tx fileTx) exec(text string, args ...any) error {
	_, err := tx.ExecContext(tx.ctx, text, args...)
	return err
}

// OpenAlone opens a file whose keys nobody asks for, for one transaction: ErrInUse while a
// server works on it.
func OpenAlone(ctx context.Context, path string) (engine.CopySide, error) {
	path = realPath(path)
	info, err := Inspect(ctx, path)
	if err == nil {
		err = info.CheckSchema()
	}
	if err != nil {
		return nil, err
	}
	s := &copySide{path: path}
	if err = s.lockAndRecover(ctx); err == nil {
		err = closeIndex(path)
	}
	if err == nil {
		s.db, err = Connect(DSN(path))
	}
	if err == nil {
		err = s.beginCopy(ctx, `BEGIN IMMEDIATE`)
	}
	if err != nil {
		return nil, errors.Join(s.Explain(err), s.Close())
	}
	return s, nil
}

// CopyTo makes the file of a copy. ErrNotEmpty refuses to touch another one; one that was
// begun and not finished is made anew.
func CopyTo(ctx context.Context, path, release string) (engine.CopySide, error) {
	path = realPath(path)
	s := &copySide{path: path}
	var err error
	if s.lock, err = lockFor(path); err != nil {
		return nil, err
	}
	if err = s.clear(ctx); err == nil {
		err = s.makeMarked(ctx, release)
	}
	if err != nil {
		return nil, errors.Join(s.Explain(err), s.Close())
	}
	return s, nil
}

// clear leaves no file where the copy will be.
func (s *copySide) clear(ctx context.Context) error {
	if err := refuseParted(s.path); err != nil {
		return err
	}
	if info, err := os.Stat(s.path); err == nil && (info.Size() > 0 || !info.Mode().IsRegular()) {
		if err := s.unfinished(ctx); !errors.Is(err, schema.ErrUnfinished) {
			return err
		}
	}
	// Refreshes of a database that was here are none of the copy's.
	for _, suffix := range besideSuffixes {
		if info, err := os.Lstat(s.path + suffix); err == nil && info.Size() > 0 {
			return fmt.Errorf("database: %s: %w", s.path+suffix, engine.ErrNotEmpty)
		}
	}
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		if err := os.Remove(s.path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("database: %w", err)
		}
	}
	return nil
}

// unfinished is ErrUnfinished, or why the file is not to be touched. It is opened to write:
// only then is undone what a copy wrote that was killed.
func (s *copySide) unfinished(ctx context.Context) error {
	if refuseForeign(s.path) != nil {
		return fmt.Errorf("database: %s: %w", s.path, engine.ErrNotEmpty)
	}
	done, err := recoverWAL(s.path) // a server's file may be named by mistake
	if err != nil {
		return err
	}
	defer done()
	db, err := Connect(FileURL(s.path, url.Values{"mode": {"rw"}}))
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer db.Close()
	var tables int // none where what was killed had not yet made them
	if err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_master`).Scan(&tables); err == nil && tables == 0 {
		return schema.ErrUnfinished
	}
	if _, err := schema.Read(ctx, db); errors.Is(err, schema.ErrUnfinished) {
		return err
	}
	return fmt.Errorf("database: %s: %w", s.path, engine.ErrNotEmpty)
}

// makeMarked makes the tables, marked, and begins what fills them.
func (s *copySide) makeMarked(ctx context.Context, release string) error {
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if err := errors.Join(f.Close(), durable.SyncFolder(filepath.Dir(s.path))); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	s.db, err = Connect(FileURL(s.path, url.Values{"_pragma": {"journal_mode(delete)", "synchronous(full)", "temp_store(2)", "cache_size(-32000)"}}))
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if err := s.beginCopy(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	exec := func(text string, args ...any) error {
		_, err := s.conn.ExecContext(ctx, text, args...)
		return err
	}
	if err := schema.Make(false, release, func(text string) error { return exec(text) }, func(string, string) error { return nil }); err != nil {
		return err
	}
	if err := engine.MarkCopy(exec); err != nil {
		return err
	}
	if err := exec(`COMMIT`); err != nil {
		return err
	}
	return exec(`BEGIN IMMEDIATE`)
}

func (s *copySide) beginCopy(ctx context.Context, text string) (err error) {
	s.db.SetMaxOpenConns(1)
	if s.conn, err = s.db.Conn(ctx); err == nil {
		_, err = s.conn.ExecContext(ctx, text)
	}
	if err != nil {
		return cannotOpen(s.path, err)
	}
	return nil
}

func (s *copySide) Conn() *sql.Conn { return s.conn }

func (s *copySide) Columns(ctx context.Context, table string) ([]schema.Column, error) {
	return engine.ColumnsOf(s.conn.QueryContext(ctx, `SELECT name, type FROM pragma_table_info($1) ORDER BY name`, table))
}

func (s *copySide) InsertRows(ctx context.Context, t schema.Table, next func() ([]any, error)) error {
	insert, err := s.conn.PrepareContext(ctx, t.Inserting())
	if err != nil {
		return err
	}
	defer insert.Close()
	for {
		row, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			_, err = insert.ExecContext(ctx, row...)
		}
		if err != nil {
			return err
		}
	}
}

// Text is any.
func (s *copySide) Text(text string) string { return text }

// Seen is in meta.
func (s *copySide) Seen(context.Context) (int64, error) { return 0, nil }

func (s *copySide) Finish(ctx context.Context) error {
	_, err := s.conn.ExecContext(ctx, `COMMIT`)
	return err
}

// Explain tells a full disk from others.
func (s *copySide) Explain(err error) error {
	if causeOfFile(err, s.path) == engine.FullDisk || errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("database: %s: %w", s.path, syscall.ENOSPC)
	}
	if errors.Is(err, sqlite3.INTERRUPT) {
		return context.Canceled
	}
	return err
}

func (s *copySide) Close() (err error) {
	if s.conn != nil {
		_, _ = s.conn.ExecContext(context.Background(), `ROLLBACK`) // nothing is open after a commit
		err = s.conn.Close()
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	if s.done != nil {
		s.done()
	}
	return errors.Join(err, s.lock.Close())
}
