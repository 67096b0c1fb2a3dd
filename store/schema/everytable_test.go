package schema

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var createdTable = regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`)

// Every table of the schema, on both engines, has its row in the two tables of the
// document that say what a restore, an import, a copy and a clock do to it: a new
// one is thought about before it is there.
func TestEveryTableSaysWhatAPastStateBringsBack(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := createdTables(t)
	for heading, cells := range map[string]int{"### What a past state brings back": 3, "### What else can happen to each table": 4} {
		_, section, _ := strings.Cut(string(doc), heading+"\n")
		section, _, _ = strings.Cut(section, "\n##")
		rows := map[string]int{}
		for line := range strings.Lines(section) {
			name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "| `"), "` | ")
			if !ok || !strings.HasPrefix(line, "| `") {
				continue
			}
			if rows[name]++; !tables[name] {
				t.Errorf("%s: no such table as %s", heading, name)
			}
			if got := strings.Split(strings.TrimSuffix(rest, " |"), " | "); len(got) != cells-1 || slices.Contains(got, "") {
				t.Errorf("%s: %s: cells %q", heading, name, got)
			}
		}
		for name := range tables {
			if rows[name] != 1 {
				t.Errorf("%s: %d rows of %s, want one that says what happens to it", heading, rows[name], name)
			}
		}
	}
}

// createdTables are those of the schema of either engine.
func createdTables(t *testing.T) map[string]bool {
	t.Helper()
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]bool{}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range createdTable.FindAllStringSubmatch(string(text), -1) {
			tables[m[1]] = true
		}
	}
	if len(tables) < 20 {
		t.Fatalf("%d tables: this test looks at something else", len(tables))
	}
	return tables
}
