package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/token"
)

//go:embed schema/0*.sql
var schemaFiles embed.FS

// A Migration is one number: it takes the schema before to its version. They
// go forward only, and each keeps the release before able to run.
type Migration struct {
	Version  int
	SQL      string // for both engines
	Postgres string // what PostgreSQL has beside it, after it
	Oldest   int    // releases of this schema and newer work beside it; 0 is none but its own
}

// oldest is what the first line of a migration says.
var oldest = regexp.MustCompile(`^-- Releases of schema (\d+) and newer work beside it\.\n`)

// Migrations are those of this release, from 1 on.
func Migrations() []Migration {
	names, err := fs.Glob(schemaFiles, "schema/*.sql")
	if err != nil {
		panic(err) // the pattern is right
	}
	var all []Migration
	for _, name := range names { // 0001.postgres.sql comes before 0001.sql
		text, err := schemaFiles.ReadFile(name)
		if err != nil {
			panic(err) // it is in the binary
		}
		number, kind, _ := strings.Cut(path.Base(name), ".")
		version, err := strconv.Atoi(number)
		if err != nil || version < len(all) || version > len(all)+1 {
			panic("store: " + name + " is not the next number")
		}
		if version > len(all) {
			all = append(all, Migration{Version: version})
		}
		m := &all[version-1]
		if kind == "postgres.sql" {
			m.Postgres = string(text)
			continue
		}
		m.SQL, m.Oldest = string(text), version
		if says := oldest.FindStringSubmatch(m.SQL); says != nil {
			m.Oldest, _ = strconv.Atoi(says[1])
		}
	}
	return all
}

// What meta says of the schema: its version, the oldest schema whose releases
// work on it, and which release has made it so.
const (
	metaSchema  = "schema"
	metaOldest  = "schema_oldest"
	metaRelease = "schema_release"
)

// text is what an engine runs.
func (m Migration) text(postgres bool) string {
	if postgres {
		return m.SQL + m.Postgres
	}
	return m.SQL
}

// saying gives the rows of meta that a migration leaves.
func (m Migration) saying(release string) map[string]string {
	return map[string]string{metaSchema: strconv.Itoa(m.Version), metaOldest: strconv.Itoa(max(m.Oldest, 1)), metaRelease: release}
}

// SchemaError says which schema a database has and which one this release
// knows. It is ErrSchema.
type SchemaError struct {
	Has, Knows int
	Oldest     int    // schema whose releases work on it too; 0 when it does not say
	Release    string // that has made it so, where it is known
}

func (e *SchemaError) Error() string {
	switch {
	case e.Older():
		return fmt.Sprintf("database: schema %d, this release has %d: %v", e.Has, e.Knows, ErrSchema)
	case e.Oldest > e.Knows:
		return fmt.Sprintf("database: schema %d takes releases of schema %d and newer, this one has %d: %v", e.Has, e.Oldest, e.Knows, ErrSchema)
	}
	return fmt.Sprintf("database: schema %d is of a later release, this one has %d: %v", e.Has, e.Knows, ErrSchema)
}

// Is lets callers ask for ErrSchema.
func (e *SchemaError) Is(target error) bool { return target == ErrSchema }

// Older reports whether a migration mends it.
func (e *SchemaError) Older() bool { return e.Has < e.Knows }

// Schema is what a database says of its own.
type Schema struct {
	Version int
	Oldest  int    // whose releases work on it; 0 when it does not say
	Release string // that has made it so; empty when it does not say
}

// readSchema reads it from a database or one of its connections. ErrForeign is
// for a table meta of something else.
func readSchema(ctx context.Context, db interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}) (s Schema, err error) {
	rows, err := db.QueryContext(ctx, `SELECT name, value FROM meta WHERE name IN ($1, $2, $3)`, metaSchema, metaOldest, metaRelease)
	err = eachRow(rows, err, func(r scanner) error {
		var name, value string
		if err := r.Scan(&name, &value); err != nil {
			return err
		}
		into := &s.Version
		switch name {
		case metaRelease:
			s.Release = value
			return nil
		case metaOldest:
			into = &s.Oldest
		}
		if *into, err = strconv.Atoi(value); err != nil {
			return fmt.Errorf("%w: its %s is %q", ErrForeign, name, value)
		}
		return nil
	})
	if err == nil && s.Version == 0 {
		err = fmt.Errorf("%w: it has no schema", ErrForeign)
	}
	return s, err
}

// works is nil where this release works on a schema: its own, or a newer one
// that says so.
func (s Schema) works() error {
	if s.Version == SchemaVersion || s.Version > SchemaVersion && s.Oldest > 0 && s.Oldest <= SchemaVersion {
		return nil
	}
	return &SchemaError{s.Version, SchemaVersion, s.Oldest, s.Release}
}

