package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store"
)

// Whose a database is that this user may not open: to run as oneself mends nothing.
func TestDenied(t *testing.T) {
	other := "/" // root's
	if os.Geteuid() == 0 {
		other = t.TempDir()
		if err := os.Chown(other, 54321, -1); err != nil {
			t.Fatal(err)
		}
	}
	for dir, hint := range map[string]string{
		t.TempDir(): "chmod -R u+rwX ",
		other:       "Run as the user '" + ownerOf(other) + "', or: chown -R " + SystemUser() + " ",
	} {
		for _, name := range []string{"x.db", "x.db.lock", "x.db-refreshes-wal"} {
			err := OpenError(fmt.Errorf("database: %w", &fs.PathError{Op: "open", Path: filepath.Join(dir, name), Err: syscall.EACCES}))
			var e *fault.Error
			if !errors.As(err, &e) || e.Code != 4 || e.What != "database: cannot open "+filepath.Join(dir, "x.db")+": permission denied" || e.Hint != hint+dir {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}

// A file beside the database that is another's than their folder is what the
// user who runs serve must be given: to run as the folder's owner mends nothing.
func TestDeniedByOneFile(t *testing.T) {
	dir := t.TempDir()
	lock := filepath.Join(dir, "x.db.lock")
	if err := os.Symlink("/etc/passwd", lock); err != nil { // root's
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 54321, -1); err != nil {
			t.Fatal(err)
		}
	}
	err := OpenError(fmt.Errorf("database: %w", &fs.PathError{Op: "open", Path: lock, Err: syscall.EACCES}))
	var e *fault.Error
	if !errors.As(err, &e) || e.Code != 4 || e.Hint != "As root: chown -R "+ownerOf(dir)+" "+dir ||
		e.What != "database: cannot open "+lock+": permission denied: it belongs to 'root', its folder to '"+ownerOf(dir)+"'" {
		t.Errorf("%+v", e)
	}
}

// A restore that was not finished is begun anew, or given up.
func TestOpenErrorOfARestore(t *testing.T) {
	err := OpenError(fmt.Errorf("database: x.db.restoring: %w", store.ErrRestoring))
	var e *fault.Error
	if !errors.As(err, &e) || e.Code != fault.State || !strings.Contains(e.Hint, "grantkeeper backup restore") || !strings.Contains(e.Hint, "delete that file") {
		t.Errorf("%+v", e)
	}
}

// A disk that fails is not a folder that is missing.
func TestOpenErrorOfADisk(t *testing.T) {
	for cause, hint := range map[error]string{
		syscall.EIO:    "see the system's log about its disk",
		syscall.ENOSPC: "see that the folder exists, that this user may write in it, and that its disk has room and is not read-only",
	} {
		err := OpenError(fmt.Errorf("database: %w", &fs.PathError{Op: "sync", Path: "/x.db-wal", Err: cause}))
		var e *fault.Error
		if !errors.As(err, &e) || e.Hint != hint {
			t.Errorf("%v: %+v", cause, e)
		}
	}
}
