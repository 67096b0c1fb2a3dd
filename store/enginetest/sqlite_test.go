package enginetest_test

import (
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/enginetest"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// onSQLite is a harness with the embedded engine.
func onSQLite() enginetest.Harness {
	return enginetest.Harness{
		Name:  "SQLite",
		Place: func(t testing.TB) enginetest.Place { return fileIn(t, t.TempDir()) },
		Cannot: map[enginetest.Knob]string{
			enginetest.Mislead: "the commit is a call within the process: who gets no answer is gone with it (a machine that stops)",
			enginetest.Beside:  "one process holds the file, and a second is refused",
			enginetest.Overlap: "one writer: what changes facts waits for the moves that are being made",
		},
	}
}

// fileIn is the place of a file in a folder. What is planted is planted by a connection
// of its own.
func fileIn(t testing.TB, dir string) enginetest.Place {
	path := filepath.Join(dir, "grantkeeper.db")
	return enginetest.Place{
		Options: func(o store.Options) store.Options { o.Path = path; return o },
		Refuse: func(t testing.TB, verb, table, condition string) func() {
			return plant(t, path, fmt.Sprintf(`BEFORE %s ON %s WHEN (%s) BEGIN SELECT abs(-9223372036854775808); END`, verb, table, condition))
		},
		Abort: func(t testing.TB) func() { // the engine sees before each commit that its file is in place
			t.Helper()
			must(t, os.Rename(path, path+".away"))
			return func() { must(t, os.Rename(path+".away", path)) }
		},
		Small: smallFile,
		Crash: func(t testing.TB) enginetest.Place { // what is on the disk at a moment
			t.Helper()
			left := t.TempDir()
			for _, suffix := range []string{"", "-wal"} {
				copyFile(t, path+suffix, filepath.Join(left, filepath.Base(path)+suffix))
			}
			return fileIn(t, left)
		},
	}
}

func plant(t testing.TB, path, trigger string) (lift func()) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?vfs=grantkeeper&_pragma=busy_timeout(10000)") // no other program may write (decision T18)
	must(t, err)
	_, err = db.Exec(`CREATE TRIGGER planted ` + trigger)
	must(t, err)
	return func() {
		t.Helper()
		_, err := db.Exec(`DROP TRIGGER planted`)
		must(t, err)
		must(t, db.Close())
	}
}

func smallFile(t testing.TB) enginetest.Place {
	t.Helper()
	disk, err := pgtest.NewDisk(24 << 20)
	must(t, err)
	t.Cleanup(func() { must(t, disk.Unmount()) })
	p := fileIn(t, disk.Dir())
	p.Fill = filler(disk)
	return p
}

func filler(disk *pgtest.Disk) func(testing.TB) func() {
	return func(t testing.TB) func() {
		t.Helper()
		must(t, disk.Fill())
		return func() { must(t, disk.Free()) }
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	must(t, err)
	defer in.Close()
	out, err := os.Create(to)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, err)
	must(t, out.Close())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
