package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/grantkeeper/grantkeeper/journal"
)

// ErrBusy refuses a second one of what there can be only one at a time.
var ErrBusy = errors.New("one is under way already")

// metaTime is the row of meta with the highest time that the database has seen,
// Unix seconds (decision T12).
const metaTime = "time"

// metaBackup is the row of meta with the time of the last backup, Unix seconds.
const metaBackup = "backup"

// backupStep is how many pages are copied between two looks at the context.
const backupStep = 2048

// Backup copies the database as it stands at one moment into a new file, while
// everything goes on: it reads one snapshot, and writers never wait for it.
// The file is its owner's alone, and the last time that it has seen is when it
// was taken. ErrBusy refuses a second one meanwhile.
func (s *Store) Backup(ctx context.Context, path string) (at time.Time, err error) {
	return s.engine.Backup(ctx, path)
}

// Backup copies one snapshot.
func (e *embeddedEngine) Backup(ctx context.Context, path string) (at time.Time, err error) {
	if !e.copying.TryLock() {
		return at, fmt.Errorf("backup: %w", ErrBusy)
	}
	defer e.copying.Unlock()
	taken := func() time.Time { at = e.Now(); return at }
	if err := copyDatabase(ctx, e.reader, path, taken); err != nil {
		return at, fmt.Errorf("backup: %w", err)
	}
	return at, nil
}

// copyDatabase writes a new file, or none. taken, unless nil, is asked for the
// time of the copy once it is sure what will be in it.
func copyDatabase(ctx context.Context, db *sql.DB, path string, taken func() time.Time) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	if err := copyInto(ctx, db, path, taken); err != nil {
		os.Remove(path)
		os.Remove(path + "-journal")
		return err
	}
	return nil
}

// BackupFile names a new file beside the database, for Backup, and removes
// what an earlier process may have left there. In memory it is in the
// machine's folder for such files.
func (s *Store) BackupFile() string { return s.engine.BackupFile() }

// BackupFile is beside the database.
func (e *embeddedEngine) BackupFile() string {
	dir, base := os.TempDir(), "grantkeeper.db"
	if e.options.Path != "" {
		dir, base = filepath.Split(e.options.Path)
		if left, err := filepath.Glob(e.options.Path + ".backup-*"); err == nil && e.copying.TryLock() {
			for _, name := range left {
				os.Remove(name)
			}
			e.copying.Unlock()
		}
	}
	return filepath.Join(dir, fmt.Sprintf("%s.backup-%d-%d", base, os.Getpid(), time.Now().UnixNano()))
}

func copyInto(ctx context.Context, db *sql.DB, path string, taken func() time.Time) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// An open snapshot is what the copy is made of, however long it takes.
	if _, err := conn.ExecContext(ctx, `BEGIN`); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
	var tables int
	if err := conn.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_master`).Scan(&tables); err != nil {
		return err
	}
	var at time.Time
	if taken != nil {
		at = taken()
	}
	err = conn.Raw(func(c any) error {
		raw, ok := c.(driver.Conn)
		if !ok {
			return errors.New("the driver is not the one that was built for")
		}
		return copyPages(ctx, raw.Raw(), path)
	})
	if err != nil {
		return err
	}
	return asOneFile(ctx, path, at)
}

func copyPages(ctx context.Context, from *sqlite3.Conn, path string) error {
	b, err := from.BackupInit("main", fileURL(path, url.Values{"_pragma": {"synchronous(off)"}}))
	if err != nil {
		return err
	}
	for done := false; !done && err == nil; {
		if err = ctx.Err(); err == nil {
			done, err = b.Step(backupStep)
		}
	}
	return errors.Join(err, b.Close())
}

// asOneFile makes the copy one that needs no log beside it, and has seen a time
// unless it is zero.
func asOneFile(ctx context.Context, path string, at time.Time) error {
	if err := closeIndex(path); err != nil {
		return err
	}
	defer os.Remove(path + "-shm") // of a database in memory there is no log
	db, err := sql.Open("sqlite3", fileURL(path, url.Values{"_pragma": {"journal_mode(delete)", "synchronous(full)"}}))
	if err != nil {
		return err
	}
	defer db.Close()
	if at.IsZero() {
		return db.PingContext(ctx)
	}
	_, err = db.ExecContext(ctx, putMeta, metaTime, strconv.FormatInt(at.Unix(), 10))
	return err
}

// RecordBackup notes that a backup of a time has been kept, and journals it.
func (s *Store) RecordBackup(_ context.Context, at time.Time, act Act) error {
	return s.change(func(tx *Tx) error {
		if err := tx.putMeta(metaBackup, strconv.FormatInt(at.Unix(), 10)); err != nil {
			return err
		}
		return tx.journal(Event{Kind: journal.OperatorChanged, Detail: "backup of " + at.UTC().Format(time.RFC3339)}.by(act))
	})
}

// LastBackup is the time of the last backup that was kept; zero when there was
// none.
func (s *Store) LastBackup(ctx context.Context) (time.Time, error) {
	return s.metaTime(ctx, metaBackup)
}
