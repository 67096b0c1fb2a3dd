package page

import (
	"strings"
	"testing"
	"time"
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
		if got := ZoneOf(name).String(); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

func FuzzZone(f *testing.F) {
	for _, seed := range []string{"Europe/Oslo", "Local", "..", "America/New_York", "GMT+0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		zone := ZoneOf(name).String()
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
		w, now := speaking("en"), now.In(ZoneOf(name))
		at := At(now.Add(-time.Hour).Unix(), now)
		got := [4]string{w.moment(On(at.time.Unix(), now)), w.moment(at), w.alone(at), w.moment(Ago(at.time.Unix(), now))}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if machine, err := time.Parse(time.RFC3339, at.Machine()); err != nil || machine.Unix() != at.time.Unix() {
			t.Errorf("%s: %q for machines: %v", name, at.Machine(), err)
		}
	}
	for tag, want := range map[string]string{"de": "Heute um 10:00", "fr": "Aujourd’hui à 10:00", "es": "Hoy a las 10:00", "nl": "Vandaag om 10:00", "ar": "اليوم الساعة 10:00"} {
		now := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
		if got := speaking(tag).alone(At(now.Unix(), now)); got != want {
			t.Errorf("%s: %q, want %q", tag, got, want)
		}
	}
}
