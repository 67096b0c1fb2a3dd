package enginetest_test

import (
	"flag"
	"os"
	"testing"

	"github.com/grantkeeper/grantkeeper/store/enginetest"
)

// They run beside each other, since all of them wait for disks.

func TestSQLite(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, onSQLite())
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	if c := started(t); c != nil {
		enginetest.Run(t, c.harness())
	}
}

func TestPostgresBehindBouncer(t *testing.T) {
	t.Parallel()
	c := started(t)
	if c == nil {
		return
	}
	var err error
	c.bouncer, err = c.Bouncer()
	must(t, err)
	t.Cleanup(func() { must(t, c.bouncer.Stop()) })
	enginetest.Run(t, c.behindBouncer())
}

// What an engine cannot show is decided here, and read by whoever reviews the change:
// go test ./store/enginetest -run Table -update writes it.
var update = flag.Bool("update", false, "write testdata/table.txt")

func TestTable(t *testing.T) {
	const path = "testdata/table.txt"
	var c cluster
	got := enginetest.Table(onSQLite(), c.harness(), c.behindBouncer())
	t.Log("\n" + got)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("%s does not say so: %v", path, err)
	}
}
