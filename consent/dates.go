package consent

import (
	"fmt"
	"time"
)

// A moment is a time as people read it, in UTC. Machine is for <time datetime>.
type moment struct {
	Text    string
	Machine string
}

// on gives a day, such as 21 November 2026.
func on(unix int64) moment {
	t := time.Unix(unix, 0).UTC()
	return moment{t.Format("2 January 2006"), t.Format("2006-01-02")}
}

// at gives a day and a time, the day in a word when it is today's.
func at(unix int64, now time.Time) moment {
	t := time.Unix(unix, 0).UTC()
	text := t.Format("on 2 January 2006 at 15:04 UTC")
	if sameDay(t, now) {
		text = t.Format("today at 15:04 UTC")
	}
	return moment{text, t.Format(time.RFC3339)}
}

// ago gives how long a moment of today has passed, and an earlier one as a day.
func ago(unix int64, now time.Time) moment {
	t := time.Unix(unix, 0).UTC()
	m := moment{Machine: t.Format(time.RFC3339)}
	since := now.Sub(t)
	switch {
	case !sameDay(t, now):
		m = on(unix)
	case since < time.Minute:
		m.Text = "Today, just now"
	case since < time.Hour:
		m.Text = "Today, " + count(int(since/time.Minute), "1 minute ago", "%d minutes ago")
	default:
		m.Text = "Today, " + count(int(since/time.Hour), "1 hour ago", "%d hours ago")
	}
	return m
}

// used gives the time of an app's last use.
func used(unix int64, now time.Time) moment {
	m := at(unix, now)
	if days := daysSince(unix, now); days > 0 && m.Text[:2] == "on" {
		m.Text = count(days, "1 day ago", "%d days ago")
	}
	return m
}

func daysSince(unix int64, now time.Time) int {
	return int(now.Sub(time.Unix(unix, 0)) / (24 * time.Hour))
}

func sameDay(t, now time.Time) bool {
	return t.UTC().Format(time.DateOnly) == now.UTC().Format(time.DateOnly)
}

// count gives the form of a message that goes with a number.
func count(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(many, n)
}
