package page

import (
	"testing"
	"time"
)

// UX-13: hosts in full, in ASCII, the registrable part bold.
func TestHostOf(t *testing.T) {
	for uri, want := range map[string]Host{
		"https://connect.quill.example/callback":   {"connect.", "quill.example", "", false},
		"https://quill.example":                    {"", "quill.example", "", false},
		"https://a.b.c.quill.co.uk/x":              {"a.b.c.", "quill.co.uk", "", false},
		"https://quill.github.io/cb":               {"", "quill.github.io", "", false}, // the private section of the list
		"https://x.quill.github.io/cb":             {"x.", "quill.github.io", "", false},
		"https://co.uk/cb":                         {"", "co.uk", "", false}, // cannot be told
		"https://WWW.Quill.Example:443/":           {"www.", "quill.example", "", false},
		"https://www.quill.example:8443?x":         {"www.", "quill.example", ":8443", false},
		"https://xn--bcher-kva.example/":           {"", "xn--bcher-kva.example", "", false},
		"https://93.184.215.14/cb":                 {"", "93.184.215.14", "", false},
		"https://[2606:4700::1111]:8443/cb":        {"", "[2606:4700::1111]", ":8443", false},
		"http://127.0.0.1:8080/dev/client":         {"", "127.0.0.1", ":8080", false},
		"http://localhost:80/dev/client":           {"", "localhost", "", false},
		"https://svalinn.example.quill.example/cb": {"svalinn.example.", "quill.example", "", false},
	} {
		if got := HostOf(uri); got != want {
			t.Errorf("%s: %+v, want %+v", uri, got, want)
		}
	}
}

func TestInitial(t *testing.T) {
	for name, want := range map[string]string{
		"Quill": "Q", "élan": "É", "«Quill»": "Q", "\u0301a": "A", "🦉": "•", "": "Q", "ظل": "ظ", "7up": "7",
	} {
		if got := AppOf("", name, "https://quill.example/", false).Initial; got != want {
			t.Errorf("%q: initial %q, want %q", name, got, want)
		}
	}
}

func TestMoments(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	before := func(d time.Duration) int64 { return now.Add(-d).Unix() }
	for _, tt := range []struct {
		got  Moment
		want string
	}{
		{Ago(before(0), now), "Today, just now"},
		{Ago(before(-time.Minute), now), "Today, just now"},
		{Ago(before(time.Minute), now), "Today, 1 minute ago"},
		{Ago(before(3*time.Minute), now), "Today, 3 minutes ago"},
		{Ago(before(time.Hour), now), "Today, 1 hour ago"},
		{Ago(before(10*time.Hour), now), "Today, 10 hours ago"},
		{Ago(before(11*time.Hour), now), "20 November 2026"},
		{Ago(before(79*24*time.Hour), now), "3 September 2026"},
		{Used(before(19*time.Minute), now), "today at 09:41"},
		{Used(before(11*time.Hour), now), "on 20 November 2026 at 23:00"},
		{Used(before(24*time.Hour), now), "1 day ago"},
		{Used(before(96*24*time.Hour), now), "96 days ago"},
		{At(before(9*24*time.Hour), now), "on 12 November 2026 at 10:00"},
	} {
		if got := speaking("en").moment(tt.got); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
		if _, err := time.Parse(time.RFC3339, tt.got.Machine()); err != nil {
			if _, err := time.Parse(time.DateOnly, tt.got.Machine()); err != nil {
				t.Errorf("%q is no time for machines", tt.got.Machine())
			}
		}
	}
}
