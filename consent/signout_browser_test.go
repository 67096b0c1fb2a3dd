package consent

import (
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// Whoever comes to the browser after somebody has signed out finds nothing of
// theirs by going back, over https and on this machine alike.
func TestBackAfterSigningOut(t *testing.T) {
	c := newChrome(t)
	https := httptest.NewTLSServer(c.Answers)
	t.Cleanup(https.Close)
	for _, base := range []string{c.At, https.URL} {
		c.At = base
		b := c.tab(t)
		check := b.quiet()
		b.open(c.At + pagetest.NordlysApps)
		b.signIn()
		b.run(chromedp.WaitVisible(chromedp.ID("connected")))
		b.signOut()
		b.run(chromedp.WaitVisible(chromedp.ID("password")))
		b.eval("setTimeout(() => history.back())") // this page may not live to answer
		b.until("!document.getElementById('password') || performance.getEntriesByType('navigation')[0].type === 'back_forward'")
		b.until("document.readyState === 'complete'")
		b.want("document.getElementById('password') !== null && !document.body.textContent.includes('Ada')")
		check()
	}
}
