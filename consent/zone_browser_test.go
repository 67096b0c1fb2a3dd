package consent

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// Pages say times in the zone of the browser that asks, and which that is once;
// what they say for one browser is kept for no other.
func TestZone(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	for cookie, want := range map[string][2]string{
		"": {"today at 10:00", "Times are in UTC."}, "Europe/Oslo": {"today at 11:00", "Times are in Europe/Oslo."},
		"America/New_York": {"today at 05:00", "Times are in America/New York."}, "../../etc/passwd": {"today at 10:00", "Times are in UTC."},
		strings.Repeat("Europe/", 1000) + "Oslo": {"today at 10:00", "Times are in UTC."},
	} {
		ada.Cookies["__Host-zone"] = cookie
		p := ada.Get("/account").Want(200).Says("Signed in "+want[0], want[1])
		if strings.Count(p.Body, "Times are in") != 1 || strings.Count(p.Body, "UTC") > 1 {
			t.Errorf("cookie %.40q: the zone is not said once", cookie)
		}
		if got := p.Header; got.Get("Cache-Control") != "no-store" || !strings.Contains(got.Get("Vary"), "Cookie") {
			t.Errorf("may be kept: %v", got)
		}
	}
	for _, path := range []string{"/", pagetest.NordlysApps, pagetest.NordlysSettings, "/account/sign-in", pagetest.Authorize(), "/nowhere"} {
		ada.Cookies["__Host-zone"] = "Asia/Tokyo"
		ada.Get(path).Says("Times are in Asia/Tokyo.")
	}
	b := s.Browser()
	if p := b.Get("/signin").Want(200); strings.Contains(p.Body, "Times are in") {
		t.Error("a page without times says their zone")
	}
	if p := ada.Get("/account"); len(p.All(atom.Script)) != 1 || !strings.HasPrefix(pagetest.Attr(p.All(atom.Script)[0], "src"), "/assets/zone.") {
		t.Error("no script tells the zone")
	}
}

// The script tells the zone once, to this host alone; what is said follows on the next page.
func TestZoneInBrowser(t *testing.T) {
	c := newChrome(t)
	b := c.tab(t)
	b.in("Asia/Kolkata")
	check := b.quiet()
	b.open(c.At + "/account")
	b.signIn()
	b.run(chromedp.WaitVisible(chromedp.ID("sessions")))
	b.until(`document.body.innerText.includes("Times are in Asia/")`)
	b.until(`document.cookie.split("; ").filter(c => c.startsWith("zone=Asia/")).length === 1`)
	b.in("Europe/Oslo")
	b.open(c.At + "/account")
	b.open(c.At + "/account")
	b.until(`document.body.innerText.includes("Times are in Europe/Oslo.")`)
	check()
}

func (b *tab) in(zone string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone}); err != nil {
		b.t.Fatal(err)
	}
}
