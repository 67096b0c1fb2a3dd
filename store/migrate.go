package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

//go:embed schema/0*.sql
var schemaFiles embed.FS

// A Migration is one numbered file: it takes the schema before to its version.
// They go forward only, and each keeps the release before able to run.
type Migration struct {
	Version int
	SQL     string
}

// Migrations are those of this release, from 1 on.
func Migrations() []Migration {
	names, err := fs.Glob(schemaFiles, "schema/*.sql")
	if err != nil {
		panic(err) // the pattern is right
	}
	var all []Migration
	for i, name := range names {
		text, err := schemaFiles.ReadFile(name)
		if err != nil {
			panic(err) // it is in the binary
		}
		version, err := strconv.Atoi(strings.TrimSuffix(path.Base(name), ".sql"))
		if err != nil || version != i+1 {
			panic("store: " + name + " is not the next number")
		}
		all = append(all, Migration{version, string(text)})
	}
	return all
}

// SchemaError says which schema a database has and which one this release
// knows. It is ErrSchema.
type SchemaError struct {
	Has, Knows int
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("database: schema %d, this release has %d: %v", e.Has, e.Knows, ErrSchema)
}

// Is lets callers ask for ErrSchema.
func (e *SchemaError) Is(target error) bool { return target == ErrSchema }

// Older reports whether a migration mends it.
func (e *SchemaError) Older() bool { return e.Has < e.Knows }

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
	Migrations []Migration // all that there are; nil is Migrations()
	To         int         // a version; 0 is the newest
	Backup     string      // a new file for a copy of before; "" makes none
}

// Migrate takes the schema of a SQLite file forward, each migration in a
// transaction of its own, while no server works on it: ErrInUse otherwise. It
// gives the versions from which and to which it came, also when one fails.
func Migrate(ctx context.Context, o MigrateOptions) (from, to int, err error) {
	if o.Migrations == nil {
		o.Migrations = Migrations()
	}
	info, err := Inspect(ctx, o.Path) // before anything is made where there is nothing
	if err != nil {
		return 0, 0, err
	}
	lock, err := lockFor(o.Path)
	if err != nil {
		return 0, 0, err
	}
	defer lock.Close()
	from, newest := info.Schema, o.Migrations[len(o.Migrations)-1].Version
	if from > newest {
		return from, from, &SchemaError{from, newest}
	}
	db, err := sql.Open("sqlite3", dsn(o.Path)+"&_txlock=immediate")
	if err != nil {
		return from, from, fmt.Errorf("database: %w", err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if o.Backup != "" {
		if err := copyDatabase(ctx, db, o.Backup); err != nil {
			return from, from, fmt.Errorf("backup: %w", err)
		}
	}
	to = from
	for _, m := range Pending(o.Migrations, from, o.To) {
		if err := migrateOnce(ctx, db, m); err != nil {
			return from, to, fmt.Errorf("database: migration %d: %w", m.Version, err)
		}
		to = m.Version
	}
	return from, to, nil
}

// migrateAtStart migrates a database that needs it (Options.Migrate). Whatever
// else is wrong with it, opening it says.
func (s *Store) migrateAtStart(ctx context.Context) error {
	info, err := Inspect(ctx, s.options.Path)
	if err != nil || info.Schema >= SchemaVersion {
		return nil
	}
	from, to, err := Migrate(ctx, MigrateOptions{Path: s.options.Path})
	if err != nil {
		return err
	}
	s.log.Info("the schema was migrated", "from", from, "to", to)
	return nil
}

func migrateOnce(ctx context.Context, db *sql.DB, m Migration) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, m.SQL); err != nil {
		return err
	}
	r, err := tx.ExecContext(ctx, `UPDATE meta SET value = $1 WHERE name = 'schema' AND value = $2`, strconv.Itoa(m.Version), strconv.Itoa(m.Version-1))
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, errors.New("the schema before it is another one"))
	}
	return tx.Commit()
}
