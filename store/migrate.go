package store

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/grantkeeper/grantkeeper/store/schema"
)

// Migrate takes a schema forward, each migration in a transaction of its own.
// It gives the versions that it came from and to, even when a migration fails.
// Of a SQLite file no server may work on it meanwhile: ErrInUse. On PostgreSQL
// nodes may, as far as their release works beside the migration: ErrNodes.
func Migrate(ctx context.Context, o schema.Options) (from, to int, err error) {
	if o.Migrations == nil {
		o.Migrations = schema.Migrations()
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
	if from > o.Newest() {
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
	return o.Run(from, func(m schema.Migration) error { return migrateOnce(ctx, db, m, o) })
}

// migrateAtStart migrates a SQLite file that needs it (Options.Migrate).
// Whatever else is wrong with it, opening it says.
func migrateAtStart(ctx context.Context, e *env) error {
	info, err := Inspect(ctx, e.options.Path)
	if err != nil || info.Schema >= schema.Version {
		return nil
	}
	from, to, err := Migrate(ctx, schema.Options{Path: e.options.Path, Ring: e.options.Ring, Release: e.options.Release, Rekeyed: schema.LogRekeyed(e.log)})
	if err != nil {
		return err
	}
	e.log.Info("the schema was migrated", "from", from, "to", to)
	return nil
}

func migrateOnce(ctx context.Context, db *sql.DB, m schema.Migration, o schema.Options) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var before string
	if err := tx.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = $1`, schema.MetaVersion).Scan(&before); err != nil {
		return err
	}
	if before != strconv.Itoa(m.Version-1) {
		return schema.ErrNotBefore
	}
	rekeyed, err := m.Rekeyed(ctx, tx)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, m.SQL); err != nil {
		return err
	}
	for name, value := range m.Saying(o.Release) {
		if _, err := tx.ExecContext(ctx, putMeta, name, value); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	o.Tell(rekeyed)
	return nil
}
