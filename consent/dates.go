package consent

import (
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// A moment is a time as people read it, in the zone of now. How it is said depends
// on the language, see words.moment.
type moment struct {
	time  time.Time
	now   time.Time
	style style
}

// style is how much of a moment is said.
type style int

const (
	day     style = iota // 21 November 2026
	dayTime              // the day, in a word when it is today's, and the time
	since                // how long ago it was today, else the day
	use                  // how many days ago, or today and the time
)

// on gives a day, such as 21 November 2026.
func on(unix int64, now time.Time) moment { return momentOf(unix, now, day) }

// at gives a day and a time, the day in a word when it is today's.
func at(unix int64, now time.Time) moment { return momentOf(unix, now, dayTime) }

// ago gives how long a moment of today has passed, and an earlier one as a day.
func ago(unix int64, now time.Time) moment { return momentOf(unix, now, since) }

// used gives the time of an app's last use.
func used(unix int64, now time.Time) moment { return momentOf(unix, now, use) }

func momentOf(unix int64, now time.Time, how style) moment {
	return moment{time.Unix(unix, 0).In(now.Location()), now, how}
}

// Machine is for <time datetime>.
func (m moment) Machine() string {
	if m.style == day || m.style == since && !sameDay(m.time, m.now) {
		return m.time.Format(time.DateOnly)
	}
	return m.time.Format(time.RFC3339)
}

func (w *words) moment(m moment) string {
	clock, passed := plain(m.time.Format("15:04")), m.now.Sub(m.time)
	switch days := int(passed / (24 * time.Hour)); {
	case m.style == day || m.style == since && !sameDay(m.time, m.now):
		return w.day(m.time)
	case m.style == since && passed < time.Minute:
		return w.say("date.now").String()
	case m.style == since && passed < time.Hour:
		return w.say("date.minutes", "n", int(passed/time.Minute)).String()
	case m.style == since:
		return w.say("date.hours", "n", int(passed/time.Hour)).String()
	case sameDay(m.time, m.now):
		return w.say("date.today", "time", clock).String()
	case m.style == use && days > 0:
		return w.say("date.days", "n", days).String()
	}
	return w.say("date.at", "day", plain(w.day(m.time)), "time", clock).String()
}

// day says a date with its month's name.
func (w *words) day(t time.Time) string {
	month := w.say("date.month." + strconv.Itoa(int(t.Month())))
	return w.say("date.day", "n", t.Day(), "month", plain(month.String()), "year", plain(strconv.Itoa(t.Year()))).String()
}

func daysSince(unix int64, now time.Time) int {
	return int(now.Sub(time.Unix(unix, 0)) / (24 * time.Hour))
}

// sameDay compares days of now's zone.
func sameDay(t, now time.Time) bool {
	return t.In(now.Location()).Format(time.DateOnly) == now.Format(time.DateOnly)
}

// alone says a moment that stands by itself, as in a cell of a table.
func (w *words) alone(m moment) string {
	text := w.moment(m)
	first, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[n:]
}
