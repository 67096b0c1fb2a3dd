package store

import (
	"context"
	"errors"
	arguments "flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
	"github.com/grantkeeper/grantkeeper/store/postgres"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
)

// server is the PostgreSQL that the tests run on; nil while they run on the
// embedded engine.
var server *pgtest.Server

// All tests run twice, once on each engine: the embedded one here, PostgreSQL in a
// process of its own beside it, since both wait for disks more than they compute.
// Benchmarks run one after the other, and so does what writes testdata. Where PostgreSQL
// is not installed one line says so; `make test` sees that it is.
// PGONLY=1 leaves the embedded engine out, for whoever works on the other, and SQLITEONLY=1 PostgreSQL.
func TestMain(m *testing.M) {
	approvals.LongWalk = time.Hour // a machine that is slow shortens no page
	arguments.Parse()
	if os.Getenv("PGONLY") != "" {
		os.Exit(onPostgres(m))
	}
	if os.Getenv("SQLITEONLY") != "" {
		os.Exit(m.Run())
	}
	if *keep || arguments.Lookup("test.bench").Value.String() != "" {
		os.Exit(max(m.Run(), onPostgres(m)))
	}
	other, err := besides()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	status := m.Run()
	os.Exit(max(status, other()))
}

func onPostgres(m *testing.M) (status int) {
	pg, err := pgtest.Start()
	switch {
	case errors.Is(err, pgtest.ErrAbsent):
		fmt.Println("PostgreSQL left out:", err)
		return 0
	case err != nil:
		fmt.Println(err)
		return 1
	}
	server = pg
	if err := arguments.Set("rapid.checks", strconv.Itoa(sharedChecks)); err != nil {
		fmt.Println(err)
		return 1
	}
	status = m.Run()
	if err := pg.Stop(); err != nil {
		fmt.Println(err)
		status = 1
	}
	return status
}

// besides starts these tests on PostgreSQL, as they were started here but for the files
// that are one process's. What it gives waits for them and repeats what they said.
func besides() (wait func() (status int), err error) {
	kept := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool {
		return oneProcess.MatchString(a)
	})
	said, err := os.CreateTemp("", "grantkeeper-store")
	if err != nil {
		return nil, err
	}
	other := exec.Command(os.Args[0], kept...)
	other.Env = append(os.Environ(), "PGONLY=1", endsWithStdin+"=1")
	other.Stdout, other.Stderr = said, said
	alive, err := other.StdinPipe() // is closed when this process ends, however it does
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		return nil, err
	}
	return func() int {
		err := other.Wait()
		alive.Close()
		text, _ := os.ReadFile(said.Name())
		os.Stdout.Write(text)
		os.Remove(said.Name())
		if ended := new(exec.ExitError); errors.As(err, &ended) {
			return max(1, ended.ExitCode())
		} else if err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}, nil
}

var oneProcess = regexp.MustCompile(`^-test\.(testlogfile|coverprofile|cpuprofile|memprofile|blockprofile|mutexprofile|trace)\b`)

// endsWithStdin is a variable that says that the process is to end with its parent.
const endsWithStdin = "GRANTKEEPER_TEST_ENDS_WITH_STDIN"

