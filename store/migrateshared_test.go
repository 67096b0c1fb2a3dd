package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/approval"
)

// migrating gives what Migrate takes for the database of a house.
func (h house) migrating(t *testing.T, all []Migration) MigrateOptions {
	return MigrateOptions{URL: at(t, h.path, Options{}).URL, Ring: h.ring, Migrations: all, Release: "0.9.0"}
}

// Nodes go on to work while others migrate, one number after another, and see
// what a migration has changed in the facts.
func TestMigrateBesideNodes(t *testing.T) {
	if embedded() {
		return
	}
	h := furnished(t)
	other := h.second(t)
	id := h.live(t, h.answer(1))
	all := next(aColumn, `UPDATE person SET name = 'Ada Berg' WHERE id = 'ada';`)
	all[len(all)-1].Postgres = `CREATE TABLE beside (id BIGINT PRIMARY KEY);`
	o := h.migrating(t, all)
	o.To = SchemaVersion + 1
	if from, to, err := Migrate(ctx, o); from != SchemaVersion || to != SchemaVersion+1 || err != nil {
		t.Fatalf("%d to %d, %v", from, to, err)
	}
	if v, err := h.refresh(id, 1); v != approval.OK || err != nil {
		t.Errorf("after the first: %v %v", v, err)
	}
	var atOnce sync.WaitGroup
	for range 4 {
		atOnce.Go(func() {
			if _, to, err := Migrate(ctx, h.migrating(t, all)); to != SchemaVersion+2 || err != nil {
				t.Errorf("to %d, %v", to, err)
			}
		})
	}
	atOnce.Wait()
	h.sql(t, `INSERT INTO beside (id) VALUES (1)`)
	for _, n := range []house{h, other} {
		if p, err := n.Person(ctx, "ada"); err != nil || p.Name != "Ada Berg" {
			t.Errorf("a node sees %q, %v", p.Name, err)
		}
		if s, err := n.Schema(ctx); err != nil || s != (Schema{Version: SchemaVersion + 2, Oldest: SchemaVersion, Release: "0.9.0"}) {
			t.Errorf("%+v, %v", s, err)
		}
		if err := n.Ready(ctx); err != nil {
			t.Error(err)
		}
	}
	if v, err := other.refresh(id, 2); v != approval.OK || err != nil {
		t.Errorf("after the second: %v %v", v, err)
	}
	h.second(t) // and this release starts beside them
	if from, to, err := Migrate(ctx, h.migrating(t, nil)); from != SchemaVersion+2 || to != from || err != nil {
		t.Errorf("a node of this release migrates: %d to %d, %v", from, to, err)
	}
}

// A migration that nodes cannot work beside is refused while one lives; one that
// wakes after it serves nobody, and none starts.
func TestMigrationThatTakesNewerReleasesAlone(t *testing.T) {
	if embedded() {
		return
	}
	h := furnished(t)
	other := h.second(t)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	all := next(aColumn, `ALTER TABLE client DROP COLUMN note;`)
	all[len(all)-1].Oldest = SchemaVersion + 1
	if from, to, err := Migrate(ctx, h.migrating(t, all)); !errors.Is(err, ErrNodes) || from != SchemaVersion || to != SchemaVersion+1 || !strings.Contains(err.Error(), "1 that live are older") {
		t.Fatalf("%d to %d, %v", from, to, err)
	}
	other.sql(t, `UPDATE node SET seen_at = 0`) // it has been paused for long
	if _, to, err := Migrate(ctx, h.migrating(t, all)); to != SchemaVersion+2 || err != nil {
		t.Fatalf("to %d, %v", to, err)
	}
	if err := other.postgres().Beat(ctx); err != nil {
		t.Fatal(err)
	}
	if err := other.Ready(ctx); !errors.Is(err, ErrUnavailable) {
		t.Errorf("ready: %v", err)
	}
	if _, err := other.Person(ctx, "ada"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("it answers: %v", err)
	}
	if s, err := Open(ctx, at(t, h.path, Options{Ring: h.ring, Migrate: true})); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), fmt.Sprintf("takes releases of schema %d and newer", SchemaVersion+1)) {
		if err == nil {
			s.Close()
		}
		t.Errorf("one starts: %v", err)
	}
}

// A migration waits for a table that somebody else holds, and lets those who
// wait behind it pass meanwhile.
func TestMigrationStepsBackWhileOthersWait(t *testing.T) {
	if embedded() {
		return
	}
	h := furnished(t)
	id := h.live(t, h.answer(1))
	conn, err := pgx.Connect(ctx, at(t, h.path, Options{}).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `BEGIN; LOCK TABLE approval IN ACCESS SHARE MODE`); err != nil { // as pg_dump does
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := Migrate(ctx, h.migrating(t, next(`ALTER TABLE approval ADD COLUMN note TEXT NOT NULL DEFAULT '';`)))
		done <- err
	}()
	waiting := func() (n int) {
		if err := conn.QueryRow(ctx, `SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for waiting() == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	for generation := range int64(3) { // the first of them waits behind it
		if v, err := h.refresh(id, generation+1); v != approval.OK || err != nil {
			t.Errorf("meanwhile: %v %v", v, err)
		}
	}
	if _, err := conn.Exec(ctx, `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	h.sql(t, `UPDATE approval SET note = 'x'`)
}

// What a migration on PostgreSQL is refused for names the mend.
func TestMigrationsThatAreRefused(t *testing.T) {
	if embedded() {
		return
	}
	h := furnished(t)
	o := h.migrating(t, next(aColumn))
	if err := server.Exec("postgres", `CREATE ROLE worker LOGIN`); err != nil {
		t.Fatal(err)
	}
	in := o.URL[strings.Index(o.URL, "search_path=")+len("search_path="):]
	h.sql(t, `GRANT USAGE ON SCHEMA `+in+` TO worker`)
	h.sql(t, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA `+in+` TO worker`)
	worker, backup, strange, nowhere := o, o, o, o
	worker.URL = strings.Replace(o.URL, "postgres@", "worker@", 1)
	backup.Backup = "/tmp/x"
	strange.Ring = ringOf(t, 0, 9)
	nowhere.URL = "postgres://x:geheim@127.0.0.1:1/x"
	fault := h.migrating(t, next(aFault))
	for what, tt := range map[string]struct {
		o    MigrateOptions
		is   error
		want string
	}{
		"a user who owns no table":     {worker, ErrDatabase, "owner of the tables"},
		"a backup":                     {backup, ErrNotAllowed, "its own means"},
		"another installation's keys":  {strange, ErrKeys, ""},
		"a server that does not run":   {nowhere, ErrDatabase, "see that PostgreSQL runs"},
		"a migration that has a fault": {fault, ErrDatabase, fmt.Sprint("migration ", SchemaVersion+1)},
	} {
		if _, _, err := Migrate(ctx, tt.o); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if s, err := h.Schema(ctx); err != nil || s.Version != SchemaVersion {
		t.Errorf("refused, and now %+v, %v", s, err)
	}
	h.sql(t, `CREATE TABLE second_shelf (id BIGINT)`) // which the fault has not left behind
}
