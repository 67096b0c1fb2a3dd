package store

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

var createdTable = regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`)

// Every table of the schema, on both engines, has its row in the document that says
// what a past state brings back: a new table is thought about before it is there.
func TestEveryTableSaysWhatAPastStateBringsBack(t *testing.T) {
	doc, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "### What a past state brings back")
	section, _, _ = strings.Cut(section, "\n## ")
	files, err := fs.Glob(schemaFiles, "schema/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]bool{}
	for _, name := range files {
		text, err := fs.ReadFile(schemaFiles, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range createdTable.FindAllStringSubmatch(string(text), -1) {
			tables[m[1]] = true
			if !strings.Contains(section, "\n| `"+m[1]+"` |") {
				t.Errorf("%s: %s has no row", name, m[1])
			}
		}
	}
	for _, line := range strings.Split(section, "\n") {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); ok && !tables[name] {
			t.Errorf("%s: no such table", name)
		}
	}
	if len(tables) < 20 {
		t.Errorf("%d tables: this test looks at something else", len(tables))
	}
}
