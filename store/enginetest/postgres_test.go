package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/enginetest"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// cluster is a PostgreSQL of a test's own.
type cluster struct {
	*pgtest.Server
	bouncer *pgtest.Bouncer
	disk    *pgtest.Disk // of all small databases: it can be unmounted when the server is gone
}

// started is nil where PostgreSQL is not installed: then one line says so, and `make test`
// sees that it is.
func started(t *testing.T) *cluster {
	t.Helper()
	server, err := pgtest.Start()
	if errors.Is(err, pgtest.ErrAbsent) {
		fmt.Println("PostgreSQL left out:", err)
		return nil
	}
	must(t, err)
	c := &cluster{Server: server}
	t.Cleanup(func() {
		must(t, server.Stop())
		if c.disk != nil {
			must(t, c.disk.Unmount())
		}
	})
	return c
}

func (c *cluster) harness() enginetest.Harness {
	return enginetest.Harness{
		Name: "PostgreSQL",
		Place: func(t testing.TB) enginetest.Place {
			t.Helper()
			at, err := c.Schema()
			must(t, err)
			return c.placeAt(at, at)
		},
		Cannot: map[enginetest.Knob]string{enginetest.KeepTime: notOurTime},
	}
}

const notOurTime = "the time is the database's, which no process of ours keeps for it"

// behindBouncer is a harness with pgbouncer before the server: each transaction may get
// another connection.
func (c *cluster) behindBouncer() enginetest.Harness {
	return enginetest.Harness{
		Name: "PostgreSQL behind pgbouncer",
		Place: func(t testing.TB) enginetest.Place {
			t.Helper()
			name, err := c.Database()
			must(t, err)
			p := c.placeAt(c.bouncer.URL(name), c.URL(name))
			p.Small = nil
			return p
		},
		Cannot: map[enginetest.Knob]string{
			enginetest.KeepTime: notOurTime,
			enginetest.Fill:     "the disk is the server's, as it is without pgbouncer",
		},
	}
}

// placeAt is a place that a URL leads to; what is planted goes there by another.
func (c *cluster) placeAt(at, direct string) enginetest.Place {
	return enginetest.Place{
		Options: to(at),
		Refuse: func(t testing.TB, verb, table, condition string) func() {
			t.Helper()
			run(t, direct, raise, fmt.Sprintf(`CREATE TRIGGER planted BEFORE %s ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION planted()`, verb, table, condition))
			return func() { run(t, direct, `DROP TRIGGER planted ON `+table) }
		},
		Abort: func(t testing.TB) func() {
			t.Helper()
			texts, back := []string{raise}, []string{}
			for _, table := range []string{"approval", "journal"} {
				texts = append(texts, `CREATE CONSTRAINT TRIGGER planted AFTER INSERT OR UPDATE ON `+table+
					` DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION planted()`)
				back = append(back, `DROP TRIGGER planted ON `+table)
			}
			run(t, direct, texts...)
			return func() { run(t, direct, back...) }
		},
		Small: c.small,
		Crash: func(t testing.TB) enginetest.Place {
			t.Helper()
			must(t, c.Kill())
			must(t, c.Run())
			c.await(t, at)
			return c.placeAt(at, direct)
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

// await waits until the server answers a statement. pgbouncer lets a client in by what it
// remembers, and takes a second or more to see that the server is back.
func (c *cluster) await(t testing.TB, at string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := answers(at)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func answers(at string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.QueryRow(ctx, `SELECT 1`).Scan(new(int))
}

func (c *cluster) small(t testing.TB) enginetest.Place {
	t.Helper()
	var err error
	if c.disk == nil {
		c.disk, err = c.Disk(24 << 20)
		must(t, err)
	}
	name, err := c.DatabaseOn(c.disk)
	must(t, err)
	p := c.placeAt(c.URL(name), c.URL(name))
	p.Fill = filler(c.disk)
	return p
}

func to(at string) func(store.Options) store.Options {
	return func(o store.Options) store.Options { o.URL, o.DatabaseTime = at, o.Now; return o }
}

// raise makes planted, which fails as a server does that cannot.
const raise = `CREATE OR REPLACE FUNCTION planted() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = 'XX000'; END $$`

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
