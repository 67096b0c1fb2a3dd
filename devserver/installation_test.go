package devserver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
)

// In a folder of init dev changes nothing; in one of its own it goes on.
func TestDevRefusesAnInstallation(t *testing.T) {
	for _, of := range []string{"grantkeeper.toml", "operator.password"} {
		data := t.TempDir()
		if err := os.WriteFile(filepath.Join(data, of), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := devKey(data); fault.CodeOf(err) != fault.State {
			t.Errorf("%s: %v", of, err)
		}
		if left, err := os.ReadDir(data); len(left) != 1 || err != nil {
			t.Errorf("%s: it has left %v, %v", of, left, err)
		}
	}
	data := t.TempDir()
	for range 2 {
		if _, err := devKey(data); err != nil {
			t.Errorf("its own: %v", err)
		}
	}
}

// What stands at the place of its key and is none is refused, with what to do about dev.
func TestDevKeyThatIsNone(t *testing.T) {
	for what, makeIt := range map[string]func(name string) error{
		"a folder":                  func(name string) error { return os.Mkdir(name, 0o700) },
		"a link that leads nowhere": func(name string) error { return os.Symlink(name+".gone", name) },
		"something else":            func(name string) error { return os.WriteFile(name, []byte("short\n"), 0o600) },
	} {
		name := filepath.Join(t.TempDir(), "secret.key")
		if err := makeIt(name); err != nil {
			t.Fatal(err)
		}
		_, err := devKey(filepath.Dir(name))
		if e, ok := errors.AsType[*fault.Error](err); !ok || !strings.Contains(e.What, name) || !strings.Contains(e.Hint, "dev makes new ones") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
