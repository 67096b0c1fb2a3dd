package enginetest_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/grantkeeper/grantkeeper/store/enginetest"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// Where PostgreSQL is not installed one line says so; `make test` sees that it is.
func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	switch server, err = pgtest.Start(); {
	case errors.Is(err, pgtest.ErrAbsent):
		fmt.Println("PostgreSQL left out:", err)
	case err != nil:
		fmt.Println(err)
		os.Exit(1)
	}
	status := m.Run()
	if server != nil {
		err = server.Stop()
	}
	if disk != nil {
		err = errors.Join(err, disk.Unmount())
	}
	if err != nil {
		fmt.Println(err)
		status = max(status, 1)
	}
	os.Exit(status)
}

func TestSQLite(t *testing.T) { enginetest.Run(t, onSQLite()) }

func TestPostgres(t *testing.T) {
	if server != nil {
		enginetest.Run(t, onPostgres())
	}
}

func TestPostgresBehindBouncer(t *testing.T) {
	if server == nil {
		return
	}
	var err error
	bouncer, err = server.Bouncer()
	must(t, err)
	t.Cleanup(func() { must(t, bouncer.Stop()) })
	enginetest.Run(t, behindBouncer())
}

// What an engine cannot show is decided here, and read by whoever reviews the change:
// go test ./store/enginetest -run Table -update writes it.
var update = flag.Bool("update", false, "write testdata/table.txt")

func TestTable(t *testing.T) {
	const path = "testdata/table.txt"
	got := enginetest.Table(onSQLite(), onPostgres(), behindBouncer())
	t.Log("\n" + got)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("%s does not say so: %v", path, err)
	}
}
