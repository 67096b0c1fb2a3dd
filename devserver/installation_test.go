package devserver

import (
	"os"
	"path/filepath"
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