// Pending are the migrations that a schema lacks, up to a version; 0 is all.
func Pending(all []Migration, has, to int) (pending []Migration) {
	for _, m := range all {
		if m.Version > has && (to == 0 || m.Version <= to) {
			pending = append(pending, m)
		}
	}
	return pending
}

// MigrateOptions say what Migrate does.
type MigrateOptions struct {
	Path       string
	URL        string      // of a PostgreSQL database; then Path is not asked
	Ring       *token.Ring // its keys must be those of the database; nil does not ask
	Release    string      // which one migrates
	Migrations []Migration // all that there are; nil is Migrations()
	To         int         // a version; 0 is the newest
	Backup     string      // a new file for a copy of before; "" makes none. Not on PostgreSQL

	Rekeyed func(Rekeyed) // told of each after the commit; may be nil
}

// Migrate takes a schema forward, each migration in a transaction of its own.
// It gives the versions that it came from and to, even when a migration fails.
// Of a SQLite file no server may work on it meanwhile: ErrInUse. On PostgreSQL
// nodes may, as far as their release works beside the migration: ErrNodes.
func Migrate(ctx context.Context, o MigrateOptions) (from, to int, err error) {
	if o.Migrations == nil {
		o.Migrations = Migrations()
	}
	if o.URL != "" {
		return migrateURL(ctx, o)
	}
	info, err := Inspect(ctx, o.Path) // before anything is made where there is nothing
	if err != nil {
		return 0, 0, err
	}
	if o.Ring != nil {
		if err := info.CheckKeys(o.Ring); err != nil {
			return info.Schema, info.Schema, err
		}
	}
	lock, err := lockFor(o.Path)
	if err != nil {
		return 0, 0, err
	}
	defer lock.Close()
	from = info.Schema
	if from > o.newest() {
		return from, from, info.CheckSchema()
	}
	if err := closeIndex(o.Path); err != nil {
		return from, from, err
	}
	db, err := sql.Open("sqlite3", dsn(o.Path)+"&_txlock=immediate")
	if err != nil {
		return from, from, fmt.Errorf("database: %w", err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if o.Backup != "" {
		if err := copyDatabase(ctx, db, o.Backup, nil); err != nil {
			return from, from, fmt.Errorf("backup: %w", err)
		}
	}
	return o.run(from, func(m Migration) error { return migrateOnce(ctx, db, m, o) })
}

func (o MigrateOptions) newest() int { return o.Migrations[len(o.Migrations)-1].Version }

// run runs what is pending, one after another.
func (o MigrateOptions) run(from int, one func(Migration) error) (_, to int, err error) {
	to = from
	for _, m := range Pending(o.Migrations, from, o.To) {
		if err := one(m); err != nil {
			return from, to, &migrationError{m.Version, err}
		}
		to = m.Version
	}
	return from, to, nil
}

// migrationError is what went wrong in one migration.
type migrationError struct {
	version int
	err     error
}

func (e *migrationError) Error() string {
	return fmt.Sprintf("database: migration %d: %v", e.version, e.err)
}

func (e *migrationError) Unwrap() error { return e.err }

// migrateAtStart migrates a SQLite file that needs it (Options.Migrate).
// Whatever else is wrong with it, opening it says.
func migrateAtStart(ctx context.Context, e *env) error {
	info, err := Inspect(ctx, e.options.Path)
	if err != nil || info.Schema >= SchemaVersion {
		return nil
	}
	from, to, err := Migrate(ctx, MigrateOptions{Path: e.options.Path, Ring: e.options.Ring, Release: e.options.Release, Rekeyed: e.logRekeyed})
	if err != nil {
		return err
	}
	e.log.Info("the schema was migrated", "from", from, "to", to)
	return nil
}

var errNotBefore = errors.New("the schema before it is another one")

func migrateOnce(ctx context.Context, db *sql.DB, m Migration, o MigrateOptions) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var before string
	if err := tx.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = $1`, metaSchema).Scan(&before); err != nil {
		return err
	}
	if before != strconv.Itoa(m.Version-1) {
		return errNotBefore
	}
	rekeyed, err := m.rekeyed(ctx, tx)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, m.SQL); err != nil {
		return err
	}
	for name, value := range m.saying(o.Release) {
		if _, err := tx.ExecContext(ctx, putMeta, name, value); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	o.tell(rekeyed)
	return nil
}

// makeSchema runs all migrations in an empty database.
func (tx *txn) makeSchema(postgres bool) error {
	for _, m := range Migrations() {
		if _, err := tx.conn.ExecContext(tx.ctx, m.text(postgres)); err != nil {
			return fmt.Errorf("database: schema %d: %w", m.Version, err)
		}
		for name, value := range m.saying(tx.env.options.Release) {
			if err := tx.putMeta(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}
