package consent

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html/atom"
)

// What a cookie may ask for: names of the tz database, and nothing else.
func TestZoneOf(t *testing.T) {
	for name, want := range map[string]string{
		"Europe/Oslo": "Europe/Oslo", "America/Argentina/Buenos_Aires": "America/Argentina/Buenos_Aires", "Etc/GMT+5": "Etc/GMT+5", "UTC": "UTC",
		"Asia/Calcutta": "Asia/Calcutta", "America/Port-au-Prince": "America/Port-au-Prince", "Etc/GMT-14": "Etc/GMT-14",
		"": "UTC", "Local": "UTC", "Europe/Nowhere": "UTC", "Europe": "UTC", "../etc/passwd": "UTC", "Europe/../Europe/Oslo": "UTC",
		"/etc/localtime": "UTC", "/Europe/Oslo": "UTC", "Europe/": "UTC", "Europe//Oslo": "UTC", "europe/oslo": "UTC", "posix/Europe/Oslo": "UTC",
		"right/Europe/Oslo": "UTC", "zone.tab": "UTC", "Europe/Oslo\x00": "UTC", "Europe/Oslo\n": "UTC", "Europe/Oslo/": "UTC", `Europe\Oslo`: "UTC",
		"<b>": "UTC", "A/B/C/D": "UTC", strings.Repeat("A", 100): "UTC", "A" + strings.Repeat("a", 31) + "/A" + strings.Repeat("a", 31): "UTC",
	} {
		if got := zoneOf(name).String(); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

func FuzzZone(f *testing.F) {
	for _, seed := range []string{"Europe/Oslo", "Local", "..", "America/New_York", "GMT+0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		zone := zoneOf(name).String()
		if zone != "UTC" && zone != name {
			t.Errorf("%q: zone %q", name, zone)
		}
		if strings.ContainsAny(zone, ".\\<> \x00") || len(zone) > 98 {
			t.Errorf("%q leads to %q", name, zone)
		}
	})
}

// A day is one of the zone: neither the server's nor UTC's.
func TestMomentsOfAZone(t *testing.T) {
	now := time.Date(2026, 11, 24, 23, 30, 0, 0, time.UTC) // in Oslo the 25th
	for name, want := range map[string][4]string{
		"UTC":              {"24 November 2026", "today at 22:30", "Today at 22:30", "Today, 1 hour ago"},
		"Europe/Oslo":      {"24 November 2026", "on 24 November 2026 at 23:30", "On 24 November 2026 at 23:30", "24 November 2026"},
		"Asia/Tokyo":       {"25 November 2026", "today at 07:30", "Today at 07:30", "Today, 1 hour ago"},
		"America/New_York": {"24 November 2026", "today at 17:30", "Today at 17:30", "Today, 1 hour ago"},
	} {
		w, now := speaking("en"), now.In(zoneOf(name))
		at := at(now.Add(-time.Hour).Unix(), now)
		got := [4]string{w.moment(on(at.time.Unix(), now)), w.moment(at), w.alone(at), w.moment(ago(at.time.Unix(), now))}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if machine, err := time.Parse(time.RFC3339, at.Machine()); err != nil || machine.Unix() != at.time.Unix() {
			t.Errorf("%s: %q for machines: %v", name, at.Machine(), err)
		}
	}
	for tag, want := range map[string]string{"de": "Heute um 10:00", "fr": "Aujourd’hui à 10:00", "es": "Hoy a las 10:00", "nl": "Vandaag om 10:00", "ar": "اليوم الساعة 10:00"} {
		now := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
		if got := speaking(tag).alone(at(now.Unix(), now)); got != want {
			t.Errorf("%s: %q, want %q", tag, got, want)
		}
	}
}

// Pages say times in the zone of the browser that asks, and which that is once;
// what they say for one browser is kept for no other.
func TestZone(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	for cookie, want := range map[string][2]string{
		"": {"today at 10:00", "Times are in UTC."}, "Europe/Oslo": {"today at 11:00", "Times are in Europe/Oslo."},
		"America/New_York": {"today at 05:00", "Times are in America/New York."}, "../../etc/passwd": {"today at 10:00", "Times are in UTC."},
		strings.Repeat("Europe/", 1000) + "Oslo": {"today at 10:00", "Times are in UTC."},
	} {
		ada.cookies["__Host-zone"] = cookie
		p := ada.get("/account").want(200).says("Signed in "+want[0], want[1])
		if strings.Count(p.body, "Times are in") != 1 || strings.Count(p.body, "UTC") > 1 {
			t.Errorf("cookie %.40q: the zone is not said once", cookie)
		}
		if got := p.header; got.Get("Cache-Control") != "no-store" || !strings.Contains(got.Get("Vary"), "Cookie") {
			t.Errorf("may be kept: %v", got)
		}
	}
	for _, path := range []string{"/", nordlysApps, nordlysSettings, "/account/sign-in", authorize(), "/nowhere"} {
		ada.cookies["__Host-zone"] = "Asia/Tokyo"
		ada.get(path).says("Times are in Asia/Tokyo.")
	}
	b := s.browser()
	if p := b.get("/signin").want(200); strings.Contains(p.body, "Times are in") {
		t.Error("a page without times says their zone")
	}
	if p := ada.get("/account"); len(p.all(atom.Script)) != 1 || !strings.HasPrefix(attr(p.all(atom.Script)[0], "src"), "/assets/zone.") {
		t.Error("no script tells the zone")
	}
}

// The script tells the zone once, to this host alone; what is said follows on the next page.
func TestZoneInBrowser(t *testing.T) {
	c := newChrome(t)
	b := c.tab(t)
	b.in("Asia/Kolkata")
	check := b.quiet()
	b.open(c.base + "/account")
	b.signIn()
	b.run(chromedp.WaitVisible(chromedp.ID("sessions")))
	b.until(`document.body.innerText.includes("Times are in Asia/")`)
	b.until(`document.cookie.split("; ").filter(c => c.startsWith("zone=Asia/")).length === 1`)
	b.in("Europe/Oslo")
	b.open(c.base + "/account")
	b.open(c.base + "/account")
	b.until(`document.body.innerText.includes("Times are in Europe/Oslo.")`)
	check()
}

func (b *tab) in(zone string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone}); err != nil {
		b.t.Fatal(err)
	}
}
