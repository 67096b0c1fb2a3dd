package chromium

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A browser that dies twice while it starts is started again.
func TestStart(t *testing.T) {
	path, err := browser()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	deaths := filepath.Join(dir, "deaths")
	script := "#!/bin/sh\n[ \"$(cat " + deaths + ")\" = 11 ] && exec " + path + " \"$@\"\nprintf 1 >>" + deaths + "\necho no luck >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	said, err := chromedp.Run(Start(t), chromedp.Evaluate[string]("navigator.userAgent"))
	if err != nil || !strings.Contains(said, "Chrome") {
		t.Errorf("%q, %v", said, err)
	}
	if died, err := os.ReadFile(deaths); string(died) != "11" {
		t.Errorf("died %q, %v", died, err)
	}
}
