package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// ErrBusy refuses a second one of what there can be only one at a time.
var ErrBusy = errors.New("one is under way already")

const (
	// backupStep is how many pages, a MiB of them, are copied between two looks at the
	// context; then the disk and the processors are others' for as long as that took.
	backupStep = 256
	// backupPause bounds how long.
	backupPause = 20 * time.Millisecond
	// backupSync is after how many steps the copy goes to the disk: all at its end would
	// be in the way of every commit.
	backupSync = 16
)

// Backup copies one snapshot.
func (e *Engine) Backup(ctx context.Context, path string) (at time.Time, err error) {
	if !e.Copying.TryLock() {
		return at, fmt.Errorf("backup: %w", ErrBusy)
	}
	defer e.Copying.Unlock()
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

// leftBackup is how the names of BackupFile go on, behind the database's, and what SQLite puts
// beside them: no other is removed.
var leftBackup = regexp.MustCompile(`^\.backup-[0-9]+-[0-9]{19}(-journal|-wal|-shm)?$`)

// BackupFile is beside the database.
func (e *Engine) BackupFile() string {
	dir, base := os.TempDir(), "grantkeeper.db"
	if e.Options.Path != "" {
		dir, base = filepath.Split(e.Options.Path)
		if left, err := filepath.Glob(e.Options.Path + ".backup-*"); err == nil && e.Copying.TryLock() {
			for _, name := range left {
				if leftBackup.MatchString(strings.TrimPrefix(name, e.Options.Path)) {
					os.Remove(name)
				}
			}
			e.Copying.Unlock()
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
	err = raw(conn, func(c *sqlite3.Conn) error { return copyPages(ctx, c, path) })
	if err != nil {
		return err
	}
	return asOneFile(ctx, path, at)
}

func copyPages(ctx context.Context, from *sqlite3.Conn, path string) error {
	to := FileURL(path, url.Values{"mode": {"rw"}, "_pragma": {"synchronous(off)"}})
	if sums, err := from.FileControl("main", sqlite3.FCNTL_RESERVE_BYTES); err != nil {
		return err
	} else if sums == 8 { // pages are copied as they are read, and their sums made when they are written
		if err := emptyWithSums(to); err != nil {
			return err
		}
	}
	b, err := from.BackupInit("main", to)
	if err != nil {
		return err
	}
	for n, done := 1, false; !done && err == nil; n++ {
		if err = ctx.Err(); err != nil {
			break
		}
		begun := time.Now()
		if done, err = b.Step(backupStep); err == nil && n%backupSync == 0 {
			err = syncFile(path)
		}
		if !done {
			time.Sleep(min(time.Since(begun), backupPause))
		}
	}
	return errors.Join(err, b.Close())
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func emptyWithSums(url string) error {
	c, err := sqlite3.Open(url)
	if err != nil {
		return err
	}
	return errors.Join(c.EnableChecksums("main"), c.Close())
}

// asOneFile makes the copy one that needs no log beside it, and has seen a time
// unless it is zero.
func asOneFile(ctx context.Context, path string, at time.Time) error {
	if err := closeIndex(path); err != nil {
		return err
	}
	defer os.Remove(path + "-shm") // of a database in memory there is no log
	// An empty file that is made, where the copy was moved away, would be told as one.
	db, err := sql.Open("sqlite3", FileURL(path, url.Values{"mode": {"rw"}, "_pragma": {"journal_mode(delete)", "synchronous(full)"}}))
	if err != nil {
		return err
	}
	defer db.Close()
	if at.IsZero() {
		return db.PingContext(ctx)
	}
	_, err = db.ExecContext(ctx, engine.PutMeta, engine.MetaTime, strconv.FormatInt(at.Unix(), 10))
	return err
}
