package page

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones are known where the system has none
	"unicode"
	"unicode/utf8"
)

// A Moment is a time as people read it, in the zone of now. How it is said depends
// on the language, see Words.moment.
type Moment struct {
	time  time.Time
	now   time.Time
	style style
}

// style is how much of a moment is said.
type style int

const (
	day        style = iota // 21 November 2026
	dayTime                 // the day, in a word when it is today's, and the time
	since                   // how long ago it was today, else the day
	use                     // how many days ago, or today and the time
	clockAlone              // 09:41, under the heading of a day
	exact                   // the day and the time
)

// On gives a day, such as 21 November 2026.
func On(unix int64, now time.Time) Moment { return momentOf(unix, now, day) }

// At gives a day and a time, the day in a word when it is today's.
func At(unix int64, now time.Time) Moment { return momentOf(unix, now, dayTime) }

// Ago gives how long a moment of today has passed, and an earlier one as a day.
func Ago(unix int64, now time.Time) Moment { return momentOf(unix, now, since) }

// Used gives the time of an app's last use.
func Used(unix int64, now time.Time) Moment { return momentOf(unix, now, use) }

func clockAt(unix int64, now time.Time) Moment { return momentOf(unix, now, clockAlone) }
func exactAt(unix int64, now time.Time) Moment { return momentOf(unix, now, exact) }

// Day gives the moment's day.
func (m Moment) Day() Moment { return Moment{m.time, m.now, day} }

func momentOf(unix int64, now time.Time, how style) Moment {
	return Moment{time.Unix(unix, 0).In(now.Location()), now, how}
}

// Machine is for <time datetime>.
func (m Moment) Machine() string {
	if m.style == day || m.style == since && !sameDay(m.time, m.now) {
		return m.time.Format(time.DateOnly)
	}
	return m.time.Format(time.RFC3339)
}

func (w *Words) moment(m Moment) string {
	clock, passed := plain(m.time.Format("15:04")), m.now.Sub(m.time)
	switch days := int(passed / (24 * time.Hour)); {
	case m.style == clockAlone:
		return string(clock)
	case m.style == exact:
		return w.Say("date.exact", "day", plain(w.day(m.time)), "time", clock).String()
	case m.style == day || m.style == since && !sameDay(m.time, m.now):
		return w.day(m.time)
	case m.style == since && passed < time.Minute:
		return w.Say("date.now").String()
	case m.style == since && passed < time.Hour:
		return w.Say("date.minutes", "n", int(passed/time.Minute)).String()
	case m.style == since:
		return w.Say("date.hours", "n", int(passed/time.Hour)).String()
	case sameDay(m.time, m.now):
		return w.Say("date.today", "time", clock).String()
	case m.style == use && days > 0:
		return w.Say("date.days", "n", days).String()
	}
	return w.Say("date.at", "day", plain(w.day(m.time)), "time", clock).String()
}

// day says a date with its month's name.
func (w *Words) day(t time.Time) string {
	month := w.Say("date.month." + strconv.Itoa(int(t.Month())))
	return w.Say("date.day", "n", t.Day(), "month", plain(month.String()), "year", plain(strconv.Itoa(t.Year()))).String()
}

// DaysSince is how many whole days have passed.
func DaysSince(unix int64, now time.Time) int {
	return int(now.Sub(time.Unix(unix, 0)) / (24 * time.Hour))
}

// sameDay compares days of now's zone.
func sameDay(t, now time.Time) bool {
	return t.In(now.Location()).Format(time.DateOnly) == now.Format(time.DateOnly)
}

// alone says a moment that stands by itself, as in a cell of a table.
func (w *Words) alone(m Moment) string {
	text := w.moment(m)
	first, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[n:]
}

// zoneName is what a cookie may ask for. Names of the tz database have at most
// three parts of at most 32 characters; everything else never comes near a file
// system: no dots, no path of its own, and not "Local", which is the server's.
var zoneName = regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]{1,31}(/[A-Z][A-Za-z0-9_+-]{0,31}){0,2}$`)

// zoneFor gives the zone in which times of a visit are said: the one that the
// browser told the pages' script, else UTC.
func zoneFor(v *Visit) *time.Location {
	c, err := v.R.Cookie(cookieName(v, "zone"))
	if err != nil {
		return time.UTC
	}
	return ZoneOf(c.Value)
}

// ZoneOf gives the zone of a name that anybody may have written; what is none is UTC.
func ZoneOf(name string) *time.Location {
	if name == "Local" || !zoneName.MatchString(name) {
		return time.UTC
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return zone
}

// ZoneText is a zone's name for people: America/New York.
func ZoneText(zone *time.Location) string { return strings.ReplaceAll(zone.String(), "_", " ") }
