package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
	"github.com/grantkeeper/grantkeeper/token"
)

// ErrEmpty is for a database in which nothing is yet: a server that starts makes
// what is missing.
var ErrEmpty = fmt.Errorf("%w: it is empty", schema.ErrForeign)

// Info is what a database file says of itself.
type Info struct {
	Schema     int
	Oldest     int            // schema whose releases work on it; 0 when it does not say
	Release    string         // that has made the schema; empty when it does not say
	Bytes      int64          // of the file
	Keys       map[int]string // check values of the secret keys, by number (decision T11)
	Retired    []int          // numbers of keys that have retired
	At         time.Time      // the last time that it has seen
	LastBackup time.Time      // zero when there was none
	Clients    int
	Approvals  int // that have not ended
}

// Inspect reads a SQLite file, also one that a server works on. It neither
// locks nor changes it. fs.ErrNotExist, ErrForeign, ErrEmpty, ErrDamaged,
// ErrParted, ErrRestoring and ErrInUse, by another name, are for the caller.
func Inspect(ctx context.Context, path string) (Info, error) {
	path = realPath(path)
	if err := refuseForeign(path); err != nil {
		return Info{}, err
	}
	if err := errors.Join(refuseParted(path), refuseRestoring(path)); err != nil {
		return Info{}, err
	}
	stat, err := os.Stat(path)
	if err != nil {
		return Info{}, fmt.Errorf("database: %w", err)
	}
	if err := checkWAL(path); err != nil {
		return Info{}, err
	}
	db, err := OpenReading(ctx, path)
	if err != nil {
		return Info{}, orElsewhere(path, err)
	}
	defer db.Close()
	info, err := inspect(ctx, db)
	info.Bytes = stat.Size()
	if err != nil {
		return Info{}, orElsewhere(path, cannotOpen(path, err))
	}
	return info, nil
}

// orElsewhere is ErrInUse where the content is the matter of a file that somebody works on by
// another name, a hard link: the log is beside that one, so this looks empty, or harmed while
// a checkpoint is under way.
func orElsewhere(path string, err error) error {
	if !errors.Is(err, ErrEmpty) && !errors.Is(err, engine.ErrDamaged) {
		return err
	}
	if _, none := os.Stat(path + "-wal"); errors.Is(none, fs.ErrNotExist) && inUse(path) {
		return fmt.Errorf("database: %s: %w", path, engine.ErrInUse)
	}
	return err
}

// HasClient says of a file, which it reads as Inspect does, whether a client of this ID is in
// it, and whether there is any client, person or organization.
func HasClient(ctx context.Context, path, id string) (has, filled bool, err error) {
	if err := refuseForeign(path); err != nil {
		return false, false, err
	}
	db, err := OpenReading(ctx, path)
	if err != nil {
		return false, false, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM client WHERE id = $1),
			EXISTS (SELECT 1 FROM client) OR EXISTS (SELECT 1 FROM person) OR EXISTS (SELECT 1 FROM organization)`, id).Scan(&has, &filled)
	return has, filled, err
}

// OpenReading opens a file to read. Without a log of writes nobody works on
// it, and it is read as it stands; otherwise through the log's index, which
// belongs to whoever works on it.
func OpenReading(ctx context.Context, path string) (*sql.DB, error) {
	path = realPath(path)
	mode := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)"}}
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		mode.Set("immutable", "1")
	} else {
		_ = closeIndex(path) // where it is missing, SQLite makes it, or says why not
	}
	db, err := sql.Open("sqlite3", FileURL(path, mode))
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	db.SetMaxOpenConns(1)
	if err := db.PingContext(ctx); err != nil {
		db.Close()
		return nil, cannotOpen(path, err)
	}
	return db, nil
}

func inspect(ctx context.Context, db *sql.DB) (i Info, err error) {
	i.Keys, i.Schema = map[int]string{}, -1
	var tables int
	if err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_master`).Scan(&tables); err != nil {
		return i, err
	} else if tables == 0 {
		return i, ErrEmpty
	}
	rows, err := db.QueryContext(ctx, `SELECT name, value FROM meta`)
	if err := engine.EachRow(rows, err, func(r engine.Scanner) error {
		var name, value string
		if err := r.Scan(&name, &value); err != nil {
			return err
		}
		if err := i.read(name, value); errors.Is(err, schema.ErrUnfinished) {
			return err
		} else if err != nil {
			return fmt.Errorf("%w: %s: %w", schema.ErrForeign, name, err)
		}
		return nil
	}); err != nil {
		return i, err
	}
	if i.Schema < 0 {
		return i, fmt.Errorf("%w: it has no schema", schema.ErrForeign)
	}
	for _, count := range []struct {
		into *int
		text string
		args []any
	}{
		{&i.Clients, `SELECT COUNT(*) FROM client`, nil},
		{&i.Approvals, `SELECT COUNT(*) FROM approval WHERE phase <> $1`, []any{int(approval.Ended)}},
	} {
		if err := db.QueryRowContext(ctx, count.text, count.args...).Scan(count.into); err != nil {
			return i, err
		}
	}
	return i, nil
}

// read takes one row of meta. Those of a later release are its own.
func (i *Info) read(name, value string) (err error) {
	var seconds int64
	kind, number, _ := strings.Cut(name, ".")
	switch {
	case kind+"." == engine.MetaKey || kind+"." == engine.MetaRetired:
		n, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		if kind+"." == engine.MetaRetired {
			i.Retired = append(i.Retired, n)
		} else {
			i.Keys[n] = value
		}
	case name == schema.MetaCopying:
		err = schema.ErrUnfinished
	case name == schema.MetaVersion:
		i.Schema, err = strconv.Atoi(value)
	case name == schema.MetaOldest:
		i.Oldest, err = strconv.Atoi(value)
	case name == schema.MetaRelease:
		i.Release = value
	case name == engine.MetaTime:
		if seconds, err = strconv.ParseInt(value, 10, 64); err == nil {
			i.At = time.Unix(seconds, 0)
		}
	case name == engine.MetaBackup:
		if seconds, err = strconv.ParseInt(value, 10, 64); err == nil {
			i.LastBackup = time.Unix(seconds, 0)
		}
	}
	return err
}

// CheckKeys says whether a ring has all keys that the database has been used
// with, and the same ones: nil, or an error with ErrKeys.
func (i Info) CheckKeys(ring *token.Ring) error {
	have := map[int]string{}
	for _, k := range ring.Keys() {
		have[k.Number] = k.Fingerprint()
	}
	for number, value := range i.Keys {
		switch have[number] {
		case value:
		case "":
			return fmt.Errorf("key %d is missing: %w", number, engine.ErrKeys)
		default:
			return fmt.Errorf("key %d: %w", number, engine.ErrKeys)
		}
	}
	return nil
}

// CheckSchema is nil for a schema that this release works on, and otherwise an
// error with ErrSchema.
func (i Info) CheckSchema() error {
	return schema.State{Version: i.Schema, Oldest: i.Oldest, Release: i.Release}.Works()
}
