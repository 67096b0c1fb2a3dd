package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
)

// next are this release's migrations and one, or two, that nobody has written
// yet.
func next(texts ...string) []Migration {
	all := Migrations()
	for i, text := range texts {
		all = append(all, Migration{Version: SchemaVersion + 1 + i, SQL: text, Oldest: SchemaVersion})
	}
	return all
}

const (
	aColumn = `ALTER TABLE client ADD COLUMN note TEXT NOT NULL DEFAULT '';
		CREATE TABLE shelf (id TEXT PRIMARY KEY);`
	aFault = `CREATE TABLE second_shelf (id TEXT PRIMARY KEY);
		ALTER TABLE nowhere ADD COLUMN x TEXT;`
)

func TestMigrationsAreNumbered(t *testing.T) {
	all := Migrations()
	if len(all) != SchemaVersion || all[len(all)-1].Version != SchemaVersion {
		t.Errorf("%d files, and SchemaVersion is %d", len(all), SchemaVersion)
	}
	for from, want := range map[int]int{0: SchemaVersion + 2, SchemaVersion: 2, SchemaVersion + 1: 1, SchemaVersion + 2: 0} {
		if got := Pending(next("", ""), from, 0); len(got) != want {
			t.Errorf("pending from %d: %v", from, got)
		}
	}
	if got := Pending(next("", ""), SchemaVersion, SchemaVersion+1); len(got) != 1 {
		t.Errorf("pending up to one: %v", got)
	}
}

