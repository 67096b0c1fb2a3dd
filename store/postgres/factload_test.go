package postgres

import (
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/facts"
)

// A key that names no hash forgets none, whatever a row or another node says.
func TestNamesOfAPIKeys(t *testing.T) {
	hash := facts.APIKeyGone{1, 2, 3}
	_, good := hash.Row()
	for _, key := range []string{"", "x", "01", good[1:], good + "00", good + good, strings.Repeat("z", 64)} {
		if got := apiKeyGone(key); got != (facts.APIKeyGone{}) {
			t.Errorf("%q forgets %v", key, got)
		}
	}
	if got := apiKeyGone(good); got != hash {
		t.Errorf("%q forgets %v", good, got)
	}
}
