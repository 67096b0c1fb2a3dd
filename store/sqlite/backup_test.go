package sqlite

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A copy that is moved away while it is made is not told as made: an empty file would be in
// its place.
func TestACopyThatIsMovedIsNotMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy.db")
	err := asOneFile(t.Context(), path, time.Time{})
	if _, there := os.Stat(path); err == nil || there == nil {
		t.Errorf("made: %v", err)
	}
}
