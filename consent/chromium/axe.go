package chromium

import (
	"os"
	"path/filepath"
	"testing"
)

// axeVersion is what scripts/axe.sh fetches.
const axeVersion = "4.14.1"

// What axe-core is asked for, as its option runOnly has it: case UX-1, and of it what depends on
// colours.
const (
	EveryRule = `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`
	Colours   = `{type: "rule", values: ["color-contrast", "link-in-text-block"]}`
)

// Axe gives the code of axe-core.
func Axe(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(filepath.Join(cache, "grantkeeper", "axe-"+axeVersion+".min.js"))
	if err != nil {
		t.Fatalf("the browser tests need axe-core: run scripts/setup-debian.sh (%v)", err)
	}
	return string(code)
}
