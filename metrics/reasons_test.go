package metrics

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
)

// Decision J2: every reason for which an approval ends is counted under a word of its
// own, from the start, and docs/monitoring.md has it.
func TestReasonsOfEnds(t *testing.T) {
	doc, err := os.ReadFile("../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(doc), "| `approvals_ended_total` |")
	row, _, _ = strings.Cut(row, "\n")
	words := map[string]approval.Reason{}
	for _, r := range slices.Concat(approval.Reasons, []approval.Reason{"drill"}) {
		word := endReasons[r]
		switch {
		case word == "":
			t.Errorf("%s is not counted under a word of its own", r)
			continue
		case words[word] != "":
			t.Errorf("%s and %s are both counted as %s", words[word], r, word)
		case !strings.Contains(row, "`"+word+"`"):
			t.Errorf("docs/monitoring.md does not have %s, of %s", word, r)
		}
		words[word] = r
	}
	if len(endReasons) != len(words) {
		t.Errorf("%d words, want %d: one is of no reason", len(endReasons), len(words))
	}
	if told := strings.Count(row, "`") / 2; told != len(words)+1 { // and that of the label
		t.Errorf("docs/monitoring.md has %d words, want %d", told-1, len(words))
	}
}
