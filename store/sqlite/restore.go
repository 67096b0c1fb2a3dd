package sqlite

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/durable"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
	"github.com/grantkeeper/grantkeeper/token"
)

// Unpack copies a backup into a new file, which is its owner's alone, and
// unpacks it when it is compressed by gzip. ErrLogBeside refuses the file of a database
// whose last writes are in other files: a backup has everything in one. What is no regular
// file is refused: a FIFO keeps whoever opens it waiting, and cannot be read twice.
func Unpack(from, to string) error {
	if err := refuseBeside(from); err != nil {
		return err
	}
	if info, err := os.Stat(from); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("backup: %s: %w: it is not a regular file", from, schema.ErrForeign)
	}
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := unpack(in, out); err != nil {
		os.Remove(to)
		return fmt.Errorf("backup: %s: %w", from, err)
	}
	return nil
}

// refuseBeside refuses a file that has a log of SQLite or refreshes beside it, by its own
// name or by the one that it leads to.
func refuseBeside(from string) error {
	for _, path := range []string{from, realPath(from)} {
		for _, suffix := range slices.Concat([]string{"-wal", "-journal"}, besideSuffixes) {
			info, err := os.Lstat(path + suffix)
			if err == nil && info.Size() > 0 {
				return fmt.Errorf("backup: %s: %w: %s", from, engine.ErrLogBeside, path+suffix)
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("backup: %w", err)
			}
		}
	}
	return nil
}

func unpack(in io.ReadSeeker, out *os.File) error {
	magic := make([]byte, 2)
	if _, err := io.ReadFull(in, magic); err != nil {
		out.Close()
		return fmt.Errorf("%w: it is empty", schema.ErrForeign)
	}
	_, err := in.Seek(0, io.SeekStart)
	var from io.Reader = in
	if err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if from, err = gzip.NewReader(in); err != nil {
			err = fmt.Errorf("%w: %w", schema.ErrForeign, err)
		}
	}
	if err == nil {
		if _, err = io.Copy(out, from); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) {
			err = fmt.Errorf("%w: it is cut off, or damaged: %w", schema.ErrForeign, err)
		}
	}
	return errors.Join(err, out.Sync(), out.Close())
}

// Verify reads an unpacked backup to its last page: an error says that it
// cannot be restored. It is read as it stands, and not changed.
func Verify(ctx context.Context, path string) (Info, error) {
	info, err := Inspect(ctx, path)
	if err != nil {
		return Info{}, err
	}
	db, err := OpenReading(ctx, path)
	if err != nil {
		return Info{}, err
	}
	defer db.Close()
	var said string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&said); err != nil {
		return Info{}, fmt.Errorf("database: %s: %w: %w", path, schema.ErrForeign, err)
	}
	if said != "ok" {
		return Info{}, fmt.Errorf("database: %s: %w: it is damaged: %s", path, schema.ErrForeign, said)
	}
	return info, nil
}

// RestoreOptions say what is restored, and how.
type RestoreOptions struct {
	From string      // a backup, compressed or not
	To   string      // the database, which must not be there
	Ring *token.Ring // must have the backup's keys

	// KeepApprovals lets everything live on, API keys and open links too. A
	// backup is a past state: what was revoked since then would live again. So
	// this is for a move alone, when nothing has happened since the backup.
	KeepApprovals bool
	Now           time.Time
	Act           engine.Act
}

// Restored says what a restore has done.
type Restored struct {
	Info
	Ended   int // approvals
	APIKeys int // that ended
}

// Restore puts a backup where the database is expected. It is there whole or
// not at all. ErrInUse and ErrNotEmpty refuse to touch another one; ErrForeign
// refuses a file that is damaged or no backup, ErrLogBeside one of a database that was copied, ErrSchema one of a later
// release, ErrKeys one of other keys.
func Restore(ctx context.Context, o RestoreOptions) (Restored, error) {
	o.To = realPath(o.To)
	lock, err := lockFor(o.To)
	if err != nil {
		return Restored{}, err
	}
	defer lock.Close()
	for _, suffix := range slices.Concat([]string{"", "-wal", "-journal"}, besideSuffixes) {
		if info, err := os.Lstat(o.To + suffix); err == nil && (info.Size() > 0 || !info.Mode().IsRegular()) {
			return Restored{}, fmt.Errorf("database: %s: %w", o.To+suffix, engine.ErrNotEmpty)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Restored{}, fmt.Errorf("database: %w", err)
		}
	}
	part := o.To + restoring
	_, killed := os.Lstat(part)                              // nil: one was, and no server makes an empty database there
	for _, left := range []string{part, part + "-journal"} { // by one that was killed: SQLite would put what the journal says into this one
		if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Restored{}, fmt.Errorf("database: %w", err)
		}
	}
	out, err := o.prepare(ctx, part)
	if err == nil {
		os.Remove(o.To + "-shm") // of a database that is gone
		if err = os.Rename(part, o.To); err == nil {
			err = durable.SyncFolder(filepath.Dir(o.To))
		}
	}
	if err != nil {
		os.Remove(part)
		os.Remove(part + "-journal")
		if killed == nil { // and does not, as long as none was finished
			_ = os.WriteFile(part, nil, 0o600)
		}
		return Restored{}, err
	}
	return out, nil
}

// fileLock is what a server holds on its database: a file beside it, and the database itself,
// which may have other names.
type fileLock struct{ beside, file *os.File }

