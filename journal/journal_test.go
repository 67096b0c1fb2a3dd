package journal_test

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/journal"
)

func TestMeanings(t *testing.T) {
	kinds, words := map[journal.Kind]bool{}, map[string]bool{}
	for _, m := range journal.Meanings {
		if kinds[m.Kind] || words[m.Words] || m.Words == "" || m.Says == "" {
			t.Errorf("%s is there twice, or says nothing: %+v", m.Kind, m)
		}
		kinds[m.Kind], words[m.Words] = true, true
		if got := journal.Of(m.Kind); got != m {
			t.Errorf("%s means %+v", m.Kind, got)
		}
	}
	for _, k := range journal.Notable() {
		if journal.Of(k).Tone == journal.Plain {
			t.Errorf("%s is notable and plain", k)
		}
	}
	if n := len(journal.Notable()); n != 9 {
		t.Errorf("%d kinds are notable", n)
	}
	if got := journal.Of("unknown"); got != (journal.Meaning{Kind: "unknown"}) {
		t.Errorf("an unknown kind means %+v", got)
	}
}
