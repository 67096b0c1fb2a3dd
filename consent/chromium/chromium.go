// Package chromium starts the browser of tests.
package chromium

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"
)

// Start gives the first tab of a browser of the test's own, which ends with the test.
// Chromium dies now and then while it starts, before it has seen a page: it gets
// three attempts.
func Start(t testing.TB, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	path, err := browser()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir())}
		for _, flag := range []string{"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
			"disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage", "ignore-certificate-errors"} {
			options = append(options, chromedp.Flag(flag, true))
		}
		allocator, stop := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
		tab, closeTab := chromedp.NewContext(allocator)
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

// Still is for who looks at pages and presses nothing: frames cost less, and what waits for one,
// as the focus of a new page does, may wait for ever.
var Still = chromedp.Flag("disable-threaded-compositing", true)

// browser gives the path of Chromium, of the one that has no window where there is one: it
// does the same with four fifths of the work.
func browser() (path string, err error) {
	for _, name := range []string{"chromium-headless-shell", "chromium"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("the browser tests need chromium: run scripts/setup-debian.sh (%w)", err)
}

// Press presses what selectors of CSS find, one after the other, each once it can be seen.
// A page's script may have put another element in the place of one that was found: it was
// not pressed then, and is looked for again.
func Press(tab context.Context, all ...string) error {
	for _, css := range all {
		err := errGone
		for errors.Is(err, errGone) && tab.Err() == nil {
			err = chromedp.Do(tab, chromedp.ScrollIntoView(chromedp.CSS(css)), chromedp.Click(chromedp.CSS(css)))
			if err != nil && gone.MatchString(err.Error()) {
				err = errGone
			}
		}
		if err != nil {
			return fmt.Errorf("press %s: %w", css, err)
		}
	}
	return nil
}

var (
	errGone = errors.New("it is gone")
	gone    = regexp.MustCompile(`Could not find node with given id|No node with given id found|Node is detached from document`)
)