// lockFor takes the lock that a server holds, of the database itself where there is one.
func lockFor(path string) (l fileLock, err error) {
	if l.beside, err = os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return fileLock{}, fmt.Errorf("database: %w", err)
	}
	_, _ = narrow(l.beside) // others could take it before
	if err = lock(l.beside, path); err == nil {
		err = l.lockDatabase(path)
	}
	if err != nil {
		return fileLock{}, errors.Join(err, l.Close())
	}
	return l, nil
}

// lockDatabase locks the database, but not where SQLite would wait for that lock, as on BSD.
func (l *fileLock) lockDatabase(path string) (err error) {
	if l.file != nil || runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		return nil
	}
	l.file, err = os.OpenFile(path, os.O_RDWR, 0) // a file system of a network wants that for the lock
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		l.file, err = os.Open(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("database: cannot open %s: %w", path, err)
	}
	if err = lock(l.file, path); errors.Is(err, syscall.EBADF) { // read-only on such a file system
		return nil
	}
	return err
}

// inUse reports whether somebody has the lock, or may have it.
func inUse(path string) bool {
	for _, path := range []string{path + ".lock", path} {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return true
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		f.Close()
		if err != nil {
			return true
		}
	}
	return false
}

func (l fileLock) Close() error {
	var errs []error
	for _, f := range []*os.File{l.file, l.beside} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// lock asks for a quarter of a second: a program that a process is about to start has that
// process's files open for a moment, and with them the lock that was just let go.
func lock(f *os.File, path string) error {
	for range 10 {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		} else if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("database: %s: its lock: %w", path, err)
		}
		time.Sleep(25 * time.Millisecond)
	}
	return fmt.Errorf("database: %s: %w", path, engine.ErrInUse)
}

// prepare makes of the backup, in a file beside the place, what the server
// will open.
func (o RestoreOptions) prepare(ctx context.Context, part string) (Restored, error) {
	if err := Unpack(o.From, part); err != nil {
		return Restored{}, err
	}
	info, err := Verify(ctx, part)
	if err != nil {
		return Restored{}, fmt.Errorf("backup: %s: %w", o.From, err)
	}
	if err := info.CheckSchema(); err != nil && info.Schema > schema.Version {
		return Restored{}, err
	}
	if err := o.checkKeys(info); err != nil {
		return Restored{}, err
	}
	db, err := sql.Open("sqlite3", FileURL(part, url.Values{"_txlock": {"immediate"}, "_pragma": {"journal_mode(delete)", "synchronous(full)", "temp_store(2)"}}))
	if err != nil {
		return Restored{}, fmt.Errorf("database: %w", err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return Restored{}, fmt.Errorf("database: %w", err)
	}
	defer tx.Rollback()
	out := Restored{Info: info}
	if out.Ended, out.APIKeys, err = o.endRestored(ctx, tx, info); err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return Restored{}, fmt.Errorf("database: %w", err)
	}
	return out, db.Close()
}

// checkKeys wants the backup's keys. Where all approvals end, what a key that
// is gone has sealed does not matter, as long as another one shows that the
// backup is of this installation.
func (o RestoreOptions) checkKeys(info Info) error {
	err := info.CheckKeys(o.Ring)
	if err == nil || o.KeepApprovals {
		return err
	}
	same := 0
	for _, k := range o.Ring.Keys() {
		switch info.Keys[k.Number] {
		case k.Fingerprint():
			same++
		case "":
		default:
			return err
		}
	}
	if same == 0 {
		return err
	}
	return nil
}

// retireMissing notes of keys that are gone that they have retired.
func (o RestoreOptions) retireMissing(ctx context.Context, tx *sql.Tx, info Info) error {
	for number := range info.Keys {
		if slices.ContainsFunc(o.Ring.Keys(), func(k *token.Key) bool { return k.Number == number }) {
			continue
		}
		n := strconv.Itoa(number)
		if _, err := tx.ExecContext(ctx, `UPDATE meta SET name = $1 WHERE name = $2`, engine.MetaRetired+n, engine.MetaKey+n); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM meta WHERE name = $1 AND value = $2`, engine.MetaSealing, n); err != nil {
			return err
		}
	}
	return nil
}

// endRestored ends what must not live again, and journals the restore.
func (o RestoreOptions) endRestored(ctx context.Context, tx *sql.Tx, info Info) (ended, keys int, err error) {
	now := o.Now
	if now.Before(info.At) { // decision T12
		now = info.At
	}
	exec := func(text string, args ...any) (int64, error) { return execOn(ctx, tx, text, args...) }
	if !o.KeepApprovals {
		n, err := exec(`UPDATE approval SET phase = $1, reason = $2, ended_at = $3 WHERE phase <> $1`,
			int(approval.Ended), string(approval.Restored), now.Unix())
		if err != nil {
			return 0, 0, err
		}
		ended = int(n)
		if err := engine.NoteRestored(exec, now); err != nil {
			return 0, 0, err
		}
		if keys, err = engine.ReviveNothing(exec); err != nil {
			return 0, 0, err
		}
	}
	if err := o.retireMissing(ctx, tx, info); err != nil {
		return 0, 0, err
	}
	e := engine.RestoredEvent("backup of "+info.At.UTC().Format(time.RFC3339)+", ", ended, keys).By(o.Act)
	var ids engine.EventIDs
	e.ID, e.At = ids.Next(now), now.Unix()
	_, err = exec(engine.InsertEvent, e.Values()...)
	return ended, keys, err
}

// execOn runs a statement in a transaction, and gives how many rows it changed.
func execOn(ctx context.Context, tx *sql.Tx, text string, args ...any) (int64, error) {
	r, err := tx.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