// An invented migration: the rows are there after it, the release before works
// on it until one takes newer releases alone, and a backup of before can be
// restored.
func TestMigrate(t *testing.T) {
	if !embedded() {
		return
	}
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	if _, _, err := Migrate(ctx, MigrateOptions{Path: h.path, Migrations: next(aColumn)}); !errors.Is(err, ErrInUse) {
		t.Errorf("while a server works on it: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if from, to, err := Migrate(ctx, MigrateOptions{Path: h.path}); from != SchemaVersion || to != SchemaVersion || err != nil {
		t.Errorf("nothing to do: %d to %d, %v", from, to, err)
	}
	before := filepath.Join(t.TempDir(), "before.db")
	from, to, err := Migrate(ctx, MigrateOptions{Path: h.path, Migrations: next(aColumn), Backup: before})
	if from != SchemaVersion || to != SchemaVersion+1 || err != nil {
		t.Fatalf("%d to %d, %v", from, to, err)
	}
	info, err := Inspect(ctx, h.path)
	if err != nil || info.Schema != SchemaVersion+1 || info.Approvals != 1 || info.Clients != 1 {
		t.Errorf("%+v %v", info, err)
	}
	if info.CheckSchema() != nil || info.Oldest != SchemaVersion {
		t.Errorf("for the release before: %+v", info)
	}
	back := open(t, h.path, h.clock)
	if v, err := back.refresh(id, 1); v != approval.OK || err != nil {
		t.Errorf("the release before on the newer schema: %v %v", v, err)
	}
	if err := back.Close(); err != nil {
		t.Fatal(err)
	}
	if from, to, err := Migrate(ctx, MigrateOptions{Path: h.path}); from != SchemaVersion+1 || to != from || err != nil {
		t.Errorf("its migrations: %d to %d, %v", from, to, err)
	}
	if _, _, err := Migrate(ctx, MigrateOptions{Path: h.path, Migrations: next(aColumn, ""), Backup: before}); !errors.Is(err, os.ErrExist) {
		t.Errorf("a backup over another one: %v", err)
	}
	alone := next(aColumn, "")
	alone[len(alone)-1].Oldest = SchemaVersion + 1
	if _, _, err := Migrate(ctx, MigrateOptions{Path: h.path, Migrations: alone, Release: "0.9.0"}); err != nil {
		t.Fatal(err)
	}
	var schema *SchemaError
	if _, err := Open(ctx, Options{Path: h.path, Ring: h.ring}); !errors.As(err, &schema) || schema.Older() || schema.Oldest != SchemaVersion+1 || schema.Release != "0.9.0" {
		t.Errorf("one that takes newer releases alone: %v", err)
	}
	if _, _, err := Migrate(ctx, MigrateOptions{Path: h.path}); !errors.Is(err, ErrSchema) {
		t.Errorf("its migrations: %v", err)
	}
	if info, err := Verify(ctx, before); err != nil || info.Schema != SchemaVersion || info.Approvals != 1 {
		t.Errorf("the backup of before: %+v %v", info, err)
	}
	to2 := filepath.Join(t.TempDir(), "back.db")
	if _, err := Restore(ctx, RestoreOptions{From: before, To: to2, Ring: h.ring, KeepApprovals: true, Now: h.clock.Now()}); err != nil {
		t.Fatal(err)
	}
	if back := open(t, to2, h.clock); !back.accepts(t, id) {
		t.Error("the backup of before has not the approval")
	}
}

// A migration that fails changes nothing, and those before it stand.
func TestMigrationFails(t *testing.T) {
	if !embedded() {
		return
	}
	ctx, h := context.Background(), furnished(t)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	from, to, err := Migrate(ctx, MigrateOptions{Path: h.path, Migrations: next(aColumn, aFault)})
	if from != SchemaVersion || to != SchemaVersion+1 || err == nil || errors.Is(err, ErrSchema) {
		t.Fatalf("%d to %d, %v", from, to, err)
	}
	info, err := Inspect(ctx, h.path)
	if err != nil || info.Schema != SchemaVersion+1 {
		t.Errorf("%+v %v", info, err)
	}
	db, err := sqlite.OpenReading(ctx, h.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var shelves string
	if err := db.QueryRow(`SELECT group_concat(name) FROM sqlite_master WHERE name LIKE '%shelf'`).Scan(&shelves); err != nil || shelves != "shelf" {
		t.Errorf("tables %q, %v; want that of the first alone", shelves, err)
	}
	if _, to, err := Migrate(ctx, MigrateOptions{Path: h.path, Migrations: next(aColumn, ""), To: SchemaVersion + 1}); to != SchemaVersion+1 || err != nil {
		t.Errorf("up to where it is: %d, %v", to, err)
	}
	if _, to, err := Migrate(ctx, MigrateOptions{Path: h.path, Migrations: []Migration{{Version: SchemaVersion + 3}}}); to != SchemaVersion+1 || err == nil {
		t.Errorf("one was left out: %d, %v", to, err)
	}
	if _, _, err := Migrate(ctx, MigrateOptions{Path: filepath.Join(t.TempDir(), "none.db")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("where there is none: %v", err)
	}
}

// An older schema is refused at the start, unless it is asked to migrate: then
// it runs what is pending. What is wrong otherwise is said as ever.
func TestMigrateAtStart(t *testing.T) {
	if !embedded() {
		return
	}
	ctx, h := context.Background(), furnished(t)
	if _, err := h.embedded().Writer.Conn.ExecContext(ctx, `UPDATE meta SET value = '0' WHERE name = 'schema'`); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	// There is no schema 0. Its only use is that every file is pending.
	var schema *SchemaError
	if _, err := Open(ctx, Options{Path: h.path, Ring: h.ring}); err == nil {
		t.Error("an older schema was opened")
	}
	_, err := Open(ctx, Options{Path: h.path, Ring: h.ring, Migrate: true})
	if err == nil || errors.As(err, &schema) {
		t.Errorf("its tables are there already, so the first file must fail: %v", err)
	}
	empty := filepath.Join(t.TempDir(), "empty.db")
	s, err := Open(ctx, Options{Path: empty, Ring: h.ring, Migrate: true})
	if err != nil {
		t.Fatalf("a new one: %v", err)
	}
	if n, err := s.Schema(ctx); n.Version != SchemaVersion || err != nil {
		t.Errorf("schema %+v, %v", n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(ctx, Options{Path: empty, Ring: h.ring, Migrate: true}); err != nil {
		t.Fatalf("one that needs nothing: %v", err)
	}
	s.Close()
}
