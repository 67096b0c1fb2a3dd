package grantkeeper_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// asvsRows are how many rows each section of OWASP ASVS 5.0 chapter V10 has,
// and bestPractice the sections of RFC 9700 that ask for something.
var (
	asvsRows     = []int{2, 3, 5, 16, 5, 2, 3}
	bestPractice = append(strings.Fields("2.1 2.1.1 2.1.2 2.2.1 2.2.2 2.3 2.4 2.5 2.6"),
		strings.Fields("4.1 4.2 4.3 4.4 4.5 4.6 4.7 4.8 4.9 4.10 4.11 4.12 4.13 4.14 4.15 4.16 4.17")...)
	listRow   = regexp.MustCompile(`(?m)^\| (\d+(?:\.\d+)+) \|.*$`)
	listState = regexp.MustCompile(`^\| [0-9.]+ \| [^|]+ \| (kept|kept in part|kept but for [^|]+|kept at [^|]+|not kept|not here) \| [^|]{10,}\|$`)
	testName  = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	testFunc  = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(t \*testing\.T\)`)
)

// Each row of the lists in docs/threat-model.md is answered, once, and what is
// kept is held by a test that exists.
func TestListsOfTheThreatModel(t *testing.T) {
	var want []string
	for i, rows := range asvsRows {
		for row := range rows {
			want = append(want, fmt.Sprintf("10.%d.%d", i+1, row+1))
		}
	}
	want = append(want, bestPractice...)
	doc := read(t, "docs/threat-model.md")
	var got []string
	for _, m := range listRow.FindAllStringSubmatch(doc, -1) {
		got = append(got, m[1])
		state := listState.FindStringSubmatch(m[0])
		if state == nil {
			t.Errorf("row %s does not say whether it is kept, and by what: %s", m[1], m[0])
		} else if strings.HasPrefix(state[1], "kept") && !testName.MatchString(m[0]) {
			t.Errorf("row %s is kept by no test", m[1])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the rows are\n%v\nwant\n%v", got, want)
	}

	exists := map[string]bool{}
	for _, name := range goFiles(t, os.DirFS(".")) {
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range testFunc.FindAllStringSubmatch(read(t, name), -1) {
				exists[m[1]] = true
			}
		}
	}
	for _, m := range testName.FindAllStringSubmatch(doc, -1) {
		if !exists[m[1]] {
			t.Errorf("docs/threat-model.md names %s, and there is no such test", m[1])
		}
	}
}

// walked is a file of a walk, with the function to begin with where one is named.
var walked = regexp.MustCompile("`([a-z/]+\\.go)`(?:\\s+\\(`(\\w+)`(?:, then `(\\w+)`)?)?")

// The walks of docs/architecture.md go through files and functions that are there.
func TestWalksGoThroughWhatIsThere(t *testing.T) {
	doc := read(t, "docs/architecture.md")
	for _, m := range regexp.MustCompile("`([a-z_]+(?:/[a-z_]+)*/?[a-z_0-9]*\\.go)`").FindAllStringSubmatch(doc, -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("docs/architecture.md: %v", err)
		}
	}
	_, walks, _ := strings.Cut(doc, "\n## Five requests")
	walks, _, _ = strings.Cut(walks, "\n## ")
	found := walked.FindAllStringSubmatch(walks, -1)
	if len(found) < 50 {
		t.Fatalf("%d files named", len(found))
	}
	for _, m := range found {
		text, err := os.ReadFile(m[1])
		if err != nil {
			t.Error(err)
			continue
		}
		for _, name := range m[2:] {
			if name != "" && !regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type )`+name+`\b`).Match(text) {
				t.Errorf("%s has no %s", m[1], name)
			}
		}
	}
}
