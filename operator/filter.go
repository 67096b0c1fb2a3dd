package operator

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/store"
)

// A page of a list has defaultItems, unless the filter asks for up to MaxItems.
const (
	defaultItems = 50
	MaxItems     = 1000
)

// Filter is the query of a list. An unknown parameter is an error, so that a
// misspelt filter does not return the whole list.
type Filter struct {
	values url.Values
	After  string
	Limit  int
}

func (c Call) Filter(names ...string) (Filter, error) {
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return Filter{}, BadRequest("the query is malformed")
	}
	names = append(names, "limit", "after")
	for name, v := range values {
		if !slices.Contains(names, name) {
			return Filter{}, BadRequest("unknown filter; known are " + strings.Join(names, ", "))
		}
		if len(v) != 1 {
			return Filter{}, BadRequest(name + ": it comes twice")
		}
		// No stored text has a control character, and a search for a text that
		// begins with NUL would match every text.
		if err := checkText(name, v[0], len(v[0])); err != nil {
			return Filter{}, err
		}
	}
	f := Filter{values: values, After: values.Get("after"), Limit: defaultItems}
	if v := values.Get("limit"); v != "" {
		f.Limit, err = strconv.Atoi(v)
		if err != nil || f.Limit < 1 || f.Limit > MaxItems {
			return Filter{}, BadRequest(fmt.Sprintf("limit: a number from 1 to %d", MaxItems))
		}
	}
	return f, nil
}

// CursorError replaces the store's error for a cursor that it did not make.
func (f Filter) CursorError(err error) error {
	if f.After != "" && errors.Is(err, store.ErrNotFound) {
		return BadRequest("after: not the next of this list")
	}
	return err
}

func (f Filter) Get(name string) string { return f.values.Get(name) }

// OneOf returns a parameter that has to be one of the known values, or "".
func (f Filter) OneOf(name string, known ...string) (string, error) {
	v := f.Get(name)
	if v != "" && !slices.Contains(known, v) {
		return "", BadRequest(name + ": one of " + strings.Join(known, ", "))
	}
	return v, nil
}

// time returns a parameter in Unix seconds, 0 where it was not sent. Its form is
// that of readTime.
func (f Filter) time(name string, now time.Time) (int64, error) {
	return readTime(name, f.Get(name), now)
}

// span returns the parameters since and until, each 0 where it was not sent.
func (f Filter) span(now time.Time) (since, until int64, err error) {
	return readSpan(f.Get("since"), f.Get("until"), now)
}

// readSpan reads a time from which, and one until when.
func readSpan(from, to string, now time.Time) (since, until int64, err error) {
	if since, err = readTime("since", from, now); err != nil {
		return 0, 0, err
	}
	if until, err = readTime("until", to, now); err != nil {
		return 0, 0, err
	}
	if until > 0 && since > until {
		return 0, 0, BadRequest("since: a time before until")
	}
	return since, until, nil
}

// readTime reads Unix seconds, RFC 3339 or how long ago, such as 24h or 7d, and
// returns Unix seconds; "" is 0.
func readTime(name, v string, now time.Time) (int64, error) {
	if v == "" {
		return 0, nil
	}
	if n, err := strconv.ParseInt(v, 10, 64); err == nil && n >= 0 {
		return max(n, 1), nil // 0 is a time too, and as one that was not sent it would be none
	}
	if t, err := time.Parse(time.RFC3339, v); err == nil && t.Unix() >= 0 {
		return max(t.Unix(), 1), nil
	}
	ago, ok := duration(v)
	if !ok {
		return 0, BadRequest(name + ": Unix seconds, a time such as 2026-11-21T09:00:00Z, or how long ago, such as 24h or 7d")
	}
	return max(now.Add(-ago).Unix(), 1), nil
}

// duration reads a duration of time.ParseDuration that is not negative, or days: 7d.
func duration(s string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 15)
		return time.Duration(n) * 24 * time.Hour, err == nil
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}
