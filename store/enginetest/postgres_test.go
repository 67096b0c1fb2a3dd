package enginetest_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/enginetest"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// onPostgres is a harness with a server of the test's own.
func onPostgres() enginetest.Harness {
	return enginetest.Harness{
		Name: "PostgreSQL",
		Place: func(t testing.TB) enginetest.Place {
			t.Helper()
			at, err := server.Schema()
			must(t, err)
			return databaseAt(at, at)
		},
		Cannot: notOnPostgres,
	}
}

var notOnPostgres = map[enginetest.Knob]string{
	enginetest.KeepTime: "the time is the database's, which no process of ours keeps for it",
}

// behindBouncer is a harness with pgbouncer before that server: each transaction may get
// another connection.
func behindBouncer() enginetest.Harness {
	return enginetest.Harness{
		Name: "PostgreSQL behind pgbouncer",
		Place: func(t testing.TB) enginetest.Place {
			t.Helper()
			name, err := server.Database()
			must(t, err)
			return databaseAt(bouncer.URL(name), server.URL(name))
		},
		Cannot: notOnPostgres,
	}
}

var (
	server  *pgtest.Server // nil where there is none
	bouncer *pgtest.Bouncer
)

// databaseAt is a place that a URL leads to; what is planted goes there by another.
func databaseAt(at, direct string) enginetest.Place {
	return enginetest.Place{
		Options: to(at),
		Refuse: func(t testing.TB, verb, table, condition string) func() {
			t.Helper()
			run(t, direct, raise("XX000"), fmt.Sprintf(`CREATE TRIGGER planted BEFORE %s ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION planted()`, verb, table, condition))
			return func() { run(t, direct, `DROP TRIGGER planted ON `+table) }
		},
		Abort: func(t testing.TB) func() {
			t.Helper()
			texts, back := []string{raise("XX000")}, []string{}
			for _, table := range []string{"approval", "journal"} {
				texts = append(texts, `CREATE CONSTRAINT TRIGGER planted AFTER INSERT OR UPDATE ON `+table+
					` DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION planted()`)
				back = append(back, `DROP TRIGGER planted ON `+table)
			}
			run(t, direct, texts...)
			return func() { run(t, direct, back...) }
		},
		Small: smallDatabase,
		Crash: func(t testing.TB) enginetest.Place {
			t.Helper()
			must(t, server.Kill())
			must(t, server.Run())
			return databaseAt(at, direct)
		},
		Mislead: func(t testing.TB) (func(store.Options) store.Options, func(bool)) {
			t.Helper()
			u, err := url.Parse(at)
			must(t, err)
			p := proxyTo(t, u.Host)
			u.Host = p.address()
			return to(u.String()), p.arm
		},
	}
}

func to(at string) func(store.Options) store.Options {
	return func(o store.Options) store.Options { o.URL, o.DatabaseTime = at, o.Now; return o }
}

func raise(state string) string {
	return fmt.Sprintf(`CREATE OR REPLACE FUNCTION planted() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '%s'; END $$`, state)
}

func run(t testing.TB, at string, texts ...string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, at)
	must(t, err)
	defer conn.Close(ctx)
	for _, text := range texts {
		_, err := conn.Exec(ctx, text)
		must(t, err)
	}
}

// disk is the one that all small databases lie on: it can be unmounted when the server
// is gone.
var disk *pgtest.Disk

func smallDatabase(t testing.TB) enginetest.Place {
	t.Helper()
	var err error
	if disk == nil {
		disk, err = server.Disk(24 << 20)
		must(t, err)
	}
	name, err := server.DatabaseOn(disk)
	must(t, err)
	p := databaseAt(server.URL(name), server.URL(name))
	p.Fill = filler(disk)
	return p
}
