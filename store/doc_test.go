package store

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testRooms hold what tests alone import.
var testRooms = []string{"enginetest", "pgtest", "simulate"}

// sources are the files of the store, and of the rooms that its statements lie in, but
// for tests.
func sources(t *testing.T) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*.go", "*/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			if !strings.HasSuffix(name, "_test.go") && !slices.Contains(testRooms, filepath.Dir(name)) {
				names = append(names, name)
			}
		}
	}
	if len(names) < 70 {
		t.Fatalf("%d files: this test looks at something else", len(names))
	}
	return names
}

// The order in which to read the package names no file that is gone.
func TestReadingOrder(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?:\b[a-z]+/)?\b[a-z]+\.go\b|\bschema/[\w.]+\.sql\b`).FindAllString(string(doc), -1)
	if len(names) < 50 {
		t.Errorf("%d files named: this test looks at something else", len(names))
	}
	for _, name := range names {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}
