package doctor

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/grantkeeper/grantkeeper/config"
)

// limited runs f as a user to whom the modes of files apply, also where the tests are root's.
func limited(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with this goroutine
		none := [2]unix.CapUserData{}
		err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A server makes files beside its database and writes those that are there: where this user
// cannot, that is said before the start, and nothing is touched.
func TestDatabaseThatCannotBeWritten(t *testing.T) {
	const folder = "no files can be made in "
	for what, tt := range map[string]struct {
		database, folder os.FileMode // 0 is none
		beside           string      // a file that cannot be written
		want             string
	}{
		"all well":                     {0o600, 0o700, "", ""},
		"none yet":                     {0, 0o700, "", ""},
		"none yet, and a folder":       {0, 0o500, "", folder},
		"a folder":                     {0o600, 0o500, "", folder},
		"a folder that lists no files": {0, 0o200, "", "permission denied"},
		"the database":                 {0o400, 0o700, "", "grantkeeper.db: permission denied"},
		"its log":                      {0o600, 0o700, "-wal", "grantkeeper.db-wal: permission denied"},
		"its lock":                     {0o600, 0o700, ".lock", "grantkeeper.db.lock: permission denied"},
		"the log of its refreshes":     {0o600, 0o700, "-refreshes-wal", "grantkeeper.db-refreshes-wal: permission denied"},
		"a lock of one that is gone":   {0, 0o700, ".lock", "grantkeeper.db.lock: permission denied"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			path := filepath.Join(dir, "grantkeeper.db")
			make := func(name string, mode os.FileMode) {
				if err := os.WriteFile(name, nil, mode); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if tt.database != 0 {
				make(path, tt.database)
			}
			if tt.beside != "" {
				make(path+tt.beside, 0o400)
			}
			before, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, tt.folder); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(dir, 0o700)
			limited(t, func() {
				if err = writable(path); tt.database == 0 {
					_, err = newDatabase(path)
				}
			})
			if got := ""; err != nil {
				if got = err.Error(); tt.want == "" || !strings.Contains(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			} else if tt.want != "" {
				t.Errorf("it is well, want %q", tt.want)
			}
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
				t.Errorf("there are %v, %v, were %v", after, err, before)
			}
		})
	}
	link := filepath.Join(t.TempDir(), "link.db") // what belongs to it lies beside the file itself
	there := config.Checked{Path: filepath.Join(t.TempDir(), "grantkeeper.db")}
	for _, name := range []string{there.Path, there.Path + "-wal"} {
		if err := os.WriteFile(name, nil, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(there.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(there.Path, link); err != nil {
		t.Fatal(err)
	}
	var err error
	if limited(t, func() { err = writable(link) }); err == nil || !strings.Contains(err.Error(), there.Path+"-wal: permission denied") {
		t.Errorf("by a link: %v", err)
	}
	if err := os.RemoveAll(filepath.Dir(there.Path)); err != nil {
		t.Fatal(err)
	}
	if _, err := newDatabase(link); err == nil || !strings.Contains(err.Error(), filepath.Dir(there.Path)) {
		t.Errorf("by a link to a folder that is gone: %v", err)
	}
	if d := (&Examination{Checked: config.Checked{Path: link}}); d.checkData().Result != "warn" {
		t.Errorf("by a link to a folder that is gone: %+v", d.checkData())
	}
}
