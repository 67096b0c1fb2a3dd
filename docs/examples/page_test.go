package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The pages show code that is compiled and run: each of their blocks stands so
// in a file of the examples, but those inside a list. JSON is JSON. The quick start
// leads to its files, and package e2e runs its commands.
func TestThePagesShowTheExamples(t *testing.T) {
	quick, err := os.ReadFile("../quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	page := regexp.MustCompile("(?ms)^```sh\n.*?^```").ReplaceAll(quick, nil)
	for _, name := range []string{"../connecting.md", "../integrating.md", "../signin.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		page = append(page, text...)
	}
	files := map[string]string{}
	for _, pattern := range []string{"*", "*/*"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if b, err := os.ReadFile(name); err == nil && name != "page_test.go" && !strings.HasSuffix(name, "main_test.go") {
				files[name] = string(b)
			}
		}
	}
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`\]\(examples/([^)#]*)\)`).FindAllSubmatch(quick, -1) {
		found[string(m[1])] = true
	}
	for _, m := range regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```").FindAllStringSubmatch(string(page), -1) {
		if m[1] == "json" {
			if !json.Valid([]byte(m[2])) {
				t.Errorf("not JSON:\n%s", m[2])
			}
			continue
		}
		shown := false
		for name, text := range files {
			if strings.Contains(text, m[2]) {
				shown, found[name] = true, true
			}
		}
		if !shown {
			t.Errorf("no file has this:\n%s", m[2])
		}
	}
	for name := range files {
		if !found[name] {
			t.Errorf("the page shows nothing of %s", name)
		}
	}
	for _, m := range regexp.MustCompile(`\]\((examples[^)#]*)\)`).FindAllStringSubmatch(string(page), -1) {
		if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
			t.Errorf("a link leads nowhere: %v", err)
		}
	}
}
