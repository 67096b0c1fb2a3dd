package database

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
)

// A name without a scheme is of a file with a URL: who meant a database of SQLite is told how
// that is written.
func TestPlaceOfAFileThatIsNotThere(t *testing.T) {
	name := filepath.Join(t.TempDir(), "new.db")
	_, err := PlaceOf("--to", name, config.Checked{})
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Code != fault.Config || e.What != "--to: there is no file "+name || !strings.HasSuffix(e.Hint, "; a database of SQLite is written --to sqlite:///path/to/file") {
		t.Errorf("%+v", e)
	}
	if at, err := PlaceOf("--to", "sqlite://"+name, config.Checked{}); err != nil || at.Path != name || IsFile("sqlite:"+name) || !IsFile(name) {
		t.Errorf("%+v, %v", at, err)
	}
}