func init() {
	if os.Getenv(endsWithStdin) == "" {
		return
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}

// schemas are those of the server, by the file that a test would have.
var schemas sync.Map

// at completes the options with where the engine of the run keeps the rows. On
// PostgreSQL each path is a schema of its own, made when it is first named;
// no path is one more each time.
func at(t testing.TB, path string, o Options) Options {
	t.Helper()
	if server == nil {
		o.Path = path
		return o
	}
	url, known := schemas.Load(path)
	if path == "" || !known {
		made, err := newPlace()
		if err != nil {
			t.Fatal(err)
		}
		url = made
		schemas.Store(path, url)
	}
	o.URL = url.(string)
	if o.Now != nil {
		o.DatabaseTime = o.Now
	}
	return o
}

// newPlace makes an empty schema; through pgbouncer, which takes no search_path, a
// database.
func newPlace() (string, error) {
	if bouncer == nil {
		return server.Schema()
	}
	name, err := server.Database()
	return bouncer.URL(name), err
}

// embedded reports whether the run is on the embedded engine. Tests of its
// file, its memory of approvals or its one writer are nobody else's.
func embedded() bool { return server == nil }

// embedded and postgres give the engine of a test that looks into it.
func (s *Store) embedded() *sqlite.Engine   { return s.db.Engine.(*sqlite.Engine) }
func (s *Store) postgres() *postgres.Engine { return s.db.Engine.(*postgres.Engine) }

// sharedChecks is how many histories the model goes through on PostgreSQL, each in a schema of its
// own: a third of those on the embedded engine, by the same statements.
const sharedChecks = 33

// rounds are fewer where each takes a dozen commits of a server.
func rounds(n int) int {
	if embedded() {
		return n
	}
	return n / 5
}

// How a statement can fail: as a database that cannot, as a constraint, with
// everything rolled back by the engine itself, or not before the commit.
var faults = []string{"cannot", "a constraint", "all rolled back", "at the commit"}

const (
	cannot   = 0
	undone   = 2
	atCommit = 3
)

var embeddedFaults = []string{
	`BEFORE %s ON %s BEGIN SELECT abs(-9223372036854775808); END`,
	`BEFORE %s ON %s BEGIN SELECT RAISE(ABORT, 'planted'); END`,
	`BEFORE %s ON %s BEGIN SELECT RAISE(ROLLBACK, 'planted'); END`,
	`AFTER %s ON %s BEGIN INSERT INTO planted_child VALUES (1); END`,
}

// sharedFaults are errors by their SQLSTATE: the third is a serialization
// failure, which is tried again.
var sharedFaults = []string{"XX000", "23514", "40001", "23514"}

// withFaults makes the database ready for plant.
func (h house) withFaults(t testing.TB) {
	t.Helper()
	if embedded() {
		h.sql(t, `PRAGMA foreign_keys = ON`)
		h.sql(t, `CREATE TABLE planted_parent (id INTEGER PRIMARY KEY)`)
		h.sql(t, `CREATE TABLE planted_child (id INTEGER REFERENCES planted_parent (id) DEFERRABLE INITIALLY DEFERRED)`)
		return
	}
	for kind, state := range sharedFaults {
		h.sql(t, fmt.Sprintf(`CREATE FUNCTION planted_%d() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '%s'; END $$`, kind, state))
	}
}

// plant makes a statement fail until lift is called.
func (h house) plant(t testing.TB, kind int, verb, table string) (lift func()) {
	t.Helper()
	switch {
	case embedded():
		h.sql(t, `CREATE TRIGGER planted `+fmt.Sprintf(embeddedFaults[kind], verb, table))
	case kind == atCommit:
		h.sql(t, fmt.Sprintf(`CREATE CONSTRAINT TRIGGER planted AFTER %s ON %s DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION planted_%d()`, verb, table, kind))
	default:
		h.sql(t, fmt.Sprintf(`CREATE TRIGGER planted BEFORE %s ON %s FOR EACH ROW EXECUTE FUNCTION planted_%d()`, verb, table, kind))
	}
	return func() { h.dropTrigger(t, "planted", table) }
}

func (h house) dropTrigger(t testing.TB, name, table string) {
	t.Helper()
	if embedded() {
		h.sql(t, `DROP TRIGGER `+name)
		return
	}
	h.sql(t, `DROP TRIGGER `+name+` ON `+table)
}

// logTrigger writes into planted_log what is done to a table.
func (h house) logTrigger(verb, table string) string {
	if embedded() {
		return fmt.Sprintf(`CREATE TRIGGER log_%[1]s_%[2]s AFTER %[1]s ON %[2]s
			BEGIN INSERT OR IGNORE INTO planted_log VALUES ('%[1]s', '%[2]s'); END`, verb, table)
	}
	return fmt.Sprintf(`
		CREATE OR REPLACE FUNCTION log_%[1]s_%[2]s() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO planted_log VALUES ('%[1]s', '%[2]s') ON CONFLICT DO NOTHING; RETURN NULL; END $$;
		CREATE TRIGGER log_%[1]s_%[2]s AFTER %[1]s ON %[2]s FOR EACH ROW EXECUTE FUNCTION log_%[1]s_%[2]s()`, verb, table)
}

// second opens the same database once more, as another node does.
func (h house) second(t testing.TB) house {
	t.Helper()
	n := h
	s, err := Open(context.Background(), at(t, h.path, Options{Ring: h.ring, Now: h.clock.Now}))
	if err != nil {
		t.Fatal(err)
	}
	n.Store = s
	t.Cleanup(func() { s.Close() })
	return n
}
