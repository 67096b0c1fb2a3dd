// Package limit says how many requests may come, from whom, in what window.
//
// [Addresses] counts requests for each client address, [Names] for each
// organization or account. Both keep an exact sliding window: never more than
// N in any window, not in any calendar minute (decision L1). [Proxies] tells
// whose request it is, and [Networks] which addresses an operator gave more.
package limit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Limit lets at most N requests through in any Window.
type Limit struct {
	N      int           // requests, at least 1
	Window time.Duration // at least a second
}

// The contract's limits, each per client address (spec section 8). They are not
// settings, so that every installation keeps the contract (decision L3).
var (
	Authorize = Limit{N: 150, Window: 10 * time.Minute} // every request to /oauth/authorize, and to what leads on from there
	Token     = Limit{N: 300, Window: 10 * time.Minute} // /oauth/token and /oauth/revoke, counted together
	Register  = Limit{N: 20, Window: time.Hour}         // registrations, refused ones included
)

// API is the default for one organization's calls, with API keys and with OAuth
// together (decision B6). The contract leaves the number open (spec section 8).
var API = Limit{N: 3000, Window: 10 * time.Minute}

// What ParseLimit takes at most. A remembered request costs five bytes, so the
// most generous limit may cost five megabytes for each name that uses it up.
const (
	maxN      = 1_000_000
	maxWindow = 24 * time.Hour
)

// ParseLimit reads the form that settings have: requests, a slash and a time in
// whole seconds, such as 3000/10m. At most 1000000 requests and 24h.
func ParseLimit(s string) (Limit, error) {
	count, window, found := strings.Cut(s, "/")
	if !found {
		return Limit{}, fmt.Errorf("limit %q: want requests and a time, such as 3000/10m", s)
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > maxN || strconv.Itoa(n) != count {
		return Limit{}, fmt.Errorf("limit %q: %q is not a number of requests from 1 to %d", s, count, maxN)
	}
	w, err := time.ParseDuration(window)
	if err != nil {
		return Limit{}, fmt.Errorf("limit %q: %q is not a time such as 30s, 10m or 1h", s, window)
	}
	if w < time.Second || w > maxWindow || w%time.Second != 0 {
		return Limit{}, fmt.Errorf("limit %q: the time must be whole seconds from 1s to 24h", s)
	}
	return Limit{N: n, Window: w}, nil
}

// String is the form that ParseLimit reads.
func (l Limit) String() string {
	w := l.Window.String()
	if strings.HasSuffix(w, "m0s") {
		w = strings.TrimSuffix(w, "0s")
	}
	if strings.HasSuffix(w, "h0m") {
		w = strings.TrimSuffix(w, "0m")
	}
	return strconv.Itoa(l.N) + "/" + w
}
