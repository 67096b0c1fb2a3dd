package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
)

// What stands beside a database alone is never left out in silence: by no name of it.
func TestUnpackRefusesWhatIsBeside(t *testing.T) {
	for _, suffix := range []string{"-wal", "-journal", besideSuffix, besideSuffix + "-wal", besideSuffix + "-journal"} {
		dir := t.TempDir()
		from, link, to := filepath.Join(dir, "x.db"), filepath.Join(dir, "link"), filepath.Join(dir, "to")
		if err := errors.Join(os.WriteFile(from, []byte("rows"), 0o600), os.Symlink(from, link), os.WriteFile(from+suffix, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := Unpack(from, to); err != nil {
			t.Errorf("an empty %s: %v", suffix, err)
		}
		if err := errors.Join(os.Remove(to), os.WriteFile(from+suffix, []byte("more"), 0o600)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{from, link} {
			if err := Unpack(name, to); !errors.Is(err, engine.ErrLogBeside) {
				t.Errorf("%s with %s: %v", name, suffix, err)
			}
			if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s with %s has left a file: %v", name, suffix, err)
			}
		}
	}
}

// A FIFO, a folder and a device are no backups, and nobody waits for them.
func TestUnpackRefusesWhatIsNoFile(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{fifo, t.TempDir(), os.DevNull} {
		to := filepath.Join(t.TempDir(), "to")
		err := Unpack(from, to)
		if !errors.Is(err, schema.ErrForeign) || !strings.Contains(err.Error(), "it is not a regular file") {
			t.Errorf("%s: %v", from, err)
		}
		if _, err := os.Lstat(to); err == nil {
			t.Errorf("%s: something was written", from)
		}
	}
}
