package store

import (
	"os"
	"regexp"
	"testing"
)

// The order in which to read the package names no file that is gone.
func TestReadingOrder(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\b[a-z]+\.go\b|\bschema/[\w.]+\.sql\b`).FindAllString(string(doc), -1)
	if len(names) < 50 {
		t.Errorf("%d files named: this test looks at something else", len(names))
	}
	for _, name := range names {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}
