package console

import (
	"fmt"
	"net/http"
	"time"

	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/page"
)

// zoneOf is the zone of the reader, which the pages' script tells by a cookie; UTC
// without one.
func zoneOf(r *http.Request) *time.Location {
	for _, name := range []string{"__Host-zone", "zone"} {
		if c, err := r.Cookie(name); err == nil {
			return page.ZoneOf(c.Value)
		}
	}
	return time.UTC
}

// A moment is a time as pages show it, in the zone of now. Machine is for <time datetime>.
type moment struct{ Text, Machine string }

func newMoment(text string, t time.Time) moment {
	return moment{text, t.UTC().Format(time.RFC3339)}
}

// onDay is a time of today or yesterday, and the date of an earlier day.
func onDay(unix int64, now time.Time) moment {
	t := time.Unix(unix, 0).In(now.Location())
	switch {
	case sameDay(t, now):
		return newMoment(t.Format("today 15:04"), t)
	case sameDay(t, now.AddDate(0, 0, -1)):
		return newMoment(t.Format("yesterday 15:04"), t)
	}
	return newMoment(t.Format("2 Jan 2006"), t)
}

// atSecond is a time to the second.
func atSecond(unix int64, now time.Time) moment {
	t := time.Unix(unix, 0).In(now.Location())
	return newMoment(t.Format("2 Jan 2006 15:04:05"), t)
}

// lastUsed is a last use, which the store keeps to the hour; 0 is never.
func lastUsed(unix int64, now time.Time) moment {
	if unix == 0 {
		return moment{Text: "never"}
	}
	t := time.Unix(unix, 0).UTC()
	since := now.Sub(t)
	switch {
	case since < time.Hour:
		return newMoment("in this hour", t)
	case since < 48*time.Hour:
		return newMoment(operator.Count(int(since/time.Hour), "1 hour ago", "%s hours ago"), t)
	}
	return newMoment(operator.Count(int(since/(24*time.Hour)), "1 day ago", "%s days ago"), t)
}

func sameDay(a, b time.Time) bool { return a.Format(time.DateOnly) == b.Format(time.DateOnly) }

// A span is a range of time that the overview and the events can show.
type span struct {
	Name  string // in the address
	Words string
	bar   time.Duration
	bars  int
}

var spans = []span{
	{"1h", "1 hour", 3 * time.Minute, 20},
	{"24h", "24 hours", time.Hour, 24},
	{"7d", "7 days", 6 * time.Hour, 28},
	{"30d", "30 days", 24 * time.Hour, 30},
}

// spanNamed returns the span of the parameter range, by default the day.
func spanNamed(name string) (span, error) {
	if name == "" {
		name = "24h"
	}
	for _, s := range spans {
		if s.Name == name {
			return s, nil
		}
	}
	return span{}, operator.BadRequest("range: one of 1h, 24h, 7d, 30d")
}

// Short is the text of the link: 24 h.
func (s span) Short() string {
	n := len(s.Name) - 1
	return s.Name[:n] + " " + s.Name[n:]
}

func (s span) length() time.Duration { return s.bar * time.Duration(s.bars) }

// begin is where the first bar begins, in Unix seconds: each bar begins at a
// multiple of its length, and the last bar is not over yet.
func (s span) begin(now time.Time) int64 {
	length := int64(s.bar / time.Second)
	return (now.Unix()/length - int64(s.bars) + 1) * length
}

// label is the text for the beginning of a bar, in a zone.
func (s span) label(unix int64, zone *time.Location) string {
	t := time.Unix(unix, 0).In(zone)
	if s.bar >= 24*time.Hour {
		return t.Format("2 Jan")
	}
	if s.length() > 24*time.Hour {
		return t.Format("2 Jan 15:04")
	}
	return t.Format("15:04")
}

// unit is the length of a bar.
func (s span) unit() string {
	switch s.bar {
	case time.Hour:
		return "h"
	case 24 * time.Hour:
		return "day"
	}
	if s.bar < time.Hour {
		return fmt.Sprintf("%d min", int(s.bar/time.Minute))
	}
	return fmt.Sprintf("%d h", int(s.bar/time.Hour))
}
