// Package chromium starts the browser of tests.
package chromium

import (
	"context"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
)

// Start gives the first tab of a browser of the test's own, which ends with the test.
// Chromium dies now and then while it starts, before it has seen a page: it gets
// three attempts.
func Start(t testing.TB, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("the browser tests need chromium: run scripts/setup-debian.sh")
	}
	for range 3 {
		options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir())}
		for _, flag := range []string{"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
			"disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage", "ignore-certificate-errors"} {
			options = append(options, chromedp.Flag(flag, true))
		}
		browser, stop := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
		tab, closeTab := chromedp.NewContext(browser)
		if err = chromedp.Do(tab); err == nil {
			t.Cleanup(stop)
			t.Cleanup(closeTab)
			return tab
		}
		closeTab()
		stop()
		t.Log(err)
	}
	t.Fatal("chromium does not start")
	return nil
}
