package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
)

// Migrate takes a file forward; no server may work on it meanwhile: ErrInUse.
func Migrate(ctx context.Context, o schema.Options) (from, to int, err error) {
	o.Path = realPath(o.Path)
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
	done, err := recoverWAL(o.Path)
	if err != nil {
		return from, from, err
	}
	defer done()
	if err := closeIndex(o.Path); err != nil {
		return from, from, err
	}
	db, err := sql.Open("sqlite3", DSN(o.Path)+"&_txlock=immediate")
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
	if from, to, err = o.Run(from, func(m schema.Migration) error { return migrateOnce(ctx, db, m, o) }); err != nil {
		return from, to, err
	}
	conn, err := db.Conn(ctx)
	if err == nil {
		err = errors.Join(withSums(ctx, conn), conn.Close()) // one of before they were
	}
	if err != nil {
		return from, to, fmt.Errorf("check sums: %w", err)
	}
	return from, to, nil
}

// migrateAtStart migrates a SQLite file that needs it (Options.Migrate).
// Whatever else is wrong with it, opening it says.
func migrateAtStart(ctx context.Context, e *engine.Env) error {
	info, err := Inspect(ctx, e.Options.Path)
	if err != nil || info.Schema >= schema.Version {
		return nil
	}
	from, to, err := Migrate(ctx, schema.Options{Migrations: schema.Migrations(), Path: e.Options.Path, Ring: e.Options.Ring, Release: e.Options.Release, Rekeyed: schema.LogRekeyed(e.Log)})
	if err != nil {
		return err
	}
	e.Log.Info("the schema was migrated", "from", from, "to", to)
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
		if _, err := tx.ExecContext(ctx, engine.PutMeta, name, value); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	o.Tell(rekeyed)
	return nil
}
