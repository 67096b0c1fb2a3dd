package attempt_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/grantkeeper/grantkeeper/attempt"
)

// docs/attempts.md has the table of reasons, in its order and words.
func TestDocsHaveTheReasons(t *testing.T) {
	doc, err := os.ReadFile("../docs/attempts.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, c := range Causes {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", c.Code, c.Says, c.Do, c.Who)
	}
	if !strings.Contains(string(doc), "\n|---|---|---|---|\n"+table.String()+"\n") {
		t.Errorf("docs/attempts.md does not have this table:\n%s", table.String())
	}
	for p := range PatternWords {
		if !strings.Contains(string(doc), "`"+string(p)+"`") {
			t.Errorf("docs/attempts.md does not name %s", p)
		}
	}
}
