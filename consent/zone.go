package consent

import (
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // zones are known where the system has none
)

// zoneName is what a cookie may ask for. Names of the tz database have at most
// three parts of at most 32 characters; everything else never comes near a file
// system: no dots, no path of its own, and not "Local", which is the server's.
var zoneName = regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]{1,31}(/[A-Z][A-Za-z0-9_+-]{0,31}){0,2}$`)

// zoneFor gives the zone in which times of a visit are said: the one that the
// browser told the pages' script, else UTC.
func zoneFor(v *visit) *time.Location {
	c, err := v.r.Cookie(cookieName(v, "zone"))
	if err != nil {
		return time.UTC
	}
	return zoneOf(c.Value)
}

// zoneOf gives the zone of a name that anybody may have written; what is none is UTC.
func zoneOf(name string) *time.Location {
	if name == "Local" || !zoneName.MatchString(name) {
		return time.UTC
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return zone
}

// zoneText is a zone's name for people: America/New York.
func zoneText(zone *time.Location) string { return strings.ReplaceAll(zone.String(), "_", " ") }
